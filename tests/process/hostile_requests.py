"""What a hostile client sends: sound requests, and seeded ways to spoil them.

Pure: everything follows from the random numbers that are given, so an attack that broke something
is made again from its seed. Each spoiler says which statuses the first answer may have; where the
rules leave no doubt that is one status, else it is :data:`ANY`.
"""

import random
from collections.abc import Callable

import attrs

from omnigate.wire.head import MAX_HEAD_BYTES, MAX_HEAD_LINES
from tests.process.daemons import key_of
from tests.process.hostile_bodies import CHAT, spoiled_body

#: Stands for no answer at all: the connection is closed without a byte.
SILENCE = 0
#: What an odd request may be answered; 500 is none of it, and 502 and 503 blame others.
ANY = frozenset({SILENCE, 200, 400, 401, 403, 404, 405, 411, 413, 414, 417, 426, 501, 505})
REFUSED = ANY - {SILENCE, 200}
_BAD = frozenset({400})
_FINE = frozenset({200})

#: What follows every attack; a connection that is still good serves it and ends.
BEHIND = b"GET /livez HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n"

#: Names of lines that may stand in a request once (RFC 9110 §5.3 leaves it to each of them).
_SINGLE = (b"host", b"authorization", b"content-length", b"content-type", b"expect")
_CONTROLS = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\r\n")
_TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"


_LENGTHS = (b"", b"NaN", b"1e3", b"1_0", b"\xd9\xa5", b"18446744073709551617", b"4294967296 ;")
_CODINGS = (
    *b'chunked Chunked identity xchunked chunked;a=b , chunked, "chunked" cow'.split(),
    *(b"chunked, chunked", b"gzip, chunked", b"chunked \t", b""),
)
_TARGETS = (
    *b"/ v1 models .. . %2f % %00 ? # &a=b http://a * :80 \\ messages ;x // @".split(),
    *(b" ", b"\xff"),
)
_VERSIONS = (
    *b"HTTP/1.2 HTTP/2 HTTP/2.0 HTTP/0.9 http/1.1 HTTP/1.1.1 HTTP/1. HTTP/11 HTP/1.1 ICY".split(),
    *(b"HTTP/1,1", b"", b"HTTP/1.1 HTTP/1.1", b" HTTP/1.1", b"HTTP/1.1 "),
)
_CREDENTIALS = (
    *(b"authorization: Bearer", b"authorization: Bearer ", b"authorization: Basic YTpi"),
    *(b"x-api-key:", b"x-api-key: a b", b"x-api-key: \xff\xfe"),
)


@attrs.frozen
class Attack:
    """One thing to send.

    :ivar statuses: what the first answer may be.
    """

    name: str
    sent: bytes
    statuses: frozenset[int]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the requests, as far as the reader of answers must know them."""
        return ("HEAD",) if self.sent.lstrip(b"\r\n").startswith(b"HEAD ") else ()


@attrs.define
class Sound:
    """A request with nothing wrong: its lines without their ends, and its body."""

    lines: list[bytes]
    body: bytes

    @property
    def head(self) -> bytes:
        """The head with its blank line."""
        return b"\r\n".join([*self.lines, b"", b""])

    def __bytes__(self) -> bytes:
        return self.head + self.body


_KEY = b"authorization: Bearer " + key_of("app").encode()
_COMMON = (b"host: gateway:8080", b"user-agent: hostile/1", b"accept: */*")
_MESSAGES = b'{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}'
_EMBEDDINGS = b'{"model":"small","input":["one","two"]}'


def _posted(path: bytes, body: bytes, *lines: bytes) -> Sound:
    length = b"content-length: %d" % len(body)
    first = b"POST " + path + b" HTTP/1.1"
    return Sound([first, *_COMMON, *lines, b"content-type: application/json", length], body)


def sound(rng: random.Random) -> Sound:
    """A request that is answered 200."""
    kind = rng.randrange(7)
    if kind == 0:
        return Sound([b"GET /livez HTTP/1.1", *_COMMON], b"")
    if kind == 1:
        method = rng.choice((b"GET", b"HEAD"))
        return Sound([method + b" /v1/models HTTP/1.1", *_COMMON, _KEY], b"")
    if kind == 2:
        version = b"anthropic-version: 2023-06-01"
        key = b"x-api-key: " + key_of("app").encode()
        return _posted(b"/v1/messages?beta=true", _MESSAGES, key, version)
    if kind == 3:
        return _posted(b"/v1/embeddings", _EMBEDDINGS, _KEY)
    if kind == 4:
        return _posted(b"/v1/chat/completions", CHAT[:-1] + b',"stream":true}', _KEY)
    return _posted(b"/v1/chat/completions", CHAT, _KEY)


# -- heads

_Spoiler = Callable[[random.Random, Sound], tuple[bytes, frozenset[int]]]


def _insert(data: bytes, at: int, what: bytes) -> bytes:
    return data[:at] + what + data[at:]


def _line_of(rng: random.Random, request: Sound) -> int:
    """The place of some header line."""
    return rng.randrange(1, len(request.lines))


def flipped_bits(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A few bits of the head are the other way."""
    head = bytearray(request.head)
    for _ in range(rng.randint(1, 3)):
        head[rng.randrange(len(head))] ^= 1 << rng.randrange(8)
    return bytes(head) + request.body, ANY


def control_byte(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A control byte anywhere in the head."""
    byte = bytes([rng.choice(_CONTROLS)])
    return _insert(bytes(request), rng.randrange(len(request.head)), byte), _BAD


def bare_line_end(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A carriage return or a line feed of its own anywhere in the head."""
    byte = rng.choice((b"\r", b"\n"))
    # A line feed before the very last one would stand behind the head.
    return _insert(bytes(request), rng.randrange(len(request.head) - 1), byte), _BAD


def bare_line_feeds(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """All lines, or all but the first ones, end in a line feed alone."""
    cut = rng.randrange(len(request.lines))
    head = b"\r\n".join([*request.lines[:cut], b"\n".join([*request.lines[cut:], b"", b""])])
    return head + request.body, _BAD


def folded(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A line goes on in the next one."""
    place = _line_of(rng, request)
    fold = b":\r\n" + rng.choice((b" ", b"\t", b"   "))
    request.lines[place] = request.lines[place].replace(b":", fold, 1)
    return bytes(request), _BAD


def torn_line(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A line is torn in two, the second of which has no name."""
    place = _line_of(rng, request)
    name, _, value = request.lines[place].partition(b": ")
    if len(value) < 2 or b":" in value:
        return flipped_bits(rng, request)
    cut = rng.randrange(1, len(value))
    request.lines[place] = name + b": " + value[:cut] + b"\r\n" + value[cut:]
    return bytes(request), _BAD


def bad_name(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A name with a byte that no name has, or without a name, or without a colon."""
    place = _line_of(rng, request)
    line = request.lines[place]
    at = rng.randrange(line.index(b":") + 1)
    bad = bytes([rng.choice(b' \t"(),/;<=>?@[\\]{}\x80\xff')])
    request.lines[place] = rng.choice(
        (_insert(line, at, bad), b": " + line, line.replace(b":", b"", 1).replace(b":", b""))
    )
    return bytes(request), _BAD


def repeated_line(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A line stands there twice, or more often."""
    line = request.lines[_line_of(rng, request)]
    request.lines[1:1] = [line] * rng.randint(1, 5)
    name = line.partition(b":")[0]
    return bytes(request), _BAD if name in (*_SINGLE, b"x-api-key") else _FINE


def another_length(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A length that is none, or one beside the right one."""
    size = len(request.body)
    odds = [form % size for form in (b"+%d", b"-%d", b"0%d", b"%d.0", b"0x%x", b"%d;", b'"%d"')]
    odds += [b"%d %d" % (size, size), b"%d,%d" % (size, size), b"9" * rng.randint(16, 9000)]
    odd = rng.choice((*odds, *_LENGTHS))
    lines = [line for line in request.lines if not line.startswith(b"content-length")]
    lines.insert(rng.randrange(1, len(lines) + 1), b"content-length: " + odd)
    if rng.randrange(3) == 0:
        lines.append(b"Content-Length: %d" % size)
    return bytes(Sound(lines, request.body)), _BAD


def false_length(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A length that is not that of the body."""
    size = max(0, len(request.body) + rng.choice((-30, -2, -1, 1, 2, 30, 10**5, 10**7, 10**14)))
    lines = [line for line in request.lines if not line.startswith(b"content-length")]
    return bytes(Sound([*lines, b"content-length: %d" % size], request.body)), ANY


def coding(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A transfer coding, with or without a length beside it."""
    value = rng.choice(_CODINGS)
    name = rng.choice((b"transfer-encoding", b"Transfer-Encoding", b"TRANSFER-ENCODING"))
    lines = list(request.lines)
    if rng.randrange(2):
        lines = [line for line in lines if not line.startswith(b"content-length")]
    lines.insert(rng.randrange(1, len(lines) + 1), name + b": " + value)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(request.body), request.body)
    return bytes(Sound(lines, body)), frozenset({400, 411})


def method(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A method that is wrong here, unknown, or none."""
    known = (b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"post")
    made_up = bytes(rng.choice(_TOKEN) for _ in range(rng.randint(1, 40)))
    name = rng.choice((*known, made_up))
    if name in (b"GET", b"HEAD", b"POST"):
        name = b"BREW"
    request.lines[0] = name + request.lines[0][request.lines[0].index(b" ") :]
    return bytes(request), REFUSED


def target(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A target made of odd pieces."""
    made = b"".join(rng.choice(_TARGETS) for _ in range(rng.randint(1, 12)))
    if rng.randrange(4):
        made = b"/" + made
    if rng.randrange(20) == 0:
        made = b"/" + b"a" * rng.choice((1023, 1024, 5000, 31000, 40000))
    first = request.lines[0].split(b" ")
    request.lines[0] = b" ".join((first[0], made, first[2]))
    return bytes(request), ANY


def version(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A version that is not spoken here, or a request line without one."""
    first, second, _ = request.lines[0].split(b" ")
    value = rng.choice(_VERSIONS)
    request.lines[0] = first + b" " + second + b" " + value
    return bytes(request), frozenset({400, 505})


def oversize(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """More lines, or longer ones, than any head has."""
    lines = [b"x-a: " + b"y" * rng.randint(MAX_HEAD_BYTES, 4 * MAX_HEAD_BYTES)]
    if rng.randrange(2):
        lines = [b"x-%d: y" % number for number in range(rng.randint(MAX_HEAD_LINES, 3000))]
    place = rng.randrange(1, len(request.lines) + 1)
    request.lines[place:place] = lines
    return bytes(request), _BAD


def expectation(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """An expectation: the one there is, or another."""
    if rng.randrange(3):
        value = rng.choice((b"100-Continue", b"100-continue", b"100-CONTINUE"))
        request.lines.append(b"Expect: " + value)
        return bytes(request), _FINE
    request.lines.append(b"Expect: " + rng.choice((b"200-ok", b"100-continue, x", b"100")))
    return bytes(request), frozenset({417})


def credential(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """A key that is none, where one is asked for."""
    almost = b"authorization: Bearer " + key_of("app")[:-1].encode()
    endless = b"authorization: " + b"B" * rng.randint(1, 20000)
    wrong = rng.choice((*_CREDENTIALS, almost, endless))
    keyless = request.lines[0].split(b" ")[1] == b"/livez"
    names = (b"authorization", b"x-api-key")
    lines = [line for line in request.lines if not line.startswith(names)]
    lines.insert(rng.randrange(1, len(lines) + 1), wrong)
    return bytes(Sound(lines, request.body)), _FINE if keyless else frozenset({401})


def harmless(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """Everything that may be otherwise is otherwise, and the answer is the same."""
    lines = request.lines[1:]
    rng.shuffle(lines)
    for place, line in enumerate(lines):
        name, _, value = line.partition(b": ")
        name = bytes(rng.choice((byte, byte & ~0x20)) if byte > 96 else byte for byte in name)
        blanks = [bytes(rng.choice(b" \t") for _ in range(rng.randrange(4))) for _ in range(2)]
        lines[place] = name + b":" + blanks[0] + value + blanks[1]
    for _ in range(rng.randrange(20)):
        value = bytes(rng.choice(range(32, 256)) for _ in range(rng.randrange(200)))
        lines.append(b"x-%d: " % rng.randrange(10**9) + value.replace(b"\x7f", b""))
    first = rng.choice((b"", b"\r\n")) + request.lines[0]
    return bytes(Sound([first, *lines], request.body)), _FINE


def garbage(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """Bytes that mean nothing, of some protocol or of none."""
    if rng.randrange(4) == 0:
        return b"\r\n" * rng.randint(2, 2000) + bytes(request), _BAD
    first = rng.choice((b"PRI * HTTP/2.0\r\n\r\nSM", bytes.fromhex("16030100a5010000a1"), b""))
    return first + rng.randbytes(rng.randint(1, 3000)), ANY


def cut_and_joined(rng: random.Random, request: Sound) -> tuple[bytes, frozenset[int]]:
    """The beginning of one request and the end of another."""
    one, other = bytes(request), bytes(request)
    while other == one or other.startswith(b"HEAD"):
        other = bytes(sound(rng))
    return one[: rng.randrange(1, len(one))] + other[rng.randrange(len(other)) :], ANY


HEADS: tuple[_Spoiler, ...] = (
    flipped_bits,
    flipped_bits,
    control_byte,
    bare_line_end,
    bare_line_feeds,
    folded,
    torn_line,
    bad_name,
    repeated_line,
    another_length,
    false_length,
    coding,
    method,
    target,
    version,
    oversize,
    expectation,
    credential,
    harmless,
    garbage,
    cut_and_joined,
)


def attack(rng: random.Random) -> Attack:
    """One attack: on the head, on the body, or none at all."""
    kind = rng.random()
    if kind < 0.05:
        return Attack("nothing wrong", bytes(sound(rng)), _FINE)
    if kind < 0.4:
        name, body, statuses = spoiled_body(rng)
        return Attack(name, bytes(_posted(b"/v1/chat/completions", body, _KEY)), statuses)
    spoiler = rng.choice(HEADS)
    sent, statuses = spoiler(rng, sound(rng))
    return Attack(spoiler.__name__, sent, statuses)
