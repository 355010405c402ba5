"""One try at one target: the request on its way, the answer as it comes, and what it came to.

Until a byte has gone to the client an attempt may fail, and :class:`Walker` goes on to the next
target. Afterwards the only way out is to break the answer off.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import HEARTBEAT
from omnigate.errors import CLIENT_GONE, UPSTREAM_CUT
from omnigate.events import NO_TOKENS
from omnigate.gateway.attempt_account import AttemptAccount, Walker
from omnigate.gateway.attempts import (
    NO_ANSWERS,
    OWN_ENDINGS,
    PERHAPS_AT_WORK,
    Verdict,
    judge_status,
)
from omnigate.gateway.attesting import Subject
from omnigate.gateway.headers import unrelayable
from omnigate.gateway.tables import Target
from omnigate.protocols.relay import Passage, Relay, ShortAnswer
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import NEVER
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane

#: How long the body of an answer that only names a failure may take, in seconds: it is read so
#: that the connection can be used again, and that is not worth a longer wait.
FAILED_BODY_SECONDS = 2.0

#: A kept connection that closes within this time of a request was closing when the request was
#: written: one round trip, with room for a slow network.  One that closes later had taken the
#: request, which may be at work there and is not to be sent again.
STALE_SECONDS = 2.0


class Attempt(AttemptAccount):
    """See the module's docstring.

    :ivar connection: where the request is under way, if it is.
    :ivar short: collects the answer as long as it may be a short one, once there is some of it
        that is not all.
    """

    __slots__ = ("_opening", "_preparing", "_relay", "connection", "deadline", "short")

    def __init__(
        self, walker: Walker, exchange: Exchange, plane: DataPlane, target: Target
    ) -> None:
        self._walker = walker
        self._exchange = exchange
        self._plane = plane
        self.target = target
        self._started_at = plane.clock.seconds()
        self._verdict = Verdict.ANSWER
        self.head = None
        self.delivered = False
        self.meter = None
        self.passage = None
        self._opening: Deferred[UpstreamConnection] | None = None
        self._preparing: Generator[None, None, None] | None = None
        self._relay: Relay | None = None
        self.connection: UpstreamConnection | None = None
        self.short: ShortAnswer | None = None
        self.deadline = NEVER

    @property
    def subject(self) -> Subject | None:
        """What a receipt of its answer is about; None at an upstream that signs nothing."""
        upstream = self.target.upstream
        if not upstream.config.attestation:
            return None
        exchange = self._exchange
        key, scan = exchange.key, exchange.scan
        assert key is not None and scan is not None
        return Subject(
            exchange.id,
            key.sha256,
            exchange.route_model,
            upstream,
            self.target.model,
            scan.stream,
        )

    # -- the request

    def start(self) -> bool:
        """Begin; ``False`` where the target turns out at once to be none for this request."""
        self._connect()
        return True

    def _connect(self) -> None:
        """Send the request, on a kept connection if there is one."""
        pool = self.target.upstream.pool
        connection = None if self._walker.fresh_only else pool.take()
        if connection is not None:
            self._send(connection)
            return
        opening = self._opening = pool.open()
        opening.addCallbacks(self._opened, self._open_failed)
        opening.addErrback(self._escaped)

    def _again(self) -> None:
        """Send it once more, on a fresh connection."""
        self._started_at = self._plane.clock.seconds()
        self.delivered = False
        self._connect()

    def _opened(self, connection: UpstreamConnection) -> None:
        self._opening = None
        if self._exchange.settled:
            connection.drop()
        else:
            self._send(connection)

    def _open_failed(self, failure: Failure) -> None:
        if self._opening is None:
            # Called off by us, as the client left: nothing is to be tried in its stead.
            return
        self._opening = None
        if self._exchange.settled:
            return
        outcome = getattr(failure.value, "outcome", "connect_error")
        if outcome != "timeout" and self._walker.may_retry():
            self._again()
            return
        self._fail_target(outcome, None)
        self._next()

    def _escaped(self, failure: Failure) -> None:
        self._exchange.crashed(failure)

    def _send(self, connection: UpstreamConnection) -> None:
        # Ours from here on: whatever fails below, it is dropped with us.
        self.connection = connection
        request = self._request()
        self.delivered = True
        watchdog = self._plane.watchdog
        self.deadline = watchdog.after(self.target.upstream.head_timeout_seconds)
        watchdog.add(self)
        connection.send_for_whole(request, self)

    def _request(self) -> bytes:
        """The whole request, head and body."""
        raise NotImplementedError

    # -- the answer

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Judge the head, and choose how its body is to be taken.

        One that is not relayed at once may turn out short; most come whole with their head.
        """
        self.head = head
        if head.status > 400:
            self._verdict = judge_status(head.status)
            if self._verdict is not Verdict.ANSWER:
                # What it failed with stands in its head, whatever the body is packed in.
                self.deadline = self._plane.watchdog.after(FAILED_BODY_SECONDS)
                return
        fault = self.unusable(head)
        if fault:
            connection.drop()
            self._failed(fault, head.status)
            return
        self.open_meter(head)
        passage = self.passage
        if passage is None:
            plane = self._plane
            self.deadline = plane.watchdog.after(plane.stream_idle_seconds)
            return
        endpoint = self._exchange.endpoint
        assert endpoint is not None
        self._relay_on(connection, passage, HEARTBEAT[endpoint.protocol])

    def unusable(self, head: ResponseHead) -> str:
        """The outcome of an answer that is none to this request; else empty."""
        return unrelayable(head)

    def _collector(self) -> ShortAnswer:
        return ShortAnswer(self, self._plane.watchdog, self._plane.held)

    def _relay_on(
        self, connection: UpstreamConnection, passage: Passage, heartbeat: bytes = b""
    ) -> Relay:
        """Send the body on as it comes; from here on the relay keeps the time."""
        self._unwatch()
        plane = self._plane
        relay = self._relay = self._relay_class()(
            self,
            self._exchange.response,
            connection,
            passage,
            plane.watchdog,
            idle_seconds=plane.stream_idle_seconds,
            stall_seconds=plane.stall_timeout_seconds,
            heartbeat=heartbeat,
            heartbeat_seconds=plane.heartbeat_seconds,
        )
        connection.hand_over(relay)
        return relay

    def _relay_class(self) -> type[Relay]:
        return Relay

    def open_meter(self, head: ResponseHead) -> None:
        """Make the meter for an answer, and the passage where it is to be relayed at once."""
        self.meter = Meter(self._kind(), is_stream(head))

    def answer_data(self, data: bytes) -> None:
        """The first piece of a body that is not all here: it is collected from now on."""
        connection = self.connection
        assert connection is not None
        short = self.short = self._collector()
        connection.hand_over(short)
        short.answer_data(data)

    def answer_end(self) -> None:
        """The body was empty and ended with the head."""
        self.short_whole(b"")

    def answer_whole(self, body: bytes) -> None:
        """The body came with its head."""
        self.short_whole(body)

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """The connection broke before anything was sent to the client."""
        self._unwatch()
        self.connection = None
        if loss is Loss.STALE:
            age = self._plane.clock.seconds() - self._started_at
            if age <= STALE_SECONDS and self._walker.may_retry():
                self._again()
                return
        if self._verdict is not Verdict.ANSWER:
            # What it failed with stands in its head.
            self.short_whole(b"")
            return
        head = self.head
        self._failed(loss.outcome, head.status if head else None)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped on the upstream's side; the exchange answers, and calls back."""
        self.cancel()
        self._exchange.crashed(failure)

    def deadline_passed(self, now: float) -> None:
        """The head, or a short answer's next byte, did not come in time."""
        try:
            self._timed_out(now)
        except Exception:
            self.crashed(Failure())

    def _timed_out(self, now: float) -> None:
        short = self.short
        if short is not None and self._verdict is Verdict.ANSWER:
            due = short.last + self._plane.stream_idle_seconds
            if due > now:
                # Bytes have come since; only the body of a failure is timed as a whole.
                self.deadline = due
                return
        self._unwatch()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.drop()
        head = self.head
        if self._exchange.settled:
            return
        if head is None:
            self._failed("timeout", None)
        elif self._verdict is not Verdict.ANSWER:
            self.short_whole(b"")
        else:
            self._failed("stream_idle_timeout", head.status)

    # -- a short answer

    def short_whole(self, body: bytes) -> None:
        """A complete short answer: the answer, or one more reason to go on."""
        self._unwatch()
        self.connection = None
        head = self.head
        assert head is not None
        refused = "" if self._verdict is Verdict.ANSWER else self._refused(head)
        if refused:
            self.record(refused, head.status)
            self._next()
            return
        self._answer(head, body)

    def _answer(self, head: ResponseHead, body: bytes) -> None:
        """Send a whole answer, if it is one."""
        raise NotImplementedError

    def short_overflow(self, begun: bytes) -> None:
        """The answer is longer than what is kept of a short one."""
        raise NotImplementedError

    # -- a relayed answer

    def relay_head(self) -> tuple[int, bytes]:
        """Status and header lines; they go out with the first byte of the body."""
        raise NotImplementedError

    def relay_failed(self, outcome: str, reason: str) -> None:
        """Nothing was sent: the next target may do better."""
        self.connection = None
        assert self.head is not None
        self._failed(outcome, self.head.status)

    def relay_complete(self) -> None:
        """The event is in the spool before the last byte goes out."""
        self.connection = None
        head = self.head
        assert head is not None
        self._plane.troubles.succeeded(self.target)
        self.record("ok", head.status)
        self.ended_whole()
        counts, estimated = self._metered()
        self._walker.settle(head.status, counts, estimated, self.target)
        self._exchange.response.end()

    def relay_cut(self, outcome: str, reason: str) -> None:
        """The upstream broke off in the middle: the client must see that, too."""
        self.connection = None
        head = self.head
        assert head is not None
        self._fail_target(outcome, head.status)
        counts, estimated = self._metered()
        self._walker.settle(499, counts, estimated, self.target, UPSTREAM_CUT)
        self._exchange.response.abort()

    def relay_stalled(self) -> None:
        """The client takes nothing: it is finished with, the answer's figures are not."""
        self._exchange.response.abort()
        self._abandon()

    # -- the client leaves

    def client_lost(self) -> None:
        """Stop what costs nothing to stop; read on where the provider bills to the end."""
        if self.connection is None:
            self.cancel()
            self.record("canceled", None)
            self._walker.settle(499, NO_TOKENS, False, None, CLIENT_GONE)
            return
        self._abandon()

    def _abandon(self) -> None:
        if self._relay is not None:
            self._relay.detach()
        self._unwatch()
        connection = self.connection
        assert connection is not None
        self.connection = None
        if self.head is None and connection.still_sending():
            # Nobody works on a request that is not there yet: it is called off, and costs nothing.
            self.delivered = False
        elif self.target.upstream.config.abandon != "cancel" and self._plane.abandoned.take(
            self, connection
        ):
            connection.resume()
            return
        connection.drop()
        if self.short is not None and self.meter is not None:
            # What was collected of it counts as much as what is relayed.
            self.meter.piece(self.short.begun())
        self.settle_abandoned("canceled")

    def settle_abandoned(self, outcome: str) -> None:
        """The end of an answer that nobody waits for: its figures, or an estimate.

        What it means for its target is the same as if somebody had waited.
        """
        head = self.head
        if head is not None and head.status >= 300 and outcome in NO_ANSWERS:
            # Of a refusal the status is the answer.
            outcome = "ok"
        refused = "" if head is None else self._refused(head)
        if refused:
            outcome = refused
        elif outcome == "ok":
            self._plane.troubles.succeeded(self.target)
        elif outcome not in OWN_ENDINGS:
            self._plane.troubles.failed(self.target, outcome)
        counts, estimated = NO_TOKENS, False
        if outcome not in NO_ANSWERS:
            counts, estimated = self.metered_at_last()
        self.record(outcome, head.status if head else None)
        self._walker.settle(499, counts, estimated, self.target, CLIENT_GONE)

    def collector_left(self) -> ShortAnswer | None:
        """What goes on collecting an answer that nobody waits for, only for its figures.

        :returns: ``None`` where its head has not come, or it is relayed.
        """
        short = self.short
        if short is None and self.head is not None and not (self.passage or self._relay):
            # Nothing has come behind the head.
            short = ShortAnswer(self, self._plane.watchdog, self._plane.held)
        return short

    def note_head(self, head: ResponseHead) -> None:
        """The head of an answer that nobody waits for any more."""
        self.head = head
        self._verdict = judge_status(head.status)
        self.open_meter(head)

    def _failed(self, outcome: str, status: int | None) -> None:
        """Nothing of an answer was sent, and nothing will be: go on."""
        self._unwatch()
        self.connection = None
        if outcome in PERHAPS_AT_WORK:
            self._walker.doubt()
        self._fail_target(outcome, status)
        self._next()

    def _next(self) -> None:
        self._walker.next()

    # -- the end

    def part(self) -> float | None:
        """Let go of those who know us, so that all are freed at once.

        :returns: when the first byte was relayed, if one was.
        """
        relay, self._relay = self._relay, None
        self.short = None
        return relay.first_at if relay is not None else None

    def cancel(self) -> None:
        """Stop what is under way."""
        self._unwatch()
        opening, self._opening = self._opening, None
        connection, self.connection = self.connection, None
        if self._relay is not None:
            self._relay.detach()
        if connection is not None:
            connection.drop()
        if opening is not None:
            opening.cancel()

    def _unwatch(self) -> None:
        self.deadline = NEVER
        self._plane.watchdog.discard(self)


def is_stream(head: ResponseHead) -> bool:
    """Whether an answer is an event stream."""
    content_type = head.headers.get(b"content-type")
    return (
        content_type is not None
        and head.status < 300
        and content_type[:17].lower() == b"text/event-stream"
    )
