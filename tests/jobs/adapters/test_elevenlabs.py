"""ElevenLabs: fields of its three services, seconds of a plan, types, and what errors come to."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.base import Done, Failed, InlineSource
from omnigate.jobs.adapters.elevenlabs import Elevenlabs
from omnigate.jobs.media_types import OCTETS
from omnigate.outbound.messages import NOT_KEPT, Answer, Cap
from tests.jobs.adapters.talking import CREDENTIAL, fault_in, kept, talk, task_of, told

VOICES = Elevenlabs()
SPEECH, EFFECT, MUSIC = "eleven_flash_v2_5", "eleven_text_to_sound_v2", "music_v2"
SOUND = kept(b"ID3\x04", 26)


def plan(*lengths: object) -> dict[str, Any]:
    """Return a plan with sections of so many milliseconds."""
    return {"sections": [{"section_name": "s", "duration_ms": length} for length in lengths]}


class CheckTests(SynchronousTestCase):
    def test_what_is_taken(self) -> None:
        """Each service with its own fields."""
        cases: list[tuple[str, dict[str, Any]]] = [
            (SPEECH, {"text": "x", "voice_id": "a-b_9", "seed": 4, "previous_text": None}),
            (SPEECH, {"text": "x", "voice_id": "v", "enable_logging": False}),
            (EFFECT, {"text": "x"}),
            (EFFECT, {"text": "x", "duration": 0.5, "loop": True, "prompt_influence": 1}),
            (EFFECT, {"text": "x", "duration_seconds": "30s"}),
            (MUSIC, {"prompt": "x"}),
            (MUSIC, {"prompt": "x", "seconds": 600, "sign_with_c2pa": True}),
            (MUSIC, {"composition_plan": plan(10_000, 20_000)}),
        ]
        for model, input in cases:
            self.assertIsNone(fault_in(VOICES, model, input), input)

    def test_what_is_refused(self) -> None:
        """What is missing, not known, or out of bounds, by its name."""
        cases: list[tuple[str, dict[str, Any], str]] = [
            (SPEECH, {"text": "x"}, "voice_id"),
            (SPEECH, {"text": "x", "voice_id": "../v1/voices"}, "voice_id"),
            (SPEECH, {"text": "x", "voice_id": "a/b"}, "voice_id"),
            (SPEECH, {"text": "x", "voice_id": "a%2e"}, "voice_id"),
            (SPEECH, {"text": "x", "voice_id": "v\n"}, "voice_id"),
            (SPEECH, {"text": "x", "voice_id": 5}, "voice_id"),
            (SPEECH, {"voice_id": "v"}, "text"),
            (SPEECH, {"text": "", "voice_id": "v"}, "text"),
            (SPEECH, {"prompt": "x", "voice_id": "v"}, "prompt"),
            (SPEECH, {"text": "x", "voice_id": "v", "model_id": "dear"}, "model_id"),
            (SPEECH, {"text": "x", "voice_id": "v", "duration": 5}, "duration"),
            (SPEECH, {"text": "x", "voice_id": "v", "voice_settings": "loud"}, "voice_settings"),
            (SPEECH, {"text": "x", "voice_id": "v", "output_format": "mp3&x=1"}, "output_format"),
            (SPEECH, {"text": "x", "voice_id": "v", "enable_logging": 0}, "enable_logging"),
            (EFFECT, {}, "text"),
            (EFFECT, {"text": "x", "duration": 0.4}, "duration"),
            (EFFECT, {"text": "x", "duration": 31}, "duration"),
            (EFFECT, {"text": "x", "duration": "-1"}, "duration"),
            (EFFECT, {"text": "x", "prompt_influence": 1.1}, "prompt_influence"),
            (MUSIC, {}, "prompt"),
            (MUSIC, {"text": "x"}, "text"),
            (MUSIC, {"prompt": "x", "duration": 2}, "duration"),
            (MUSIC, {"prompt": "x", "duration": 601}, "duration"),
            (MUSIC, {"prompt": "x", "music_length_ms": 3_000}, "music_length_ms"),
            (MUSIC, {"prompt": "x", "composition_plan": plan(5_000)}, "composition_plan"),
            (MUSIC, {"duration": 9, "composition_plan": plan(5_000)}, "composition_plan"),
            (MUSIC, {"composition_plan": {}}, "composition_plan"),
            (MUSIC, {"composition_plan": {"sections": []}}, "composition_plan"),
            (MUSIC, {"composition_plan": {"sections": [5]}}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(5_000, None)}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(5_000, -1)}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(True)}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(2_999)}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(600_000, 1)}, "composition_plan"),
            (MUSIC, {"composition_plan": plan(*[3_000] * 257)}, "composition_plan"),
        ]
        for model, input, field in cases:
            fault = fault_in(VOICES, model, input)
            assert fault is not None, input
            self.assertEqual(fault.field, field, input)


class SubmitTests(SynchronousTestCase):
    def test_what_is_sent(self) -> None:
        """What belongs in the query stands there and nowhere else; a null is left out."""
        input = {
            "text": "x",
            "voice_id": "v",
            "output_format": "opus_48000_64",
            "enable_logging": False,
            "seed": None,
        }
        task = task_of(VOICES, SPEECH, input, timeout_s=10)
        (request,), _ = talk(VOICES.submit(task), Answer(200, {}, kept=SOUND))
        url = urlsplit(request.url)
        self.assertEqual(url.path, "/v1/text-to-speech/v")
        query = {"output_format": ["opus_48000_64"], "enable_logging": ["false"]}
        self.assertEqual(parse_qs(url.query), query)
        self.assertEqual(json.loads(request.body), {"text": "x", "model_id": SPEECH})
        self.assertEqual((request.cap, request.head_seconds), (Cap.OUTPUT, 300.0))
        self.assertEqual(dict(request.headers)["xi-api-key"], CREDENTIAL)

    def test_seconds_are_sent_as_they_are_billed(self) -> None:
        """Thousandths of a second for music, seconds for effects, the sections of a plan."""
        cases: list[tuple[str, dict[str, Any], str, object, int]] = [
            (EFFECT, {"text": "x", "duration": "5"}, "duration_seconds", 5, 5_000),
            (EFFECT, {"text": "x", "duration": 4.25}, "duration_seconds", 4.25, 4_250),
            (EFFECT, {"text": "x"}, "duration_seconds", None, 0),
            (EFFECT, {"text": "x", "duration": 0}, "duration_seconds", None, 0),
            (MUSIC, {"prompt": "x", "seconds": "3.5s"}, "music_length_ms", 3_500, 3_500),
            (MUSIC, {"composition_plan": plan(5_000, 7_000)}, "music_length_ms", None, 12_000),
        ]
        for model, input, field, sent, billed in cases:
            task = task_of(VOICES, model, input)
            (request,), _ = talk(VOICES.submit(task), Answer(200, {}, kept=SOUND))
            self.assertEqual(json.loads(request.body).get(field), sent, input)
            self.assertEqual(VOICES.billable(task).milliseconds, billed, input)

    def test_types(self) -> None:
        """The header's type, and where that says nothing the format's."""
        cases = [
            ("audio/mpeg", None, "audio/mpeg"),
            ("Audio/MP3; x=y", None, "audio/mpeg"),
            ("", None, "audio/mpeg"),
            ("application/octet-stream", "opus_48000_64", "audio/ogg"),
            ("", "wav_44100", "audio/wav"),
            ("", "pcm_16000", OCTETS),
            ("", "ulaw_8000", OCTETS),
        ]
        for told_type, output_format, expected in cases:
            input = {"text": "x", "voice_id": "v", "output_format": output_format}
            headers = {"content-type": told_type} if told_type else {}
            answer = Answer(200, headers, kept=SOUND)
            _, outcome = talk(VOICES.submit(task_of(VOICES, SPEECH, input)), answer)
            assert isinstance(outcome, Done)
            self.assertEqual(list(outcome.sources), [InlineSource(SOUND, expected)])

    def test_what_is_no_sound(self) -> None:
        """Pages, JSON, pictures and nothing at all are bad answers."""
        task = task_of(VOICES, EFFECT, {"text": "x"})
        for content_type in ("text/html", "text/plain", "application/json", "image/png", "x" * 900):
            answer = Answer(200, {"content-type": content_type}, kept=SOUND)
            _, outcome = talk(VOICES.submit(task), answer)
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.code, "provider_bad_answer")
            self.assertIn("unexpected content type", outcome.error.message)
            self.assertLess(len(outcome.error.message), 200)
        for answer in (Answer(200, {}), Answer(204, {}), Answer(200, {}, kept=kept(b"", 0))):
            _, outcome = talk(VOICES.submit(task), answer)
            assert isinstance(outcome, Failed)
            self.assertEqual(outcome.error.message, "the answer holds no sound")


class ErrorTests(SynchronousTestCase):
    def test_the_table(self) -> None:
        """What is over the plan's limits at once is a rate; a spent quota never is."""
        cases: list[tuple[int, str, str, bool]] = [
            (400, "max_character_limit_exceeded", "provider_failed", False),
            (400, "voice_not_found", "provider_failed", False),
            (401, "invalid_api_key", "provider_failed", False),
            (401, "quota_exceeded", "provider_failed", False),
            (429, "quota_exceeded", "provider_failed", False),
            (429, "too_many_concurrent_requests", "provider_rate_limited", True),
            (429, "system_busy", "provider_rate_limited", True),
            (500, "internal", "provider_failed", False),
        ]
        task = task_of(VOICES, EFFECT, {"text": "x"})
        for status, word, code, limited in cases:
            answer = told({"detail": {"status": word, "message": f"So: {CREDENTIAL}"}}, status)
            _, outcome = talk(VOICES.submit(task), answer)
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), (code, limited), word)
            self.assertEqual(outcome.error.message, "So: [redacted]")

    def test_other_forms(self) -> None:
        """A list of fields, nothing readable, and a file that could not be written."""
        task = task_of(VOICES, EFFECT, {"text": "x"})
        detail = [{"loc": ["body", "text"], "msg": "too long", "type": "value_error"}]
        _, outcome = talk(VOICES.submit(task), told({"detail": detail}, 422))
        assert isinstance(outcome, Failed)
        self.assertEqual(outcome.error.message, "text: too long")
        _, outcome = talk(VOICES.submit(task), Answer(429, {}, b"<html>"))
        assert isinstance(outcome, Failed)
        self.assertEqual((outcome.error.message, outcome.rate_limited), ("HTTP 429", True))
        _, outcome = talk(VOICES.submit(task), Answer(200, fault=NOT_KEPT, detail="disk full"))
        assert isinstance(outcome, Failed)
        self.assertEqual(outcome.error.message, "disk full")
