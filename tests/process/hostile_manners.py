"""How a hostile client behaves while it sends: slowly, in halves, without reading, or gone at once.

A manner plays one attack on a socket of its own and tells what came. Where it read to the end, the
answers are judged; where it left, only what it saw of them.
"""

import contextlib
import random
import socket
import time
from collections.abc import Callable

import attrs

from tests.process.daemons import key_of
from tests.process.hostile_requests import ANY, BEHIND, Attack
from tests.process.raw import dial, read_rest, reset

#: The smallest receive buffer that Linux gives, near enough.
_SMALL_BUFFER = 2048
#: Bytes up to which an attack drips in byte by byte; larger ones in some hundred pieces.
_DRIPPED_BYTES = 1500
_LIVE = b"GET /livez HTTP/1.1\r\nhost: gateway\r\n\r\n"


@attrs.frozen
class Played:
    """What came of an attack.

    :ivar data: all that was read.
    :ivar to_the_end: everything was read until the gateway ended the connection.
    :ivar statuses: what the first answer to the attack may be.
    :ivar methods: of the requests, where one of them is HEAD.
    :ivar before: sound requests that stood before the attack.
    :ivar left: the client had ended its side, so that the gateway need not say why it ends.
    :ivar seconds: what it took.
    """

    data: bytes
    to_the_end: bool
    statuses: frozenset[int] = ANY
    methods: tuple[str, ...] = ()
    before: int = 0
    left: bool = False
    seconds: float = 0.0


Manner = Callable[[random.Random, int, Attack], Played]


def _send(opened: socket.socket, data: bytes) -> None:
    """Send, though the other side may have ended the connection already."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        opened.sendall(data)


def at_once(rng: random.Random, port: int, attack: Attack) -> Played:
    """Everything in one piece."""
    with dial(port) as opened:
        _send(opened, attack.sent + BEHIND)
        return Played(read_rest(opened), True, attack.statuses, attack.methods)


def dripping(rng: random.Random, port: int, attack: Attack) -> Played:
    """Byte by byte, or in hundreds of pieces."""
    data = attack.sent + BEHIND
    most = 1 if len(data) < _DRIPPED_BYTES else max(2, len(data) // 100)
    with dial(port) as opened:
        at = 0
        while at < len(data):
            size = rng.randint(1, most)
            _send(opened, data[at : at + size])
            at += size
        return Played(read_rest(opened), True, attack.statuses, attack.methods)


def pausing(rng: random.Random, port: int, attack: Attack) -> Played:
    """With a pause in the middle of head or body."""
    data = attack.sent + BEHIND
    cut = rng.randrange(len(attack.sent) + 1)
    with dial(port) as opened:
        _send(opened, data[:cut])
        time.sleep(rng.uniform(0.0, 0.2))
        _send(opened, data[cut:])
        return Played(read_rest(opened), True, attack.statuses, attack.methods)


def behind_others(rng: random.Random, port: int, attack: Attack) -> Played:
    """Behind sound requests on the same connection, in one piece."""
    before = rng.randint(1, 40)
    with dial(port) as opened:
        _send(opened, _LIVE * before + attack.sent + BEHIND)
        return Played(
            read_rest(opened), True, attack.statuses, ("GET",) * before + attack.methods, before
        )


def stopping(rng: random.Random, port: int, attack: Attack) -> Played:
    """A part, and then nothing more."""
    with dial(port) as opened:
        _send(opened, attack.sent[: rng.randrange(len(attack.sent) + 1)])
        return Played(read_rest(opened), True, methods=attack.methods)


def half_closed(rng: random.Random, port: int, attack: Attack) -> Played:
    """A part or all of it, and then the end of the sending side."""
    with dial(port) as opened:
        _send(opened, attack.sent[: rng.choice((len(attack.sent), rng.randrange(2000)))])
        with contextlib.suppress(OSError):
            opened.shutdown(socket.SHUT_WR)
        return Played(read_rest(opened), True, methods=attack.methods, left=True)


def resetting(rng: random.Random, port: int, attack: Attack) -> Played:
    """A part or all of it, and then a reset, at once or a little later."""
    opened = dial(port)
    _send(opened, attack.sent[: rng.choice((len(attack.sent), rng.randrange(2000)))])
    if rng.randrange(2):
        time.sleep(rng.uniform(0.0, 0.05))
    reset(opened)
    return Played(b"", False)


def _stream(rng: random.Random, version: bytes = b"1.1") -> bytes:
    """A request for a stream that is long, in time or in bytes."""
    model = rng.choice((b"paced", b"large"))
    body = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"Hello"}]}' % model
    key = key_of("app").encode()
    head = b"POST /v1/chat/completions HTTP/%b\r\nhost: g\r\nauthorization: Bearer %b\r\n"
    return (head + b"content-length: %d\r\n\r\n%b") % (version, key, len(body), body)


def _leave(rng: random.Random, opened: socket.socket) -> None:
    """Go, in order or with a reset."""
    if rng.randrange(2):
        reset(opened)
    else:
        opened.close()


def leaving(rng: random.Random, port: int, attack: Attack) -> Played:
    """Gone in the middle of a stream, after any part of it."""
    opened = dial(port)
    _send(opened, _stream(rng, rng.choice((b"1.1", b"1.0"))))
    data = b""
    wanted = rng.choice((0, 1, 100, 5000, 100_000))
    with contextlib.suppress(OSError):
        while len(data) < wanted and (piece := opened.recv(4096)):
            data += piece
    _leave(rng, opened)
    return Played(data, False)


def deaf(rng: random.Random, port: int, attack: Attack) -> Played:
    """Asks and asks, and reads nothing."""
    opened = dial(port, _SMALL_BUFFER)
    opened.setblocking(False)
    asked = (_stream(rng) if rng.randrange(2) else _LIVE) * rng.randint(1, 400)
    with contextlib.suppress(OSError):
        opened.send(asked)
    time.sleep(rng.uniform(0.0, 2.5))
    _leave(rng, opened)
    return Played(b"", False)


def slow_reading(rng: random.Random, port: int, attack: Attack) -> Played:
    """Takes an answer in crumbs, and loses patience."""
    opened = dial(port, _SMALL_BUFFER)
    _send(opened, _stream(rng))
    data = b""
    pause = rng.choice((0.01, 0.1, 1.0))
    end = time.monotonic() + rng.uniform(0.5, 2.5)
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            piece = opened.recv(rng.randint(1, 64))
            if not piece:
                break
            data += piece
            time.sleep(pause)
    _leave(rng, opened)
    return Played(data, False)


#: Manners and how many of a hundred attacks are played so.
MANNERS: tuple[tuple[Manner, int], ...] = (
    (at_once, 50),
    (dripping, 10),
    (pausing, 6),
    (behind_others, 8),
    (stopping, 4),
    (half_closed, 5),
    (resetting, 8),
    (leaving, 5),
    (deaf, 2),
    (slow_reading, 2),
)


def manner(rng: random.Random) -> Manner:
    """One manner."""
    names, weights = zip(*MANNERS, strict=True)
    chosen: Manner = rng.choices(names, weights)[0]
    return chosen


def play(rng: random.Random, how: Manner, port: int, attack: Attack) -> Played:
    """Play an attack, and take its time."""
    begun = time.monotonic()
    played = how(rng, port, attack)
    return attrs.evolve(played, seconds=time.monotonic() - begun)
