"""fal: forms of a model, results of many shapes, and answers of its edge."""

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
from omnigate.jobs.adapters.fal import Fal
from omnigate.outbound.messages import CONNECTION_LOST, TIMEOUT, Answer, Cap
from tests.jobs.adapters.talking import CREDENTIAL, fault_in, kept, talk, task_of, told

FAL = Fal()
TASK = task_of(FAL, "fal-ai/flux/dev", {"prompt": "x"})
HANDLE = Handle("r1")
COMPLETED = told({"status": "COMPLETED"})


def result(answer: Answer, status: Answer = COMPLETED) -> object:
    """What a poll that sees the end comes to."""
    return talk(FAL.poll(TASK, HANDLE), status, answer)[1]


class ModelTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """A request is asked after under owner and app, and what stands before them."""
        for model, app in (
            ("fal-ai/flux", "fal-ai/flux"),
            ("fal-ai/flux/dev", "fal-ai/flux"),
            ("fal-ai/kling-video/v2.5-turbo/pro/text-to-video", "fal-ai/kling-video"),
            ("workflows/acme/film", "workflows/acme/film"),
            ("comfy/acme/film/fast", "comfy/acme/film"),
        ):
            self.assertIsNone(fault_in(FAL, model, {}))
            task = task_of(FAL, model, {"a": 1})
            (request,), outcome = talk(FAL.submit(task), told({"request_id": "r1"}))
            self.assertEqual(request.url, f"https://queue.fal.run/{model}")
            self.assertEqual(json.loads(request.body), {"a": 1})
            self.assertEqual(dict(request.headers)["authorization"], f"Key {CREDENTIAL}")
            assert isinstance(outcome, Accepted)
            (request,), _ = talk(FAL.poll(task, outcome.handle), told({"status": "IN_QUEUE"}))
            self.assertEqual(request.url, f"https://queue.fal.run/{app}/requests/r1/status")

    def test_what_is_no_model(self) -> None:
        """Nothing is sent for it."""
        for model in (
            "flux",
            "fal-ai/",
            "/flux",
            "fal-ai/../x",
            "a/b/..",
            "a/b?c",
            "a/b\n",
            "a//b",
        ):
            self.assertIsNotNone(fault_in(FAL, model, {}), model)
            requests, outcome = talk(FAL.submit(task_of(FAL, model, {})))
            self.assertEqual(requests, [])
            self.assertIsInstance(outcome, Failed)


class OwnUrlTests(SynchronousTestCase):
    def test_the_url_of_the_answer(self) -> None:
        """It is kept where it is of the same origin and another than expected."""
        for url, is_kept in (
            ("https://queue.fal.run/other/app/requests/r1", True),
            ("https://queue.fal.run/fal-ai/flux/requests/r1", False),
            ("https://queue.fal.run.attacker.example/fal-ai/flux/requests/r1", False),
            ("https://queue.fal.run/x?y=1", False),
            ("https://queue.fal.run/a/../b", False),
            ("https://queue.fal.run/" + "x" * 2100, False),
            ("http://queue.fal.run/other/app/requests/r1", False),
            (5, False),
        ):
            body = {"request_id": "r1", "response_url": url}
            _, outcome = talk(FAL.submit(TASK), told(body))
            assert isinstance(outcome, Accepted)
            self.assertEqual(dict(outcome.handle.notes), {"url": url} if is_kept else {}, url)
        (request,), _ = talk(
            FAL.cancel(TASK, Handle("r1", {"url": "https://queue.fal.run/other/requests/r1"})),
            told({"status": "CANCELLATION_REQUESTED"}, 202),
        )
        self.assertEqual(request.url, "https://queue.fal.run/other/requests/r1/cancel")
        # A note is of no use where the target has another address by now.
        moved = task_of(FAL, "fal-ai/flux", {}, base_url="https://fal.example")
        handle = Handle("r1", {"url": "https://queue.fal.run/other/requests/r1"})
        (request,), _ = talk(FAL.poll(moved, handle), told({"status": "IN_QUEUE"}))
        self.assertEqual(request.url, "https://fal.example/fal-ai/flux/requests/r1/status")


class ResultTests(SynchronousTestCase):
    def test_outputs(self) -> None:
        """Those of the usual members first, then what is elsewhere, each once."""
        a, b, c, d = ({"url": f"https://f.example/{name}"} for name in "abcd")
        results: list[tuple[dict[str, Any], list[dict[str, str]]]] = [
            ({"images": [a, b], "seed": 1}, [a, b]),
            ({"mask": c, "video": a, "image": b}, [b, a, c]),
            ({"video": a, "again": {"deep": a}}, [a]),
            ({"outputs": {"x": [d]}}, [d]),
            ({"outputs": {"x": {"y": [d]}}}, []),
            ({"outputs": [d], "more": {"x": c}}, [d, c]),
            ({"url": "https://f.example/a"}, [a]),
            ({"images": ["https://f.example/a"]}, []),
            ({"image": {"url": "words"}}, []),
        ]
        for body, expected in results:
            outcome = result(told(body))
            if not expected:
                assert isinstance(outcome, Failed), body
                self.assertEqual(outcome.error.code, "provider_bad_answer")
                continue
            assert isinstance(outcome, Done)
            urls = [source.url for source in outcome.sources if isinstance(source, UrlSource)]
            self.assertEqual(urls, [one["url"] for one in expected], body)
            self.assertEqual({s.headers for s in outcome.sources if isinstance(s, UrlSource)}, {()})

    def test_seconds_and_types(self) -> None:
        """As the result names them."""
        video = {"url": "https://f.example/a", "content_type": "Video/MP4", "duration": 10.04}
        self.assertEqual(
            result(told({"video": video})),
            Done([UrlSource("https://f.example/a", "video/mp4")], 10040, "r1"),
        )

    def test_files_in_the_result(self) -> None:
        """With ``sync_mode`` they are data URLs, which are let through and taken out."""
        task = task_of(FAL, "fal-ai/flux", {"sync_mode": True})
        _, accepted = talk(FAL.submit(task), told({"request_id": "r1"}))
        assert isinstance(accepted, Accepted)
        media = {"m1": kept(b"\x89PNG", 70_000, "data:image/png;base64,")}
        body = json.dumps({"images": [{"url": "m1"}]}).encode()
        requests, outcome = talk(
            FAL.poll(TASK, accepted.handle), COMPLETED, Answer(200, {}, body, media=media)
        )
        self.assertEqual([request.cap for request in requests], [Cap.API, Cap.INLINE])
        assert isinstance(outcome, Done)
        self.assertEqual(outcome.sources[0].content_type, "image/png")

    def test_results_that_are_none(self) -> None:
        """What is the model's own is final, what is the edge's is asked for again."""
        of_model = {"x_fal_request_id": "r1"}
        for answer, kind in (
            (told({"detail": "Request is still in progress"}, 400), Running),
            (told({"detail": "bad"}, 400), Failed),
            (told({"detail": "bad"}, 422), Failed),
            (told({"detail": "bad"}, 404), Failed),
            (told({}, 500, **of_model), Failed),
            (told({}, 502), Transient),
            (told({}, 504), Transient),
            (told({}, 429), Transient),
            (told({}, 302), Transient),
            (Answer(0, fault=TIMEOUT), Transient),
            (Answer(200, fault=CONNECTION_LOST), Transient),
            (Answer(200, {}, b"[]"), Transient),
        ):
            self.assertIsInstance(result(answer), kind, answer)

    def test_an_error_in_the_status(self) -> None:
        """A result that seems good does not hide it."""
        for body, words in (
            ({"error": "Timed out", "error_type": "request_timeout"}, "Timed out"),
            ({"error_type": "startup_timeout"}, "startup_timeout"),
        ):
            status = told({"status": "COMPLETED", **body})
            outcome = result(told({"images": [{"url": "https://f.example/a"}]}), status)
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.message, words)

    def test_cancel(self) -> None:
        """What is proved, and what is not."""
        for answer, kind in (
            (told({"status": "OK"}), Stopped),
            (told({"status": "CANCELLATION_REQUESTED"}, 202), Stopped),
            (told({"status": "ALREADY_COMPLETED"}, 400), NotCanceled),
            (told({"status": "ALREADY_COMPLETED"}, 200), NotCanceled),
            (told({"status": "NOT_FOUND"}, 404), Unclear),
            (told({}, 500), Unclear),
            (Answer(0, fault=TIMEOUT), Unclear),
        ):
            requests, outcome = talk(FAL.cancel(TASK, HANDLE), answer)
            self.assertIsInstance(outcome, kind, answer)
            self.assertEqual([request.method for request in requests], ["PUT"])
