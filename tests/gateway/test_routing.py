"""The order in which targets are tried."""

import random

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.routing import order


@attrs.define(eq=False)
class Target:
    """What a strategy sees of one."""

    name: str
    weight: int = 1
    rests: bool = False

    def resting(self, now: float) -> bool:
        return self.rests


def names(targets: list[Target]) -> str:
    return "".join(target.name for target in targets)


class OrderTests(SynchronousTestCase):
    def order(self, strategy: str, targets: list[Target], turn: int = 0, seed: int = 0) -> str:
        before = names(targets)
        ordered = order(strategy, targets, turn, 0.0, random.Random(seed).random)
        self.assertEqual(before, names(targets))
        self.assertEqual(sorted(before), sorted(names(ordered)))
        return names(ordered)

    def test_failover(self) -> None:
        """The order of the config, each time."""
        targets = [Target(name) for name in "abc"]
        for turn in range(5):
            self.assertEqual("abc", self.order("failover", targets, turn))

    def test_round_robin(self) -> None:
        """Each is first in turn, and the others follow as in the config."""
        targets = [Target(name) for name in "abc"]
        ordered = [self.order("round_robin", targets, turn) for turn in range(4)]
        self.assertEqual(["abc", "bca", "cab", "abc"], ordered)

    def test_round_robin_is_fair(self) -> None:
        """Over a thousand requests each is first as often as any other."""
        targets = [Target(name) for name in "abc"]
        firsts = [self.order("round_robin", targets, turn)[0] for turn in range(1000)]
        self.assertEqual({333, 334}, {firsts.count(name) for name in "abc"})

    def test_weighted(self) -> None:
        """Who is first follows the weights, within three standard deviations."""
        targets = [Target("a", 1), Target("b", 3), Target("c", 6)]
        rng = random.Random(4)
        firsts = [names(order("weighted", targets, 0, 0.0, rng.random))[0] for _ in range(3000)]
        for target in targets:
            share = target.weight / 10
            spread = 3 * (3000 * share * (1 - share)) ** 0.5
            self.assertLess(abs(firsts.count(target.name) - 3000 * share), spread)

    def test_weighted_edges(self) -> None:
        """The ends of the interval, and a mark that falls between two targets."""
        targets = [Target("a", 1), Target("b", 1)]
        for mark, first in ((0.0, "a"), (0.4999, "a"), (0.5, "b"), (0.9999999999999999, "b")):
            marks = iter([mark, 0.0])
            ordered = order("weighted", targets, 0, 0.0, marks.__next__)
            self.assertEqual(first, ordered[0].name)

    def test_weight_of_nothing(self) -> None:
        """Targets without weight come after all others, in the order of the config."""
        targets = [Target("a", 0), Target("b", 5), Target("c", 0)]
        for seed in range(20):
            self.assertEqual("bac", self.order("weighted", targets, seed=seed))
        self.assertEqual("ac", self.order("weighted", [Target("a", 0), Target("c", 0)]))

    def test_resting_last(self) -> None:
        """Resting targets go last, and are not left out."""
        for strategy, turn, wanted in (("failover", 0, "bdac"), ("round_robin", 2, "dbca")):
            targets = [Target(name, rests=name in "ac") for name in "abcd"]
            self.assertEqual(wanted, self.order(strategy, targets, turn))
        for seed in range(20):
            targets = [Target(name, rests=name in "ac") for name in "abcd"]
            self.assertEqual({"b", "d"}, set(self.order("weighted", targets, seed=seed)[:2]))

    def test_all_rest(self) -> None:
        """If all rest, the order is as if none did."""
        targets = [Target(name, rests=True) for name in "abc"]
        self.assertEqual("abc", self.order("failover", targets))

    def test_one(self) -> None:
        """A single target is itself, resting or not."""
        for strategy in ("failover", "round_robin", "weighted"):
            self.assertEqual("a", self.order(strategy, [Target("a", 0, rests=True)], 7))
