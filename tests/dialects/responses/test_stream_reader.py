"""Streams of Responses read for a sink."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.meter import Meter
from omnigate.dialects.packing import unpack_reasoning
from omnigate.dialects.shapes import AnswerUsage, Stop
from tests.dialects.deltas import Call
from tests.dialects.responses.streams import (
    CREATED,
    Reading,
    added,
    arguments,
    call,
    called,
    done,
    last,
    message,
    payloads,
    read,
    reasoning,
    summary,
    text,
    thought,
)
from tests.dialects.vectors import vectors

COUNTS = AnswerUsage(uncached=6, cached=30, written=4, output=25, thinking=10)


class GoldenTests(SynchronousTestCase):
    """The golden streams of upstreams that speak Responses."""

    def test_each(self) -> None:
        """Each is told as it was streamed, and metered as where it passes untranslated."""
        both: list[Call] = [
            ("text", "On "),
            ("text", "it."),
            ("tool_start", "call_f", "f"),
            ("tool_arguments", '{"a":'),
            ("tool_arguments", '"1"}'),
            ("tool_end",),
        ]
        packed = "omnigate.r1:eyJpZCI6InJzXzEiLCJlbmNyeXB0ZWRfY29udGVudCI6ImdBQUExIn0="
        want: dict[str, list[Call]] = {
            "c2r-002-stream": [
                ("start",),
                *both,
                ("finish", Stop.TOOLS, AnswerUsage(uncached=30, output=18, thinking=0), None),
            ],
            "m2r-003-stream-reasoning-and-tool": [
                ("start",),
                ("thinking_start",),
                ("thinking", "Call "),
                ("thinking", "f."),
                ("thinking_end", packed),
                *both,
                ("finish", Stop.TOOLS, AnswerUsage(uncached=40, output=25, thinking=10), None),
            ],
            "m2r-005-stream-failed": [
                ("start",),
                ("fault", Fault(FaultKind.SERVER, "The model failed", "server_error")),
            ],
        }
        found = [case for case in vectors(upstream="responses") if case.streamed]
        self.assertEqual({case.name for case in found}, set(want))
        for case in found:
            reading = read(*payloads(case.answer_body))
            self.assertEqual(reading.calls, want[case.name])
            plain = Meter("responses", True)
            for data in payloads(case.answer_body):
                plain.event(data)
            for name in ("event_count", "text_bytes", "closing_seen", "thinking_tokens"):
                self.assertEqual(getattr(reading.meter, name), getattr(plain, name), case.name)
            self.assertEqual(reading.meter.counts(), plain.counts())


class BeginTests(SynchronousTestCase):
    """How a stream begins."""

    def test_what_begins(self) -> None:
        """The first event of the response does, whichever it is; others do not."""
        for event in (
            CREATED,
            {"type": "response.queued"},
            {"type": "response.in_progress"},
            added(0, message()),
            done(0, message("a")),
            text("a"),
            last(),
        ):
            reading = Reading().take(b"", b"[DONE]", {"type": "keepalive"}, {"type": 3})
            self.assertFalse(reading.reader.started)
            reading.take(event)
            self.assertTrue(reading.reader.started, event)
            self.assertEqual(reading.calls[0], ("start",))

    def test_first_error(self) -> None:
        """An error comes without a start, so that another target may be tried."""
        for event, kind in (
            ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "RATE_LIMIT"),
            ({"type": "error", "error": {"code": "server_error"}}, "SERVER"),
            ({"error": {"type": "insufficient_quota", "message": "pay"}}, "QUOTA"),
            ({"type": "error"}, "SERVER"),
            (last(status="failed", error={"code": "invalid_prompt"}), "INVALID"),
            (b"<html>", "BAD_ANSWER"),
            (b'{"type":"response.cr', "BAD_ANSWER"),
        ):
            reading = read(event, CREATED, text("a"), last())
            self.assertEqual(len(reading.calls), 1)
            self.assertIs(reading.calls[0][1].kind, FaultKind[kind], event)
            self.assertEqual((reading.reader.started, reading.reader.failed), (False, True))


class EndTests(SynchronousTestCase):
    """How a stream ends."""

    def test_finished(self) -> None:
        """The last event tells why and what was used; nothing is read behind it."""
        reading = read(CREATED, last(), b"[DONE]", text("late"), last(status="failed"))
        self.assertEqual(reading.calls, [("start",), ("finish", Stop.END, COUNTS, None)])
        self.assertEqual((reading.reader.finished, reading.reader.failed), (True, False))
        self.assertTrue(reading.meter.closing_seen)

    def test_stops(self) -> None:
        """A call, a refusal or a reason says why."""
        refusal = {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}
        for events, stop in (
            ([last()], Stop.END),
            ([text("a"), last()], Stop.END),
            ([done(0, call()), last()], Stop.TOOLS),
            ([refusal, last()], Stop.REFUSAL),
            ([last(status="incomplete")], Stop.LENGTH),
            ([last(status="incomplete", incomplete_details=None)], Stop.LENGTH),
            (
                [last(status="incomplete", incomplete_details={"reason": "max_output_tokens"})],
                Stop.LENGTH,
            ),
            (
                [last(status="incomplete", incomplete_details={"reason": "content_filter"})],
                Stop.REFUSAL,
            ),
            ([last() | {"type": "response.incomplete"}], Stop.LENGTH),
            ([last(status="incomplete") | {"type": "response.completed"}], Stop.LENGTH),
            ([{"type": "response.completed"}], Stop.END),
            ([{"type": "response.completed", "response": None}], Stop.END),
        ):
            name, found, _, words = read(CREATED, *events).calls[-1]
            self.assertEqual((name, found, words), ("finish", stop, None), events)

    def test_no_success_is_invented(self) -> None:
        """A stream that is cut, failed or was called off is no finished answer."""
        for events, kind in (
            ([], FaultKind.INTERRUPTED),
            ([text("a"), b"[DONE]"], FaultKind.INTERRUPTED),
            ([done(0, message("a"))], FaultKind.INTERRUPTED),
            ([last(status="cancelled")], FaultKind.SERVER),
            ([last(status="failed")], FaultKind.SERVER),
            ([last(status="failed") | {"type": "response.completed"}], FaultKind.SERVER),
            ([last(error={"code": "slow_down", "message": "m"})], FaultKind.OVERLOADED),
            ([b"nonsense"], FaultKind.BAD_ANSWER),
        ):
            reading = read(CREATED, *events)
            self.assertIs(reading.calls[-1][1].kind, kind, events)
            self.assertEqual((reading.reader.finished, reading.reader.failed), (False, True))

    def test_usage_of_a_failure(self) -> None:
        """What a failed response used is metered."""
        self.assertTrue(read(CREATED, last(status="failed")).meter.closing_seen)

    def test_odd_usage(self) -> None:
        """Figures that are odd or not there do no harm."""
        odd: tuple[Any, ...] = (None, {}, {"output_tokens": 7.0}, {"output_tokens": "7"}, [], 3)
        for usage in odd:
            reading = read(CREATED, last(usage=usage))
            self.assertEqual(reading.calls[-1][0], "finish")
            given = isinstance(usage, dict) and usage.get("output_tokens") == 7
            self.assertEqual(reading.calls[-1][2].output, 7 if given else 0)


class ItemTests(SynchronousTestCase):
    """Items as the servers stream them."""

    def test_thinking(self) -> None:
        """Parts of a summary are parted; the signature comes with the end."""
        reading = read(
            CREATED,
            added(0, reasoning()),
            summary("a"),
            summary("b"),
            summary("c", 1),
            summary("d", 1),
            done(0, reasoning("ab", "cd", secret="x")),
            last(),
        )
        self.assertEqual(
            reading.told[:-1],
            [
                ("thinking_start",),
                ("thinking", "a"),
                ("thinking", "b"),
                ("thinking", "\n\n"),
                ("thinking", "c"),
                ("thinking", "d"),
            ],
        )
        self.assertEqual(unpack_reasoning(reading.told[-1][1]), ("rs_1", "x"))

    def test_thinking_begins_with_its_item(self) -> None:
        """A client sees that the model thinks before it says what."""
        self.assertEqual(
            Reading().take(CREATED, added(0, reasoning())).calls[1], ("thinking_start",)
        )

    def test_thought_itself(self) -> None:
        """Open models show what they think; beside it a summary is not told, nor the reverse."""
        for one, other in ((thought, summary), (summary, thought)):
            reading = read(CREATED, one("a"), other("x"), one("b"), one("c", 1), last())
            self.assertEqual(
                reading.told[1:-1],
                [("thinking", "a"), ("thinking", "b"), ("thinking", "\n\n"), ("thinking", "c")],
            )

    def test_call(self) -> None:
        """A call's arguments come in pieces, at once, as an object, or not at all."""
        by_done = {"type": "response.function_call_arguments.done", "output_index": 0}
        for events, want in (
            (
                [added(0, call()), arguments('{"a'), arguments('":1}'), done(0, call('{"a":1}'))],
                None,
            ),
            ([added(0, call()), done(0, call('{"a":1}'))], '{"a":1}'),
            ([done(0, call('{"a":1}'))], '{"a":1}'),
            ([added(0, call()), by_done | {"arguments": '{"a":1}'}, done(0, call())], '{"a":1}'),
            ([added(0, call()), by_done | {"arguments": '{"a":1}'}], '{"a":1}'),
            ([added(0, call('{"a":1}')), done(0, call())], '{"a":1}'),
            ([done(0, call() | {"arguments": {"a": 1}})], '{"a":1}'),
            ([added(0, call()), done(0, call())], "{}"),
            ([added(0, call())], "{}"),
            ([done(0, call() | {"arguments": None})], "{}"),
        ):
            told = read(CREATED, *events, last()).told
            if want is None:
                self.assertEqual(told[1:3], [("tool_arguments", '{"a'), ("tool_arguments", '":1}')])
                self.assertEqual(len(told), 4)
            else:
                self.assertEqual(told, called(want), events)

    def test_call_that_is_named_late(self) -> None:
        """A call begins once it is known what it calls."""
        early = call() | {"name": "", "call_id": None}
        reading = Reading().take(CREATED, added(0, early), arguments("{}"))
        self.assertEqual(reading.calls, [("start",)])
        reading.take(done(0, call()))
        self.assertEqual(reading.calls[1:], called())

    def test_call_without_an_id(self) -> None:
        """An id is made up where none comes; a call of nothing is no answer."""
        nameless = call() | {"call_id": None, "id": None}
        first, second = (read(CREATED, done(0, nameless), last()).told[0] for _ in range(2))
        self.assertTrue(first[1])
        self.assertNotEqual(first[1], second[1])
        fault = read(CREATED, done(0, call(name="")), last()).calls[-1]
        self.assertIs(fault[1].kind, FaultKind.BAD_ANSWER)

    def test_hosted_tools(self) -> None:
        """Items of hosted tools, and what is streamed of them, are passed over."""
        reading = read(
            CREATED,
            added(0, {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}),
            {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
            {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": "x"},
            {"type": "response.shell_call_output_content.delta", "delta": {"stdout": "x"}},
            done(0, {"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            added(1, message()),
            text("a", 1),
            {"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {}},
            done(1, message("a")),
            last({"type": "web_search_call"}, message("a")),
        )
        self.assertEqual(reading.told, [("text", "a")])
