"""An upstream's body on its way to a client: passage, chunks, back pressure, deadlines.

Two receivers of an answer (:class:`~omnigate.protocols.upstream.AnswerReceiver`):

:class:`ShortAnswer`  collects an answer that may turn out short.  Nothing is sent before it
    is whole, so that a cut one can still go to the next target.
:class:`Relay`  sends on what comes, piece by piece.  From its first byte on there is no
    other target any more; a break shows as a break.

Per read there is one call into the passage (which meters) and one write.  The relay
keeps the time of the last byte by plain assignment and looks at it only when the
watchdog calls, so a byte costs no timer.
"""

from __future__ import annotations

from typing import Protocol

from twisted.python.failure import Failure

from omnigate.dialects.answer import MAX_HELD_BYTES
from omnigate.dialects.held import LITTLE_BYTES, HeldBytes, Hold
from omnigate.protocols.response import Response
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import NEVER, Watchdog
from omnigate.wire.head import ResponseHead

#: An answer that is no event stream and at most this long is sent whole.
SHORT_BYTES = MAX_HELD_BYTES
#: Pieces kept apart; an object for each byte would take forty times as much memory.
MAX_PIECES = 64


class Passage(Protocol):
    """What an upstream's bytes become for the client, metered on the way."""

    started: bool
    first_error: bytes | None

    def feed(self, data: bytes) -> bytes:
        """What to send now for these bytes; empty while something is held back."""

    def end(self) -> bytes:
        """What is left at the proper end of the body."""

    @property
    def between_events(self) -> bool:
        """Whether something of our own may be put in here."""


class ShortOwner(Protocol):
    """Whose short answer is collected."""

    def short_whole(self, body: bytes) -> None:
        """The answer is whole and short."""

    def short_overflow(self, begun: bytes) -> None:
        """More came than is kept; the rest follows on the connection."""

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """The answer broke off; nothing of it was sent."""

    def crashed(self, failure: Failure) -> None:
        """An exception escaped."""


class ShortAnswer:
    """Collects up to :data:`SHORT_BYTES` of an answer, or less where all hold too much.

    :ivar last: when its last byte came, by the watchdog's time.
    """

    __slots__ = ("_held", "_hold", "_owner", "_pieces", "_size", "_watchdog", "last")

    def __init__(self, owner: ShortOwner, watchdog: Watchdog, held: HeldBytes) -> None:
        self._owner = owner
        self._held = held
        self._hold: Hold | None = None  # most answers are too short to need one
        self._watchdog = watchdog
        self._pieces: list[bytes] = []
        self._size = 0
        self.last = watchdog.now

    def adopt(self, owner: ShortOwner) -> None:
        """From now on tell ``owner``; what was collected stays."""
        self._owner = owner

    def begun(self) -> bytes:
        """What was collected so far."""
        return b"".join(self._pieces)

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Not called: the head came before the body was handed over."""

    def answer_data(self, data: bytes) -> None:
        """Keep it, or give up keeping."""
        self.last = self._watchdog.now
        pieces = self._pieces
        pieces.append(data)
        size = self._size = self._size + len(data)
        if size > LITTLE_BYTES and not self._may_keep(size):
            self._hold = None
            self._pieces = []
            self._owner.short_overflow(b"".join(pieces))
        elif len(pieces) >= MAX_PIECES:
            self._pieces = [b"".join(pieces)]

    def _may_keep(self, size: int) -> bool:
        return size <= SHORT_BYTES and self._has_room(size)

    def _has_room(self, size: int) -> bool:
        """Hold so much, if all others leave room for it."""
        hold = self._hold
        if hold is None:
            hold = self._hold = Hold(self._held)
        return hold.keep(size)

    def answer_end(self) -> None:
        """All of it is here."""
        pieces = self._pieces
        self._owner.short_whole(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """It broke off."""
        self._owner.answer_lost(loss, reason)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""
        self._owner.crashed(failure)


class RelayOwner(Protocol):
    """Whose answer is relayed; exactly one of the four ends is called."""

    def relay_head(self) -> tuple[int, bytes]:
        """Status and header lines, asked for when the first byte is about to go out."""

    def relay_failed(self, outcome: str, reason: str) -> None:
        """Nothing has been sent and nothing will come: another target may be tried."""

    def relay_complete(self) -> None:
        """The body is whole; all but its end has been sent."""

    def relay_cut(self, outcome: str, reason: str) -> None:
        """The upstream broke off after something had been sent."""

    def relay_stalled(self) -> None:
        """The client takes nothing; the upstream's answer is still coming."""

    def crashed(self, failure: Failure) -> None:
        """An exception escaped."""


class Relay:
    """Sends an answer on while it comes.

    :ivar deadline: for the watchdog: silence of the upstream, a heartbeat that is due,
        or a client that takes nothing.
    :ivar first_at: clock seconds at which the first byte was passed, else ``None``.
    """

    __slots__ = (
        "_connection",
        "_full",
        "_heartbeat",
        "_heartbeat_seconds",
        "_idle_seconds",
        "_last",
        "_look_seconds",
        "_owner",
        "_passage",
        "_response",
        "_stall_seconds",
        "_untaken",
        "_watchdog",
        "deadline",
        "first_at",
    )

    def __init__(
        self,
        owner: RelayOwner,
        response: Response,
        connection: UpstreamConnection,
        passage: Passage,
        watchdog: Watchdog,
        *,
        idle_seconds: float,
        stall_seconds: float,
        heartbeat: bytes = b"",
        heartbeat_seconds: float = 0.0,
    ) -> None:
        self._owner = owner
        self._response = response
        self._connection = connection
        self._passage = passage
        self._watchdog = watchdog
        self._idle_seconds = idle_seconds
        self._stall_seconds = stall_seconds
        self._heartbeat = heartbeat
        self._heartbeat_seconds = heartbeat_seconds if heartbeat else 0.0
        # How long the watchdog may leave the upstream's silence unlooked at.
        self._look_seconds = min(idle_seconds, self._heartbeat_seconds or idle_seconds)
        self._full = False
        self._untaken = 0
        self._last = watchdog.now
        self.first_at: float | None = None
        self.deadline = watchdog.after(self._look_seconds)
        watchdog.add(self)

    def detach(self) -> None:
        """Take no further part: the answer goes elsewhere."""
        self.deadline = NEVER
        self._watchdog.discard(self)

    # -- what the upstream says

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Not called: the head came before the body was handed over."""

    def answer_data(self, data: bytes) -> None:
        """Pass it on."""
        self._last = self._watchdog.now
        passage = self._passage
        out = passage.feed(data)
        if out:
            response = self._response
            if response.started:
                response.piece(out)
            else:
                self._begin(out)
        elif passage.first_error is not None:
            self._connection.drop()
            self.detach()
            self._owner.relay_failed("error_event", "the stream's first event was an error")

    def answer_end(self) -> None:
        """Send what is left; whether the protocol said the end is not made up here."""
        self.detach()
        passage = self._passage
        rest = passage.end()
        response = self._response
        if passage.first_error is not None and not response.started:
            self._owner.relay_failed("error_event", "the stream's first event was an error")
            return
        if not response.started and not passage.started:
            self._owner.relay_failed("empty_stream", "the stream ended before its first event")
            return
        if not response.started:
            # Also where all that came was kept from the client, such as a lone usage chunk.
            self._begin(rest)
        elif rest:
            response.piece(rest)
        self._ended()

    def _ended(self) -> None:
        """All that the upstream sent has been passed on."""
        self._owner.relay_complete()

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """Fail over while nothing was sent, else show the break."""
        self.detach()
        if self._response.started:
            self._cut(loss.outcome, reason)
        else:
            self._owner.relay_failed(loss.outcome, reason)

    def _cut(self, outcome: str, reason: str) -> None:
        """The upstream broke off in the middle."""
        self._owner.relay_cut(outcome, reason)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""
        self.detach()
        self._owner.crashed(failure)

    def _begin(self, first: bytes) -> None:
        status, headers = self._owner.relay_head()
        self.first_at = self._watchdog.exact()
        self.deadline = self._watchdog.after(self._look_seconds)
        self._response.begin(status, headers, first, self)

    # -- what the client's transport says

    def client_full(self) -> None:
        """Back pressure: what the client does not take, we do not take either."""
        self._full = True
        self._untaken = self._response.untaken()
        self._connection.pause()
        self.deadline = self._watchdog.after(self._stall_seconds)

    def client_ready(self) -> None:
        """Go on."""
        self._full = False
        self._last = self._watchdog.now
        self.deadline = self._watchdog.after(self._look_seconds)
        self._connection.resume()

    # -- what the watchdog says

    def deadline_passed(self, now: float) -> None:
        """Look at what has happened since; most of the time the upstream was not silent."""
        try:
            if self._full:
                self._look_at_client()
            else:
                self._look_at_upstream(now)
        except Exception:
            self.crashed(Failure())

    def _look_at_client(self) -> None:
        untaken = self._response.untaken()
        if 0 <= untaken < self._untaken:
            # Slow, but it takes: only a client that takes nothing is given up on.
            self._untaken = untaken
            self.deadline = self._watchdog.after(self._stall_seconds)
            return
        self.detach()
        self._owner.relay_stalled()

    def _look_at_upstream(self, now: float) -> None:
        silent = now - self._last
        if silent >= self._idle_seconds:
            self._connection.drop()
            self.detach()
            reason = f"no byte for {self._idle_seconds:g} s"
            if self._response.started:
                self._cut("stream_idle_timeout", reason)
            else:
                self._owner.relay_failed("stream_idle_timeout", reason)
            return
        due = self._last + self._idle_seconds
        beat = self._heartbeat_seconds
        if not beat or not self._response.started:
            self.deadline = due
        elif silent < beat:
            self.deadline = min(due, self._last + beat)
        elif not self._passage.between_events:
            # Looked at again at the next sweep: an event may end at any time.
            self.deadline = min(due, now)
        else:
            # Moved first: should the client be full with this, its own deadline counts.
            self.deadline = min(due, now + beat)
            self._response.piece(self._heartbeat)
