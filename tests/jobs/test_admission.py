"""Tests for omnigate.jobs.admission."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import GatewayError
from omnigate.jobs.admission import (
    JobRequest,
    check_idempotency_key,
    read_list_request,
    read_request,
)
from omnigate.jobs.job import STATES
from omnigate.jobs.long_strings import at_once

MOST = 8_000_000

LONG = "x" * 300_000


def read(body: bytes | dict[str, Any], max_input_bytes: int = MOST) -> JobRequest:
    """Read a request."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return at_once(read_request(text, max_input_bytes))


class ReadRequestTests(SynchronousTestCase):
    """The body of ``POST /v1/jobs``."""

    def refusal(self, body: bytes | dict[str, Any], max_input_bytes: int = MOST) -> tuple[Any, ...]:
        error = self.assertRaises(GatewayError, read, body, max_input_bytes)
        return error.kind.code, error.param

    def test_what_is_asked_for(self) -> None:
        """The input stands as it was written, too."""
        body = b'{"model":"flux","input": { "prompt" : "a\\u0020cat"},"metadata":{"u":1}}'
        request = read(body)
        self.assertEqual(
            (request.model, request.input, request.metadata, request.webhook_url),
            ("flux", {"prompt": "a cat"}, {"u": 1}, None),
        )
        self.assertEqual(request.input_json, b'{ "prompt" : "a\\u0020cat"}')

    def test_a_long_string_is_as_any(self) -> None:
        """Wherever it stands in the input."""
        input = {"image": LONG, "list": [LONG + "y", {"deep": LONG}], "prompt": "p"}
        request = read({"model": "flux", "input": input, "metadata": None})
        self.assertEqual(request.input, input)
        self.assertEqual(json.loads(request.input_json), input)

    def test_refusals(self) -> None:
        """Each names its member."""
        fine = {"model": "flux", "input": {}}
        read(fine)
        read({**fine, "metadata": None, "webhook_url": None})
        for body, expected in (
            (b"", ("invalid_json", None)),
            (b"{", ("invalid_json", None)),
            (b'{"model":"x","input":{"a":[}]}', ("invalid_json", None)),
            (b'{"model":"x","input":{"a":1,}}', ("invalid_json", None)),
            (b'{"model":"x","input":{"a":"\xff"}}', ("invalid_json", None)),
            (b'{"model":"x","input":{"a":"\\ud800"}}', ("invalid_json", None)),
            (b'{"model":"x","input":{"a":1e999}}', ("invalid_json", None)),
            (b"[]", ("invalid_request", None)),
            (b'{"input":{}}', ("invalid_request", "model")),
            (b'{"model":"x"}', ("invalid_request", "input")),
            (b'{"model":"x","model":"y","input":{}}', ("invalid_request", "model")),
            (b'{"model":"x","input":{},"in\\u0070ut":{}}', ("invalid_request", "input")),
            ({**fine, "webhook": "x"}, ("invalid_request", "webhook")),
            ({**fine, "a b": "x"}, ("invalid_request", None)),
            ({**fine, "model": 1}, ("invalid_request", "model")),
            ({**fine, "model": ""}, ("invalid_request", "model")),
            ({**fine, "model": "x" * 300}, ("invalid_request", "model")),
            ({**fine, "model": LONG}, ("invalid_request", "model")),
            ({**fine, "input": []}, ("invalid_request", "input")),
            ({**fine, "input": None}, ("invalid_request", "input")),
            ({**fine, "metadata": "x"}, ("invalid_request", "metadata")),
            ({**fine, "metadata": {"a": LONG}}, ("invalid_request", "metadata")),
            ({**fine, "metadata": {"a": "x" * 16_384}}, ("invalid_request", "metadata")),
            ({**fine, "webhook_url": 1}, ("invalid_request", "webhook_url")),
            ({**fine, "webhook_url": "ftp://e.com"}, ("invalid_request", "webhook_url")),
            ({**fine, "webhook_url": "https://e.com/" + LONG}, ("invalid_request", "webhook_url")),
        ):
            self.assertEqual(self.refusal(body), expected, str(body)[:80])

    def test_depth(self) -> None:
        """64 levels, the body's own among them."""
        read(b'{"model":"x","input":%b%b}' % (b'{"a":' * 62 + b"{}", b"}" * 62))
        deeper = b'{"model":"x","input":%b%b}' % (b'{"a":' * 63 + b"{}", b"}" * 63)
        self.assertEqual(self.refusal(deeper), ("invalid_json", None))

    def test_input_and_metadata_together(self) -> None:
        """As long as they are as JSON, to the byte."""
        body = b'{"model":"x","input":{"a":"bcd"},"metadata":{"e":"f"}}'
        read(body, 20)
        self.assertEqual(self.refusal(body, 19), ("request_too_large", "input"))

    def test_long_strings_may_stand_in_any_order_too(self) -> None:
        """As their members may; but not one in the place of the other."""
        first = read(b'{"model":"x","input":{"a":"%b","b":"%by"}}' % ((LONG.encode(),) * 2))
        again = read(b'{"model":"x","input":{"b":"%by","a":"%b"}}' % ((LONG.encode(),) * 2))
        self.assertEqual(first.sha256, again.sha256)
        other = read(b'{"model":"x","input":{"b":"%b","a":"%by"}}' % ((LONG.encode(),) * 2))
        self.assertNotEqual(first.sha256, other.sha256)

    def test_the_hash_is_of_what_is_asked_for(self) -> None:
        """However it is laid out; any other member, or value, makes another request."""
        first = read(b'{"model":"x","input":{"a":1,"b":"%b"}}' % LONG.encode())
        again = read(b'{ "input" : {"b":"%b", "a":1},"model":"\\u0078"}' % LONG.encode())
        self.assertEqual(first.sha256, again.sha256)
        fine = {"model": "x", "input": {"a": 1, "b": LONG}}
        others = [
            {**fine, "model": "y"},
            {**fine, "input": {"a": 1, "b": LONG + "x"}},
            {**fine, "input": {"a": 2, "b": LONG}},
            {**fine, "input": {"b": 1, "a": LONG}},
            {**fine, "input": {"a": 1, "b": LONG, "c": LONG}},
            {**fine, "metadata": {}},
            {**fine, "webhook_url": "https://e.com"},
        ]
        self.assertEqual(len({first.sha256, *(read(other).sha256 for other in others)}), 8)


class HeadersAndQueriesTests(SynchronousTestCase):
    """What else a request says."""

    def test_idempotency_keys(self) -> None:
        """1 to 255 characters of visible ASCII."""
        for fine in ("", "a", "~" * 255):
            check_idempotency_key(fine)
        for bad in ("a b", "é", "x" * 256, "a, b", "\t", "\x7f"):
            error = self.assertRaises(GatewayError, check_idempotency_key, bad)
            self.assertEqual(error.param, "Idempotency-Key")

    def test_lists(self) -> None:
        """Twenty of any status, unless something else is asked for."""
        found = read_list_request({}, STATES)
        self.assertEqual((found.status, found.after, found.limit), (None, None, 20))
        job_id = "job_" + "0" * 26
        found = read_list_request({"status": "failed", "after": job_id, "limit": "100"}, STATES)
        self.assertEqual((found.status, found.after, found.limit), ("failed", job_id, 100))
        for name, value in (
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "-1"),
            ("limit", "x"),
            ("limit", "1e1"),
            ("status", "done"),
            ("after", "job_x"),
            ("after", ""),
        ):
            error = self.assertRaises(GatewayError, read_list_request, {name: value}, STATES)
            self.assertEqual(error.param, name)
