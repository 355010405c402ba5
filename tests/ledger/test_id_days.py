"""Tests for omnigate.ledger.id_days."""

from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.id_days import ALL_DAYS, PARTS, IdDays, id_digest


class DigestTests(SynchronousTestCase):
    """What is remembered of an id."""

    def test_it_is_the_first_16_bytes_of_its_sha_256(self) -> None:
        """The digest does not depend on what the sender made the id look like."""
        for text in ("a", "00" * 16, "job/ü/" + "x" * 250):
            expected = int.from_bytes(sha256(text.encode()).digest()[:16], "big")
            self.assertEqual(id_digest(text), expected)

    def test_half_a_surrogate_pair_has_a_digest_too(self) -> None:
        """No id can make the ledger fall over."""
        self.assertLess(id_digest("\ud800"), 2**128)


class IdDaysTests(SynchronousTestCase):
    """Remembering and forgetting, a day at a time."""

    def filled(self, days_kept: int) -> IdDays:
        ids = IdDays(days_kept)
        for number in range(1, 5):
            day = f"2026-11-0{number}"
            ids.turn_to(day)
            ids.add(number, day)
        return ids

    def test_a_resent_id_is_known(self) -> None:
        """What was added is known, on whatever day."""
        ids = self.filled(0)
        self.assertEqual([n in ids for n in range(6)], [False, True, True, True, True, False])
        self.assertEqual(len(ids), 4)

    def test_days_are_forgotten_whole(self) -> None:
        """With three days kept, the first day is forgotten on the fifth: not a day early."""
        ids = self.filled(3)
        self.assertIn(1, ids)
        self.assertEqual(ids.turn_to("2026-11-05"), ["2026-11-01"])
        self.assertNotIn(1, ids)
        self.assertEqual(list(ids), ["2026-11-02", "2026-11-03", "2026-11-04"])
        self.assertEqual(ids.turn_to("2026-11-05"), [])

    def test_zero_keeps_ids_for_ever(self) -> None:
        """Nothing is forgotten, a hundred years on."""
        ids = self.filled(0)
        self.assertEqual(ids.turn_to("2126-11-05"), [])
        self.assertIn(1, ids)
        self.assertEqual(list(ids), [ALL_DAYS])

    def test_a_forgotten_day_is_freed_in_parts(self) -> None:
        """Its ids are unknown at once; the memory goes piece by piece, so that nothing stands."""
        ids = IdDays(1)
        for digest in range(1000):
            ids.add(digest, "2026-11-01")
        ids.turn_to("2026-11-09")
        self.assertEqual((len(ids), 5 in ids, len(ids._forgotten)), (0, False, PARTS))
        for _ in range(PARTS):
            ids.turn_to("2026-11-09")
        self.assertEqual(ids._forgotten, [])

    def test_a_clock_that_went_back_forgets_nothing(self) -> None:
        """An earlier day than the last is a day like any other."""
        ids = self.filled(3)
        self.assertEqual(ids.turn_to("2026-10-01"), [])
        ids.add(9, "2026-10-01")
        self.assertIn(9, ids)
        self.assertIn(1, ids)

    def test_the_first_days_of_all_time(self) -> None:
        """A retention longer than the calendar forgets nothing."""
        ids = IdDays(10**9)
        self.assertEqual(ids.turn_to("0001-01-01"), [])
        self.assertEqual(ids.turn_to("1970-01-01"), [])
