"""The endpoint that Prometheus asks.

It needs no store: what there is to tell is told while the ledger is being loaded, too.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from omnigate.control.metrics import ControlMetrics
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.metric_text import OPENMETRICS, PLAIN, wants_openmetrics
from omnigate.writer_thread import IWriter


class MetricsApi:
    """The metrics of the control plane, as text.

    With 5,000 routes it takes a quarter of a second to write the text, so a thread does that, one
    scrape after the other. Whoever asks meanwhile gets the same one, so that many scrapers cost no
    more than one of each form.

    :param writer: the thread.
    """

    def __init__(self, metrics: ControlMetrics, writer: IWriter) -> None:
        self._metrics = metrics
        self._writer = writer
        # Who waits for the scrape that is being made, by whether it is OpenMetrics.
        self._waiting: dict[bool, list[Deferred[bytes]]] = {}

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        return (
            Endpoint(
                "GET",
                "/metrics",
                self.scrape,
                summary="Answer Prometheus text, or OpenMetrics where it is accepted",
                other_types=("text/plain", "application/openmetrics-text"),
            ),
        )

    async def scrape(self, call: Call) -> Answer:
        """Answer everything as text; OpenMetrics where the scraper asks for it."""
        in_openmetrics = wants_openmetrics(call.accept.encode())
        text = await self._text(in_openmetrics)
        return Answer(text, OPENMETRICS if in_openmetrics else PLAIN)

    def _text(self, in_openmetrics: bool) -> Deferred[bytes]:
        waiter: Deferred[bytes] = Deferred()
        if in_openmetrics in self._waiting:
            self._waiting[in_openmetrics].append(waiter)
            return waiter
        figures = self._metrics.read()
        self._waiting[in_openmetrics] = [waiter]
        text = self._writer.submit(lambda: self._metrics.text(figures, in_openmetrics))
        text.addBoth(self._made, in_openmetrics)
        return waiter

    def _made(self, result: Any, in_openmetrics: bool) -> None:
        """Answer all who wait, with the text or with what went wrong."""
        for waiter in self._waiting.pop(in_openmetrics):
            waiter.callback(result)
