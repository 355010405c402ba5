"""Requests that were made before: answered out of the response cache, if their route has one.

The client decides with ``cache-control``: ``no-cache`` wants a fresh answer, and ``no-store`` wants
its own not kept (RFC 9111 §5.2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigate.dialects.answer import MAX_HELD_BYTES
from omnigate.dialects.strike import strike
from omnigate.errors import GatewayError
from omnigate.events import NO_TOKENS
from omnigate.gateway import settle
from omnigate.gateway.cache import CachedAnswer, canonical_bytes, request_digest
from omnigate.gateway.headers import PASSED_ON, id_lines
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.tables import Route

_JSON = b"application/json"


def answer(exchange: Exchange, route: Route) -> bool:
    """Answer from the cache, if the same was asked before; else see that it can be next time."""
    scan, endpoint = exchange.scan, exchange.endpoint
    assert scan is not None and endpoint is not None
    if scan.stream or not endpoint.metered:
        return False
    wishes = exchange.head.headers.get(b"cache-control", b"").lower()
    if b"no-store" in wishes:
        return False
    digest = _digest(exchange, route)
    if digest is None:
        return False
    plane = exchange.plane
    now = plane.clock.seconds()
    kept = None if b"no-cache" in wishes else plane.cache.find(digest, now)
    if kept is None:
        exchange.keep_as = (digest, now + route.cache_ttl_s)
        return False
    exchange.will_send(kept.body)
    settle.usage(exchange, 200, NO_TOKENS, False, None, [], now, cached=True)
    exchange.response.whole(
        200,
        b"content-type: %b\r\n%bx-omnigate-cache: hit\r\n"
        % (kept.content_type, id_lines(exchange.id_bytes)),
        kept.body,
    )
    return True


def keep(exchange: Exchange, head: ResponseHead, body: bytes, secret: bytes) -> None:
    """Keep a whole answer, if :func:`answer` looked for it in vain and it was a success.

    :param body: as the client is sent it.
    :param secret: the upstream's credential, which its head may hold.
    """
    if exchange.keep_as is not None and head.status == 200:
        content_type = strike(head.headers.get(b"content-type") or _JSON, secret)
        _keep(exchange, content_type, body)


def keep_translated(exchange: Exchange, body: bytes) -> None:
    """Keep a translated answer that was a success, on the same terms.

    One that its upstream's protocol would have relayed is too long to be kept.
    """
    if len(body) <= MAX_HELD_BYTES:
        _keep(exchange, _JSON, body)


def _keep(exchange: Exchange, content_type: bytes, body: bytes) -> None:
    if exchange.keep_as is not None:
        digest, until = exchange.keep_as
        exchange.plane.cache.keep(digest, CachedAnswer(content_type, body, until))


def _digest(exchange: Exchange, route: Route) -> bytes | None:
    """What a request is found by; ``None`` where it is served and not cached."""
    scan, endpoint, key = exchange.scan, exchange.endpoint, exchange.key
    assert scan is not None and endpoint is not None and key is not None
    size = canonical_bytes(exchange.body, scan.counts)
    if size is None:
        return None
    try:
        room = exchange.plane.parse_memory.reserve(key.use, size)
    except GatewayError:
        return None
    try:
        beside = [exchange.head.headers.get(name, b"") for name in PASSED_ON]
        return request_digest(
            exchange.body,
            key.sha256,
            route.model,
            endpoint.path,
            *(text.decode("latin-1") for text in (exchange.target.query, *beside)),
        )
    finally:
        room.release()
