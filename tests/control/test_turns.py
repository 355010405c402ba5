"""The line of work for people."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.turns import MAX_BEGUN, Turns


class TurnsTests(SynchronousTestCase):
    """Who gets on in which turn of the reactor."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.turns = Turns(self.clock)
        self.told: list[str] = []

    async def work(self, who: str, steps: int) -> None:
        """Do some work, and say each step."""
        await self.turns.begin(who)
        self.told.append(f"{who} begins")
        for _ in range(steps):
            await self.turns.go_on()
            self.told.append(who)

    def start(self, who: str, steps: int = 0) -> None:
        """Begin some work."""
        Deferred.fromCoroutine(self.work(who, steps))

    def turn(self) -> list[str]:
        """Let the reactor have a turn; return what was done in it.

        A reactor calls what was there when the turn began; Twisted's clock goes on with the rest.
        """
        self.told.clear()
        calls: list[Any] = list(self.clock.getDelayedCalls())
        for call in calls:
            func, args = call.func, call.args
            call.cancel()
            func(*args)
        return list(self.told)

    def test_one_step_a_turn(self) -> None:
        """However many stand in line, a turn is one step, until the last one is done."""
        for _ in range(20):
            self.start("a", 3)
        done = 0
        while self.turns.waiting:
            self.assertEqual(len(self.turn()), 1)
            done += 1
        self.assertEqual(done, 20 * 4)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_people_take_turns(self) -> None:
        """Who asks for one thing does not wait for all that somebody else has asked for before."""
        for _ in range(50):
            self.start("many")
        self.start("one")
        self.start("another")
        self.assertEqual([self.turn()[0] for _ in range(4)][1:3], ["one begins", "another begins"])

    def test_few_are_half_done(self) -> None:
        """What has begun goes on before more begins than may stand in line half done."""
        began = ended = 0
        for number in range(100):
            self.start(str(number), 9)
        steps: dict[str, int] = {}
        while self.turns.waiting:
            [told] = self.turn()
            who, _, is_new = told.partition(" ")
            steps[who] = steps.get(who, 0) + 1
            began += bool(is_new)
            ended += steps[who] == 10
            self.assertLessEqual(began - ended, MAX_BEGUN)
        self.assertEqual((began, ended), (100, 100))

    def test_new_work_begins(self) -> None:
        """Work of many steps keeps nobody from beginning."""
        self.start("long", 1000)
        self.turn()
        self.start("short")
        self.assertIn(["short begins"], [self.turn(), self.turn()])

    def test_a_step_that_breaks(self) -> None:
        """The others get on."""
        broken = self.turns.begin("a").addCallback(lambda _: 1 // 0)
        left = self.turns.begin("b")
        left.cancel()
        self.start("c")
        self.clock.advance(0)
        self.failureResultOf(broken, ZeroDivisionError)
        self.failureResultOf(left, CancelledError)
        self.assertEqual(self.told, ["c begins"])
