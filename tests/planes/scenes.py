"""What clients and upstreams say in most scenes."""

from __future__ import annotations

import json
from typing import Any

from tests.planes.memory import MemoryDataPlane, route, upstream

CHAT = b'{"model":"small","messages":[{"role":"user","content":"Hi"}]}'
CHAT_STREAM = CHAT[:-1] + b',"stream":true}'
MESSAGES = b'{"model":"small","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
MESSAGES_STREAM = MESSAGES[:-1] + b',"stream":true}'
RESPONSES = b'{"model":"small","input":"Hi"}'
RESPONSES_STREAM = RESPONSES[:-1] + b',"stream":true}'

ANSWER = (
    b'{"id":"c1","object":"chat.completion","model":"vendor-1","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}'
)
MESSAGE = (
    b'{"id":"m1","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":3}}'
)
RESPONSE = (
    b'{"id":"r1","object":"response","status":"completed","model":"vendor-1","output":[{"id":"m1",'
    b'"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text",'
    b'"text":"Hello","annotations":[]}]}],"usage":{"input_tokens":9,"output_tokens":3}}'
)
ERROR = b'{"error":{"message":"too busy","type":"server_error","param":null,"code":"busy"}}'

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
#: The end of a chunked body.
END = b"0\r\n\r\n"
FINISH = b'data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"id":"c1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
#: The closing part of a chat stream, in one chunk.
CLOSING = FINISH + USAGE + DONE


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def delta(text: bytes) -> bytes:
    """An event of a chat stream."""
    return (
        b'data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,'
        b'"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text
    )


def event(**members: Any) -> bytes:
    """An event of Messages or Responses."""
    return b"event: %b\ndata: %b\n\n" % (members["type"].encode(), json.dumps(members).encode())


_ITEM = {"id": "i1", "type": "message", "role": "assistant", "content": []}
_PART = {"type": "output_text", "text": "", "annotations": []}
_DONE = {**_ITEM, "status": "completed", "content": [{**_PART, "text": "Hello"}]}
RESPONSE_EVENTS = [
    event(type="response.created", response={"id": "r1", "status": "in_progress", "output": []}),
    event(type="response.output_item.added", output_index=0, item=_ITEM),
    event(
        type="response.content_part.added",
        item_id="i1",
        output_index=0,
        content_index=0,
        part=_PART,
    ),
    *(
        event(
            type="response.output_text.delta",
            item_id="i1",
            output_index=0,
            content_index=0,
            delta=text,
        )
        for text in ("Hel", "lo")
    ),
    event(type="response.output_item.done", output_index=0, item=_DONE),
    event(
        type="response.completed",
        response={
            "id": "r1",
            "status": "completed",
            "output": [_DONE],
            "usage": {"input_tokens": 9, "output_tokens": 3},
        },
    ),
]


def two_targets(environ: dict[str, str] | None = None, **changes: Any) -> MemoryDataPlane:
    """A plane whose model ``small`` is served by ``u1``, and failing that by ``u2``."""
    return MemoryDataPlane(
        routes=[route("small", ("u1", "vendor-1"), ("u2", "vendor-2"))],
        upstreams=[upstream("u1", **changes), upstream("u2", **changes)],
        environ=environ,
    )
