"""A sink that keeps what it is told."""

from typing import Any

from omnigate.dialects.faults import Fault
from omnigate.dialects.shapes import AnswerUsage, DeltaSink, Stop

Call = tuple[Any, ...]


class KeepingSink:
    """Keeps each call as its name and its arguments."""

    def __init__(self) -> None:
        """Begin with none."""
        self.calls: list[Call] = []

    @property
    def names(self) -> list[str]:
        """The names of the calls."""
        return [call[0] for call in self.calls]

    def start(self) -> None:
        """Keep the call, as all of these do."""
        self.calls.append(("start",))

    def thinking_start(self) -> None:
        """See ``start``."""
        self.calls.append(("thinking_start",))

    def thinking(self, text: str) -> None:
        """See ``start``."""
        self.calls.append(("thinking", text))

    def thinking_end(self, signature: str) -> None:
        """See ``start``."""
        self.calls.append(("thinking_end", signature))

    def redacted(self, data: str) -> None:
        """See ``start``."""
        self.calls.append(("redacted", data))

    def text(self, text: str) -> None:
        """See ``start``."""
        self.calls.append(("text", text))

    def refusal(self, text: str) -> None:
        """See ``start``."""
        self.calls.append(("refusal", text))

    def tool_start(self, call_id: str, name: str) -> None:
        """See ``start``."""
        self.calls.append(("tool_start", call_id, name))

    def tool_arguments(self, fragment: str) -> None:
        """See ``start``."""
        self.calls.append(("tool_arguments", fragment))

    def tool_end(self) -> None:
        """See ``start``."""
        self.calls.append(("tool_end",))

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """See ``start``."""
        self.calls.append(("finish", stop, usage, refusal))

    def fault(self, fault: Fault) -> None:
        """See ``start``."""
        self.calls.append(("fault", fault))


def tell(sink: DeltaSink, *calls: Call) -> None:
    """Tell a sink what another one kept."""
    for name, *arguments in calls:
        getattr(sink, name)(*arguments)


def check_order(calls: list[Call]) -> None:
    """Fail where calls are not in an order that a sink may rely on."""
    inside = ""
    fragments = 0
    for position, (name, *arguments) in enumerate(calls):
        last = position == len(calls) - 1
        assert (name in ("finish", "fault")) == last, calls
        if name == "fault":
            return
        assert (name == "start") == (position == 0), calls
        assert name not in ("text", "refusal", "thinking", "tool_arguments") or arguments[0], calls
        if inside == "thinking":
            assert name in ("thinking", "thinking_end"), calls
        elif inside == "tool":
            assert name in ("tool_arguments", "tool_end"), calls
        else:
            assert name not in ("thinking", "thinking_end", "tool_arguments", "tool_end"), calls
        if name == "tool_end":
            assert fragments, calls
        fragments = fragments + 1 if name == "tool_arguments" else 0
        if name in ("thinking_start", "tool_start"):
            inside = name.removesuffix("_start")
        elif name in ("thinking_end", "tool_end"):
            inside = ""
