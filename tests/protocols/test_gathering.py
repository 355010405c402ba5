"""What is gathered in a turn: what comes first, and who is sent what was put aside."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.gathering import Gathering


class InjectedError(Exception):
    """A fault in a call or a send."""


class GatheringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gathering = Gathering()
        self.done: list[str] = []

    def doing(self, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], None]:
        """A call that leaves its name."""

        def call() -> None:
            self.done.append(name)
            then()

        return call

    def waits(self, name: str, then: Callable[[], object] = lambda: None) -> None:
        """Let one connection wait."""

        class Waiting:
            send_aside = staticmethod(self.doing(name, then))

        self.gathering.waiting.append(Waiting())

    def fail_now(self) -> None:
        raise InjectedError

    def test_order(self) -> None:
        """Calls come first, then the sends in their order; each once."""
        self.waits("a")
        self.gathering.first(self.doing("one"))
        self.waits("b")
        self.gathering.first(self.doing("two"))
        self.gathering.send()
        self.assertEqual(["one", "two", "a", "b"], self.done)
        self.gathering.send()
        self.assertEqual(4, len(self.done))

    def test_first_alone(self) -> None:
        """The calls may be made before one send that cannot wait; they are not made again."""
        self.gathering.first(self.doing("one"))
        self.gathering.call_first()
        self.gathering.call_first()
        self.waits("a")
        self.gathering.send()
        self.assertEqual(["one", "a"], self.done)

    def test_added_meanwhile(self) -> None:
        """Whoever comes to wait during the sends is sent, too, and a new call comes before."""

        def add() -> None:
            self.waits("c")
            self.gathering.first(self.doing("next"))

        self.waits("a", add)
        self.waits("b")
        self.gathering.send()
        self.assertEqual(["a", "next", "b", "c"], self.done)
        self.gathering.send()
        self.assertEqual(4, len(self.done))

    def test_faults(self) -> None:
        """A fault of one is logged, and keeps none of the others."""
        self.gathering.first(self.doing("one", self.fail_now))
        self.gathering.first(self.doing("two"))
        self.waits("a", self.fail_now)
        self.waits("b")
        self.gathering.send()
        self.assertEqual(["one", "two", "a", "b"], self.done)
        self.assertEqual(2, len(self.flushLoggedErrors(InjectedError)))
        self.assertEqual([], self.gathering.waiting)
