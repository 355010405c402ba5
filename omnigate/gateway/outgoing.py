"""The request that goes to an upstream: the client's own bytes but for the named places.

A translated one has nothing of the client's but what it means.
"""

from __future__ import annotations

from omnigate.dialects.endpoints import Endpoint
from omnigate.gateway.headers import own_request_lines, request_lines
from omnigate.gateway.tables import Target
from omnigate.wire.head import RequestHead
from omnigate.wire.json_body import BodyScan
from omnigate.wire.json_splice import splice_request

#: Kinds of endpoints whose streams tell their usage only when asked to.
_TELL_WHEN_ASKED = ("chat", "completions")


def asks_for_usage(endpoint: Endpoint, scan: BodyScan) -> bool:
    """Whether the stream must be asked for its usage, since the client did not."""
    return scan.stream and endpoint.kind in _TELL_WHEN_ASKED and scan.include_usage is not True


def outgoing_request(
    target: Target, endpoint: Endpoint, head: RequestHead, query: bytes, body: bytes, scan: BodyScan
) -> bytes:
    """A whole request for an upstream of the protocol that the client speaks.

    :param head: the client's; only its header lines on the list go on.
    :param query: the client's, judged and passed on as it is.
    """
    upstream = target.upstream
    pieces = splice_request(body, scan, target.model_json, asks_for_usage(endpoint, scan))
    block = b"POST %b%b%b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n" % (
        upstream.path,
        endpoint.upstream_path,
        b"?" + query if query else b"",
        upstream.lines,
        request_lines(
            head,
            endpoint.protocol,
            upstream.config.anthropic_version,
            upstream.drop_betas,
        ),
        sum(map(len, pieces)),
    )
    return b"".join((block, *pieces))


def translated_request(target: Target, path: bytes, body: bytes) -> bytes:
    """A whole request for an upstream of a protocol that the client does not speak.

    :param path: what follows the ``/v1`` in which the upstream's base address ends.
    :param body: in the upstream's protocol.
    """
    upstream = target.upstream
    config = upstream.config
    return b"POST %b%b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n%b" % (
        upstream.path,
        path,
        upstream.lines,
        own_request_lines(config.protocol, config.anthropic_version),
        len(body),
        body,
    )
