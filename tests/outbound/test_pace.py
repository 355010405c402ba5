"""Work that is spread over turns."""

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.pace import Pace


class PaceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.turns: list[object] = []
        self.done: list[int] = []

    def callLater(self, seconds: float, call: object) -> None:
        self.assertEqual(seconds, 0)
        self.turns.append(call)

    def turn(self) -> None:
        self.turns.pop(0)()  # type: ignore[operator]

    def test_few_in_a_turn(self) -> None:
        """In their order, and no turn is asked for without work."""
        pace = Pace(self, 2)
        for number in range(5):
            pace(lambda number=number: self.done.append(number))  # type: ignore[misc]
        self.assertEqual((self.done, len(self.turns)), ([], 1))
        for expected in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]):
            self.turn()
            self.assertEqual(self.done, expected)
        self.assertEqual(self.turns, [])
        pace(lambda: self.done.append(9))
        self.turn()
        self.assertEqual(self.done[-1], 9)

    def test_one_that_breaks(self) -> None:
        """The others have their turns all the same."""
        pace = Pace(self, 2)
        pace(lambda: self.fail("broken"))
        pace(lambda: self.done.append(1))
        pace(lambda: self.done.append(2))
        self.turn()
        self.turn()
        self.assertEqual(self.done, [1, 2])
        self.assertEqual(len(self.flushLoggedErrors(self.failureException)), 1)

    def test_asked_for_in_a_turn(self) -> None:
        """What is asked for in a turn has another one."""
        reactor = MemoryReactorClock()
        pace = Pace(reactor, 1)
        pace(lambda: pace(lambda: self.done.append(1)))
        reactor.advance(0)
        self.assertEqual(self.done, [1])
