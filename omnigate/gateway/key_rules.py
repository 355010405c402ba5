"""What holds for some keys only: an end, networks, endpoints, tokens a minute.

Most keys have none of it, and pay for it with a look at an attribute. What is told to whom goes by
the order of the looks: whoever has a key that is known and alive, and calls from where it may be
used, is told of its budget and of its endpoints; nobody else is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Protocol

import attrs

from omnigate.client_address import Networks
from omnigate.config.snapshot import SnapshotKey
from omnigate.dialects.expected_tokens import expected_tokens
from omnigate.errors import MAX_OWN_RETRY_AFTER, GatewayError
from omnigate.events import TokenCounts
from omnigate.periods import rfc3339
from omnigate.token_bucket import SLACK_SECONDS, AmountBucket

#: The model list, beside the kinds of the endpoints that start work.
MODELS = "models"


@attrs.define(eq=False)
class KeyRules:
    """The rules of a key, as it is opened by one of its secrets.

    :ivar entry: the line of the snapshot.
    :ivar until_ms: when it stops to open anything, in milliseconds since 1970; 0 is never.
    :ivar replaced: whether that is because another secret has taken its place.
    :ivar tokens: what its tokens are counted in, if it has a limit of them.
    """

    entry: SnapshotKey
    until_ms: int
    replaced: bool
    tokens: AmountBucket | None
    _networks: Networks | None = attrs.field(default=None, init=False)

    def alive(self, now: float) -> bool:
        """Whether it still opens something.

        :param now: seconds since 1970.
        """
        return not self.until_ms or now * 1000 < self.until_ms

    def ended(self) -> str:
        """What a client is told whose secret or key has come to its end."""
        moment = rfc3339(self.until_ms)
        if self.replaced:
            return f"this key was replaced by a new one and ended at {moment}; use the new one"
        return f"this key expired at {moment}; ask the operator for a new one"

    def check_address(self, address: str) -> None:
        """Refuse a client from elsewhere.

        It is not told which address it has, for that may be a proxy's.
        """
        texts = self.entry.allowed_ips
        if texts is None:
            return
        networks = self._networks
        if networks is None:
            # Read when they are first needed: ten thousand lists at once would hold the reactor.
            networks = self._networks = Networks(texts)
        if not networks.holds(address):
            raise GatewayError(
                "address_not_allowed",
                "this key may not be used from this client's address, which the operator finds in "
                "the access log under the request id",
            )

    def check_endpoint(self, kind: str) -> None:
        """Refuse an endpoint that the key is not for.

        :param kind: see :class:`~omnigate.dialects.endpoints.Endpoint`, or :data:`MODELS`.
        """
        endpoints = self.entry.endpoints
        if endpoints is not None and kind not in endpoints:
            raise GatewayError(
                "endpoint_not_allowed",
                f"this key may not be used for {kind}, only for {', '.join(endpoints)}",
            )


def key_rules(
    entry: SnapshotKey, tokens: AmountBucket | None, until_ms: int = 0
) -> KeyRules | None:
    """The rules of a key, or ``None`` where it has none.

    :param until_ms: when the secret stops to open it; 0 is never.
    """
    expires_ms = entry.expires_ms
    replaced = until_ms != 0 and (not expires_ms or until_ms < expires_ms)
    end = until_ms if replaced else expires_ms
    if not end and tokens is None and entry.allowed_ips is None and entry.endpoints is None:
        return None
    return KeyRules(entry, end, replaced, tokens)


class Place(Protocol):
    """What a request holds while it is under way."""

    def release(self) -> None:
        """Give it back; the second call does nothing."""


class TokenPlace:
    """A request's place, and the tokens that are reserved for it: both are given back at once.

    :ivar used: the tokens that the request came to; none unless somebody says so.
    """

    __slots__ = ("_bucket", "_need", "_now", "_place", "used")

    def __init__(
        self, place: Place, bucket: AmountBucket, need: int, now: Callable[[], float]
    ) -> None:
        self._place = place
        self._bucket: AmountBucket | None = bucket
        self._need = need
        self._now = now
        self.used = 0

    def release(self) -> None:
        """Settle the tokens and give the place back; the second call does nothing."""
        bucket, self._bucket = self._bucket, None
        if bucket is not None:
            bucket.settle(self._need, self.used, self._now())
            self._place.release()


def place_with_tokens(
    place: Place, bucket: AmountBucket, body: bytes, now: Callable[[], float]
) -> TokenPlace:
    """Reserve what a request will likely come to.

    :param place: what the request holds already; the one returned holds it from now on.
    :param now: tells seconds of a clock that does not go back.
    :raises GatewayError: 429, where so much is not there.
    """
    expected = expected_tokens(body)
    need = bucket.need(expected)
    wait = bucket.reserve(need, now())
    if wait > 0.0:
        raise GatewayError(
            "rate_limit_exceeded",
            f"this key may use {bucket.rate} tokens a minute, and this request may come to "
            f"{expected}; wait and try again",
            retry_after=min(ceil(wait - SLACK_SECONDS), MAX_OWN_RETRY_AFTER),
        )
    return TokenPlace(place, bucket, need, now)


def total_of(counts: TokenCounts) -> int:
    """Return what counts against a limit of tokens: all that a provider read and wrote."""
    return (
        counts.input_tokens
        + counts.cached_input_tokens
        + counts.cache_write_input_tokens
        + counts.output_tokens
    )
