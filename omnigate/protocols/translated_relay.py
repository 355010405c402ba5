"""The two receivers of an answer that is translated.

:class:`WholeAnswer`  collects an answer that has to be whole before any of it can be said in the
    client's protocol.
:class:`TranslatedRelay`  sends on a stream whose passage may end it with an error event of its own.
"""

from __future__ import annotations

from typing import Protocol

from omnigate.dialects.held import HeldBytes, Hold
from omnigate.protocols.relay import (
    SHORT_BYTES,
    Passage,
    Relay,
    RelayOwner,
    ShortAnswer,
    ShortOwner,
)
from omnigate.protocols.watchdog import Watchdog

#: The longest answer that is translated whole. Real ones have up to a megabyte, which takes 3 ms;
#: this much holds the reactor for 12 to 30, as new as the memory is and as odd as the text.
WHOLE_BYTES = 4 * 1024 * 1024


class WholeOwner(ShortOwner, Protocol):
    """Whose answer is collected."""

    def long_piece(self, data: bytes) -> None:
        """A piece of an answer over :data:`SHORT_BYTES`; the first has all there is so far."""


class WholeAnswer(ShortAnswer):
    """Collects up to :data:`WHOLE_BYTES` of an answer, or less where all hold too much.

    What is over :data:`SHORT_BYTES` is shown to the owner as it comes, so that what must be looked
    at piece by piece is not left for the end.
    """

    __slots__ = ("_long", "_whole_owner")

    def __init__(self, owner: WholeOwner, watchdog: Watchdog, held: HeldBytes) -> None:
        super().__init__(owner, watchdog, held)
        self._whole_owner = owner
        self._long: bytearray | None = None

    @property
    def long(self) -> bool:
        """Whether the answer is no short one, so that its pieces were shown."""
        return self._long is not None

    def begun(self) -> bytes:
        """What was collected and not shown."""
        return b"" if self.long else super().begun()

    def answer_data(self, data: bytes) -> None:
        """Keep it, or give up keeping."""
        long = self._long
        if long is None:
            if self._size + len(data) <= SHORT_BYTES:
                super().answer_data(data)
                return
            data = b"".join((*self._pieces, data))
            self._pieces = []
            long = self._long = bytearray()
            if self._hold is None:
                self._hold = Hold(self._held)
        self.last = self._watchdog.now
        size = self._size = len(long) + len(data)
        hold = self._hold
        assert hold is not None
        if size > WHOLE_BYTES or not hold.keep(size):
            self._hold = None
            self._long = None
            self._owner.short_overflow(b"")
            return
        long += data
        self._whole_owner.long_piece(data)

    def answer_end(self) -> None:
        """All of it is here."""
        long, self._long = self._long, None
        if long is None:
            super().answer_end()
        else:
            self._owner.short_whole(bytes(long))


class TranslatedPassage(Passage, Protocol):
    """A passage that may break a stream off.

    :ivar broken: why it did; empty where it did not.
    """

    broken: str

    def interrupt(self) -> bytes:
        """What to send last where the upstream broke off."""


class TranslatedOwner(RelayOwner, Protocol):
    """Whose stream is translated; there is one more end."""

    def relay_broken(self, why: str) -> None:
        """The passage ended the stream with an error event, which has been sent."""


class TranslatedRelay(Relay):
    """Sends a translated stream on, and ends it where its passage does.

    An upstream that keeps its stream alive says nothing that its client would be sent, so a
    heartbeat is due when the client has heard nothing, and not when the upstream was silent.
    """

    __slots__ = ("_said_at",)

    _owner: TranslatedOwner
    _passage: TranslatedPassage

    def answer_data(self, data: bytes) -> None:
        """Pass it on, and look whether that was the end."""
        response = self._response
        before = response.bytes_out
        super().answer_data(data)
        if response.bytes_out != before:
            self._said_at = self._last
        passage = self._passage
        if passage.broken and passage.first_error is None:
            self._connection.drop()
            self.detach()
            self._owner.relay_broken(passage.broken)

    def _ended(self) -> None:
        broken = self._passage.broken
        if broken:
            self._owner.relay_broken(broken)
        else:
            self._owner.relay_complete()

    def _cut(self, outcome: str, reason: str) -> None:
        last = self._passage.interrupt()
        if last:
            self._response.piece(last)
        self._owner.relay_cut(outcome, reason)

    def _look_at_upstream(self, now: float) -> None:
        beat = self._heartbeat_seconds
        due = self._last + self._idle_seconds
        if not beat or not self._response.started or now >= due:
            super()._look_at_upstream(now)
        elif now - self._said_at < beat:
            self.deadline = min(due, self._said_at + beat)
        else:
            self._said_at = now
            # Moved first: should the client be full with this, its own deadline counts.
            self.deadline = min(due, now + beat)
            self._response.piece(self._heartbeat)
