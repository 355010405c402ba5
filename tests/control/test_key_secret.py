"""The form of a managed key."""

from __future__ import annotations

import re
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.key_secret import new_secret, sha256_hex


class SecretTests(SynchronousTestCase):
    """Making secrets."""

    def test_smallest_and_largest(self) -> None:
        """Every number of 256 bits has a form of the same length."""
        smallest = new_secret(lambda size: b"\0" * size)
        largest = new_secret(lambda size: b"\xff" * size)
        self.assertTrue(smallest.startswith("ogk_" + "0" * 43))
        self.assertEqual((len(smallest), len(largest)), (53, 53))
        self.assertNotEqual(new_secret(), new_secret())

    @settings(max_examples=200, deadline=None)
    @given(st.binary(min_size=32, max_size=32))
    def test_check_is_the_crc_of_what_stands_before(self, random: bytes) -> None:
        """A scanner in another language can compute it."""
        secret = new_secret(lambda size: random)
        self.assertTrue(re.fullmatch(r"ogk_[0-9A-Za-z]{49}", secret))
        number = 0
        for char in secret[-6:]:
            number = number * 62 + int(
                "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".index(char)
            )
        self.assertEqual(number, zlib.crc32(secret[:-6].encode()))

    def test_hash(self) -> None:
        """The hash is plain SHA-256 in hex, as an operator computes it with sha256sum."""
        self.assertEqual(
            sha256_hex("test"), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        )
