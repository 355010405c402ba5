"""The listener for metrics."""

from __future__ import annotations

from prometheus_client.core import Metric
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.scrapes import (
    MAX_SCRAPERS,
    SCRAPER_SECONDS,
    ScrapePlane,
    scrape_factory,
)
from omnigate.metric_text import OPENMETRICS, PLAIN
from omnigate.testing.writer import SynchronousWriter
from tests.gateway.scraping import metrics_of, samples_of, total
from tests.planes.memory import FakeClient, MemoryDataPlane

SCRAPE = b"GET /metrics HTTP/1.1\r\nhost: g\r\n\r\n"


class BrokenError(Exception):
    """A figure that cannot be told."""


class ScrapeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.memory = MemoryDataPlane()
        self.writer = SynchronousWriter()
        self.metrics = metrics_of(self.memory)
        self.factory = scrape_factory(self.metrics, self.memory.plane, self.writer)

    def scraper(self) -> FakeClient:
        """A connection to the listener."""
        return FakeClient(self.memory.clock, self.factory)

    def turns(self, count: int = 200) -> None:
        """Let the reactor turn."""
        for _ in range(count):
            self.memory.turn()


class AnswerTests(ScrapeCase):
    def test_scrape(self) -> None:
        """The text, whole, with its type; and again on the same connection."""
        scraper = self.scraper()
        for number in range(2):
            scraper.send(SCRAPE)
            self.turns()
            answers = scraper.answers(*[b"GET"] * (number + 1))
            self.assertEqual(number + 1, len(answers))
            answer = answers[-1]
            self.assertEqual((200, True), (answer.status, answer.whole))
            self.assertEqual(PLAIN, answer.headers[b"content-type"])
            self.assertEqual(b"no-store", answer.headers[b"cache-control"])
            # What is asked here is no request of the plane.
            self.assertEqual(0, total(samples_of(answer.body), "omnigate_data_requests_total"))

    def test_openmetrics(self) -> None:
        """To a scraper that asks for it."""
        scraper = self.scraper()
        scraper.send(
            b"GET /metrics?name=x HTTP/1.1\r\nhost: g\r\n"
            b"accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n"
        )
        self.turns()
        self.assertEqual(OPENMETRICS, scraper.answer.headers[b"content-type"])
        self.assertTrue(scraper.answer.body.endswith(b"# EOF\n"))

    def test_head(self) -> None:
        """HEAD tells the length and sends nothing."""
        scraper = self.scraper()
        scraper.send(SCRAPE.replace(b"GET", b"HEAD"))
        self.turns()
        [answer] = scraper.answers(b"HEAD")
        self.assertEqual((200, b""), (answer.status, answer.body))
        self.assertGreater(int(answer.headers[b"content-length"]), 1000)

    def test_nothing_else(self) -> None:
        """Every other path, method and body is refused, and nothing of the public port is here."""
        for head, status in (
            (b"GET / HTTP/1.1", 404),
            (b"GET /metrics/ HTTP/1.1", 404),
            (b"GET /healthz HTTP/1.1", 404),
            (b"GET /v1/models HTTP/1.1", 404),
            (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 9", 404),
            (b"GET //metrics HTTP/1.1", 404),
            (b"POST /metrics HTTP/1.1\r\ncontent-length: 0", 405),
            (b"DELETE /metrics HTTP/1.1", 405),
            (b"GET /metrics HTTP/1.1\r\ncontent-length: 5", 400),
            (b"GET /metrics HTTP/1.1\r\nx: " + b"x" * 70_000, 400),
            (b"GET /metrics HTTP/3.1", 505),
            (b"nonsense", 400),
        ):
            scraper = self.scraper()
            scraper.send(head + b"\r\nhost: g\r\n\r\n")
            self.turns()
            self.assertEqual(status, scraper.answer.status, head[:60])
            scraper.leave()
        self.assertEqual([], self.memory.refused)

    def test_broken_figure(self) -> None:
        """A scrape that fails is 500 and a line in the log; the next one is made."""

        def broken() -> list[Metric]:
            raise BrokenError

        patch = self.patch(self.metrics, "read_process", broken)
        scraper = self.scraper()
        scraper.send(SCRAPE)
        self.turns()
        self.assertEqual(500, scraper.answer.status)
        self.assertEqual(1, len(self.flushLoggedErrors(BrokenError)))
        patch.restore()
        scraper.send(SCRAPE)
        self.turns()
        self.assertEqual([500, 200], [a.status for a in scraper.answers(b"GET", b"GET")])


class BoundTests(ScrapeCase):
    def test_one_scrape_for_many(self) -> None:
        """Scrapers that come while one is made are answered together by the next."""
        self.writer.holding = True
        scrapers = [self.scraper() for _ in range(MAX_SCRAPERS)]
        for scraper in scrapers:
            scraper.send(SCRAPE)
        for done in (1, MAX_SCRAPERS):
            self.assertEqual(1, self.writer.pending)
            self.writer.run()
            self.turns()
            self.assertEqual(done, sum(1 for scraper in scrapers if scraper.received()))
        self.assertEqual(0, self.writer.pending)
        self.assertEqual({200}, {scraper.answer.status for scraper in scrapers})

    def test_too_many(self) -> None:
        """One connection more is told so and closed, its request unread."""
        scrapers = [self.scraper() for _ in range(MAX_SCRAPERS + 1)]
        last = scrapers[-1]
        last.send(SCRAPE)
        self.turns()
        self.assertEqual(503, last.answer.status)
        self.assertEqual(MAX_SCRAPERS, len(self.factory.connections))

    def test_scrapers_that_leave(self) -> None:
        """Whoever asks and leaves, over and over, leaves no work behind."""
        plane: ScrapePlane = self.factory._plane  # type: ignore[assignment]
        self.writer.holding = True
        for _ in range(50):
            scraper = self.scraper()
            scraper.send(SCRAPE)
            scraper.leave()
        self.assertEqual((1, 0), (self.writer.pending, len(plane._waiting)))
        self.writer.run()
        self.turns()
        self.assertFalse(plane._busy)
        self.assertEqual(set(), self.factory.connections)

    def test_deadlines(self) -> None:
        """A head that trickles, and a scraper that stays idle, are let go."""
        slow, idle = self.scraper(), self.scraper()
        slow.send(SCRAPE[:20])
        idle.send(SCRAPE)
        self.turns()
        self.memory.advance(SCRAPER_SECONDS + 1)
        self.assertFalse(slow.open)
        self.assertFalse(idle.open)
        self.assertEqual(set(), self.factory.connections)
