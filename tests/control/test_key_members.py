"""Tests for the members of keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import values
from omnigate.control import admin_key_members, key_members
from omnigate.control.key_members import MAX_SHOWN, read_members
from omnigate.errors import GatewayError


class UnknownMembersTests(SynchronousTestCase):
    """A body of nothing but unknown members."""

    def test_it_is_refused_in_a_moment(self) -> None:
        """Known members are looked for as often as they are told, and no more."""
        looked_for: list[str] = []
        real = values.did_you_mean

        def counted(word: str, known: Iterable[str]) -> str:
            looked_for.append(word)
            return real(word, known)

        self.patch(values, "did_you_mean", counted)
        for fields in (key_members.FIELDS, admin_key_members.FIELDS):
            looked_for.clear()
            body = {f"nam{number}": 1 for number in range(10_000)}
            error = self.assertRaises(GatewayError, read_members, body, fields, ())
            self.assertEqual(error.message.count('did you mean "name"?'), MAX_SHOWN)
            self.assertEqual(len(looked_for), MAX_SHOWN)

    def test_of_a_long_one_the_beginning_is_compared(self) -> None:
        """No known word is as long, so there is none that could be meant."""
        words: list[str] = []

        def matches(word: str, *_: object, **__: object) -> list[str]:
            words.append(word)
            return []

        self.patch(difflib, "get_close_matches", matches)
        word = "daily" * 50_000
        self.assertRaises(values.BadValueError, values.one_of("daily"), word)
        self.assertRaises(GatewayError, read_members, {word: 1}, key_members.FIELDS, ())
        self.assertEqual([len(word) for word in words], [values.MAX_MODEL_CHARS] * 2)
