"""An exception of ours at any step: one answer, one end, and nobody else is disturbed.

Each scene swaps one part for one that fails, plays a request into it, and puts the part back.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.gateway import attempt, attempt_account, exchange, outgoing, passed_attempt
from omnigate.gateway.long_passage import LongPassage
from omnigate.protocols import pool
from omnigate.protocols.relay import Relay, ShortAnswer
from tests.planes.memory import MemoryDataPlane, reply, request
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)


class InjectedError(Exception):
    """What a part that was swapped fails with."""


def fail(*arguments: Any, **options: Any) -> NoReturn:
    """Stand for any function."""
    raise InjectedError


def answering(*pieces: bytes) -> Callable[[MemoryDataPlane], None]:
    """The upstream says this, piece by piece, as long as it is listened to."""

    def play(plane: MemoryDataPlane) -> None:
        for connection in plane.busy:
            for piece in pieces:
                connection.answer(piece)

    return play


@attrs.frozen
class Scene:
    """A request, and what happens then."""

    name: str
    body: bytes
    then: Callable[[MemoryDataPlane], None]


WHOLE = Scene("a whole answer", CHAT, answering(reply(ANSWER)))
IN_TWO = Scene(
    "a whole answer in two reads", CHAT, answering(reply(ANSWER)[:-5], reply(ANSWER)[-5:])
)
REFUSED = Scene("an error of the caller's own", CHAT, answering(reply(ERROR, b"400 Bad")))
LONG = Scene(
    "an answer too long to be held",
    CHAT,
    answering(reply(b'{"choices":["' + b"x" * 70000 + b'"]}')),
)
STREAM = Scene(
    "a stream",
    CHAT_STREAM,
    answering(STREAM_HEAD, chunk(delta(b"Hi")), chunk(CLOSING), END),
)
UNKNOWN = Scene("a model that no route has", CHAT.replace(b"small", b"none"), answering())
BUSY = Scene("a target that is busy", CHAT, answering(reply(b"{}", b"503 Busy")))
PACKED = Scene(
    "a target whose answer cannot be read",
    CHAT,
    answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx"),
)
SILENT = Scene("a target that does not answer in time", CHAT, lambda plane: plane.advance(6))
LOST = Scene("a connection that is lost", CHAT, lambda plane: plane.busy[0].close())
ERROR_EVENT = Scene(
    "a stream that begins with an error",
    CHAT_STREAM,
    answering(STREAM_HEAD, chunk(b'data: {"error":{"message":"no"}}\n\n')),
)
EMPTY = Scene("a stream of nothing", CHAT_STREAM, answering(STREAM_HEAD, END))


class CrashTests(SynchronousTestCase):
    def play(
        self, owner: Any, name: str, scene: Scene, *, warm: bool = False, late: bool = False
    ) -> None:
        """Play a scene in which one part fails, and look at what is left.

        :param warm: there are idle connections to both upstreams.
        :param late: the part fails only after the request was sent to the first target.
        """
        told = f"{name} fails at {scene.name}; warm: {warm}"
        plane = two_targets()
        if warm:
            self.warm_up(plane)
        client, other = plane.client(), plane.client()
        before = len(plane.events) + len(plane.refused)
        if late:
            client.send(request(scene.body))
        patch = self.patch(owner, name, fail)
        if not late:
            client.send(request(scene.body))
        scene.then(plane)
        patch.restore()
        # The meter is asked once more at the end, and fails once more.
        self.assertEqual(
            2 if name == "settle" else 1, len(self.flushLoggedErrors(InjectedError)), told
        )
        self.assertEqual(1, len(plane.events) + len(plane.refused) - before, told)
        self.assertEqual((0, 0), (plane.in_flight, plane.plane.admission.memory_bytes), told)
        self.assertEqual(plane.lines[-1].request_id, plane.plane.exchanges[-1].id, told)
        self.assertEqual("internal_error", plane.lines[-1].error_code, told)
        [answer] = client.answers()
        if answer.status == 500:
            self.assertEqual((True, "internal_error"), (answer.whole, answer.code), told)
        else:
            self.assertFalse(answer.whole, told)
            self.assertEqual(499, plane.events[-1].status, told)
        self.assertFalse(client.open, told)
        self.assertEqual([], plane.busy, told)
        other.send(request(CHAT))
        plane.busy[0].answer(reply(ANSWER))
        self.assertEqual(200, other.answer.status, told)
        client.leave()
        other.leave()
        plane.advance(55)
        self.assertEqual(0, len(plane.watchdog), told)

    def warm_up(self, plane: MemoryDataPlane) -> None:
        """Leave an idle connection with either upstream."""
        first, second = plane.client(), plane.client()
        first.send(request(CHAT))
        plane.last.answer(reply(b"{}", b"503 Busy"))
        plane.last.answer(reply(ANSWER))
        second.send(request(CHAT))
        plane.opened[0].answer(reply(ANSWER))
        first.leave()
        second.leave()

    def test_before_anything_was_sent(self) -> None:
        """A part that fails before an upstream was asked makes a 500 and a refusal."""
        for owner, name, scene in (
            (exchange.Exchange, "_admit", WHOLE),
            (exchange, "scan_body", WHOLE),
            (exchange, "Forwarding", WHOLE),
            (exchange, "quoted", UNKNOWN),
        ):
            self.play(owner, name, scene)

    def test_on_the_way_to_an_upstream(self) -> None:
        """A part that fails once the walk has begun makes a 500 and a usage event."""
        for owner, name in (
            (pool.UpstreamPool, "open"),
            (outgoing, "splice_request"),
            (outgoing, "request_lines"),
            (outgoing, "asks_for_usage"),
        ):
            self.play(owner, name, WHOLE)
            if name != "open":
                self.play(owner, name, WHOLE, warm=True)

    def test_on_the_way_to_the_next(self) -> None:
        """So does one that fails on the way to the next target, whatever led there."""
        for scene in (BUSY, PACKED, SILENT, LOST, ERROR_EVENT, EMPTY):
            for warm in (False, True):
                self.play(outgoing, "splice_request", scene, warm=warm, late=True)

    def test_with_the_answer(self) -> None:
        """A part that fails at the answer makes a 500 as long as nothing was sent."""
        for owner, name, scene in (
            (attempt, "judge_status", BUSY),
            (attempt, "unrelayable", WHOLE),
            (passed_attempt, "is_stream", WHOLE),
            (attempt, "ShortAnswer", IN_TWO),
            (ShortAnswer, "answer_data", IN_TWO),
            (Meter, "whole", IN_TWO),
            (passed_attempt, "begins_object", LONG),
            (Meter, "whole", WHOLE),
            (Meter, "settle", WHOLE),
            (passed_attempt, "answer_lines", WHOLE),
            (passed_attempt, "wrap_error", REFUSED),
            (attempt_account, "retry_after_seconds", BUSY),
            (passed_attempt, "LongPassage", LONG),
            (LongPassage, "feed", LONG),
            (passed_attempt, "answer_lines", LONG),
            (passed_attempt, "StreamPassage", STREAM),
            (attempt, "Relay", STREAM),
            (StreamPassage, "feed", STREAM),
            (passed_attempt, "answer_lines", STREAM),
        ):
            self.play(owner, name, scene)
            self.play(owner, name, scene, warm=True)

    def test_in_a_stream(self) -> None:
        """A part that fails once something was sent breaks the answer off."""
        for owner, name in (
            (Meter, "settle"),
            (StreamPassage, "end"),
            (Relay, "answer_end"),
        ):
            self.play(owner, name, STREAM)
