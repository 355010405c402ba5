"""Whole answers that are translated in turns of their own, and what may happen in between."""

from collections.abc import Callable

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.strike import LongStriker
from omnigate.dialects.translate import Translator
from omnigate.gateway.answer_steps import TURNS_FROM_BYTES
from tests.planes.memory import SECRET, FakeClient, MemoryDataPlane, reply, request, upstream
from tests.planes.scenes import CHAT, CHAT_STREAM, MESSAGE

LENGTH = 3 * TURNS_FROM_BYTES
LONG = MESSAGE.replace(b"Hello", b"x" * LENGTH)
TOLD_IN_TURNS = 7
"""One for the cost, to read and to write, and one for each megabyte that is looked through."""


class InjectedError(Exception):
    """A fault of ours."""


class LongAnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")])
        self.waiting: list[Callable[[], None]] = []
        self.patch(self.plane.watchdog, "call_soon", self.waiting.append)
        self.patch(self.plane.watchdog, "call_next", lambda call: self.waiting.insert(0, call))

    def ask(self, answer: bytes = LONG, body: bytes = CHAT) -> FakeClient:
        """Ask, and be answered up to the first turn that has to be waited for."""
        client = self.plane.client()
        client.send(request(body))
        self.plane.last.answer(reply(answer))
        return client

    def turn(self) -> None:
        self.waiting.pop(0)()
        self.plane.turn()

    def check_given_back(self) -> None:
        plane = self.plane.plane
        self.assertEqual(0, self.plane.in_flight)
        self.assertEqual(0, plane.held.bytes)
        self.assertEqual(0, plane.parse_memory.bytes)

    def test_turns(self) -> None:
        """Each step has its turn; what it holds is counted in between."""
        client = self.ask()
        turns = 0
        while self.waiting:
            self.assertEqual(b"", client.received())
            self.assertLess(LENGTH, self.plane.plane.held.bytes)
            self.assertEqual(turns in (1, 2), self.plane.plane.parse_memory.bytes > 0)
            self.turn()
            turns += 1
        self.assertEqual(TOLD_IN_TURNS, turns)
        [choice] = client.answer.json["choices"]
        self.assertEqual("x" * LENGTH, choice["message"]["content"])
        self.assertEqual(["ok"], self.plane.outcomes)
        self.check_given_back()

    def test_as_a_stream(self) -> None:
        """So where the client asked for a stream."""
        client = self.ask(body=CHAT_STREAM)
        while self.waiting:
            self.turn()
        self.assertEqual(200, client.answer.status)
        self.assertTrue(client.answer.body.endswith(b"data: [DONE]\n\n"))
        self.check_given_back()

    def test_others(self) -> None:
        """Others are answered between two turns."""
        first, second = self.ask(), self.ask()
        self.ask(MESSAGE)
        self.assertEqual([200], [event.status for event in self.plane.events])
        rooms = set()
        while self.waiting:
            rooms.add(self.plane.plane.parse_memory.bytes)
            self.turn()
        # One is read when another is written, so that they need no more room together.
        self.assertEqual(2, len(rooms))
        for client in (first, second):
            self.assertEqual(200, client.answer.status)
        self.check_given_back()

    def test_leaves(self) -> None:
        """A client that leaves before any of its turns pays what the answer used."""
        for turns in range(TOLD_IN_TURNS):
            client = self.ask()
            for _ in range(turns):
                self.turn()
            client.leave(ConnectionLost)
            event = self.plane.events.pop()
            self.assertEqual([], self.plane.events)
            self.assertEqual(
                (499, 9, 3, False, ["canceled"]),
                (
                    event.status,
                    event.input_tokens,
                    event.output_tokens,
                    event.estimated,
                    [attempt.outcome for attempt in event.attempts],
                ),
            )
            self.check_given_back()
            self.turn()
            self.assertEqual([], self.waiting)
            self.assertEqual([], self.plane.events)

    def test_stops(self) -> None:
        """The gateway stops in the middle: connections are dropped, and no turn comes any more."""
        for turns in range(TOLD_IN_TURNS):
            client = self.ask()
            for _ in range(turns):
                self.turn()
            client.transport.abortConnection()
            self.plane.turn()
            self.assertEqual(499, self.plane.events.pop().status)
            self.waiting.clear()
            self.check_given_back()

    def test_fails(self) -> None:
        """A step that fails is told and paid like all else that fails."""

        def failing(*arguments: object) -> bytes:
            raise InjectedError

        for owner, name in (
            (Translator, "read"),
            (Translator, "write"),
            (LongStriker, "step"),
            (LongStriker, "end"),
        ):
            patch = self.patch(owner, name, failing)
            client = self.ask()
            while self.waiting:
                self.turn()
            patch.restore()
            self.assertEqual(1, len(self.flushLoggedErrors(InjectedError)))
            self.assertEqual(500, client.answer.status)
            event = self.plane.events.pop()
            self.assertEqual((500, 9, 3), (event.status, event.input_tokens, event.output_tokens))
            self.assertEqual([], self.plane.events)
            self.assertEqual(0, self.plane.plane.parse_memory.bytes)

    def test_no_room(self) -> None:
        """Room to read is looked for when the turn has come."""
        client = self.ask()
        memory = self.plane.plane.parse_memory
        memory.bytes = memory.budget_bytes
        self.turn()
        self.assertEqual([], self.waiting)
        self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
        self.assertEqual(["no_room"], self.plane.outcomes)
        self.assertEqual(3, self.plane.events[0].output_tokens)

    def test_no_answer(self) -> None:
        """What turns out to be none is a failed attempt."""
        client = self.ask(LONG.replace(b'"stop_reason"', b'"stopped"'))
        self.turn()
        self.turn()
        self.assertEqual([], self.waiting)
        self.assertEqual(502, client.answer.status)
        self.assertEqual(["wrong_shape"], self.plane.outcomes)
        self.check_given_back()

    def test_secret(self) -> None:
        """The credential is struck out however it is spelled, and wherever it is cut."""
        secret = SECRET.encode()
        text = b'{"type":"text","text":"%b"}'
        spelled = b"\\u0073" + secret[1:]
        for content in (
            text % (b"x" * LENGTH + secret),
            text % (secret + b"x" * LENGTH),
            text % (b"x" * LENGTH + spelled),
            text % (b"x" * LENGTH + secret[:9]) + b"," + text % (secret[9:] + b"x"),
            *[
                text % (b"x" * (TURNS_FROM_BYTES - before) + spelled + b"x" * LENGTH)
                for before in range(150, 250, 7)
            ],
        ):
            client = self.ask(MESSAGE.replace(text % b"Hello", content))
            while self.waiting:
                self.turn()
            self.assertEqual(200, client.answer.status)
            self.assertNotIn(secret, client.received())
            self.assertIn(b"x[redacted]", b"x" + client.received().partition(b'content":"')[2])
            self.check_given_back()
