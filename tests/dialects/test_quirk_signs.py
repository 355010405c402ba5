"""What a refusal tells of a model; the wordings are those of real providers and servers."""

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.quirk_signs import MAX_LOOKED_AT, refused_quirk
from omnigate.dialects.shapes import Quirk

# Of sampling parameters: whole messages, and the name that stands in `param` if any.
SAMPLING = (
    ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    (
        "Unsupported value: 'temperature' does not support 0.2 with this model. "
        "Only the default (1) value is supported.",
        "temperature",
    ),
    ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"),
    ("Unsupported parameter: top_p", None),
    ("Provider API error: Unsupported parameter: 'top_p' is not supported with this model.", None),
    ("`temperature` is deprecated for this model.", None),
    ("temperature is deprecated for this model.", None),
    (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        None,
    ),
    ("temperature: Extra inputs are not permitted", None),
    ("top_k: Extra inputs are not permitted", None),
    ("`temperature` may only be set to 1 when thinking is enabled.", None),
    ("invalid temperature: only 1 is allowed for this model", None),
    ("invalid temperature: only 0.6 is allowed for this model", None),
    (
        "gpt-5 models don't support temperature=0.2. Only temperature=1 is supported.",
        None,
    ),
    ('Invalid JSON payload received. Unknown name "temperature": Cannot find field.', None),
    ("Unrecognized request argument supplied: temperature", None),
)
SIGNATURES = (
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. Additional data, function call `default_api:shell` , position 2.",
    "Unable to submit request because function call `xxx` in the 5. content block is missing a "
    "`thought_signature`. Learn more: https://example.net/thought-signatures",
    "Thought signature is required for function calls",
)
OTHERS = (
    ("Invalid 'temperature': decimal above maximum value. Expected a value <= 2.", "temperature"),
    ("temperature: Input should be less than or equal to 1", None),
    ("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model.", None),
    (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use another one, "
        "and leave temperature as it is.",
        "max_tokens",
    ),
    ("messages.3: `tool_use` ids were found without `tool_result` blocks", None),
    ("prompt is too long: 250000 tokens > 200000 maximum", None),
    ("Corrupted thought signature.", None),
    ("The temperature of the sea is what this conversation was about, and it is too long.", None),
    (f"Not supported: images. {'x' * 200} The prompt began: temperature", None),
    ("", None),
)


def envelopes(message: str, param: str | None = None) -> list[bytes]:
    """The shapes in which a message comes."""
    openai = {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": param,
            "code": None,
        }
    }
    gemini = [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]
    anthropic = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    wrapped = {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps(openai)},
        }
    }
    twice = {"error": {"message": f"Exception - {json.dumps(anthropic)!r}", "code": "400"}}
    return [
        json.dumps(openai).encode(),
        json.dumps(gemini, indent=2).encode(),
        json.dumps(anthropic, separators=(",", ":")).encode(),
        json.dumps(wrapped).encode(),
        json.dumps(twice).encode(),
        json.dumps({"detail": message}).encode(),
        message.encode(),
    ]


class SignTests(SynchronousTestCase):
    """The kinds of refusals."""

    def test_sampling_parameters(self) -> None:
        for message, param in SAMPLING:
            for body in envelopes(message, param):
                for status in (400, 422):
                    self.assertEqual(refused_quirk(status, body), Quirk.NO_SAMPLING, body)

    def test_the_code_alone(self) -> None:
        """A message of other words, or in another language, beside a code and a parameter."""
        for code in ("unsupported_parameter", "unsupported_value"):
            for param in ("temperature", "top_p"):
                error = {"message": "nein", "param": param, "code": code}
                body = json.dumps({"error": error}).encode()
                wanted = Quirk.NO_SAMPLING
                self.assertEqual(refused_quirk(400, body), wanted, body)

    def test_a_list_of_places(self) -> None:
        """The form in which servers that judge with pydantic tell it."""
        place = {"type": "extra_forbidden", "loc": ["body", "top_p"], "msg": "Extra inputs …"}
        body = json.dumps({"detail": [place]}).encode()
        self.assertEqual(refused_quirk(422, body), Quirk.NO_SAMPLING)

    def test_thought_signatures(self) -> None:
        for message in SIGNATURES:
            for body in envelopes(message):
                self.assertEqual(refused_quirk(400, body), Quirk.THOUGHT_SIGNATURE, body)

    def test_other_errors(self) -> None:
        for message, param in OTHERS:
            for body in envelopes(message, param):
                self.assertEqual(refused_quirk(400, body), Quirk.NONE, body)

    def test_other_statuses(self) -> None:
        """Only a refusal of the request is one."""
        body = envelopes(SAMPLING[0][0])[0]
        for status in (200, 401, 403, 404, 413, 429, 500, 503, 529):
            self.assertEqual(refused_quirk(status, body), Quirk.NONE)

    def test_what_stands_far_behind_is_not_looked_at(self) -> None:
        body = b" " * MAX_LOOKED_AT + envelopes(SAMPLING[0][0])[0]
        self.assertEqual(refused_quirk(400, body), Quirk.NONE)

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=300))
    def test_any_bytes(self, body: bytes) -> None:
        """Junk is no refusal, and nothing worse."""
        refused_quirk(400, b"\xff\x00" + body)

    def test_the_worst_text_takes_no_time(self) -> None:
        """However often the words stand in a long text, it is looked through in milliseconds."""
        for word in (b"temperature ", b"unsupported", b"only a", b"param:", b"thought_signature "):
            body = word * (1_000_000 // len(word))
            began = time.thread_time()
            refused_quirk(400, body)
            self.assertLess(time.thread_time() - began, 0.02, word)
