"""Calls and their results, in conversations of any order."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.shapes import Part, Role, Text, ToolCall, ToolResult, Turn
from omnigate.dialects.tool_pairs import check_turns
from omnigate.errors import GatewayError

HI = Turn(Role.USER, [Text("hi")])


def calls(*ids: str) -> Turn:
    """A turn of the assistant that calls."""
    parts: list[Part] = [ToolCall(one, "f", "{}", path=f"call {one}") for one in ids]
    return Turn(Role.ASSISTANT, parts)


def results(*ids: str) -> Turn:
    """A turn of results."""
    parts: list[Part] = [ToolResult(one, [], path=f"result {one}") for one in ids]
    return Turn(Role.TOOL, parts)


class PairTests(SynchronousTestCase):
    """See :mod:`omnigate.dialects.tool_pairs`."""

    def test_whole(self) -> None:
        """Each call is answered up to the assistant's next turn, in any order."""
        for turns in (
            [],
            [HI],
            [HI, calls("a", "b"), results("b", "a")],
            [calls("a"), calls("b"), results("b"), HI, results("a")],
            [calls("a", "a"), results("a"), results("a")],
            [calls("a"), results("a"), calls("a"), results("a"), HI],
            [calls("a"), HI, results("a"), calls(), HI],
        ):
            check_turns(turns)

    def test_alone(self) -> None:
        """What lacks its other half is named by its place."""
        for place, turns in (
            ("call a", [calls("a")]),
            ("call a", [calls("a"), HI]),
            ("call b", [calls("a", "b"), results("a")]),
            ("call a", [calls("a"), HI, calls("b"), results("a", "b")]),
            ("call a", [calls("a", "a"), results("a")]),
            ("result a", [results("a")]),
            ("result a", [calls("a"), results("a", "a")]),
            ("result a", [calls("a"), results("a"), calls(), results("a")]),
            ("result b", [calls("a"), results("b", "a")]),
        ):
            error = self.assertRaises(GatewayError, check_turns, turns)
            told = (error.kind.code, error.param)
            self.assertEqual(told, ("untranslatable_request", place))

    @settings(max_examples=200)
    @given(
        st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.permutations(range(3))))
    )
    def test_any_order(self, rounds: list[tuple[list[str], list[int]]]) -> None:
        """Results may come in any order, as long as none is missing."""
        turns = []
        for ids, order in rounds:
            turns += [calls(*ids), HI, results(*[ids[at] for at in order if at < len(ids)])]
        check_turns(turns)
