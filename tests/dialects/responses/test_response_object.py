"""The response object and its items: JSON that the official SDK takes whole."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.responses.response_object import (
    COMPLETED,
    ECHOED,
    FAILED,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    function_call_item,
    item_id,
    message_item,
    reasoning_item,
    refusal_part,
    response_error,
    response_object,
    text_part,
    tool_name,
)
from omnigate.dialects.shapes import AnswerUsage, Frame

FRAME = Frame("0" * 31 + "1", 1764441600, "any")


class ResponseObjectTests(SynchronousTestCase):
    """What is put together is what was given."""

    @settings(max_examples=100)
    @given(st.text(), st.text(), st.text(min_size=1))
    def test_sdk_takes_it(self, text: str, arguments: str, name: str) -> None:
        """The SDK's strict model finds every value where it looks for it, whatever the texts."""
        frame = Frame("ab" * 16, 5, name, namespaces={"a__b": ("a", "b")})
        items = [
            reasoning_item(item_id("rs", frame, 0), COMPLETED, text, name),
            message_item(
                item_id("msg", frame, 1), COMPLETED, [text_part(text), refusal_part(name)]
            ),
            function_call_item("fc_1", COMPLETED, name, tool_name(frame, "a__b"), arguments),
            function_call_item("fc_2", INCOMPLETE, "c", tool_name(frame, name), arguments),
        ]
        body = response_object(frame, COMPLETED, items, AnswerUsage(1, 2, 4, 8, 3))
        self.assertNotIn(b"\n", body)
        told = Response.model_validate_json(body, strict=True)
        self.assertEqual(told.model, name)
        dumped = [item.model_dump(exclude_none=True) for item in told.output]
        self.assertEqual(dumped[0]["id"], f"rs_{'ab' * 16}0000")
        self.assertEqual(dumped[1]["id"], f"msg_{'ab' * 16}0001")
        self.assertEqual([s["text"] for s in dumped[0]["summary"]], [text] if text else [])
        self.assertEqual(dumped[0]["encrypted_content"], name)
        self.assertEqual(dumped[1]["content"][0]["text"], text)
        self.assertEqual(dumped[1]["content"][1], {"type": "refusal", "refusal": name})
        self.assertEqual((dumped[2]["namespace"], dumped[2]["name"]), ("a", "b"))
        self.assertEqual((dumped[3]["name"], dumped[3]["arguments"]), (name, arguments))
        self.assertNotIn("namespace", dumped[3])
        assert told.usage is not None
        self.assertEqual((told.usage.input_tokens, told.usage.total_tokens), (7, 15))
        self.assertEqual(told.usage.output_tokens_details.reasoning_tokens, 3)

    def test_short_name_and_namespace(self) -> None:
        """A name that was shortened for the upstream is told as the client wrote it."""
        namespaces = {"n__long": ("n", "long")}
        frame = Frame("1", 1, "m", tool_names={"s": "n__long"}, namespaces=namespaces)
        self.assertEqual(tool_name(frame, "s"), ("long", "n"))
        self.assertEqual(tool_name(frame, "other"), ("other", None))

    def test_ends(self) -> None:
        """A response tells why it ended short or failed."""
        short = json.loads(response_object(FRAME, INCOMPLETE, [], incomplete=MAX_OUTPUT_TOKENS))
        self.assertEqual(short["incomplete_details"], {"reason": "max_output_tokens"})
        self.assertIsNone(short["usage"])
        error = response_error("c", 'a"\ud800')
        failed = json.loads(response_object(FRAME, FAILED, [], error=error))
        self.assertEqual(failed["error"], {"code": "c", "message": 'a"\ufffd'})

    def test_echo(self) -> None:
        """What the client said stands in the response, in its own spelling; else the defaults."""
        plain = json.loads(response_object(FRAME, COMPLETED, []))
        self.assertNotIn("reasoning", plain)
        self.assertLess(set(ECHOED) - {"reasoning", "user"}, set(plain))
        self.assertEqual((plain["parallel_tool_calls"], plain["store"]), (True, False))
        self.assertEqual((plain["tool_choice"], plain["tools"]), ("auto", []))
        echo = {
            "temperature": b"1.50",
            "tools": b'[{"type":"function","name":"f","parameters":{"n":1E400}}]',
            "reasoning": b'{"effort":"low"}',
            "user": b'"u"',
        }
        body = response_object(Frame("1", 1, "m", echo=echo), COMPLETED, [])
        for name, text in echo.items():
            self.assertIn(b'"%b":%b' % (name.encode(), text), body)
