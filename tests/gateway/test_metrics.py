"""What a scrape of the data plane shows."""

from __future__ import annotations

import re
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from omnigate.metric_families import BUCKETS, ROWS_AT_A_TIME
from omnigate.metric_text import exposition, family_of, wants_openmetrics
from tests.gateway.scraping import (
    Figures,
    Parts,
    figures_of,
    metrics_of,
    samples_of,
    scraped,
    text_of,
    total,
    value,
)
from tests.planes.memory import MemoryDataPlane, reply, request, route
from tests.planes.scenes import ANSWER, CHAT, CHAT_STREAM, CLOSING, END, STREAM_HEAD, chunk, delta


def crowd(memory: MemoryDataPlane, routes: int) -> None:
    """Have so many routes counted, each with ten upstreams behind it and a few outcomes."""
    tally = memory.plane.books.tally
    for number in range(routes):
        name = f"route-{number}"
        for status_class, outcome in ((2, "answered"), (4, "broken_off"), (5, "failed")):
            tally.plain(name, "chat", status_class * 100, outcome)
    for number in range(10):
        for status in range(500, 600):
            tally.attempts[f"u{number}", f"status_{status}"] = 7


class TextTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.memory = MemoryDataPlane()

    def test_form(self) -> None:
        """Every line is a comment or a sample, every name ours, the process's or Python's."""
        body = text_of(self.memory)
        self.assertTrue(body.endswith(b"\n"))
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                self.assertRegex(
                    line, r"^(omnigate|process|python)_[a-z0-9_]+(\{[^{}]*\})? [-+0-9.eE]+$"
                )
        for name in re.findall(r"^# TYPE (omnigate_\S+) counter$", body.decode(), re.MULTILINE):
            self.assertTrue(name.endswith("_total"), name)

    def test_openmetrics(self) -> None:
        """In OpenMetrics too, in which a reader is strict about order, ends and suffixes."""
        crowd(self.memory, 600)
        body = text_of(self.memory, True)
        names = [family.name for family in text_string_to_metric_families(body.decode())]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(1, body.count(b"# EOF\n"))
        self.assertTrue(wants_openmetrics(b"text/plain;q=0.5,application/openmetrics-text;q=0.9"))
        self.assertFalse(wants_openmetrics(b"*/*"))

    def test_parts_make_a_whole(self) -> None:
        """A family of any size stands in one piece, its head once, no sample lost or doubled."""
        for rows in (0, 1, ROWS_AT_A_TIME, ROWS_AT_A_TIME + 1, 3 * ROWS_AT_A_TIME):
            memory = MemoryDataPlane()
            for number in range(rows):
                memory.plane.books.tally.plain(f"r{number}", "chat", 200, "answered")
            body = text_of(memory)
            samples = samples_of(body)
            self.assertEqual(rows, total(samples, "omnigate_data_requests_total"))
            heads = re.findall(rb"(?m)^# TYPE (\S+) ", body)
            self.assertEqual(len(heads), len(set(heads)))

    def test_labels_are_bounded(self) -> None:
        """What a client writes is no label, nor are its key and its address."""
        for body in (CHAT.replace(b"small", b"made-up"), CHAT.replace(b"small", b'\\n"x')):
            self.memory.client().send(request(body))
        self.memory.client().send(request(CHAT, b"/v1/made-up"))
        self.memory.client().send(b"GET /made-up HTTP/1.1\r\nhost: made-up\r\n\r\n")
        body = text_of(self.memory)
        self.assertNotIn(b"made-up", body)
        self.assertNotIn(b"k1", body)
        refused = total(samples_of(body), "omnigate_data_requests_total", outcome="refused")
        self.assertEqual(4, refused)

    def test_hostile_names(self) -> None:
        """A route's name may hold anything; its sample is one line and reads back as it was."""
        name = 'a"b\\c\nd{e="f"} # é'
        memory = MemoryDataPlane(routes=[route(name, ("u1", "m"))])
        memory.plane.books.tally.plain(name, "chat", 200, "answered")
        samples = scraped(memory)
        self.assertEqual(1, total(samples, "omnigate_data_requests_total", route=name))


class FigureTests(SynchronousTestCase):
    """Figures that stand for what happened."""

    def test_an_answer(self) -> None:
        """One request: counted under its route, its upstream and its tokens."""
        memory = MemoryDataPlane()
        client = memory.client()
        client.send(request(CHAT))
        during = scraped(memory)
        size = 2.0 * len(CHAT)
        self.assertEqual(1, value(during, "omnigate_data_requests_in_flight"))
        self.assertEqual(size, value(during, "omnigate_data_request_memory_bytes"))
        self.assertEqual(1, value(during, "omnigate_data_client_connections"))
        self.assertEqual(3, value(during, "omnigate_data_deadlines"))
        self.assertLessEqual(1, value(during, "omnigate_data_timers"))
        pool = "omnigate_data_upstream_connections"
        self.assertEqual(1, value(during, pool, upstream="u1", state="busy"))
        self.assertEqual(0, total(during, "omnigate_data_requests_total"))
        memory.last.answer(reply(ANSWER))
        after = scraped(memory)
        labels = {"route": "small", "endpoint": "chat"}
        name = "omnigate_data_requests_total"
        self.assertEqual(1, value(after, name, status_class="2xx", outcome="answered", **labels))
        self.assertEqual(
            1, value(after, "omnigate_data_attempts_total", upstream="u1", outcome="ok")
        )
        tokens = "omnigate_data_tokens_total"
        self.assertEqual(9, value(after, tokens, route="small", direction="input", cache="none"))
        self.assertEqual(3, value(after, tokens, route="small", direction="output", cache="none"))
        self.assertEqual(0, value(after, "omnigate_data_requests_in_flight"))
        self.assertEqual(0, value(after, "omnigate_data_request_memory_bytes"))
        self.assertEqual(1, value(after, pool, upstream="u1", state="idle"))
        self.assertEqual(0, value(after, pool, upstream="u1", state="busy"))
        opened = "omnigate_data_upstream_connections_opened_total"
        self.assertEqual(1, value(after, opened, upstream="u1"))
        memory.last.close()
        closed = scraped(memory)
        self.assertEqual(0, total(closed, pool))
        self.assertEqual(1, value(closed, opened, upstream="u1"))

    def test_histograms(self) -> None:
        """Buckets are cumulative, the last is all; times are those of the clock."""
        memory = MemoryDataPlane()
        client = memory.client()
        client.send(request(CHAT_STREAM))
        memory.clock.advance(0.03)
        memory.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        memory.advance(7)
        memory.last.answer(chunk(CLOSING) + END)
        samples = scraped(memory)
        for name, seconds in (
            ("omnigate_data_time_to_first_event_seconds", 0.03),
            ("omnigate_data_request_duration_seconds", 7.03),
        ):
            self.assertAlmostEqual(seconds, value(samples, f"{name}_sum", endpoint="chat"), 6)
            self.assertEqual(1, value(samples, f"{name}_count", endpoint="chat"))
            for bound in BUCKETS:
                found = value(samples, f"{name}_bucket", endpoint="chat", le=str(float(bound)))
                self.assertEqual(float(seconds <= bound), found, (name, bound))
            self.assertEqual(1, value(samples, f"{name}_bucket", endpoint="chat", le="+Inf"))

    def test_refusals_and_failures(self) -> None:
        """A refusal, an answer of no target, a client that left."""
        memory = MemoryDataPlane()
        memory.client().send(request(CHAT, secret="og-unknown-key-0123456789"))
        memory.refusing.add("u1")
        memory.client().send(request(CHAT))
        memory.refusing.clear()
        client = memory.client()
        client.send(request(CHAT))
        client.leave()
        samples = scraped(memory)
        self.assertEqual(1, value(samples, "omnigate_data_abandoned_answers"))
        memory.last.answer(reply(ANSWER))
        samples = scraped(memory)
        self.assertEqual(
            1, value(samples, "omnigate_data_refusals_total", reason="invalid_api_key")
        )
        name = "omnigate_data_requests_total"
        for outcome, status_class, route_name in (
            ("refused", "4xx", "none"),
            ("failed", "5xx", "small"),
            ("broken_off", "4xx", "small"),
        ):
            labels = {"outcome": outcome, "status_class": status_class, "route": route_name}
            self.assertEqual(1, total(samples, name, **labels), outcome)
        self.assertEqual(3, total(samples, name))
        self.assertEqual(
            1,
            value(samples, "omnigate_data_attempts_total", upstream="u1", outcome="connect_error"),
        )

    def test_cache(self) -> None:
        """A hit, a miss, and what is kept."""
        memory = MemoryDataPlane(routes=[route("small", ("u1", "vendor-1"), cache_ttl_s=60)])
        for _ in range(3):
            memory.client().send(request(CHAT))
            for connection in memory.busy:
                connection.answer(reply(ANSWER))
        samples = scraped(memory)
        name = "omnigate_data_cache_lookups_total"
        self.assertEqual(
            (2, 1), (value(samples, name, result="hit"), value(samples, name, result="miss"))
        )
        self.assertEqual(2, total(samples, "omnigate_data_requests_total", outcome="cached"))
        self.assertEqual(1, value(samples, "omnigate_data_cache_answers"))
        self.assertLess(len(ANSWER), value(samples, "omnigate_data_cache_bytes"))

    def test_spools_that_were_left(self) -> None:
        """What a run with more workers left counts as ours while it is delivered."""
        memory = MemoryDataPlane()
        parts = Parts(memory.plane, left=Figures(count=2, bytes=20, delivered=3, failures=4))
        parts.spool, parts.delivery = Figures(count=1, bytes=10), Figures(delivered=1, put_aside=1)
        parts.attesting = Figures(dropped=7)
        families = map(family_of, figures_of(memory, parts).parts())
        samples = samples_of(b"".join(exposition(families, False)))
        for name, expected in (
            ("spool_events", 3),
            ("spool_bytes", 30),
            ("data_usage_delivered_total", 4),
            ("data_delivery_failures_total", 4),
            ("data_usage_put_aside_total", 1),
            ("data_receipts_dropped_total", 7),
        ):
            self.assertEqual(expected, value(samples, f"omnigate_{name}"), name)

    def test_before_a_config(self) -> None:
        """Without a config there is a scrape all the same."""
        memory = MemoryDataPlane(configured=False)
        samples = scraped(memory)
        self.assertEqual(0, value(samples, "omnigate_data_config_installed_timestamp_seconds"))
        self.assertEqual(0, total(samples, "omnigate_data_upstream_connections"))

    def test_config_dates(self) -> None:
        """They are dates, whatever the clock of what lasts counts from."""
        memory = MemoryDataPlane()
        parts = Parts(memory.plane)
        parts.pull.polled_at = memory.clock.seconds()
        memory.clock.advance(90)
        families = map(family_of, figures_of(memory, parts).parts())
        samples = samples_of(b"".join(exposition(families, False)))
        for name in ("last_poll", "installed"):
            found = value(samples, f"omnigate_data_config_{name}_timestamp_seconds")
            self.assertAlmostEqual(memory.wall() - 90, found, 3)


class CostTests(SynchronousTestCase):
    """What a scrape of a crowded plane costs the reactor."""

    def test_no_piece_is_long(self) -> None:
        """With 5,000 routes and 1,000 outcomes of upstreams no piece takes 20 ms."""
        memory = MemoryDataPlane()
        crowd(memory, 5000)
        list(exposition(metrics_of(memory).families(()), False))
        shortest: list[float] = []
        for _ in range(3):
            taken = []
            pieces = exposition(metrics_of(memory).families(()), True)
            while True:
                begun = time.thread_time()
                if next(pieces, None) is None:
                    break
                taken.append(time.thread_time() - begun)
            shortest = [min(pair) for pair in zip(taken, shortest or taken, strict=True)]
        self.assertGreater(len(shortest), 80)
        self.assertLess(max(shortest), 0.020)
