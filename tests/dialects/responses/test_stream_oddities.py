"""Streams of Responses that are damaged, and such as our own writer makes."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import FaultKind
from omnigate.dialects.packing import unpack_reasoning, unpack_thinking
from omnigate.dialects.responses.stream_writer import StreamWriter
from omnigate.dialects.shapes import AnswerUsage, Frame, RedactedThinking, Stop
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.deltas import Call, tell
from tests.dialects.responses.streams import (
    CREATED,
    Reading,
    added,
    arguments,
    call,
    done,
    last,
    message,
    read,
    reasoning,
    summary,
    text,
)
from tests.dialects.responses.test_stream_writer import answers

ODD_VALUES: tuple[Any, ...] = (None, "", "x", [], {}, 3, 3.5, 10**30, True)


class OddEventTests(SynchronousTestCase):
    """Events that are not as they should be."""

    def test_repaired(self) -> None:
        """Half a surrogate pair, bytes that are no UTF-8, and the like are taken."""
        broken = "\N{REPLACEMENT CHARACTER}"
        for data, want in (
            (rb"a\ud83d", "a" + broken),
            (rb"\ude00b", broken + "b"),
            (rb"\ud83d\ud83d\ude00\ude00", broken + "\U0001f600" + broken),
            (rb"\\ud83d\ud83d", r"\ud83d" + broken),
            (b"a\xffb", f"a{broken}b"),
            (b"a\tb", "a\tb"),
        ):
            delta = b'{"type":"response.output_text.delta","output_index":0,"delta":"%b"}' % data
            reading = read(CREATED, delta, last())
            self.assertEqual(reading.told, [("text", want)])
            self.assertEqual(reading.meter.text_bytes, len(want.encode()))
            whole = json.dumps(done(0, message("TEXT"))).encode().replace(b"TEXT", data)
            for events in ([whole, last()], [delta, whole, last()]):
                self.assertEqual(read(CREATED, *events).told, [("text", want)])
            ending = json.dumps(last(message("TEXT"))).encode().replace(b"TEXT", data)
            self.assertEqual(read(CREATED, ending).told, [("text", want)])

    def test_members_of_other_types(self) -> None:
        """They count as not given."""
        for member in ("output_index", "item_id", "content_index", "usage", "error", "response"):
            for value in ODD_VALUES:
                if member == "error" and value and value != {}:
                    continue
                reading = read(CREATED, text("a") | {member: value}, last())
                self.assertEqual(reading.told, [("text", "a")], (member, value))
        for spelled in ("7", 7.0):
            reading = read(CREATED, added(7, message()), text("a") | {"output_index": spelled})
            self.assertEqual(reading.told, [("text", "a")])
        self.assertEqual(
            read(b"\xef\xbb\xbf" + json.dumps(text("a")).encode(), last()).told, [("text", "a")]
        )
        not_a_number = b'{"type":"response.output_text.delta","delta":"a","logprobs":[NaN]}'
        self.assertEqual(read(not_a_number, last()).told, [("text", "a")])

    def test_no_event(self) -> None:
        """Errors in shapes of their own are errors; other objects without a type say nothing."""
        for event, kind in (
            ({"detail": "Not Found"}, "SERVER"),
            ({"object": "error", "message": "m", "code": 429}, "RATE_LIMIT"),
            (b'[{"error":{"code":503,"message":"m"}}]', "OVERLOADED"),
            (b"[1", "BAD_ANSWER"),
            (b'{"type":3,"x":"' + b"x" * 600_000 + b'"}', "BAD_ANSWER"),
        ):
            self.assertIs(read(event, last()).calls[0][1].kind, FaultKind[kind], event)
        silent: tuple[Any, ...] = (
            b"",
            b" ",
            b"null",
            b"[DONE]",
            {},
            {"choices": []},
            {"type": "x"},
        )
        for event in silent:
            self.assertEqual(read(event, last()).calls[-1][0], "finish")

    def test_many_odd_events(self) -> None:
        """Short events that fit no shape are read up to a bound, long ones without."""
        short = b'{"type":1}'
        self.assertEqual(read(*[short] * 50, last()).calls[-1][0], "finish")
        self.assertIs(read(*[short] * 200, last()).calls[-1][1].kind, FaultKind.BAD_ANSWER)
        odd = text("a") | {"output_index": "0"}
        self.assertEqual(len(read(*[odd] * 300, last()).told), 300)

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_any_damage(self, data: st.DataObject) -> None:
        """Whatever a stream turns into, the sink is told in order and nothing is raised."""
        events: list[Any] = [
            CREATED,
            added(0, reasoning()),
            summary("t"),
            done(0, reasoning("t", secret="x")),
            added(1, message()),
            text("a", 1),
            done(1, message("a")),
            added(2, call()),
            arguments("{}", 2),
            done(2, call("{}")),
            last(reasoning("t"), message("a"), call("{}")),
        ]
        odd: st.SearchStrategy[Any] = st.sampled_from(
            [None, 0, 1, "", "message", "function_call", [], {}, [None], True]
        )
        for _ in range(data.draw(st.integers(1, 4))):
            position = data.draw(st.integers(0, len(events) - 1))
            what = data.draw(st.sampled_from(["drop", "repeat", "move", "member", "bytes"]))
            event = events[position]
            if what == "drop" and len(events) > 1:
                del events[position]
            elif what == "repeat":
                events.insert(position, event)
            elif what == "move":
                events.insert(data.draw(st.integers(0, len(events))), events.pop(position))
            elif isinstance(event, dict):
                if what == "bytes":
                    raw = json.dumps(event).encode()
                    cut = data.draw(st.integers(0, len(raw)))
                    events[position] = raw[:cut] + data.draw(st.binary(max_size=3)) + raw[cut:]
                else:
                    events[position] = _damaged(event, data, odd)
        read(*events)


def _damaged(event: dict[str, Any], data: st.DataObject, odd: st.SearchStrategy[Any]) -> Any:
    """Return an event one of whose members is something else, at some depth."""
    name = data.draw(st.sampled_from(sorted(event)))
    value = event[name]
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        return event | {name: _damaged(value, data, odd)}
    return event | {name: data.draw(odd)}


class RoundTests(SynchronousTestCase):
    """What the writer tells, the reader reads."""

    @settings(max_examples=200, deadline=None)
    @given(answers, st.sampled_from([Stop.END, Stop.LENGTH]), st.integers(1, 7))
    def test_the_same_calls(self, calls: list[Call], stop: Stop, cut: int) -> None:
        """Each call comes back; thinking comes back packed."""
        usage = AnswerUsage(uncached=1, cached=2, written=3, output=4, thinking=5)
        if stop is Stop.END and any(name == "refusal" for name, *_ in calls):
            stop = Stop.REFUSAL
        elif stop is Stop.END and any(name == "tool_start" for name, *_ in calls):
            stop = Stop.TOOLS
        finish: Call = ("finish", stop, usage, None)
        writer = StreamWriter(Frame(id="0" * 32, created=1, model="m"))
        tell(writer, [("start",), *calls, finish])
        stream = b"".join(writer.out)
        splitter = EventSplitter()
        reading = Reading()
        for start in range(0, len(stream), cut * 100):
            for block in splitter.feed(stream[start : start + cut * 100]):
                reading.take(event_data(block) or b"")
        self.assertEqual(_plain(reading.calls), [("start",), *_plain(calls), finish])
        self.assertTrue(reading.reader.finished)


def _plain(calls: list[Call]) -> list[Call]:
    """Return calls in which redacted thinking is thinking, and signatures are what they hold."""
    found: list[Call] = []
    for one in calls:
        if one[0] == "redacted":
            found += [("thinking_start",), ("thinking_end", one[1])]
        elif one[0] == "thinking_end" and one[1].startswith("omnigate."):
            unpacked = unpack_reasoning(one[1])
            assert unpacked is not None
            block = unpack_thinking(unpacked[1])
            assert block is not None
            held = block.data if isinstance(block, RedactedThinking) else block.signature
            found.append(("thinking_end", held))
        else:
            found.append(one)
    return found
