"""Tests for omnigate.jobs.provider_line: caps, files for media, connections that are not free."""

from __future__ import annotations

import base64
import json
from collections import deque
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import MediaConfig
from omnigate.jobs.incoming import Incoming
from omnigate.jobs.provider_line import (
    MAX_API_BYTES,
    MAX_INLINE_BYTES,
    ProviderLine,
    inline_bytes,
)
from omnigate.jobs.turn_budget import BudgetSink, TurnBudget
from omnigate.outbound.messages import NO_TURN, TRUNCATED, Answer, Cap, Request, Sink
from tests.jobs.outputs_case import JOB, PNG, OutputsTestCase
from tests.outbound.network import MemorySink


class Source:
    """Nothing is slowed down here."""

    def pause(self) -> None:
        """Go on."""

    def resume(self) -> None:
        """Go on."""


class Caller:
    """Answers with what a test gives it; the body of a 2xx goes into the sink."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.caps: list[int] = []

    async def call(self, request: Request, max_bytes: int, sink: Sink | None = None) -> Answer:
        """Answer."""
        self.caps.append(max_bytes)
        answer = self.answers.popleft()
        if sink is None or not answer.ok:
            return answer
        sink.begin(Source())
        sink.write(answer.body)
        await sink.finish()
        return attrs.evolve(answer, body=b"")


class LineTests(OutputsTestCase):
    """Requests of an adapter."""

    def setUp(self) -> None:
        super().setUp()
        self.caller = Caller()
        self.paused: list[float] = []
        self.media = MediaConfig(max_output_bytes=1_000_000)

        def pause(seconds: float) -> Deferred[None]:
            self.paused.append(seconds)
            return succeed(None)

        incoming: Incoming = self.outputs.incoming
        budget = TurnBudget(Clock())
        self.line = ProviderLine(self.caller, incoming, lambda: self.media, pause, budget)

    def ask(self, cap: Cap, *answers: Answer) -> Answer:
        self.caller.answers.extend(answers)
        request = Request("GET", "https://api.example.com/x", cap=cap)
        return self.successResultOf(Deferred.fromCoroutine(self.line.send(JOB, request)))

    def test_what_an_interface_says_is_short(self) -> None:
        """It comes as it is."""
        answer = self.ask(Cap.API, Answer(200, body=b"{}"))
        self.assertEqual((answer.body, self.caller.caps), (b"{}", [MAX_API_BYTES]))

    def test_media_in_json_go_into_files(self) -> None:
        """A marker stands in their place."""
        content = PNG * 400
        body: dict[str, Any] = {"b64": base64.b64encode(content).decode(), "n": 1}
        answer = self.ask(Cap.INLINE, Answer(200, body=json.dumps(body).encode()))
        told = json.loads(answer.body)
        self.assertEqual(told["n"], 1)
        kept = answer.media[told["b64"]]
        self.assertEqual((kept.size, self.disk.contents()[kept.path]), (len(content), content))
        self.assertEqual(self.caller.caps, [inline_bytes(self.media)])

    def test_a_body_that_is_the_media_goes_into_a_file(self) -> None:
        """Of at most the size that the config allows."""
        answer = self.ask(Cap.OUTPUT, Answer(200, body=PNG))
        assert answer.kept is not None
        self.assertEqual(self.disk.contents()[answer.kept.path], PNG)
        self.assertEqual(self.caller.caps, [1_000_000])

    def test_a_refusal_is_passed_on(self) -> None:
        """So is what broke."""
        for cap in Cap:
            self.assertEqual(self.ask(cap, Answer(429, body=b"no")).body, b"no")
            self.assertEqual(self.ask(cap, Answer(200, fault=TRUNCATED)).fault, TRUNCATED)

    def test_a_connection_that_is_not_free_is_waited_for(self) -> None:
        """Nothing was sent, so it is no second submit."""
        busy = Answer(0, fault=NO_TURN)
        answer = self.ask(Cap.API, busy, busy, Answer(200, body=b"{}"))
        self.assertEqual((answer.status, len(self.caller.caps), len(self.paused)), (200, 3, 2))

    def test_no_answer_with_media_is_longer_than_the_most(self) -> None:
        """Base64 is a third longer than what it holds."""
        self.assertEqual(inline_bytes(MediaConfig(max_output_bytes=3)), 4 + 65_536)
        self.assertEqual(inline_bytes(MediaConfig()), MAX_INLINE_BYTES)


class Tap:
    """A source that knows whether it runs."""

    def __init__(self) -> None:
        self.runs = True

    def pause(self) -> None:
        self.runs = False

    def resume(self) -> None:
        self.runs = True


class BudgetTests(SynchronousTestCase):
    """What many bodies may take of a turn."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.budget = TurnBudget(self.clock, most=100)

    def body(self) -> tuple[Tap, BudgetSink, MemorySink]:
        """A body that has begun."""
        tap, behind = Tap(), MemorySink()
        sink = BudgetSink(behind, self.budget)
        sink.begin(tap)
        return tap, sink, behind

    def test_all_wait_for_the_next_turn_once_it_is_spent(self) -> None:
        """Whoever has spent it; one that begins then waits, too."""
        (first, one, behind), (second, _, _) = self.body(), self.body()
        one.write(b"x" * 99)
        self.assertEqual((first.runs, second.runs), (True, True))
        one.write(b"yy")
        third, _, _ = self.body()
        self.assertEqual((first.runs, second.runs, third.runs), (False, False, False))
        self.assertEqual(len(behind.content), 101)
        self.clock.advance(0)
        self.assertEqual((first.runs, second.runs, third.runs), (True, True, True))
        one.write(b"z" * 99)
        self.assertTrue(first.runs)

    def test_a_disk_that_is_behind_keeps_its_own_waiting(self) -> None:
        """The next turn does not let it go."""
        (slow, _, behind), (other, one, _) = self.body(), self.body()
        assert behind.source is not None
        behind.source.pause()
        one.write(b"x" * 100)
        self.clock.advance(0)
        self.assertEqual((slow.runs, other.runs), (False, True))
        behind.source.resume()
        self.assertTrue(slow.runs)

    def test_what_has_ended_takes_no_part(self) -> None:
        """It is neither paused nor resumed."""
        (first, one, behind), (second, two, gone), (_, three, _) = (self.body() for _ in range(3))
        self.successResultOf(one.finish())
        two.abandon()
        first.runs = second.runs = True
        three.write(b"x" * 100)
        self.assertEqual((first.runs, second.runs), (True, True))
        self.assertEqual((behind.told[-1], gone.told[-1]), ("finish", "abandon"))

    def test_what_was_read_already_is_taken_in_later_turns(self) -> None:
        """In turn; the end of a body waits for it, and nobody is passed over for ever."""
        bodies = [self.body() for _ in range(4)]
        for _, sink, _ in bodies:
            sink.write(b"x" * 100)
        ends = [sink.finish() for _, sink, _ in bodies[1:]]
        self.assertEqual([len(behind.content) for _, _, behind in bodies], [100, 0, 0, 0])
        self.turn()
        bodies[0][1].write(b"y" * 100)
        self.assertEqual([len(behind.content) for _, _, behind in bodies], [100, 100, 0, 0])
        self.turn()
        self.turn()
        self.assertEqual([len(behind.content) for _, _, behind in bodies], [100, 100, 100, 100])
        for end in ends:
            self.successResultOf(end)
        self.turn()
        self.assertEqual(len(bodies[0][2].content), 200)
        self.turn()
        self.assertTrue(bodies[0][0].runs)

    def test_what_is_refused_later_is_told_at_the_end(self) -> None:
        """Or with the next piece."""
        (_, one, _), (_, two, refusing), (_, three, alike) = (self.body() for _ in range(3))
        refusing.refuses = alike.refuses = OSError("full")
        one.write(b"x" * 100)
        two.write(b"x")
        three.write(b"x")
        end = two.finish()
        self.turn()
        self.turn()
        self.assertEqual(str(self.failureResultOf(end, OSError).value), "full")
        self.assertRaises(OSError, three.write, b"y")
        self.failureResultOf(three.finish(), OSError)

    def test_what_is_abandoned_is_forgotten(self) -> None:
        """Also what was kept of it."""
        (_, one, _), (_, two, gone) = self.body(), self.body()
        one.write(b"x" * 100)
        two.write(b"x")
        end = two.finish()
        two.abandon()
        self.turn()
        self.assertEqual((gone.content, gone.told[-1]), (b"", "abandon"))
        self.assertNoResult(end)

    def turn(self) -> None:
        """One turn of the reactor, in which nobody calls later once more."""
        due, self.clock.calls = self.clock.calls, []
        for call in due:
            call.called = 1
            call.func(*call.args, **call.kw)
