"""The passage of a long answer that is no event stream: bytes as they come, metered."""

from __future__ import annotations

from omnigate.dialects.meter import Meter
from omnigate.dialects.strike import PieceStriker


class LongPassage:
    """Passes bytes on, with the upstream's credential struck out wherever the cuts fall."""

    __slots__ = ("_meter", "_striker", "first_error", "started")

    def __init__(self, meter: Meter, secret: bytes) -> None:
        self._meter = meter
        self._striker = PieceStriker(secret) if secret else None
        self.started = False
        self.first_error: bytes | None = None

    @property
    def between_events(self) -> bool:
        """Never: nothing of ours may stand inside such a body."""
        return False

    def feed(self, data: bytes) -> bytes:
        """What to send now."""
        self.started = True
        self._meter.piece(data)
        return data if self._striker is None else self._striker.feed(data)

    def end(self) -> bytes:
        """What was held back."""
        return b"" if self._striker is None else self._striker.end()
