"""The providers of a run: each answer is planned in pieces, and what was said of it is counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.error import ConnectionDone, ConnectionLost

from omnigate.events import TokenCounts
from tests.planes.memory import FakeConnection, reply
from tests.planes.scenes import DONE, END, ERROR, FINISH, STREAM_HEAD, chunk, delta, event

if TYPE_CHECKING:
    import random

    from tests.simulation.world import World


@attrs.define(eq=False)
class Attempt:
    """One request as a provider got it, and what became of it.

    :ivar usage: what the provider counts for it, in the ledger's terms.
    :ivar pieces: what it is still going to say; each with whether its figures, and whether the end
        of the answer as the protocol has it, are in it.
    :ivar begun: something of a success was said.
    :ivar told: the figures were said, on a connection that was open.
    :ivar finished: the end was said, too.
    :ivar ended: it says nothing any more.
    """

    request_id: str
    upstream: str
    model: str
    connection: FakeConnection
    usage: TokenCounts
    pieces: list[tuple[bytes, bool, bool]]
    afterwards: str
    success: bool
    begun: bool = False
    told: bool = False
    finished: bool = False
    ended: bool = False
    ended_at_ms: int = 0


class Provider:
    """All upstreams.

    :ivar attempts: everything they were asked, oldest first.
    :ivar refusing: the upstreams that refuse connections.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: list[tuple[FakeConnection, list[int]]] = []
        self.attempts: list[Attempt] = []
        self.refusing: set[str] = set()
        self._open: list[Attempt] = []

    def connected(self, connection: FakeConnection) -> None:
        """Take a connection that the gateway opened."""
        self._connections.append((connection, [0]))

    def forget(self) -> None:
        """The gateway was killed: every connection is gone."""
        for attempt in self._open:
            attempt.ended = True
        self._open.clear()
        self._connections.clear()

    @property
    def busy(self) -> bool:
        """Whether something is still to be said."""
        self._drop_ended()
        return bool(self._open)

    def look(self) -> None:
        """Read what was asked since the last look."""
        for connection, seen in self._connections[:]:
            taken = len(connection.transport._taken)
            if taken > seen[0]:
                data = bytes(connection.transport._taken[seen[0] :])
                seen[0] = taken
                self._asked(connection, data)
            elif not connection.transport.connected:
                self._connections.remove((connection, seen))

    def _asked(self, connection: FakeConnection, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        asked = json.loads(body)
        receiver = connection.protocol._receiver
        request_id = receiver._exchange.id if receiver is not None else ""
        attempt = self._plan(connection, request_id, path, asked)
        self.attempts.append(attempt)
        self._open.append(attempt)
        self._world.note(
            f"{connection.upstream} is asked for {request_id} ({path},"
            f" {'streamed' if asked.get('stream') else 'whole'})"
        )

    def act(self) -> None:
        """One of the providers says something more."""
        self._drop_ended()
        if self._open:
            self._go_on(self._world.rng.choice(self._open))

    def finish(self) -> None:
        """Everything that was begun is said to its end."""
        self._drop_ended()
        for attempt in list(self._open):
            while not attempt.ended:
                self._go_on(attempt)

    def _drop_ended(self) -> None:
        for attempt in self._open:
            if not attempt.connection.open:
                attempt.ended = True
        self._open = [attempt for attempt in self._open if not attempt.ended]

    def _go_on(self, attempt: Attempt) -> None:
        connection = attempt.connection
        if not connection.open:
            attempt.ended = True
            return
        if attempt.pieces:
            data, told, finished = attempt.pieces.pop(0)
            # Before it is said: the gateway may drop the connection at the last byte of it.
            attempt.begun |= attempt.success
            attempt.told |= told
            attempt.finished |= finished
            attempt.ended_at_ms = self._world.wall_ms()
            self._world.note(f"{attempt.upstream} says {len(data)} bytes to {attempt.request_id}")
            connection.answer(data)
        elif attempt.afterwards == "silence":
            self._open.remove(attempt)
            attempt.ended = True
            return
        elif attempt.afterwards:
            self._world.note(f"{attempt.upstream} ends {attempt.request_id}'s connection")
            connection.close(ConnectionDone if attempt.afterwards == "close" else ConnectionLost)
        if not attempt.pieces and attempt.afterwards in ("", "keep"):
            attempt.ended = True

    # -- plans

    def _plan(
        self, connection: FakeConnection, request_id: str, path: str, asked: dict[str, Any]
    ) -> Attempt:
        rng = self._world.rng
        anthropic = path.endswith("/messages")
        usage = _usage(rng, anthropic)
        pieces = _answer(rng, path, bool(asked.get("stream")), usage)
        afterwards = rng.choice(("", "", "", "close"))
        success = True
        luck = rng.random()
        if luck < 0.12:
            success = False
            status = rng.choice((b"429 Slow", b"500 Oops", b"503 Busy", b"400 Bad"))
            pieces = [(reply(ERROR, status), False, False)]
        elif luck < 0.24 and len(pieces) > 1:
            pieces = pieces[: rng.randrange(len(pieces))]
            afterwards = rng.choice(("close", "reset", "silence"))
        elif luck < 0.27:
            pieces, afterwards = [], rng.choice(("close", "reset", "silence"))
        return Attempt(
            request_id,
            connection.upstream,
            asked["model"],
            connection,
            usage,
            pieces,
            afterwards,
            success,
        )


def _usage(rng: random.Random, anthropic: bool) -> TokenCounts:
    return TokenCounts(
        input_tokens=rng.randrange(1, 4000),
        cached_input_tokens=rng.choice((0, rng.randrange(3000))),
        cache_write_input_tokens=rng.choice((0, rng.randrange(2000))) if anthropic else 0,
        output_tokens=rng.randrange(1, 3000),
    )


def _chat_usage(usage: TokenCounts) -> dict[str, Any]:
    asked = usage.input_tokens + usage.cached_input_tokens
    return {
        "prompt_tokens": asked,
        "completion_tokens": usage.output_tokens,
        "total_tokens": asked + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
    }


def _messages_usage(usage: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "cache_creation_input_tokens": usage.cache_write_input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _answer(
    rng: random.Random, path: str, stream: bool, usage: TokenCounts
) -> list[tuple[bytes, bool, bool]]:
    """The pieces of a success."""
    if path.endswith("/messages"):
        return _messages_stream(rng, usage) if stream else _whole(rng, _message(usage))
    if path.endswith("/chat/completions"):
        return _chat_stream(rng, usage) if stream else _whole(rng, _completion(usage))
    raise ValueError(f"no provider answers {path}")


def _whole(rng: random.Random, answer: dict[str, Any]) -> list[tuple[bytes, bool, bool]]:
    data = reply(json.dumps(answer).encode())
    if rng.random() < 0.5:
        return [(data, True, True)]
    # The figures stand last, and are whole only with the second piece.
    at = rng.randrange(1, len(data) - 1)
    return [(data[:at], False, False), (data[at:], True, True)]


def _completion(usage: TokenCounts) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Hello"}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "vendor",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _chat_usage(usage),
    }


def _message(usage: TokenCounts) -> dict[str, Any]:
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "vendor",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": _messages_usage(usage),
    }


def _chat_stream(rng: random.Random, usage: TokenCounts) -> list[tuple[bytes, bool, bool]]:
    figures: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "choices": []}
    figures["usage"] = _chat_usage(usage)
    closing = b"data: %b\n\n" % json.dumps(figures).encode()
    events = [chunk(delta(b"word ")) for _ in range(rng.randrange(1, 5))]
    return [
        (STREAM_HEAD, False, False),
        *((data, False, False) for data in events),
        (chunk(FINISH), False, True),
        (chunk(closing), True, False),
        (chunk(DONE) + END, False, True),
    ]


def _messages_stream(rng: random.Random, usage: TokenCounts) -> list[tuple[bytes, bool, bool]]:
    opening = {**_message(usage), "content": [], "stop_reason": None}
    opening["usage"] = {**_messages_usage(usage), "output_tokens": 1}
    block = {"type": "text", "text": ""}
    words = {"type": "text_delta", "text": "word "}
    closing = {"stop_reason": "end_turn", "stop_sequence": None}
    counted = {"output_tokens": usage.output_tokens}
    return [
        (STREAM_HEAD + chunk(event(type="message_start", message=opening)), False, False),
        (chunk(event(type="content_block_start", index=0, content_block=block)), False, False),
        *(
            (chunk(event(type="content_block_delta", index=0, delta=words)), False, False)
            for _ in range(rng.randrange(1, 4))
        ),
        (chunk(event(type="content_block_stop", index=0)), False, False),
        (chunk(event(type="message_delta", delta=closing, usage=counted)), True, False),
        (chunk(event(type="message_stop")) + END, False, True),
    ]
