"""Request bodies that are dear to translate, and long answers.

Each row is one turn of the reactor: what a tree of the body costs is told, and the body is read and
written for an upstream of another protocol; or one step of that is made with a long answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from bench.hostile import READ_BYTES, Call, Row
from omnigate.capabilities import Capabilities
from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.shapes import Frame, Quirk
from omnigate.dialects.translate import Translator, request_steps
from omnigate.errors import GatewayError
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.answer_steps import translation_steps
from omnigate.gateway.parse_memory import ParseMemory
from omnigate.wire.json_body import BodyScan, ScanError
from omnigate.wire.json_cost import PieceCounter, answer_cost
from omnigate.wire.json_scan import scan_body
from omnigate.wire.json_tree import TreeError, tree_cost

#: Rows of this group have the bar of what the largest body asks for at once.
GROUP = "body, translated"
ANSWER_GROUP = "answer, translated"

_CAPS = Capabilities(reasoning=True)
_FRAME = Frame(id="0" * 32, created=1764441600, model="m")
_ANSWER = (
    b'{"id":"m1","type":"message","role":"assistant","content":[%b],"stop_reason":"end_turn",'
    b'"usage":{"input_tokens":9,"output_tokens":3}}'
)


def _request(messages: object, **more: object) -> bytes:
    body = {"model": "m", "max_tokens": 9, "messages": messages, **more}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _said(text: str) -> bytes:
    return _request([{"role": "user", "content": text}])


def _parts(part: object, size: int, each: int) -> bytes:
    return _request([{"role": "user", "content": [part] * (size // each)}])


def _turns(content: object, size: int, each: int) -> bytes:
    pair = [{"role": "user", "content": content}, {"role": "assistant", "content": content}]
    return _request([*pair * (size // each // 2), {"role": "user", "content": "x"}])


def _calls(size: int) -> bytes:
    turns: list[Any] = [{"role": "user", "content": "x"}]
    arguments = json.dumps({"text": "x" * 400})
    for number in range(size // 800):
        name = f"call_{number}"
        call = {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}
        turns += (
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": "x" * 200},
        )
    return _request(turns)


def _tools(size: int) -> bytes:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20)}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    return _request([{"role": "user", "content": "x"}], tools=[tool] * (size // 700))


_IMAGE = "data:image/png;base64,"

#: By name: the client's protocol, and what makes a body of about so many bytes.
BODIES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "an image": (
        "chat",
        lambda size: _parts({"type": "image_url", "image_url": {"url": _IMAGE + "A" * size}}, 1, 1),
    ),
    "text": ("chat", lambda size: _said("x" * size)),
    "wide text": ("chat", lambda size: _said("漢" * (size // 3))),
    "wider text": ("chat", lambda size: _said("😀" * (size // 4))),
    "control characters": ("chat", lambda size: _said("\x01" * (size // 6))),
    "line ends": ("chat", lambda size: _said("xxxxxxx\n" * (size // 9))),
    "turns of 2 KB": ("chat", lambda size: _turns("x " * 1000, size, 2040)),
    "turns of 100 bytes": ("chat", lambda size: _turns("x" * 100, size, 140)),
    "parts of 100 bytes": (
        "chat",
        lambda size: _parts({"type": "text", "text": "x" * 100}, size, 125),
    ),
    "calls and results": ("chat", _calls),
    "tools": ("chat", _tools),
    "blocks of 2 KB": (
        "messages",
        lambda size: _turns([{"type": "text", "text": "x " * 1000}], size, 2070),
    ),
    "a text of Messages": ("messages", lambda size: _said("x" * size)),
}


def body_rows(size: int) -> Iterator[Row]:
    """Yield the translation of each body into each other protocol."""
    for name, (client, build) in BODIES.items():
        body = build(size)
        try:
            scan = scan_body(body)
        except ScanError:
            continue
        for upstream in ("chat", "responses", "messages"):
            if upstream != client:
                for number, step in enumerate(("read", "written")):
                    call = _translation(client, upstream, body, scan, number)
                    yield Row(GROUP, f"{name} for {upstream}, {step}", call)


def _translation(
    client: str, upstream: str, body: bytes, scan: BodyScan, number: int
) -> Callable[[], Call]:
    """Return what makes one of the two steps; the one before it is made beforehand."""

    def steps() -> Iterator[None]:
        tree_cost(body, scan.counts)
        yield from request_steps(client, upstream, body, "m", _CAPS, Quirk.NONE)

    def make() -> Call:
        translation = steps()

        def step() -> None:
            try:
                next(translation, None)
            except (TreeError, GatewayError):
                pass

        for _ in range(number):
            step()
        return step

    return make


_TEXT = b'{"type":"text","text":"%b"}'

#: By name: what makes the content of an answer of about so many bytes.
ANSWERS: dict[str, Callable[[int], bytes]] = {
    "text": lambda size: _TEXT % (b"x" * size),
    "wide text": lambda size: _TEXT % ("漢" * (size // 3)).encode(),
    "line ends": lambda size: _TEXT % (b"xxxxxxx\\n" * (size // 9)),
    "blocks of 1 KB": lambda size: b",".join([_TEXT % (b"x" * 1000)] * (size // 1030)),
    "blocks": lambda size: b",".join([_TEXT % b"x"] * (size // 26)),
    "objects": lambda size: b",".join([b"{}"] * (size // 3)),
    "a call": lambda size: (
        b'{"type":"tool_use","id":"t","name":"f","input":{"text":"%b"}}' % (b"x" * size)
    ),
    "a text that is cut": lambda size: b'{"type":"text","text":"%b' % (b"x" * size),
}


def answer_rows(size: int) -> Iterator[Row]:
    """Yield the steps of translating long answers.

    What is refused at this length is refused there, and translated where it is short enough.
    """
    for name, build in ANSWERS.items():
        for share in (1, 2, 4, 8, 16):
            body = _ANSWER % build(size // share)
            counter = PieceCounter()
            for at in range(0, len(body), READ_BYTES):
                counter.feed(body[at : at + READ_BYTES])
            taken = _is_taken(body, counter)
            for client in ("chat", "responses"):
                for number, step in enumerate(_STEPS if taken else _STEPS[:1]):
                    call = _step(client, body, counter, number)
                    yield Row(ANSWER_GROUP, f"{name}, 1/{share}, for {client}, {step}", call)
            if taken:
                break


def _is_taken(body: bytes, counter: PieceCounter) -> bool:
    try:
        answer_cost(body, counter)
    except TreeError:
        return False
    return True


#: The turns of a long answer, but for those that are like the fourth.
_STEPS = ("counted", "read", "written", "looked through")


def _step(client: str, body: bytes, counter: PieceCounter, number: int) -> Callable[[], Call]:
    """Return what makes one step of a long answer; those before it are made beforehand."""

    def make() -> Call:
        steps = translation_steps(
            Translator(client, "messages", _FRAME, False),
            ParseMemory(1 << 30),
            KeyUse(),
            body,
            counter,
            b"sk-0123456789",
            as_stream=False,
        )

        def step() -> None:
            try:
                next(steps)
            except (TreeError, NotAnAnswer, StopIteration):
                pass

        for _ in range(number):
            step()
        return step

    return make
