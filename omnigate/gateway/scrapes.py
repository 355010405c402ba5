"""The private listener for metrics: ``GET /metrics``, and nothing else.

It stands on the same connections as the public port (:mod:`omnigate.protocols.client`), so heads
are judged as strictly, and the same deadlines hold. Another port, since what stands in a scrape
(routes, upstreams, traffic) is not for the public.
"""

from __future__ import annotations

from typing import Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.gateway.metrics import DataMetrics
from omnigate.metric_text import OPENMETRICS, PLAIN, exposition, wants_openmetrics
from omnigate.protocols.client import ClientFactory
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.response import Response
from omnigate.protocols.watchdog import Watchdog
from omnigate.wire.head import HeadError, RequestHead
from omnigate.wire.target import Target, TargetError
from omnigate.writer_thread import IWriter

#: Connections at once: two or three Prometheus servers, an agent and a person.
MAX_SCRAPERS: Final = 16

#: How long a scraper may take for its request, stay idle, or take nothing of an answer, in
#: seconds. Prometheus itself gives up a scrape after 10.
SCRAPER_SECONDS: Final = 30.0

_WORDS: Final = b"content-type: text/plain; charset=utf-8\r\n"


class Times(Protocol):
    """As much of a data plane as connections need."""

    @property
    def clock(self) -> IReactorTime:
        """For everything that lasts."""

    @property
    def watchdog(self) -> Watchdog:
        """The sweep over deadlines."""

    @property
    def date(self) -> HttpDate:
        """For answers."""


class ScrapePlane:
    """What decides about requests for metrics.

    Scrapes are made one after the other, for all who wait at a time, so that many scrapers cost
    no more than one, and in each turn of the reactor a few milliseconds of it.

    :param times: the clock, the deadlines and the date of whoever tells.
    :param writer: a thread, for what takes long to read.
    """

    client_timeout_seconds = SCRAPER_SECONDS
    stall_timeout_seconds = SCRAPER_SECONDS

    log = Logger()

    def __init__(self, metrics: DataMetrics, times: Times, writer: IWriter) -> None:
        self.watchdog = times.watchdog
        self.date = times.date
        self._clock = times.clock
        self._writer = writer
        self._metrics = metrics
        self._waiting: list[Scrape] = []
        self._busy = False

    def exchange(self, head: RequestHead, target: Target, response: Response, peer: str) -> Scrape:
        """A request whose head is well formed."""
        return Scrape(self, head, target, response)

    def head_refusal(self, first: bytes, error: HeadError) -> tuple[int, bytes, bytes]:
        """The answer to a head that cannot be trusted."""
        return error.status, _WORDS, error.message.encode("utf-8") + b"\n"

    def target_refusal(
        self, head: RequestHead, error: TargetError, peer: str
    ) -> tuple[int, bytes, bytes]:
        """The answer to a target that is none."""
        return 404, _WORDS, error.message.encode("utf-8") + b"\n"

    def wait(self, scrape: Scrape) -> None:
        """Answer when the next scrape is made."""
        self._waiting.append(scrape)
        if not self._busy:
            self._busy = True
            self._next()

    def leave(self, scrape: Scrape) -> None:
        """It is not waited for any more."""
        if scrape in self._waiting:
            self._waiting.remove(scrape)

    def _next(self) -> None:
        """Make a scrape for those who wait for the same form as the first, if anybody does."""
        if not self._waiting:
            self._busy = False
            return
        form = self._waiting[0].in_openmetrics
        takers = [scrape for scrape in self._waiting if scrape.in_openmetrics is form]
        self._waiting = [scrape for scrape in self._waiting if scrape.in_openmetrics is not form]
        Deferred.fromCoroutine(self._make(takers, form)).addErrback(
            lambda failure: self._broken(takers, failure)
        ).addCallback(lambda _: self._next())

    async def _make(self, takers: list[Scrape], in_openmetrics: bool) -> None:
        await self._metrics.latest()
        process = await self._writer.submit(self._metrics.read_process)
        pieces = []
        for piece in exposition(self._metrics.families(process), in_openmetrics):
            pieces.append(piece)
            # The others have their turn.
            turn: Deferred[None] = Deferred()
            self._clock.callLater(0, turn.callback, None)
            await turn
        text = b"".join(pieces)
        for scrape in takers:
            scrape.answer(200, text, OPENMETRICS if in_openmetrics else PLAIN)

    def _broken(self, takers: list[Scrape], failure: Failure) -> None:
        self.log.failure("a scrape could not be made", failure)
        for scrape in takers:
            scrape.answer(500, b"the metrics cannot be told; the log says why\n")


class Scrape:
    """One request at the listener for metrics."""

    def __init__(
        self, plane: ScrapePlane, head: RequestHead, target: Target, response: Response
    ) -> None:
        self.in_openmetrics = wants_openmetrics(head.headers.get(b"accept", b""))
        self._plane = plane
        self._head = head
        self._target = target
        self._response = response

    def begin(self) -> bool:
        """Answer what is no scrape."""
        if self._target.path != "/metrics":
            self.answer(404, b"there is nothing here but /metrics\n")
        elif self._head.method not in (b"GET", b"HEAD"):
            self.answer(405, b"/metrics takes GET, HEAD only\n", lines=b"allow: GET, HEAD\r\n")
        else:
            return True
        return False

    def body_piece(self, data: bytes, last: bool) -> None:
        """The request is there, with no body as it has to be."""
        self._plane.wait(self)

    def client_lost(self) -> None:
        """Nobody waits for it."""
        self._plane.leave(self)

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""
        self._plane.log.failure("a request for metrics broke", failure)
        self._plane.leave(self)
        self.answer(500, b"the metrics cannot be told; the log says why\n")

    def answer(
        self, status: int, body: bytes, content_type: bytes = b"", lines: bytes = b""
    ) -> None:
        """Write the answer, unless the scraper is gone."""
        if not self._response.ended:
            kind = b"content-type: %b\r\n" % content_type if content_type else _WORDS
            self._response.whole(status, kind + b"cache-control: no-store\r\n" + lines, body)


#: What a scraper too many is told.
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\n%bcontent-length: 18\r\nconnection: close\r\n\r\n"
    b"too many scrapers\n" % _WORDS
)


def scrape_factory(metrics: DataMetrics, times: Times, writer: IWriter) -> ClientFactory:
    """Make the connections of the listener for metrics; one too many is told so and closed."""
    return ClientFactory(ScrapePlane(metrics, times, writer), MAX_SCRAPERS, lambda: FULL)
