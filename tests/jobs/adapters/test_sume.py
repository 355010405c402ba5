"""Sume: the catalog's kinds, the submit that may be sent again, and what each status comes to."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import (
    Accepted,
    Done,
    Failed,
    Handle,
    NotCanceled,
    Running,
    Stopped,
    Transient,
    Unclear,
    UrlSource,
)
from omnigate.jobs.adapters.sume import Sume
from omnigate.outbound.messages import CONNECTION_LOST, TIMEOUT, Answer
from tests.jobs.adapters.talking import fault_in, talk, task_of, told

SUME = Sume()
TASK = task_of(SUME, "gpt-image-2", {"prompt": "x", "model": "mine"}, job_id="job_7", target=1)
HANDLE = Handle("job_1")
IMAGE = told({"data": {"kind": "image"}})
TAKEN = told({"data": {"request_id": "job_1"}})
BUSY = told({"error": {"message": "busy"}}, 503)


def submitted(*answers: Answer) -> object:
    """What a submit comes to."""
    return talk(SUME.submit(TASK), *answers)[1]


def polled(*answers: Answer) -> object:
    """What a poll comes to."""
    return talk(SUME.poll(TASK, HANDLE), *answers)[1]


class SubmitTests(SynchronousTestCase):
    def test_routers(self) -> None:
        """The catalog's kind decides; one that has no router here ends it."""
        for kind, router in (
            ("image", "image-router"),
            ("video", "video-router"),
            ("lipsync", "video-router"),
            ("captions", "video-router"),
        ):
            catalog = told({"data": {"kind": kind}})
            (asked, sent), outcome = talk(SUME.submit(TASK), catalog, TAKEN)
            self.assertTrue(asked.url.endswith("/v1/open/catalog/gpt-image-2"))
            self.assertTrue(sent.url.endswith(f"/v1/{router}/generate"))
            self.assertEqual(json.loads(sent.body), {"prompt": "x", "model": "gpt-image-2"})
            self.assertEqual(dict(sent.headers)["idempotency-key"], "job_7:1")
            self.assertEqual(outcome, Accepted(HANDLE))
        for other in ("text", "", None):
            failed = submitted(told({"data": {"kind": other}}))
            assert isinstance(failed, Failed)
            self.assertEqual(failed.error.code, "provider_bad_answer")

    def test_it_is_sent_again_with_the_same_key(self) -> None:
        """Up to three times in all, where it may not have arrived."""
        lost = Answer(0, fault=CONNECTION_LOST, detail="lost")
        for bad in (BUSY, lost, told({}, 408), told({}, 429, retry_after="4")):
            requests, outcome = talk(SUME.submit(TASK), IMAGE, bad, bad, TAKEN)
            self.assertEqual(outcome, Accepted(HANDLE))
            sent = requests[1:]
            self.assertEqual({dict(one.headers)["idempotency-key"] for one in sent}, {"job_7:1"})
            self.assertEqual(len({one.body for one in sent}), 1)
            pauses = [one.pause_seconds for one in sent]
            self.assertEqual(pauses, [0, 4, 4] if bad.status == 429 else [0, 1, 2])
            self.assertIsInstance(submitted(IMAGE, bad, bad, bad), Failed)

    def test_what_is_not_sent_again(self) -> None:
        """A refusal, and what the provider says is of no use."""
        final = told({"error": {"message": "no", "retryable": False}}, 503)
        for bad in (told({}, 400), told({}, 401), told({}, 409), final):
            self.assertIsInstance(submitted(IMAGE, bad), Failed)

    def test_the_catalog_is_asked_again(self) -> None:
        """It begins nothing; a model that it has not ends the attempt."""
        self.assertEqual(submitted(BUSY, BUSY, IMAGE, TAKEN), Accepted(HANDLE))
        self.assertIsInstance(submitted(BUSY, BUSY, BUSY), Failed)
        outcome = submitted(told({"error": {"message": "no such model"}}, 404))
        assert isinstance(outcome, Failed)
        self.assertEqual(outcome.error.message, "no such model")

    def test_fields_at_fault(self) -> None:
        """They stand behind the message."""
        for errors, words in (
            (
                [{"path": "a", "message": "Required"}, {"path": "b", "message": "Bad"}],
                "No. a: Required; b: Bad",
            ),
            ([], "No."),
            ("x", "No."),
            (None, "No."),
        ):
            body = {"error": {"message": "No.", "details": {"errors": errors}}}
            outcome = submitted(IMAGE, told(body, 400))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.message, words)

    def test_an_answer_without_an_id(self) -> None:
        """Nobody could ask for it."""
        bodies: list[Any] = [{"data": {}}, {"data": []}, {"request_id": "job_1"}]
        for body in bodies:
            outcome = submitted(IMAGE, told(body))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer")

    def test_models(self) -> None:
        """What no path can be made of is refused, and not sent."""
        self.assertIsNone(fault_in(SUME, "gpt-image-2", {}))
        for model in ("..", ".", "é", "x" * 201):
            self.assertIsNotNone(fault_in(SUME, model, {}))
            requests, outcome = talk(SUME.submit(task_of(SUME, model, {})))
            self.assertEqual(requests, [])
            self.assertIsInstance(outcome, Failed)


class PollTests(SynchronousTestCase):
    def test_statuses(self) -> None:
        """What each comes to."""
        for data, kind in (
            ({"sume_status": "queued"}, Running),
            ({"sume_status": "processing", "status": "COMPLETED"}, Running),
            ({"sume_status": "failed"}, Failed),
            ({"sume_status": "failed", "job": {"error": "text"}}, Failed),
            ({"sume_status": "canceled"}, Stopped),
            ({"status": "COMPLETED"}, Transient),
            ({}, Transient),
            (None, Transient),
        ):
            self.assertIsInstance(polled(told({"data": data})), kind, data)

    def test_how_long_to_wait(self) -> None:
        """As is recommended, up to a minute."""
        for seconds, expected in (
            (2, 2.0),
            (0.5, 0.5),
            (900, 60.0),
            (-1, 0.0),
            ("x", 0.0),
            (None, 0.0),
        ):
            data = {"sume_status": "queued", "recommended_poll_interval_seconds": seconds}
            self.assertEqual(polled(told({"data": data})), Running(expected))

    def test_the_result(self) -> None:
        """It is fetched at once; artifacts without a URL are passed over."""
        done = told({"data": {"sume_status": "completed"}})
        artifacts = [
            1,
            {"url": "words"},
            {"url": "https://m.example/1", "content_type": "image/png"},
        ]
        self.assertEqual(
            polled(done, told({"data": {"result": {"artifacts": artifacts}}})),
            Done([UrlSource("https://m.example/1", "image/png")], provider_job_id="job_1"),
        )
        lists: list[Any] = [[], None, "x", [{}]]
        for odd in lists:
            outcome = polled(done, told({"data": {"result": {"artifacts": odd}}}))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer")
        self.assertIsInstance(polled(done, BUSY), Transient)
        self.assertIsInstance(polled(done, told({}, 403)), Failed)

    def test_cancel(self) -> None:
        """It is mostly too late."""
        for answer, kind in (
            (told({"data": {"sume_status": "canceled"}}), Stopped),
            (told({"data": {"sume_status": "completed"}}), NotCanceled),
            (told({"data": {"sume_status": "failed"}}), NotCanceled),
            (told({"data": {"sume_status": "processing"}}), Unclear),
            (told({"error": {"code": "job_generation_already_started"}}, 409), NotCanceled),
            (told({"error": {"code": "job_not_cancelable"}}, 400), NotCanceled),
            (told({"error": {"code": "odd"}}, 409), Unclear),
            (told({}, 500), Unclear),
            (Answer(0, fault=TIMEOUT), Unclear),
        ):
            self.assertIsInstance(talk(SUME.cancel(TASK, HANDLE), answer)[1], kind, answer)
