"""Sends an answer of the control plane on as it is."""

from __future__ import annotations

from omnigate.protocols.relay import Relay


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

    def _begin(self, first: bytes) -> None:
        status, headers = self._owner.relay_head()
        self.first_at = self._watchdog.exact()
        self.deadline = self._watchdog.after(self._look_seconds)
        self._response.begin_sized(status, headers, self._size, first, self)
