"""What an attempt at a target has come to: for the bill, for its target, and for the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from omnigate.dialects.meter import Meter
from omnigate.errors import MAX_CLIENT_RETRY_AFTER, GatewayError
from omnigate.events import NO_TOKENS, AttemptRecord, TokenCounts
from omnigate.gateway.attempts import Verdict, retry_after_seconds
from omnigate.gateway.tables import Target
from omnigate.protocols.relay import Passage
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.attempt import Attempt
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane


class Walker(Protocol):
    """Whose attempts these are: a walk over targets (:mod:`omnigate.gateway.attempts`)."""

    fresh_only: bool
    records: list[AttemptRecord]

    def may_retry(self) -> bool:
        """Whether a connection error allows one more try."""

    def doubt(self) -> None:
        """The target's upstream may have taken the request."""

    def hint(self, seconds: int | None) -> None:
        """Keep a wait that a provider asked for."""

    def record(self, outcome: str, status: int | None, duration_ms: int) -> None:
        """Write down how an attempt ended."""

    def next(self) -> None:
        """The attempt has failed and is written down: try the next target."""

    def unfit(self, error: GatewayError) -> None:
        """The target cannot serve the request, and was not asked: try the next one."""

    def again(self, attempt: Attempt) -> None:
        """The attempt has failed and is written down: make this one at the same target."""

    def settle(
        self,
        status: int,
        counts: TokenCounts,
        estimated: bool,
        target: Target | None,
        error_code: str = "",
    ) -> None:
        """The exchange has come to its end."""


class StreamOf(Passage, Protocol):
    """The passage of an event stream."""

    @property
    def finished(self) -> bool:
        """Whether its protocol said that the answer is finished."""


class AttemptAccount:
    """See the module's docstring.

    :ivar delivered: whether the request was written to the upstream, and not called off before all
        of it was sent, so that it may have cost money.
    :ivar head: the answer's, once it is here.
    :ivar meter: counts the answer's tokens, from its head on.
    :ivar passage: what the client is sent of an event stream.
    """

    __slots__ = (
        "_exchange",
        "_plane",
        "_started_at",
        "_verdict",
        "_walker",
        "delivered",
        "head",
        "meter",
        "passage",
        "target",
    )

    log = Logger()

    _exchange: Exchange
    _plane: DataPlane
    _started_at: float
    _verdict: Verdict
    _walker: Walker
    delivered: bool
    head: ResponseHead | None
    meter: Meter | None
    passage: StreamOf | None
    target: Target

    # -- the bill

    def ended_whole(self) -> None:
        """The framing of a body ended as it should; whether the stream in it did is told here."""
        if self.passage is not None and not self.passage.finished and self.meter is not None:
            self.meter.unfinished()

    def _metered(self) -> tuple[TokenCounts, bool]:
        exchange = self._exchange
        meter = self.meter
        if self.head is not None and self.head.status >= 300:
            # Nobody sells refusals.
            return NO_TOKENS, False
        if meter is None:
            if not self.delivered:
                return NO_TOKENS, False
            # Delivered, and not a byte of an answer: the provider may still bill its input.
            assert exchange.scan is not None
            meter = Meter(self._kind(), exchange.scan.stream)
        return meter.settle(exchange.body)

    def _kind(self) -> str:
        """The kind of endpoint that the upstream is asked at."""
        assert self._exchange.endpoint is not None
        return self._exchange.endpoint.kind

    def metered_at_last(self) -> tuple[TokenCounts, bool]:
        """The same for an exchange that must end now, even if it is the meter that has failed."""
        try:
            return self._metered()
        except Exception:
            self.log.failure("what an answer used could not be told")
            return NO_TOKENS, True

    def record(self, outcome: str, status: int | None) -> None:
        """Write down how the attempt ended."""
        elapsed = self._plane.clock.seconds() - self._started_at
        self._walker.record(outcome, status, int(elapsed * 1000) if elapsed > 0 else 0)

    # -- the target

    def _fail_target(self, outcome: str, status: int | None) -> None:
        self._plane.troubles.failed(self.target, outcome)
        self.record(outcome, status)

    def _refused(self, head: ResponseHead) -> str:
        """Tell what a status that is no answer means for the target, and name it; else empty."""
        if self._verdict is Verdict.CREDENTIAL:
            self._plane.troubles.credential_refused(self.target, head.status)
            return "upstream_auth"
        if self._verdict is Verdict.NEXT:
            self._rate_limited(head)
            return f"status_{head.status}"
        return ""

    def _rate_limited(self, head: ResponseHead) -> None:
        """Obey the provider's own wish where it has one."""
        asked = None
        if head.status in (429, 503, 529):
            asked = retry_after_seconds(head.headers.get(b"retry-after"), self._plane.wall())
        if head.status == 429:
            self._walker.hint(asked)
        self._plane.troubles.failed(self.target, f"status_{head.status}", asked)

    # -- the client

    def _own_lines(self, head: ResponseHead) -> bytes:
        """The header lines that no upstream sends."""
        lines = b""
        if self._plane.debug_headers:
            lines = b"x-omnigate-upstream: %b\r\nx-omnigate-attempts: %d\r\n" % (
                self.target.upstream_name.encode("ascii", "replace"),
                len(self._walker.records) + 1,
            )
        # Of a refusal there is no receipt.
        if self.target.upstream.config.attestation and head.status < 300:
            lines += b"x-omnigate-receipt: %b\r\n" % self._exchange.id_bytes
        asked = head.headers.get(b"retry-after")
        if asked is not None and b"x-should-retry" not in head.headers:
            seconds = retry_after_seconds(asked, self._plane.wall())
            if seconds is not None and seconds > MAX_CLIENT_RETRY_AFTER:
                # Too long to be slept through inside a call, as the SDKs do.
                lines += b"x-should-retry: false\r\n"
        return lines
