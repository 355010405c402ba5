"""Sealed cookies: what opens, for how long, and what never does."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.sessions import (
    MAX_AGE_MS,
    MAX_IDLE_MS,
    MAX_LEFT,
    RENEW_MS,
    SessionKeys,
    Ticket,
)

NOW = 1_795_982_400_000
SHOWN = "ab" * 32


class TicketTests(SynchronousTestCase):
    """One ticket, sealed and opened."""

    def setUp(self) -> None:
        self.keys = SessionKeys("admin-token-0123456789")

    def test_there_and_back(self) -> None:
        """A cookie holds what its ticket says, for either kind of credential."""
        for shown in ("", SHOWN):
            ticket = self.keys.begin(shown, NOW)
            self.assertEqual(self.keys.open(self.keys.seal(ticket), NOW), ticket)
            self.assertEqual((ticket.shown, ticket.began_ms, ticket.seen_ms), (shown, NOW, NOW))
        self.assertNotEqual(self.keys.begin("", NOW).nonce, self.keys.begin("", NOW).nonce)

    def test_an_hour_idle_ends_it(self) -> None:
        """To the millisecond."""
        cookie = self.keys.seal(self.keys.begin("", NOW))
        self.assertIsNotNone(self.keys.open(cookie, NOW + MAX_IDLE_MS - 1))
        self.assertIsNone(self.keys.open(cookie, NOW + MAX_IDLE_MS))

    def test_a_day_ends_it_whatever_is_done(self) -> None:
        """However often it was renewed."""
        ticket = self.keys.begin("", NOW)
        now = NOW
        while now + RENEW_MS * 50 < NOW + MAX_AGE_MS:
            now += RENEW_MS * 50
            renewed = self.keys.renew(ticket, now)
            assert renewed is not None
            self.assertEqual((renewed.began_ms, renewed.nonce), (NOW, ticket.nonce))
            ticket = renewed
        cookie = self.keys.seal(ticket)
        self.assertIsNotNone(self.keys.open(cookie, NOW + MAX_AGE_MS - 1))
        self.assertIsNone(self.keys.open(cookie, NOW + MAX_AGE_MS))

    def test_it_is_renewed_once_a_minute(self) -> None:
        """Not with every answer."""
        ticket = self.keys.begin("", NOW)
        self.assertIsNone(self.keys.renew(ticket, NOW + RENEW_MS - 1))
        renewed = self.keys.renew(ticket, NOW + RENEW_MS)
        self.assertEqual(renewed, attrs.evolve(ticket, seen_ms=NOW + RENEW_MS))

    def test_of_another_time(self) -> None:
        """A clock that was set back a little is no matter; a cookie of tomorrow is none."""
        cookie = self.keys.seal(self.keys.begin("", NOW))
        self.assertIsNotNone(self.keys.open(cookie, NOW - 60_000))
        self.assertIsNone(self.keys.open(cookie, NOW - 60_001))

    def test_another_admin_token(self) -> None:
        """It ends every session, and no form of before is taken."""
        other = SessionKeys("admin-token-0123456780")
        ticket = self.keys.begin("", NOW)
        self.assertIsNone(other.open(self.keys.seal(ticket), NOW))
        self.assertNotEqual(other.form_token(ticket), self.keys.form_token(ticket))
        same = SessionKeys("admin-token-0123456789")
        self.assertEqual(same.open(self.keys.seal(ticket), NOW), ticket)
        self.assertEqual(same.form_token(ticket), self.keys.form_token(ticket))

    def test_form_tokens(self) -> None:
        """Each session has its own, which stays as the cookie is renewed and is not in it."""
        one, two = self.keys.begin("", NOW), self.keys.begin("", NOW)
        token = self.keys.form_token(one)
        self.assertNotEqual(token, self.keys.form_token(two))
        self.assertNotIn(token, self.keys.seal(one))
        renewed = self.keys.renew(one, NOW + RENEW_MS)
        assert renewed is not None
        self.assertEqual(self.keys.form_token(renewed), token)


class ForgeryTests(SynchronousTestCase):
    """Cookies that are not ours."""

    def setUp(self) -> None:
        self.keys = SessionKeys("admin-token-0123456789")

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """It opens nothing, and breaks nothing."""
        keys = SessionKeys("admin-token-0123456789")
        self.assertIsNone(keys.open(text, NOW))
        self.assertIsNone(keys.open(f"1.-.{NOW}.{NOW}.{'0' * 32}.{text}", NOW))

    def test_every_character_counts(self) -> None:
        """Changed, cut, doubled or padded anywhere, it is not ours."""
        for shown in ("", SHOWN):
            cookie = self.keys.seal(self.keys.begin(shown, NOW))
            for index, character in enumerate(cookie):
                other = "1" if character != "1" else "2"
                for text in (
                    cookie[:index] + other + cookie[index + 1 :],
                    cookie[:index] + cookie[index + 1 :],
                    cookie[:index],
                    cookie[:index] + character + cookie[index:],
                ):
                    if text != cookie:
                        self.assertIsNone(self.keys.open(text, NOW), text)
            for text in (cookie + "\n", " " + cookie, cookie.upper(), cookie + cookie):
                self.assertIsNone(self.keys.open(text, NOW), text)

    @given(
        began=st.integers(0, 10**15 - 1),
        seen=st.integers(0, 10**15 - 1),
        shown=st.sampled_from(("", SHOWN)),
        now=st.integers(0, 10**15 - 1),
    )
    def test_no_time_makes_it_longer(self, began: int, seen: int, shown: str, now: int) -> None:
        """What opens is of the last day, whatever it says; so it was with all that is sealed."""
        keys = SessionKeys("admin-token-0123456789")
        ticket = Ticket(shown, began, seen, "0" * 32)
        opened = keys.open(keys.seal(ticket), now)
        if opened is not None:
            self.assertEqual(opened, ticket)
            self.assertTrue(-60_000 <= now - began < MAX_AGE_MS)
            self.assertLess(now - seen, MAX_IDLE_MS)

    def test_a_signature_of_a_form_is_none_of_a_cookie(self) -> None:
        """Each has a key of its own."""
        ticket = self.keys.begin("", NOW)
        text = self.keys.seal(ticket).rpartition(".")[0]
        self.assertIsNone(self.keys.open(f"{text}.{self.keys.form_token(ticket)}", NOW))


class LeavingTests(SynchronousTestCase):
    """Sessions that were signed out of."""

    def setUp(self) -> None:
        self.keys = SessionKeys("admin-token-0123456789")

    def test_no_cookie_of_it_opens(self) -> None:
        """Nor one of before, nor one that was renewed; another session goes on."""
        ticket, other = self.keys.begin("", NOW), self.keys.begin("", NOW)
        renewed = self.keys.renew(ticket, NOW + RENEW_MS)
        assert renewed is not None
        self.keys.leave(renewed, NOW + RENEW_MS)
        for gone in (ticket, renewed):
            self.assertIsNone(self.keys.open(self.keys.seal(gone), NOW + RENEW_MS))
        self.assertEqual(self.keys.open(self.keys.seal(other), NOW + RENEW_MS), other)

    def test_the_list_is_bounded(self) -> None:
        """What would be over anyway is dropped, then the oldest."""
        first = self.keys.begin("", NOW)
        self.keys.leave(first, NOW)
        second = self.keys.begin("", NOW)
        self.keys.leave(second, NOW)
        for _ in range(MAX_LEFT - 1):
            self.keys.leave(self.keys.begin("", NOW), NOW)
        self.assertEqual(self.keys.open(self.keys.seal(first), NOW), first)
        self.assertIsNone(self.keys.open(self.keys.seal(second), NOW))
        later = NOW + MAX_AGE_MS
        self.keys.leave(self.keys.begin("", later), later)
        self.assertEqual(self.keys.left, 1)
