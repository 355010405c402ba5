"""Judging whole answers, and putting errors into the client's shape."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.answer import begins_object, read_answer, wrap_error
from omnigate.dialects.endpoints import ENDPOINTS

KINDS = [endpoint.kind for endpoint in ENDPOINTS.values()]
CHAT = b'{"id":"c","object":"chat.completion","choices":[{"message":{"content":"hi"}}]}'


def judge(body: bytes, kind: str = "chat") -> str:
    return read_answer(kind, body)[0]


class JudgeTests(SynchronousTestCase):
    def test_answers(self) -> None:
        """An answer of its endpoint is one."""
        self.assertEqual("ok", judge(CHAT))
        self.assertEqual("ok", judge(b'\r\n {"object":"list","data":[]}\n', "embeddings"))
        self.assertEqual("ok", judge(b'{"type":"message","content":[]}', "messages"))
        self.assertEqual("ok", judge(b'{"input_tokens":4}', "count_tokens"))

    def test_page(self) -> None:
        """A page, a text or nothing at all is no answer, whatever it is said to be."""
        for body in (b"<html><body>Maintenance</body></html>", b"ok", b"", b" \n", b"[1]", b'"x"'):
            self.assertEqual("not_json", judge(body), body)

    def test_cut(self) -> None:
        """An object that does not end, or has something behind it, is no JSON."""
        for body in (CHAT[:-1], CHAT + b"}", b"{", b"{]", b'{"a":tru}'):
            self.assertEqual("not_json", judge(body), body)

    def test_odd(self) -> None:
        """An object that is merely odd is the client's business."""
        for body in (b"{}", b'{"choices":null}', b'{"hello":1}', b'{"type":7,"object":[]}'):
            self.assertEqual("ok", judge(body), body)

    def test_python_json(self) -> None:
        """What only Python's writer makes is JSON enough: NaN, half a surrogate pair."""
        self.assertEqual("ok", judge(b'{"choices":[{"logprob":-Infinity,"x":NaN}]}'))
        self.assertEqual("ok", judge(b'{"choices":[{"text":"\\ud83d"}]}'))

    def test_byte_order_mark(self) -> None:
        """A mark before the object is what clients step over too."""
        self.assertEqual("ok", judge(b"\xef\xbb\xbf" + CHAT))
        self.assertEqual("error_envelope", judge(b'\xef\xbb\xbf {"error":"no"}'))

    def test_error_with_good_status(self) -> None:
        """An error is one under any status, in the shape of any server."""
        for body in (
            b'{"error":{"message":"no"}}',
            b'{"error":"no"}',
            b'{"object":"error","message":"no","code":500}',
            b'{"type":"error","error":{"type":"api_error","message":"no"}}',
            b'{"error":{"message":"\\ud83d"}}',
        ):
            for kind in KINDS:
                self.assertEqual("error_envelope", judge(body, kind), (kind, body))

    def test_failed_response(self) -> None:
        """A failed response of the Responses API is an answer which has a member named error."""
        body = b'{"object":"response","status":"failed","error":{"code":"x"},"output":[]}'
        self.assertEqual("ok", judge(body, "responses"))

    def test_no_error(self) -> None:
        """A member error that says there is none says nothing."""
        self.assertEqual("ok", judge(b'{"error":null,"id":"x"}'))
        self.assertEqual("ok", judge(b'{"error": {} ,"id":"x"}'))

    def test_error_beside_an_answer(self) -> None:
        """Where there is an answer, an error beside it is passed on with it."""
        self.assertEqual("ok", judge(b'{"error":{"message":"late"},"choices":[{}]}'))

    def test_beginning(self) -> None:
        """Of a long answer only the beginning is known when it is judged."""
        for body in (CHAT[:20], b" \r\n{", b"\xef\xbb\xbf{"):
            self.assertTrue(begins_object(body), body)
        for body in (b"<html>", b"", b" " * 99, b"[{}]", b'"{'):
            self.assertFalse(begins_object(body), body)

    def test_usage(self) -> None:
        """An answer's usage comes with the verdict; what is no answer has none."""
        usage = b'"usage":{"prompt_tokens":7,"completion_tokens":3}'
        for body in (CHAT[:-1] + b"," + usage + b"}", b'{"x":NaN,' + usage + b"}"):
            verdict, found = read_answer("chat", body)
            self.assertEqual("ok", verdict)
            assert found is not None
            self.assertEqual((7, 3), (found.prompt_tokens, found.completion_tokens))
        self.assertEqual(
            ("error_envelope", None), read_answer("chat", b'{"error":"no",' + usage + b"}")
        )

    def test_depth(self) -> None:
        """A tree of any depth is judged without harm."""
        for depth in (5000, 20_000):
            self.assertEqual("not_json", judge(b'{"a":' * depth + b"1" + b"}" * depth))
        self.assertEqual("ok", judge(b'{"a":' * 128 + b"9" * 5000 + b"}" * 128))
        for opening, closing in ((b'{"a":', b"}"), (b"[", b"]")):
            for depth, verdict in ((127, "ok"), (128, "not_json"), (900, "not_json")):
                body = b'{"choices":[[{}],%b1%b]}' % (opening * (depth - 1), closing * (depth - 1))
                self.assertEqual(verdict, judge(body), (opening, depth))
        self.assertEqual("ok", judge(b'{"choices":[' + b"[]," * 900 + b'"' + b"[" * 900 + b'"]}'))

    @given(st.binary(max_size=60) | st.from_regex(rb"\{[\"a-z:,\[\]{}0-9]*\}", fullmatch=True))
    @settings(max_examples=200, deadline=None)
    def test_never_raises(self, body: bytes) -> None:
        """Whatever comes is judged."""
        self.assertIn(judge(body), ("ok", "not_json", "error_envelope"))


class OpenAiEnvelopeTests(SynchronousTestCase):
    def wrapped(self, body: bytes, status: int = 500) -> dict[str, Any]:
        error = json.loads(wrap_error("openai", status, body, "req_1"))["error"]
        self.assertEqual({"message", "type", "param", "code"}, set(error))
        assert isinstance(error, dict)
        return error

    def test_as_it_came(self) -> None:
        """A proper envelope is passed on byte for byte."""
        for body in (
            b'{"error":{"message":"m","type":"t","param":"p","code":"c"}}',
            b'{ "error" : {"message":"m"}, "more": [1] }\n',
            b'{"error":{"message":"\\ud83d","type":null,"code":null}}',
        ):
            self.assertIs(body, wrap_error("openai", 400, body, "req_1"))

    def test_what_only_looks_like_one(self) -> None:
        """An envelope that is no JSON to a strict client is made anew, with all that it told."""
        for message in (b"caf\xe9", b"a\x01b", b"\xed\xa0\x80"):
            body = b'{"error":{"message":"so %b","type":"t","param":null,"code":"c"}}' % message
            error = self.wrapped(body, 400)
            self.assertTrue(error["message"].startswith("so "))
            self.assertEqual(("t", "c"), (error["type"], error["code"]))
        proper = b'{"error":{"message":"m","type":"t","param":null,"code":"c"}'
        for body in (b"\xef\xbb\xbf" + proper + b"}", proper + b',"x":NaN}'):
            self.assertEqual("m", self.wrapped(body, 400)["message"])
            self.assertIsNot(body, wrap_error("openai", 400, body, "req_1"))

    def test_number_as_code(self) -> None:
        """The number that llama.cpp has for a code becomes a string."""
        body = b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}'
        self.assertEqual(
            {
                "message": "too long",
                "type": "exceed_context_size_error",
                "param": None,
                "code": "400",
            },
            self.wrapped(body, 400),
        )

    def test_texts(self) -> None:
        """What has no shape is passed on as the message."""
        for body, message in (
            (b"plain", "plain"),
            (b"[1]", "[1]"),
            (b'"no"', '"no"'),
            (b"7", "7"),
            (b" <h1>Bad\n gateway</h1> ", "<h1>Bad\n gateway</h1>"),
            (b"\xff", "\N{REPLACEMENT CHARACTER}"),
            (b"{}", "{}"),
        ):
            self.assertEqual(
                {"message": message, "type": "server_error", "param": None, "code": None},
                self.wrapped(body),
            )

    def test_shapes_of_others(self) -> None:
        """The message is found wherever servers put it."""
        for body in (
            b'{"error":"no"}',
            b'{"message":"no"}',
            b'{"detail":"no"}',
            b'{"error":"Bad Request","message":"no"}',
            b'[{"error":{"message":"no","status":"INVALID_ARGUMENT"}}]',
            b'{"object":"error","message":"no","type":5,"code":null}',
            b'{"type":"error","error":{"message":"no","type":3}}',
        ):
            self.assertEqual("no", self.wrapped(body)["message"], body)

    def test_nothing(self) -> None:
        """An empty body still tells the status."""
        self.assertIn("503", self.wrapped(b"", 503)["message"])

    def test_category(self) -> None:
        """Where the provider gave no category, the status does."""
        for status, category in (
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (404, "not_found_error"),
            (422, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "server_error"),
            (529, "server_error"),
        ):
            self.assertEqual(category, self.wrapped(b"x", status)["type"])

    def test_long(self) -> None:
        """A page is cut."""
        self.assertLess(len(self.wrapped(b"y" * 60_000)["message"]), 5000)

    def test_code_of_the_provider(self) -> None:
        """The provider's code and parameter are kept."""
        error = self.wrapped(b'{"error":{"message":["no"],"code":"busy","param":"model"}}')
        self.assertEqual(("busy", "model"), (error["code"], error["param"]))


class AnthropicEnvelopeTests(SynchronousTestCase):
    def wrapped(self, body: bytes, status: int = 500) -> dict[str, Any]:
        answer = json.loads(wrap_error("anthropic", status, body, "req_1"))
        self.assertEqual(("error", "req_1"), (answer["type"], answer["request_id"]))
        error = answer["error"]
        assert isinstance(error, dict)
        return error

    def test_as_it_came(self) -> None:
        """A proper envelope is passed on byte for byte."""
        body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
        self.assertIs(body, wrap_error("anthropic", 529, body, "req_1"))

    def test_texts(self) -> None:
        """What has no shape is passed on as the message, under the category of the status."""
        for status, category in (
            (400, "invalid_request_error"),
            (402, "billing_error"),
            (413, "request_too_large"),
            (500, "api_error"),
            (503, "overloaded_error"),
            (529, "overloaded_error"),
        ):
            self.assertEqual({"type": category, "message": "plain"}, self.wrapped(b"plain", status))

    def test_openai_envelope(self) -> None:
        """An envelope of the other protocol is rewritten, its code kept in both places."""
        error = self.wrapped(b'{"error":{"message":"no","type":"server_error","code":"busy"}}')
        self.assertEqual(
            {
                "type": "api_error",
                "message": "no",
                "code": "busy",
                "details": {"error_code": "busy"},
            },
            error,
        )

    def test_known_category(self) -> None:
        """A category that the protocol knows is kept."""
        error = self.wrapped(b'{"error":{"message":"no","type":"billing_error"}}', 400)
        self.assertEqual("billing_error", error["type"])


class WrapAnythingTests(SynchronousTestCase):
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "message", "code", "type", "detail", "details", "object"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )

    @given(json_values.map(json.dumps).map(str.encode) | st.binary(max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_always_an_envelope(self, body: bytes) -> None:
        """Whatever an upstream says, the client gets its protocol's envelope."""
        error = json.loads(wrap_error("openai", 500, body, "r"))["error"]
        self.assertIsInstance(error["message"], str)
        self.assertIsInstance(error.get("code"), str | None)
        answer = json.loads(wrap_error("anthropic", 500, body, "r"))
        self.assertEqual("error", answer["type"])
        self.assertIsInstance(answer["error"]["message"], str)
        self.assertIsInstance(answer["error"]["type"], str)
