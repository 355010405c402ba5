"""OpenAI's images: what is refused, what types are told, and what each error comes to."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import Done, Failed, InlineSource, UrlSource
from omnigate.jobs.adapters.openai_images import OpenaiImages
from omnigate.jobs.job import Billable
from omnigate.jobs.media_types import OCTETS
from omnigate.outbound.messages import CONNECTION_LOST, TIMEOUT, TOO_LARGE, Answer, Cap
from tests.jobs.adapters.talking import CREDENTIAL, fault_in, kept, talk, task_of, told

IMAGES = OpenaiImages()
PNG = "iVBORw0KGgoAAAANSUhEUg=="
MODEL = "gpt-image-2"


def outcome_of(answer: Answer, **input: Any) -> object:
    """Return what a submit comes to."""
    task = task_of(IMAGES, MODEL, {"prompt": "x", **input})
    return talk(IMAGES.submit(task), answer)[1]


class CheckTests(SynchronousTestCase):
    def test_what_is_refused(self) -> None:
        """A stream, half a picture, and an input that says nothing."""
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "prompt"),
            ({"prompt": ""}, "prompt"),
            ({"prompt": 5}, "prompt"),
            ({"prompt": "x", "stream": False}, "stream"),
            ({"prompt": "x", "partial_images": 2}, "partial_images"),
        ]
        for input, field in cases:
            fault = fault_in(IMAGES, MODEL, input)
            assert fault is not None
            self.assertEqual(fault.field, field)
        self.assertIsNone(fault_in(IMAGES, MODEL, {"prompt": "x", "odd": {"new": 1}}))

    def test_an_input_that_fits_no_more(self) -> None:
        """A job that meets another target than the one it was judged for fails, unsent."""
        requests, outcome = talk(IMAGES.submit(task_of(IMAGES, MODEL, {"text": "x"})))
        self.assertEqual(requests, [])
        assert isinstance(outcome, Failed)
        self.assertIn("input.prompt: must be", outcome.error.message)
        self.assertEqual(IMAGES.billable(task_of(IMAGES, MODEL, {"text": "x"})), Billable())


class SubmitTests(SynchronousTestCase):
    def test_what_is_sent(self) -> None:
        """The whole input, the target's model, and all the time that the route has."""
        input = {"prompt": "x", "model": "mine", "n": 2, "odd": [1]}
        task = task_of(IMAGES, MODEL, input, timeout_s=900)
        requests, outcome = talk(IMAGES.submit(task), told({"data": [{"b64_json": PNG}]}))
        (request,) = requests
        self.assertEqual(json.loads(request.body), {**input, "model": MODEL})
        self.assertEqual((request.cap, request.head_seconds), (Cap.INLINE, 900.0))
        self.assertNotIn("authorization", dict(_sent_without_credential().headers))
        self.assertIsInstance(outcome, Done)

    def test_types(self) -> None:
        """First bytes, then the answer, then the request; a drawing with scripts has none."""
        marker = "2f0f"
        cases: list[tuple[dict[str, Any], dict[str, Any], bytes, str]] = [
            ({}, {}, b"\x89PNG\r\n\x1a\n", "image/png"),
            ({"output_format": "jpeg"}, {}, b"\x89PNG\r\n\x1a\n", "image/png"),
            ({"output_format": "webp"}, {"output_format": "png"}, b"?", "image/webp"),
            ({}, {"output_format": "GIF"}, b"?", "image/gif"),
            ({}, {}, b"?", ""),
            ({"output_format": "svg"}, {}, b"<svg", OCTETS),
            ({"output_format": 5}, {}, b"?", ""),
        ]
        for answered, asked, head, expected in cases:
            body = json.dumps({"data": [{"b64_json": marker}], **answered}).encode()
            answer = Answer(200, {}, body, media={marker: kept(head, 70_000)})
            outcome = outcome_of(answer, **asked)
            assert isinstance(outcome, Done)
            self.assertEqual([one.content_type for one in outcome.sources], [expected], answered)

    def test_places_of_an_image(self) -> None:
        """Base64, a data URL, an address that gets no key; entries with none are passed over."""
        data = [
            {"b64_json": PNG},
            {"b64_json": f"data:image/png;base64,{PNG}"},
            {"url": f"{IMAGES.default_base_url}/files/1.png"},
            {"url": "https://cdn.example.com/1.png"},
            {"url": "file:///etc/passwd"},
            {"b64_json": "not base64!"},
            {"b64_json": None},
            None,
            5,
        ]
        outcome = outcome_of(told({"data": data}))
        assert isinstance(outcome, Done)
        kinds = [type(one) for one in outcome.sources]
        self.assertEqual(kinds, [InlineSource, InlineSource, UrlSource, UrlSource])
        for one in outcome.sources:
            self.assertNotIn(CREDENTIAL, repr(getattr(one, "headers", ())))
            self.assertEqual(getattr(one, "headers", ()), ())

    def test_answers_without_an_image(self) -> None:
        """Nothing of use in a 2xx is a bad answer, whatever its form."""
        bodies: list[dict[str, Any]] = [
            {},
            {"data": []},
            {"data": "x"},
            {"data": {"b64_json": PNG}},
            {"data": [{}]},
        ]
        for body in bodies:
            outcome = outcome_of(told(body))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer")
        for raw in (b"", b"<html>", b"[]", b"null", b"\xff", b"[" * 100_000):
            outcome = outcome_of(Answer(200, {}, raw))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer", raw[:10])


class ErrorTests(SynchronousTestCase):
    def test_the_table(self) -> None:
        """Only a rate that is too high is told from a failure; a spent account is one."""
        cases: list[tuple[int, str, str, bool]] = [
            (400, "moderation_blocked", "provider_failed", False),
            (400, "content_policy_violation", "provider_failed", False),
            (400, "billing_hard_limit_reached", "provider_failed", False),
            (401, "invalid_api_key", "provider_failed", False),
            (403, "must_be_verified", "provider_failed", False),
            (404, "model_not_found", "provider_failed", False),
            (429, "rate_limit_exceeded", "provider_rate_limited", True),
            (429, "insufficient_quota", "provider_failed", False),
            (429, "billing_hard_limit_reached", "provider_failed", False),
            (500, "server_error", "provider_failed", False),
            (503, "overloaded", "provider_failed", False),
            (302, "", "provider_failed", False),
        ]
        for status, code, expected, limited in cases:
            error = {"message": f"Of {CREDENTIAL}:\n{code}", "type": "t", "code": code}
            outcome = outcome_of(told({"error": error}, status))
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), (expected, limited), code)
            self.assertEqual(outcome.error.message, f"Of [redacted]: {code}".rstrip())

    def test_what_breaks_on_the_way(self) -> None:
        """A fault is a failure of this target, never a rate."""
        cases = {
            CONNECTION_LOST: "provider_failed",
            TIMEOUT: "provider_timeout",
            TOO_LARGE: "provider_bad_answer",
        }
        for fault, code in cases.items():
            outcome = outcome_of(Answer(429, fault=fault, detail="it broke"))
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), (code, False))


def _sent_without_credential() -> Any:
    task = task_of(IMAGES, MODEL, {"prompt": "x"}, credential="")
    return talk(IMAGES.submit(task), told({}))[0][0]
