"""The endpoint that Prometheus asks."""

from __future__ import annotations

from omnigate.control.keys import KeyBook
from omnigate.control.metrics import ControlMetrics
from omnigate.control.routes import Answer, Call, Endpoint


class MetricsApi:
    """The metrics of the control plane, as text."""

    def __init__(self, metrics: ControlMetrics, book: KeyBook) -> None:
        self._metrics = metrics
        self._book = book

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
        """Answer the metrics."""
        self._metrics.count_keys(self._book)
        body, content_type = self._metrics.scrape(call.accept)
        return Answer(body, content_type)
