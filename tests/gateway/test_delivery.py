"""Delivery: nothing is forgotten before it is acknowledged, and nothing blocks for ever."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import MAX_BATCH_EVENTS
from omnigate.gateway import count_reports as count_reports_module
from omnigate.gateway import delivery as delivery_module
from omnigate.gateway.count_reports import (
    COUNTERS_PATH,
    SECONDS_BETWEEN_FIGURES,
    CountReports,
    Figures,
)
from omnigate.gateway.delivery import (
    LONGEST_PAUSE_SECONDS,
    STOP_SECONDS,
    USAGE_PATH,
    Delivery,
)
from omnigate.gateway.spool import Spool
from omnigate.testing.writer import SynchronousWriter

Answer = tuple[int, bytes]
FLUSH = 1.0


class Control:
    """A control plane that records what it acknowledges.

    ``status`` is its answer to everything; with ``poison`` it answers 400 to a batch that holds
    one of those events, with ``most_bytes`` 413 to one that is longer; ``silent`` leaves requests
    without an answer, and ``away`` refuses connections. While it is ``full`` it records nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.status = 200
        self.poison: set[int] = set()
        self.most_bytes = 10**9
        self.silent = False
        self.away = False
        self.full = False
        self.answer: bytes | None = None
        self.recorded: list[int] = []
        self.batches: list[int] = []
        self.counters: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.open: list[Deferred[Answer]] = []

    def post(self, path: str, body: bytes) -> Deferred[Answer]:
        """Answer one request."""
        self.times.append(self.clock.seconds())
        if self.away:
            return fail(ConnectionError("connection refused"))
        if self.silent:
            waiting: Deferred[Answer] = Deferred()
            self.open.append(waiting)
            return waiting
        return succeed(self.judge(path, body))

    def judge(self, path: str, body: bytes) -> Answer:
        """Record what is acceptable."""
        message = json.loads(body)
        if self.status != 200:
            return self.status, b""
        if path == COUNTERS_PATH:
            self.counters.append(message)
            return 200, b"{}"
        assert path == USAGE_PATH
        if self.full:
            return 503, b""
        events = [int(event["id"]) for event in message["events"]]
        if len(body) > self.most_bytes:
            return 413, b""
        if self.poison & set(events):
            return 400, b""
        self.recorded += events
        self.batches.append(len(events))
        if self.answer is not None:
            return 200, self.answer
        return 200, b'{"recorded":%d,"duplicates":0,"invalid":0}' % len(events)


class Told(Figures):
    """What a test has told."""

    def __init__(self, case: DeliveryCase) -> None:
        self._case = case

    def gauges(self) -> dict[str, float]:
        return self._case.gauges


class DeliveryCase(SynchronousTestCase):
    """A spool, a control plane, and the task between them."""

    def setUp(self) -> None:
        """Make the parts."""
        self.clock = Clock()
        folder = self.mktemp()
        os.mkdir(folder)
        self.spool = Spool(os.path.join(folder, "spool"), SynchronousWriter())
        self.spool.open()
        self.addCleanup(self.spool.close)
        self.control = Control(self.clock)
        self.gauges: dict[str, float] = {}
        self.reports = CountReports(self.control.post, self.clock, "me")
        self.reports.figures = Told(self)
        self.delivery = Delivery(
            self.spool, self.control.post, self.clock, FLUSH, self.reports.send
        )
        self.number = 0

    def queue(self, count: int = 1) -> None:
        """Put events into the spool, numbered from zero."""
        for _ in range(count):
            self.assertTrue(self.spool.append(b'{"id":"%d"}' % self.number))
            self.number += 1

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)


class UsageTests(DeliveryCase):
    """Usage events."""

    def test_at_once_and_then_regularly(self) -> None:
        """What an earlier run left goes at once, what comes later at the next flush."""
        self.queue(2)
        self.delivery.start()
        self.clock.advance(0)
        self.assertEqual(self.control.recorded, [0, 1])
        self.queue(1)
        self.clock.advance(FLUSH)
        self.assertEqual(self.control.recorded, [0, 1, 2])
        self.assertEqual((self.spool.count, self.delivery.delivered), (0, 3))

    def test_nothing_to_say(self) -> None:
        """Without events nothing is sent."""
        self.delivery.start()
        self.pass_time(20)
        self.assertEqual(self.control.times, [])

    def test_batches(self) -> None:
        """Many events go in batches of at most 500, oldest first, without pauses between."""
        self.queue(1250)
        self.delivery.start()
        self.clock.advance(0)
        self.assertEqual(self.control.batches, [500, 500, 250])
        self.assertEqual(self.control.recorded, list(range(1250)))

    def test_bytes_of_a_batch(self) -> None:
        """A batch of long events holds fewer of them, but always one."""
        self.patch(delivery_module, "MAX_BATCH_BYTES", 35)
        self.queue(7)
        self.delivery.start()
        self.clock.advance(0)
        self.assertEqual(self.control.batches, [3, 3, 1])
        self.patch(delivery_module, "MAX_BATCH_BYTES", 1)
        self.queue(1)
        self.pass_time(1)
        self.assertEqual(self.control.batches[-1], 1)

    def test_kept_until_acknowledged(self) -> None:
        """Events stay in the spool while the answer is out, and after an answer that is lost."""
        self.control.silent = True
        self.queue(3)
        self.delivery.start()
        self.clock.advance(0)
        self.queue(1)
        self.assertEqual(self.spool.count, 4)
        self.control.silent = False
        self.control.open[0].errback(ConnectionError("lost"))
        self.assertEqual(self.spool.count, 4)
        self.pass_time(2)
        self.assertEqual(self.control.recorded, [0, 1, 2, 3])

    def test_pauses_grow(self) -> None:
        """While it fails the pauses grow to ten seconds; after a success they are short again."""
        self.control.away = True
        self.queue(1)
        with capturedLogs() as logged:
            self.delivery.start()
            self.pass_time(60)
        pauses = [
            round(later - earlier)
            for earlier, later in zip(self.control.times, self.control.times[1:], strict=False)
        ]
        self.assertEqual(pauses[:6], [1, 2, 4, 8, 10, 10])
        self.assertEqual(len(logged), 1)
        self.assertEqual(self.delivery.failures, len(self.control.times))
        self.control.away = False
        self.pass_time(LONGEST_PAUSE_SECONDS)
        self.assertEqual(self.control.recorded, [0])
        self.control.away = True
        self.control.times.clear()
        self.queue(1)
        self.pass_time(3)
        self.assertEqual(len(self.control.times), 2)

    def test_statuses_that_are_not_about_the_batch(self) -> None:
        """A wrong token, a wrong address or a broken control plane loses nothing."""
        self.queue(3)
        self.delivery.start()
        for status in (401, 403, 404, 405, 408, 418, 429, 500, 502, 503, 302):
            self.control.status = status
            self.pass_time(11)
            self.assertEqual(self.spool.count, 3)
        self.control.status = 200
        self.pass_time(11)
        self.assertEqual(self.control.recorded, [0, 1, 2])
        self.assertEqual(self.delivery.put_aside, 0)

    def test_spool_file_taken_away(self) -> None:
        """The spool's file is looked after at each try, be the control plane there or not."""
        for status in (200, 503):
            self.setUp()
            self.control.status = status
            self.delivery.start()
            self.queue(1)
            os.unlink(self.spool.path)
            with capturedLogs():
                self.pass_time(LONGEST_PAUSE_SECONDS * 2)
            self.assertTrue(os.path.exists(self.spool.path))

    def test_other_server(self) -> None:
        """A 200 that no control plane gives is no acknowledgement."""
        self.queue(1)
        self.delivery.start()
        for answer in (
            b"<html>",
            b"",
            b"[]",
            b"{}",
            b"\xff",
            b"[" * 10_000,
            b'{"recorded":1}',
            b'{"recorded":0,"duplicates":0,"invalid":0}',
            b'{"recorded":2,"duplicates":0,"invalid":0}',
            b'{"recorded":500,"duplicates":-499,"invalid":0}',
            b'{"recorded":"1","duplicates":0,"invalid":0}',
            b'{"recorded":true,"duplicates":0,"invalid":0}',
            b'{"recorded":1.5,"duplicates":0,"invalid":0}',
            b'[{"recorded":1,"duplicates":0,"invalid":0}]',
        ):
            self.control.answer = answer
            self.pass_time(11)
            self.assertEqual(self.spool.count, 1)
        self.control.answer = None
        for status in (201, 202, 204):
            self.control.status = status
            self.pass_time(11)
            self.assertEqual(self.spool.count, 1)

    def test_accounted_for(self) -> None:
        """An event may be new, known already or not to be recorded: the batch is done with."""
        for answer in (
            b'{"recorded":1,"duplicates":1,"invalid":1}',
            b'{"invalid":3,"recorded":0,"duplicates":0,"more":[]}',
        ):
            self.setUp()
            self.queue(3)
            self.control.answer = answer
            self.delivery.start()
            self.clock.advance(0)
            self.assertEqual(self.spool.count, 0)

    def test_tells_the_version_of_the_config(self) -> None:
        """With each acknowledgement, and only then; an older control plane tells none."""
        told: list[str] = []
        delivery = Delivery(
            self.spool, self.control.post, self.clock, FLUSH, config_told=told.append
        )
        delivery.start()
        for answer, then in (
            (b'{"recorded":1,"duplicates":0,"invalid":0,"config_version":"ab"}', ["ab"]),
            (b'{"recorded":0,"duplicates":0,"invalid":0,"config_version":"cd"}', ["ab"]),
            (b'{"recorded":2,"duplicates":0,"invalid":0}', ["ab"]),
            (b'{"recorded":1,"duplicates":0,"invalid":0,"config_version":""}', ["ab", ""]),
        ):
            self.queue()
            self.control.answer = answer
            self.pass_time(LONGEST_PAUSE_SECONDS + FLUSH)
            self.assertEqual(told, then)
        self.assertEqual(self.spool.count, 0)

    def test_too_large(self) -> None:
        """A batch that is too large is halved until it fits, and grows again later."""
        self.control.most_bytes = 400
        self.queue(100)
        self.delivery.start()
        self.pass_time(1)
        self.assertEqual(self.control.recorded, list(range(100)))
        self.control.most_bytes = 10**9
        self.queue(3000)
        self.pass_time(1)
        self.assertEqual(self.control.recorded, list(range(3100)))
        self.assertIn(MAX_BATCH_EVENTS, self.control.batches)

    def test_refused_event(self) -> None:
        """An event that is refused while others are accepted is put aside, and named."""
        self.control.poison = {0, 7, 8, 99}
        self.queue(100)
        with capturedLogs() as logged:
            self.delivery.start()
            self.pass_time(3)
        self.queue(1)
        self.pass_time(3)
        self.assertEqual(set(self.control.recorded), set(range(101)) - self.control.poison)
        self.assertEqual((self.spool.count, self.delivery.put_aside), (0, 4))
        with open(self.spool.path + ".refused", "rb") as stream:
            aside = [int(json.loads(line)["id"]) for line in stream]
        self.assertEqual(aside, [0, 7, 8, 99])
        errors = [one for one in logged if one["log_level"] == LogLevel.error]
        self.assertGreaterEqual(len(errors), 3)

    def test_everything_refused(self) -> None:
        """While every event is refused none is put aside: then it is not the events."""
        self.control.poison = set(range(100))
        self.queue(50)
        self.delivery.start()
        self.pass_time(60)
        self.assertEqual((self.spool.count, self.delivery.put_aside), (50, 0))
        self.control.poison = set()
        self.pass_time(20)
        self.assertEqual(set(self.control.recorded), set(range(50)))

    def test_no_room_aside(self) -> None:
        """An event that cannot be put aside stays in the queue."""
        os.mkdir(self.spool.path + ".refused")
        self.control.poison = {0}
        self.queue(3)
        self.delivery.start()
        self.pass_time(10)
        self.assertEqual(self.spool.count, 3)

    def test_fault_of_its_own(self) -> None:
        """A fault in here does not end the task."""
        self.patch(self.spool, "peek", None)
        self.queue(1)
        self.delivery.start()
        self.clock.advance(0)
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)
        del self.spool.peek
        self.pass_time(3)
        self.assertEqual(self.control.recorded, [0])

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("queue"), st.integers(1, 40)),
                st.tuples(st.just("status"), st.sampled_from([200, 200, 503, 401])),
                st.tuples(st.just("away"), st.integers(0, 1)),
                st.tuples(st.just("bytes"), st.integers(30, 600)),
                st.tuples(st.just("time"), st.integers(1, 15)),
            ),
            max_size=30,
        )
    )
    def test_any_order(self, steps: list[tuple[str, int]]) -> None:
        """Whatever fails and comes back, every event is recorded in the end."""
        self.setUp()
        self.delivery.start()
        for step, value in steps:
            if step == "queue":
                self.queue(value)
            elif step == "status":
                self.control.status = value
            elif step == "away":
                self.control.away = bool(value)
            elif step == "bytes":
                self.control.most_bytes = value
            else:
                self.pass_time(value)
            waiting = {int(json.loads(line)["id"]) for line in self.spool.peek(10**6)}
            self.assertEqual(waiting | set(self.control.recorded), set(range(self.number)))
        self.control.status, self.control.away, self.control.most_bytes = 200, False, 10**9
        self.pass_time(12)
        self.assertEqual(set(self.control.recorded), set(range(self.number)))
        self.assertEqual(self.spool.count, 0)


class StopTests(DeliveryCase):
    """The last delivery."""

    def test_once_more(self) -> None:
        """What waits at a stop is delivered before it is over."""
        self.delivery.start()
        self.clock.advance(0)
        self.queue(1200)
        self.reports.refusal("app", "invalid_request")
        self.successResultOf(self.delivery.stop())
        self.assertEqual(self.control.recorded, list(range(1200)))
        self.assertEqual(len(self.control.counters), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_while_a_batch_is_out(self) -> None:
        """A batch that is out is waited for and not sent a second time."""
        self.control.silent = True
        self.queue(2)
        self.delivery.start()
        self.clock.advance(0)
        stopped = self.delivery.stop()
        self.assertNoResult(stopped)
        self.control.silent = False
        told = b'{"recorded":2,"duplicates":0,"invalid":0}'
        self.control.open[0].callback((200, told))
        self.successResultOf(stopped)
        self.assertEqual((self.spool.count, self.control.recorded), (0, []))

    def test_bounded(self) -> None:
        """A control plane that does not answer holds a stop up for a few seconds only."""
        self.control.silent = True
        self.queue(2)
        self.delivery.start()
        self.clock.advance(0)
        with capturedLogs() as logged:
            stopped = self.delivery.stop()
            self.clock.advance(STOP_SECONDS)
        self.successResultOf(stopped)
        self.assertEqual(self.spool.count, 2)
        self.assertEqual([event.get("count") for event in logged], [2])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_given_up(self) -> None:
        """In a hurry nothing is waited for, begun or not, and nothing is begun any more."""
        for queued_first in (True, False):
            for before in (True, False):
                self.setUp()
                self.control.silent = True
                if queued_first:
                    self.queue(2)
                self.delivery.start()
                self.clock.advance(0)
                if not queued_first:
                    self.queue(2)
                if before:
                    self.delivery.give_up()
                stopped = self.delivery.stop()
                if not before:
                    self.assertNoResult(stopped)
                    self.assertEqual(len(self.control.open), 1)
                    self.delivery.give_up()
                self.successResultOf(stopped)
                self.assertEqual(len(self.control.open), int(queued_first or not before))
                self.assertEqual(self.spool.count, 2)
                self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual([], self.flushLoggedErrors())

    def test_control_away(self) -> None:
        """Without a control plane a stop is over at once, and what waits stays in the file."""
        self.control.away = True
        self.queue(2)
        self.delivery.start()
        self.pass_time(5)
        self.successResultOf(self.delivery.stop())
        self.assertEqual(self.spool.count, 2)

    def test_never_started(self) -> None:
        """A delivery that was never started delivers when it is stopped."""
        self.queue(2)
        self.successResultOf(self.delivery.stop())
        self.assertEqual(self.control.recorded, [0, 1])


class CounterTests(DeliveryCase):
    """Counts of refusals, and gauges."""

    def sums(self) -> dict[tuple[str, str], int]:
        """Return what the control plane has counted."""
        sums: dict[tuple[str, str], int] = {}
        for message in self.control.counters:
            for row in message["refusals"]:
                pair = row["key"], row["code"]
                sums[pair] = sums.get(pair, 0) + row["count"]
        return sums

    def test_counted(self) -> None:
        """Refusals are summed by key and reason and sent at the next flush, once."""
        self.delivery.start()
        self.clock.advance(0)
        for _ in range(3):
            self.reports.refusal("app", "rate_limit_exceeded")
        self.reports.refusal(None, "invalid_api_key")
        self.pass_time(5)
        expected = {("app", "rate_limit_exceeded"): 3, ("", "invalid_api_key"): 1}
        self.assertEqual(self.sums(), expected)
        self.assertEqual(len(self.control.counters), 1)

    def test_merged_back(self) -> None:
        """Counts that could not be sent are added to the next ones."""
        self.delivery.start()
        self.clock.advance(0)
        for change in ({"away": True}, {"away": False, "status": 503}, {"status": 200}):
            for name, value in change.items():
                setattr(self.control, name, value)
            self.reports.refusal("app", "not_found")
            self.pass_time(11)
        self.assertEqual(self.sums(), {("app", "not_found"): 3})

    def test_counted_while_out(self) -> None:
        """Refusals counted while a post is out are not lost when it fails."""
        self.control.silent = True
        self.reports.refusal("app", "not_found")
        self.delivery.start()
        self.clock.advance(0)
        self.reports.refusal("app", "not_found")
        self.control.silent = False
        self.control.open[0].errback(ConnectionError())
        self.pass_time(2)
        self.assertEqual(self.sums(), {("app", "not_found"): 2})

    def test_bounded(self) -> None:
        """Beyond the most pairs counts lose their key and keep their reason."""
        self.patch(count_reports_module, "MAX_COUNTERS", 3)
        for number in range(10):
            self.reports.refusal(f"k{number}", "not_found")
        self.reports.refusal("k0", "not_found")
        self.delivery.start()
        self.clock.advance(0)
        self.assertEqual(sum(self.sums().values()), 11)
        self.assertEqual(self.sums()["", "not_found"], 7)

    def test_largest_report(self) -> None:
        """The largest report is below what the control plane takes."""
        for number in range(count_reports_module.MAX_COUNTERS):
            self.reports.refusal(f"{number:064d}", "concurrency_limit_exceeded")
        sizes: list[int] = []
        judge = self.control.judge

        def measured(path: str, body: bytes) -> Answer:
            sizes.append(len(body))
            return judge(path, body)

        self.patch(self.control, "judge", measured)
        self.delivery.start()
        self.clock.advance(0)
        self.assertLess(sizes[0], 1024 * 1024)

    def test_gauges(self) -> None:
        """Gauges go along, every few seconds."""
        self.gauges = {"reactor_lag_ms": 1.5, "in_flight": 3}
        self.delivery.start()
        self.pass_time(SECONDS_BETWEEN_FIGURES * 2 + 2.5)
        self.assertEqual([one["gauges"] for one in self.control.counters], [self.gauges] * 3)
        self.assertEqual(self.sums(), {})
        self.assertEqual(["me"] * 3, [one["reporter"] for one in self.control.counters])

    def test_gauges_while_nothing_can_be_recorded(self) -> None:
        """A control plane whose disk is full is still told how much waits; its word counts."""
        self.control.full = True
        self.gauges = {"spool_events": 2}
        self.queue(2)
        self.delivery.start()
        self.pass_time(1)
        self.assertEqual([one["gauges"] for one in self.control.counters], [self.gauges])
        self.assertEqual((self.control.recorded, self.spool.count), ([], 2))
        self.assertGreater(self.delivery.failures, 0)

    def test_no_gauges_where_nobody_listens(self) -> None:
        """One that is away, or takes the token for wrong, is not asked twice in a turn."""
        self.gauges = {"spool_events": 2}
        self.queue(2)
        self.control.away = True
        self.delivery.start()
        for away in (True, False):
            self.control.away, self.control.status = away, 401
            self.pass_time(15)
            self.assertEqual(len(self.control.times), self.delivery.failures)

    def test_leaving(self) -> None:
        """At a stop the figures are taken back: with the last counts, and where there are none."""
        for refused in (0, 1):
            self.setUp()
            self.gauges = {"in_flight": 3}
            self.delivery.start()
            self.pass_time(1)
            for _ in range(refused):
                self.reports.refusal("app", "not_found")
            self.successResultOf(self.delivery.stop())
            self.assertEqual([None, True], [one.get("leaving") for one in self.control.counters])
            self.assertEqual({}, self.control.counters[-1]["gauges"])
            self.assertEqual(refused, sum(self.sums().values()))

    def test_leaving_unknown(self) -> None:
        """Whoever told no figures has none to take back."""
        self.delivery.start()
        self.pass_time(1)
        self.gauges = {"in_flight": 3}
        self.successResultOf(self.delivery.stop())
        self.assertEqual([], self.control.counters)
