"""Answers read on after their client left, for the provider's own closing figures.

Bounded in time, in bytes and in number; what is over a bound is billed by estimate at once.
An abandoned request keeps its place with admission until its reading ends, so hanging up and
coming back is no way around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.dialects.held import HeldBytes
from omnigate.protocols.relay import ShortAnswer
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import NEVER, Watchdog
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.attempt import Attempt

#: Answers read on at the same time: each holds a connection, and an upstream that works for
#: nobody.
MAX_ABANDONED = 256
#: How long the end of a stream is waited for once all it had to say is here: long enough for the
#: last bytes of its framing, so that the connection can be used again.
END_SECONDS = 2.0


class Abandoned:
    """The answers that are being read on.

    :param seconds: how long one may take; 0 reads none on.
    :param max_bytes: how much more of one is read.
    :param held: what all answers keep back.
    """

    def __init__(self, watchdog: Watchdog, seconds: float, max_bytes: int, held: HeldBytes) -> None:
        self.watchdog = watchdog
        self.held = held
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._readers: set[AbandonedReader] = set()

    def __len__(self) -> int:
        return len(self._readers)

    def take(self, attempt: Attempt, connection: UpstreamConnection) -> bool:
        """Read on for this request, if there is room."""
        if not self._seconds or len(self._readers) >= MAX_ABANDONED:
            return False
        reader = AbandonedReader(self, attempt, connection, self._max_bytes)
        reader.deadline = self.watchdog.after(self._seconds)
        reader.look_at_figures()
        self._readers.add(reader)
        self.watchdog.add(reader)
        connection.hand_over(reader)
        return True

    def leave(self, reader: AbandonedReader) -> None:
        """A reader has come to its end."""
        self._readers.discard(reader)
        self.watchdog.discard(reader)

    def stop(self) -> None:
        """End all of them; each bills what it has."""
        for reader in list(self._readers):
            reader.give_up("canceled")


class AbandonedReader:
    """Reads one answer to its end and sends it nowhere.

    A short answer is collected as it would be for a client: only whole is it read exactly.
    """

    log = Logger()

    def __init__(
        self,
        shelf: Abandoned,
        attempt: Attempt,
        connection: UpstreamConnection,
        max_bytes: int,
    ) -> None:
        self._shelf = shelf
        self._attempt = attempt
        self._connection = connection
        self._left = max_bytes
        self._short = attempt.collector_left()
        if self._short is not None:
            self._short.adopt(self)
        self._complete = False
        self._outcome = "ok"
        self.deadline = NEVER

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """The client left before the head came."""
        self._attempt.note_head(head)
        fault = self._attempt.unusable(head)
        if fault:
            self.give_up(fault)
        elif self._attempt.passage is None:
            self._short = ShortAnswer(self, self._shelf.watchdog, self._shelf.held)

    def answer_data(self, data: bytes) -> None:
        """Meter it."""
        attempt = self._attempt
        if attempt.passage is not None:
            attempt.passage.feed(data)
        elif self._short is not None:
            self._short.answer_data(data)
        elif attempt.meter is not None:
            attempt.meter.piece(data)
        self._left -= len(data)
        if self._left < 0:
            self.give_up("canceled")
        else:
            self.look_at_figures()

    def look_at_figures(self) -> None:
        """With the closing figures of a finished stream there, wait no longer for its end."""
        passage, meter = self._attempt.passage, self._attempt.meter
        if self._complete or passage is None or meter is None:
            return
        if passage.finished and meter.closing_seen:
            self._complete = True
            self.deadline = min(self.deadline, self._shelf.watchdog.after(END_SECONDS))

    def answer_end(self) -> None:
        """The closing figures came, or never will."""
        passage = self._attempt.passage
        if passage is not None:
            passage.end()
            self._attempt.ended_whole()
            if passage.first_error is not None:
                self._outcome = "error_event"
            elif not passage.started:
                self._outcome = "empty_stream"
        elif self._short is not None:
            short, self._short = self._short, None
            short.answer_end()
        self._end(self._outcome)

    def short_whole(self, body: bytes) -> None:
        """A short answer is here, whole."""
        if self._attempt.meter is not None:
            verdict = self._attempt.meter.whole(body)
            if verdict != "ok":
                self._outcome = verdict

    def short_overflow(self, begun: bytes) -> None:
        """It is no short one."""
        self._short = None
        if self._attempt.meter is not None:
            self._attempt.meter.piece(begun)

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """The upstream broke off, too."""
        self._end(loss.outcome)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped: bill what there is."""
        self.log.failure("an abandoned answer could not be read on", failure)
        self.give_up("canceled")

    def deadline_passed(self, now: float) -> None:
        """It took too long, or all that was wanted of it is here."""
        self.give_up("ok" if self._complete else "timeout")

    def give_up(self, outcome: str) -> None:
        """Stop reading."""
        self._connection.drop()
        self._end(outcome)

    def _end(self, outcome: str) -> None:
        self.deadline = NEVER
        self._shelf.leave(self)
        if self._short is not None:
            self.short_overflow(self._short.begun())
        self._attempt.settle_abandoned(outcome)
