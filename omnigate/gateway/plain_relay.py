"""Sends an answer of the control plane on as it is."""

from __future__ import annotations

from typing import Final

from omnigate.protocols.relay import Relay

#: A file has a place at the control plane while it is on its way, and of those there are few: who
#: takes it slower than this is given up. The slowest telephone is ten times as fast.
LEAST_BYTES_PER_SECOND: Final = 1024


class Unchanged:
    """Passes a body on as it is."""

    __slots__ = ("first_error", "started")

    def __init__(self) -> None:
        self.started = True
        self.first_error: bytes | None = None

    @property
    def between_events(self) -> bool:
        """Never: nothing of ours may stand inside such a body."""
        return False

    def feed(self, data: bytes) -> bytes:
        """What to send now."""
        return data

    def end(self) -> bytes:
        """Nothing was held back."""
        return b""


class SizedRelay(Relay):
    """Sends an answer on with the length that its head declared."""

    __slots__ = ("_size",)

    def sized(self, size: int) -> None:
        """Have the answer declare this length."""
        self._size = size

    def _look_at_client(self) -> None:
        """Give up a client that takes next to nothing, too."""
        untaken = self._response.untaken()
        least = int(LEAST_BYTES_PER_SECOND * self._stall_seconds)
        if untaken >= 0 and self._untaken - untaken < least:
            self.detach()
            self._owner.relay_stalled()
            return
        super()._look_at_client()

    def _begin(self, first: bytes) -> None:
        status, headers = self._owner.relay_head()
        self.first_at = self._watchdog.exact()
        self.deadline = self._watchdog.after(self._look_seconds)
        self._response.begin_sized(status, headers, self._size, first, self)
