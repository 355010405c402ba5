"""What comes all at once is let through one in a turn."""

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.turnstile import MAX_IN_LINE, Turnstile
from omnigate.errors import GatewayError


class TurnstileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pauses: list[Deferred[None]] = []
        self.turnstile = Turnstile(self.pause)
        self.through: list[str] = []

    def pause(self) -> "Deferred[None]":
        self.pauses.append(Deferred())
        return self.pauses[-1]

    def turn(self) -> None:
        """Let the reactor have turned once: a pause begun within a turn ends in the next."""
        (pause,) = self.pauses
        self.pauses.clear()
        pause.callback(None)

    def come(self, name: str) -> "Deferred[None]":
        async def enter() -> None:
            await self.turnstile.enter()
            self.through.append(name)

        return Deferred.fromCoroutine(enter())

    def test_one_in_a_turn(self) -> None:
        """Each has a turn of its own, in the order in which they came, later ones too."""
        for name in "abc":
            self.come(name)
        self.assertEqual(self.through, [])
        self.turn()
        self.assertEqual(self.through, ["a"])
        self.come("d")
        for count in (2, 3, 4):
            self.turn()
            self.assertEqual(self.through, list("abcd")[:count])
        self.assertEqual(self.pauses, [])

    def test_again(self) -> None:
        """Once everybody is through it stands still, and turns again for the next."""
        self.come("a")
        self.turn()
        self.come("b")
        self.turn()
        self.assertEqual(self.through, ["a", "b"])

    def test_no_pause(self) -> None:
        """With a pause that takes no time nobody waits."""

        async def at_once() -> None:
            pass

        self.turnstile = Turnstile(at_once)
        self.come("a")
        self.come("b")
        self.assertEqual(self.through, ["a", "b"])

    def test_who_leaves_the_line(self) -> None:
        """Whoever is canceled while waiting is not let through, and holds nobody up."""
        self.come("a")
        left = self.come("b")
        self.come("c")
        left.addErrback(lambda _: None)
        left.cancel()
        for _ in range(3):
            self.turn()
        self.assertEqual(self.through, ["a", "c"])

    def test_bound(self) -> None:
        """Where too many wait, the next is told to come again."""
        for number in range(MAX_IN_LINE):
            self.come(str(number))
        refused = self.failureResultOf(self.come("more"), GatewayError).value
        self.assertEqual((refused.kind.code, refused.retry_after), ("overloaded", 1))
        self.turn()
        self.assertNoResult(self.come("more"))
