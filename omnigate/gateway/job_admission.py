"""Lets requests of the jobs API in, or not, by their heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigate.errors import GatewayError
from omnigate.gateway.admission import too_fast, too_large, used_up
from omnigate.gateway.forward import Forward
from omnigate.gateway.job_paths import (
    FILES,
    JOBS,
    MAX_JOB_BODY_BYTES,
    RECEIPTS,
    JobPath,
    is_signed,
    request_lines,
)

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange


def begin(exchange: Exchange, job: JobPath) -> bool:
    """Judge the head of a request of the jobs API, and take a place for it.

    :returns: ``True``: :meth:`Forward.body_piece` is to be called.
    :raises GatewayError: it is not forwarded.
    """
    plane, head = exchange.plane, exchange.head
    forwards = plane.forwards
    if forwards is None:
        raise GatewayError("not_found", "there is no control plane to ask here")
    identity, ticket = "", None
    signed = job.kind == FILES and is_signed(exchange.target.query)
    if not (signed and _without_key(exchange)):
        key = exchange.authenticate()
        identity = key.sha256
        creates = job.creates and head.method == b"POST"
        if creates and key.blocked:
            raise used_up()
        if key.rules is not None and job.kind != RECEIPTS:
            key.rules.check_endpoint(JOBS)
        if head.method == b"POST":
            size = head.content_length
            is_too_large = size > MAX_JOB_BODY_BYTES
            ticket = plane.admission.enter(key.use, key.max_concurrent, 0 if is_too_large else size)
        try:
            if creates and key.bucket is not None:
                wait = key.bucket.take(plane.clock.seconds())
                if wait > 0.0:
                    raise too_fast(key.rpm, wait)
            if ticket is not None and is_too_large:
                raise too_large(size, MAX_JOB_BODY_BYTES)
        except GatewayError:
            if ticket is not None:
                ticket.release()
            raise
    try:
        if head.method != b"POST" and head.content_length:
            raise GatewayError("invalid_request", "this path takes no body with GET")
        lines = request_lines(head, job.kind, identity, exchange.id_bytes)
        place = forwards.enter(identity, ticket)
    except GatewayError:
        if ticket is not None:
            ticket.release()
        raise
    exchange.forward_to_control(Forward(exchange, forwards, job, lines), place)
    return True


def _without_key(exchange: Exchange) -> bool:
    """Whether no credential came with a request; where there is no config, nobody can tell one."""
    headers = exchange.head.headers
    return b"authorization" not in headers and b"x-api-key" not in headers
