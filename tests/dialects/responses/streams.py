"""Events of Responses streams, and how they are read."""

import json
from typing import Any

from omnigate.dialects.meter import Meter
from omnigate.dialects.responses.stream_reader import StreamReader
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.deltas import Call, RecordingSink

USAGE = {
    "input_tokens": 40,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 4},
    "output_tokens": 25,
    "output_tokens_details": {"reasoning_tokens": 10},
}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}


class Reading:
    """A stream that is read."""

    def __init__(self) -> None:
        """Begin with no event."""
        self.sink = RecordingSink()
        self.meter = Meter("responses", True)
        self.reader = StreamReader(self.sink, self.meter)

    @property
    def calls(self) -> list[Call]:
        """All that the sink was told."""
        return self.sink.calls

    @property
    def told(self) -> list[Call]:
        """What was told between the start and the last call."""
        return self.sink.calls[1:-1]

    def take(self, *events: Any) -> "Reading":
        """Take events; bytes as they are."""
        for event in events:
            self.reader.event(event if isinstance(event, bytes) else json.dumps(event).encode())
        return self


def read(*events: Any) -> Reading:
    """Read events, and the end behind them; bytes are taken as they are."""
    reading = Reading().take(*events)
    reading.reader.end()
    assert reading.calls[-1][0] in ("finish", "fault")
    return reading


def payloads(stream: bytes) -> list[bytes]:
    """Return the data of each event."""
    found = (event_data(block) for block in EventSplitter().feed(stream))
    return [data for data in found if data is not None]


def added(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    """Return the event that announces an item."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    """Return the event that ends one."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def message(text: str = "", id: str = "msg_1") -> dict[str, Any]:
    """Return an item that is a message."""
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "id": id, "role": "assistant", "content": content}


def call(arguments: str = "", id: str = "fc_1", name: str = "f") -> dict[str, Any]:
    """Return an item that is a call."""
    return {
        "type": "function_call",
        "id": id,
        "call_id": f"call_{id}",
        "name": name,
        "arguments": arguments,
    }


def reasoning(*texts: str, secret: str | None = None, id: str = "rs_1") -> dict[str, Any]:
    """Return an item of thinking."""
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": secret}


def text(delta: str, index: int | None = 0, id: str = "msg_1") -> dict[str, Any]:
    """Return a piece of a message."""
    return {
        "type": "response.output_text.delta",
        "output_index": index,
        "item_id": id,
        "content_index": 0,
        "delta": delta,
    }


def arguments(delta: str, index: int | None = 0, id: str = "fc_1") -> dict[str, Any]:
    """Return a piece of a call's arguments."""
    return {
        "type": "response.function_call_arguments.delta",
        "output_index": index,
        "item_id": id,
        "delta": delta,
    }


def summary(delta: str, part: int = 0, index: int = 0) -> dict[str, Any]:
    """Return a piece of a summary."""
    return {
        "type": "response.reasoning_summary_text.delta",
        "output_index": index,
        "item_id": "rs_1",
        "summary_index": part,
        "delta": delta,
    }


def thought(delta: str, part: int = 0, index: int = 0) -> dict[str, Any]:
    """Return a piece of a thought itself."""
    return {
        "type": "response.reasoning_text.delta",
        "output_index": index,
        "item_id": "rs_1",
        "content_index": part,
        "delta": delta,
    }


def last(*output: dict[str, Any], status: str = "completed", **members: Any) -> dict[str, Any]:
    """Return the last event; by ``members`` the response has more."""
    response = {"id": "resp_1", "status": status, "output": list(output), "usage": USAGE}
    return {"type": f"response.{status}", "response": response | members}


def called(arguments: str = "{}", id: str = "fc_1", name: str = "f") -> list[Call]:
    """Return what a sink is told of a call whose arguments come at once."""
    return [("tool_start", f"call_{id}", name), ("tool_arguments", arguments), ("tool_end",)]
