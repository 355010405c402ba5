"""Which headers cross from one side to the other; all others stay where they are.

Neither the gateway key nor the provider's credential ever crosses over, and of a
provider's answer only retry hints, rate counters and request ids reach the client.
"""

from __future__ import annotations

import re

from omnigate.capabilities import DEFAULT_ANTHROPIC_VERSION
from omnigate.dialects.endpoints import ANTHROPIC
from omnigate.dialects.strike import strike
from omnigate.wire.content_coding import is_readable
from omnigate.wire.head import RequestHead, ResponseHead

#: Of a client's request, to an upstream of the same protocol.
_ANTHROPIC_REQUEST = (b"anthropic-version", b"anthropic-beta")
_OPENAI_REQUEST = (b"openai-beta",)

#: All of a client's headers that can reach an upstream, and so change its answer.
PASSED_ON = (*_ANTHROPIC_REQUEST, *_OPENAI_REQUEST)

# Of an upstream's answer, to the client, as they stand in a head that has passed: retry hints and
# rate counters. A line without a value says nothing. The next line begins where one ends, so each
# is taken from its line feed to before the other.
_hints_and_counters = re.compile(
    rb"\n(?:[Rr](?i:etry-after(?:-ms)?)|[Xx](?i:-(?:should-retry|ratelimit-[^:]*+))"
    rb"|[Aa](?i:nthropic-ratelimit-[^:]*+)):[ \t]*+[^\r]++\r"
).findall
#: Of one that is translated: what means the same to every client.
_TRANSLATED_ANSWER = (b"retry-after", b"retry-after-ms", b"x-should-retry")
#: The longest content type that is passed on; with a charset and a boundary they have about 100.
MAX_CONTENT_TYPE_BYTES = 256


def request_lines(
    head: RequestHead, protocol: str, version: str | None, drop_betas: frozenset[bytes]
) -> bytes:
    """The client's header lines that go on to an upstream of the same protocol.

    :param version: the ``anthropic-version`` to send where the client sent none.
    :param drop_betas: names taken out of ``anthropic-beta``.
    """
    headers = head.headers
    if protocol != ANTHROPIC:
        beta = headers.get(_OPENAI_REQUEST[0])
        return b"openai-beta: %b\r\n" % beta if beta else b""
    lines = b""
    sent = headers.get(_ANTHROPIC_REQUEST[0])
    if sent:
        lines = b"anthropic-version: %b\r\n" % sent
    elif version:
        lines = b"anthropic-version: %b\r\n" % version.encode("ascii")
    betas = headers.get(_ANTHROPIC_REQUEST[1])
    if betas:
        if drop_betas:
            kept = [beta for beta in betas.split(b",") if beta.strip() not in drop_betas]
            betas = b",".join(kept).strip()
        if betas:
            lines += b"anthropic-beta: %b\r\n" % betas
    return lines


def own_request_lines(protocol: str, version: str | None) -> bytes:
    """The header lines of a translated request: the client's own mean nothing to this upstream.

    :param version: the ``anthropic-version`` that the config names.
    """
    if protocol != ANTHROPIC:
        return b""
    return b"anthropic-version: %b\r\n" % (version or DEFAULT_ANTHROPIC_VERSION).encode("ascii")


def id_lines(request_id: bytes) -> bytes:
    """The request id under the three names that clients of either protocol read."""
    return b"x-omnigate-request-id: %b\r\nx-request-id: %b\r\nrequest-id: %b\r\n" % (
        request_id,
        request_id,
        request_id,
    )


def answer_lines(
    head: ResponseHead, request_id: bytes, debug: bytes, secret: bytes, *, as_json: bool = False
) -> bytes:
    """The header lines of a relayed answer, content type first.

    :param debug: ready lines that name the upstream and the attempts, or nothing.
    :param secret: the upstream's credential, struck out wherever it stands.
    :param as_json: the body is JSON whatever the upstream called it.
    """
    headers = head.headers
    content_type = headers.get(b"content-type")
    if as_json or not content_type:
        content_type = b"application/json"
    lines = b"content-type: %b\r\nx-request-id: %b\r\nrequest-id: %b\r%b" % (
        content_type,
        headers.get(b"x-request-id") or request_id,
        headers.get(b"request-id") or request_id,
        b"".join(_hints_and_counters(head.block)),
    )
    if secret and lines.find(secret) >= 0:
        lines = _without(secret, lines)
    return b"%b\nx-omnigate-request-id: %b\r\n%b" % (lines, request_id, debug)


def _without(secret: bytes, lines: bytes) -> bytes:
    """Strike the credential out of values; a name that it looks like is none of a header's."""
    halves = (line.partition(b":") for line in lines.splitlines(keepends=True))
    return b"".join(name + colon + strike(value, secret) for name, colon, value in halves)


def translated_answer_lines(
    head: ResponseHead, request_id: bytes, own: bytes, secret: bytes, content_type: bytes
) -> bytes:
    """The header lines of a translated answer, content type first.

    The upstream's rate counters are those of another protocol, and its request id is one that this
    client's provider has never heard of; of both only the gateway's own are told.

    :param own: ready lines, or nothing; a name that stands in them is not taken from the upstream.
    :param secret: as for :func:`answer_lines`.
    :param content_type: of what the client is sent.
    """
    lines = [b"content-type: %b\r\n" % content_type, id_lines(request_id)]
    for name in _TRANSLATED_ANSWER:
        value = head.headers.get(name)
        if value and name not in own:
            lines.append(b"%b: %b\r\n" % (name, strike(value, secret)))
    lines.append(own)
    return b"".join(lines)


def unrelayable(head: ResponseHead) -> str:
    """The outcome of an answer that cannot be relayed although its framing is sound; else empty.

    We asked for ``identity``: what is packed so that it cannot be unpacked can be neither metered
    nor judged.
    """
    headers = head.headers
    if b"content-encoding" in headers and not is_readable(head):
        return "unknown_coding"
    content_type = headers.get(b"content-type", b"")
    # Of control bytes only the tab gets past the parser of heads.
    if len(content_type) > MAX_CONTENT_TYPE_BYTES or b"\t" in content_type:
        return "bad_framing"
    return ""
