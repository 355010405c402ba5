"""A queue in which no key waits for all that another one has put there.

Those who have something waiting stand in a ring, and each turn takes one item of the first of them.
So a key with one item waits for one turn of each other key, however many items those have. A key
that runs as much as it may steps out of the ring until something of it is done.

Nothing but the bookkeeping is here: who runs the items, and tells when one is done, uses it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: Items that wait in one queue. Each takes up to 650 bytes here; what it stands for lies on the
#: disk, so whoever is not taken can be put again later.
MAX_WAITING: Final = 100_000


class FairQueue(Generic[T]):
    """Items that wait for their turn, by key, and how many of each key run.

    Each call takes the same short time, however many items and keys there are; only a change of
    the sizes looks at each item once.

    :param max_running: how many items run at once; at least 1.
    :param max_per_key: how many of them may be of one key; at least 1.
    """

    def __init__(
        self, max_running: int, max_per_key: int, *, max_waiting: int = MAX_WAITING
    ) -> None:
        self._check(max_running, max_per_key)
        self._max_running = max_running
        self._max_per_key = max_per_key
        self._max_waiting = max_waiting
        self._key_of: dict[T, str] = {}
        # Linked lists that give up any item at once. A plain dict would walk over the places of all
        # that were taken from its front, each time anew.
        self._lines: dict[str, OrderedDict[T, None]] = {}
        self._running_of: dict[str, int] = {}
        # Keys with something waiting that may run; the next one first.
        self._ring: OrderedDict[str, None] = OrderedDict()
        self._running = 0

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return len(self._key_of)

    @property
    def running(self) -> int:
        """How many items run."""
        return self._running

    def __contains__(self, item: T) -> bool:
        """Whether an item waits."""
        return item in self._key_of

    def put(self, key: str, item: T) -> bool:
        """Let an item wait, behind all others of its key.

        :returns: False where it waits already, under whatever key, or where ``max_waiting`` do.
        """
        if item in self._key_of or len(self._key_of) >= self._max_waiting:
            return False
        self._key_of[item] = key
        self._lines.setdefault(key, OrderedDict())[item] = None
        self._see(key)
        return True

    def remove(self, item: T) -> bool:
        """Let an item wait no longer; says whether it did."""
        key = self._key_of.pop(item, None)
        if key is None:
            return False
        line = self._lines[key]
        del line[item]
        if not line:
            del self._lines[key]
            self._ring.pop(key, None)
        return True

    def next(self) -> T | None:
        """Take the item whose turn it is, which runs from now on.

        :returns: None where nothing waits, or nothing that waits may run.
        """
        if self._running >= self._max_running or not self._ring:
            return None
        key, _ = self._ring.popitem(last=False)
        line = self._lines[key]
        item, _ = line.popitem(last=False)
        del self._key_of[item]
        if not line:
            del self._lines[key]
        self._running += 1
        self._running_of[key] = self._running_of.get(key, 0) + 1
        self._see(key)
        return item

    def done(self, key: str) -> None:
        """Say that an item of a key runs no longer.

        :raises ValueError: none of it runs.
        """
        running = self._running_of.get(key, 0)
        if not running:
            raise ValueError("nothing of this key runs")
        self._running -= 1
        if running == 1:
            del self._running_of[key]
        else:
            self._running_of[key] = running - 1
        self._see(key)

    def resize(self, max_running: int, max_per_key: int) -> None:
        """Change the sizes; what runs goes on, also where it is more than fits now."""
        self._check(max_running, max_per_key)
        self._max_running = max_running
        if max_per_key == self._max_per_key:
            return
        self._max_per_key = max_per_key
        # By whose item has waited longest: several may join the ring now.
        for key in dict.fromkeys(self._key_of.values()):
            if self._may_run(key):
                self._see(key)
            else:
                self._ring.pop(key, None)

    def _see(self, key: str) -> None:
        """Let a key into the ring, as the last one, if it has a reason to stand there."""
        if key in self._lines and self._may_run(key) and key not in self._ring:
            self._ring[key] = None

    def _may_run(self, key: str) -> bool:
        return self._running_of.get(key, 0) < self._max_per_key

    @staticmethod
    def _check(max_running: int, max_per_key: int) -> None:
        if max_running < 1 or max_per_key < 1:
            raise ValueError("a queue that nothing leaves: both sizes must be at least 1")
