"""Chunks that come mixed up, told one block after the other."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.block_order import (
    MAX_CALLS,
    MAX_HELD_CHARS,
    MAX_SCANNED_CHARS,
    REFUSAL,
    TEXT,
    THINKING,
    BlockOrder,
)
from omnigate.dialects.odd_events import BrokenStream
from tests.dialects.deltas import OBJECTS, RecordingSink, cuts


class Order:
    """A block order and what it told."""

    def __init__(self) -> None:
        self.sink = RecordingSink()
        self.sink.start()
        self.order = BlockOrder(self.sink)

    def call(
        self, index: int | None, call_id: str = "", name: str = "", arguments: str = ""
    ) -> None:
        self.order.scanned_chars = 0  # each call is an event
        self.order.call(index, call_id, name, arguments)

    def told(self) -> list[tuple[Any, ...]]:
        """What was told so far, without the start."""
        return self.sink.story[1:]

    def tools(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call that was told whole."""
        found = []
        for before, call, after in zip(self.told(), self.told()[1:], self.told()[2:], strict=False):
            if before[0] == "tool_start" and after[0] == "tool_end":
                found.append((before[1], before[2], call[1]))
        return found


class HoldTests(SynchronousTestCase):
    """What is held back, and until when."""

    def test_next_begins_when_the_open_one_is_whole(self) -> None:
        """Of a second call nothing is told before the first is whole; then all of it at once."""
        order = Order()
        order.call(0, "a", "f", '{"x":')
        order.call(1, "b", "g", '{"y":')
        order.order.words(TEXT, "and")
        self.assertEqual(order.told(), [("tool_start", "a", "f"), ("tool_arguments", '{"x":')])
        order.call(0, arguments="1}")
        self.assertEqual(
            order.told()[1:],
            [
                ("tool_arguments", '{"x":1}'),
                ("tool_end",),
                ("tool_start", "b", "g"),
                ("tool_arguments", '{"y":'),
            ],
        )
        order.call(1, arguments="2}")
        self.assertEqual(
            order.told()[4:], [("tool_arguments", '{"y":2}'), ("tool_end",), ("text", "and")]
        )
        self.assertTrue(order.order.plain)

    @settings(max_examples=200)
    @given(st.data())
    def test_any_turns(self, data: st.DataObject) -> None:
        """Calls that come by turns are told whole, in the order in which they began."""
        texts = [json.dumps(value) for value in data.draw(st.lists(OBJECTS, max_size=4))]
        waiting = [data.draw(cuts(text)) for text in texts]
        order, begun, open_ones = Order(), [], list(range(len(texts)))
        while open_ones:
            index = data.draw(st.sampled_from(open_ones))
            first = index not in begun
            if first:
                begun.append(index)
            opening = (f"call_{index}", "f") if first else ("", "")
            order.call(index, *opening, waiting[index].pop(0))
            if not waiting[index]:
                open_ones.remove(index)
            if data.draw(st.booleans()):
                order.order.words(data.draw(st.sampled_from((TEXT, THINKING, REFUSAL))), "w")
        order.order.finish()
        self.assertEqual(order.tools(), [(f"call_{index}", "f", texts[index]) for index in begun])
        self.assertEqual(order.order.calls, len(texts))

    def test_late_name_and_id(self) -> None:
        """A call begins when its id and its name are known; an id that never comes is made up."""
        order = Order()
        order.call(0, arguments="{")
        order.call(0, call_id="a")
        self.assertEqual(order.told(), [])
        order.call(0, name="f")
        self.assertEqual(order.told(), [("tool_start", "a", "f"), ("tool_arguments", "{")])
        order.call(0, arguments="}")
        order.call(1, name="g")
        order.order.words(TEXT, "t")
        order.order.finish()
        (_, made, name), *rest = order.told()[3:]
        self.assertTrue(made.startswith("toolu_gw_"))
        self.assertEqual(name, "g")
        self.assertEqual(rest, [("tool_arguments", "{}"), ("tool_end",), ("text", "t")])

    def test_no_arguments(self) -> None:
        """A call without arguments, or with blanks, has the empty object."""
        for arguments in ("", " \n"):
            order = Order()
            order.call(0, "a", "f", arguments)
            order.order.finish()
            self.assertEqual(order.tools(), [("a", "f", "{}")])

    def test_unparsable(self) -> None:
        """Arguments that never become whole are told as they are, at the finish at the latest."""
        order = Order()
        order.call(0, "a", "f", '{"x')
        order.call(1, "b", "g", "2}")
        order.order.finish()
        self.assertEqual(order.tools(), [("a", "f", '{"x'), ("b", "g", "2}")])

    def test_a_call_that_says_nothing(self) -> None:
        """An empty entry is no call; one with arguments and no name breaks the answer."""
        order = Order()
        order.call(0)
        order.order.finish()
        self.assertEqual((order.told(), order.order.calls), ([], 0))
        for call in ((0, "a", "", ""), (0, "", "", "{}")):
            order = Order()
            order.call(*call)
            self.assertRaises(BrokenStream, order.order.finish)

    def test_late_pieces(self) -> None:
        """More of a call that has ended breaks the answer, for it was told as whole."""
        order = Order()
        order.call(0, "a", "f", "{}")
        order.call(1, "b", "f", "{}")
        order.call(0, "a", "f", " ")
        self.assertRaises(BrokenStream, order.call, 0, "", "", "{}")


class NumberTests(SynchronousTestCase):
    """Which call a delta belongs to, where servers number them as they like."""

    def calls(self, *deltas: tuple[int | None, str, str, str]) -> list[tuple[str, str, str]]:
        order = Order()
        for delta in deltas:
            order.call(*delta)
        order.order.finish()
        return order.tools()

    def test_same_number(self) -> None:
        """Two whole calls with the same index are two."""
        self.assertEqual(
            self.calls((0, "a", "f", '{"x":1}'), (0, "b", "f", '{"x":2}'), (0, "c", "g", "")),
            [("a", "f", '{"x":1}'), ("b", "f", '{"x":2}'), ("c", "g", "{}")],
        )

    def test_no_number(self) -> None:
        """Without an index a new name begins a call once the former is whole."""
        self.assertEqual(
            self.calls(
                (None, "a", "f", '{"x":'),
                (None, "", "", "1}"),
                (None, "b", "f", "{}"),
                (None, "", "g", "{}"),
            )[:2],
            [("a", "f", '{"x":1}'), ("b", "f", "{}")],
        )

    def test_repeated(self) -> None:
        """An id or a name that is repeated with each delta begins nothing."""
        self.assertEqual(
            self.calls((0, "a", "f", '{"x":'), (0, "a", "f", "1"), (0, "a", "f", "}")),
            [("a", "f", '{"x":1}')],
        )
        self.assertEqual(
            self.calls((0, "a", "f", '{"x":'), (0, "b", "", "1"), (0, "c", "", "}")),
            [("a", "f", '{"x":1}')],
        )
        self.assertEqual(
            self.calls((0, "a", "f", '{"x":'), (0, "", "f", "1"), (0, "", "f", "}")),
            [("a", "f", '{"x":1}')],
        )
        for index in (0, None):
            begun = (index, "a", "f", "")
            self.assertEqual(self.calls(begun, (index, "", "f", "{}")), [("a", "f", "{}")])
        self.assertEqual(self.calls((0, "a", "f", "{}"), (0, "", "f", "")), [("a", "f", "{}")])


class BoundTests(SynchronousTestCase):
    """Nothing a provider sends is held without a bound."""

    def feed(self, *deltas: tuple[int | None, str, str, str]) -> None:
        order = Order()
        order.call(0, "a", "f", "{")
        for _ in range(MAX_HELD_CHARS + 1):
            for delta in deltas:
                order.call(*delta)

    def test_held_arguments(self) -> None:
        """Arguments and words behind an open call are held up to the bound."""
        self.assertRaises(BrokenStream, self.feed, (1, "b", "f", "x" * 100))
        order = Order()
        order.call(0, "a", "f", "{")
        order.order.words(TEXT, "x" * (MAX_HELD_CHARS // 2))
        self.assertRaises(BrokenStream, order.order.words, TEXT, "x" * (MAX_HELD_CHARS // 2))

    def test_told_again(self) -> None:
        """What was told is held no more: a long stream of turns never comes to the bound."""
        order = Order()
        for index in range(100):
            order.call(index, f"{index}", "f", "{")
            order.call(index, "", "", '"' + "x" * 10_000)
            order.order.words(TEXT, "y" * 10_000)
            order.call(index, "", "", '"}')
        order.order.finish()
        self.assertEqual(len(order.tools()), 100)

    def test_scanned(self) -> None:
        """Of one event so much is looked through; what waits behind more waits for the finish."""
        for more, told in ((0, 2), (1, 1)):
            order = Order()
            text = '["' + "x" * (MAX_SCANNED_CHARS - 4 + more) + '"]'
            for start in range(0, len(text), 1000):
                order.order.call(0, "a", "f", text[start : start + 1000])
            order.call(1, "b", "g", "{}")
            self.assertEqual(order.sink.names.count("tool_start"), told)
            order.order.finish()
            self.assertEqual(order.tools(), [("a", "f", text), ("b", "g", "{}")])

    def test_scanned_anew(self) -> None:
        """The next event begins anew."""
        order = Order()
        text = '["' + "x" * MAX_SCANNED_CHARS + '"]'
        order.call(0, "a", "f", text[:100_000])
        order.call(0, arguments=text[100_000:])
        order.call(1, "b", "g", "{}")
        self.assertEqual(order.sink.names.count("tool_start"), 2)

    def test_calls(self) -> None:
        """Calls are counted, empty ones too, and those with long ids sooner."""
        order = Order()
        for index in range(MAX_CALLS):
            order.call(index, f"{index}", "f", "{}")
        self.assertRaises(BrokenStream, order.call, MAX_CALLS, "z", "f", "{}")
        order = Order()
        order.call(0, "x" * (MAX_HELD_CHARS // 2), "f", "{}")
        self.assertRaises(BrokenStream, order.call, 1, "y" * (MAX_HELD_CHARS // 2), "f", "{}")
