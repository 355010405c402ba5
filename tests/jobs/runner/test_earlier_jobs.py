"""Tests for omnigate.jobs.earlier_jobs: jobs that were done before."""

from typing import Any

import attrs
from msgspec.structs import replace

from omnigate.jobs import sharing
from tests.jobs.runner.runner_case import OTHER_KEY, RunnerCase


class EarlierJobTests(RunnerCase):
    """A route with a time for which results are used again."""

    def setUp(self) -> None:
        super().setUp()
        self.use(cache_ttl_s=100)

    def done(self, **fields: Any) -> str:
        """Make a job that the provider answers, and return its id."""
        self.says("done 1")
        job = self.new_job(**fields)
        self.assertEqual((job.status, job.cached_from), ("succeeded", ""))
        self.provider.words.clear()
        return job.id

    def test_an_identical_job_takes_over_the_outputs(self) -> None:
        """At once, for nothing, and it says from whom; the ledger counts it as cached."""
        first = self.done(input={"prompt": "a fox", "seed": 1})
        job = self.new_job(input={"seed": 1, "prompt": "a fox"})
        self.assertEqual((job.status, job.cached_from, job.cost_nano), ("succeeded", first, 0))
        self.assertEqual(job.outputs, self.shelf.jobs[first].outputs)
        self.assertEqual((len(self.provider.heard), job.attempts), (1, ()))
        priced = self.books.events[job.id]
        self.assertEqual((priced.event.cached, priced.cost_nano), (True, 0))
        self.assertIsNone(priced.event.upstream)

    def test_a_key_that_is_gone(self) -> None:
        """It is not known what its outputs were encrypted for, so none are shared with it."""
        self.done()
        self.recipients = None
        self.says("done 1")
        job = self.new_job()
        self.assertEqual((job.status, job.cached_from), ("failed", ""))
        self.recipients = ()
        self.assertEqual(self.new_job().status, "succeeded")

    def test_it_does_not_wait_for_a_place(self) -> None:
        """A provider that is full is not asked."""
        first = self.done()
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        self.new_job(prompt="another")
        self.assertEqual(self.new_job().cached_from, first)

    def test_what_is_not_identical_is_run(self) -> None:
        """Another input, another key, later, with other recipients, or without that time."""
        self.done()
        self.done(prompt="a dog")
        self.done(key_sha256=OTHER_KEY)
        self.recipients = ("age1x",)
        self.done()
        self.recipients = ()
        self.clock.advance(101)
        self.done()
        self.use(cache_ttl_s=0)
        self.done()

    def test_what_failed_or_was_removed_is_not_used(self) -> None:
        """Only outputs that are there."""
        self.says("no")
        self.new_job()
        first = self.done()
        del self.shelf.jobs[first]
        self.done()

    def test_outputs_from_before_they_were_to_be_encrypted_are_not_used(self) -> None:
        """Nor where that was asked for while they were stored."""
        self.recipients = ("age1x",)  # and they are in clear
        self.done()
        self.done()

    def test_an_input_that_is_a_file_is_not_looked_for(self) -> None:
        """It is too large to be read for that."""
        self.done(input_file=True)
        self.done(input_file=True)

    def test_it_is_remembered_over_a_restart(self) -> None:
        """But not where it is encrypted, for nobody knows for whom."""
        first = self.done()
        encrypted = self.done(prompt="secret")
        job = self.shelf.jobs[encrypted]
        outputs = tuple(replace(output, encrypted=True) for output in job.outputs)
        self.shelf.put(replace(job, outputs=outputs))
        self.restart()
        self.assertEqual(self.new_job().cached_from, first)
        self.done(prompt="secret")

    def test_a_start_reads_no_more_than_is_remembered(self) -> None:
        """A log of 200,000 jobs would keep a processor busy for minutes."""
        ids = [self.done(prompt=f"prompt {n}") for n in range(4)]
        self.assertEqual(self.new_job(prompt="prompt 3").cached_from, ids[3])
        self.patch(sharing, "MAX_REMEMBERED", 2)
        self.shelf.reads.clear()
        self.restart()
        self.assertEqual(self.shelf.reads, ids[:1:-1])
        self.assertEqual(self.new_job(prompt="prompt 2").cached_from, ids[2])
