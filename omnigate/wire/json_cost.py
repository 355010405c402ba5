"""The cost of JSON that comes in pieces, counted on the way and not at its end."""

from __future__ import annotations

from omnigate.wire.json_body import MAX_KEY_BYTES, MAX_MEMBERS, MAX_TREE_MEMBERS
from omnigate.wire.json_members import MAX_ANSWER_DEPTH
from omnigate.wire.json_tree import TreeError, tree_cost
from omnigate.wire.json_walk import JsonWalk, TextCounts

#: How long the making of an answer's tree may take, as :func:`~omnigate.wire.json_tree.tree_cost`
#: tells it: plain text of 16 MiB. It is written anew in the same turn of the reactor, which takes
#: about as long again.
MAX_ANSWER_NANOSECONDS = 13_000_000

#: Up to here a text is counted in one go, when it is whole.
WALKED_FROM_BYTES = 65536


class PieceCounter:
    """Counts an answer or an event as it arrives; feed it every byte in order."""

    __slots__ = ("_walk",)

    def __init__(self) -> None:
        self._walk = JsonWalk((), MAX_ANSWER_DEPTH, MAX_MEMBERS, MAX_KEY_BYTES, 0, MAX_TREE_MEMBERS)

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._walk.feed(data)

    @property
    def counts(self) -> TextCounts:
        """What was counted.

        :raises TreeError: the text breaks a bound on depth, members or keys, or is no JSON.
        """
        if self._walk.fault is not None:
            raise TreeError("request_too_complex", "The text breaks a bound on its structure.")
        return self._walk.counts


def answer_cost(text: bytes, counter: PieceCounter | None) -> int:
    """Tell what the tree of a provider's answer, or of an event, takes in bytes.

    :param counter: what was fed all of it, where it came in pieces; a long text without one is
        counted now.
    :raises TreeError: it takes too much memory or time.
    """
    if counter is None and len(text) > WALKED_FROM_BYTES:
        counter = PieceCounter()
        counter.feed(text)
    cost = tree_cost(text, counter.counts if counter is not None else None)
    if cost.nanoseconds > MAX_ANSWER_NANOSECONDS:
        raise TreeError("request_too_complex", "The answer has too many values to be read whole.")
    return cost.size
