"""The metrics port of a parent: a scrape is the sum over its workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from twisted.logger import Logger

from omnigate.daemon import endpoint_of, listen_fault
from omnigate.daemon_service import Ending, Listener
from omnigate.data_tap import METRICS_LISTEN, METRICS_PORT, PROGRAM
from omnigate.gateway.metrics import DataMetrics
from omnigate.gateway.process_sums import ProcessSums
from omnigate.gateway.scrapes import scrape_factory
from omnigate.gateway.worker_figures import WorkerFigures
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.watchdog import Watchdog
from omnigate.writer_thread import WriterThread


class ParentMetrics:
    """Owns the port, and what the parent knows of its workers' figures.

    :ivar figures: is told what workers tell.
    :ivar clock: for connections, as are ``watchdog`` and ``date``.
    :param ask: see :class:`~omnigate.gateway.worker_figures.WorkerFigures`, as is ``count``.
    :param pids: of the workers that run.
    """

    log = Logger(namespace="omnigate.workers")

    def __init__(
        self,
        reactor: Any,
        listen: str,
        ask: Callable[[int], Collection[int]],
        count: Callable[[], tuple[int, int]],
        pids: Callable[[], Collection[int]],
    ) -> None:
        self.clock = reactor
        self.watchdog = Watchdog(reactor)
        self.date = HttpDate(self.watchdog, time.time)
        self.figures = WorkerFigures(ask, count, reactor)
        self._writer = WriterThread("omnigate-metrics", reactor.callFromThread)
        metrics = DataMetrics(self.figures.parts, ProcessSums(pids).read, self.figures.latest)
        self._scrapers = scrape_factory(metrics, self, self._writer)
        self._listener = Listener(
            endpoint_of(PROGRAM, reactor, listen, METRICS_LISTEN),
            self._scrapers,
            lambda error: listen_fault(listen, METRICS_PORT, error),
        )

    def open(self, ending: Ending) -> None:
        """Open the port, or end the start with a line that says why not."""
        self._listener.open(ending)

    def start(self) -> None:
        """Begin to mind the deadlines of connections."""
        self.watchdog.start()
        self.log.info("metrics at {address}/metrics", address=self._listener.address)

    async def stop(self) -> None:
        """Close the port and what came in by it."""
        await self._listener.close()
        for connection in list(self._scrapers.connections):
            connection.cut()
        await self._writer.stop()
        self.watchdog.stop()
