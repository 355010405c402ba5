"""What hostile upstreams answer: a list of crimes, and good answers gone wrong at random."""

import gzip
import random
import zlib
from collections.abc import Sequence
from typing import Any

import attrs

from tests.corpus import chunked_attacks
from tests.planes.scenes import (
    ANSWER,
    DONE,
    END,
    ERROR,
    FINISH,
    MESSAGE,
    STREAM_HEAD,
    USAGE,
    chunk,
    delta,
)
from tests.process.daemons import PROVIDER_KEY
from tests.process.playing import End, Script

SECRET = PROVIDER_KEY.encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
GZIP = b"content-encoding: gzip\r\n"
LONG = ANSWER[:-1] + b',"x":"' + b"".join(b"%d " % n for n in range(30_000)) + b'"}'

CLAUDE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9}}}'
    b"\n\n",
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hi"}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":3}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
)
EVENTS = (delta(b"Hel"), delta(b"lo"), FINISH, USAGE, DONE)


def sized(body: bytes, status: bytes = b"200 OK", fields: bytes = b"") -> bytes:
    """An answer with a length."""
    head = HEAD.replace(b"200 OK", status) + fields
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


def streamed(*events: bytes, fields: bytes = b"", end: bytes = END) -> bytes:
    """A stream with a chunk for each event."""
    return STREAM_HEAD[:-2] + fields + b"\r\n" + b"".join(map(chunk, events)) + end


def flushed(*events: bytes) -> list[bytes]:
    """Events packed one by one, as a server packs a stream."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events]
    return [*pieces, packer.flush()]


@attrs.frozen
class Case:
    """One request and how it is answered.

    :ivar name: for messages.
    :ivar allowed: how its first attempt may end; any way where it is empty.
    :ivar usage: input and output tokens to be billed; anything within bounds where it is ``None``.
    """

    name: str
    script: Script
    model: str = "alone"
    stream: bool = False
    allowed: frozenset[str] = frozenset()
    usage: tuple[int, int] | None = None


def crime(
    name: str, allowed: str, *pieces: bytes | float, end: End = "close", **facts: Any
) -> Case:
    """A case of the list; ``allowed`` are outcomes with blanks between them."""
    early = facts.pop("early", False)
    outcomes = frozenset(allowed.split())
    return Case(name, Script(pieces, end, early), allowed=outcomes, **facts)


def framing_crimes() -> list[Case]:
    """What is wrong with heads and framing; none of it may be answered with success."""
    bad = "bad_framing"
    body = ANSWER
    size = b"content-length: %d\r\n" % len(body)
    other = b"content-length: %d\r\n" % (len(body) + 1)
    coded = b"transfer-encoding: chunked\r\n"
    cases = [
        crime("length and chunked", bad, HEAD + size + coded + b"\r\n" + chunk(body) + END),
        crime("two lengths", bad, HEAD + size + other + b"\r\n" + body),
        crime("two lengths in one", bad, HEAD + b"content-length: 5, 6\r\n\r\n" + body),
        crime("signed length", bad, HEAD + b"content-length: +5\r\n\r\n" + body),
        crime("negative length", bad, HEAD + b"content-length: -5\r\n\r\n" + body),
        crime("length in words", bad, HEAD + b"content-length: many\r\n\r\n" + body),
        crime("length of 16 digits", bad, HEAD + b"content-length: " + b"9" * 16 + b"\r\n\r\n"),
        crime(
            "length of 4,000 digits", bad, HEAD + b"content-length: " + b"9" * 4000 + b"\r\n\r\n"
        ),
        crime("coding not known", bad, HEAD + b"transfer-encoding: squeeze, chunked\r\n\r\n"),
        crime("chunked twice", bad, HEAD + coded + coded + b"\r\n" + chunk(body) + END),
        crime("chunked in 1.0", bad, CHUNKED.replace(b"1.1", b"1.0") + chunk(body) + END),
        crime("switching", bad, b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n"),
        crime("garbage", bad, b"\x16\x03\x01\x02\x00 hello\r\n\r\n"),
        crime("HTTP/2", bad, HEAD.replace(b"HTTP/1.1", b"HTTP/2") + size + b"\r\n" + body),
        crime("status of two digits", bad, HEAD.replace(b"200", b"20") + size + b"\r\n" + body),
        crime("bare line feeds", bad, (HEAD + size + b"\r\n").replace(b"\r\n", b"\n") + body),
        crime("folded line", bad, HEAD + b"x: a\r\n b\r\n" + size + b"\r\n" + body),
        crime(
            "zero byte in a value", bad, HEAD + b"retry-after: 1\x00\r\n" + size + b"\r\n" + body
        ),
        crime(
            "bare CR in a value", bad, HEAD + b"x-request-id: a\rb: c\r\n" + size + b"\r\n" + body
        ),
        crime(
            "injected type",
            bad,
            b"HTTP/1.1 200 OK\r\ncontent-type: a\x0bb\r\n" + size + b"\r\n" + body,
        ),
        crime(
            "long type",
            bad,
            b"HTTP/1.1 200 OK\r\ncontent-type: " + b"x" * 300 + b"\r\n" + size + b"\r\n" + body,
        ),
        crime("space before the colon", bad, HEAD + b"content-length : 5\r\n\r\n" + body),
        crime("no name", bad, HEAD + b": x\r\n" + size + b"\r\n" + body),
        crime("interim heads", bad, b"HTTP/1.1 103 Hints\r\n\r\n" * 5000 + sized(body)),
        crime("huge status line", bad, b"HTTP/1.1 200 " + b"O" * 500_000 + b"\r\n\r\n"),
        crime("huge head", bad, HEAD + b"x: " + b"y" * 200_000 + b"\r\n\r\n"),
        crime("many lines", bad, HEAD + b"x: y\r\n" * 500 + size + b"\r\n" + body),
        crime("endless line", bad, *[b"x" * 65536] * 40),
        crime("head without an end", "truncated", HEAD + size),
        crime("nothing", "connection_lost"),
        crime("half a line", "truncated", b"HTTP/1.1 20"),
        crime("no body", "truncated", HEAD + size + b"\r\n"),
        crime("half a body", "truncated", (HEAD + size + b"\r\n" + body)[:-5]),
        crime("reset", "connection_lost", end="reset"),
        crime("reset inside the head", "truncated connection_lost", HEAD, 0.05, end="reset"),
        crime(
            "reset inside the body",
            "truncated",
            HEAD + size + b"\r\n" + body[:9],
            0.05,
            end="reset",
        ),
        crime(
            "reset of a body without a length",
            "truncated",
            HEAD + b"\r\n" + body,
            0.05,
            end="reset",
        ),
        crime("no last chunk", "truncated", CHUNKED + chunk(body)),
        crime("half a last chunk", "truncated", CHUNKED + chunk(body) + b"0\r\n"),
        crime("HTML", "not_json", b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>hello"),
        crime("error under 200", "error_envelope", sized(ERROR)),
        crime("no JSON", "not_json", sized(b"{" * 129 + b"}" * 128)),
        crime("nothing whole", "not_json", sized(b"")),
        crime("no content", "not_json", b"HTTP/1.1 204 None\r\n\r\n"),
        crime("gzip that is none", bad, sized(body, fields=GZIP)),
        crime("gzip cut", "truncated", sized(gzip.compress(body)[:-1], fields=GZIP)),
        crime("gzip with a wrong sum", bad, sized(gzip.compress(body)[:-1] + b"\x77", fields=GZIP)),
        crime(
            "bytes behind gzip", bad, sized(gzip.compress(body) + b"0123456789abcd", fields=GZIP)
        ),
        crime("bomb", "not_json", sized(gzip.compress(bytes(50_000_000)), fields=GZIP)),
        crime("brotli", "unknown_coding", sized(body, fields=b"content-encoding: br\r\n")),
        crime("silence", "timeout", end="stall"),
        crime("silence inside the head", "timeout", HEAD, end="stall"),
        crime(
            "silence inside the body",
            "stream_idle_timeout",
            HEAD + size + b"\r\n" + body[:9],
            end="stall",
        ),
        crime("silence inside a chunk", "stream_idle_timeout", CHUNKED + b"ff\r\n{", end="stall"),
        crime(
            "silence before the last chunk",
            "stream_idle_timeout",
            CHUNKED + chunk(body),
            end="stall",
        ),
        crime("endless extension", bad, CHUNKED + b"5;" + b"x" * 200_000),
        crime(
            "oversize trailers",
            bad,
            CHUNKED + chunk(body) + b"0\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
        ),
    ]
    cases += [
        crime(f"chunks: {name}", f"{bad} truncated", CHUNKED + wire)
        for name, wire in chunked_attacks.BODIES.items()
    ]
    pairs = [attrs.evolve(case, model="pair") for case in cases]
    return cases + pairs


def stream_crimes() -> list[Case]:
    """Streams that begin with an error, never begin, break, lie, or say more than they should."""
    whole = streamed(*EVENTS)
    gone = "truncated bad_framing stream_idle_timeout"
    cases = [
        crime(
            "first event is an error",
            "error_event",
            streamed(b'data: {"error":{"message":"no"}}\n\n'),
        ),
        crime("comments only", "empty_stream", streamed(*[b": wait\n\n"] * 50)),
        crime("nothing", "empty_stream", streamed()),
        crime(
            "comments without an end",
            "stream_idle_timeout",
            STREAM_HEAD + chunk(b": w\n\n"),
            end="stall",
        ),
        crime("half an event", "empty_stream", streamed(EVENTS[0][:-2])),
        crime(
            "silence behind an event",
            "stream_idle_timeout",
            STREAM_HEAD + chunk(EVENTS[0]),
            end="stall",
        ),
        crime(
            "reset behind an event", "truncated", STREAM_HEAD + chunk(EVENTS[0]), 0.1, end="reset"
        ),
        crime(
            "wrong chunk behind an event", "bad_framing", STREAM_HEAD + chunk(EVENTS[0]) + b"zz\r\n"
        ),
        crime(
            "error behind an event",
            "ok",
            streamed(EVENTS[0], b'data: {"error":{"message":"no"}}\n\n'),
        ),
        crime("no end of the protocol", "ok", streamed(*EVENTS[:2])),
        crime(
            "130 deep",
            "ok",
            streamed(b'data: {"choices":' + b"[" * 130 + b"]" * 130 + b"}\n\n", *EVENTS),
        ),
        crime("60,000 digits", "ok", streamed(b'data: {"n":' + b"9" * 60_000 + b"}\n\n", *EVENTS)),
        crime("a huge key", "ok", streamed(b'data: {"' + b"k" * 100_000 + b'":1}\n\n', *EVENTS)),
        crime("a huge event", "ok", streamed(*[delta(b"x" * 300_000)], *EVENTS)),
        crime("packed", "ok", streamed(*flushed(*EVENTS), fields=GZIP)),
        crime("packed and cut", gone, streamed(*flushed(*EVENTS)[:-1], fields=GZIP)),
        crime(
            "packed and silent",
            gone,
            STREAM_HEAD[:-2] + GZIP + b"\r\n" + chunk(flushed(*EVENTS)[0]),
            end="stall",
        ),
    ]
    cases += [crime(f"cut at {at}", "", whole[:at]) for at in range(0, len(whole), 3)]
    return [attrs.evolve(case, stream=True) for case in cases]


def odd_json() -> list[Case]:
    """Objects that are odd in size or shape, and answers all the same."""
    shapes = {
        "129 deep": b"[" * 129 + b"]" * 129,
        "20,000 deep": b"[" * 20_000 + b"]" * 20_000,
        "objects 5,000 deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
        "60,000 digits": b"9" * 60_000,
        "a float of 60,000 digits": b"0." + b"9" * 60_000 + b"e-999999",
        "a huge key": b'{"' + b"k" * 60_000 + b'":1}',
        "many keys": b"{" + b",".join(b'"%d":0' % n for n in range(6000)) + b"}",
        "one key often": b"{" + b",".join([b'"usage":0'] * 6000) + b"}",
        "many lists": b"[" + b",".join([b"[]"] * 20_000) + b"]",
    }
    cases = []
    for name, shape in shapes.items():
        body = ANSWER[:-1] + b',"x":' + shape + b"}"
        cases.append(crime(f"odd: {name}", "ok not_json", sized(body)))
        long = body[:-1] + b',"y":"' + b"z" * 70_000 + b'"}'
        cases.append(crime(f"odd and long: {name}", "ok", sized(long)))
        cases.append(
            crime(f"odd error: {name}", "ok", sized(b'{"error":' + shape + b"}", b"400 Bad"))
        )
        event = b"data: " + body + b"\n\n"
        cases.append(crime(f"odd event: {name}", "ok", streamed(event, *EVENTS), stream=True))
    return cases


def lying_usage() -> list[Case]:
    """Figures that are no figures, and figures where they do not count."""
    cases = []
    told = b'"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}'
    assert told in ANSWER
    for name, usage in (
        ("2^63", b'{"prompt_tokens":9223372036854775808,"completion_tokens":9223372036854775808}'),
        ("2^40 and more", b'{"prompt_tokens":1099511627777,"completion_tokens":1099511627777}'),
        ("negative", b'{"prompt_tokens":-9,"completion_tokens":-3}'),
        ("text", b'{"prompt_tokens":"9","completion_tokens":"3"}'),
        ("lists", b'{"prompt_tokens":[9],"completion_tokens":{"a":3}}'),
        ("no object", b"[9,3]"),
        ("many digits", b'{"prompt_tokens":%b,"completion_tokens":%b}' % ((b"7" * 20_000,) * 2)),
        ("not a number", b'{"prompt_tokens":NaN,"completion_tokens":1e400}'),
    ):
        lie = b'"usage":' + usage
        cases.append(crime(f"usage: {name}", "ok not_json", sized(ANSWER.replace(told, lie))))
        event = b"data: " + USAGE[6:-2].replace(b'"usage"', b'"odd"')[:-1] + b"," + lie + b"}\n\n"
        cases.append(
            crime(f"usage event: {name}", "ok", streamed(*EVENTS[:3], event, DONE), stream=True)
        )
    decoys = (
        b'"x":{"usage":{"prompt_tokens":777777,"completion_tokens":777777}},'
        b'"y":[{"usage":{"prompt_tokens":777777}}],"z":"\\"usage\\":{\\"prompt_tokens\\":777777}",'
    )
    cases.append(crime("decoys", "ok", sized(b"{" + decoys + ANSWER[1:]), usage=(9, 3)))
    cases.append(
        crime(
            "decoys in events",
            "ok",
            streamed(
                delta(b'\\"usage\\":{\\"prompt_tokens\\":777777}'),
                b"data: {" + decoys + b'"a":1}\n\n',
                *EVENTS,
            ),
            stream=True,
            usage=(9, 3),
        )
    )
    return cases


def echoes() -> list[Case]:
    """The credential, said back in every way."""
    half = len(SECRET) // 2
    told = b'{"choices":[],"x":"' + SECRET + b'"}'
    long_told = told[:-2] + b" " + b"y" * 100_000 + SECRET + b'"}'
    error = b'{"error":{"message":"no ' + SECRET + b'","type":"a","param":null,"code":"b"}}'
    event = delta(b"so " + SECRET)
    at = event.index(SECRET) + half
    halves = chunk(event[:at]) + chunk(event[at:])
    fields = b"x-request-id: " + SECRET + b"\r\nretry-after: " + SECRET + b"\r\n"
    return [
        crime("echo", "ok", sized(told)),
        crime("echo in a long answer", "ok", sized(long_told)),
        crime(
            "echo byte by byte",
            "ok",
            CHUNKED + b"".join(chunk(told[i : i + 1]) for i in range(len(told))) + END,
        ),
        crime("echo in an error", "ok", sized(error, b"400 Bad")),
        crime("echo in a plain error", "ok", sized(b"no " + SECRET, b"404 None")),
        crime("echo in headers", "ok", sized(ANSWER, fields=fields)),
        crime(
            "echo in the type",
            "ok",
            sized(ANSWER).replace(b"application/json", b"a/b; c=" + SECRET),
        ),
        crime("echo packed", "ok", sized(gzip.compress(told), fields=GZIP)),
        crime("echo packed, long", "ok", sized(gzip.compress(long_told), fields=GZIP)),
        crime("echo in an event", "ok", streamed(event, *EVENTS), stream=True),
        crime(
            "echo over two chunks",
            "ok",
            STREAM_HEAD + halves + b"".join(map(chunk, EVENTS)) + END,
            stream=True,
        ),
        crime(
            "echo over two reads",
            "ok",
            STREAM_HEAD + chunk(event)[:at],
            0.05,
            chunk(event)[at:] + END,
            stream=True,
        ),
        crime(
            "echo over two packed chunks",
            "ok",
            streamed(*flushed(event[:at], event[at:], *EVENTS), fields=GZIP),
            stream=True,
        ),
        crime(
            "echo in a huge event",
            "ok",
            streamed(
                delta(b"x" * 100_000 + SECRET)[:100_100],
                delta(b"x" * 100_000 + SECRET)[100_100:],
                *EVENTS,
            ),
            stream=True,
        ),
        crime(
            "echo in the first error",
            "error_event",
            streamed(b'data: {"error":{"message":"' + SECRET + b'"}}\n\n'),
            stream=True,
        ),
    ]


def good_answers() -> list[Case]:
    """What mutations are made of."""
    packed = streamed(*flushed(*EVENTS), fields=GZIP)
    return [
        crime("short", "", sized(ANSWER)),
        crime("chunked", "", CHUNKED + chunk(ANSWER[:99]) + chunk(ANSWER[99:]) + END),
        crime("until close", "", HEAD + b"\r\n" + ANSWER),
        crime("interim", "", b"HTTP/1.1 100 Continue\r\n\r\n" + sized(ANSWER)),
        crime("long", "", sized(LONG)),
        crime("long, chunked", "", CHUNKED + chunk(LONG[:70_000]) + chunk(LONG[70_000:]) + END),
        crime("gzip", "", sized(gzip.compress(ANSWER), fields=GZIP)),
        crime("gzip, long", "", CHUNKED[:-2] + GZIP + b"\r\n" + chunk(gzip.compress(LONG)) + END),
        crime("error", "", sized(ERROR, b"400 Bad")),
        crime("stream", "", streamed(*EVENTS), stream=True),
        crime(
            "stream until close",
            "",
            STREAM_HEAD.replace(b"transfer-encoding: chunked\r\n", b"") + b"".join(EVENTS),
            stream=True,
        ),
        crime(
            "stream with CRLF",
            "",
            streamed(*[e.replace(b"\n", b"\r\n") for e in EVENTS]),
            stream=True,
        ),
        crime(
            "stream of small chunks",
            "",
            streamed(*[b"".join(EVENTS)[i : i + 7] for i in range(0, len(b"".join(EVENTS)), 7)]),
            stream=True,
        ),
        crime("stream in gzip", "", packed, stream=True),
        crime("message", "", sized(MESSAGE), model="claude"),
        crime("messages", "", streamed(*CLAUDE), model="claude", stream=True),
    ]


_TOKENS = (
    b"\r\n",
    b"\r",
    b"\n",
    b"\n\n",
    b"\x00",
    b" ",
    b"0",
    b"f",
    b"\xff",
    b":",
    b";",
    b"0\r\n\r\n",
    b"data: ",
    b"}",
    b'"',
)


def mutated(wire: bytes, rng: random.Random) -> bytes:
    """The same bytes with a few of them wrong; half of the time near the head or a seam."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        if not wire:
            break
        near = rng.random()
        if near < 0.4:
            at = rng.randrange(min(len(wire), 250))
        elif near < 0.6:
            seam = wire.find(b"\r\n", rng.randrange(len(wire)))
            at = max(0, min(len(wire) - 1, seam + rng.randrange(-3, 5)))
        else:
            at = rng.randrange(len(wire))
        size = rng.choice((1, 1, 1, 2, 5, 40, 300))
        kind = rng.randrange(6)
        if kind == 0:
            wire = wire[:at] + bytes([wire[at] ^ 1 << rng.randrange(8)]) + wire[at + 1 :]
        elif kind == 1:
            wire = wire[:at] + wire[at + size :]
        elif kind == 2:
            wire = wire[: at + size] + wire[at:]
        elif kind == 3:
            wire = wire[:at] + rng.choice(_TOKENS) + wire[at:]
        elif kind == 4:
            wire = wire[:at] + rng.randbytes(size) + wire[at + size :]
        else:
            wire = wire[:at]
    return wire


def mutation(rng: random.Random, good: Sequence[Case], name: str) -> Case:
    """A good answer gone wrong, or not."""
    case = rng.choice(good)
    wire = mutated(case.script.wire, rng)
    places = sorted(rng.randrange(len(wire) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    pieces: list[bytes | float] = []
    for start, stop in zip([0, *places], [*places, len(wire)], strict=True):
        if wire[start:stop]:
            pieces += [wire[start:stop], 0.002] if places else [wire[start:stop]]
    end: End = rng.choice(("close", "close", "close", "reset"))
    return attrs.evolve(case, name=f"{name} ({case.name})", script=Script(pieces, end))
