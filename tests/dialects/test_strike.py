"""Striking the upstream's credential out of what is relayed."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects import strike as strike_module
from omnigate.dialects.strike import LongStriker, PieceStriker, strike


class StrikeTests(SynchronousTestCase):
    def test_struck_out(self) -> None:
        """Every place where the credential stands loses it."""
        self.assertEqual(
            b"[redacted] and [redacted]", strike(b"sk-1234567 and sk-1234567", b"sk-1234567")
        )

    def test_nothing_to_strike(self) -> None:
        """Data without the credential is not touched, and none is no credential."""
        data = b"nothing here"
        self.assertIs(data, strike(data, b"sk-1234567"))
        self.assertIs(data, strike(data, b""))
        self.assertIs(data, strike(data, b"no"))


class PieceStrikerTests(SynchronousTestCase):
    def test_cut_credential(self) -> None:
        """A credential that comes in two pieces is struck out as well."""
        striker = PieceStriker(b"sk-1234567")
        self.assertEqual(b"your key is ", striker.feed(b"your key is sk-123"))
        self.assertEqual(b"[redacted].", striker.feed(b"4567."))
        self.assertEqual(b"", striker.end())

    def test_only_a_beginning(self) -> None:
        """What only began like one is passed on when that is known."""
        striker = PieceStriker(b"sk-1234567")
        self.assertEqual(b"a ", striker.feed(b"a sk-"))
        self.assertEqual(b"sk-other sk-1", striker.feed(b"other sk-1") + striker.end())

    def test_nothing_held_back(self) -> None:
        """Data that holds no beginning of it is passed on whole, and so is all without a secret."""
        data = b"a few more"
        self.assertEqual(data, PieceStriker(b"sk-1234567").feed(data))
        self.assertIs(data, PieceStriker(b"").feed(data))

    @given(st.text("ab", max_size=60), st.lists(st.integers(0, 60), max_size=6))
    @settings(max_examples=200, deadline=None)
    def test_any_cut(self, text: str, cuts: list[int]) -> None:
        """However the data is cut, the same bytes come out; also where credentials overlap."""
        data = text.encode()
        for secret in (b"aabaab", b"aaaaaa", b"abababa"):
            striker = PieceStriker(secret)
            edges = [0, *sorted(cuts), len(data)]
            pieces = [data[a:b] for a, b in pairwise(edges)]
            out = b"".join(map(striker.feed, pieces)) + striker.end()
            self.assertEqual(strike(data, secret), out)


class LongStrikerTests(SynchronousTestCase):
    def struck(self, data: bytes, secret: bytes) -> tuple[bytes, int]:
        striker = LongStriker(data, secret)
        steps = 1
        while striker.step():
            steps += 1
        return striker.end(), steps

    def test_nothing_found(self) -> None:
        """What does not hold it is not copied; each step looks at so much."""
        self.patch(strike_module, "STEP_BYTES", 10)
        data = b"x" * 95
        out, steps = self.struck(data, b"sk-1234567")
        self.assertIs(data, out)
        self.assertEqual(10, steps)
        for secret in (b"", b"xx"):
            out, steps = self.struck(data, secret)
            self.assertIs(data, out)
            self.assertEqual(1, steps)

    @given(st.text("ab", max_size=60), st.integers(1, 61))
    @settings(max_examples=200, deadline=None)
    def test_any_step(self, text: str, step: int) -> None:
        """However long the steps are, the same bytes come out."""
        data = text.encode()
        self.patch(strike_module, "STEP_BYTES", step)
        for secret in (b"aabaab", b"aaaaaa", b"abababa"):
            self.assertEqual(strike(data, secret), self.struck(data, secret)[0])
