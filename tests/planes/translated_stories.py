"""Random stories in which clients and upstreams speak different protocols.

Clients of all three protocols ask a model that is served in turns by upstreams of all three, so
that some exchanges are translated one way, some another, and some not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import SnapshotRoute, SnapshotTarget
from tests.planes.memory import SECRET, FakeConnection, key, reply, request, upstream
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    END,
    ERROR,
    MESSAGE,
    MESSAGES,
    MESSAGES_STREAM,
    RESPONSE,
    RESPONSES,
    RESPONSES_STREAM,
    STREAM_HEAD,
    chunk,
)
from tests.planes.stories import FILLER, Story
from tests.planes.test_translated_streams import UPSTREAMS

COOLER = b'"temperature":0.5,'

REQUESTS = (
    request(CHAT),
    request(CHAT_STREAM),
    request(CHAT_STREAM),
    request(MESSAGES, b"/v1/messages"),
    request(MESSAGES_STREAM, b"/v1/messages"),
    request(RESPONSES, b"/v1/responses"),
    request(RESPONSES_STREAM, b"/v1/responses"),
    request(b"{" + COOLER + CHAT[1:]),
    request(b"{" + COOLER + MESSAGES[1:], b"/v1/messages"),
    request(b"{" + COOLER + RESPONSES_STREAM[1:], b"/v1/responses"),
    request(b"{" + FILLER + CHAT[1:]),
    request(b"{" + FILLER + MESSAGES_STREAM[1:], b"/v1/messages"),
    request(CHAT[:-1] + b',"n":2}'),
    request(RESPONSES[:-1] + b',"background":true}', b"/v1/responses"),
    request(MESSAGES.replace(b'"Hi"', b"[5]"), b"/v1/messages"),
)

COOL = b'{"error":{"message":"temperature is not supported with this model"}}'
TOLD = ERROR.replace(b"too busy", b"you sent " + SECRET.encode())
LONG_TEXT = b"x" * 80_000
WHOLE = {
    b"/v1/chat/completions": ANSWER,
    b"/v1/responses": RESPONSE,
    b"/v1/messages": MESSAGE,
}
STREAMS = dict(zip(WHOLE, [events for _, _, events in UPSTREAMS.values()], strict=True))


def streamed(events: Sequence[bytes], end: bytes = END) -> bytes:
    """An answer that is an event stream."""
    return STREAM_HEAD + b"".join(map(chunk, events)) + end


def fitting(path: bytes) -> tuple[bytes, ...]:
    """Answers of the protocol that an upstream is asked in at this path."""
    whole, events = WHOLE[path], STREAMS[path]
    secret = SECRET.encode()
    return (
        *[reply(whole)] * 2,
        *[reply(whole.replace(b"Hello", LONG_TEXT))] * 2,
        reply(whole.replace(b"Hello", LONG_TEXT + secret + rb"\u0073" + secret[1:])),
        reply(whole.replace(b"Hello", secret * 3)),
        *[streamed(events)] * 4,
        streamed(events[:-1]),
        streamed(events[:4], b""),
        streamed(events[:4], b"zz\r\n"),
        streamed([b"".join(events).replace(b"Hel", LONG_TEXT)]),
        streamed([event.replace(b"Hel", secret) for event in events]),
        streamed([event.replace(b"Hel", b"x" * 30_000) for event in events[:4]] * 12),
        streamed([*events[:4], b"event: error\ndata: %b\n\n" % TOLD]),
        streamed([*events[:4], b"data: {]\n\n"]),
        streamed([b"event: error\ndata: %b\n\n" % TOLD]),
        *[reply(COOL, b"400 Bad")] * 2,
        reply(TOLD, b"400 Bad"),
    )


FITTING = {path: fitting(path) for path in WHOLE}


class TranslatedStory(Story):
    """A story of clients whose protocol the upstreams may not speak."""

    requests: ClassVar = REQUESTS

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.waiting: list[Callable[[], None]] = []
        self.call_soon = self.plane.watchdog.call_soon
        self.plane.watchdog.call_soon = self.put_off  # type: ignore[method-assign]
        self.plane.watchdog.call_next = self.put_off  # type: ignore[method-assign]
        # In some stories there is little room to hold answers.
        self.plane.plane.held.limit = self.rng.choice((20_000, 100_000, 1 << 26, 1 << 26))

    def put_off(self, call: Callable[[], None]) -> None:
        """Somebody asks for a turn; it may be long in coming."""
        if self.rng.random() < 0.5:
            self.waiting.append(call)
        else:
            self.call_soon(call)

    def a_turn_comes(self) -> None:
        """Somebody has the turn that was waited for."""
        if self.waiting:
            self.call_soon(self.waiting.pop(0))
            self.plane.turn()

    def something_connects(self) -> None:
        """A connection comes about, or a turn."""
        self.a_turn_comes()
        super().something_connects()

    def end(self) -> None:
        """Everybody falls silent; whoever waits for a turn has it."""
        self.plane.watchdog.call_soon = self.call_soon  # type: ignore[method-assign]
        self.plane.watchdog.call_next = self.call_soon  # type: ignore[method-assign]
        while self.waiting:
            self.a_turn_comes()
        super().end()

    def install(self) -> None:
        """Put a config in force."""
        changes: dict[str, Any] = {
            "cooldown_failures": self.rng.choice((1, 3)),
            "abandon": self.rng.choice(("read_on", "read_on", "cancel")),
        }
        targets = [("u1", 0), ("c1", 0), ("u1", 1), ("c2", 0)]
        self.rng.shuffle(targets)
        route = SnapshotRoute(
            model="small",
            strategy="round_robin",
            cache_ttl_s=0,
            targets=tuple(SnapshotTarget(name, f"m{caps}", 1, caps) for name, caps in targets),
        )
        self.plane.install(
            [route],
            [
                upstream("u1", **changes),
                upstream("c1", "anthropic", **changes),
                upstream("c2", "anthropic"),
            ],
            [key(rpm=self.rng.choice((0, 0, 5)), tpm=self.tpm)],
            version=str(self.version),
            capabilities=(Capabilities(), Capabilities(upstream_api="responses")),
        )
        self.version += 1

    def somebody_sends(self) -> None:
        """Somebody sends; what is put off to another turn may have to wait for it."""
        people = [p for p in self.people if p.pieces and not p.left]
        if not people:
            return
        person = self.rng.choice(people)
        if self.rng.random() < 0.5:
            person.client.send(person.pieces.pop(0))
        else:
            person.client.transport.peer_sends(person.pieces.pop(0))

    def answers_to(self, connection: FakeConnection) -> Sequence[bytes]:
        """What may be answered: in most cases something of the protocol that was asked in."""
        path = connection.requests().rpartition(b"POST ")[2].split(b" ")[0]
        if path in FITTING and self.rng.random() < 0.8:
            return FITTING[path]
        return self.rng.choice((self.answers, *FITTING.values()))
