"""Whole answers of Responses: read from upstreams, written for clients."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat import answer_reader as chat_reader
from omnigate.dialects.chat import answer_writer as chat_writer
from omnigate.dialects.faults import FailedAnswer, FaultKind, NotAnAnswer
from omnigate.dialects.messages import answer_reader as messages_reader
from omnigate.dialects.messages import answer_writer as messages_writer
from omnigate.dialects.meter import Meter
from omnigate.dialects.packing import pack_reasoning, unpack_thinking
from omnigate.dialects.responses.answer_reader import read_answer
from omnigate.dialects.responses.answer_writer import write_answer
from omnigate.dialects.responses.request_reader import read_request
from omnigate.dialects.shapes import (
    Answer,
    AnswerUsage,
    Frame,
    RedactedThinking,
    Stop,
    Text,
    Thinking,
    ToolCall,
)
from tests.dialects.vectors import Vector, same_answer, vectors

FRAME = Frame("0123456789abcdef0123456789abcdef", 1764441600, "the-model")
USAGE = AnswerUsage(10, 2, 3, 5, 1)
READERS = {"chat": chat_reader, "messages": messages_reader}
WRITERS = {"chat": chat_writer, "messages": messages_writer}


def response(*items: Any, status: Any = "completed", **members: Any) -> dict[str, Any]:
    """Return a response object with an output."""
    return {"object": "response", "status": status, "output": list(items)} | members


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a message item."""
    return {"type": "message", "role": "assistant", "content": list(parts)}


def said(text: Any) -> dict[str, Any]:
    """Return a part that is text."""
    return {"type": "output_text", "text": text, "annotations": []}


def call(**members: Any) -> dict[str, Any]:
    """Return a function call item."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    return item | {"arguments": "{}"} | members


def read(value: Any) -> Answer:
    """Read an answer."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_answer(body, Meter("responses", False))


def write(answer: Answer, frame: Frame = FRAME) -> dict[str, Any]:
    """Write an answer, which the SDK's strict type takes."""
    body = write_answer(answer, frame)
    Response.model_validate_json(body, strict=True)
    told: dict[str, Any] = json.loads(body)
    return told


class VectorTests(SynchronousTestCase):
    """The golden cases."""

    def cases(self, client: str = "", upstream: str = "") -> list[Vector]:
        """Return those that have a whole answer."""
        return [
            vector
            for vector in vectors(client, upstream)
            if vector.answer is not None and vector.answer["status"] < 400 and not vector.streamed
        ]

    def test_read(self) -> None:
        """What a Responses upstream answers is told to clients of the others, and metered."""
        seen = 0
        for vector in self.cases(upstream="responses"):
            seen += 1
            meter = Meter("responses", False)
            answer = read_answer(vector.answer_body, meter)
            asked = vector.request.get("thinking", {}).get("type") in ("enabled", "adaptive")
            frame = Frame(
                FRAME.id,
                FRAME.created,
                vector.request["model"],
                wants_thinking=vector.client == "chat" or asked,
            )
            same_answer(vector, WRITERS[vector.client].write_answer(answer, frame))
            self.assertTrue(meter.closing_seen, vector.name)
            self.assertEqual(meter.body_bytes, len(vector.answer_body))
        self.assertGreater(seen, 3)

    def test_written(self) -> None:
        """What others answer is told to a Responses client, with what it asked."""
        seen = 0
        for vector in self.cases(client="responses"):
            seen += 1
            meter = Meter(vector.upstream, False)
            answer = READERS[vector.upstream].read_answer(vector.answer_body, meter)
            echo = read_request(vector.body).echo
            frame = Frame(FRAME.id, FRAME.created, vector.request["model"], echo=echo)
            same_answer(vector, write_answer(answer, frame))
        self.assertGreater(seen, 4)


class ReaderTests(SynchronousTestCase):
    """What upstreams answer, the odd ones among them."""

    def test_text(self) -> None:
        """A message is one text; one that is empty is none."""
        self.assertEqual(read(response(message(said("a"), said("b")))).parts, [Text("ab")])
        nothing: list[Any] = [None, [], "", {}, 7, [said("")], [said(None)], [{}]]
        for content in nothing:
            self.assertEqual(read(response({"type": "message", "content": content})).parts, [])
        plain = {"type": "message", "content": "words"}
        self.assertEqual(read(response(plain, None)).parts, [Text("words")])

    def test_refusal(self) -> None:
        """A model that declines in words has completed its answer, and refused."""
        answer = read(response(message(said("a"), {"type": "refusal", "refusal": "no"})))
        self.assertEqual(answer.parts, [Text("a"), Text("no", refusal=True)])
        self.assertIs(answer.stop, Stop.REFUSAL)

    def test_reasoning(self) -> None:
        """The summary is what was thought; the sealed rest goes along in the signature."""
        summary = [{"type": "summary_text", "text": text} for text in ("a", "", "b")]
        content = [{"type": "reasoning_text", "text": "c"}]
        for members, part in (
            ({"summary": summary}, Thinking("a\n\nb")),
            ({"summary": summary, "content": content}, Thinking("a\n\nb")),
            ({"summary": [], "content": content}, Thinking("c")),
            ({"content": content, "encrypted_content": ""}, Thinking("c")),
            (
                {"summary": [], "encrypted_content": "gA"},
                Thinking("", pack_reasoning("rs_1", "gA")),
            ),
            (
                {"summary": summary, "encrypted_content": "gA"},
                Thinking("a\n\nb", pack_reasoning("rs_1", "gA")),
            ),
        ):
            item = {"type": "reasoning", "id": "rs_1"} | members
            self.assertEqual(read(response(item)).parts, [part])
        nothing: list[dict[str, Any]] = [{}, {"summary": []}, {"summary": None, "content": None}]
        for empty in nothing:
            self.assertEqual(read(response({"type": "reasoning"} | empty)).parts, [])

    def test_calls(self) -> None:
        """Calls with arguments as text, as an object, and with none."""
        for value, arguments in (
            ('{"a": 1.50}', '{"a": 1.50}'),
            ({"a": [1]}, '{"a":[1]}'),
            ("", "{}"),
            (None, "{}"),
            ('{"a', '{"a'),
        ):
            answer = read(response(call(arguments=value)))
            self.assertEqual(answer.parts, [ToolCall("call_1", "f", arguments)])
            self.assertIs(answer.stop, Stop.TOOLS)

    def test_call_ids(self) -> None:
        """A call without its id goes by the item's, or by one that is made up."""
        answer = read(response(call(call_id=None), call(call_id="", id=None), call(id=None)))
        ids = [part.id for part in answer.parts if isinstance(part, ToolCall)]
        self.assertEqual((ids[0], ids[2]), ("fc_1", "call_1"))
        self.assertTrue(ids[1])

    def test_order(self) -> None:
        """Items stay in their order; those of hosted tools are left out."""
        thought = {"type": "reasoning", "summary": [{"text": "t"}]}
        hosted = {"type": "web_search_call", "content": {"a": 1}, "summary": 5, "name": []}
        answer = read(response(thought, message(said("a")), hosted, call(), message(said("b"))))
        kinds = [type(part).__name__ for part in answer.parts]
        self.assertEqual(kinds, ["Thinking", "Text", "ToolCall", "Text"])

    def test_stops(self) -> None:
        """Why an answer ended."""
        for details, stop in (
            ({"reason": "max_output_tokens"}, Stop.LENGTH),
            ({"reason": "content_filter"}, Stop.REFUSAL),
            ({"reason": "of_next_year"}, Stop.LENGTH),
            (None, Stop.LENGTH),
        ):
            for items in ((), (message(said("a")),), (call(),)):
                told = response(*items, status="incomplete", incomplete_details=details)
                self.assertIs(read(told).stop, stop)
        self.assertIs(read(response()).stop, Stop.END)
        self.assertIs(read(response(message(said("a")))).stop, Stop.END)

    def test_usage(self) -> None:
        """The figures are the meter's, and the share that was thought is known."""
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens": 7.0,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 107,
        }
        answer = read(response(usage=usage, service_tier="flex"))
        self.assertEqual(answer.usage, AnswerUsage(30, 60, 10, 7, 4))
        self.assertEqual(answer.service_tier, "flex")
        nothing: list[Any] = [None, [], "x"]
        for none in nothing:
            self.assertEqual(read(response(usage=none)).usage, AnswerUsage())

    def test_failed(self) -> None:
        """A response that says that it failed carries why; its figures are metered."""
        for status, error, kind, words in (
            ("failed", {"code": "server_error", "message": "m"}, FaultKind.SERVER, "m"),
            ("failed", {"code": "rate_limit_exceeded", "message": "m"}, FaultKind.RATE_LIMIT, "m"),
            ("failed", {"code": "invalid_prompt", "message": "m"}, FaultKind.INVALID, "m"),
            ("completed", {"code": "server_error", "message": "m"}, FaultKind.SERVER, "m"),
            ("failed", None, FaultKind.SERVER, ""),
            ("failed", {}, FaultKind.SERVER, ""),
            ("failed", {"x": 1}, FaultKind.SERVER, ""),
            ("cancelled", None, FaultKind.SERVER, ""),
        ):
            meter = Meter("responses", False)
            told = response(status=status, error=error, usage={"output_tokens": 3})
            body = json.dumps(told).encode()
            failed: FailedAnswer = self.assertRaises(FailedAnswer, read_answer, body, meter)
            self.assertIs(failed.fault.kind, kind, error)
            self.assertIn(words or status, failed.fault.message)
            self.assertTrue(meter.closing_seen)

    def test_no_answer(self) -> None:
        """What is no finished response is told as what it is."""
        for value, verdict in (
            (b"", "not_json"),
            (b"<html>", "not_json"),
            (b"[]", "not_json"),
            (b'{"status":', "not_json"),
            (response(*[{}] * 5000), "wrong_shape"),
            (response(message(*[{}] * 5000)), "wrong_shape"),
            ({}, "wrong_shape"),
            ({"status": "completed"}, "wrong_shape"),
            ({"output": []}, "wrong_shape"),
            ({"output": [], "status": 7}, "wrong_shape"),
            (response(status=None), "wrong_shape"),
            (response(status="in_progress"), "wrong_shape"),
            (response(status="queued"), "wrong_shape"),
            (response(status="of_next_year"), "wrong_shape"),
            ({"status": "completed", "output": "x"}, "wrong_shape"),
            (response(call(name="")), "wrong_shape"),
            ({"error": {"message": "m"}}, "error_envelope"),
            ({"object": "response", "output": None, "error": {"message": "m"}}, "error_envelope"),
        ):
            error: NotAnAnswer = self.assertRaises(NotAnAnswer, read, value)
            self.assertEqual(error.verdict, verdict, value)

    def test_mended(self) -> None:
        """Half characters, a mark at the beginning and broken UTF-8 are mended."""
        body = json.dumps(response(message(said("a\ud800")))).encode()
        self.assertEqual(read(b"\xef\xbb\xbf" + body).parts, [Text("a\ufffd")])
        self.assertEqual(read(body.replace(rb"\ud800", b"\xff")).parts, [Text("a\ufffd")])

    @settings(max_examples=200)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(
                        (
                            "type",
                            "status",
                            "output",
                            "content",
                            "summary",
                            "text",
                            "name",
                            "arguments",
                        )
                    ),
                    inner | st.sampled_from(("message", "reasoning", "function_call", "completed")),
                )
            ),
        )
    )
    def test_anything(self, value: Any) -> None:
        """Whatever JSON comes, it is an answer or it is not."""
        for told in (value, response(value), response({"type": "message", "content": value})):
            try:
                read(told)
            except NotAnAnswer:
                pass


class WriterTests(SynchronousTestCase):
    """What clients are told."""

    def test_items(self) -> None:
        """Texts that follow each other are one message, all else are items of their own."""
        told = write(
            Answer(
                [
                    Thinking("t", "s"),
                    Text("a"),
                    Text("b"),
                    ToolCall("c1", "f", '{"a":1}'),
                    RedactedThinking("x"),
                    Thinking("unsigned"),
                    Text(""),
                    ToolCall("c2", "g", "{}"),
                    Text("c"),
                ],
                Stop.TOOLS,
                USAGE,
            )
        )
        self.assertEqual(told["status"], "completed")
        output = told["output"]
        self.assertEqual(
            [item["type"] for item in output],
            [
                "reasoning",
                "message",
                "function_call",
                "reasoning",
                "reasoning",
                "function_call",
                "message",
            ],
        )
        self.assertEqual(len({item["id"] for item in output}), len(output))
        self.assertEqual(unpack_thinking(output[0]["encrypted_content"]), Thinking("t", "s"))
        self.assertEqual([part["text"] for part in output[1]["content"]], ["ab"])
        self.assertEqual(output[2]["arguments"], '{"a":1}')
        self.assertEqual(unpack_thinking(output[3]["encrypted_content"]), RedactedThinking("x"))
        self.assertEqual(output[3]["summary"], [])
        self.assertIsNone(output[4]["encrypted_content"])
        self.assertEqual(
            told["usage"],
            {
                "input_tokens": 15,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 1},
                "total_tokens": 20,
            },
        )

    def test_thinking_unasked(self) -> None:
        """Who did not ask for thinking gets none."""
        frame = Frame("1", 1, "m", wants_thinking=False)
        answer = Answer(
            [Thinking("t", "s"), Text("a"), RedactedThinking("x"), Text("b")], Stop.END, USAGE
        )
        told = write(answer, frame)
        self.assertEqual(len(told["output"]), 1)
        self.assertEqual(told["output"][0]["content"][0]["text"], "ab")

    def test_ends(self) -> None:
        """An answer that was cut, or filtered, is incomplete, and so is its last item."""
        for stop, status, reason in (
            (Stop.END, "completed", None),
            (Stop.TOOLS, "completed", None),
            (Stop.LENGTH, "incomplete", "max_output_tokens"),
            (Stop.REFUSAL, "incomplete", "content_filter"),
        ):
            for last in (Text("b"), ToolCall("c", "f", '{"a')):
                answer = Answer([Text("a"), ToolCall("d", "f", "{}"), last], stop, USAGE, "why")
                told = write(answer)
                self.assertEqual(told["status"], status)
                self.assertEqual((told["incomplete_details"] or {}).get("reason"), reason)
                statuses = [item["status"] for item in told["output"]]
                self.assertEqual(statuses, ["completed", "completed", status])
        empty = write(Answer([], Stop.LENGTH, USAGE))
        self.assertEqual((empty["status"], empty["output"]), ("incomplete", []))

    def test_refusal(self) -> None:
        """A model that declines in words has completed its answer."""
        parts = [Text("a"), Text("no", refusal=True), Text(" more", refusal=True), Text("b")]
        told = write(Answer(list(parts), Stop.REFUSAL, USAGE))
        self.assertEqual(told["status"], "completed")
        content = [part.get("text", part.get("refusal")) for part in told["output"][0]["content"]]
        self.assertEqual(content, ["a", "no more", "b"])

    def test_names(self) -> None:
        """Calls are told by the names that the client gave."""
        frame = Frame("1", 1, "m", tool_names={"s": "n__f"}, namespaces={"n__f": ("n", "f")})
        told = write(Answer([ToolCall("c", "s", "{}")], Stop.TOOLS, USAGE), frame)
        item = told["output"][0]
        self.assertEqual((item["namespace"], item["name"]), ("n", "f"))
