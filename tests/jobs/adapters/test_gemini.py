"""Gemini: images, speech and Veo's films."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import (
    Accepted,
    Done,
    Failed,
    Handle,
    InlineSource,
    Running,
    Transient,
    UrlSource,
)
from omnigate.jobs.adapters.gemini import REFUSALS, Gemini
from omnigate.outbound.messages import TIMEOUT, TOO_LARGE, Answer, Cap
from tests.jobs.adapters.talking import CREDENTIAL, fault_in, kept, talk, task_of, told

GEMINI = Gemini()
IMAGE, SPEECH, FILM = "gemini-3.1-flash-image", "gemini-3.8-flash-tts", "veo-3.1-fast"
PNG = "data:image/png;base64,iVBORw0KGgo="
OPERATION = f"models/{FILM}/operations/op1"


def part(data: object = "iVBORw0KGgo=", mime: object = "image/png", **more: Any) -> dict[str, Any]:
    """Return a part of a candidate."""
    return {"inlineData": {"mimeType": mime, "data": data}, **more}


def candidates(*parts: object, **more: Any) -> dict[str, Any]:
    """Return an answer with one candidate."""
    return {"candidates": [{"content": {"parts": list(parts)}, **more}]}


def outcome_of(answer: Answer, model: str = IMAGE) -> object:
    """Return what a submit comes to."""
    return talk(GEMINI.submit(task_of(GEMINI, model, {"prompt": "x"})), answer)[1]


def film_of(answer: Answer) -> object:
    """Return what a poll comes to."""
    task = task_of(GEMINI, FILM, {"prompt": "x", "duration": 8})
    return talk(GEMINI.poll(task, Handle(OPERATION)), answer)[1]


def sample(uri: object) -> dict[str, Any]:
    """Return a finished operation with one film."""
    films = {"generatedSamples": [{"video": {"uri": uri}}]}
    return {"name": OPERATION, "done": True, "response": {"generateVideoResponse": films}}


class CheckTests(SynchronousTestCase):
    def test_what_is_taken(self) -> None:
        """Each kind with its own fields."""
        cases: list[tuple[str, dict[str, Any]]] = [
            (IMAGE, {"prompt": "x", "image": PNG, "images": [PNG, PNG], "temperature": 0.5}),
            (IMAGE, {"text": "x", "image": None, "image_size": "2K"}),
            (IMAGE, {"prompt": "x", "image": "data:image/svg+xml;charset=utf-8;base64,PHN2Zz4="}),
            (SPEECH, {"text": "x", "voice": "Kore", "seed": 1}),
            (FILM, {"prompt": "x", "duration": "8s", "resolution": "4k", "last_frame": PNG}),
            (FILM, {"image": PNG}),
        ]
        for model, input in cases:
            self.assertIsNone(fault_in(GEMINI, model, input), input)

    def test_what_is_refused(self) -> None:
        """Fields of another kind, addresses to be fetched, and what says nothing."""
        cases: list[tuple[str, dict[str, Any], str]] = [
            (IMAGE, {}, "prompt"),
            (IMAGE, {"image": PNG}, "prompt"),
            (IMAGE, {"prompt": ""}, "prompt"),
            (IMAGE, {"prompt": "x", "text": "y"}, "text"),
            (IMAGE, {"prompt": "x", "image": "https://example.com/a.png"}, "image"),
            (IMAGE, {"prompt": "x", "image": "http://169.254.169.254/"}, "image"),
            (IMAGE, {"prompt": "x", "image": "data:image/png,raw"}, "image"),
            (IMAGE, {"prompt": "x", "image": "data:text/html;base64,AAAA"}, "image"),
            (IMAGE, {"prompt": "x", "image": 5}, "image"),
            (IMAGE, {"prompt": "x", "image": {"url": PNG}}, "image"),
            (IMAGE, {"prompt": "x", "images": []}, "images"),
            (IMAGE, {"prompt": "x", "images": [PNG] * 33}, "images"),
            (IMAGE, {"prompt": "x", "duration": 5}, "duration"),
            (IMAGE, {"prompt": "x", "aspect_ratio": 1.5}, "aspect_ratio"),
            (IMAGE, {"prompt": "x", "seed": True}, "seed"),
            (SPEECH, {"text": "x", "image": PNG}, "image"),
            (SPEECH, {"text": "x", "aspect_ratio": "1:1"}, "aspect_ratio"),
            (FILM, {}, "prompt"),
            (FILM, {"prompt": "x", "duration": -1}, "duration"),
            (FILM, {"prompt": "x", "duration": "long"}, "duration"),
            (FILM, {"prompt": "x", "image": [PNG, PNG]}, "image"),
            (FILM, {"prompt": "x", "last_frame": [PNG, PNG]}, "last_frame"),
            (FILM, {"prompt": "x", "voice": "Kore"}, "voice"),
            (FILM, {"prompt": "x", "sampleCount": 4}, "sampleCount"),
        ]
        for model, input, field in cases:
            fault = fault_in(GEMINI, model, input)
            assert fault is not None, input
            self.assertEqual(fault.field, field, input)
            self.assertLess(len(fault.message), 300)

    def test_numbers_that_pass(self) -> None:
        """Zero is a number like others."""
        for model in (IMAGE, SPEECH):
            task = task_of(GEMINI, model, {"prompt": "x", "seed": 0, "temperature": 0.5})
            (request,), _ = talk(GEMINI.submit(task), told({}))
            config = json.loads(request.body)["generationConfig"]
            self.assertEqual((config["seed"], config["temperature"]), (0, 0.5))

    def test_a_film_with_pictures(self) -> None:
        """They go out as their bytes, and seconds as a number."""
        input = {"image": PNG, "last_frame": PNG, "duration": "4.5s", "seed": 0}
        (request,), outcome = talk(
            GEMINI.submit(task_of(GEMINI, FILM, input)), told({"name": OPERATION})
        )
        picture = {"bytesBase64Encoded": "iVBORw0KGgo=", "mimeType": "image/png"}
        body = {
            "instances": [{"image": picture, "lastFrame": picture}],
            "parameters": {"seed": 0, "durationSeconds": 4.5},
        }
        self.assertEqual(json.loads(request.body), body)
        self.assertEqual(outcome, Accepted(Handle(OPERATION)))

    def test_a_model_cannot_leave_its_place(self) -> None:
        """Whatever the config calls a model, it stays one segment of the path."""
        task = task_of(GEMINI, "../../v1/x?y#z", {"prompt": "x"})
        (request,), _ = talk(GEMINI.submit(task), told({}))
        self.assertTrue(
            request.url.endswith("/v1beta/models/..%2F..%2Fv1%2Fx%3Fy%23z:generateContent")
        )
        self.assertEqual(request.cap, Cap.INLINE)


class AnswerTests(SynchronousTestCase):
    def test_which_parts_are_outputs(self) -> None:
        """Media of every candidate; drafts, words and odd parts are none."""
        parts = [{"text": "x"}, part(thought=True), part(), None, {"inlineData": 5}, part(data=5)]
        outcome = outcome_of(told({"candidates": [{"content": {"parts": parts}}, 5, {}]}))
        assert isinstance(outcome, Done)
        self.assertEqual(list(outcome.sources), [InlineSource(b"\x89PNG\r\n\x1a\n", "image/png")])

    def test_speech_that_was_taken_out(self) -> None:
        """Samples in a file get a head that says their length."""
        body = candidates(part("0a1b", "audio/L16;codec=pcm;rate=24000"))
        answer = Answer(200, {}, json.dumps(body).encode(), media={"0a1b": kept(b"", 48_000)})
        outcome = outcome_of(answer, SPEECH)
        assert isinstance(outcome, Done)
        (source,) = outcome.sources
        assert isinstance(source, InlineSource)
        self.assertEqual((source.content_type, source.prefix[:4]), ("audio/wav", b"RIFF"))

    def test_refusals(self) -> None:
        """The model's own decision is a failure with its reason, all else a bad answer."""
        for reason in REFUSALS:
            outcome = outcome_of(told(candidates({"text": "no"}, finishReason=reason)))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_failed")
            self.assertEqual(outcome.error.message, f"no media in the answer: {reason}")
        odd: list[dict[str, Any]] = [
            {},
            {"candidates": []},
            {"candidates": {}},
            candidates({"text": "no"}, finishReason="STOP"),
            candidates(part("not base64!")),
        ]
        for body in odd:
            outcome = outcome_of(told(body))
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer")


class FilmTests(SynchronousTestCase):
    def test_names_that_lead_elsewhere(self) -> None:
        """An operation's name becomes part of a path, so it is judged first."""
        for name in ("", "../../x", "models/../x", "a b", "a?b", "/a", "a//b", "a/", 5, "ä", "%2e"):
            outcome = outcome_of(told({"name": name}), FILM)
            assert isinstance(outcome, Failed), name
            self.assertEqual(outcome.error.code, "provider_bad_answer")
        task = task_of(GEMINI, FILM, {"prompt": "x"})
        requests, _ = talk(GEMINI.poll(task, Handle("../x")))
        self.assertEqual(requests, [])

    def test_who_gets_the_key(self) -> None:
        """The provider's own origin, in every other case nobody."""
        base = GEMINI.default_base_url
        cases = [
            (f"{base}/v1beta/files/a:download?alt=media", "", True),
            (f"{base}/v1beta/files/a", "?alt=media", True),
            (f"{base}/v1beta/files/a?x=1", "&alt=media", True),
            (f"{base}.evil.example/v1beta/files/a", "", False),
            (f"{base}:444/v1beta/files/a", "", False),
            ("http://generativelanguage.googleapis.com/v1beta/files/a", "", False),
            ("https://storage.example.com/a.mp4", "", False),
        ]
        for uri, added, has_key in cases:
            outcome = film_of(told(sample(uri)))
            assert isinstance(outcome, Done), uri
            (source,) = outcome.sources
            assert isinstance(source, UrlSource)
            self.assertEqual(source.url, uri + added)
            self.assertEqual(source.headers, (("x-goog-api-key", CREDENTIAL),) if has_key else ())
            self.assertEqual(outcome.provider_job_id, OPERATION)
        for odd in ("file:///etc/passwd", "", 5, None, "javascript:1"):
            self.assertIsInstance(film_of(told(sample(odd))), Failed)

    def test_what_an_operation_comes_to(self) -> None:
        """Running until it is done, then films, or the reason why there are none."""
        self.assertEqual(film_of(told({"name": OPERATION})), Running())
        self.assertEqual(film_of(told({"done": "true"})), Running())
        filtered: dict[str, Any] = {"raiMediaFilteredCount": 1}
        reasons = {"raiMediaFilteredReasons": ["a", 5, "b"]}
        cases: list[tuple[dict[str, Any], str, str]] = [
            ({"error": {"code": 13, "message": "broke"}}, "provider_failed", "broke"),
            ({"error": {}}, "provider_failed", "no reason given"),
            (
                {"response": {"generateVideoResponse": filtered}},
                "provider_failed",
                "the film was filtered",
            ),
            ({"response": {"generateVideoResponse": reasons}}, "provider_failed", "a; b"),
            ({}, "provider_bad_answer", "completed without an output"),
            ({"response": 5}, "provider_bad_answer", "completed without an output"),
        ]
        for body, code, message in cases:
            outcome = film_of(told({"done": True, **body}))
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.error.message), (code, message))

    def test_polls_that_tell_nothing(self) -> None:
        """They are transient, and say how long to wait; a wrong key ends it at once."""
        limited = {"error": {"message": "slow", "details": [{"retryDelay": "21s"}]}}
        outcome = film_of(told(limited, 429))
        assert isinstance(outcome, Transient)
        self.assertEqual((outcome.error.message, outcome.wait_seconds), ("slow", 21.0))
        for answer in (
            told({}, 404),
            told({}, 503),
            Answer(200, {}, b"<html>"),
            Answer(0, fault=TIMEOUT),
            Answer(200, fault=TOO_LARGE),
        ):
            self.assertIsInstance(film_of(answer), Transient)
        for status in (401, 403, 410):
            self.assertIsInstance(film_of(told({}, status)), Failed)


class ErrorTests(SynchronousTestCase):
    def test_the_table(self) -> None:
        """Of images and of films alike."""
        cases: list[tuple[int, str, str, bool]] = [
            (400, "INVALID_ARGUMENT", "provider_failed", False),
            (403, "PERMISSION_DENIED", "provider_failed", False),
            (404, "NOT_FOUND", "provider_failed", False),
            (429, "RESOURCE_EXHAUSTED", "provider_rate_limited", True),
            (500, "INTERNAL", "provider_failed", False),
            (503, "UNAVAILABLE", "provider_failed", False),
            (504, "DEADLINE_EXCEEDED", "provider_failed", False),
        ]
        for status, word, code, limited in cases:
            for model in (IMAGE, FILM):
                error = {"code": status, "message": f"no: {CREDENTIAL}", "status": word}
                outcome = outcome_of(told({"error": error}, status), model)
                assert isinstance(outcome, Failed)
                self.assertEqual((outcome.error.code, outcome.rate_limited), (code, limited))
                self.assertEqual(outcome.error.message, "no: [redacted]")
