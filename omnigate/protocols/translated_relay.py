"""The two receivers of an answer that is translated.

:class:`WholeAnswer`  collects an answer that has to be whole before any of it can be said in the
    client's protocol.
:class:`TranslatedRelay`  sends on a stream whose passage may end it with an error event of its own.
"""

from __future__ import annotations

from typing import Protocol

from omnigate.dialects.held import LITTLE_BYTES, HeldBytes
from omnigate.dialects.strike import PieceStriker
from omnigate.protocols.relay import (
    MAX_PIECES,
    SHORT_BYTES,
    Passage,
    Relay,
    RelayOwner,
    ShortAnswer,
    ShortOwner,
)
from omnigate.protocols.watchdog import Watchdog

#: The longest answer that is translated whole. Real ones have up to a megabyte; plain text of this
#: length is read in 20 ms, and written in a turn of its own.
WHOLE_BYTES = 16 * 1024 * 1024


class WholeOwner(ShortOwner, Protocol):
    """Whose answer is collected."""

    def long_piece(self, data: bytes) -> None:
        """A piece of an answer over :data:`SHORT_BYTES`, or of one that there is no room for.

        The first has all there is so far.
        """

    def whole_unkept(self) -> None:
        """The answer is whole, and there was no room to keep it; all of it was shown."""


class WholeAnswer(ShortAnswer):
    """Collects up to :data:`WHOLE_BYTES` of an answer, without the upstream's credential.

    What is over :data:`SHORT_BYTES` is shown to the owner as it comes, so that what must be looked
    at piece by piece is not left for the end. Where all hold too much it is only shown: it has to
    be paid, and how much stands at its end.

    :param secret: the credential; it is struck out of what is long.
    """

    __slots__ = ("_long", "_shown", "_striker", "_whole_owner")

    def __init__(
        self, owner: WholeOwner, watchdog: Watchdog, held: HeldBytes, secret: bytes
    ) -> None:
        super().__init__(owner, watchdog, held)
        self._whole_owner = owner
        self._striker = PieceStriker(secret)
        self._long: bytearray | None = None
        self._shown = False

    def begun(self) -> bytes:
        """What was collected and not shown."""
        return b"" if self._shown else super().begun()

    def left(self) -> ShortAnswer | None:
        """Return what goes on collecting a short answer in its stead, with no more room than that.

        :returns: ``None`` where its pieces were shown.
        """
        if self._shown:
            return None
        left = ShortAnswer(self._owner, self._watchdog, self._held)
        left._pieces, self._pieces = self._pieces, []
        left._hold, self._hold = self._hold, None
        left._size, left.last = self._size, self.last
        return left

    def answer_data(self, data: bytes) -> None:
        """Keep it, or show it, or give up."""
        self.last = self._watchdog.now
        size = self._size = self._size + len(data)
        if size > WHOLE_BYTES:
            self._hold = self._long = None
            self._owner.short_overflow(b"")
            return
        if not self._shown:
            if size <= LITTLE_BYTES or (size <= SHORT_BYTES and self._has_room(size)):
                self._pieces.append(data)
                if len(self._pieces) >= MAX_PIECES:
                    self._pieces = [b"".join(self._pieces)]
                return
            data = b"".join((*self._pieces, data))
            self._pieces = []
            self._shown = True
            self._long = bytearray()
        long = self._long
        if long is not None:
            long += self._striker.feed(data)
            if not self._has_room(max(size, len(long))):
                self._hold = self._long = None
        self._whole_owner.long_piece(data)

    def answer_end(self) -> None:
        """All of it is here."""
        long, self._long = self._long, None
        if not self._shown:
            super().answer_end()
        elif long is None:
            self._whole_owner.whole_unkept()
        else:
            long += self._striker.end()
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
