"""Errors of upstreams, told to clients of the other protocol."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.answer import MAX_MESSAGE_CHARS
from omnigate.dialects.fault_words import (
    anthropic_error,
    anthropic_error_object,
    fault_lines,
    openai_error,
    openai_error_object,
    responses_error_object,
)
from omnigate.dialects.faults import (
    Fault,
    FaultKind,
    anthropic_fault,
    openai_fault,
    openai_fault_of,
)
from tests.dialects.vectors import same_answer, vectors

REQUEST_ID = "req_0123"

# Of an Anthropic upstream: status, type; of the OpenAI client: status, type, code.
TO_OPENAI = (
    (400, "invalid_request_error", 400, "invalid_request_error", None),
    (401, "authentication_error", 502, "server_error", "upstream_authentication_failed"),
    (402, "billing_error", 429, "insufficient_quota", "insufficient_quota"),
    (403, "permission_error", 502, "server_error", "upstream_authentication_failed"),
    (404, "not_found_error", 404, "invalid_request_error", "model_not_found"),
    (409, "conflict_error", 400, "invalid_request_error", None),
    (413, "request_too_large", 413, "invalid_request_error", "request_too_large"),
    (429, "rate_limit_error", 429, "rate_limit_error", "rate_limit_exceeded"),
    (500, "api_error", 500, "server_error", None),
    (504, "timeout_error", 504, "server_error", "timeout"),
    (529, "overloaded_error", 503, "service_unavailable_error", "server_is_overloaded"),
)

# Of an OpenAI upstream: status, type, code; of the Anthropic client: status, type.
TO_ANTHROPIC = (
    (400, "invalid_request_error", None, 400, "invalid_request_error"),
    (400, "invalid_request_error", "unsupported_value", 400, "invalid_request_error"),
    (422, "invalid_request_error", None, 400, "invalid_request_error"),
    (401, "invalid_request_error", "invalid_api_key", 502, "api_error"),
    (403, "invalid_request_error", None, 502, "api_error"),
    (404, "invalid_request_error", "model_not_found", 404, "not_found_error"),
    (413, "invalid_request_error", None, 413, "request_too_large"),
    (429, "rate_limit_error", "rate_limit_exceeded", 429, "rate_limit_error"),
    (429, "tokens", "rate_limit_exceeded", 429, "rate_limit_error"),
    (429, "insufficient_quota", "insufficient_quota", 402, "billing_error"),
    (429, "insufficient_quota", "credit_balance_exhausted", 402, "billing_error"),
    (402, "unknown_error", "invalid_request_error", 402, "billing_error"),
    (500, "server_error", None, 500, "api_error"),
    (502, "server_error", None, 502, "api_error"),
    (503, "service_unavailable_error", "slow_down", 529, "overloaded_error"),
    (504, "server_error", "timeout", 504, "timeout_error"),
)


def anthropic_body(type: str, message: str = "words") -> bytes:
    return json.dumps({"type": "error", "error": {"type": type, "message": message}}).encode()


def openai_body(type: str | None, code: object, message: str = "words") -> bytes:
    error = {"message": message, "type": type, "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def as_openai(fault: Fault) -> tuple[int, dict[str, Any]]:
    status, body = openai_error(fault)
    return status, json.loads(body)["error"]


def as_anthropic(fault: Fault) -> tuple[int, dict[str, Any]]:
    status, body = anthropic_error(fault, REQUEST_ID)
    return status, json.loads(body)["error"]


class AnthropicUpstreamTests(SynchronousTestCase):
    def test_table(self) -> None:
        """Each error has its status, type and code; the same without a status inside a stream."""
        for status, type, client, client_type, code in TO_OPENAI:
            body = anthropic_body(type)
            told, error = as_openai(anthropic_fault(status, body))
            self.assertEqual((client, client_type, code), (told, error["type"], error["code"]))
            self.assertIsNone(error["param"])
            self.assertEqual(error, as_openai(anthropic_fault(None, body))[1], type)

    def test_credential(self) -> None:
        """What the upstream says of the gateway's credential is kept for the log."""
        for status in (401, 403):
            for body in (anthropic_body("x", "bad key sk-1"), b"bad key sk-1", b""):
                fault = anthropic_fault(status, body)
                for out in (openai_error(fault)[1], anthropic_error(fault, REQUEST_ID)[1]):
                    self.assertNotIn(b"sk-1", out)
                self.assertEqual(502, openai_error(fault)[0])
        self.assertIn("sk-1", anthropic_fault(401, anthropic_body("x", "bad key sk-1")).message)

    def test_context_length(self) -> None:
        """A prompt that is too long is told by the words, since there is no code."""
        for message in (
            "prompt is too long: 1200345 tokens > 1000000 maximum",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            "This request would exceed the model's context window",
        ):
            body = anthropic_body("invalid_request_error", message)
            for status in (400, None):
                _, error = as_openai(anthropic_fault(status, body))
                self.assertEqual("context_length_exceeded", error["code"])
                self.assertEqual("messages", error["param"])
                self.assertEqual(message, error["message"])
        overloaded = anthropic_fault(529, anthropic_body("overloaded_error", "context window"))
        self.assertIs(FaultKind.OVERLOADED, overloaded.kind)

    def test_not_json(self) -> None:
        """What is no error of the protocol is a bad gateway, whatever its status."""
        for body in (b"<html>bad gateway</html>", b"", b"[]", b"7", b"{}", b'{"error":{"x":1}}'):
            for status in (400, 404, 429, 502, 503, 520):
                for read in (anthropic_fault, openai_fault):
                    fault = read(status, body)
                    told, error = as_openai(fault)
                    self.assertEqual((502, "upstream_bad_response"), (told, error["code"]))
                    self.assertIn(str(status), error["message"])
                    told, error = as_anthropic(fault)
                    self.assertEqual((502, "api_error"), (told, error["type"]))

    def test_good_status(self) -> None:
        """An error with a good status is known by its type, as one in a stream."""
        fault = anthropic_fault(200, anthropic_body("overloaded_error"))
        self.assertIs(FaultKind.OVERLOADED, fault.kind)
        fault = openai_fault(200, openai_body("rate_limit_error", None))
        self.assertIs(FaultKind.RATE_LIMIT, fault.kind)


class OpenAIUpstreamTests(SynchronousTestCase):
    def test_table(self) -> None:
        """Each error has its status and type, and the upstream's words."""
        for status, type, code, client, client_type in TO_ANTHROPIC:
            told, error = as_anthropic(openai_fault(status, openai_body(type, code)))
            self.assertEqual((client, client_type), (told, error["type"]), (status, type, code))
            if client != 502 or status == 502:
                self.assertEqual("words", error["message"])

    def test_stream(self) -> None:
        """Inside a stream the type and the code tell, and numbers that some write for a code."""
        for type, code, expected in (
            ("server_error", None, "api_error"),
            (None, None, "api_error"),
            ("rate_limit_error", None, "rate_limit_error"),
            ("insufficient_quota", None, "billing_error"),
            ("invalid_request_error", "context_length_exceeded", "invalid_request_error"),
            ("BadRequestError", 400, "invalid_request_error"),
            ("whatever", 429, "rate_limit_error"),
            (None, 502, "api_error"),
            (None, "503", "overloaded_error"),
            (None, 200, "api_error"),
            ("service_unavailable_error", "slow_down", "overloaded_error"),
        ):
            fault = openai_fault(None, openai_body(type, code))
            self.assertEqual(expected, as_anthropic(fault)[1]["type"], (type, code))

    def test_context_length(self) -> None:
        """Coding tools look for the beginning of the message; it is not put there twice."""
        words = "This model's maximum context length is 4096 tokens"
        for code, message in (
            ("context_length_exceeded", "Too much"),
            (None, words),
            (400, words),
            ("context_length_exceeded", "prompt is too long: 5 > 4"),
        ):
            fault = openai_fault(400, openai_body("invalid_request_error", code, message))
            told = as_anthropic(fault)[1]["message"]
            self.assertTrue(told.startswith("prompt is too long: "), told)
            self.assertEqual(1, told.count("prompt is too long: "))
            self.assertIn(message, told)

    def test_shapes(self) -> None:
        """Servers put the words where they like."""
        for body in (
            b'{"error":"words"}',
            b'{"object":"error","message":"words","type":"BadRequestError","code":400}',
            b'{"detail":"words"}',
            b'[{"error":{"code":400,"message":"words","status":"INVALID_ARGUMENT"}}]',
            b'\xef\xbb\xbf{"message":"words","request_id":"1"}',
        ):
            self.assertEqual(
                (400, {"type": "invalid_request_error", "message": "words"}),
                as_anthropic(openai_fault(400, body)),
            )

    def test_openai_client(self) -> None:
        """Between two protocols of OpenAI the provider's code and field stay, a number does not."""
        body = b'{"error":{"message":"m","type":"x","param":"stop","code":"unsupported_parameter"}}'
        self.assertEqual(
            (
                400,
                {
                    "message": "m",
                    "type": "invalid_request_error",
                    "param": "stop",
                    "code": "unsupported_parameter",
                },
            ),
            as_openai(openai_fault(400, body)),
        )
        self.assertIsNone(as_openai(openai_fault(400, openai_body(None, 400)))[1]["code"])

    def test_failed_response(self) -> None:
        """The error of a failed response has a code and a message only."""
        for code, kind in (
            ("server_error", FaultKind.SERVER),
            ("rate_limit_exceeded", FaultKind.RATE_LIMIT),
            ("invalid_prompt", FaultKind.INVALID),
            ("bio_policy", FaultKind.INVALID),
            ("image_too_large", FaultKind.INVALID),
            ("invalid_base64_image", FaultKind.INVALID),
            ("vector_store_timeout", FaultKind.TIMEOUT),
            ("context_length_exceeded", FaultKind.CONTEXT_LENGTH),
            ("insufficient_quota", FaultKind.QUOTA),
            ("server_is_overloaded", FaultKind.OVERLOADED),
            ("of_next_year", FaultKind.SERVER),
            (None, FaultKind.SERVER),
        ):
            self.assertIs(kind, openai_fault_of(code, "words").kind, code)


class TellingTests(SynchronousTestCase):
    def test_every_kind(self) -> None:
        """Every kind has a status of an error and words in every protocol, given or not."""
        for kind in FaultKind:
            for fault in (Fault(kind), Fault(kind, "words \ud800", "code", "field", 500)):
                for status, body in (openai_error(fault), anthropic_error(fault, REQUEST_ID)):
                    self.assertTrue(400 <= status < 600)
                    error = json.loads(body)["error"]
                    self.assertTrue(error["message"])
                    self.assertTrue(error["type"])
                told = json.loads(responses_error_object(fault))
                self.assertEqual({"code", "message"}, set(told))
                self.assertTrue(told["code"] and told["message"])

    def test_objects(self) -> None:
        """In a stream stands what stands in the envelope."""
        for kind in FaultKind:
            fault = Fault(kind, "words")
            self.assertEqual(as_openai(fault)[1], json.loads(openai_error_object(fault)))
            self.assertEqual(as_anthropic(fault)[1], json.loads(anthropic_error_object(fault)))

    def test_envelopes(self) -> None:
        """The envelopes are those of the protocols."""
        fault = Fault(FaultKind.SERVER, "words")
        self.assertEqual(
            {"error": {"message": "words", "type": "server_error", "param": None, "code": None}},
            json.loads(openai_error(fault)[1]),
        )
        self.assertEqual(
            {
                "type": "error",
                "error": {"type": "api_error", "message": "words"},
                "request_id": REQUEST_ID,
            },
            json.loads(anthropic_error(fault, REQUEST_ID)[1]),
        )

    def test_no_credit(self) -> None:
        """Trying again buys no credit, and clients are told so."""
        for kind in FaultKind:
            expected = b"x-should-retry: false\r\n" if kind is FaultKind.QUOTA else b""
            self.assertEqual(expected, fault_lines(Fault(kind)))

    @given(st.binary(max_size=200), st.none() | st.integers(200, 999))
    def test_any_bytes(self, body: bytes, status: int | None) -> None:
        """Any bytes are some error."""
        for read in (openai_fault, anthropic_fault):
            told, out = openai_error(read(status, body))
            self.assertTrue(400 <= told < 600)
            self.assertLess(len(json.loads(out)["error"]["message"]), MAX_MESSAGE_CHARS + 1)

    @given(
        st.dictionaries(
            st.sampled_from(("error", "message", "type", "code", "param", "details", "detail")),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=2)
                    | st.dictionaries(
                        st.sampled_from(
                            ("message", "type", "code", "param", "details", "error_code")
                        ),
                        inner,
                        max_size=4,
                    )
                ),
                max_leaves=8,
            ),
        )
    )
    def test_any_object(self, tree: dict[str, Any]) -> None:
        """Members of any type are no reason to fail."""
        body = json.dumps(tree).encode()
        for status in (None, 200, 400, 429, 503):
            for read in (openai_fault, anthropic_fault):
                fault = read(status, body)
                self.assertTrue(json.loads(anthropic_error(fault, "")[1])["error"]["message"])
                self.assertTrue(json.loads(responses_error_object(fault))["code"])


class VectorTests(SynchronousTestCase):
    def test_errors(self) -> None:
        """Every golden error is told as it must be, with its status."""
        seen = 0
        for vector in vectors():
            answer = vector.answer
            if answer is None or answer["status"] < 400:
                continue
            seen += 1
            read = anthropic_fault if vector.upstream == "messages" else openai_fault
            fault = read(answer["status"], vector.answer_body)
            if vector.client == "messages":
                status, body = anthropic_error(fault, REQUEST_ID)
            else:
                status, body = openai_error(fault)
            self.assertEqual(vector.told["status"], status, vector.name)
            same_answer(vector, body)
            again = vector.told.get("headers", {}).get("x-should-retry")
            self.assertEqual(again == "false", bool(fault_lines(fault)), vector.name)
        self.assertGreater(seen, 7)
