"""Room for the trees of requests, reserved before a tree is made and given back exactly once.

A tree takes many times its text, so what it can take is told first (``wire/json_tree``) and
held against two bounds: the share of one key, and all trees together.
"""

from __future__ import annotations

from omnigate.errors import GatewayError
from omnigate.gateway.admission import RETRY_AFTER_SECONDS, KeyUse
from omnigate.wire.json_cost import PieceCounter, answer_cost
from omnigate.wire.json_tree import TEXT_TIMES, TreeError, tree_cost
from omnigate.wire.json_walk import TextCounts

#: One key may hold half of the memory for trees.
KEY_SHARE = 2

#: Up to here no text is worth telling the cost of: whatever stands in it takes less than the most
#: that any may, and the room is given back before anybody else asks for some.
SMALL_BYTES = 4096


class Reservation:
    """Room for one tree; :meth:`release` gives it back, the second call does nothing."""

    __slots__ = ("_memory", "_use", "size")

    def __init__(self, memory: ParseMemory, use: KeyUse, size: int) -> None:
        self._memory = memory
        self._use: KeyUse | None = use
        self.size = size

    def release(self) -> None:
        """Give the room back; the tree is to be gone by now."""
        use, self._use = self._use, None
        if use is not None:
            use.parse_bytes -= self.size
            self._memory.bytes -= self.size


class ParseMemory:
    """Counts what trees may take.

    :ivar budget_bytes: for the trees of all keys together.
    :ivar bytes: what is reserved.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.bytes = 0

    def reserve_tree(self, use: KeyUse, body: bytes, counts: TextCounts | None) -> Reservation:
        """Room for the tree of a scanned body.

        :param counts: what the scan counted, if it did.
        :raises GatewayError: 400 for a body that no tree is made of; else as :meth:`reserve`.
        """
        if len(body) <= SMALL_BYTES:
            return self.reserve(use, TEXT_TIMES * len(body))
        try:
            cost = tree_cost(body, counts)
        except TreeError as error:
            raise refusal(error) from None
        return self.reserve(use, cost.size)

    def reserve_answer(self, use: KeyUse, body: bytes, counter: PieceCounter | None) -> Reservation:
        """Room for the tree of an upstream's answer.

        :param counter: what was fed the answer as it came, where it is long.
        :raises TreeError: no tree is made of it.
        :raises GatewayError: as :meth:`reserve`.
        """
        if len(body) <= SMALL_BYTES:
            return self.reserve(use, TEXT_TIMES * len(body))
        return self.reserve(use, answer_cost(body, counter))

    def reserve(self, use: KeyUse, size: int) -> Reservation:
        """Room for ``size`` bytes.

        :raises GatewayError: 429 for the key's share, 503 when the whole is in use.
        """
        if use.parse_bytes + size > self.budget_bytes // KEY_SHARE:
            raise too_large_together()
        if self.bytes + size > self.budget_bytes:
            raise no_room()
        use.parse_bytes += size
        self.bytes += size
        return Reservation(self, use, size)


def refusal(error: TreeError) -> GatewayError:
    """What a client is told where no tree is made of its body."""
    return GatewayError(error.code, error.message)


def too_large_together() -> GatewayError:
    """What a client is told whose key has used up its share of the memory for trees."""
    return GatewayError(
        "request_memory_exceeded",
        "the requests of this key that are being read take too much memory together; "
        "send fewer at a time",
        retry_after=RETRY_AFTER_SECONDS,
    )


def no_room() -> GatewayError:
    """What a client is told when all memory for trees is in use."""
    return GatewayError(
        "overloaded",
        "the gateway has no room to read more requests; try again",
        retry_after=RETRY_AFTER_SECONDS,
    )
