"""Bodies of a hostile client, and a judge of them that shares nothing with the gateway's scan."""

import json
import random
from collections.abc import Callable
from typing import Any

from omnigate.wire.json_body import MAX_DEPTH, MAX_KEY_BYTES, MAX_MEMBERS

CHAT = b'{"model":"small","temperature":0.5,"messages":[{"role":"user","content":"Hello"}]}'

#: What the routes of the hostile client's gateway serve at the chat path.
MODELS = ("small", "cached", "paced", "large")
#: Members that may stand there once, and unescaped.
_SINGLE = ("model", "stream", "stream_options")
#: More digits than this in one number, and the fake provider's own reader gives up.
_DIGITS = 4000


class _Pairs(list[tuple[str, Any]]):
    """An object, with what stands there twice."""


class _BadError(Exception):
    """The body is to be refused."""


def judge(body: bytes) -> frozenset[int]:
    """The statuses that a body may be answered with at the chat path."""
    try:
        tree = _tree(body)
        _hold(tree, 1)
    except (_BadError, ValueError, RecursionError):
        return frozenset({400})
    names = [name for name, _ in tree]
    if any(names.count(name) > 1 for name in _SINGLE):
        return frozenset({400})
    members = dict(tree)
    model = members.get("model")
    if not isinstance(model, str):
        return frozenset({400})
    statuses = {200 if model in MODELS else 404}
    if b"\\" in body or "stream_options" in members or _many_digits(body):
        # An escape may stand in a name; options have rules of their own; and a provider refuses
        # what its reader does not like.
        statuses.add(400)
    return frozenset(statuses)


def _tree(body: bytes) -> _Pairs:
    text = body.decode("utf-8", "strict")
    tree = json.loads(
        text,
        object_pairs_hook=_Pairs,
        parse_constant=_refuse,
        parse_int=_number,
        parse_float=_number,
    )
    if not isinstance(tree, _Pairs):
        raise _BadError
    return tree


def _refuse(_: str) -> None:
    raise _BadError


def _number(_: str) -> float:
    """Any number: none of them matters, and some are too large for Python."""
    return 0.0


def _hold(value: Any, depth: int) -> None:
    """Hold a tree to the bounds, and its texts to UTF-8."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, list):
        if depth > MAX_DEPTH or (isinstance(value, _Pairs) and len(value) > MAX_MEMBERS):
            raise _BadError
        for item in value:
            if isinstance(value, _Pairs):
                name, item = item
                if len(name.encode("utf-8")) > MAX_KEY_BYTES:
                    raise _BadError
            _hold(item, depth + 1)


def _many_digits(body: bytes) -> bool:
    run = longest = 0
    for byte in body:
        run = run + 1 if 48 <= byte <= 57 else 0
        longest = max(longest, run)
    return longest > _DIGITS


_NO_TEXT = (
    *(b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"),
    *(b"\\ud800", b"\\udc00\\ud800", b"\\x41", b"\\u12", b"\n", b"\x00", b"\x1f"),
)
_VALUES = (
    *b'true false null 0 1 -1 1e400 "true" [] [true] {}'.split(),
    *b'{"include_usage":true} {"include_usage":1} {"include_usage":{}}'.split(),
)
_MODELS = (
    *b'"nobody" "" null 5 ["small"] {"a":"small"} "Small" "sm\\u0061ll" "\\u001b[2J"'.split(),
    b'"small "',
)


#: How a long value begins, what it is made of, and how it ends.
_LONG = (
    *((b"", item, b"0") for item in (b"1", b"-", b" ", b"[", b"\t\r\n")),
    *((b'"', item, b'"') for item in (b"a", b"\\\\", b"\\u00e9", b"\xc3\xa9", b'\\"')),
    *((b"[", item, b"0]") for item in (b"0,", b'"",', b"[],", b"{},", b"true,")),
)


# -- spoilers: from a sound body to another one

_Spoiler = Callable[[random.Random, bytes], bytes]


def flipped(rng: random.Random, body: bytes) -> bytes:
    """A few bits are the other way."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def odd_bytes(rng: random.Random, body: bytes) -> bytes:
    """Bytes of any kind somewhere inside."""
    at = rng.randrange(len(body) + 1)
    return body[:at] + rng.randbytes(rng.randint(1, 4)) + body[at:]


def marks(rng: random.Random, body: bytes) -> bytes:
    """One of JSON's own marks more, or one less."""
    at = rng.randrange(len(body))
    if rng.randrange(2):
        return body[:at] + body[at + 1 :]
    return body[:at] + bytes([rng.choice(b'{}[]",:\\/ \t\n0-e.')]) + body[at:]


def cut(rng: random.Random, body: bytes) -> bytes:
    """The end is missing, or the beginning, or the middle."""
    start, end = sorted(rng.randrange(len(body) + 1) for _ in range(2))
    return rng.choice((body[:end], body[start:], body[:start] + body[end:]))


def repeated(rng: random.Random, body: bytes) -> bytes:
    """A piece stands there twice."""
    start, end = sorted(rng.randrange(len(body) + 1) for _ in range(2))
    return body[:end] + body[start:end] + body[end:]


def invalid_text(rng: random.Random, body: bytes) -> bytes:
    """Text that is no UTF-8, or an escape that is no character."""
    piece = rng.choice(_NO_TEXT)
    return body.replace(b"Hello", b"He" + piece + b"llo")


def nested(rng: random.Random, body: bytes) -> bytes:
    """Deep, around the bound and beyond."""
    depth = rng.choice((1, 10, 61, 62, 63, 64, 65, 66, 200, 900, 60_000))
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")))
    if rng.randrange(4) == 0:
        closed = b""
    return body[:-1] + b',"x":' + opened * depth + b"0" + closed * depth + b"}"


def named_twice(rng: random.Random, body: bytes) -> bytes:
    """A member that may stand there once does so twice, plainly or in escapes."""
    name = rng.choice((b"model", b"stream", b"stream_options", b"temperature", b"mod\\u0065l"))
    value = rng.choice((b'"small"', b'"other"', b"true", b"false", b"null", b"{}", b"1"))
    member = b'"%b":%b' % (name, value)
    pieces = [b"{", member, b",", body[1:]] if rng.randrange(2) else [body[:-1], b",", member, b"}"]
    return b"".join(pieces)


def long_name(rng: random.Random, body: bytes) -> bytes:
    """A name around the longest."""
    size = MAX_KEY_BYTES + rng.choice((-1, 0, 1, 2, 5000, 100_000))
    return body[:-1] + b',"' + b"a" * size + b'":0}'


def many_members(rng: random.Random, body: bytes) -> bytes:
    """An object with members around the most, or a good many."""
    count = rng.choice((1, 1000, 1025, 5000, MAX_MEMBERS - 4, MAX_MEMBERS + 1))
    members = b",".join(b'"%x":0' % number for number in range(count))
    if rng.randrange(2):
        return body[:-1] + b',"x":{' + members + b"}}"
    return body[:-1] + b"," + members + b"}"


def long_values(rng: random.Random, body: bytes) -> bytes:
    """Values that are long."""
    first, item, last = rng.choice(_LONG)
    size = rng.choice((100, 5_000, 70_000, 300_000))
    return body[:-1] + b',"x":' + first + item * size + last + b"}"


def other_values(rng: random.Random, body: bytes) -> bytes:
    """Members that the gateway or the provider acts on have values of a wrong kind."""
    name = rng.choice((b"stream", b"stream_options", b"max_tokens", b"tools", b"n", b"user"))
    value = rng.choice(_VALUES)
    return body[:-1] + b',"%b":%b}' % (name, value)


def other_model(rng: random.Random, body: bytes) -> bytes:
    """A model that is none, or no text."""
    model = rng.choice((*_MODELS, b'"' + b"m" * rng.randint(1, 9000) + b'"'))
    return body.replace(b'"small"', model)


def no_object(rng: random.Random, body: bytes) -> bytes:
    """Something else, or an object with something around it."""
    around = (b"\xef\xbb\xbf" + body, body + body, body + b"\0", b"[" + body + b"]", body + b" x")
    other = (
        b"",
        b" ",
        b"null",
        b"[]",
        b'"a"',
        b"1",
        b"model=small",
        body.decode().encode("utf-16"),
    )
    return rng.choice((*around, *other, b" \t\r\n" + body + b"\n"))


BODIES: tuple[_Spoiler, ...] = (
    flipped,
    flipped,
    odd_bytes,
    marks,
    marks,
    cut,
    repeated,
    invalid_text,
    nested,
    named_twice,
    long_name,
    many_members,
    long_values,
    other_values,
    other_model,
    no_object,
)


def spoiled_body(rng: random.Random) -> tuple[str, bytes, frozenset[int]]:
    """A body, what was done to it, and the statuses it may be answered with."""
    spoiler = rng.choice(BODIES)
    body = spoiler(rng, CHAT)
    if rng.randrange(2):
        # What the response cache knows a request by is made of all of its body.
        body = body.replace(b'"small"', b'"cached"')
    return spoiler.__name__, body, judge(body)
