"""Replicate: forms of a model, where URLs stand in an output, and what each status comes to."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import (
    Accepted,
    Done,
    Failed,
    Handle,
    InlineSource,
    NotCanceled,
    Running,
    Stopped,
    Transient,
    Unclear,
    UrlSource,
)
from omnigate.jobs.adapters.replicate import Replicate
from omnigate.outbound.messages import TIMEOUT, Answer
from tests.jobs.adapters.talking import fault_in, talk, task_of, told

REPLICATE = Replicate()
HASH = "5c7d5dc6" * 8
TASK = task_of(REPLICATE, "acme/m", {"prompt": "x"})
HANDLE = Handle("p1")


def polled(answer: Answer) -> object:
    """What a poll comes to."""
    return talk(REPLICATE.poll(TASK, HANDLE), answer)[1]


def canceled(answer: Answer) -> object:
    """What a cancel comes to."""
    return talk(REPLICATE.cancel(TASK, HANDLE), answer)[1]


class ModelTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """Each leads to its own path, and a version into the body."""
        for model, path, version in (
            ("acme/m", "models/acme/m/predictions", None),
            (
                "black-forest-labs/flux-1.1-pro",
                "models/black-forest-labs/flux-1.1-pro/predictions",
                None,
            ),
            (f"acme/m:{HASH}", "predictions", HASH),
            (HASH, "predictions", HASH),
            ("deployments/acme/m", "deployments/acme/m/predictions", None),
        ):
            self.assertIsNone(fault_in(REPLICATE, model, {}))
            task = task_of(REPLICATE, model, {}, timeout_s=30)
            (request,), _ = talk(
                REPLICATE.submit(task), told({"id": "p1", "status": "starting"}, 201)
            )
            self.assertEqual(request.url, f"https://api.replicate.com/v1/{path}")
            self.assertEqual(b"version" in request.body, version is not None)
            self.assertEqual(dict(request.headers)["cancel-after"], "90s")

    def test_what_is_no_model(self) -> None:
        """Nothing is sent for it."""
        for model in (
            "acme",
            "acme/",
            "/m",
            "acme/m/n",
            "acme/..",
            "../m",
            f"acme/m:{HASH[1:]}",
            "acme/m:latest",
            "deployments/acme",
            "acme/m?x",
            "acme/m\n",
        ):
            fault = fault_in(REPLICATE, model, {})
            assert fault is not None, model
            self.assertEqual(fault.field, "")
            requests, outcome = talk(REPLICATE.submit(task_of(REPLICATE, model, {})))
            self.assertEqual(requests, [])
            self.assertIsInstance(outcome, Failed)


class OutcomeTests(SynchronousTestCase):
    def test_outputs(self) -> None:
        """URLs in whatever shape, in order; other strings are passed over."""
        one, two = "https://r.example/1.png", "https://r.example/2.png"
        shapes: list[tuple[Any, list[str]]] = [
            (one, [one]),
            ([one, two], [one, two]),
            ({"b": two, "a": [one, "words"]}, [two, one]),
            ([[[[one]]]], [one]),
            ([[[[[one]]]]], []),
            ("words", []),
            ([], []),
            (None, []),
        ]
        for output, expected in shapes:
            outcome = polled(told({"id": "p1", "status": "succeeded", "output": output}))
            if not expected:
                assert isinstance(outcome, Failed)
                self.assertEqual(outcome.error.code, "provider_bad_answer")
                continue
            assert isinstance(outcome, Done)
            self.assertEqual([s.url for s in outcome.sources if isinstance(s, UrlSource)], expected)
        outcome = polled(told({"status": "succeeded", "output": "data:image/png;base64,iVBORw=="}))
        assert isinstance(outcome, Done)
        self.assertEqual(list(outcome.sources), [InlineSource(b"\x89PNG", "image/png")])

    def test_statuses(self) -> None:
        """What each comes to when it is asked for."""
        for status, kind in (
            ("starting", Running),
            ("processing", Running),
            ("failed", Failed),
            ("aborted", Failed),
            ("canceled", Stopped),
            ("", Transient),
            (None, Transient),
        ):
            self.assertIsInstance(polled(told({"id": "p1", "status": status})), kind, status)
        outcome = polled(told({"status": "failed", "error": None}))
        assert isinstance(outcome, Failed)
        self.assertTrue(outcome.error.message)

    def test_a_submit_that_ends_at_once(self) -> None:
        """It keeps the provider's id; an answer without one is none."""
        steps = REPLICATE.submit(TASK)
        _, outcome = talk(steps, told({"id": "p1", "status": "failed", "error": "no"}, 201))
        assert isinstance(outcome, Failed)
        self.assertEqual((outcome.error.message, outcome.provider_job_id), ("no", "p1"))
        _, outcome = talk(REPLICATE.submit(TASK), told({"id": "p1", "status": "canceled"}, 201))
        self.assertIsInstance(outcome, Failed)
        _, outcome = talk(REPLICATE.submit(TASK), told({"id": "p1"}, 201))
        self.assertEqual(outcome, Accepted(HANDLE))
        _, outcome = talk(REPLICATE.submit(TASK), told({"status": "starting"}, 201))
        assert isinstance(outcome, Failed)
        self.assertEqual(outcome.error.code, "provider_bad_answer")

    def test_cancel(self) -> None:
        """Only a status proves something."""
        for answer, kind in (
            (told({"status": "canceled"}), Stopped),
            (told({"status": "aborted"}), Stopped),
            (told({"status": "succeeded"}), NotCanceled),
            (told({"status": "failed"}), NotCanceled),
            (told({"status": "processing"}), Unclear),
            (told({}), Unclear),
            (told({"detail": "is final"}, 422), Unclear),
            (told({}, 500), Unclear),
            (Answer(0, fault=TIMEOUT), Unclear),
        ):
            self.assertIsInstance(canceled(answer), kind, answer)
