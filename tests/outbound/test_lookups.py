"""Look-ups: few at once, one for all who ask at the same time, and who stops waiting."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IResolutionReceiver
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.outbound.lookups import Lookups
from omnigate.outbound.messages import Request
from tests.outbound.network import MemorySink


class SlowResolver:
    """Answers when a test has it answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, IResolutionReceiver]] = []

    def resolveHostName(self, receiver: IResolutionReceiver, name: str, **_: Any) -> None:  # noqa: N802
        self.asked.append((name, receiver))

    def answer(self, *numbers: str) -> None:
        """Answer the oldest."""
        _, receiver = self.asked.pop(0)
        for number in numbers:
            kind = IPv6Address if ":" in number else IPv4Address
            receiver.addressResolved(kind("TCP", number, 0))
        receiver.resolutionComplete()


class Reactor:
    """What of a reactor is needed."""

    def __init__(self) -> None:
        self.nameResolver = SlowResolver()


class LookupsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Reactor()
        self.resolver = self.reactor.nameResolver
        self.lookups = Lookups(self.reactor, 2)

    def names(self) -> list[str]:
        return [name for name, _ in self.resolver.asked]

    def test_both_families(self) -> None:
        """All addresses, each once, in the order in which the system gave them."""
        found = self.lookups("a")
        self.resolver.answer("::1", "1.2.3.4", "::1")
        self.assertEqual(self.successResultOf(found), ["::1", "1.2.3.4"])
        found = self.lookups("a")
        self.resolver.answer()
        self.assertEqual(self.successResultOf(found), [])

    def test_few_at_once(self) -> None:
        """The rest wait in their order."""
        found = [self.lookups(name) for name in "abcd"]
        self.assertEqual(self.names(), ["a", "b"])
        self.resolver.answer("1.2.3.4")
        self.assertEqual(self.names(), ["b", "c"])
        self.successResultOf(found[0])
        self.assertNoResult(found[1])

    def test_one_for_all(self) -> None:
        """Who asks while it goes on has the same answer; who asks later has another."""
        first, second = self.lookups("a"), self.lookups("a")
        self.assertEqual(self.names(), ["a"])
        self.resolver.answer("1.2.3.4")
        self.successResultOf(first).append("changed")
        self.assertEqual(self.successResultOf(second), ["1.2.3.4"])
        self.lookups("a")
        self.assertEqual(self.names(), ["a"])

    def test_leaving(self) -> None:
        """A thread that is still busy counts until it is not; who has not begun never does."""
        found = [self.lookups(name) for name in "abc"]
        for each in found:
            each.cancel()
            self.failureResultOf(each, CancelledError)
        self.lookups("d")
        self.assertEqual(self.names(), ["a", "b"])
        # One who joins what was given up has its answer.
        again = self.lookups("a")
        self.resolver.answer("1.2.3.4")
        self.assertEqual(self.successResultOf(again), ["1.2.3.4"])
        self.assertEqual(self.names(), ["b", "d"])


class NamingClock(Clock):
    """A clock with a resolver."""

    def __init__(self) -> None:
        super().__init__()
        self.nameResolver = SlowResolver()


class KindsTests(SynchronousTestCase):
    def test_hanging_names_of_clients(self) -> None:
        """Names of webhooks that hang keep no file waiting, and names of files no provider."""
        clock = NamingClock()
        outbound = Outbound(clock, AddressGuard())
        for at in range(9):
            for work in (
                outbound.post_guarded(
                    Request("POST", f"https://hook{at}.example/"), allow_http=False
                ),
                outbound.fetch(f"https://file{at}.example/", 9, MemorySink()),
                outbound.call(Request("GET", f"https://api{at}.example/"), 9),
            ):
                Deferred.fromCoroutine(work).addErrback(
                    lambda failure: failure.trap(CancelledError)
                )
        clock.advance(0)
        names = Counter(name[:4] for name, _ in clock.nameResolver.asked)
        self.assertEqual(names, {"hook": 3, "file": 3, "api0": 1, "api1": 1, "api2": 1})
        # After five seconds all of them are told so, and the threads still count.
        clock.advance(5)
        self.assertEqual(len(clock.nameResolver.asked), 9)
        Deferred.fromCoroutine(outbound.close())
        clock.advance(0)
        self.assertEqual(clock.getDelayedCalls(), [])
