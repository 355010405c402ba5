"""Which API an upstream is asked over, and what translators take and give."""

import json

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.shapes import Frame, Quirk
from omnigate.dialects.translate import Translator, names_tools, upstream_kind
from omnigate.errors import GatewayError
from tests.dialects.vectors import translate_request

PLAIN = Capabilities()
CHAT_ONLY = Capabilities(upstream_api="chat")
RESPONSES_ONLY = Capabilities(upstream_api="responses")
TOOLS_APART = Capabilities(tools_over_responses=True)
WITH_TOOLS = b'{"tools":[{}]}'


class KindTests(SynchronousTestCase):
    def test_kinds(self) -> None:
        """By the client's endpoint, the upstream's protocol, the model, and the tools."""
        for client, protocol, caps, body, kind in (
            ("chat", "openai", PLAIN, WITH_TOOLS, "chat"),
            ("chat", "openai", CHAT_ONLY, WITH_TOOLS, "chat"),
            ("chat", "openai", RESPONSES_ONLY, b"{}", "responses"),
            ("chat", "openai", TOOLS_APART, b"{}", "chat"),
            ("chat", "openai", TOOLS_APART, WITH_TOOLS, "responses"),
            ("chat", "anthropic", RESPONSES_ONLY, b"{}", "messages"),
            ("responses", "openai", PLAIN, b"{}", "responses"),
            ("responses", "openai", CHAT_ONLY, b"{}", "chat"),
            ("responses", "openai", TOOLS_APART, b"{}", "responses"),
            ("responses", "anthropic", PLAIN, b"{}", "messages"),
            ("messages", "openai", PLAIN, WITH_TOOLS, "chat"),
            ("messages", "openai", RESPONSES_ONLY, b"{}", "responses"),
            ("messages", "openai", TOOLS_APART, b"{}", "chat"),
            ("messages", "openai", TOOLS_APART, WITH_TOOLS, "responses"),
            ("messages", "anthropic", TOOLS_APART, WITH_TOOLS, "messages"),
            ("completions", "openai", RESPONSES_ONLY, WITH_TOOLS, "completions"),
            ("embeddings", "openai", PLAIN, b"{}", "embeddings"),
            ("count_tokens", "anthropic", TOOLS_APART, WITH_TOOLS, "count_tokens"),
        ):
            self.assertEqual(kind, upstream_kind(client, protocol, caps, body), (client, protocol))

    def test_tools(self) -> None:
        """Tools are those of the request itself, however they are spelled."""
        for body, named in (
            (b'{"tools":[{}]}', True),
            (b'{ "tools" : [ {} ] }', True),
            (b'{"functions":[{}]}', True),
            (b'{"t\\u006fols":[1]}', True),
            (b'{"tools":[]}', False),
            (b'{"tools":[ \n]}', False),
            (b'{"tools":null,"functions":null}', False),
            (b'{"tools":"tools"}', False),
            (b'{"x":{"tools":[{}]}}', False),
            (b'{"x":"\\"tools\\":[{}]"}', False),
            (b"{}", False),
        ):
            self.assertEqual(named, names_tools(body), body)


class TranslatorTests(SynchronousTestCase):
    FRAME = Frame(id="0" * 32, created=1, model="small")

    def test_request(self) -> None:
        """A request is rewritten, and what its answer has to know is kept."""
        body = b'{"model":"small","messages":[{"role":"user","content":"Hi"}],"stream":true}'
        asked = translate_request("chat", "messages", body, "vendor", PLAIN, Quirk.NONE)
        sent = json.loads(asked.body)
        self.assertEqual(("vendor", True), (sent["model"], sent["stream"]))
        frame = asked.frame("1" * 32, 5, "small")
        self.assertEqual(("1" * 32, 5, "small"), (frame.id, frame.created, frame.model))

    def test_namespace(self) -> None:
        """The call of a function in a namespace is told with both its names, streamed or not."""
        group = {
            "type": "namespace",
            "name": "crm",
            "description": "Customers.",
            "tools": [{"type": "function", "name": "find"}],
        }
        body = json.dumps({"model": "small", "input": "Hi", "tools": [group]}).encode()
        block = {"type": "tool_use", "id": "toolu_1", "name": "crm__find", "input": {}}
        answer = {"type": "message", "content": [block], "stop_reason": "tool_use", "usage": {}}
        asked = translate_request("responses", "messages", body, "vendor", PLAIN, Quirk.NONE)
        self.assertIn(b'"name":"crm__find"', asked.body)
        frame = asked.frame("1" * 32, 5, "small")
        whole = Translator("responses", "messages", frame, False)
        item = json.loads(whole.write(whole.read(json.dumps(answer).encode()), False))["output"][0]
        self.assertEqual(("crm", "find"), (item["namespace"], item["name"]))
        streamed = Translator("responses", "messages", frame, False)
        told = streamed.write(streamed.read(json.dumps(answer).encode()), True)
        self.assertEqual(3, told.count(b'"name":"find","namespace":"crm"'))

    def test_refused_request(self) -> None:
        """What cannot be said is refused with its place."""
        body = b'{"model":"small","messages":[{"role":"user","content":"Hi"}],"n":2}'
        error = self.assertRaises(
            GatewayError, translate_request, "chat", "messages", body, "v", PLAIN, Quirk.NONE
        )
        self.assertEqual(("untranslatable_request", "n"), (error.kind.code, error.param))

    def test_no_answer(self) -> None:
        """What is no answer is told from one."""
        for body, verdict in ((b"<html>", "not_json"), (b'{"error":{"message":"x"}}', None)):
            for upstream in ("chat", "responses", "messages"):
                translator = Translator("chat", upstream, self.FRAME, False)
                error = self.assertRaises(NotAnAnswer, translator.read, body)
                self.assertIn(error.verdict, (verdict or "error_envelope",))

    def test_error(self) -> None:
        """An error is told in the client's protocol."""
        body = b'{"error":{"message":"full","type":"server_error"}}'
        status, told, _ = Translator("messages", "chat", self.FRAME, False).error(503, body)
        self.assertEqual((529, "overloaded_error"), (status, json.loads(told)["error"]["type"]))
        status, told, _ = Translator("responses", "chat", self.FRAME, False).error(503, body)
        self.assertEqual((503, "full"), (status, json.loads(told)["error"]["message"]))
