"""What is told of jobs now: sums that follow every change, and begin with what the store has."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.job_figures import LATELY_MINUTES, MAX_GIVEN_UP, JobFigures
from omnigate.jobs.job import NEXT, QUEUED, Job, Webhook

NOW = 1_795_982_400_000
MINUTE = 60_000


def job(number: int = 1, **members: Any) -> Job:
    return Job(f"job_{number:026}", "a" * 64, "picture", NOW - MINUTE, **members)


def ended(number: int = 1, status: str = "failed", **members: Any) -> Job:
    return job(number, status=status, finished_ms=NOW, **members)


def hook(state: str) -> Webhook:
    return Webhook("https://h.test/", state=state, last_ms=NOW)


class FigureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.now_ms = NOW
        self.figures = JobFigures(lambda: self.now_ms)

    def test_states(self) -> None:
        queued = job()
        running = replace(queued, status="running")
        self.figures.changed(None, queued)
        self.figures.changed(queued, running)
        self.figures.load([job(2), ended(3)])
        seen = [self.figures.in_state(state) for state in ("queued", "running", "failed")]
        self.assertEqual([1, 1, 1], seen)
        self.figures.removed([ended(3)])
        self.assertEqual(0, self.figures.in_state("failed"))

    def test_a_cost_that_is_owed(self) -> None:
        first, second = ended(1, cost_owed=True), ended(2, cost_owed=True)
        self.figures.changed(job(1), first)
        self.now_ms += 90_000
        self.figures.changed(job(2), second)
        self.assertEqual((2, 90.0), (self.figures.owed, self.figures.owed_seconds))
        self.figures.changed(first, replace(first, cost_owed=False))
        self.figures.changed(second, replace(second, cost_owed=False))
        self.assertEqual((0, 0.0), (self.figures.owed, self.figures.owed_seconds))

    def test_webhooks(self) -> None:
        waiting = ended(webhook=hook("pending"))
        lost = replace(waiting, webhook=hook("given_up"))
        self.figures.changed(job(webhook=hook("")), waiting)
        self.assertEqual((1, []), (self.figures.webhooks_pending, self.figures.given_up()))
        self.figures.changed(waiting, lost)
        self.figures.changed(lost, lost)
        self.assertEqual((0, [lost.id]), (self.figures.webhooks_pending, self.figures.given_up()))
        self.figures.changed(lost, replace(lost, webhook=hook("delivered")))
        self.assertEqual([], self.figures.given_up())

    def test_those_given_up_are_told_of_for_a_day(self) -> None:
        for number in range(MAX_GIVEN_UP + 5):
            self.figures.changed(None, ended(number, webhook=hook("given_up")))
        self.assertEqual(MAX_GIVEN_UP, len(self.figures.given_up()))
        self.assertEqual(ended(MAX_GIVEN_UP + 4).id, self.figures.given_up()[0])
        self.figures.removed([ended(MAX_GIVEN_UP + 4)])
        self.assertEqual(ended(MAX_GIVEN_UP + 3).id, self.figures.given_up()[0])
        self.now_ms += 86_400_001
        self.assertEqual([], self.figures.given_up())

    def test_the_last_minutes(self) -> None:
        self.figures.changed(job(1), ended(1))
        self.figures.changed(job(2), ended(2, "succeeded"))
        self.figures.load([replace(ended(3), finished_ms=NOW - LATELY_MINUTES * MINUTE)])
        lately = self.figures.lately()
        self.assertEqual((2, 1), (lately.ended, lately.failed))
        self.now_ms += LATELY_MINUTES * MINUTE
        self.assertEqual(0, self.figures.lately().ended)

    def test_a_start_with_jobs_that_did_not_end_in_their_order(self) -> None:
        """What had ended first is told of as before, and the minute that is over goes first."""
        minutes = [*range(2, LATELY_MINUTES), 0, 1]
        self.figures.load(
            [
                replace(ended(number, cost_owed=True), finished_ms=NOW - ago * MINUTE)
                for number, ago in enumerate(minutes)
            ]
        )
        self.assertEqual((LATELY_MINUTES - 1) * 60, self.figures.owed_seconds)
        self.now_ms += MINUTE
        self.figures.changed(job(90), replace(ended(90), finished_ms=self.now_ms))
        self.assertEqual(LATELY_MINUTES, self.figures.lately().failed)

    @given(st.lists(st.integers(0, 5), max_size=40), st.data())
    def test_as_if_begun_with_what_there_is(self, numbers: list[int], data: st.DataObject) -> None:
        """Whatever changed, the sums are those of the jobs as they are."""
        figures, jobs = JobFigures(lambda: NOW), dict[int, Job]()
        for number in numbers:
            before = jobs.get(number)
            after = job(number, webhook=hook("")) if before is None else before
            if before is not None and NEXT[before.status]:
                status = data.draw(st.sampled_from(sorted(NEXT[before.status])))
                after = replace(before, status=status)
                if after.is_final:
                    after = replace(after, finished_ms=NOW, cost_owed=True, webhook=hook("pending"))
            elif before is not None:
                state = data.draw(st.sampled_from(("pending", "delivered", "given_up")))
                after = replace(before, cost_owed=data.draw(st.booleans()), webhook=hook(state))
            figures.changed(before, after)
            jobs[number] = after
        anew = JobFigures(lambda: NOW)
        anew.load([jobs[number] for number in sorted(jobs)])
        for state in (QUEUED, "running", "succeeded", "failed", "canceled"):
            self.assertEqual(anew.in_state(state), figures.in_state(state))
        self.assertEqual(sorted(anew.given_up()), sorted(figures.given_up()))
        self.assertEqual(
            (anew.owed, anew.webhooks_pending, anew.lately()),
            (figures.owed, figures.webhooks_pending, figures.lately()),
        )
