"""Random stories of clients and upstreams, for the test of any ending.

A story is made from one seed and nothing else, so that one that goes wrong can be told again.
Several clients send requests of all kinds, cut anywhere; upstreams answer in all ways, cut
anywhere; in between people leave, connections break, time passes, the config changes and
parts of ours fail. Then everybody falls silent, and time passes until nothing can happen
any more.
"""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError

from omnigate.capabilities import Capabilities
from omnigate.protocols.connector import UpstreamConnectError
from tests.planes.memory import (
    FakeClient,
    FakeConnection,
    MemoryDataPlane,
    get,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    FINISH,
    MESSAGE,
    MESSAGES,
    MESSAGES_STREAM,
    RESPONSE,
    RESPONSE_EVENTS,
    RESPONSES,
    RESPONSES_STREAM,
    STREAM_HEAD,
    USAGE,
    chunk,
    delta,
)

ENVIRON = {
    "OMNIGATE_CLIENT_TIMEOUT_MS": "20000",
    "OMNIGATE_CLIENT_STALL_TIMEOUT_MS": "5000",
    "OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "15000",
    "OMNIGATE_HEARTBEAT_MS": "4000",
    "OMNIGATE_ABORT_DRAIN_MS": "9000",
    "OMNIGATE_ABORT_DRAIN_MAX_MB": "1",
    "OMNIGATE_MAX_CONCURRENT_PER_KEY": "3",
    "OMNIGATE_MAX_CONNECTIONS": "4",
    "OMNIGATE_MAX_REQUEST_MB": "1",
}

#: What OpenAI upstreams may be asked over.
APIS = ("", "", "chat", "responses")

#: Seconds that may pass at once.
PAUSES = (0.05, 0.3, 1.0, 2.5, 6.0, 16.0)

FILLER = b'"x":"' + b"y" * 90_000 + b'",'

#: What clients send; the last of a connection may be any, the others let it live.
REQUESTS = (
    request(CHAT),
    request(CHAT),
    request(CHAT_STREAM),
    request(CHAT_STREAM),
    request(MESSAGES, b"/v1/messages"),
    request(MESSAGES_STREAM, b"/v1/messages?beta=true"),
    request(MESSAGES, b"/v1/messages/count_tokens"),
    request(RESPONSES, b"/v1/responses"),
    request(RESPONSES_STREAM, b"/v1/responses"),
    request(b"{" + FILLER + CHAT[1:]),
    request(CHAT, headers=b"expect: 100-continue\r\n"),
    request(b'{"model":5}'),
    request(CHAT.replace(b"small", b"none")),
    request(CHAT, b"/v1/embeddings"),
    get(b"/v1/models"),
    get(b"/v1/models/small", method=b"HEAD"),
    get(b"/healthz", secret=""),
    get(b"/nothing"),
)
LAST_REQUESTS = (
    request(CHAT).replace(b"HTTP/1.1", b"HTTP/1.0"),
    request(CHAT_STREAM).replace(b"HTTP/1.1", b"HTTP/1.0"),
    request(CHAT, headers=b"connection: close\r\n"),
    request(CHAT, secret="og-unknown-key-0123456789"),
    request(CHAT, b"/nowhere"),
    b"garbage\r\n\r\n",
    b"GET //v1/models HTTP/1.1\r\nhost: g\r\n\r\n",
    request(b"x" * 2_000_000)[:300],
)

CLAUDE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9}}}'
    b"\n\n",
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hi"}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":3}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
)

LONG = reply(b'{"choices":["' + b"x" * 80_000 + b'"],"usage":{"prompt_tokens":9}}')

LONG_MESSAGE = MESSAGE.replace(b"Hello", b"Hello " * 20_000)

#: What upstreams answer.
ANSWERS = (
    reply(ANSWER),
    reply(ANSWER),
    reply(MESSAGE),
    reply(RESPONSE),
    reply(LONG_MESSAGE),
    STREAM_HEAD.replace(b"text/event-stream", b"application/json") + chunk(ANSWER) + END,
    b"HTTP/1.1 100 Continue\r\n\r\n" + reply(ANSWER),
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + ANSWER,
    LONG,
    STREAM_HEAD + chunk(delta(b"Hel")) + chunk(delta(b"lo")) + chunk(CLOSING) + END,
    STREAM_HEAD + chunk(delta(b"x" * 70_000)) * 3 + chunk(CLOSING) + END,
    STREAM_HEAD + chunk(delta(b"x" * 30_000)) * 40 + END,
    STREAM_HEAD + chunk(b": wait\n\n") + chunk(delta(b"Hi")) + chunk(FINISH) + END,
    STREAM_HEAD + b"".join(map(chunk, CLAUDE)) + END,
    STREAM_HEAD + b"".join(map(chunk, CLAUDE[:2])) + END,
    STREAM_HEAD + b"".join(map(chunk, RESPONSE_EVENTS)) + END,
    STREAM_HEAD + b"".join(map(chunk, RESPONSE_EVENTS[:-1])) + END,
    STREAM_HEAD + chunk(USAGE) + END,
    STREAM_HEAD + chunk(b": nothing\n\n") + END,
    STREAM_HEAD + chunk(b'data: {"error":{"message":"no"}}\n\n') + END,
    STREAM_HEAD + chunk(delta(b"Hi")) + b"zz\r\n",
    reply(ERROR, b"400 Bad"),
    reply(b"[1]", b"404 None"),
    reply(ERROR, b"401 Who"),
    reply(ERROR, b"429 Slow", b"retry-after: 3\r\n"),
    reply(ERROR, b"500 Oops"),
    reply(ERROR, b"529 Overloaded", b"retry-after: 1\r\n"),
    reply(b"x" * 90_000, b"503 Busy"),
    reply(ANSWER, headers=b"connection: close\r\n"),
    reply(ANSWER) + b"more",
    reply(b"<html>", headers=b""),
    reply(ERROR),
    reply(ANSWER, headers=b"content-encoding: gzip\r\n"),
    reply(ANSWER, headers=b"content-encoding: br\r\n"),
    reply(gzip.compress(ANSWER), headers=b"content-encoding: gzip\r\n"),
    reply(zlib.compress(b'{"x":"' + bytes(400_000)), headers=b"content-encoding: deflate\r\n"),
    STREAM_HEAD[:-2]
    + b"content-encoding: gzip\r\n\r\n"
    + chunk(gzip.compress(delta(b"x" * 30_000) * 20 + CLOSING))
    + END,
    reply(ANSWER, headers=b"transfer-encoding: chunked\r\n"),
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
    reply(b"moved", b"307 Temporary"),
    b"garbage\r\n\r\n",
    b"",
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with a few of them wrong, missing or doubled; in the head, most likely."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(min(len(data), rng.choice((60, 400, 1 << 20)))) if data else 0
        kind = rng.randrange(4)
        if kind == 0:
            data = data[:at] + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 2:
            data = (
                data[:at] + rng.choice((b"\r\n", b"\n", b"\x00", b" ", b"0", b"\xff")) + data[at:]
            )
        else:
            data = data[:at] + data[max(0, at - 20) :]
    return data


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """The same bytes in pieces."""
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 2, 4))))
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    return [piece for piece in pieces if piece]


@attrs.define(eq=False)
class Person:
    """A client, and what it is still going to send."""

    client: FakeClient
    pieces: list[bytes]
    left: bool = False
    stalled: bool = False


@attrs.define(eq=False)
class Answerer:
    """An upstream's end of a connection, and what it is still going to say."""

    connection: FakeConnection
    pieces: list[bytes]
    #: What it does when all is said: close, reset, or wait for the next request.
    afterwards: str


class Story:
    """One story; :meth:`play` tells it to its end.

    :cvar requests: what clients send.
    :cvar answers: what upstreams answer.
    :ivar crash: the next request that is put together for an upstream fails.
    :ivar crashes: how often that has happened.
    """

    requests: ClassVar[Sequence[bytes]] = REQUESTS
    answers: ClassVar[Sequence[bytes]] = ANSWERS

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        # Without a limit of tokens, with one that refuses many, and with one that refuses nobody.
        self.tpm = (0, 40, 10**9)[seed % 3]
        self.people: list[Person] = []
        self.answerers: dict[FakeConnection, Answerer] = {}
        self.crash = False
        self.crashes = 0
        self.version = 1
        self.plane = MemoryDataPlane(environ=ENVIRON, configured=False)
        self.plane.plane._random = random.Random(seed)
        self.plane.slow = self.rng.random() < 0.3
        self.install()

    def install(self) -> None:
        """Put a config in force; each differs a little from the one before."""
        changes: dict[str, Any] = {
            "cooldown_failures": self.rng.choice((1, 3)),
            "abandon": self.rng.choice(("read_on", "read_on", "cancel")),
        }
        self.plane.install(
            [
                route("small", ("u1", "a"), ("u2", "b"), ("c1", "c"), strategy="round_robin"),
            ],
            [upstream("u1", **changes), upstream("u2"), upstream("c1", "anthropic", **changes)],
            [key(rpm=self.rng.choice((0, 0, 5)), tpm=self.tpm)],
            version=str(self.version),
            capabilities=[
                Capabilities(upstream_api=self.rng.choice(("", "", "chat", "responses")))
            ],
        )
        self.version += 1

    def play(self) -> None:
        """Tell the story to its end."""
        often: list[Callable[[], object]] = [
            *[self.somebody_sends] * 4,
            *[self.somebody_answers] * 8,
            *[self.something_connects] * 2,
            self.somebody_comes,
        ]
        sometimes: list[Callable[[], object]] = [
            self.somebody_stalls,
            self.somebody_leaves,
            self.time_passes,
            self.time_passes,
        ]
        seldom: list[Callable[[], object]] = [self.install, self.something_fails]
        rng = self.rng
        trouble = rng.choice((0.02, 0.1, 0.3))
        self.somebody_comes()
        for _ in range(rng.randrange(5, 80)):
            if rng.random() > trouble:
                rng.choice(often)()
            else:
                rng.choice(sometimes if rng.random() < 0.9 else seldom)()
        self.end()

    def end(self) -> None:
        """Everybody falls silent, and time passes until nothing can happen any more."""
        self.crash = False
        if self.rng.random() < 0.7:
            # In most stories all that was begun is said to its end first.
            for _ in range(40):
                self.something_connects()
                self.somebody_answers()
        for _ in range(60):
            for connecting in self.plane.connecting:
                if not connecting.deferred.called:
                    connecting.fail()
            self.plane.clock.advance(self.rng.choice((1.0, 5.0, 16.0)))

    # -- the steps

    def somebody_comes(self) -> None:
        rng = self.rng
        data = b"".join(rng.choices(self.requests, k=rng.choice((1, 1, 1, 2, 3))))
        if rng.random() < 0.2:
            data += rng.choice(LAST_REQUESTS)
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data))]
        if rng.random() < 0.1:
            data = damaged(data, rng)
        if len(self.people) < 6:
            self.people.append(Person(self.plane.client(), cut(data, rng)))

    def somebody_sends(self) -> None:
        people = [p for p in self.people if p.pieces and not p.left]
        if people:
            person = self.rng.choice(people)
            person.client.send(person.pieces.pop(0))

    def somebody_leaves(self) -> None:
        people = [p for p in self.people if not p.left]
        if people:
            person = self.rng.choice(people)
            person.left = True
            person.client.leave(self.rng.choice((ConnectionDone, ConnectionLost)))

    def somebody_stalls(self) -> None:
        person = self.rng.choice(self.people)
        person.stalled = True
        if self.rng.random() < 0.5:
            person.client.stall(self.rng.choice((0, 100, 70_000)))
        else:
            person.client.take(self.rng.choice((100, 50_000, float("inf"))))

    def something_connects(self) -> None:
        waiting = [c for c in self.plane.connecting if not c.deferred.called]
        if waiting:
            connecting = self.rng.choice(waiting)
            fate = self.rng.random()
            if fate < 0.8:
                connecting.succeed()
            elif fate < 0.9:
                connecting.fail(ConnectionRefusedError())
            else:
                connecting.fail(UpstreamConnectError("too slow", "timeout"))

    def somebody_answers(self) -> None:
        rng = self.rng
        open_connections = [c for c in self.plane.opened if c.open]
        if not open_connections:
            return
        connection = rng.choice(open_connections)
        answerer = self.answerers.get(connection)
        if answerer is None or not (answerer.pieces or answerer.afterwards):
            if not connection.protocol.busy and rng.random() < 0.9:
                return
            answerer = self.answerers[connection] = self.make_answer(connection)
        if answerer.pieces:
            connection.answer(answerer.pieces.pop(0))
        elif answerer.afterwards == "close":
            connection.close(ConnectionDone)
        elif answerer.afterwards == "reset":
            connection.close(ConnectionLost)

    def make_answer(self, connection: FakeConnection) -> Answerer:
        rng = self.rng
        data = rng.choice(self.answers_to(connection))
        afterwards = rng.choice(("", "", "", "close"))
        if b"\r\ncontent-type: application/json\r\n\r\n" in data:
            afterwards = "close"
        if rng.random() < 0.1:
            data = damaged(data, rng)
        if rng.random() < 0.15:
            data = data[: rng.randrange(len(data) + 1)]
            afterwards = rng.choice(("close", "reset", "wait"))
        return Answerer(connection, cut(data, rng), afterwards)

    def answers_to(self, connection: FakeConnection) -> Sequence[bytes]:
        """What an upstream may answer on a connection."""
        return self.answers

    def time_passes(self) -> None:
        self.plane.clock.advance(self.rng.choice(PAUSES))

    def something_fails(self) -> None:
        self.crash = True
