"""Rules of single keys: what is told, and what is given back."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import GatewayError
from omnigate.events import TokenCounts
from omnigate.gateway.key_rules import KeyRules, key_rules, place_with_tokens, total_of
from omnigate.token_bucket import AmountBucket
from tests.planes.memory import key

MOMENT = 1_790_000_000.0


class FakePlace:
    """A place that counts how often it was given back."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        """Give it back."""
        self.released += 1


class KeyRulesTests(SynchronousTestCase):
    """Rules of a key."""

    def rules(self, until_ms: int = 0, **changes: Any) -> KeyRules:
        """The rules of a key that has some."""
        rules = key_rules(key(**changes), None, until_ms)
        assert rules is not None
        return rules

    def test_most_keys_have_none(self) -> None:
        """Rate, models and budget are no rules; each of the others is one."""
        self.assertIsNone(key_rules(key(rpm=5, models=("a",), blocked=True), None))
        self.assertIsNotNone(key_rules(key(), AmountBucket(5)))
        self.assertIsNotNone(key_rules(key(), None, 7))
        for changes in ({"expires_ms": 7}, {"allowed_ips": ("::1",)}, {"endpoints": ("chat",)}):
            self.assertIsNotNone(key_rules(key(**changes), None), changes)

    def test_the_end(self) -> None:
        """The earlier one of the key's and the secret's counts, and is told as what it is."""
        ms = int(MOMENT * 1000)
        for expires, until, end, replaced in (
            (0, ms, ms, True),
            (ms, 0, ms, False),
            (ms, ms + 1, ms, False),
            (ms, ms - 1, ms - 1, True),
            (ms, ms, ms, False),
        ):
            rules = self.rules(until, expires_ms=expires)
            self.assertEqual((end, replaced), (rules.until_ms, rules.replaced))
            self.assertTrue(rules.alive((end - 1) / 1000))
            self.assertFalse(rules.alive(end / 1000))
            self.assertIn("use the new one" if replaced else "expired at 2026-", rules.ended())
        self.assertTrue(self.rules(endpoints=("chat",)).alive(1e12))

    def test_networks_are_read_once(self) -> None:
        """At the first request, and not with the config."""
        rules = self.rules(allowed_ips=("192.0.2.0/24",))
        self.assertIsNone(rules._networks)
        rules.check_address("192.0.2.1")
        networks = rules._networks
        self.assertRaises(GatewayError, rules.check_address, "192.0.3.1")
        self.assertIs(networks, rules._networks)
        self.rules(endpoints=("chat",)).check_address("")


class TokenPlaceTests(SynchronousTestCase):
    """Tokens that are reserved with a place."""

    def test_given_back_once(self) -> None:
        """However often it is released, and with what it came to."""
        bucket, place, now = AmountBucket(100), FakePlace(), 5.0
        held = place_with_tokens(place, bucket, b"x" * 200, lambda: now)
        self.assertEqual((30_000_000_000, 0), (bucket.held, place.released))
        held.used = total_of(TokenCounts(1, 20, 300, 4))
        self.assertEqual(325, held.used)
        for _ in range(3):
            held.release()
            self.assertEqual((0, 1), (bucket.held, place.released))
        self.assertAlmostEqual(60.0, bucket.reserve(0, now + 0.001) + 0.001, places=2)

    def test_a_refusal_holds_nothing(self) -> None:
        """The place stays whose it was."""
        bucket, place = AmountBucket(100), FakePlace()
        first = place_with_tokens(place, bucket, b"x" * 4000, lambda: 5.0)
        error = self.assertRaises(
            GatewayError, place_with_tokens, place, bucket, b"x" * 4000, lambda: 5.0
        )
        self.assertEqual((60, "rate_limit_exceeded"), (error.retry_after, error.kind.code))
        self.assertEqual((60_000_000_000, 0), (bucket.held, place.released))
        first.release()
        self.assertEqual(0, bucket.held)
