"""Whole answers of Chat and Messages: read from upstreams, written for clients."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat import answer_reader as chat_reader
from omnigate.dialects.chat import answer_writer as chat_writer
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.lenient import MAX_CONTAINERS, MAX_PARTS
from omnigate.dialects.messages import answer_reader as messages_reader
from omnigate.dialects.messages import answer_writer as messages_writer
from omnigate.dialects.meter import Meter
from omnigate.dialects.packing import pack_reasoning
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
USAGE = AnswerUsage()
READERS = {"chat": chat_reader, "messages": messages_reader}
WRITERS = {"chat": chat_writer, "messages": messages_writer}


def read(kind: str, value: object) -> Answer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    answer: Answer = READERS[kind].read_answer(body, Meter(kind, False))
    return answer


def write(kind: str, answer: Answer, frame: Frame = FRAME) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(WRITERS[kind].write_answer(answer, frame))
    return told


def chat(message: dict[str, Any], reason: object = "stop", **more: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], **more}


def message(*blocks: dict[str, Any], reason: object = "end_turn", **more: object) -> dict[str, Any]:
    return {"type": "message", "content": list(blocks), "stop_reason": reason, **more}


def call(arguments: object, call_id: object = "call_1", name: object = "f") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


class VectorTests(SynchronousTestCase):
    def test_whole(self) -> None:
        """Every golden answer between the two protocols is told as it must be, and is metered."""
        seen = 0
        for client, upstream in (("chat", "messages"), ("messages", "chat")):
            for vector in vectors(client, upstream):
                answer = vector.answer
                if answer is None or answer["status"] >= 400 or vector.streamed:
                    continue
                seen += 1
                meter = Meter(upstream, False)
                found = READERS[upstream].read_answer(vector.answer_body, meter)
                same_answer(vector, WRITERS[client].write_answer(found, self.frame(vector)))
                self.assertTrue(meter.closing_seen, vector.name)
                self.assertEqual(meter.body_bytes, len(vector.answer_body))
        self.assertGreater(seen, 40)

    def frame(self, vector: Vector) -> Frame:
        asked = vector.request.get("thinking", {}).get("type") in ("enabled", "adaptive")
        return Frame(
            FRAME.id,
            FRAME.created,
            vector.request["model"],
            wants_thinking=vector.client == "chat" or asked,
        )


class ChatReaderTests(SynchronousTestCase):
    def test_text(self) -> None:
        """The content is one text; an empty one, or none, is no part."""
        self.assertEqual([Text("hi")], read("chat", chat({"content": "hi"})).parts)
        nothing: list[Any] = ["", None, [], {}, 7]
        for content in nothing:
            self.assertEqual([], read("chat", chat({"content": content})).parts)
        self.assertEqual([], read("chat", chat({})).parts)

    def test_content_of_parts(self) -> None:
        """Some servers answer a list of parts; those that are no words are left out."""
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "one "},
            {"type": "image_url", "image_url": {"url": "x"}},
            {"type": "text", "text": "two"},
            {"type": "refusal", "refusal": "no"},
        ]
        self.assertEqual(
            [Thinking("Hm."), Text("one two"), Text("no", refusal=True)],
            read("chat", chat({"content": parts})).parts,
        )

    def test_reasoning(self) -> None:
        """The reasoning has two names; it is told once, and first."""
        for names in (("reasoning_content",), ("reasoning",), ("reasoning_content", "reasoning")):
            answer = read("chat", chat({"content": "so", **dict.fromkeys(names, "why")}))
            self.assertEqual([Thinking("why"), Text("so")], answer.parts)
        odd = chat({"content": "so", "reasoning_content": None, "reasoning": {"effort": "low"}})
        self.assertEqual([Text("so")], read("chat", odd).parts)

    def test_arguments(self) -> None:
        """Arguments are text; none are an empty object, and an object is its own text."""
        for given_as, expected in (
            ('{"a": 1.50}', '{"a": 1.50}'),
            ("", "{}"),
            (" ", "{}"),
            (None, "{}"),
            ({}, "{}"),
            ({"a": [1, 2]}, '{"a":[1,2]}'),
            ('{"a": "x', '{"a": "x'),
            ("[1]", "[1]"),
        ):
            answer = read("chat", chat({"content": None, "tool_calls": [call(given_as)]}))
            self.assertEqual([ToolCall("call_1", "f", expected)], answer.parts)
        no_member: dict[str, Any] = call("")
        del no_member["function"]["arguments"]
        self.assertEqual(
            [ToolCall("call_1", "f", "{}")],
            read("chat", chat({"tool_calls": [no_member]}, "tool_calls")).parts,
        )

    def test_ids(self) -> None:
        """Ids that are missing are made up, each another."""
        given_ids: list[Any] = [None, "", [], "call_9", 7]
        calls = [call("{}", call_id) for call_id in given_ids]
        parts = read("chat", chat({"tool_calls": calls}, "tool_calls")).parts
        ids = [part.id for part in parts if isinstance(part, ToolCall)]
        self.assertEqual(["call_9", "7"], ids[3:])
        self.assertEqual(5, len(set(ids)))
        for made in ids[:3]:
            self.assertRegex(made, r"\Atoolu_gw_[0-9a-z_]+\Z")
            self.assertLessEqual(len(made), 40)

    def test_legacy_call(self) -> None:
        """The old single call is a call."""
        old = {"content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}}
        answer = read("chat", chat(old, "function_call"))
        self.assertIs(Stop.TOOLS, answer.stop)
        [part] = answer.parts
        assert isinstance(part, ToolCall)
        self.assertEqual(("f", '{"a":1}'), (part.name, part.arguments))

    def test_odd_calls(self) -> None:
        """An empty place in the list is none; a call of nothing is not made something."""
        answer = read("chat", chat({"content": "x", "tool_calls": [None, {}, {"id": "1"}]}))
        self.assertEqual([Text("x")], answer.parts)
        for name in (None, ""):
            self.refused("wrong_shape", chat({"tool_calls": [call("{}", name=name)]}))

    def test_stops(self) -> None:
        """Why it ended is told by the reason, and by what is in the answer where that is stop."""
        tools = {"content": None, "tool_calls": [call("{}")]}
        for said, reason, stop in (
            ({"content": "x"}, "stop", Stop.END),
            ({"content": "x"}, "eos", Stop.END),
            ({"content": "x"}, "length", Stop.LENGTH),
            ({"content": "x"}, "content_filter", Stop.REFUSAL),
            ({"content": None, "refusal": "no"}, "stop", Stop.REFUSAL),
            ({"content": "x", "refusal": "no"}, "length", Stop.LENGTH),
            (tools, "stop", Stop.TOOLS),
            (tools, "tool_calls", Stop.TOOLS),
            (tools, "length", Stop.LENGTH),
        ):
            self.assertIs(stop, read("chat", chat(said, reason)).stop, (said, reason))

    def test_unfinished(self) -> None:
        """What never says that it is finished, or says that it failed, is no answer."""
        for reason in (None, "", 7, False):
            self.refused("wrong_shape", chat({"content": "x"}, reason))
        for reason in ("error", "abort"):
            self.refused("error_envelope", chat({"content": "x"}, reason))
        self.refused("error_envelope", chat({"content": "x"}, None, error={"message": "no"}))
        self.assertEqual(
            [Text("x")], read("chat", chat({"content": "x"}, "stop", error=None)).parts
        )

    def test_further_choices(self) -> None:
        """Of the choices the first is read; annotations, logprobs and audio go with the rest."""
        body = chat({"content": "one", "annotations": [{}], "audio": {"id": "a"}})
        body["choices"].append({"index": 1, "message": {"content": "two"}, "finish_reason": "stop"})
        self.assertEqual([Text("one")], read("chat", body).parts)

    def test_usage(self) -> None:
        """Figures are the meter's: whole floats count, nonsense does not, uncached is never less
        than nothing."""
        usage = {
            "prompt_tokens": 20.0,
            "completion_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
        answer = read("chat", chat({"content": "x"}, usage=usage, service_tier="flex"))
        self.assertEqual(AnswerUsage(5, 12, 3, 8, 4), answer.usage)
        self.assertEqual("flex", answer.service_tier)
        usage["prompt_tokens"] = 4
        self.assertEqual(0, read("chat", chat({"content": "x"}, usage=usage)).usage.uncached)
        no_usage: list[Any] = [None, [], "none", {"prompt_tokens": "8"}, {"prompt_tokens": None}]
        for odd in no_usage:
            answer = read("chat", chat({"content": "x"}, usage=odd, service_tier=7))
            self.assertEqual((AnswerUsage(), None), (answer.usage, answer.service_tier))

    def refused(self, verdict: str, value: object) -> None:
        error = self.assertRaises(NotAnAnswer, read, "chat", value)
        self.assertEqual(verdict, error.verdict, value)


class MessagesReaderTests(SynchronousTestCase):
    def test_blocks(self) -> None:
        """Blocks keep their order; those without a counterpart, and empty ones, are left out."""
        answer = read(
            "messages",
            message(
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "one", "citations": [{"type": "char_location"}]},
                {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
                {"type": "text", "text": ""},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.50}},
                {"type": "of_next_year", "text": 7},
                reason="tool_use",
            ),
        )
        self.assertEqual(
            [
                Thinking("Hm.", "sig"),
                RedactedThinking("xyz"),
                Text("one"),
                ToolCall("toolu_1", "f", '{"a":1.5}'),
            ],
            answer.parts,
        )

    def test_input(self) -> None:
        """The input becomes compact text, numbers as they were; what was wrapped is unwrapped."""
        for given_as, expected in (
            (b"{}", "{}"),
            (b"null", "{}"),
            (b'{ "a" : [1.50, 1E3] }', '{"a":[1.50,1E3]}'),
            (b'{"__raw_arguments":"{\\"a\\": \\"x"}', '{"a": "x'),
            (b'{"__raw_arguments":"x","b":1}', '{"__raw_arguments":"x","b":1}'),
            (b'{"__raw_arguments":7}', '{"__raw_arguments":7}'),
            (b'{"a":"\xc3\xa9\\u00e9"}', '{"a":"\u00e9\\u00e9"}'),
            (b'"{\\"a\\":1}"', '{"a":1}'),
        ):
            body = (
                b'{"content":[{"type":"tool_use","id":"t","name":"f","input":%b}],'
                b'"stop_reason":"tool_use"}' % given_as
            )
            self.assertEqual([ToolCall("t", "f", expected)], read("messages", body).parts)

    def test_stops(self) -> None:
        """Each stop reason has its place; one that nobody knows is an end."""
        for reason, stop in (
            ("end_turn", Stop.END),
            ("stop_sequence", Stop.END),
            ("pause_turn", Stop.END),
            ("max_tokens", Stop.LENGTH),
            ("model_context_window_exceeded", Stop.LENGTH),
            ("tool_use", Stop.TOOLS),
            ("refusal", Stop.REFUSAL),
            ("of_next_year", Stop.END),
        ):
            self.assertIs(stop, read("messages", message(reason=reason)).stop, reason)
        for missing in (None, "", 7):
            error = self.assertRaises(NotAnAnswer, read, "messages", message(reason=missing))
            self.assertEqual("wrong_shape", error.verdict)

    def test_refusal(self) -> None:
        """The words of a refusal stand beside the content; there may be none."""
        details = {"type": "refusal", "category": None, "explanation": "no"}
        self.assertEqual(
            "no", read("messages", message(reason="refusal", stop_details=details)).refusal
        )
        for none in (None, {}, {"explanation": None}, {"explanation": 7}):
            answer = read("messages", message(reason="refusal", stop_details=none))
            self.assertIsNone(answer.refusal)
        self.assertIsNone(read("messages", message(stop_details=details)).refusal)

    def test_usage(self) -> None:
        """Uncached, read and written input stand apart; the tier is put into Chat's words."""
        usage = {
            "input_tokens": 6,
            "cache_read_input_tokens": 2000,
            "cache_creation_input_tokens": 300,
            "cache_creation": {"ephemeral_5m_input_tokens": 300},
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
            "service_tier": "standard",
        }
        answer = read("messages", message(usage=usage))
        self.assertEqual(AnswerUsage(6, 2000, 300, 7, 2), answer.usage)
        self.assertEqual("default", answer.service_tier)
        for tier, expected in (("priority", "priority"), ("batch", None), (7, None), (None, None)):
            body = message(usage={"service_tier": tier})
            answer = read("messages", body)
            self.assertEqual(expected, answer.service_tier)
        no_usage: list[Any] = [None, [], "x"]
        for odd in no_usage:
            self.assertEqual(AnswerUsage(), read("messages", message(usage=odd)).usage)

    def test_plain_content(self) -> None:
        """A content that is one string is a text."""
        self.assertEqual(
            [Text("x")], read("messages", {"content": "x", "stop_reason": "end_turn"}).parts
        )

    def test_nameless_call(self) -> None:
        """A call of nothing is not made something; an id that is missing is made up."""
        nameless = message({"type": "tool_use", "id": "t", "input": {}})
        self.assertRaises(NotAnAnswer, read, "messages", nameless)
        [part] = read("messages", message({"type": "tool_use", "name": "f"})).parts
        assert isinstance(part, ToolCall)
        self.assertTrue(part.id.startswith("toolu_gw_"))


class JudgeTests(SynchronousTestCase):
    def test_no_answers(self) -> None:
        """Pages, errors and other objects are told apart."""
        for kind in READERS:
            for body, verdict in (
                (b"<html>", "not_json"),
                (b"", "not_json"),
                (b"[]", "not_json"),
                (b'{"choices":[{"mess', "not_json"),
                (b'{"error":{"message":"no"}}', "error_envelope"),
                (b'{"error":"no"}', "error_envelope"),
                (b'{"type":"error","object":"error","message":"no"}', "error_envelope"),
                (b"{}", "wrong_shape"),
                (b'{"choices":[],"content":null}', "wrong_shape"),
                (b'{"choices":[null],"content":7}', "wrong_shape"),
                (b'{"choices":[{}],"content":[7]}', "wrong_shape"),
                (b'{"choices":{},"content":{}}', "wrong_shape"),
                (b'{"object":"list","data":[]}', "wrong_shape"),
            ):
                error = self.assertRaises(NotAnAnswer, read, kind, body)
                self.assertEqual(verdict, error.verdict, (kind, body))

    def test_python_json(self) -> None:
        """What only Python's writer makes of JSON is read, and mended."""
        body = (
            b'\xef\xbb\xbf{"choices":[{"message":{"content":"a\\ud83d\nb\xff"},'
            b'"finish_reason":"stop","logprobs":{"p":[NaN,-Infinity]}}]}'
        )
        self.assertEqual([Text("a\ufffd\nb\ufffd")], read("chat", body).parts)
        body = (
            b'{"content":[{"type":"text","text":"\\\\ud83d \\ud83d \\ud83d\\ude00 \\ude00"}],'
            b'"stop_reason":"end_turn"}'
        )
        self.assertEqual(
            [Text("\\ud83d \ufffd \N{GRINNING FACE} \ufffd")], read("messages", body).parts
        )

    def test_too_deep(self) -> None:
        """What nests without end is no answer."""
        deep = b"[" * 100_000 + b"]" * 100_000
        for kind in READERS:
            self.assertRaises(NotAnAnswer, read, kind, b'{"x":%b}' % deep)

    def test_too_many(self) -> None:
        """More parts or calls than any answer has are not read; braces in a text are none."""
        many: list[dict[str, Any]] = [{}] * (MAX_PARTS + 1)
        for kind, value in (
            ("chat", chat({"content": many})),
            ("chat", chat({"tool_calls": many})),
            ("messages", message(*many)),
            ("messages", message(x=[{}] * (MAX_CONTAINERS + 1))),
        ):
            error = self.assertRaises(NotAnAnswer, read, kind, value)
            self.assertEqual("wrong_shape", error.verdict)
        self.assertEqual([], read("messages", message(*many[1:])).parts)
        code = "{" * (MAX_CONTAINERS + 1)
        self.assertEqual([Text(code)], read("chat", chat({"content": code})).parts)

    @settings(max_examples=300)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(("", "x", "stop")),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "choices",
                            "message",
                            "content",
                            "finish_reason",
                            "tool_calls",
                            "function",
                            "name",
                            "arguments",
                            "id",
                            "type",
                            "text",
                            "stop_reason",
                            "usage",
                            "error",
                            "input",
                            "refusal",
                            "reasoning",
                            "function_call",
                            "stop_details",
                            "explanation",
                            "service_tier",
                            "prompt_tokens",
                        ]
                    ),
                    inner,
                    max_size=6,
                )
            ),
            max_leaves=30,
        )
    )
    def test_any_object(self, value: Any) -> None:
        """Members of any type are an answer or none, and never a crash."""
        for given_value in (
            value,
            chat(value if isinstance(value, dict) else {"content": value}),
            chat({"tool_calls": [value]}),
            message(value if isinstance(value, dict) else {"type": "text", "text": value}),
            message({"type": "tool_use", "name": "f", "input": value}, usage=value),
        ):
            for kind in READERS:
                try:
                    answer = read(kind, given_value)
                except NotAnAnswer:
                    continue
                for client in WRITERS:
                    write(client, answer)


class ChatWriterTests(SynchronousTestCase):
    def test_frame(self) -> None:
        """The answer names the client's model, our id and the time."""
        told = write("chat", Answer([Text("x")], Stop.END, USAGE))
        self.assertEqual(
            (f"chatcmpl-{FRAME.id}", "chat.completion", FRAME.created, "the-model"),
            (told["id"], told["object"], told["created"], told["model"]),
        )
        self.assertNotIn("service_tier", told)

    def test_finish_reasons(self) -> None:
        """Where the model itself declines the answer is finished; a provider's refusal is a cut."""
        cases: list[tuple[list[Any], Stop, str]] = [
            ([Text("x")], Stop.END, "stop"),
            ([Text("x")], Stop.LENGTH, "length"),
            ([ToolCall("1", "f", "{}")], Stop.TOOLS, "tool_calls"),
            ([Text("x")], Stop.REFUSAL, "content_filter"),
            ([Text("x", refusal=True)], Stop.REFUSAL, "stop"),
        ]
        for parts, stop, reason in cases:
            told = write("chat", Answer(parts, stop, USAGE))["choices"][0]
            self.assertEqual(reason, told["finish_reason"])

    def test_texts(self) -> None:
        """Texts are joined, refusals apart from them; without any the content is null."""
        parts: list[Any] = [
            Text("a"),
            ToolCall("1", "f", "{}"),
            Text("b"),
            Text("no", refusal=True),
        ]
        told = write("chat", Answer(parts, Stop.REFUSAL, USAGE))["choices"][0]["message"]
        self.assertEqual(("ab", "no"), (told["content"], told["refusal"]))
        told = write("chat", Answer([], Stop.REFUSAL, USAGE, "never"))["choices"][0]["message"]
        self.assertEqual(
            {"role": "assistant", "content": None, "refusal": "never"},
            told,
        )

    def test_thinking(self) -> None:
        """Blocks that a provider would take back are given back, in order and numbered."""
        parts: list[Any] = [
            Thinking("a", "s1"),
            RedactedThinking("r"),
            Thinking("b"),
            Thinking("c", pack_reasoning("rs_1", "x")),
            Thinking("d", "s2"),
        ]
        told = write("chat", Answer(parts, Stop.END, USAGE))["choices"][0]["message"]
        self.assertEqual("abcd", told["reasoning_content"])
        self.assertEqual(
            [
                {"index": 0, "type": "thinking", "thinking": "a", "signature": "s1"},
                {"index": 1, "type": "redacted_thinking", "data": "r"},
                {"index": 2, "type": "thinking", "thinking": "d", "signature": "s2"},
            ],
            told["thinking_blocks"],
        )
        told = write("chat", Answer([RedactedThinking("r")], Stop.END, USAGE))
        self.assertNotIn("reasoning_content", told["choices"][0]["message"])

    def test_names(self) -> None:
        """A name that was shortened for the upstream is the client's own again."""
        frame = Frame(FRAME.id, 1, "m", tool_names={"short": "long"})
        parts: list[Any] = [ToolCall("1", "short", "{}"), ToolCall("2", "other", "{}")]
        told = write("chat", Answer(parts, Stop.TOOLS, USAGE), frame)
        calls = told["choices"][0]["message"]["tool_calls"]
        self.assertEqual(["long", "other"], [call["function"]["name"] for call in calls])
        told = write("messages", Answer(parts, Stop.TOOLS, USAGE), frame)
        self.assertEqual(["long", "other"], [block["name"] for block in told["content"]])


class MessagesWriterTests(SynchronousTestCase):
    def test_blocks(self) -> None:
        """Parts become blocks in order, texts of a refusal like others."""
        parts: list[Any] = [
            Thinking("Hm.", "sig"),
            RedactedThinking("r"),
            Text(""),
            Text("a"),
            Text("no", refusal=True),
            ToolCall("call_1", "f", '{"a":1}'),
        ]
        told = write("messages", Answer(parts, Stop.REFUSAL, USAGE))
        self.assertEqual(
            [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "redacted_thinking", "data": "r"},
                {"type": "text", "text": "a"},
                {"type": "text", "text": "no"},
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}},
            ],
            told["content"],
        )
        self.assertEqual(("refusal", None), (told["stop_reason"], told["stop_sequence"]))
        self.assertNotIn("stop_details", told)

    def test_unasked_thinking(self) -> None:
        """A client that did not ask for thinking gets none."""
        frame = Frame(FRAME.id, 1, "m", wants_thinking=False)
        answer = Answer([Thinking("Hm.", "s"), RedactedThinking("r"), Text("x")], Stop.END, USAGE)
        self.assertEqual(
            [{"type": "text", "text": "x"}], write("messages", answer, frame)["content"]
        )
        told = write("chat", answer, frame)["choices"][0]["message"]
        self.assertEqual({"role": "assistant", "content": "x", "refusal": None}, told)

    def test_explanation(self) -> None:
        """A provider's words of a refusal have their own place."""
        told = write("messages", Answer([], Stop.REFUSAL, USAGE, "never"))
        self.assertEqual("never", told["stop_details"]["explanation"])

    def test_usage(self) -> None:
        """Both figures of the cache are always there, that of thinking where it is known."""
        usage = {"input_tokens": 1, "output_tokens": 4}
        usage |= {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 3}
        told = write("messages", Answer([], Stop.END, AnswerUsage(1, 2, 3, 4)))
        self.assertEqual(usage, told["usage"])
        told = write("messages", Answer([], Stop.END, AnswerUsage(1, 2, 3, 4, 0)))
        self.assertEqual(usage | {"output_tokens_details": {"thinking_tokens": 0}}, told["usage"])


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
figures = st.integers(0, 10**9)
usages = st.builds(AnswerUsage, figures, figures, figures, figures, st.none() | figures)
scalars = st.none() | st.booleans() | st.integers() | words
objects = st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=3).map(
    lambda value: json.dumps(value, separators=(",", ":"))
)
no_objects = words.filter(lambda text: bool(text.strip()) and not text.strip().startswith("{"))
calls = st.builds(ToolCall, words, words, objects | no_objects)


@st.composite
def chat_answers(draw: st.DrawFn) -> Answer:
    """Draw an answer that Chat has words for."""
    parts: list[Any] = draw(st.lists(st.builds(Thinking, words), max_size=1))
    parts += draw(st.lists(st.builds(Text, words), max_size=1))
    stop = draw(st.sampled_from(Stop))
    if stop is Stop.REFUSAL:
        parts += draw(st.lists(st.builds(Text, words, refusal=st.just(True)), max_size=1))
    if stop is not Stop.END:
        parts += draw(st.lists(calls, min_size=int(stop is Stop.TOOLS), max_size=3))
    return Answer(parts, stop, draw(usages), service_tier=draw(st.none() | words))


@st.composite
def messages_answers(draw: st.DrawFn) -> Answer:
    """Draw an answer that Messages has words for."""
    part = st.one_of(
        st.builds(Text, words),
        st.builds(Thinking, words, words),
        st.builds(RedactedThinking, words),
        calls,
    )
    stop = draw(st.sampled_from(Stop))
    refusal = draw(st.none() | words) if stop is Stop.REFUSAL else None
    return Answer(draw(st.lists(part, max_size=5)), stop, draw(usages), refusal)


class RoundTripTests(SynchronousTestCase):
    @given(chat_answers())
    def test_chat(self, answer: Answer) -> None:
        """What Chat can say is read as it was written."""
        self.assertEqual(answer, read("chat", chat_writer.write_answer(answer, FRAME)))

    @given(messages_answers())
    def test_messages(self, answer: Answer) -> None:
        """What Messages can say is read as it was written."""
        self.assertEqual(answer, read("messages", messages_writer.write_answer(answer, FRAME)))
