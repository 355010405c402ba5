"""What clients and upstreams can send to hold a reactor for as long as they can.

A :class:`Row` names one such input and makes, anew each time, the one call that the reactor would
make for it. The rows of :data:`READS` are what one read of a socket can bring, those of
:data:`WHOLES` what can come as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from omnigate.dialects.answer import wrap_error
from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.dialects.strike import strike
from omnigate.gateway.long_passage import LongPassage
from omnigate.wire.body import ChunkedReader, FramingError
from omnigate.wire.head import (
    HeadError,
    ResponseHeadError,
    find_head_end,
    parse_request_head,
    parse_response_head,
)

#: What one read of a socket gives at most.
READ_BYTES = 65536
#: The largest head that is read.
HEAD_BYTES = 32768

SECRET = b"sk-" + b"a" * 40 + b"-secret"

Call = Callable[[], object]


@attrs.frozen
class Row:
    """One input.

    :ivar make: makes whatever stands before the call, and returns the call.
    """

    group: str
    name: str
    make: Callable[[], Call]


def fill(unit: bytes, size: int = READ_BYTES) -> bytes:
    """Repeat a unit as often as there is room."""
    return unit * (size // len(unit))


# -- streams

#: An event that begins a stream, by the kind of endpoint.
_FIRST = {
    "chat": b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    "responses": b'event: a\ndata: {"type":"response.created"}\n\n',
    "messages": b'event: ping\ndata: {"type":"ping"}\n\n',
}

#: Events, and parts of some, that a read may be full of.
EVENTS = {
    "empty objects": b"data: {}\n\n",
    "no data": b"data:\n\n",
    "bare names": b"data\n\n",
    "words": b"data: x\n\n",
    "numbers": b"data:1\n\n",
    "cut objects": b"data: {\n\n",
    "no objects": b"data: {x}\n\n",
    "indented": b"data:  {x}\n\n",
    "odd counts": b'data: {"usage":{"output_tokens":"1"}}\n\n',
    "odd usages": b'data: {"usage":1}\n\n',
    "usages": b'data: {"usage":{}}\n\n',
    "odd choices": b'data: {"choices":[1]}\n\n',
    "longer odd choices": b'data: {"choices":[1],"padding":"aaaaaaaaaaaaaaaa"}\n\n',
    "choices": b'data: {"choices":[{}]}\n\n',
    "odd types": b'data: {"type":0}\n\n',
    "errors": b'data: {"error":1}\n\n',
    "half surrogates": b'data: {"a":"\\ud800"}\n\n',
    "NaN": b'data: {"a":NaN}\n\n',
    "nesting": b'data: {"usage":' + b"[" * 100 + b"]" * 100 + b"}\n\n",
    "comments": b":\n\n",
    "comments of lines": b":\n:\n:\n\n",
    "blocks of one byte": b"x\n\n",
    "ids": b"id:\n\n",
    "CR": b"data: {}\r\r",
    "blocks of one byte, CR": b"x\r\r",
    "CR LF": b"data: {}\r\n\r\n",
    "LF and CR": b"data: {}\n\ndata: {}\r\r",
    "two lines": b"data: {\ndata: }\n\n",
    "lines without end": b"data:\n",
    "names without end": b"x\n",
    "one line": b"x",
    "one line of data": b"data: ",
    "line ends": b"\n",
    "CR only": b"\r",
    "marks": b"\xef\xbb\xbf",
    "[DONE]": b"data: [DONE]\n\n",
    "named": b"event: \ndata: {}\n\n",
}

#: One event that is as long as a read.
LONG_VALUES = {
    "choices in one event": (b'{"choices":[', b"{},", b"{}]}"),
    "deltas in one event": (b'{"choices":[', b'{"delta":{"tool_calls":[{},{}]}},', b"{}]}"),
    "lists in one usage": (b'{"usage":{"a":[', b"[],", b"1]}}"),
    "members of one event": (b"{", b'"usage":1,', b'"a":1}'),
    "escapes in one event": (b'{"delta":"', b"\\u00e9", b'"}'),
    "digits in one event": (b'{"usage":{"output_tokens":', b"9", b"}}"),
    "digits, odd": (b'{"choices":1,"usage":{"output_tokens":', b"9", b"}}"),
    "fractions, odd": (b'{"choices":1,"usage":{"output_tokens":0.', b"9", b"}}"),
    "exponents, odd": (b'{"choices":1,"a":[', b"1e400,", b"1]}"),
    "half surrogates in one event": (b'{"delta":"', b"\\ud800", b'"}'),
}


def _stream_rows() -> Iterator[Row]:
    for kind, first in _FIRST.items():
        for name, unit in EVENTS.items():
            read = fill(unit)
            yield Row(f"stream, {kind}", name, _fed(kind, first, read))
            yield Row(f"stream, {kind}", name + ", cut", _fed(kind, first + unit[:1], read[1:]))
        for name, (before, unit, after) in LONG_VALUES.items():
            room = READ_BYTES - len(before) - len(after) - 10
            event = b"data: " + before + fill(unit, room) + after + b"\n\n"
            yield Row(f"stream, {kind}", name, _fed(kind, first, event))
            yield Row(f"stream, {kind}", name + ", cut", _fed(kind, first + event[:1], event[1:]))


def _fed(kind: str, before: bytes, read: bytes) -> Callable[[], Call]:
    """Feed a read to a stream's passage."""

    def make() -> Call:
        passage = StreamPassage(kind, Meter(kind, True), True, SECRET)
        passage.feed(before)
        return lambda: passage.feed(read)

    return make


# -- answers too long to be held, and events of that kind

_WITHIN = {
    "at the top": b"{",
    "in an object": b'{"response":{"x":0,',
    "in a list": b'{"response":[0,',
    "in choices": b'{"choices":[0,',
    "in a usage": b'{"usage":{"x":0,',
    "in a string": b'{"delta":"',
}
_JSON_UNITS = (
    *(b"[],", b"{},", b"[", b"]", b"}", b":", b'"",', b'"a":0,', b'{"a":0},', b"0,", b" "),
    *(b'"', b"\\", b'\\"', b"x", b"\\u00e9", b'"usage":1,', b'"usage":"a",', b'"\\u0075sage":1,'),
    *(b'{"usage":1},', b'"a":{"usage":1},', b'"usage":{},', b'"response":{"usage":{}},'),
    *(b'"text":"",', b'{"text":"a"},', b'"finish_reason":"",', b'"type":0,"object":0,"error":{},'),
    *(b"\ndata:", b"\ndata: 0,", b"\nx", b"\r:"),
)


def _long_rows() -> Iterator[Row]:
    for place, before in _WITHIN.items():
        for unit in _JSON_UNITS:
            name = f"{unit.decode()!r} {place}"
            yield Row("long event", name, _long_event(before, fill(unit)))
            yield Row("long answer", name, _long_answer(before, fill(unit)))


def _long_event(before: bytes, read: bytes) -> Callable[[], Call]:
    """Feed a read to a passage in the middle of an event that is too long to be held."""

    def make() -> Call:
        passage = StreamPassage("responses", Meter("responses", True), True, SECRET)
        passage.feed(b"data: " + b" " * 2 * READ_BYTES + before)
        return lambda: passage.feed(read)

    return make


def _long_answer(before: bytes, read: bytes) -> Callable[[], Call]:
    """Feed a read to the passage of an answer that is no stream."""

    def make() -> Call:
        passage = LongPassage(Meter("chat", False), SECRET)
        passage.feed(before)
        return lambda: passage.feed(read)

    return make


# -- short answers

_ANSWERS = {
    "128 deep": (b'{"a":', b"[" * 126 + b"]" * 126 + b",", b"0}"),
    "lists of lists": (b'{"choices":[', b"[],", b"0]}"),
    "objects": (b'{"choices":[', b"{},", b"0]}"),
    "members": (b"{", b'"a":0,', b'"a":0}'),
    "escapes": (b'{"a":"', b"\\u00e9", b'"}'),
    "half surrogates": (b'{"a":"', b"\\ud800", b'"}'),
    "digits": (b'{"a":', b"9", b"}"),
    "odd digits": (b'{"usage":"", "a":', b"9", b"}"),
    "odd fraction": (b'{"usage":"", "a":0.', b"9", b"}"),
    "odd exponents": (b'{"usage":"", "a":[', b"1e999,", b"1]}"),
    "odd numbers": (b'{"usage":"", "a":[', b"1,", b"1]}"),
    "odd objects": (b'{"usage":"", "a":[', b'{"":0},', b"1]}"),
    "an odd usage": (b'{"usage":{"a":[', b"[],", b"0]}}"),
    "a code of digits": (b'{"error":{"message":1,"code":', b"9", b"}}"),
    "a message": (b'{"error":{"message":"', b"\\n", b'"}}'),
    "a page": (b"<html>", b"\xff", b"</html>"),
    "blanks": (b"", b" ", b""),
    "opening": (b'{"a":', b"[", b""),
}


def _short_rows() -> Iterator[Row]:
    for name, (before, unit, after) in _ANSWERS.items():
        body = before + fill(unit, READ_BYTES - len(before) - len(after)).rstrip(b",") + after
        for kind in ("chat", "messages"):
            yield Row("short answer", f"{name}, {kind}", _ready(Meter(kind, False).whole, body))
        for protocol in ("openai", "anthropic"):
            yield Row("error", f"{name}, {protocol}", _ready(wrap_error, protocol, 400, body, "id"))
    for name, unit in (
        ("near the secret", SECRET[:-1]),
        ("its beginning", SECRET[:4]),
        ("its letter", b"a"),
        ("the secret", SECRET),
    ):
        body = fill(unit)
        yield Row("credential", name, _ready(strike, body, SECRET))
        yield Row("credential", name + " in pieces", _long_answer(SECRET[:-1], body))
    for name, secret in (("of one letter", b"a" * 512), ("of two", b"ab" * 256)):
        yield Row("credential", name, _ready(strike, fill(secret[:-1]), secret))


# -- heads and framing


def _head_rows() -> Iterator[Row]:
    for name, unit in (
        ("short lines", b"a:\r\n"),
        ("one name", b"accept: a\r\n"),
        ("one line", b"a"),
        ("no colons", b"aaaa\r\n"),
        ("folded", b" a\r\n"),
        ("bare LF", b"a:\n"),
        ("bare CR", b"\r"),
        ("controls", b"a: \x01\r\n"),
        ("high bytes", b"\xff"),
        ("blanks", b" "),
        ("commas", b"a: ,,,,,,,,\r\n"),
        ("connection", b"connection: " + b"a," * 8000 + b"\r\n"),
        ("betas", b"anthropic-beta: " + b"a, " * 5000 + b"\r\n"),
        ("beta blanks", b"anthropic-beta: a," + b" " * 15000 + b"\r\n"),
    ):
        lines = fill(unit, HEAD_BYTES - 100)
        few = b"".join(lines.splitlines(keepends=True)[:120])
        for size, text in (("all", lines), ("128", few)):
            request = b"POST / HTTP/1.1\r\nhost: a\r\n" + text + b"\r\n\r\n"
            answer = b"HTTP/1.1 200 OK\r\n" + text + b"\r\n\r\n"
            yield Row("head", f"request, {name}, {size}", _tried(parse_request_head, request))
            yield Row("head", f"answer, {name}, {size}", _tried(parse_response_head, answer))
        yield Row("head", f"search, {name}", _ready(find_head_end, lines))


def _framing_rows() -> Iterator[Row]:
    for name, unit in (
        ("chunks of one byte", b"1\r\na\r\n"),
        ("sizes in 16 digits", b"0000000000000001\r\na\r\n"),
        ("extensions", b"1;a\r\na\r\n"),
        ("long extensions", b"1;" + b"a" * 1000 + b"\r\na\r\n"),
        ("trailers", b"0\r\n" + b"a:\r\n" * 2000),
        ("no line end", b"1"),
    ):
        yield Row("framing", name, _chunked(fill(unit)))


def _chunked(read: bytes) -> Callable[[], Call]:
    return lambda: _tried(ChunkedReader().feed, read)()


def _ready(call: Callable[..., object], *given: object) -> Callable[[], Call]:
    return lambda: lambda: call(*given)


def _tried(call: Callable[..., object], *given: object) -> Callable[[], Call]:
    """A call that may refuse."""

    def attempt() -> None:
        try:
            call(*given)
        except (HeadError, ResponseHeadError, FramingError):
            pass

    return lambda: attempt


ROWS: tuple[Row, ...] = (
    *_stream_rows(),
    *_long_rows(),
    *_short_rows(),
    *_head_rows(),
    *_framing_rows(),
)
