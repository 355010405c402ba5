"""How a scrape is asked for and made: in a thread, once for all who wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from omnigate.control.metrics import ControlMetrics
from omnigate.control.metrics_api import MetricsApi
from omnigate.control.routes import Answer, Call
from omnigate.events import decode_event
from omnigate.metric_families import Family, Row
from omnigate.metric_text import OPENMETRICS, PLAIN
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import Plane, event

ROUTES = 5_000


def call(accept: str = "") -> Call:
    """A scraper's request."""
    return Call("GET", "/metrics", "", {}, b"", "id", accept=accept)


def crowded() -> ControlMetrics:
    """The metrics of a plane with as many routes as a config may have, all of them used."""
    metrics = ControlMetrics()
    names = [f"route-{number}" for number in range(ROUTES)]
    metrics.allow_names(names, ["openai"])
    for name in names:
        metrics.recorded(decode_event(event(route_model=name)), 1)
    return metrics


class ScrapeTests(SynchronousTestCase):
    """Who asks, and what is made."""

    def setUp(self) -> None:
        self.writer = SynchronousWriter(holding=True)
        self.metrics = ControlMetrics()
        self.api = MetricsApi(self.metrics, self.writer)

    def ask(self, accept: str = "") -> Deferred[Answer]:
        return Deferred.fromCoroutine(self.api.scrape(call(accept)))

    def test_one_for_all(self) -> None:
        """Who asks while a scrape is made gets that one; one who asks later gets a new one."""
        first, second = self.ask(), self.ask()
        self.metrics.auth_failed("admin", "wrong")
        self.assertEqual(1, self.writer.pending)
        self.assertNoResult(first)
        self.writer.run()
        text = self.successResultOf(first).body
        self.assertIs(text, self.successResultOf(second).body)
        self.assertIn(b'omnigate_auth_failures_total{audience="admin",reason="wrong"} 0.0\n', text)
        third = self.ask()
        self.writer.run()
        wrong = b'omnigate_auth_failures_total{audience="admin",reason="wrong"} 1.0\n'
        self.assertIn(wrong, self.successResultOf(third).body)

    def test_both_forms(self) -> None:
        """Each form is made once, and both are what they say they are."""
        asked = [self.ask(accept) for accept in ("", "application/openmetrics-text; version=1.0.0")]
        asked += [self.ask("text/plain;version=0.0.4;q=0.5,*/*;q=0.1")]
        self.assertEqual(2, self.writer.pending)
        self.writer.run()
        plain, openmetrics, again = map(self.successResultOf, asked)
        self.assertEqual((PLAIN, OPENMETRICS), (plain.content_type, openmetrics.content_type))
        self.assertIs(plain.body, again.body)
        names = {family.name for family in text_string_to_metric_families(plain.body.decode())}
        same = {family.name for family in read_openmetrics(openmetrics.body.decode())}
        # The reader of one form takes the suffix of a counter off, and so does the other.
        self.assertEqual(names, same)

    def test_one_that_fails(self) -> None:
        """A scrape that cannot be made is told to all who wait, and the next one is made."""
        broken = [True]

        def read() -> Iterator[Row]:
            value: Any = "no number" if broken[0] else 1.0
            yield (), value

        self.metrics.watch_rows(Family("omnigate_broken", "sum", "Broken."), read)
        asked = [self.ask(), self.ask()]
        self.writer.run()
        for waiter in asked:
            self.failureResultOf(waiter, ValueError)
        broken[0] = False
        after = self.ask()
        self.writer.run()
        self.assertIn(b"omnigate_broken 1.0\n", self.successResultOf(after).body)

    def test_one_that_cannot_be_read(self) -> None:
        """Nor does one that breaks while it is read keep the others from theirs."""
        self.metrics.watch("omnigate_broken", "Broken.", lambda: 1 / 0)
        self.failureResultOf(self.ask(), ZeroDivisionError)
        self.metrics.watch("omnigate_broken", "Broken.", lambda: 0)
        after = self.ask()
        self.writer.run()
        self.assertIn(b"omnigate_broken 0.0\n", self.successResultOf(after).body)

    def test_counters_go_on(self) -> None:
        """A counter that is kept in another place from now on goes on; a gauge begins anew."""
        for value in (5.0, 2.0, 3.0):
            self.metrics.watch("omnigate_x_total", "X.", partial(float, value))
            self.metrics.watch("omnigate_y", "Y.", partial(float, value))
        text = self.metrics.text(self.metrics.read(), False)
        self.assertIn(b"omnigate_x_total 10.0\n", text)
        self.assertIn(b"omnigate_y 3.0\n", text)
        self.assertEqual(1, text.count(b"# TYPE omnigate_x_total"))

    def test_head(self) -> None:
        """HEAD has the head of GET and nothing else, and the connection goes on."""
        plane = Plane(self.mktemp())
        reply = plane.admin("HEAD", "/metrics")
        self.assertEqual((200, b""), (reply.status, reply.body))
        self.assertEqual(PLAIN.decode(), reply.headers["content-type"])
        self.assertLess(1000, int(reply.headers["content-length"]))

    def test_before_the_ledger_is_loaded(self) -> None:
        """There is a scrape, and it says so."""
        plane = Plane(self.mktemp(), open_ledger=False)
        text = plane.scrape()
        self.assertIn(b"omnigate_ledger_ready 0.0\n", text)
        self.assertNotIn(b"\nomnigate_ledger_load_seconds ", text)


class HoldTests(TestCase):
    """What a scrape of 5,000 routes takes from the reactor."""

    def test_reading(self) -> None:
        """To copy the figures, which is all that the reactor's thread does, takes 20 ms at most."""
        metrics = crowded()
        costs = []
        for _ in range(5):
            began = time.thread_time()
            figures = metrics.read()
            costs.append(time.thread_time() - began)
        self.assertLess(min(costs), 0.02)
        self.assertLess(6 * ROUTES, sum(len(part.rows) for part in figures))

    def test_in_another_thread(self) -> None:
        """What was read changes no more, whatever is counted while it is written."""
        metrics = crowded()
        figures = metrics.read()
        before = metrics.text(figures, False)
        writing = deferToThread(metrics.text, figures, False)
        for number in range(ROUTES):
            metrics.recorded(decode_event(event(route_model=f"route-{number}", status=500)), 1)

        def written(text: bytes) -> None:
            ours = [line for line in text.splitlines() if line.startswith(b"omnigate_")]
            same = [line for line in before.splitlines() if line.startswith(b"omnigate_")]
            self.assertEqual(same, ours)
            self.assertLess(6 * ROUTES, len(ours))

        writing.addCallback(written)
        return writing  # type: ignore[return-value]
