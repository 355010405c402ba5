"""Deliveries over the true store, on a disk that loses what was not synced."""

from random import Random

from twisted.internet.task import Clock

from omnigate.config.media import WebhooksConfig
from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Job, Webhook
from omnigate.jobs.job_json import job_json
from omnigate.jobs.webhooks import schedule
from omnigate.jobs.webhooks.delivery import Webhooks
from omnigate.outbound.messages import Answer
from tests.jobs.test_store import KEY, NOW_MS, StoreCase
from tests.jobs.webhooks.fakes import SECRET, MemoryOutbound


class OverStoreTests(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        self.outbound = MemoryOutbound()
        self.clock = Clock()
        self.hooks = self.begin()

    def begin(self) -> Webhooks:
        """Start deliveries over the store."""
        self.hooks = Webhooks(
            self.store,
            self.outbound,
            self.clock,
            lambda: NOW_MS + round(self.clock.seconds() * 1_000),
            WebhooksConfig,
            job_json,
            lambda key: (SECRET,) if key == KEY else (),
            lambda: 0.5,
        )
        arm = self.hooks.arm
        self.store.watchers.append(lambda before, after: arm(after))
        self.hooks.start()
        return self.hooks

    def power_cut(self, rng: Random) -> None:
        """Lose what was not synced, and start anew."""
        self.hooks.abandon()
        self.outbound.open.clear()
        self.disk.crash(rng=rng)
        self.start()
        self.begin()

    def ended(self) -> Job:
        """A job that ends now, in one line with its webhook."""
        job = self.make(webhook_url="https://hooks.example/x")
        assert job.webhook is not None
        return self.end(job, webhook=schedule.armed(job.webhook, NOW_MS))

    def hook(self, job: Job) -> Webhook:
        hook = self.store.get(job.id)
        assert hook is not None and hook.webhook is not None
        return hook.webhook

    def test_delivered(self) -> None:
        """The end of a job is told, and a start after that tells it no more."""
        job = self.ended()
        self.clock.pump([0.0] * 3)
        self.outbound.reply(204)
        self.assertEqual((DELIVERED, 1), (self.hook(job).state, self.hook(job).attempts))
        self.power_cut(Random(1))
        self.clock.pump([0.0, 90_000.0, 0.0])
        self.assertEqual(1, len(self.outbound.sent))

    def test_nothing_is_sent_before_the_sync(self) -> None:
        """While the disk takes its time, nothing is sent; what is not synced was not sent."""
        job = self.ended()
        self.writer.holding = True
        self.clock.pump([0.0] * 3)
        self.assertEqual([], self.outbound.sent)
        self.writer.run()
        self.assertEqual(1, len(self.outbound.sent))
        self.power_cut(Random(1))
        self.assertEqual((PENDING, 1), (self.hook(job).state, self.hook(job).attempts))

    def test_power_cuts_at_any_moment(self) -> None:
        """However often the power fails, and when, no more requests are sent than attempts."""
        for seed in range(20):
            rng = Random(seed)
            job = self.ended()
            self.outbound.sent.clear()
            for _ in range(30):
                self.writer.holding = rng.random() < 0.3
                self.outbound.answer = rng.choice((None, Answer(503)))
                self.clock.pump([0.0, rng.choice((0.0, 100.0, 90_000.0)), 0.0, 0.0])
                if self.writer.holding:
                    self.writer.run(rng.randrange(2))
                self.power_cut(rng)
            self.outbound.answer = Answer(503)
            self.clock.pump([0.0, *[90_000.0, 0.0, 0.0] * 10])
            self.assertEqual((GIVEN_UP, 8), (self.hook(job).state, self.hook(job).attempts))
            self.assertTrue(len(self.outbound.sent) <= 8, (seed, len(self.outbound.sent)))

    def test_a_full_disk(self) -> None:
        """Nothing is sent while nothing can be written, and no attempt is lost by that."""
        job = self.ended()
        self.disk.fail("write", times=99)
        self.clock.pump([0.0, 0.0, 60.0, 0.0, 60.0, 0.0])
        self.assertEqual(([], 0), (self.outbound.sent, self.hook(job).attempts))
        self.assertTrue(self.hooks.counters.not_written >= 2)
        self.disk.heal()
        self.clock.pump([0.0, 60.0, 0.0, 0.0])
        self.assertEqual((1, 1), (len(self.outbound.sent), self.hook(job).attempts))
