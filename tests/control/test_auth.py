"""Lock-outs and the comparison of tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import (
    ADMIN,
    INTERNAL,
    LOCK_SECONDS,
    OPEN,
    WINDOW_SECONDS,
    WRONG_IN_WINDOW,
    Credentials,
    Lockout,
    network_of,
)
from omnigate.errors import GatewayError

INTERNAL_TOKEN = "internal-token-0123456789"
ADMIN_TOKEN = "admin-token-0123456789"


class LockoutTests(SynchronousTestCase):
    """Wrong credentials per address."""

    def test_locks_after_the_last_wrong_one(self) -> None:
        """The twentieth wrong credential within a minute locks the address for a minute."""
        lockout = Lockout()
        for second in range(WRONG_IN_WINDOW - 1):
            lockout.wrong("192.0.2.1", second)
        self.assertEqual(lockout.locked_for("192.0.2.1", 19), 0.0)
        lockout.wrong("192.0.2.1", 19)
        self.assertEqual(lockout.locked_for("192.0.2.1", 20), LOCK_SECONDS - 1)
        self.assertEqual(lockout.locked_for("192.0.2.2", 20), 0.0)
        self.assertEqual(lockout.locked_for("192.0.2.1", 19 + LOCK_SECONDS), 0.0)

    def test_slow_mistakes_never_lock(self) -> None:
        """Fewer than twenty in any window never add up."""
        lockout = Lockout()
        for minute in range(100):
            for _ in range(WRONG_IN_WINDOW - 1):
                lockout.wrong("192.0.2.1", minute * WINDOW_SECONDS)
            self.assertEqual(lockout.locked_for("192.0.2.1", minute * WINDOW_SECONDS), 0.0)

    def test_after_a_lock_the_count_starts_anew(self) -> None:
        """One more mistake after a served lock does not lock again."""
        lockout = Lockout()
        for _ in range(WRONG_IN_WINDOW):
            lockout.wrong("192.0.2.1", 0)
        lockout.wrong("192.0.2.1", LOCK_SECONDS + 1)
        self.assertEqual(lockout.locked_for("192.0.2.1", LOCK_SECONDS + 1), 0.0)

    def test_networks(self) -> None:
        """An IPv6 neighbour shares the count, an IPv4 address in IPv6 clothes has its own."""
        self.assertEqual(network_of("2001:db8::1"), network_of("2001:db8::ffff:1"))
        self.assertNotEqual(network_of("2001:db8::1"), network_of("2001:db8:0:1::1"))
        self.assertEqual(network_of("::ffff:192.0.2.1"), "192.0.2.1")
        self.assertEqual(network_of("fe80::1%eth0"), "fe80::/64")
        self.assertEqual(network_of(""), "")

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 200)), max_size=100))
    def test_table_is_bounded(self, attempts: list[tuple[int, int]]) -> None:
        """However many addresses guess, the table keeps its bound."""
        lockout = Lockout(max_addresses=5)
        now = 0
        for address, pause in attempts:
            now += pause
            lockout.wrong(f"192.0.2.{address}", now)
            self.assertLessEqual(len(lockout), 5)


class CredentialsTests(SynchronousTestCase):
    """Who is admitted to what."""

    def setUp(self) -> None:
        self.now = 0.0
        self.counted: list[tuple[str, str]] = []
        self.credentials = Credentials(
            INTERNAL_TOKEN,
            ADMIN_TOKEN,
            lambda: self.now,
            lambda audience, reason: self.counted.append((audience, reason)),
        )

    def code(self, audience: str, internal: list[bytes], authorization: list[bytes]) -> str:
        try:
            self.credentials.judge(audience, "192.0.2.1", internal, authorization)
        except GatewayError as error:
            return error.kind.code
        return ""

    def test_spellings_of_bearer(self) -> None:
        """The scheme is written in any case, the token in one way."""
        token = ADMIN_TOKEN.encode()
        for value, code in (
            (b"Bearer " + token, ""),
            (b"bearer  " + token, ""),
            (b"Bearer " + token + b" ", "invalid_token"),
            (b"Bearer" + token, "invalid_token"),
            (b"Basic " + token, "invalid_token"),
            (token, "invalid_token"),
            (b"", "invalid_token"),
        ):
            self.assertEqual(self.code(ADMIN, [], [value]), code, value)

    def test_open_needs_nothing(self) -> None:
        """What is open does not even look."""
        self.assertEqual(self.code(OPEN, [b"wrong"], [b"wrong"]), "")
        self.assertEqual(self.counted, [])

    def test_missing_is_counted_but_never_locks(self) -> None:
        """A prober without credentials does not lock out the operator behind its address."""
        for _ in range(WRONG_IN_WINDOW * 2):
            self.assertEqual(self.code(ADMIN, [], []), "invalid_token")
        self.assertEqual(self.counted, [(ADMIN, "missing")] * WRONG_IN_WINDOW * 2)
        self.assertEqual(self.code(ADMIN, [], [b"Bearer " + ADMIN_TOKEN.encode()]), "")

    def test_a_wrong_data_plane_does_not_silence_a_right_one(self) -> None:
        """Wrong internal tokens are throttled; the right one passes from the same address."""
        for _ in range(WRONG_IN_WINDOW):
            self.assertEqual(self.code(INTERNAL, [b"wrong"], []), "invalid_token")
        self.assertEqual(self.code(INTERNAL, [b"wrong"], []), "too_many_attempts")
        self.assertEqual(self.counted[-1], (INTERNAL, "locked"))
        self.assertEqual(self.code(INTERNAL, [INTERNAL_TOKEN.encode()], []), "")
        self.assertEqual(self.code(ADMIN, [], [b"Bearer " + ADMIN_TOKEN.encode()]), "")

    def test_non_ascii_tokens(self) -> None:
        """Any bytes may be shown; they are wrong, not an error."""
        self.assertEqual(self.code(INTERNAL, [b"\xff\xfe"], []), "invalid_token")
        self.assertEqual(self.code(ADMIN, [], [b"Bearer \xff\xfe"]), "invalid_token")
