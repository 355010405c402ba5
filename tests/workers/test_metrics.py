"""What the parent tells of its workers, and when its port for metrics is open."""

from __future__ import annotations

import signal
from typing import Any

from omnigate.protocols.worker_channel import FiguresWanted, Ready
from omnigate.workers.place import FIRST_PAUSE, End
from tests.workers.test_parent import ParentCase


class Metrics:
    """A port for metrics that is none, and notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def open(self, ending: object) -> None:
        self.done.append("open")

    def start(self) -> None:
        self.done.append("start")

    async def stop(self) -> None:
        self.done.append("stop")


class ParentMetricsTests(ParentCase):
    def test_counts(self) -> None:
        """How many serve, how many were started in the place of others, which processes run."""
        self.start()
        self.assertEqual((0, 0), self.parent.count())
        self.assertEqual([100, 101, 102], self.parent.pids())
        first, second, third = self.parent.places
        for place in (first, second, third):
            place.heard(Ready())
        self.assertEqual((3, 0), self.parent.count())
        second.ended(End(None, signal.SIGKILL))
        self.assertEqual((2, 0), self.parent.count())
        self.assertEqual([100, 102], self.parent.pids())
        self.advance(2 * FIRST_PAUSE)
        self.assertEqual((2, 1), self.parent.count())
        self.assertEqual([100, 103, 102], self.parent.pids())
        second.heard(Ready())
        self.assertEqual((3, 1), self.parent.count())

    def test_asked(self) -> None:
        """Those that serve are asked; one that only starts would keep a scraper waiting."""
        self.start()
        first, _, third = self.parent.places
        first.heard(Ready())
        third.heard(Ready())
        self.assertEqual([0, 2], self.parent.ask_for_figures(7))
        self.assertEqual([FiguresWanted(7)], self.told(0))
        self.assertEqual([], self.told(1))

    def test_port(self) -> None:
        """It is opened while low ports may be, and closed when the last worker has ended."""
        metrics: Any = Metrics()
        self.parent.metrics = metrics
        self.parent.privilegedStartService()
        self.assertEqual(["open"], metrics.done)
        self.parent.startService()
        self.addCleanup(self.stop_looking)
        self.assertEqual(["open", "start"], metrics.done)
        stopped = self.parent.stopService()
        self.advance(0.2)
        self.assertEqual(["open", "start"], metrics.done)
        for place in self.parent.places:
            place.ended(End(0))
        self.advance(0.2)
        self.successResultOf(stopped)
        self.assertEqual(["open", "start", "stop"], metrics.done)
