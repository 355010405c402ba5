"""Deliveries of webhooks: when, how many at once, and how often."""

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Job, Webhook
from omnigate.jobs.webhooks.delivery import CHECK_SECONDS, PUT_OFF_MS, STOP_SECONDS
from omnigate.outbound.messages import Answer
from tests.jobs.webhooks.fakes import World


class ScheduleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.outbound = self.world.outbound

    def test_at_once(self) -> None:
        """The end of a job is told at once, and that is all once it was taken."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(204)
        hook = self.world.hook()
        self.assertEqual(
            (DELIVERED, 1, 204, ""), (hook.state, hook.attempts, hook.last_status, hook.last_error)
        )
        self.world.pass_time(200_000)
        self.assertEqual(1, len(self.outbound.sent))
        self.assertEqual((0, 0), (self.world.hooks.waiting, self.world.hooks.running))

    def test_the_whole_schedule(self) -> None:
        """It is tried again after each delay, not before, and given up after the last."""
        self.outbound.answer = Answer(500)
        self.world.job()
        self.world.pass_time(0)
        for n, seconds in enumerate((5, 300, 1_800, 7_200, 18_000, 36_000, 50_400), start=1):
            self.assertEqual(n, len(self.outbound.sent))
            self.world.pass_time(seconds - 1)
            self.assertEqual(n, len(self.outbound.sent))
            self.world.pass_time(1)
        self.assertEqual(8, len(self.outbound.sent))
        self.assertEqual((GIVEN_UP, 8), (self.world.hook().state, self.world.hook().attempts))
        self.world.pass_time(200_000)
        self.assertEqual(8, len(self.outbound.sent))
        self.assertEqual(
            (8, 1), (self.world.hooks.counters.failed, self.world.hooks.counters.given_up)
        )

    def test_retry_after(self) -> None:
        """A receiver that wants to be left alone is."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(429, retry_after="120")
        self.world.pass_time(119)
        self.assertEqual(1, len(self.outbound.sent))
        self.world.pass_time(1)
        self.assertEqual(2, len(self.outbound.sent))

    def test_gone(self) -> None:
        """After a 410 there is no further attempt."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(410)
        self.world.pass_time(200_000)
        self.assertEqual((GIVEN_UP, 1), (self.world.hook().state, len(self.outbound.sent)))

    def test_a_job_without_a_webhook(self) -> None:
        """Nothing is sent for it, nor for one that has not ended."""
        self.world.store.put(Job(id="job_2", key_sha256="a", model="m", created_ms=1))
        self.world.job("3", hook=Webhook("https://hooks.example"))
        self.world.pass_time(CHECK_SECONDS)
        self.assertEqual([], self.outbound.sent)

    def test_a_job_that_goes(self) -> None:
        """A job that was removed meanwhile is told of no more."""
        self.world.job()
        self.world.pass_time(0)
        del self.world.store.jobs["job_1"]
        self.outbound.reply(500)
        self.world.pass_time(200_000)
        self.assertEqual((1, 0), (len(self.outbound.sent), self.world.hooks.waiting))
        self.assertEqual(0, self.world.hooks.counters.not_written)

    def test_a_clock_that_is_set(self) -> None:
        """A clock that is put forward brings what is due by it within the minute."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(503, retry_after="86400")
        true_ms = self.world.now_ms
        self.world.now_ms = lambda: true_ms() + 90_000_000  # type: ignore[method-assign]
        self.world.hooks._now_ms = self.world.hooks._attempts._now_ms = self.world.now_ms
        self.world.pass_time(CHECK_SECONDS)
        self.assertEqual(2, len(self.outbound.sent))

    def set_back(self) -> None:
        """Set the clock back by a day."""
        true_ms = self.world.now_ms
        self.world.now_ms = lambda: true_ms() - 86_400_000  # type: ignore[method-assign]
        self.world.hooks._now_ms = self.world.hooks._attempts._now_ms = self.world.now_ms

    def test_a_clock_that_is_set_back(self) -> None:
        """What was to come in five minutes comes in five minutes, as do those after it."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(503)
        self.world.pass_time(6)
        self.outbound.reply(503)
        self.set_back()
        self.world.pass_time(2 * CHECK_SECONDS)
        self.assertEqual(2, len(self.outbound.sent))
        self.world.pass_time(5 * CHECK_SECONDS)
        self.assertEqual(3, len(self.outbound.sent))
        self.outbound.reply(200)
        self.assertEqual(0, self.world.hooks.waiting)

    def test_a_clock_that_is_set_back_before_the_first_attempt(self) -> None:
        """It is sent at once."""
        job = self.world.job()
        assert job.webhook is not None
        self.set_back()
        self.world.pass_time(CHECK_SECONDS)
        self.assertEqual(1, len(self.outbound.sent))


class TurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.outbound = self.world.outbound

    def test_as_many_as_may_run(self) -> None:
        """No more than ``max_concurrent`` run at once, and no more than so many of a key."""
        for n in range(10):
            for key in "abcdefgh":
                self.world.job(f"{key}{n}", key)
        self.world.pass_time(0)
        self.assertEqual(16, len(self.outbound.open))
        self.world.pass_time(0)
        self.assertEqual((16, 64), (self.world.hooks.running, self.world.hooks.waiting))

    def test_one_key_alone(self) -> None:
        """A key alone runs four, and the next one as one ends."""
        for n in range(10):
            self.world.job(str(n))
        self.world.pass_time(0)
        self.assertEqual(4, len(self.outbound.open))
        self.outbound.reply(200)
        self.assertEqual((4, 5), (len(self.outbound.open), len(self.outbound.sent)))

    def test_two_keys(self) -> None:
        """A key with one delivery waits for one turn of another one, however many that has."""
        self.world.settings = WebhooksConfig(max_concurrent=1)
        for n in range(100):
            self.world.job(f"a{n:02}", "a")
        self.world.pass_time(0)
        self.world.job("b", "b")
        self.world.pass_time(0)
        for _ in range(3):
            self.outbound.reply(200)
            self.world.pass_time(0)
        self.assertEqual(
            ["job_a00", "job_a01", "job_b", "job_a02"], [sent.job for sent in self.outbound.sent]
        )

    def test_other_sizes(self) -> None:
        """What the config allows by now counts."""
        for n in range(10):
            self.world.job(str(n))
        self.world.pass_time(0)
        self.world.settings = WebhooksConfig(max_concurrent_per_key=6)
        self.outbound.reply(200)
        self.assertEqual(6, len(self.outbound.open))

    def test_many_at_a_start(self) -> None:
        """Thousands that are pending at a start are taken up in slices, each of them once."""
        for n in range(1_000):
            self.world.job(str(n), str(n % 300))
        self.world.outbound.answer = Answer(200)
        self.world.crash()
        first = len(self.outbound.sent)
        self.assertTrue(first <= 16)
        self.world.clock.pump([0.0] * 200)
        self.assertEqual(1_000, len({sent.job for sent in self.outbound.sent}))
        self.assertEqual(1_000, len(self.outbound.sent))


class StorageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.store, self.outbound = self.world.store, self.world.outbound

    def test_written_before_sent(self) -> None:
        """Until the attempt is on the disk, nothing is sent."""
        self.store.held = []
        self.world.job()
        self.world.pass_time(0)
        self.assertEqual([], self.outbound.sent)
        self.store.let_go()
        self.assertEqual(1, len(self.outbound.sent))
        self.assertEqual([("job_1", 1)], [(job, hook.attempts) for job, hook in self.store.written])

    def test_a_full_disk(self) -> None:
        """An attempt that cannot be written is not sent, does not count, and comes later."""
        self.store.full = True
        self.world.job()
        self.world.pass_time(0)
        self.world.pass_time(PUT_OFF_MS / 1_000)
        self.assertEqual(([], 0), (self.outbound.sent, self.world.hook().attempts))
        self.assertEqual(2, self.world.hooks.counters.not_written)
        self.store.full = False
        self.world.pass_time(PUT_OFF_MS / 1_000)
        self.assertEqual((1, 1), (len(self.outbound.sent), self.world.hook().attempts))

    def test_a_fault_of_the_store(self) -> None:
        """What the store has no word for is logged, and the delivery is put off as well."""
        self.store.broken = RuntimeError("a fault")
        self.world.job()
        self.world.pass_time(0)
        self.assertEqual(1, len(self.flushLoggedErrors(RuntimeError)))
        self.store.broken = None
        self.world.pass_time(PUT_OFF_MS / 1_000)
        self.assertEqual(1, len(self.outbound.sent))

    def test_an_outcome_that_is_lost(self) -> None:
        """Where what came of it cannot be written, it is sent again: better twice than never."""
        self.world.job()
        self.world.pass_time(0)
        self.store.full = True
        self.outbound.reply(200)
        self.store.full = False
        self.world.pass_time(5)
        self.assertEqual(2, len(self.outbound.sent))
        self.outbound.reply(200)
        self.assertEqual((DELIVERED, 2), (self.world.hook().state, self.world.hook().attempts))

    def test_a_crash_before_the_request(self) -> None:
        """An attempt that was written and never sent has been used up; the next one comes."""
        self.store.held = []
        self.world.job()
        self.world.pass_time(0)
        self.world.hooks.abandon()
        self.store.let_go()
        self.assertEqual(([], 1), (self.outbound.sent, self.world.hook().attempts))
        self.world.begin()
        self.world.pass_time(5)
        self.assertEqual((1, 2), (len(self.outbound.sent), self.world.hook().attempts))

    def test_a_crash_each_time(self) -> None:
        """However often it crashes, a receiver gets no more than ``max_attempts`` requests."""
        self.world.job()
        for _ in range(20):
            self.world.pass_time(0)
            self.world.crash()
            self.world.pass_time(110_000)
        self.assertEqual(8, len(self.outbound.sent))
        self.assertEqual((GIVEN_UP, 8), (self.world.hook().state, self.world.hook().attempts))

    def test_a_restart(self) -> None:
        """What was pending goes on when it was due, and what is overdue at once."""
        self.world.job("late")
        self.world.job(
            "soon", hook=Webhook("https://hooks.example", PENDING, 1, self.world.now_ms() + 9_000)
        )
        self.world.hooks.abandon()
        self.world.pass_time(3)
        self.world.begin()
        self.world.pass_time(0)
        self.assertEqual(["job_late"], [sent.job for sent in self.outbound.sent])
        self.world.pass_time(6)
        self.assertEqual(["job_late", "job_soon"], [sent.job for sent in self.outbound.sent])

    def test_a_lost_timer(self) -> None:
        """What nothing waits for is found within a minute."""
        self.store.watchers.clear()
        self.world.job()
        self.world.pass_time(CHECK_SECONDS - 1)
        self.assertEqual([], self.outbound.sent)
        self.world.pass_time(1)
        self.assertEqual(1, len(self.outbound.sent))

    def test_a_check_repeats_nothing(self) -> None:
        """The check takes up nothing that waits, or is under way."""
        for n in range(6):
            self.world.job(str(n))
        self.world.pass_time(0)
        self.world.pass_time(CHECK_SECONDS)
        self.assertEqual((4, 2), (len(self.outbound.sent), self.world.hooks.waiting))

    def test_a_fault_of_ours(self) -> None:
        """A fault of this program is logged, and the others go on; it is not tried at once."""
        self.world.job("1", hook=Webhook("https://hooks.example", PENDING, next_ms=1))
        secrets, self.world.secrets = self.world.secrets, (5,)  # type: ignore[assignment]
        self.world.pass_time(0)
        self.assertEqual(1, len(self.flushLoggedErrors(AttributeError)))
        self.world.secrets = secrets
        self.world.job("2")
        self.world.pass_time(0)
        self.assertEqual(["job_2"], [sent.job for sent in self.outbound.sent])
        self.world.pass_time(PUT_OFF_MS / 1_000)
        self.assertIn("job_1", [sent.job for sent in self.outbound.sent])


class StopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.job()
        self.world.pass_time(0)

    def stopping(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self.world.hooks.stop())

    def test_what_is_under_way(self) -> None:
        """A stop lets an attempt end, writes what came of it, and begins nothing more."""
        stopped = self.stopping()
        self.assertNoResult(stopped)
        self.world.job("2")
        self.world.outbound.reply(200)
        self.successResultOf(stopped)
        self.assertEqual(DELIVERED, self.world.hook().state)
        self.assertEqual(
            (1, []), (len(self.world.outbound.sent), self.world.clock.getDelayedCalls())
        )

    def test_what_does_not_end(self) -> None:
        """After some seconds it is cut off, and goes on with the next start."""
        stopped = self.stopping()
        self.world.pass_time(STOP_SECONDS)
        self.successResultOf(stopped)
        self.assertEqual((PENDING, 1), (self.world.hook().state, self.world.hook().attempts))
        self.assertEqual([], self.world.clock.getDelayedCalls())

    def test_nothing_under_way(self) -> None:
        """Then it is over at once."""
        self.world.outbound.reply(500)
        self.successResultOf(self.stopping())
        self.assertEqual([], self.world.clock.getDelayedCalls())

    def test_abandoned(self) -> None:
        """Whoever is abandoned writes nothing more."""
        written = len(self.world.store.written)
        self.world.hooks.abandon()
        self.assertEqual(([], written), (self.world.outbound.open, len(self.world.store.written)))


class ByHandTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.outbound = self.world.outbound

    def given_up(self, attempts: int = 8) -> None:
        self.world.job(hook=Webhook("https://hooks.example", GIVEN_UP, attempts))

    def test_one_more(self) -> None:
        """A delivery that was given up is sent once more, and no more if that fails."""
        self.given_up()
        self.assertEqual("job_1", self.world.hooks.retry("job_1").id)
        self.assertEqual(1, len(self.outbound.sent))
        self.outbound.reply(500)
        self.world.pass_time(200_000)
        self.assertEqual((GIVEN_UP, 9), (self.world.hook().state, self.world.hook().attempts))
        self.assertEqual(1, len(self.outbound.sent))
        self.world.hooks.retry("job_1")
        self.outbound.reply(200)
        self.assertEqual((DELIVERED, 10), (self.world.hook().state, self.world.hook().attempts))

    def test_a_crash(self) -> None:
        """One more is one, whatever crashes."""
        self.given_up()
        self.world.hooks.retry("job_1")
        self.world.crash()
        self.world.pass_time(200_000)
        self.assertEqual((1, GIVEN_UP), (len(self.outbound.sent), self.world.hook().state))

    def test_before_its_time(self) -> None:
        """One that waits is sent now, and goes on with its schedule if that fails."""
        self.world.job()
        self.world.pass_time(0)
        self.outbound.reply(503, retry_after="9000")
        self.world.hooks.retry("job_1")
        self.assertEqual(2, len(self.outbound.sent))
        self.outbound.reply(500)
        self.assertEqual(PENDING, self.world.hook().state)
        self.world.pass_time(300)
        self.assertEqual(3, len(self.outbound.sent))

    def test_twice_at_once(self) -> None:
        """Whoever asks while it is under way gets that one."""
        self.given_up()
        self.world.hooks.retry("job_1")
        self.world.hooks.retry("job_1")
        self.assertEqual(1, len(self.outbound.sent))

    def test_while_it_waits_for_its_turn(self) -> None:
        """One that waits for its turn is sent once, when that comes."""
        self.world.settings = WebhooksConfig(max_concurrent=1)
        self.world.job("0")
        self.world.pass_time(0)
        self.given_up()
        self.world.hooks.retry("job_1")
        self.world.hooks.retry("job_1")
        self.outbound.reply(200)
        self.outbound.reply(500)
        self.world.pass_time(200_000)
        self.assertEqual(["job_0", "job_1"], [sent.job for sent in self.outbound.sent])

    def test_a_full_disk(self) -> None:
        """It is not forgotten while nothing can be written."""
        self.given_up()
        self.world.store.full = True
        self.world.hooks.retry("job_1")
        self.assertEqual([], self.outbound.sent)
        self.world.store.full = False
        self.world.pass_time(PUT_OFF_MS / 1_000)
        self.assertEqual(1, len(self.outbound.sent))

    def test_what_cannot_be_sent(self) -> None:
        """No such job, none to send, delivered already, or stopped."""
        job = self.world.job(hook=Webhook("https://hooks.example", DELIVERED, 1))
        self.world.store.put(msgspec.structs.replace(job, id="job_2", webhook=None))
        self.world.job("3", hook=Webhook("https://hooks.example"))
        for job_id, code in (
            ("job_0", "not_found"),
            ("job_1", "invalid_request"),
            ("job_2", "invalid_request"),
            ("job_3", "invalid_request"),
        ):
            with self.assertRaises(GatewayError) as caught:
                self.world.hooks.retry(job_id)
            self.assertEqual(code, caught.exception.kind.code)
        self.given_up()
        self.world.hooks.abandon()
        with self.assertRaises(GatewayError) as caught:
            self.world.hooks.retry("job_1")
        self.assertEqual("not_ready", caught.exception.kind.code)
