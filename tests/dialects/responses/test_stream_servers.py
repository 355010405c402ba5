"""Streams of Responses from servers that overlap their items, or leave events out."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.faults import FaultKind
from omnigate.dialects.packing import unpack_reasoning
from omnigate.dialects.responses import item_queue, stream_events
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
    read,
    reasoning,
    summary,
    text,
)


class OverlapTests(SynchronousTestCase):
    """Items whose events overlap are told one after the other."""

    def test_each_item_alone(self) -> None:
        """The first is told as it comes, the others once it is done; nothing is lost."""
        reading = Reading().take(
            CREATED,
            added(0, message()),
            added(1, call(id="fc_1")),
            added(2, call(id="fc_2", name="g")),
            text("a"),
            arguments("1", 1),
            arguments("2", 2, "fc_2"),
            text("b"),
        )
        self.assertEqual(reading.calls[1:], [("text", "a"), ("text", "b")])
        reading.take(done(2, call("2", "fc_2", "g")), done(0, message("ab")))
        self.assertEqual(
            reading.calls[3:], [("tool_start", "call_fc_1", "f"), ("tool_arguments", "1")]
        )
        reading.take(arguments("1", 1), last())
        self.assertEqual(
            reading.calls[5:-1],
            [("tool_arguments", "1"), ("tool_end",), *called("2", "fc_2", "g")],
        )

    def test_too_much_is_held(self) -> None:
        """What is held back is bounded in bytes, pieces and items."""
        self.patch(item_queue, "MAX_HELD_BYTES", 5000)
        opened = [CREATED, added(0, message()), added(1, call())]
        for events in (
            [arguments("x" * 100, 1)] * 60,
            [arguments("x", 1)] * 60,
            [added(index, message()) for index in range(1, 200)],
            [added(index, call("x" * 100)) for index in range(1, 60)],
        ):
            reading = read(*opened, *events, last())
            self.assertIs(reading.calls[-1][1].kind, FaultKind.BAD_ANSWER)

    def test_told_items_free_their_room(self) -> None:
        """What was told is not held any more."""
        self.patch(item_queue, "MAX_HELD_BYTES", 5000)
        events: list[Any] = [CREATED]
        for index in range(0, 400, 2):
            events += [added(index, message()), added(index + 1, call(id=f"fc_{index}"))]
            events += [arguments("x" * 100, index + 1), done(index, message())]
            events += [done(index + 1, call())]
        self.assertEqual(read(*events, last()).calls[-1][0], "finish")


class LeftOutTests(SynchronousTestCase):
    """Servers that leave events out: nothing is lost, nothing is told twice."""

    def test_no_beginnings(self) -> None:
        """Pieces come for items that were never announced."""
        reading = read(
            summary("t"), text("a", 1), text("b", 1), last(reasoning("t"), message("ab"))
        )
        self.assertEqual(
            reading.told,
            [
                ("thinking_start",),
                ("thinking", "t"),
                # The last event is where the item is whole.
                ("thinking_end", ""),
                ("text", "a"),
                ("text", "b"),
            ],
        )

    def test_whole_items_only(self) -> None:
        """Items come in ``done`` only, or in the last event only, or in both."""
        output = [reasoning("t", "u", secret="x"), message("ab"), call("{}")]
        dones = [done(index, item) for index, item in enumerate(output)]
        by_text = message() | {"content": "ab"}
        for events in (
            [*dones, last(*output)],
            [*dones, last()],
            [last(*output)],
            [*dones, *dones, last(*output)],
            [last(output[0], by_text, output[2])],
        ):
            told = read(CREATED, *events).told
            self.assertEqual(
                [part for part in told if part[0] != "thinking_end"],
                [
                    ("thinking_start",),
                    ("thinking", "t"),
                    ("thinking", "\n\n"),
                    ("thinking", "u"),
                    ("text", "ab"),
                    *called(),
                ],
            )

    def test_kinds_only_in_the_last_event(self) -> None:
        """Text is streamed and calls are not, or the other way round."""
        output = [reasoning("t"), message('a "function_call" b'), call("{}")]
        streamed_text = [text('a "function_call" b', 1), last(*output)]
        self.assertEqual(
            read(CREATED, *streamed_text).told, [("text", 'a "function_call" b'), *called()]
        )
        streamed_call = [done(2, output[2]), last(*output)]
        self.assertEqual(
            read(CREATED, *streamed_call).told, [*called(), ("text", 'a "function_call" b')]
        )

    def test_a_thought_that_says_nothing(self) -> None:
        """A thought that comes whole with neither text nor seal is left out."""
        for events in ([done(0, reasoning())], [last(reasoning())], [last(reasoning(""))]):
            self.assertEqual(read(CREATED, *events, last()).told, [])

    def test_no_done(self) -> None:
        """Items are never called done: the last event is where they are whole."""
        reading = read(
            CREATED,
            added(0, reasoning()),
            summary("t"),
            added(1, message()),
            added(2, call()),
            last(reasoning("t", secret="x"), message("ab"), call('{"a":1}')),
        )
        self.assertEqual(
            [part for part in reading.told if part[0] != "thinking_end"],
            [("thinking_start",), ("thinking", "t"), ("text", "ab"), *called('{"a":1}')],
        )
        self.assertIn(("thinking_end",), [part[:1] for part in reading.told])
        signature = reading.told[2][1]
        self.assertEqual(unpack_reasoning(signature), ("rs_1", "x"))

    def test_no_index(self) -> None:
        """Without ``output_index`` the ids tell, and without those the order does."""
        for first, second in (("msg_1", "fc_1"), ("", "")):
            events = [
                added(None, message(id=first)),
                text("a", None, first),
                done(None, message("a", first)),
                added(None, call(id=second)),
                arguments("{}", None, second),
                done(None, call("{}", second)),
            ]
            reading = read(CREATED, *events, last())
            self.assertEqual(reading.told, [("text", "a"), *called(id=second)])

    def test_one_index_for_all(self) -> None:
        """Each item begins in place of the one before, called done or not."""
        events = [
            added(0, reasoning()),
            summary("t"),
            added(0, message()),
            text("a"),
            added(0, call(id="fc_1")),
            arguments("{}"),
            added(0, call(id="fc_2")),
            arguments("[]", 0, "fc_2"),
        ]
        want: list[Call] = [
            ("thinking_start",),
            ("thinking", "t"),
            ("thinking_end", ""),
            ("text", "a"),
            *called("{}", "fc_1"),
            *called("[]", "fc_2"),
        ]
        self.assertEqual(read(CREATED, *events, last()).told, want)
        # Their dones, late: they are told already.
        late = [done(0, reasoning("t")), done(0, message("a")), done(0, call("[]", "fc_2"))]
        self.assertEqual(read(CREATED, *events, *late, last()).told, want)

    def test_other_ids_in_each_event(self) -> None:
        """Where ids change the index tells."""
        events = [
            added(0, message(id="A")),
            text("a", 0, "B"),
            text("b", 0, "C"),
            done(0, message("ab", "D")),
            last(message("ab", "E")),
        ]
        self.assertEqual(read(CREATED, *events).told, [("text", "a"), ("text", "b")])

    def test_whole_but_endless(self) -> None:
        """An answer that was not streamed is read up to a bound."""
        self.patch(stream_events, "MAX_WHOLE_BYTES", 1000)
        self.patch(stream_events, "MAX_WHOLE_ITEMS", 10)
        for event in (
            last(message("x" * 1000)),
            done(0, message("x" * 1000)),
            last(*[call(id="")] * 11),
        ):
            reading = read(CREATED, event, last())
            self.assertIs(reading.calls[-1][1].kind, FaultKind.BAD_ANSWER)
        streamed = read(CREATED, text("x" * 2000), done(0, message("x" * 2000)), last())
        self.assertEqual(streamed.calls[-1][0], "finish")
