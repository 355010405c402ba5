"""What upstreams can send into a stream that is translated, to hold a reactor for long.

Each row is one read, taken apart, read and written anew for a client of another protocol: in every
pair of the three what a read can be full of, and the events that are dear to one of them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

from bench.hostile import EVENTS, LONG_VALUES, READ_BYTES, Call, Row, fill
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import Frame
from omnigate.wire.sse import EventSplitter, event_data

_FRAME = Frame(id="0" * 32, created=1764441600, model="m", include_usage=True)


def _data(event: object) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def _chat(*deltas: object) -> bytes:
    return _data({"choices": [{"delta": delta} for delta in deltas]})


def _call(index: int, arguments: object, **more: object) -> dict[str, object]:
    function = {"arguments": arguments, **more}
    return {"tool_calls": [{"index": index, "id": f"{index}", "function": function}]}


_TOOL = _chat(_call(0, "{", name="f"))
_MIXED = {"reasoning": "a", "content": "b"}
_BLOCK = b'data: {"type":"content_block_start","content_block":{"type":"%b","name":"f"}}\n\n'
_DELTA = b'data: {"type":"content_block_delta","delta":{"%b":"a"}}\n\n'

#: By protocol and name: what comes before, and the read.
_READS: dict[str, dict[str, tuple[bytes, bytes]]] = {
    "chat": {
        "texts": (b"", fill(_chat({"content": "a"}))),
        "thinking and text by turns": (b"", fill(_chat(_MIXED))),
        "the same in one event": (b"", _chat(*[_MIXED] * (READ_BYTES // 50))),
        "arguments": (_TOOL, fill(_chat(_call(0, '"')))),
        "arguments all quotes": (_TOOL, _chat(_call(0, '"' * (READ_BYTES // 2 - 100)))),
        "escapes in arguments": (_TOOL, _chat(_call(0, '"' + '\\"' * (READ_BYTES // 4 - 50)))),
        "arguments held back": (_TOOL + _chat(_call(1, "{", name="f")), fill(_chat(_call(1, '"')))),
        "words held back": (_TOOL, fill(_chat(_MIXED))),
        "calls": (b"", b"".join(_chat(_call(n, "{}", name="f")) for n in range(600))),
        "calls in one event": (b"", _chat({"tool_calls": [{}] * (READ_BYTES // 3 - 20)})),
        "contents of parts": (b"", fill(_chat({"content": ["aaaaaaaa"]}))),
        "parts in one event": (b"", _chat({"content": ["a"] * (READ_BYTES // 4 - 20)})),
        "arguments as objects": (b"", _chat(_call(0, [[]] * (READ_BYTES // 3 - 50), name="f"))),
    },
    "messages": {
        "texts": (_BLOCK % b"text", fill(_DELTA % b"text")),
        "thinking and text by turns": (b"", fill(_DELTA % b"thinking" + _DELTA % b"text")),
        "blocks of text": (b"", fill(_BLOCK % b"text")),
        "blocks of thinking": (b"", fill(_BLOCK % b"thinking")),
        "redacted blocks": (b"", fill(_BLOCK % b"redacted_thinking")),
        "calls": (b"", fill(_BLOCK % b"tool_use")),
    },
    "responses": {},
}


def _rows() -> Iterator[Row]:
    for upstream, client in permutations(_READS, 2):
        group = f"{upstream} to {client}"
        for name, unit in EVENTS.items():
            yield Row(group, name, _fed(upstream, client, b"", fill(unit)))
        for name, (before, unit, after) in LONG_VALUES.items():
            room = READ_BYTES - len(before) - len(after) - 10
            event = b"data: " + before + fill(unit, room) + after + b"\n\n"
            yield Row(group, name, _fed(upstream, client, b"", event))
        for name, (first, read) in _READS[upstream].items():
            yield Row(group, name, _fed(upstream, client, first, read))


def _fed(upstream: str, client: str, before: bytes, read: bytes) -> Callable[[], Call]:
    """Feed a read to a reader whose sink is the client's writer."""

    def make() -> Call:
        writer: Any = _piece(client, "stream_writer").StreamWriter(_FRAME)
        reader: Any = _piece(upstream, "stream_reader").StreamReader(writer, Meter(upstream, True))
        splitter = EventSplitter()

        def feed(data: bytes) -> bytes:
            for block in splitter.feed(data):
                payload = event_data(block)
                if payload is not None:
                    reader.event(payload)
            out = b"".join(writer.out)
            writer.out.clear()
            return out

        feed(before)
        return lambda: feed(read)

    return make


def _piece(protocol: str, module: str) -> Any:
    return importlib.import_module(f"omnigate.dialects.{protocol}.{module}")


ROWS: tuple[Row, ...] = tuple(_rows())
