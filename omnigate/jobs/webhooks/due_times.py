"""When each delivery is due: one order for all of them, so that one timer is enough."""

from __future__ import annotations

import heapq
from typing import Final

#: So many entries that count no more may lie in the heap before it is made anew.
_SPARE: Final = 1_000


class DueTimes:
    """Names, and when each is due.

    There is one for each job with a delivery that waits, so the bound on jobs bounds it.
    """

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        # Holds what is due, and what was until it was moved or dropped.
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, name: str) -> bool:
        return name in self._due

    def due_ms(self, name: str) -> int | None:
        """Return when a name is due; None for one that is not known."""
        return self._due.get(name)

    def put(self, name: str, due_ms: int) -> None:
        """Have a name be due at an instant, in place of any other."""
        self._due[name] = due_ms
        heapq.heappush(self._heap, (due_ms, name))
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._heap = [(due_ms, name) for name, due_ms in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """Forget a name, if it is known."""
        self._due.pop(name, None)

    def first_ms(self) -> int | None:
        """Return when the next one is due; None where there is none."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> str | None:
        """Take out the name that has been due for longest; None where none is due."""
        first_ms = self.first_ms()
        if first_ms is None or first_ms > now_ms:
            return None
        _, name = heapq.heappop(self._heap)
        del self._due[name]
        return name
