"""Tests for whose turn it is: places at providers, and steps in a turn of the reactor."""

import attrs
from msgspec.structs import replace
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.alarms import Alarms
from omnigate.jobs.pace import Pace
from omnigate.jobs.provider_slots import ProviderSlots, address_of
from tests.jobs.runner.runner_case import OTHER_KEY, RunnerCase, target


class FairnessTests(RunnerCase):
    """Many jobs of one key, and one of another."""

    def setUp(self) -> None:
        super().setUp()
        self.media = attrs.evolve(self.media, max_running_per_provider=2)

    def test_keys_take_turns(self) -> None:
        """Whoever has put ten there first waits for no one, and lets nobody wait for ten."""
        many = [self.new_job() for _ in range(10)]
        one = self.new_job(key_sha256=OTHER_KEY)
        for _ in range(2):
            self.provider.say("done 1")
            self.turn()
        self.assertEqual(self.job(one).status, "running")
        self.assertEqual([self.job(job).status for job in many].count("queued"), 7)

    def test_a_place_is_given_up_with_the_job(self) -> None:
        """However it ends."""
        jobs = [self.new_job() for _ in range(6)]
        for word in ("done 1", "no", "limited", "done 1", "no", "done 1"):
            self.provider.say(word)
            self.turn()
        self.assertTrue(all(self.job(job).is_final for job in jobs))
        self.assertEqual((self.runner.running, len(self.provider.heard)), (0, 6))

    def test_the_next_target_is_waited_for_at_its_own_provider(self) -> None:
        """The place at the first one is free by then."""
        self.use(target("one"), target("two"))
        first, second, third = (self.new_job() for _ in range(3))
        self.provider.say("no")
        self.provider.say("no")
        self.turn()
        self.assertEqual(self.provider.heard[2:], ["two/submit", "two/submit", "one/submit"])
        self.provider.held.rotate(1)
        self.provider.say("no")  # the third at the first provider; the second one is full
        self.turn()
        self.assertEqual((len(self.provider.heard), self.outcomes(third)), (5, ["failed"]))
        self.provider.say("done 1")
        self.turn()
        self.assertEqual(self.provider.heard[5:], ["two/submit"])
        self.assertEqual(self.job(second).status, "running")
        self.assertEqual(self.job(first).status, "succeeded")

    def test_a_job_that_waits_for_the_next_target_can_be_canceled(self) -> None:
        """It has cost nothing so far."""
        self.use(target("one"), target("two"))
        jobs = [self.new_job() for _ in range(3)]
        self.provider.say("no")
        self.provider.say("no")
        self.turn()
        self.provider.held.rotate(1)
        self.provider.say("no")
        self.turn()
        job = self.cancel(jobs[2])
        self.assertEqual((job.status, self.outcomes(job)), ("canceled", ["failed"]))


class SlotTests(SynchronousTestCase):
    """The places alone."""

    def test_an_address_is_the_origin(self) -> None:
        """Whatever path a base URL has."""
        self.assertEqual(address_of("https://API.example:8443/v1"), "https://api.example:8443")

    def test_who_leaves_the_line_is_not_called(self) -> None:
        """And nothing is kept of an address where nobody is."""
        called: list[str] = []
        slots = ProviderSlots(lambda: 1)
        for name in ("a", "b", "c"):
            slots.put("x", "key", name, lambda name=name: called.append(name))  # type: ignore[misc]
        self.assertEqual((slots.at("a"), slots.waits_at("b"), slots.waiting), ("x", "x", 2))
        self.assertFalse(slots.put("x", "key", "a", lambda: None))
        slots.leave("b")
        slots.leave("a")
        self.assertEqual((called, slots.running("x")), (["a", "c"], 1))
        slots.leave("c")
        slots.leave("c")
        self.assertEqual((slots.running("x"), slots.at("c")), (0, ""))

    def test_more_places_are_taken_at_once(self) -> None:
        """With the next job that comes."""
        most = [1]
        called: list[str] = []
        slots = ProviderSlots(lambda: most[0])
        for name in ("a", "b"):
            slots.put("x", "key", name, lambda name=name: called.append(name))  # type: ignore[misc]
        most[0] = 3
        slots.put("x", "other", "c", lambda: called.append("c"))
        self.assertEqual(sorted(called), ["a", "b", "c"])


class ManyTests(RunnerCase):
    """Far more jobs than can run."""

    def test_thousands_that_wait_are_let_go_at_once(self) -> None:
        """Nobody is called by one who gives up a place that he was just given."""
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        jobs = [self.made_job() for _ in range(3_000)]
        for job in jobs:
            self.runner.run(job)
        self.turn()
        self.runner.abandon()
        self.assertEqual((self.runner.running, len(self.provider.heard)), (0, 1))
        self.wait(120)
        self.assertEqual(len(self.provider.heard), 1)

    def test_thousands_that_have_ended_are_passed_over(self) -> None:
        """They give their places up as they get them."""
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        first, *jobs = [self.made_job() for _ in range(3_000)]
        last = jobs.pop()
        for job in (first, *jobs, last):
            self.runner.run(job)
        self.turn()
        for job in jobs:
            self.shelf.put(replace(job, status="canceled"))
        self.provider.say("done 1")
        self.turn()
        self.assertEqual(self.job(first).status, "succeeded")
        self.assertEqual(self.job(last).status, "running")


class TurningClock(Clock):
    """A clock that turns as a reactor does: what is called later in a turn comes in the next."""

    def turn(self) -> None:
        """Run what is due."""
        due, self.calls = self.calls, []
        for call in due:
            call.called = 1
            call.func(*call.args, **call.kw)


def _noted(_: None, passed: list[int], number: int) -> None:
    passed.append(number)


class PaceTests(SynchronousTestCase):
    """The turnstile alone."""

    def test_a_few_get_on_in_each_turn(self) -> None:
        """In their order; who cancels leaves the line."""
        clock = TurningClock()
        passed: list[int] = []
        pace = Pace(clock, steps=2)
        waiting: list[Deferred[None]] = []
        for number in range(5):
            waiting.append(pace.turn())
            waiting[-1].addCallback(_noted, passed, number)
        waiting[1].cancel()
        self.failureResultOf(waiting[1], CancelledError)
        clock.turn()
        self.assertEqual(passed, [0, 2])
        clock.turn()
        self.assertEqual((passed, pace.waiting), ([0, 2, 3, 4], 0))
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_nobody_gets_on_after_a_stop(self) -> None:
        """Those in line wait for ever; whoever stopped it has ended them."""
        clock = Clock()
        pace = Pace(clock)
        waiting = pace.turn()
        pace.stop()
        clock.advance(0)
        self.assertNoResult(waiting)


class AlarmTests(SynchronousTestCase):
    """The waits alone."""

    def setUp(self) -> None:
        self.clock = TurningClock()
        self.alarms = Alarms(self.clock, per_turn=2)
        self.woken: list[int] = []

    def wait(self, number: int, seconds: float) -> Deferred[None]:
        waiting = self.alarms.after(seconds)
        return waiting.addCallback(_noted, self.woken, number)

    def test_a_few_wake_in_each_turn(self) -> None:
        """The soonest first, with one timer for all."""
        for number, seconds in enumerate((3, 1, 2, 1, 1)):
            self.wait(number, seconds)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.rightNow += 1
        self.clock.turn()
        self.assertEqual(self.woken, [1, 3])
        self.clock.turn()
        self.assertEqual(self.woken, [1, 3, 4])
        self.assertEqual(self.clock.getDelayedCalls()[0].getTime(), 2)
        self.clock.rightNow += 5
        self.clock.turn()
        self.assertEqual((self.woken, self.alarms.waiting), ([1, 3, 4, 2, 0], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_who_cancels_is_not_woken(self) -> None:
        """Nor is anybody else later for that; a sooner wait moves the timer."""
        first, _ = self.wait(0, 5), self.wait(1, 9)
        self.wait(2, 1)
        self.assertEqual(self.clock.getDelayedCalls()[0].getTime(), 1)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.clock.rightNow += 1
        self.clock.turn()
        self.assertEqual((self.woken, self.clock.getDelayedCalls()[0].getTime()), ([2], 9))

    def test_nobody_wakes_after_a_stop(self) -> None:
        """And no timer is left."""
        self.wait(0, 1)
        self.alarms.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.alarms.waiting), ([], 0))
