"""The table of refusals, and the envelopes of both protocols."""

import json

from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import (
    ADMIN_ERRORS,
    ERRORS,
    GatewayError,
    anthropic_envelope,
    envelope,
    openai_envelope,
    problem,
    retry_headers,
)

# status, OpenAI type, Anthropic type, codes: the table as operators and clients know it.
TABLE = """
400 invalid_request_error invalid_request_error invalid_request
400 invalid_request_error invalid_request_error invalid_json
400 invalid_request_error invalid_request_error invalid_path
400 invalid_request_error invalid_request_error request_too_complex
400 invalid_request_error invalid_request_error untranslatable_request
400 invalid_request_error invalid_request_error thread_unsupported_request
401 authentication_error authentication_error invalid_api_key
402 insufficient_quota billing_error budget_exceeded
403 permission_error permission_error model_not_allowed
403 permission_error permission_error address_not_allowed
403 permission_error permission_error endpoint_not_allowed
403 permission_error permission_error invalid_signature
404 not_found_error not_found_error not_found
404 not_found_error not_found_error model_not_found
404 not_found_error not_found_error endpoint_not_supported
405 invalid_request_error invalid_request_error method_not_allowed
411 invalid_request_error invalid_request_error length_required
413 invalid_request_error request_too_large request_too_large
417 invalid_request_error invalid_request_error expectation_failed
429 rate_limit_error rate_limit_error rate_limit_exceeded
429 rate_limit_error rate_limit_error concurrency_limit_exceeded
429 rate_limit_error rate_limit_error request_memory_exceeded
429 rate_limit_error rate_limit_error upstream_rate_limited
429 rate_limit_error rate_limit_error too_many_open_jobs
429 rate_limit_error rate_limit_error too_many_jobs_today
500 server_error api_error internal_error
502 server_error api_error all_upstreams_failed
502 server_error api_error control_plane_unavailable
502 server_error api_error upstream_authentication_failed
503 server_error overloaded_error overloaded
503 server_error overloaded_error gateway_not_ready
503 server_error overloaded_error not_ready
503 server_error overloaded_error storage_unavailable
"""


class TableTests(SynchronousTestCase):
    def test_the_table_is_the_published_one(self) -> None:
        """Every code has its status and its two categories, and there is no other."""
        rows = [
            f"{kind.status} {kind.openai_type} {kind.anthropic_type} {kind.code}"
            for kind in ERRORS.values()
        ]
        self.assertEqual(rows, TABLE.split("\n")[1:-1])

    def test_every_row_stands_under_its_code(self) -> None:
        """The key of a row is its code, and no operator's code shadows a client's."""
        for table in (ERRORS, ADMIN_ERRORS):
            for code, kind in table.items():
                self.assertEqual(code, kind.code)
        self.assertEqual(set(ERRORS) & set(ADMIN_ERRORS), set())


class EnvelopeTests(SynchronousTestCase):
    def test_openai_shape(self) -> None:
        """An OpenAI client finds message, type, param and code."""
        body = openai_envelope(ERRORS["invalid_request"], "no model", "model")
        self.assertEqual(
            json.loads(body),
            {
                "error": {
                    "message": "no model",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "invalid_request",
                }
            },
        )

    def test_openai_param_is_null_where_there_is_none(self) -> None:
        """``param`` is always there, since typed clients read it."""
        self.assertIsNone(json.loads(openai_envelope(ERRORS["overloaded"], "x"))["error"]["param"])

    def test_anthropic_shape(self) -> None:
        """An Anthropic client finds the code in both places, and the request id."""
        body = anthropic_envelope(ERRORS["budget_exceeded"], "spent", "req-1")
        self.assertEqual(
            json.loads(body),
            {
                "type": "error",
                "error": {
                    "type": "billing_error",
                    "message": "spent",
                    "code": "budget_exceeded",
                    "details": {"error_code": "budget_exceeded"},
                },
                "request_id": "req-1",
            },
        )

    def test_the_protocol_chooses_the_shape(self) -> None:
        """The envelope follows the protocol of the endpoint that was called."""
        error = GatewayError("invalid_json", "bad", param="p")
        self.assertEqual(envelope("openai", error, "r"), openai_envelope(error.kind, "bad", "p"))
        self.assertEqual(
            envelope("anthropic", error, "r"), anthropic_envelope(error.kind, "bad", "r")
        )

    def test_a_lone_surrogate_does_not_break_an_error(self) -> None:
        """A message that cannot be encoded is repaired, not another error."""
        error = GatewayError("invalid_json", "bad \ud800")
        for body in (envelope("openai", error, "r"), envelope("anthropic", error, "r\udfff")):
            self.assertEqual(json.loads(body)["error"]["message"], "bad \ufffd")


class GatewayErrorTests(SynchronousTestCase):
    def test_an_unknown_code_is_a_mistake_of_ours(self) -> None:
        """A code that is not in the table cannot be raised."""
        self.assertRaises(KeyError, GatewayError, "no_such_code", "x")

    def test_the_text_is_for_the_log(self) -> None:
        """The text of the exception holds the private detail; the message does not."""
        error = GatewayError("internal_error", "try again", detail="errno 5")
        self.assertEqual(str(error), "500 internal_error: try again (errno 5)")
        self.assertEqual(error.message, "try again")

    def test_a_status_of_http_may_replace_the_tables(self) -> None:
        """An upgrade that is refused is 426 with the category of a bad request."""
        error = GatewayError("invalid_request", "no websockets", status=426)
        self.assertEqual(error.kind.status, 426)
        self.assertEqual(error.kind.openai_type, "invalid_request_error")
        self.assertEqual(ERRORS["invalid_request"].status, 400)

    def test_headers_tell_when_to_retry(self) -> None:
        """A refusal with a pause says so in its headers, beside its own."""
        error = GatewayError(
            "method_not_allowed", "use POST", retry_after=3, headers=((b"allow", b"POST"),)
        )
        self.assertEqual(error.response_headers(), ((b"allow", b"POST"), (b"retry-after", b"3")))
        self.assertEqual(GatewayError("not_found", "x").response_headers(), ())

    def test_a_long_pause_tells_the_sdk_not_to_wait(self) -> None:
        """Beyond two minutes a client shall give up instead of sleeping."""
        self.assertEqual(retry_headers(120), ((b"retry-after", b"120"),))
        self.assertEqual(
            retry_headers(121), ((b"retry-after", b"121"), (b"x-should-retry", b"false"))
        )


class ProblemTests(SynchronousTestCase):
    def test_shape(self) -> None:
        """An operator gets a problem document with the code."""
        error = GatewayError("already_exists", 'there is a key "app"; choose another name')
        self.assertEqual(
            json.loads(problem(error)),
            {
                "type": "about:blank",
                "title": "Conflict",
                "status": 409,
                "detail": 'there is a key "app"; choose another name',
                "code": "already_exists",
            },
        )

    def test_param_is_told(self) -> None:
        """The member at fault is named."""
        error = GatewayError("invalid_request", "negative", param="rpm")
        self.assertEqual(json.loads(problem(error))["param"], "rpm")
