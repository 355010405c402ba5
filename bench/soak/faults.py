"""How the soak's providers answer, and all the ways in which they fail; pure.

A script is the steps of one answer and what is known of it: how much of the payload is out after
each step, and whether what is out says what the answer bills.
"""

import random
import zlib
from typing import Final, Literal

import attrs

from bench.soak import replies
from bench.soak.note import Note
from bench.soak.replies import Reply
from omnigate.testing.provider_plan import Close, Hang, Reset, Send, Step, Wait

#: ``yes``: the answer states its figures where the protocol puts them; ``no``: never, or nowhere
#: that they may be believed; ``may``: whether the gateway got to read them is chance.
Says = Literal["yes", "no", "may"]

#: Long enough for a heartbeat of the gateway, short of the silence that ends a stream.
_SILENCE_SECONDS = 1.2
_SLOW_HEAD_SECONDS = 0.6
#: A body in small writes, this far apart.
_DRIBBLE_SECONDS = 0.05
_DRIBBLES = 5
#: Between a write and a reset, for the bytes to be read.
_BEFORE_RESET_SECONDS = 0.05

#: How often what happens, out of the sum of all.
EITHER: Final = {
    "none": 400,
    "429": 6,
    "429-retry-after": 4,
    "500": 8,
    "503-retry-after": 4,
    "529": 4,
    "400": 5,
    "401": 1,
    "close-before-head": 4,
    "reset-before-head": 4,
    "silent-head": 3,
    "slow-head": 8,
    "two-lengths": 3,
    "garbage-head": 3,
    "gzip": 5,
    "interim": 5,
    "says-close": 10,
    "drops-idle": 8,
    "no-usage": 6,
}
WHOLE: Final = EITHER | {
    "cut-body": 5,
    "reset-body": 5,
    "silent-body": 3,
    "dribble": 8,
    "html": 5,
    "error-envelope": 5,
    "chunked": 10,
    "until-close": 5,
}
STREAM: Final = EITHER | {
    "error-first": 6,
    "error-event": 6,
    "cut-stream": 8,
    "reset-stream": 6,
    "bad-chunk": 5,
    "silent-stream": 4,
    "pause": 8,
    "ends-early": 5,
    "cut-after-usage": 6,
    "comments": 8,
    "crlf": 5,
    "odd-cuts": 8,
    "empty": 4,
    "until-close": 5,
}


#: Those after which a stream stops before its figures.
_STOPS: Final = frozenset(
    ("cut-stream", "reset-stream", "bad-chunk", "silent-stream", "ends-early", "error-event")
)


@attrs.frozen
class Script:
    """One answer, as it will be played.

    :ivar handed: pieces of the payload that are out after each of the steps.
    :ivar reply: the payload; ``None`` where the answer has none that counts.
    :ivar says: whether the figures are told, once the piece that holds them is out.
    :ivar status: of the head; 0 where none comes.
    """

    fault: str
    steps: tuple[Step, ...]
    handed: tuple[int, ...]
    reply: Reply | None = None
    says: Says = "no"
    status: int = 200


class _Steps:
    """Collects steps, and how many pieces are out after each."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.handed: list[int] = []
        self._pieces = 0

    def add(self, step: Step, pieces: int = 0) -> None:
        self._pieces += pieces
        self.steps.append(step)
        self.handed.append(self._pieces)


def draw_fault(rng: random.Random, kind: str, stream: bool) -> str:
    """Choose what happens to one answer."""
    table = STREAM if stream else WHOLE
    fault = rng.choices(list(table), list(table.values()))[0]
    # An answer of tokens counted has no figures to leave out.
    return "none" if kind == "count_tokens" and fault == "no-usage" else fault


def script(
    fault: str, rng: random.Random, kind: str, stream: bool, model: str, serial: int, note: Note
) -> Script:
    """Return the answer to one attempt.

    :param fault: out of :data:`WHOLE` or :data:`STREAM`.
    """
    short = _without_payload(fault, kind)
    if short is not None:
        return short
    reply = replies.reply_for(kind, stream, model, serial, note, fault != "no-usage")
    if stream:
        return _stream_script(fault, rng, kind, reply, note)
    return _whole_script(fault, reply)


def head(status: int, *lines: str) -> bytes:
    """Return an answer's head."""
    return "\r\n".join((f"HTTP/1.1 {status} Soak", *lines, "", "")).encode()


def _without_payload(fault: str, kind: str) -> Script | None:
    """Return the script of a fault that needs no answer, or ``None``."""
    steps: tuple[Step, ...]
    status = 0
    if fault[0].isdigit():
        status = int(fault[:3])
        body = replies.error_body(replies.PROTOCOL_OF[kind], status)
        lines = ["content-type: application/json", f"content-length: {len(body)}"]
        if fault.endswith("retry-after"):
            lines.append("retry-after: 1")
        steps = (Send(head(status, *lines) + body),)
    elif fault == "close-before-head":
        steps = (Close(),)
    elif fault == "reset-before-head":
        steps = (Reset(),)
    elif fault == "silent-head":
        steps = (Hang(),)
    elif fault == "garbage-head":
        steps = (Send(b"HTTP/9.9 what is this\r\n\r\n"), Close())
    elif fault == "html":
        status = 200
        page = b"<!doctype html><title>Sign in</title>"
        lines = ["content-type: text/html", f"content-length: {len(page)}"]
        steps = (Send(head(200, *lines) + page),)
    elif fault == "error-envelope":
        status = 200
        body = replies.error_body(replies.PROTOCOL_OF[kind], 500)
        lines = ["content-type: application/json", f"content-length: {len(body)}"]
        steps = (Send(head(200, *lines) + body),)
    elif fault == "empty":
        status = 200
        lines = ["content-type: text/event-stream", "transfer-encoding: chunked"]
        steps = (Send(head(200, *lines) + b"0\r\n\r\n"),)
    else:
        return None
    return Script(fault, steps, (0,) * len(steps), None, "no", status)


def _whole_script(fault: str, reply: Reply) -> Script:
    """Return the script of an answer that is no stream."""
    body = reply.pieces[0]
    lines = [f"content-type: {reply.content_type}"]
    steps = _Steps()
    says: Says = "no" if fault in ("no-usage", "two-lengths") else "yes"
    if fault == "gzip":
        coder = zlib.compressobj(wbits=31)
        packed = coder.compress(body) + coder.flush()
        lines += ["content-encoding: gzip", f"content-length: {len(packed)}"]
        steps.add(Send(head(200, *lines) + packed), 1)
        return _made(fault, steps, reply, "may")
    if fault in ("chunked", "until-close"):
        closes = fault == "until-close"
        lines.append("connection: close" if closes else "transfer-encoding: chunked")
        half = len(body) // 2
        parts = [body[:half], body[half:]]
        framed = b"".join(parts if closes else [*map(_chunk, parts), b"0\r\n\r\n"])
        steps.add(Send(head(200, *lines) + framed), 1)
        if closes:
            steps.add(Close())
        return _made(fault, steps, reply, says)
    lines.append(f"content-length: {len(body)}")
    if fault in ("cut-body", "reset-body", "silent-body"):
        halves = [body[: len(body) // 2], body[len(body) // 2 :]]
        reply = attrs.evolve(reply, pieces=halves, usage_at=1)
        steps.add(Send(head(200, *lines) + halves[0]), 1)
        _break_off(steps, fault.partition("-")[0])
        return _made(fault, steps, reply, "no")
    if fault == "dribble":
        size = len(body) // _DRIBBLES + 1
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        reply = attrs.evolve(reply, pieces=parts, usage_at=len(parts) - 1)
        steps.add(Send(head(200, *lines)))
        for part in parts:
            steps.add(Wait(_DRIBBLE_SECONDS))
            steps.add(Send(part), 1)
        return _made(fault, steps, reply, says)
    _begin(steps, fault, lines, body, 1)
    return _made(fault, steps, reply, says)


def _stream_script(fault: str, rng: random.Random, kind: str, reply: Reply, note: Note) -> Script:
    """Return the script of an event stream."""
    lines = [f"content-type: {reply.content_type}"]
    pieces = reply.pieces
    total = len(pieces)
    steps = _Steps()
    says: Says = "no" if fault in ("no-usage", "two-lengths") else "yes"
    # Where a stream that does not come to its end stops: at the least one event is out.
    stop = total
    if fault in _STOPS:
        stop = rng.randint(1, max(1, reply.usage_at - 1))
        says = "no"
    elif fault == "error-first":
        stop = 0
        says = "no"
    elif fault == "cut-after-usage":
        stop = reply.usage_at + 1
    if fault in ("ends-early", "error-event"):
        # Whole to HTTP, and all that a client gets.
        pieces = pieces[:stop] + ([replies.error_event(kind)] if fault == "error-event" else [])
        reply = attrs.evolve(reply, pieces=pieces)
        stop = total = len(pieces)
    closes = fault == "until-close"
    if fault == "gzip":
        coder = zlib.compressobj(wbits=31)
        pieces = [coder.compress(piece) + coder.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
        pieces[-1] += coder.flush()
        lines.append("content-encoding: gzip")
        says = "may"
    lines.append("connection: close" if closes else "transfer-encoding: chunked")
    framed = [piece if closes else _chunk(piece) for piece in _dressed(fault, kind, pieces)]
    begun = b""
    if note.gap_ms == 0 and fault in ("none", "odd-cuts", "interim", "drops-idle"):
        begun, framed = b"".join(framed), []
        if fault == "odd-cuts":
            whole = b"".join(pieces)
            begun = b"".join(_chunk(whole[at : at + 777]) for at in range(0, len(whole), 777))
    _begin(steps, fault, lines, begun, 0 if framed else total, ends=False)
    for index, piece in enumerate(framed[:stop]):
        if index and note.gap_ms:
            steps.add(Wait(note.gap_ms / 1000))
        if fault == "pause" and index == total // 2:
            steps.add(Wait(_SILENCE_SECONDS))
        steps.add(Send(piece), 1)
    if fault == "error-first":
        steps.add(Send(_chunk(replies.error_event(kind))))
    if fault == "bad-chunk":
        steps.add(Send(b"zz;what\r\ndata: {}\n\n\r\n"))
        steps.add(Close())
    elif fault in ("cut-stream", "reset-stream", "silent-stream"):
        _break_off(steps, fault.partition("-")[0])
    elif fault == "cut-after-usage":
        _break_off(steps, "cut")
    else:
        if not closes:
            steps.add(Send(b"0\r\n\r\n"))
        if closes or fault in ("says-close", "drops-idle"):
            steps.add(Close())
    return _made(fault, steps, reply, says)


def _dressed(fault: str, kind: str, pieces: list[bytes]) -> list[bytes]:
    """Return the events with what may stand around them in a sound stream."""
    if fault == "crlf":
        return [piece.replace(b"\n", b"\r\n") for piece in pieces]
    if fault == "comments":
        beside = b'event: ping\ndata: {"type": "ping"}\n\n' if kind == "messages" else b": soak\n\n"
        return [pieces[0], *(beside + piece for piece in pieces[1:])]
    return pieces


def _begin(
    steps: _Steps, fault: str, lines: list[str], body: bytes, pieces: int, ends: bool = True
) -> None:
    """Send the head and what goes out with it, with the faults that stand in a head."""
    if fault == "slow-head":
        steps.add(Wait(_SLOW_HEAD_SECONDS))
    if fault == "interim":
        steps.add(Send(b"HTTP/1.1 103 Early Hints\r\nlink: </nothing>\r\n\r\n"))
    if fault == "two-lengths":
        lines = [*lines, "content-length: 1", "transfer-encoding: chunked"]
    if fault == "says-close":
        lines = [*lines, "connection: close"]
    steps.add(Send(head(200, *lines) + body), pieces)
    if ends and fault in ("says-close", "drops-idle"):
        steps.add(Close())


def _break_off(steps: _Steps, how: str) -> None:
    """End in the middle: ``cut`` by a close, ``reset``, or ``silent``."""
    if how == "cut":
        steps.add(Close())
    elif how == "reset":
        steps.add(Wait(_BEFORE_RESET_SECONDS))
        steps.add(Reset())
    else:
        steps.add(Hang())


def _made(fault: str, steps: _Steps, reply: Reply, says: Says) -> Script:
    return Script(fault, tuple(steps.steps), tuple(steps.handed), reply, says)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
