"""Media jobs on the pages of requests, as somebody reads them."""

from __future__ import annotations

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from omnigate.control.dashboard.media_requests import ATTEMPTS, attempt_cause
from omnigate.events import AttemptRecord, MediaEvent
from omnigate.jobs import job
from omnigate.ledger.counters import IngestResult
from omnigate.ledger.ingest import Priced
from tests.control.dashboard.test_requests_page import PageCase
from tests.control.plane import APP_SHA, START
from tests.ledger.test_ingest import MEDIA_EVENT

DONE = replace(
    MEDIA_EVENT,
    key_sha256=APP_SHA,
    ts_ms=START * 1000,
    media_ms=4_500,
    characters=17,
    attempts=[
        AttemptRecord("fal", "acme/one", "provider_timeout", None, 3_000),
        AttemptRecord("replicate", "acme/flux", "ok", None, 1_000),
    ],
)


class MediaRequestTests(PageCase):
    """``/requests`` and ``/requests/one`` of jobs."""

    def tell(self, event: MediaEvent, cost_nano: int = 0) -> str:
        """Record a job's event, and return what its page says."""
        told: Deferred[IngestResult] = self.plane.ledger.record_priced([Priced(event, cost_nano)])
        self.successResultOf(told)
        return self.visitor.page(f"/requests/one?id={event.id}").text

    def test_a_job_that_was_done(self) -> None:
        """What it made and what that cost stand there, and nothing of tokens."""
        text = self.tell(DONE, 3_000_000)
        self.assertIn("Media job 200", text)
        self.assertIn("A provider delivered, after one attempt that failed.", text)
        self.assertIn("no result within the route's timeout_s", text)
        self.assertIn("4.5 s of media", text)
        self.assertIn("As recorded: $0.003", text)
        self.assertNotIn("Tokens in", text)
        self.assertNotIn("no price for it", text)
        links = [
            each.attributes.get("href", "")
            for each in self.visitor.page("/requests/one?id=job_1").all("a")
        ]
        self.assertIn("/jobs?model=flux", links)
        links.remove("/jobs?model=flux")
        self.assertFalse([link for link in links if "replicate" in link or "flux" in link])
        row = self.visitor.page("/requests").text
        self.assertIn("media job", row)
        self.assertIn("replicate", row)

    def test_how_jobs_end(self) -> None:
        """In words of their own."""
        none = replace(DONE, upstream=None, target_model=None, outputs=0)
        for n, (event, cost, words) in enumerate(
            (
                (replace(none, status=502), 0, "The job failed. The attempts below say why."),
                (replace(none, status=502, attempts=[]), 0, "It could not be run."),
                (replace(DONE, status=502), 5, "is paid for its work all the same"),
                (replace(DONE, status=499), 0, "The client canceled the job."),
                (replace(none, cached=True, attempts=[]), 0, "An identical job had been done"),
                (replace(DONE, attempts=DONE.attempts[1:]), 5, "The provider delivered."),
            )
        ):
            self.assertIn(words, self.tell(replace(event, id=f"job_{n}"), cost))

    def test_it_leads_to_the_job(self) -> None:
        """From there its error, its files and its webhook are seen."""
        self.tell(DONE)
        page = self.visitor.page(f"/requests/one?id={DONE.id}")
        self.assertEqual(f"/jobs/{DONE.id}", self.link(page, "See the job"))

    def test_those_that_failed_on_the_page_of_their_key(self) -> None:
        """By the words of jobs."""
        failed = replace(DONE.attempts[0], outcome="output_refused")
        self.tell(replace(DONE, status=502, upstream=None, attempts=[failed]))
        page = self.visitor.page("/keys/app")
        self.assertIn("output refused", page.text)
        self.assertEqual(1, len(page.all("a", href="/jobs?key=app")))

    def test_every_error_of_a_job_has_words(self) -> None:
        """Whatever ended an attempt."""
        codes = {
            job.PROVIDER_FAILED,
            job.PROVIDER_TIMEOUT,
            job.PROVIDER_BAD_ANSWER,
            job.OUTPUT_REFUSED,
            job.OUTPUT_UNAVAILABLE,
            job.OUTPUT_TOO_LARGE,
            job.STORAGE_FAILED,
            job.CANCELED_ERROR,
        }
        self.assertEqual(codes - set(ATTEMPTS), set())
        self.assertEqual(attempt_cause("a_new_one").title, "a new one")
