"""Streamed answers as events of Responses."""

import importlib
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.packing import unpack_thinking
from omnigate.dialects.responses import stream_writer
from omnigate.dialects.responses.response_object import ECHOED
from omnigate.dialects.responses.stream_writer import StreamWriter
from omnigate.dialects.shapes import AnswerUsage, Frame, RedactedThinking, Stop, Thinking
from tests.dialects.deltas import Call, tell
from tests.dialects.official import playing
from tests.dialects.vectors import Vector, events, same_events, vectors

USAGE = AnswerUsage(uncached=9, output=6)
END: Call = ("finish", Stop.END, USAGE, None)

#: What a reader of the upstream's stream tells, for each golden case of a client of Responses.
TOLD: dict[str, Sequence[Call]] = {
    "r2m-010-stream-text": [("text", "Deep "), ("text", "blue."), END],
    "r2m-011-stream-thinking-and-tool": [
        ("thinking_start",),
        ("thinking", "Call "),
        ("thinking", "f."),
        ("thinking_end", "c2ln"),
        ("tool_start", "toolu_01F", "f"),
        ("tool_arguments", '{"a":'),
        ("tool_arguments", '"1"}'),
        ("tool_end",),
        ("finish", Stop.TOOLS, AnswerUsage(uncached=40, output=25, thinking=10), None),
    ],
    "r2m-012-stream-incomplete": [
        ("text", "Salt"),
        ("finish", Stop.LENGTH, AnswerUsage(uncached=9, output=300), None),
    ],
    "r2c-002-stream": [
        ("text", "Grey"),
        ("text", "."),
        ("finish", Stop.END, AnswerUsage(uncached=9, output=3), None),
    ],
}


def frame_of(vector: Vector) -> Frame:
    """Return the frame of a case's answer."""
    request = vector.request
    echo = {name: json.dumps(request[name]).encode() for name in ECHOED if name in request}
    return Frame(id="f" * 32, created=1764441600, model=request["model"], echo=echo)


def written(*calls: Call, frame: Frame | None = None) -> bytes:
    """Return the stream that tells of an answer."""
    writer = StreamWriter(frame or Frame(id="0123456789abcdef" * 2, created=1, model="m"))
    tell(writer, [("start",), *calls])
    return b"".join(writer.out)


def told(*calls: Call, frame: Frame | None = None) -> list[tuple[str, Any]]:
    """Return the events of an answer behind those that announce the response."""
    return events(written(*calls, frame=frame))[2:]


def last(*calls: Call, frame: Frame | None = None) -> Any:
    """Return the response of the last event."""
    return told(*calls, frame=frame)[-1][1]["response"]


class GoldenTests(SynchronousTestCase):
    """The golden streams of clients of Responses."""

    def test_each(self) -> None:
        """Each comes out event by event."""
        found = [vector for vector in vectors("responses") if "sse" in vector.told]
        self.assertEqual(len(found), len(TOLD))
        for vector in found:
            stream = written(*TOLD[vector.name], frame=frame_of(vector))
            same_events(vector, stream)


class OrderTests(SynchronousTestCase):
    """Events stand in the order that the official helper demands."""

    def test_a_delta_goes_out_at_once(self) -> None:
        """Each call puts its events out before the next."""
        writer = StreamWriter(Frame(id="a", created=1, model="m"))
        for call in (
            ("start",),
            ("text", "a"),
            ("text", "b"),
            ("refusal", "c"),
            ("thinking_start",),
            ("thinking", "d"),
            ("thinking_end", ""),
            ("redacted", "e"),
            ("tool_start", "i", "n"),
            ("tool_arguments", "{}"),
        ):
            writer.out.clear()
            tell(writer, [call])
            self.assertTrue(writer.out, call)
            self.assertTrue(writer.out[0].startswith(b"event: "))
            self.assertTrue(writer.out[-1].endswith(b"\n\n"))

    def test_texts_are_one_message(self) -> None:
        """Neighbouring texts are one item; what stands between parts them."""
        names = [name for name, _ in told(("text", "a"), ("text", "b"), END)]
        self.assertEqual(names.count("response.output_item.added"), 1)
        output = last(
            ("text", "a"),
            ("tool_start", "i", "n"),
            ("tool_arguments", "{}"),
            ("tool_end",),
            ("text", "b"),
            END,
        )["output"]
        self.assertEqual([item["type"] for item in output], ["message", "function_call", "message"])
        self.assertEqual(len({item["id"] for item in output}), 3)

    def test_refusal_is_a_part(self) -> None:
        """A refusal is a further part of its message, and makes the answer no incomplete one."""
        found = told(
            ("text", "a"), ("refusal", "b"), ("refusal", "c"), ("finish", Stop.REFUSAL, USAGE, None)
        )
        response = found[-1][1]["response"]
        self.assertEqual(response["status"], "completed")
        self.assertEqual(
            response["output"][0]["content"],
            [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "refusal", "refusal": "bc"},
            ],
        )
        places = [
            (name, data["content_index"])
            for name, data in found
            if name.startswith("response.refusal")
        ]
        self.assertEqual(
            places,
            [
                ("response.refusal.delta", 1),
                ("response.refusal.delta", 1),
                ("response.refusal.done", 1),
            ],
        )

    def test_thinking_without_text(self) -> None:
        """It has no summary, and its signature comes back; without one nothing does."""
        for calls, want in (
            (
                [("thinking_start",), ("thinking_end", "sig")],
                Thinking("", "sig"),
            ),
            ([("redacted", "secret")], RedactedThinking("secret")),
            ([("thinking_start",), ("thinking_end", "")], None),
        ):
            (item,) = last(*calls, END)["output"]
            self.assertEqual((item["type"], item["summary"]), ("reasoning", []))
            packed = item["encrypted_content"]
            self.assertEqual(unpack_thinking(packed) if packed else None, want)

    def test_unwanted_thinking(self) -> None:
        """A client that is not to be shown thinking is shown none."""
        frame = Frame(id="a", created=1, model="m", wants_thinking=False)
        response = last(
            ("thinking_start",),
            ("thinking", "a"),
            ("thinking_end", "b"),
            ("redacted", "c"),
            ("text", "d"),
            END,
            frame=frame,
        )
        self.assertEqual([item["type"] for item in response["output"]], ["message"])

    def test_names(self) -> None:
        """A call has the name that the client knows, and the namespace it is in."""
        frame = Frame(
            id="a",
            created=1,
            model="m",
            tool_names={"short": "shell__run"},
            namespaces={"shell__run": ("shell", "run")},
        )
        call: list[Call] = [("tool_start", "i", "short"), ("tool_arguments", "{}"), ("tool_end",)]
        found = told(*call, END, frame=frame)
        for item in (found[0][1]["item"], found[-1][1]["response"]["output"][0]):
            self.assertEqual((item["namespace"], item["name"]), ("shell", "run"))

    def test_stops(self) -> None:
        """The status says why it ended, and the item that was cut is incomplete."""
        call: list[Call] = [("tool_start", "i", "n"), ("tool_arguments", '{"a'), ("tool_end",)]
        for stop, status, reason in (
            (Stop.END, "completed", None),
            (Stop.TOOLS, "completed", None),
            (Stop.LENGTH, "incomplete", {"reason": "max_output_tokens"}),
            (Stop.REFUSAL, "incomplete", {"reason": "content_filter"}),
        ):
            for calls in ([("text", "a")], call, [*call, *call], []):
                found = told(*calls, ("finish", stop, USAGE, "because"))
                name, data = found[-1]
                response = data["response"]
                self.assertEqual(name, f"response.{status}")
                self.assertEqual(
                    (response["status"], response["incomplete_details"]), (status, reason)
                )
                states = [item["status"] for item in response["output"]]
                self.assertEqual(states[-1:], [status] if calls else [])
                self.assertEqual(set(states[:-1]), {"completed"} if states[1:] else set())

    def test_nothing_after_the_last(self) -> None:
        """Whatever is told afterwards is not sent."""
        fault = Fault(FaultKind.SERVER, "broke")
        for ending in (END, ("fault", fault)):
            writer = StreamWriter(Frame(id="a", created=1, model="m"))
            tell(writer, [("start",), ("text", "a"), ending])
            sent = len(writer.out)
            tell(writer, [("text", "b"), ("tool_start", "i", "n"), ("tool_arguments", "{}")])
            tell(writer, [("tool_end",), ("redacted", "r"), ("start",), END, ("fault", fault)])
            self.assertEqual(len(writer.out), sent)


class FaultTests(SynchronousTestCase):
    """Answers that break."""

    fault = Fault(FaultKind.SERVER, "broke")

    def test_before_the_start(self) -> None:
        """There is no response that could fail, so nothing is sent and the fault is kept."""
        writer = StreamWriter(Frame(id="a", created=1, model="m"))
        writer.fault(self.fault)
        self.assertEqual((writer.out, writer.fault_told), ([], self.fault))

    def test_midway(self) -> None:
        """The failed response has every item that was announced, the open one as incomplete."""
        for call, kind in (
            (("text", "b"), "message"),
            (("refusal", "b"), "message"),
            (("thinking_start",), "reasoning"),
            (("tool_start", "i", "n"), "function_call"),
        ):
            found = told(("redacted", "a"), call, ("fault", self.fault))
            name, data = found[-1]
            self.assertEqual(name, "response.failed")
            response = data["response"]
            self.assertEqual(response["status"], "failed")
            self.assertEqual(response["error"], {"code": "server_error", "message": "broke"})
            self.assertEqual(
                [(item["type"], item["status"]) for item in response["output"]],
                [("reasoning", "completed"), (kind, "incomplete")],
            )
            # A client acts upon a call that is done.
            done = [name for name, _ in found if name == "response.output_item.done"]
            self.assertEqual(len(done), 1)

    def test_too_long(self) -> None:
        """More than can be repeated is a fault, in one item or in many."""
        self.patch(stream_writer, "MAX_COLLECTED_BYTES", 4000)
        one: list[Call] = [("text", "x" * 100)]
        empty: list[Call] = [("thinking_start",), ("thinking_end", "")]
        call: list[Call] = [
            ("tool_start", "i" * 100, "n"),
            ("tool_arguments", "{}"),
            ("tool_end",),
        ]
        for calls in (one, empty, call, [*one, *call], [("redacted", "x" * 100)]):
            writer = StreamWriter(Frame(id="a", created=1, model="m"))
            tell(writer, [("start",), *(calls * 100), END])
            assert writer.fault_told is not None
            self.assertIs(writer.fault_told.kind, FaultKind.BAD_ANSWER)
            stream = events(b"".join(writer.out))
            names = [name for name, _ in stream]
            self.assertEqual(names[-1], "response.failed")
            self.assertNotIn("response.completed", names)
            self.assertLess(len(json.dumps(stream[-1])), 8000)

    def test_lone_surrogates(self) -> None:
        """What UTF-8 cannot hold is replaced; the answer goes on."""
        response = last(("text", "a\ud800"), END)
        self.assertEqual(response["output"][0]["content"][0]["text"], "a\N{REPLACEMENT CHARACTER}")


_words = st.text(min_size=1, max_size=8)
_item = st.one_of(
    st.lists(st.tuples(st.sampled_from(["text", "refusal"]), _words), min_size=1, max_size=4),
    st.builds(
        lambda texts, signature: [
            ("thinking_start",),
            *(("thinking", text) for text in texts),
            ("thinking_end", signature),
        ],
        st.lists(_words, max_size=3),
        st.sampled_from(["", "c2ln"]),
    ),
    st.builds(lambda data: [("redacted", data)], _words),
    st.builds(
        lambda name, fragments: [
            ("tool_start", "", name),
            *(("tool_arguments", fragment) for fragment in fragments),
            ("tool_end",),
        ],
        st.text("abc_", min_size=1),
        st.lists(_words, min_size=1, max_size=3),
    ),
)


def calls_of(items: list[list[Call]]) -> list[Call]:
    """Return the calls of an answer, each tool call with an id of its own."""
    calls: list[Call] = []
    for call in (call for item in items for call in item):
        calls.append(
            ("tool_start", f"call_{len(calls)}", call[2]) if call[0] == "tool_start" else call
        )
    return calls


answers = st.lists(_item, max_size=6).map(calls_of)


class SdkTests(SynchronousTestCase):
    """The official package takes what is written."""

    def stream(self, body: bytes) -> list[Any]:
        """Return what the package's helper makes of a stream."""
        try:
            openai = importlib.import_module("openai")
        except ImportError as error:
            raise SkipTest("the package openai is not there") from error
        client = openai.OpenAI(
            api_key="k", base_url="http://gw.test/v1", http_client=playing(openai, body)
        )
        with client.responses.stream(model="m", input="x") as stream:
            return list(stream)

    @settings(max_examples=60, deadline=None)
    @given(answers, st.sampled_from(list(Stop)))
    def test_any_answer(self, calls: list[Call], stop: Stop) -> None:
        """It adds up to the same texts and calls, and its events are numbered."""
        found = self.stream(written(*calls, ("finish", stop, USAGE, None)))
        self.assertEqual([event.sequence_number for event in found], list(range(len(found))))
        response = found[-1].response
        type(response).model_validate(response.to_dict())
        self.assertEqual(
            response.output_text, "".join(call[1] for call in calls if call[0] == "text")
        )
        self.assertEqual(
            [(item.call_id, item.name) for item in response.output if item.type == "function_call"],
            [call[1:] for call in calls if call[0] == "tool_start"],
        )

    @settings(max_examples=40, deadline=None)
    @given(answers, st.integers(0, 30))
    def test_a_broken_answer(self, calls: list[Call], place: int) -> None:
        """It is told wherever it breaks."""
        fault: Call = ("fault", Fault(FaultKind.INTERRUPTED))
        found = self.stream(written(*calls[:place], fault))
        self.assertEqual(found[-1].type, "response.failed")
        self.assertEqual(found[-1].response.error.code, "upstream_stream_interrupted")
