"""Requests that start no work: probes, model lists, and everything that is no endpoint.

Probes need no key.  Everything else is authenticated before it is told whether it exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.dialects.models import model_entry
from omnigate.errors import GatewayError
from omnigate.gateway import job_admission, own_usage, settle
from omnigate.gateway.headers import id_lines
from omnigate.gateway.job_paths import job_path
from omnigate.gateway.key_rules import MODELS as MODEL_LIST
from omnigate.text import quoted

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange

#: Probes, and whether they depend on a config snapshot.
PROBES = {"/healthz": False, "/livez": False, "/readyz": True}
#: The one answer that carries no request id: it says that the process runs, and nothing else.
_WITHOUT_ID = "/healthz"
MODELS = "/v1/models"
#: What Claude Code asks before anything else, without a key; a 404 lets it go on.
_HELLO = "/api/hello"
_ROOT = (
    b'{"name":"omnigate","api":["/v1/chat/completions","/v1/responses","/v1/messages","/v1/jobs"]}'
)
#: The methods of RFC 9110 §9 and RFC 5789: to be refused here, but not unknown.
_KNOWN_METHODS = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH")
)


def answer(exchange: Exchange) -> bool:
    """Answer a request that is for none of the endpoints that start work.

    :returns: whether the answer takes a while: :func:`ask` is then to be called once the request
        is complete.
    :raises GatewayError: for whatever cannot be answered.
    """
    path = exchange.target.path
    method = exchange.head.method
    reading = method in (b"GET", b"HEAD")
    if path in PROBES or path == "/":
        if not reading:
            raise _wrong_method(method, "GET, HEAD")
        _probe(exchange, path)
        return False
    if path == _HELLO and method == b"HEAD":
        raise GatewayError("not_found", "there is nothing here")
    if path == "/v1/responses" and reading and _wants_upgrade(exchange):
        # Codex tries a WebSocket first, and at 426 goes over to POST at once.
        raise GatewayError(
            "endpoint_not_supported",
            "WebSockets are not served here; use POST",
            headers=((b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")),
            status=426,
        )
    job = job_path(path)
    if job is not None:
        if method not in job.methods:
            exchange.authenticate()
            raise _wrong_method(method, job.allowed)
        return job_admission.begin(exchange, job)
    key = exchange.authenticate()
    if path in ENDPOINTS:
        raise _wrong_method(method, "POST")
    if path == own_usage.PATH:
        if not reading:
            raise _wrong_method(method, "GET, HEAD")
        if exchange.head.content_length:
            raise GatewayError("invalid_request", "this path takes no body")
        return True
    if path == MODELS or exchange.target.model_id is not None:
        if not reading:
            raise _wrong_method(method, "GET, HEAD")
        if key.rules is not None:
            key.rules.check_endpoint(MODEL_LIST)
        assert exchange.tables is not None
        tables = exchange.tables
        wanted = exchange.target.model_id
        created = exchange.plane.started_seconds
        if wanted is None:
            body = tables.model_list(key, exchange.protocol, created)
        elif tables.allows(key, wanted):
            body = model_entry(exchange.protocol, wanted, created)
        else:
            raise GatewayError(
                "model_not_found",
                f"no model {quoted(wanted)} for this key; GET /v1/models lists them",
            )
        exchange.will_send(body)
        settle.read(exchange, 200)
        exchange.answer(200, body)
        return False
    raise GatewayError("not_found", "there is no such endpoint; see /v1/models for a start")


def ask(exchange: Exchange) -> None:
    """Ask the control plane, where the answer is not here.

    :raises GatewayError: that cannot be done now.
    """
    asked = exchange.plane.own_usage
    if asked is None:
        raise GatewayError("not_found", "there is no control plane to ask here")
    asked.ask(exchange)


def _wants_upgrade(exchange: Exchange) -> bool:
    """Whether another protocol is asked for; in HTTP/1.0 that means nothing (RFC 9110 §7.8)."""
    return b"upgrade" in exchange.head.headers and not exchange.head.http10


def _probe(exchange: Exchange, path: str) -> None:
    """Probes are neither logged nor counted: they come each second, for ever."""
    plane = exchange.plane
    ids = b"" if path == _WITHOUT_ID else id_lines(exchange.id_bytes)
    if path == "/":
        exchange.response.whole(200, b"content-type: application/json\r\n%b" % ids, _ROOT)
        return
    reason = plane.unready() if PROBES[path] else None
    body = {"status": "ok"} if reason is None else {"status": "unavailable", "reason": reason}
    exchange.response.whole(
        200 if reason is None else 503,
        b"content-type: application/json\r\ncache-control: no-store\r\n%b" % ids
        + (b"" if reason is None else b"retry-after: 1\r\n"),
        msgspec.json.encode(body),
    )


def _wrong_method(method: bytes, allowed: str) -> GatewayError:
    """The refusal of a method: 501 where HTTP does not know it either (RFC 9110 §9.1)."""
    return GatewayError(
        "method_not_allowed",
        f"this path takes {allowed} only",
        headers=((b"allow", allowed.encode("ascii")),),
        status=None if method in _KNOWN_METHODS else 501,
    )
