"""Google's interactions: what is asked for, and every way in which one ends."""

import json
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
from omnigate.jobs.adapters.gemini_interactions import GeminiInteractions
from omnigate.outbound.messages import CONNECTION_LOST, Answer, Cap
from tests.jobs.adapters.talking import CREDENTIAL, fault_in, kept, talk, task_of, told

WORKS = GeminiInteractions()
FILM, MUSIC, IMAGE = "gemini-omni-1.1-flash", "lyria-3.5", "gemini-3.1-flash-image"
PNG = "data:image/png;base64,iVBORw0KGgo="
FILE = f"{WORKS.default_base_url}/v1beta/files/f-1"
ID = "v1_ChdXb3c="


def sent(model: str, input: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the body of a submit."""
    task = task_of(WORKS, model, input, **more)
    (request,), _ = talk(WORKS.submit(task), told({"id": ID, "status": "queued"}))
    body: dict[str, Any] = json.loads(request.body)
    return body


def submitted(answer: Answer) -> object:
    """Return what a submit comes to."""
    return talk(WORKS.submit(task_of(WORKS, FILM, {"prompt": "x"})), answer)[1]


def polled(answer: Answer) -> object:
    """Return what a poll comes to."""
    return talk(WORKS.poll(task_of(WORKS, FILM, {"prompt": "x"}), Handle(ID)), answer)[1]


def output(*blocks: object) -> dict[str, Any]:
    """Return a completed interaction."""
    steps = [{"type": "model_output", "content": list(blocks)}]
    return {"id": ID, "status": "completed", "steps": steps}


class CheckTests(SynchronousTestCase):
    def test_what_is_taken(self) -> None:
        """Fields by what is to be made, which the input may say itself."""
        cases: list[tuple[str, dict[str, Any]]] = [
            (FILM, {"prompt": "x", "duration": 5, "resolution": "720p", "image": PNG}),
            (FILM, {"prompt": "x", "video": "data:video/mp4;base64,AAAA", "images": [FILE]}),
            (FILM, {"prompt": "x", "output": "image", "image_size": "1K"}),
            (MUSIC, {"text": "x", "voice": "Kore", "audio": "data:audio/wav;base64,AAAA"}),
            ("x-tts", {"text": "x", "voice": "Kore"}),
            (IMAGE, {"prompt": "x", "aspect_ratio": "1:1", "seed": 4}),
            (IMAGE, {"prompt": "x", "previous_interaction_id": "v1_a"}),
        ]
        for model, input in cases:
            self.assertIsNone(fault_in(WORKS, model, input), input)

    def test_what_is_refused(self) -> None:
        """Fields of another kind of output, and addresses that the provider does not keep."""
        cases: list[tuple[str, dict[str, Any], str]] = [
            (FILM, {}, "prompt"),
            (FILM, {"prompt": "x", "text": "y"}, "text"),
            (FILM, {"prompt": "x", "image_size": "1K"}, "image_size"),
            (FILM, {"prompt": "x", "duration": "-5s"}, "duration"),
            (FILM, {"prompt": "x", "output": "text"}, "output"),
            (FILM, {"prompt": "x", "output": ["video"]}, "output"),
            (FILM, {"prompt": "x", "output": "image", "duration": 5}, "duration"),
            (FILM, {"prompt": "x", "image": "https://example.com/a.png"}, "image"),
            (FILM, {"prompt": "x", "image": "https://[v1beta/files/a"}, "image"),
            (FILM, {"prompt": "x", "video": PNG}, "video"),
            (FILM, {"prompt": "x", "background": False}, "background"),
            (FILM, {"prompt": "x", "webhook_config": {}}, "webhook_config"),
            (MUSIC, {"prompt": "x", "duration": 30}, "duration"),
            (IMAGE, {"prompt": "x", "voice": "Kore"}, "voice"),
        ]
        for model, input, field in cases:
            fault = fault_in(WORKS, model, input)
            assert fault is not None, input
            self.assertEqual(fault.field, field, input)


class SubmitTests(SynchronousTestCase):
    def test_what_is_sent(self) -> None:
        """Files before words, seconds with their unit, and the rest where it belongs."""
        input = {"prompt": "x", "image": PNG, "images": [FILE], "duration": 4.5, "seed": 0}
        body = {
            "model": FILM,
            "input": [
                {"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"},
                {"type": "image", "uri": FILE},
                {"type": "text", "text": "x"},
            ],
            "response_format": {"type": "video", "delivery": "uri", "duration": "4.5s"},
            "generation_config": {"seed": 0},
            "background": True,
            "store": True,
        }
        self.assertEqual(sent(FILM, input), body)
        spoken = sent("x-tts", {"text": "x", "voice": "Kore", "previous_interaction_id": "v1_a"})
        self.assertEqual(spoken["generation_config"], {"speech_config": [{"voice": "Kore"}]})
        self.assertEqual(spoken["response_format"], {"type": "audio", "delivery": "inline"})
        self.assertEqual(spoken["previous_interaction_id"], "v1_a")
        self.assertEqual(
            sent(FILM, {"prompt": "x", "output": "image"})["response_format"],
            {"type": "image", "delivery": "inline"},
        )

    def test_in_the_background_or_not(self) -> None:
        """A target may have the answer waited for, with all the time that the route has."""
        for background, expected in ((None, True), (True, True), (False, None)):
            body = sent(FILM, {"prompt": "x"}, background=background)
            self.assertEqual((body.get("background"), body.get("store")), (expected, expected))
        task = task_of(WORKS, FILM, {"prompt": "x"}, background=False, timeout_s=900)
        (request,), _ = talk(WORKS.submit(task), told({}))
        self.assertEqual((request.cap, request.head_seconds), (Cap.INLINE, 900.0))

    def test_a_file_of_another_provider(self) -> None:
        """It looks like one of the provider's files, and is not sent there."""
        input = {"prompt": "x", "image": "https://example.com/v1beta/files/a"}
        requests, outcome = talk(WORKS.submit(task_of(WORKS, FILM, input)))
        self.assertEqual(requests, [])
        assert isinstance(outcome, Failed)
        self.assertIn("input.image: is no file of this provider", outcome.error.message)

    def test_what_a_submit_comes_to(self) -> None:
        """Accepted while it goes on; done, failed or unreadable at once."""
        for status in ("queued", "in_progress", "idle", "a_new_word"):
            self.assertEqual(
                submitted(told({"id": ID, "status": status})), Accepted(Handle(ID)), status
            )
        done = submitted(told({**output({"type": "image", "data": "iVBORw0KGgo="}), "id": None}))
        assert isinstance(done, Done)
        self.assertEqual(done.provider_job_id, "")
        for body, code in (
            ({"status": "queued"}, "provider_bad_answer"),
            ({"id": 5, "status": "queued"}, "provider_bad_answer"),
            ({"id": "a b", "status": "queued"}, "provider_bad_answer"),
            ({"id": ID}, "provider_bad_answer"),
            ({"id": ID, "status": "cancelled"}, "provider_failed"),
            ({"id": ID, "status": "failed"}, "provider_failed"),
        ):
            failed = submitted(told(body))
            assert isinstance(failed, Failed), body
            self.assertEqual(failed.error.code, code, body)
            self.assertFalse(failed.rate_limited)

    def test_the_table_of_errors(self) -> None:
        """Codes may be numbers or words; a rate is told by the status alone."""
        cases: list[tuple[int, object, str, bool]] = [
            (400, "invalid_request", "provider_failed", False),
            (401, 401, "provider_failed", False),
            (403, "permission_denied", "provider_failed", False),
            (404, 404, "provider_failed", False),
            (429, "resource_exhausted", "provider_rate_limited", True),
            (500, 500, "provider_failed", False),
            (503, "unavailable", "provider_failed", False),
        ]
        for status, word, code, limited in cases:
            error = {"code": word, "message": f"no: {CREDENTIAL}"}
            outcome = submitted(told({"error": error}, status))
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), (code, limited))
            self.assertEqual(outcome.error.message, "no: [redacted]")


class PollTests(SynchronousTestCase):
    def test_the_states(self) -> None:
        """Every word of the provider, and words that are not known."""
        for status in ("queued", "in_progress", "idle", "a_new_word"):
            self.assertEqual(polled(told({"id": ID, "status": status})), Running())
        self.assertEqual(polled(told({"status": "cancelled"})), Stopped())
        words = ("failed", "incomplete", "budget_exceeded", "requires_action")
        for status in (*words, "requires_continuation"):
            outcome = polled(told({"status": status}))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.message, f"the provider says {status}")
        for answer in (told({"id": ID}), told({"status": 5}), told({}, 503), told([], 200)):
            self.assertIsInstance(polled(answer), Transient)
        self.assertIsInstance(polled(Answer(0, fault=CONNECTION_LOST)), Transient)
        self.assertIsInstance(polled(told({}, 403)), Failed)

    def test_where_reasons_stand(self) -> None:
        """In the whole, in a list, or in the step that failed."""
        step = {"type": "model_output", "error": {"code": 3, "message": "of the step"}}
        cases: list[tuple[dict[str, Any], str]] = [
            ({"errors": [{"code": "x", "message": "of the list"}]}, "of the list"),
            ({"error": {"message": "of the whole"}}, "of the whole"),
            ({"steps": [step]}, "of the step"),
        ]
        for body, message in cases:
            for status in ("failed", "completed"):
                outcome = polled(told({"status": status, **body}))
                assert isinstance(outcome, Failed)
                self.assertEqual(outcome.error.message, message)

    def test_which_blocks_are_outputs(self) -> None:
        """Media of the newest answer, not of the talk before, nor of the model's thoughts."""
        old = {"type": "model_output", "content": [{"type": "image", "data": "b2xk"}]}
        steps = [
            old,
            {"type": "user_input", "content": [{"type": "image", "data": "bWluZQ=="}]},
            {"type": "thought", "content": [{"type": "image", "data": "ZHJhZnQ="}]},
            None,
            {"type": "model_output", "content": "x"},
            {
                "type": "model_output",
                "content": [
                    {"type": "text", "text": "x", "data": "eA=="},
                    {"type": "image", "data": "not base64!"},
                    {"type": "image"},
                    {"type": "image", "mime_type": "image/png", "data": "bmV3"},
                    {"type": "audio", "mime_type": "audio/L16;rate=24000", "data": "0a1b"},
                    {"type": "video", "mime_type": "video/mp4", "uri": FILE},
                    {"type": "video", "uri": "https://cdn.example.com/a.mp4"},
                    {"type": "video", "uri": "file:///etc/passwd"},
                ],
            },
        ]
        body = json.dumps({"id": ID, "status": "completed", "steps": steps}).encode()
        outcome = polled(Answer(200, {}, body, media={"0a1b": kept(b"", 480)}))
        assert isinstance(outcome, Done)
        image, sound, film, other = outcome.sources
        self.assertEqual(image, InlineSource(b"new", "image/png"))
        assert isinstance(sound, InlineSource)
        self.assertEqual(sound.content_type, "audio/wav")
        key = (("x-goog-api-key", CREDENTIAL),)
        self.assertEqual(film, UrlSource(f"{FILE}?alt=media", "video/mp4", key))
        self.assertEqual(other, UrlSource("https://cdn.example.com/a.mp4", "", ()))
        self.assertEqual(outcome.provider_job_id, ID)

    def test_an_id_stays_in_its_place(self) -> None:
        """Whatever the provider calls its work, it is one segment of the path."""
        task = task_of(WORKS, FILM, {"prompt": "x"})
        for name, path in (("../x", "..%2Fx"), ("a?b", "a%3Fb")):
            (request,), _ = talk(WORKS.poll(task, Handle(name)), told({}))
            self.assertTrue(request.url.endswith(f"/v1beta/interactions/{path}"), request.url)


class CancelTests(SynchronousTestCase):
    def test_what_a_cancel_comes_to(self) -> None:
        """Stopped, too late, or for a poll to decide."""
        cases: list[tuple[Answer, object]] = [
            (told({"status": "cancelled"}), Stopped()),
            (told({"status": "completed"}), NotCanceled()),
            (told({"status": "failed"}), NotCanceled()),
            (told({"status": "in_progress"}), Unclear()),
            (told({"status": "a_new_word"}), Unclear()),
            (told({"error": {"message": "not cancellable"}}, 400), NotCanceled()),
            (told({}, 404), Unclear()),
            (told({}, 409), Unclear()),
            (told({}, 500), Unclear()),
            (Answer(200, {}, b"<html>"), Unclear()),
            (Answer(400, fault=CONNECTION_LOST), Unclear()),
        ]
        task = task_of(WORKS, FILM, {"prompt": "x"})
        for answer, expected in cases:
            (request,), outcome = talk(WORKS.cancel(task, Handle(ID)), answer)
            self.assertEqual(outcome, expected, answer)
            self.assertEqual((request.method, request.body), ("POST", b"{}"))
