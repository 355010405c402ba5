"""Streamed answers piece by piece: a sink that keeps them, and any number of made-up ones."""

import json
from itertools import groupby, pairwise
from typing import Any

import attrs
from hypothesis import strategies as st

from omnigate.dialects.faults import Fault
from omnigate.dialects.shapes import AnswerUsage, DeltaSink, Frame, Stop

FRAME = Frame(
    id="0123456789abcdef0123456789abcdef",
    created=1764441600,
    model='m"odel',
    include_usage=True,
    tool_names={"short": "the long name"},
)

Call = tuple[Any, ...]


class RecordingSink:
    """Keeps what it is told, and fails where a reader breaks the rules of a sink.

    :ivar calls: name and arguments of each call, in order.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._open = ""
        self._fragments = 0
        self._over = False

    @property
    def names(self) -> list[str]:
        """The names of the calls."""
        return [call[0] for call in self.calls]

    @property
    def story(self) -> list[Call]:
        """The calls, pieces of one text joined."""
        return joined(self.calls)

    def start(self) -> None:
        assert self.calls == []
        self.calls.append(("start",))

    def thinking_start(self) -> None:
        self._begin("thinking", "thinking_start")

    def thinking(self, text: str) -> None:
        self._amid("thinking", "thinking", text)

    def thinking_end(self, signature: str) -> None:
        assert self._open == "thinking"
        self._open = ""
        self.calls.append(("thinking_end", signature))

    def redacted(self, data: str) -> None:
        self._between("redacted", data)

    def text(self, text: str) -> None:
        assert text
        self._between("text", text)

    def refusal(self, text: str) -> None:
        assert text
        self._between("refusal", text)

    def tool_start(self, call_id: str, name: str) -> None:
        assert call_id and name
        self._begin("tool", "tool_start", call_id, name)
        self._fragments = 0

    def tool_arguments(self, fragment: str) -> None:
        self._amid("tool", "tool_arguments", fragment)
        self._fragments += 1

    def tool_end(self) -> None:
        assert self._open == "tool" and self._fragments
        self._open = ""
        self.calls.append(("tool_end",))

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        self._between("finish", stop, usage, refusal)
        self._over = True

    def fault(self, fault: Fault) -> None:
        assert not self._over
        self._over = True
        self.calls.append(("fault", fault))

    def _between(self, *call: Any) -> None:
        assert self.calls and not self._open and not self._over, (self.calls[-5:], call)
        for text in call[1:]:
            if isinstance(text, str):
                text.encode()
        self.calls.append(call)

    def _begin(self, kind: str, *call: Any) -> None:
        self._between(*call)
        self._open = kind

    def _amid(self, kind: str, name: str, text: str) -> None:
        assert self._open == kind and text and not self._over
        text.encode()
        self.calls.append((name, text))


def joined(calls: list[Call]) -> list[Call]:
    """Join neighbouring pieces of one text."""
    found: list[Call] = []
    for name, group in groupby(calls, key=lambda call: call[0]):
        if name in ("text", "thinking", "refusal", "tool_arguments"):
            found.append((name, "".join(call[1] for call in group)))
        else:
            found += group
    return found


def tell(sink: DeltaSink, calls: list[Call]) -> None:
    """Tell a sink what was recorded."""
    for name, *arguments in calls:
        getattr(sink, name)(*arguments)


@attrs.frozen
class Story:
    """A made-up answer.

    :ivar calls: as a sink is told of it.
    """

    calls: list[Call]

    @property
    def usage(self) -> AnswerUsage:
        """The figures."""
        usage: AnswerUsage = self.calls[-1][2]
        return usage

    def texts(self, name: str) -> str:
        """The pieces of one kind, joined."""
        return "".join(call[1] for call in self.calls if call[0] == name)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
PIECES = st.lists(TEXTS, min_size=1, max_size=4)
COUNTS = st.integers(0, 10**6)
USAGES = st.builds(AnswerUsage, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | COUNTS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """Cut a text anywhere; no piece is empty."""
    places = draw(st.lists(st.integers(0, len(text)), max_size=5))
    ends = sorted({0, len(text), *places})
    return [text[start:end] for start, end in pairwise(ends)]


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    """The arguments of a call in pieces."""
    pieces: list[str] = draw(cuts(json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans()))))
    return pieces


@st.composite
def blocks(draw: st.DrawFn, index: int) -> list[Call]:
    """One block of an answer."""
    kind = draw(st.sampled_from(("text", "refusal", "thinking", "redacted", "tool")))
    if kind in ("text", "refusal"):
        return [(kind, text) for text in draw(PIECES)]
    if kind == "redacted":
        return [(kind, draw(TEXTS))]
    if kind == "thinking":
        pieces = [(kind, text) for text in draw(PIECES)]
        return [("thinking_start",), *pieces, ("thinking_end", draw(st.just("") | TEXTS))]
    name = draw(st.sampled_from(("f", "get_weather", "short")))
    pieces = [("tool_arguments", text) for text in draw(arguments())]
    return [("tool_start", f"call_{index}", name), *pieces, ("tool_end",)]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Any whole answer."""
    count = draw(st.integers(0, 5))
    calls: list[Call] = [("start",)]
    for index in range(count):
        calls += draw(blocks(index))
    stop = draw(st.sampled_from(Stop))
    refusal = draw(st.none() | TEXTS) if stop is Stop.REFUSAL else None
    return Story([*calls, ("finish", stop, draw(USAGES), refusal)])
