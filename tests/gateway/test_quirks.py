"""What models were seen to refuse."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.shapes import Quirk
from omnigate.gateway.quirks import MAX_QUIRKS, QuirkTable


class QuirkTableTests(SynchronousTestCase):
    def test_is_kept_per_key_upstream_and_model(self) -> None:
        """What one key met says nothing of another key, another upstream or another model."""
        table = QuirkTable()
        table.learn("k1", "u1", "m1", Quirk.NO_SAMPLING)
        self.assertEqual(table.known("k1", "u1", "m1"), Quirk.NO_SAMPLING)
        for place in (("k2", "u1", "m1"), ("k1", "u2", "m1"), ("k1", "u1", "m2")):
            self.assertEqual(table.known(*place), Quirk.NONE)

    def test_quirks_add_up(self) -> None:
        table = QuirkTable()
        table.learn("k", "u", "m", Quirk.NO_SAMPLING)
        table.learn("k", "u", "m", Quirk.THOUGHT_SIGNATURE)
        self.assertEqual(table.known("k", "u", "m"), Quirk.NO_SAMPLING | Quirk.THOUGHT_SIGNATURE)
        self.assertEqual(len(table), 1)

    def test_nothing_is_not_worth_an_entry(self) -> None:
        table = QuirkTable()
        table.learn("k", "u", "m", Quirk.NONE)
        self.assertEqual(len(table), 0)

    def test_a_full_table_learns_nothing_new(self) -> None:
        """But of what it knows already it does, and nothing is forgotten."""
        table = QuirkTable(3)
        for number in range(5):
            table.learn("k", "u", f"m{number}", Quirk.NO_SAMPLING)
        self.assertEqual(len(table), 3)
        self.assertEqual(table.known("k", "u", "m0"), Quirk.NO_SAMPLING)
        self.assertEqual(table.known("k", "u", "m3"), Quirk.NONE)
        table.learn("k", "u", "m0", Quirk.THOUGHT_SIGNATURE)
        self.assertIn(Quirk.THOUGHT_SIGNATURE, table.known("k", "u", "m0"))

    def test_the_usual_bound(self) -> None:
        table = QuirkTable()
        for number in range(MAX_QUIRKS + 1):
            table.learn("k", "u", str(number), Quirk.NO_SAMPLING)
        self.assertEqual(len(table), 20_000)
