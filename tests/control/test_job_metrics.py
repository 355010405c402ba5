"""What a scrape tells of media jobs."""

from __future__ import annotations

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.job_metrics import JobMetrics
from omnigate.control.metric_sources import LabelNames
from omnigate.jobs.job import Attempt, Job, JobError
from omnigate.metric_text import exposition, family_of
from omnigate.outbound.messages import Answer
from tests.control.job_cases import MEDIA_CONFIG, JobCases, output
from tests.control.plane import Plane


class ScrapeTests(SynchronousTestCase):
    """Through a whole plane."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp(), MEDIA_CONFIG)
        self.jobs = JobCases(self.plane)
        self.addCleanup(lambda: self.plane.close())

    def says(self, *lines: str) -> None:
        body = self.plane.scrape().decode()
        for line in lines:
            self.assertIn(line + "\n", body)

    def test_before_the_first(self) -> None:
        self.says(
            'omnigate_jobs{state="queued"} 0.0',
            "omnigate_job_costs_owed 0.0",
            "omnigate_job_cost_owed_seconds 0.0",
            "omnigate_job_webhooks_pending 0.0",
            'omnigate_job_webhooks_total{outcome="given_up"} 0.0',
            'omnigate_job_output_bytes_total{storage="local"} 0.0',
            "omnigate_job_failed_writes_total 0.0",
        )

    def test_one_of_each(self) -> None:
        self.jobs.succeeded(output(size=500), output(size=500, storage="s3", stored_size=700))
        self.jobs.end(self.jobs.run(self.jobs.make()), "failed", "provider_timeout")
        self.jobs.end(self.jobs.make(), "canceled")
        self.jobs.run(self.jobs.make())
        self.says(
            'omnigate_jobs_created_total{route="picture"} 4.0',
            'omnigate_jobs_finished_total{outcome="succeeded",route="picture",upstream="replicate"}'
            " 1.0",
            "omnigate_jobs_finished_total"
            '{outcome="provider_timeout",route="picture",upstream="replicate"} 1.0',
            'omnigate_jobs_finished_total{outcome="canceled",route="picture",upstream="none"} 1.0',
            'omnigate_job_attempts_total{outcome="succeeded",upstream="replicate"} 1.0',
            'omnigate_job_attempts_total{outcome="provider_timeout",upstream="replicate"} 1.0',
            'omnigate_job_output_bytes_total{storage="local"} 500.0',
            'omnigate_job_output_bytes_total{storage="s3"} 700.0',
            'omnigate_job_duration_seconds_bucket{le="2.5",upstream="replicate"} 1.0',
            'omnigate_job_duration_seconds_bucket{le="5.0",upstream="replicate"} 2.0',
            'omnigate_job_duration_seconds_sum{upstream="replicate"} 3.0',
            'omnigate_jobs{state="running"} 1.0',
            'omnigate_jobs{state="canceled"} 1.0',
        )

    def test_what_waits(self) -> None:
        job = self.jobs.run(self.jobs.make(webhook_url="https://h.test/"))
        self.jobs.end(job, "failed", "x", cost_owed=True)
        self.plane.clock.advance(30)
        self.says(
            "omnigate_job_costs_owed 1.0",
            "omnigate_job_cost_owed_seconds 30.0",
            "omnigate_job_webhooks_pending 1.0",
        )

    def test_after_a_restart(self) -> None:
        """Jobs of before are told of, and not counted as new."""
        job = self.jobs.run(self.jobs.make())
        self.jobs.end(job, "failed", "x", cost_owed=True)
        self.plane.close()
        self.plane = Plane(self.plane.folder, MEDIA_CONFIG)
        self.says('omnigate_jobs{state="failed"} 1.0')
        self.assertNotIn("omnigate_jobs_finished_total{", self.plane.scrape().decode())


class CountingTests(SynchronousTestCase):
    """Alone."""

    def setUp(self) -> None:
        names = LabelNames()
        names.allow(["picture"])
        self.metrics = JobMetrics(names.label)

    def text(self) -> str:
        families = [family_of(part) for part in self.metrics.parts()]
        return b"".join(exposition(families, False)).decode()

    def test_labels_are_bounded(self) -> None:
        for number in range(50):
            word = f"made-up-{number}"
            job = Job(word, "a" * 64, word, 1)
            tried = Attempt(0, word, word, word, 1, 2, word, JobError(word))
            failed = replace(
                job,
                status="failed",
                finished_ms=3,
                attempts=(tried, replace(tried, outcome="failed")),
                error=JobError(word),
                outputs=(output(storage=word),),
            )
            self.metrics.changed(None, job)
            self.metrics.changed(job, failed)
            self.metrics.asked("provider", Answer(0, fault=word))
        text = self.text()
        self.assertNotIn("made-up", text)
        self.assertIn('{outcome="other",route="other",upstream="other"} 50.0', text)

    def test_each_attempt_once(self) -> None:
        """A change that ends no attempt counts none."""
        job = Job("j", "a" * 64, "picture", 1)
        first = Attempt(0, "fal", "https://fal.run", "m", 1)
        limited = replace(first, ended_ms=2, outcome="rate_limited", error=JobError("x"))
        second = replace(first, adapter="replicate", target=1)
        steps = [
            job,
            replace(job, status="running", attempts=(first,)),
            replace(job, status="running", attempts=(first,), provider_job_id="p"),
            replace(job, status="running", attempts=(limited, second)),
            replace(job, status="running", attempts=(limited, second), cancel_ms=5),
        ]
        before = None
        for step in steps:
            self.metrics.changed(before, step)
            before = step
        text = self.text()
        self.assertIn('{outcome="provider_rate_limited",upstream="fal"} 1.0', text)
        self.assertNotIn('upstream="replicate"', text)

    def test_a_cached_job_stores_nothing(self) -> None:
        job = Job("j", "a" * 64, "picture", 1)
        done = replace(job, status="succeeded", finished_ms=5, outputs=(output(),))
        self.metrics.changed(job, replace(done, cached_from="other"))
        self.assertIn('omnigate_job_output_bytes_total{storage="local"} 0.0', self.text())

    def test_requests(self) -> None:
        self.metrics.asked("file", Answer(200))
        self.metrics.asked("file", Answer(0, fault="refused"))
        self.metrics.asked("webhook", Answer(503))
        text = self.text()
        for line in ('kind="file",outcome="2xx"', 'kind="file",outcome="refused"'):
            self.assertIn(f"omnigate_outbound_requests_total{{{line}}} 1.0", text)
        self.assertIn('{kind="webhook",outcome="5xx"} 1.0', text)
