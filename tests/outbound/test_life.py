"""Any order of requests, words of peers, breaks, pauses, time and cancels: all ends, once."""

from __future__ import annotations

import re
from typing import Any

import attrs
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import booleans, data, sampled_from
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.connections import MAX_CLOSING
from omnigate.outbound.messages import Answer, Request
from tests.outbound.network import MemorySink, Network, Peer

WORDS = sampled_from(
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: https://b.example/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: https://private.example/\r\n\r\n",
        b"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"abc",
    ]
)
TOLD = re.compile(r"(begin( finish)?( abandon)?)?").fullmatch


@attrs.define(eq=False)
class Begun:
    """A request, and what came of it."""

    work: Deferred[Any]
    sink: MemorySink
    ends: list[object] = attrs.Factory(list)

    def ended(self, result: object) -> None:
        self.ends.append(result)


class Life(RuleBasedStateMachine):
    """One client, and peers that do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network(
            {"a.example": ["8.8.8.8"], "b.example": ["1.1.1.1"], "private.example": ["10.0.0.1"]}
        )
        self.outbound = self.network.outbound()
        self.begun: list[Begun] = []

    @initialize(slow=booleans())
    def pace(self, slow: bool) -> None:
        self.network.slow = slow

    def begin(self, kind: str, sink: MemorySink, size: int = 0) -> Deferred[Answer]:
        url = "https://a.example/x"
        if kind == "fetch":
            work: Any = self.outbound.fetch(url, 10, sink)
        elif kind == "webhook":
            work = self.outbound.post_guarded(Request("POST", url, (), b"{}"), allow_http=False)
        elif kind == "post":
            work = self.outbound.call(Request("POST", url, (), b"x" * 200_000), 10, sink)
        else:
            work = self.outbound.call(Request("GET", url), 10, sink)
        return Deferred.fromCoroutine(work)

    @rule(kind=sampled_from(["get", "get", "post", "fetch", "webhook"]), late=booleans())
    def ask(self, kind: str, late: bool) -> None:
        sink = MemorySink()
        if late:
            sink.done = Deferred()
        begun = Begun(self.begin(kind, sink), sink)
        begun.work.addBoth(begun.ended)
        self.begun.append(begun)

    @rule(seconds=sampled_from([0, 0, 0, 1, 5, 14, 29, 31, 70]))
    def wait(self, seconds: float) -> None:
        self.network.clock.advance(seconds)
        self.network.turn()

    def a_peer(self, source: Any) -> Peer:
        return source.draw(sampled_from(self.network.peers[-4:]))  # type: ignore[no-any-return]

    @precondition(lambda self: self.network.peers)
    @rule(source=data(), words=WORDS)
    def say(self, source: Any, words: bytes) -> None:
        peer = self.a_peer(source)
        if peer.open and not peer.paused:
            peer.says(words)

    @precondition(lambda self: self.network.peers)
    @rule(source=data(), clean=booleans())
    def close_one(self, source: Any, clean: bool) -> None:
        self.a_peer(source).closes(clean=clean)

    @precondition(lambda self: self.network.peers)
    @rule(source=data())
    def take(self, source: Any) -> None:
        producer = self.a_peer(source).wire.producer
        if producer is not None:
            producer.resumeProducing()

    @precondition(lambda self: self.begun)
    @rule(source=data(), act=sampled_from(["pause", "resume", "kept", "full", "cancel"]))
    def sinks_and_callers(self, source: Any, act: str) -> None:
        begun = source.draw(sampled_from(self.begun[-4:]))
        sink = begun.sink
        if act == "cancel":
            begun.work.cancel()
        elif act in ("pause", "resume"):
            if sink.source is not None:
                getattr(sink.source, act)()
        elif sink.done is not None and not sink.done.called and "finish" in sink.told:
            if act == "kept":
                sink.done.callback(None)
            else:
                sink.done.errback(OSError(28, "full"))

    @invariant()
    def told_in_order(self) -> None:
        for begun in self.begun:
            assert TOLD(" ".join(begun.sink.told)), begun.sink.told
            assert len(begun.ends) <= 1
            for end in begun.ends:
                if isinstance(end, Failure):
                    assert end.check(CancelledError), end
                else:
                    assert isinstance(end, Answer)
                    # A sink has all of the body, or was told to throw it away.
                    if begun.sink.told and end.ok:
                        assert begun.sink.told[-1] == "finish"
                    elif begun.sink.told:
                        assert begun.sink.told[-1] == "abandon"

    @invariant()
    def never_to_a_private_address(self) -> None:
        assert all(peer.address.number != "10.0.0.1" for peer in self.network.peers)

    def teardown(self) -> None:
        """All ends with time alone; what is open then is idle, and closed at last."""
        for peer in self.network.peers:
            peer.wire.stubborn = True
        for _ in range(12):
            self.network.clock.advance(30)
            self.network.turn()
        assert all(len(begun.ends) == 1 for begun in self.begun)
        dispatch = self.outbound._dispatch
        assert (dispatch._turns.taken, dispatch._turns.waiting) == (0, 0)
        assert len(dispatch.connections) <= MAX_CLOSING
        closed = Deferred.fromCoroutine(self.outbound.close())
        self.network.turn()
        assert closed.called
        assert not any(peer.open for peer in self.network.peers)
        assert self.network.clock.getDelayedCalls() == []
        self.told_in_order()


class LifeTests(SynchronousTestCase):
    def test_any_order(self) -> None:
        """Whatever happens, every request ends once, and nothing is left."""
        limits = settings(deadline=None, max_examples=60, stateful_step_count=40)
        run_state_machine_as_test(Life, settings=limits)
