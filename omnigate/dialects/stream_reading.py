"""What the readers of streams of all protocols have in common: how an answer begins, ends, breaks.

A reader tells its sink a start once and first, and as the last thing a finish or a fault.
"""

from omnigate.dialects.answer_usage import answer_usage
from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import BrokenStream, OddEvents
from omnigate.dialects.shapes import DeltaSink, Stop


class StreamReading:
    """Reads one stream; what its events say is for subclasses.

    :ivar closed: whether the protocol's own end has come, even if the answer could not be told.
    :ivar started: whether the sink was told that the answer has begun.
    :ivar finished: whether it was told the finish.
    :ivar failed: whether it was told a fault; if nothing had started, this is all it was told.
    :ivar finding: what is wrong with the stream where the fault is no error that the upstream told
        of: ``bad_event`` or ``unfinished``; else empty.
    """

    __slots__ = (
        "_meter",
        "_odd",
        "_over",
        "_sink",
        "closed",
        "failed",
        "finding",
        "finished",
        "started",
    )

    def __init__(self, sink: DeltaSink, meter: Meter) -> None:
        """Make the reader of one stream.

        :param meter: of a streamed answer of the reader's protocol.
        """
        self.closed = False
        self.started = False
        self.finished = False
        self.failed = False
        self.finding = ""
        self._sink = sink
        self._meter = meter
        self._odd = OddEvents()
        self._over = False  # finished or failed: what comes now is not looked at

    def _start(self) -> None:
        if not self.started:
            self.started = True
            self._sink.start()

    def _finish(self, stop: Stop, refusal: str | None = None) -> None:
        self._over = self.finished = True
        self._sink.finish(stop, answer_usage(self._meter), refusal)

    def _fail(self, fault: Fault) -> None:
        self._over = self.failed = True
        if fault.kind is FaultKind.INTERRUPTED:
            self.finding = "unfinished"
        self._sink.fault(fault)

    def _break(self, error: BrokenStream) -> None:
        """Tell of a stream that cannot be told on."""
        self.finding = "bad_event"
        self._fail(Fault(FaultKind.BAD_ANSWER, str(error)))
