"""Places for requests, given before a byte of a body is read and given back exactly once.

Three bounds: the requests a key has in flight, the share of the memory for bodies that one key may
hold, and that memory as a whole.  A declared length counts twice, as received and as sent on.
"""

from __future__ import annotations

from math import ceil

from omnigate.errors import MAX_OWN_RETRY_AFTER, GatewayError

#: One key may hold a quarter of the body memory, so that none shuts all others out.
KEY_SHARE = 4
#: What a refused client is asked to wait, in seconds.
RETRY_AFTER_SECONDS = 1


class KeyUse:
    """What one key holds at the moment; outlives config snapshots."""

    __slots__ = ("in_flight", "memory_bytes", "parse_bytes")

    def __init__(self) -> None:
        self.in_flight = 0
        self.memory_bytes = 0
        self.parse_bytes = 0  # room for trees, see parse_memory


class Ticket:
    """A place; :meth:`release` gives it back, the second call does nothing."""

    __slots__ = ("_admission", "_bytes", "_use")

    def __init__(self, admission: Admission, use: KeyUse, size: int) -> None:
        self._admission = admission
        self._use: KeyUse | None = use
        self._bytes = size

    def release(self) -> None:
        """Give the place back."""
        use, self._use = self._use, None
        if use is not None:
            use.in_flight -= 1
            use.memory_bytes -= self._bytes
            self._admission.memory_bytes -= self._bytes
            self._admission.in_flight -= 1


class Admission:
    """Counts what is in flight.

    :param memory_bytes: the budget for bodies of all keys together.
    :param default_in_flight: for keys that name none of their own.
    """

    def __init__(self, memory_bytes: int, default_in_flight: int) -> None:
        self._budget_bytes = memory_bytes
        self._default_in_flight = default_in_flight
        self.memory_bytes = 0
        self.in_flight = 0

    def enter(self, use: KeyUse, max_in_flight: int, declared_bytes: int) -> Ticket:
        """A ticket for a request.

        :param max_in_flight: the key's own bound, 0 for the default.
        :raises GatewayError: 429 for the key's own bounds, 503 when the whole is in use.
        """
        limit = max_in_flight or self._default_in_flight
        if use.in_flight >= limit:
            raise too_many(limit)
        size = declared_bytes * 2
        if size:
            if use.memory_bytes + size > self._budget_bytes // KEY_SHARE:
                raise too_large_together()
            if self.memory_bytes + size > self._budget_bytes:
                raise no_room()
        use.in_flight += 1
        use.memory_bytes += size
        self.memory_bytes += size
        self.in_flight += 1
        return Ticket(self, use, size)


def too_many(limit: int) -> GatewayError:
    """What a client is told whose key has all its requests in flight."""
    return GatewayError(
        "concurrency_limit_exceeded",
        f"this key already has {limit} requests in flight; wait for one to end",
        retry_after=RETRY_AFTER_SECONDS,
    )


def too_fast(rpm: int, wait: float) -> GatewayError:
    """What a client is told whose key has sent its requests of this minute."""
    return GatewayError(
        "rate_limit_exceeded",
        f"this key may send {rpm} requests a minute; wait and try again",
        retry_after=min(ceil(wait), MAX_OWN_RETRY_AFTER),
    )


def used_up() -> GatewayError:
    """What a client is told whose key is blocked."""
    return GatewayError(
        "budget_exceeded",
        "this key has used up its budget for the period; ask the operator to raise it",
    )


def too_large(size: int, limit: int) -> GatewayError:
    """What a client is told whose body is too large, before any of it is read."""
    return GatewayError("request_too_large", f"the body has {size} bytes and the limit is {limit}")


def too_large_together() -> GatewayError:
    """What a client is told whose key has used up its share of the memory for bodies."""
    return GatewayError(
        "request_memory_exceeded",
        "the requests of this key that are in flight are too large together; send fewer at a time",
        retry_after=RETRY_AFTER_SECONDS,
    )


def no_room() -> GatewayError:
    """What a client is told when all memory for bodies is in use."""
    return GatewayError(
        "overloaded",
        "the gateway has no room for more request bodies; try again",
        retry_after=RETRY_AFTER_SECONDS,
    )
