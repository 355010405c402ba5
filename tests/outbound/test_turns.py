"""Turns: bounds, order, and who stops waiting."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import data, sampled_from
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.turns import GIVEN_AT_ONCE, TooManyWaitingError, Turns


class TurnsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.order: list[str] = []

    def turns(self, *bounds: int) -> Turns:
        return Turns(self.calls.append, *bounds)

    def wait(self, turns: Turns, server: str, name: str) -> Deferred[None]:
        turn = turns.take(server)
        turn.addCallback(lambda _: self.order.append(name))
        return turn

    def turn(self) -> None:
        calls, self.calls[:] = self.calls[:], []
        for call in calls:
            call()

    def test_few_at_once(self) -> None:
        """Many are spread over turns of the reactor."""
        turns = self.turns()
        for at in range(3 * GIVEN_AT_ONCE):
            self.wait(turns, "a", str(at))
        for at in range(4):
            self.assertEqual(len(self.order), at * GIVEN_AT_ONCE)
            self.turn()
        self.assertEqual(self.order, [str(at) for at in range(3 * GIVEN_AT_ONCE)])
        self.assertEqual(self.calls, [])

    def test_servers_in_turn(self) -> None:
        """One with a long queue does not keep the others waiting."""
        turns = self.turns(3, 2)
        for name in ("a1", "a2", "a3", "a4", "b1", "c1"):
            self.wait(turns, name[0], name)
        self.turn()
        self.assertEqual(self.order, ["a1", "b1", "c1"])
        turns.give_back("b")
        self.turn()
        turns.give_back("c")
        self.turn()
        # a has its two.
        self.assertEqual(self.order, ["a1", "b1", "c1", "a2"])
        turns.give_back("a")
        self.turn()
        self.assertEqual(self.order[4:], ["a3"])

    def test_full(self) -> None:
        """Of those who wait there are only so many; who leaves makes room."""
        turns = self.turns(1, 1, 2)
        first, second = turns.take("a"), turns.take("b")
        self.failureResultOf(turns.take("c"), TooManyWaitingError)
        second.cancel()
        self.failureResultOf(second, CancelledError)
        turns.take("c")
        self.turn()
        self.successResultOf(first)
        self.assertEqual(turns.waiting, 1)


class Machine(RuleBasedStateMachine):
    """Any order of asking, leaving and giving back."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], None]] = []
        self.turns = Turns(self.calls.append, 5, 3, 20)
        self.waiting: list[tuple[str, Deferred[None]]] = []
        self.taken: list[str] = []

    @rule(server=sampled_from("abc"))
    def take(self, server: str) -> None:
        turn = self.turns.take(server)
        if turn.called:
            turn.addErrback(lambda failure: failure.trap(TooManyWaitingError))
            assert len(self.waiting) == 20
            return
        entry = server, turn
        self.waiting.append(entry)
        turn.addCallbacks(lambda _: self.given(entry), lambda _: None)

    def given(self, entry: tuple[str, Deferred[None]]) -> None:
        self.waiting.remove(entry)
        self.taken.append(entry[0])

    @precondition(lambda self: self.waiting)
    @rule(source=data())
    def leave(self, source: Any) -> None:
        entry = source.draw(sampled_from(self.waiting))
        self.waiting.remove(entry)
        entry[1].cancel()

    @precondition(lambda self: self.taken)
    @rule(source=data())
    def give_back(self, source: Any) -> None:
        server = source.draw(sampled_from(self.taken))
        self.taken.remove(server)
        self.turns.give_back(server)

    @rule()
    def turn(self) -> None:
        while self.calls:
            self.calls.pop(0)()
        # Nobody waits who could go on.
        if len(self.taken) < 5:
            assert all(self.taken.count(server) == 3 for server, _ in self.waiting)

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.taken) == self.turns.taken <= 5
        assert len(self.waiting) == self.turns.waiting <= 20
        assert all(self.taken.count(server) <= 3 for server in "abc")


class AnyOrderTests(SynchronousTestCase):
    def test_any_order(self) -> None:
        """The bounds hold, and nobody waits who could go on."""
        run_state_machine_as_test(Machine, settings=settings(max_examples=50, deadline=None))
