"""Tests for omnigate.ledger.family."""

import os
from datetime import date
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.family import Family, Found, Position

DAY = "2026-11-10"


class NameTests(SynchronousTestCase):
    """What the files are called."""

    def test_every_name_follows_from_the_active_one(self) -> None:
        family = Family("/var/lib/omnigate/ledger.jsonl")
        self.assertEqual(family.folder, "/var/lib/omnigate")
        self.assertEqual(family.stem, "/var/lib/omnigate/ledger")
        names = [
            family.active,
            family.sealed(1),
            family.sealed(1_234_567),
            family.snapshot,
            family.spare,
            family.snapshot_tmp,
            family.ids(DAY),
            family.id_table(DAY),
            family.probe,
            family.probe_tmp,
        ]
        self.assertEqual(
            [os.path.basename(name) for name in names],
            [
                "ledger.jsonl",
                "ledger.000001.jsonl",
                "ledger.1234567.jsonl",
                "ledger.snapshot",
                "ledger.snapshot.prev",
                "ledger.snapshot.tmp",
                "ledger.ids.2026-11-10",
                "ledger.ids.2026-11-10.table",
                "ledger.jsonl.probe",
                "ledger.jsonl.probe.tmp",
            ],
        )
        self.assertEqual({os.path.dirname(name) for name in names}, {"/var/lib/omnigate"})

    def test_any_path_names_a_family(self) -> None:
        """Whatever the active one is called, no two files share a name."""
        for path, stem in (
            ("ledger.jsonl", "ledger"),
            ("ledger", "ledger"),
            ("./a.b/led.ger.log", "./a.b/led.ger.log"),
            ("/x/.jsonl", "/x/.jsonl"),
            ("/x/a.jsonl.jsonl", "/x/a.jsonl"),
        ):
            family = Family(path)
            self.assertEqual(family.stem, stem)
            self.assertEqual(os.path.dirname(family.sealed(1)), os.path.dirname(path))
            self.assertNotEqual(family.sealed(1), path)
        self.assertEqual(Family("ledger.jsonl").folder, ".")


class FoundTests(SynchronousTestCase):
    """What of a folder is ours."""

    @settings(max_examples=200, deadline=None)
    @given(
        st.sampled_from(["ledger.jsonl", "l[e]dger", "a.b.jsonl"]),
        st.sets(st.integers(1, 10**8)),
        st.sets(st.dates(date(1970, 1, 1))),
        st.sets(st.dates(date(1970, 1, 1))),
        st.randoms(),
    )
    def test_what_was_named_is_found(
        self,
        path: str,
        sealed: set[int],
        days: set[date],
        tables: set[date],
        random: Random,
    ) -> None:
        family = Family(f"/x/{path}")
        paths = [family.active, family.snapshot, family.spare, family.snapshot_tmp]
        paths += [family.probe, family.probe_tmp]
        paths += [family.sealed(number) for number in sealed]
        paths += [family.ids(day.isoformat()) for day in days]
        paths += [family.id_table(day.isoformat()) for day in tables]
        names = [os.path.basename(path) for path in paths]
        random.shuffle(names)
        self.assertEqual(
            family.found(names),
            Found(
                sorted(sealed),
                sorted(day.isoformat() for day in days),
                sorted(day.isoformat() for day in tables),
            ),
        )

    def test_what_only_looks_alike_is_not_ours(self) -> None:
        """Copies, other families, numbers and days that are none."""
        family = Family("/x/ledger.jsonl")
        self.assertEqual(
            family.found(
                [
                    "ledger.1.jsonl",
                    "ledger.000000.jsonl",
                    "ledger.0000001.jsonl",
                    "ledger.٠٠٠٠٠١.jsonl",
                    "ledger.000001.jsonl.bak",
                    "ledger.000001.jsonl\n",
                    "my-ledger.000001.jsonl",
                    "ledgerx000001.jsonl",
                    "ledger.ids.2026-13-10",
                    "ledger.ids.2026-11-31",
                    "ledger.ids.20261110",
                    "ledger.ids.2026-11-10.table.tmp",
                    "ledger.ids.2026-11-10.tables",
                    "ledger.snapshot",
                    "other.ids.2026-11-10",
                ]
            ),
            Found([], [], []),
        )

    def test_the_active_one_is_not_a_sealed_one(self) -> None:
        """Even where somebody named it like one of its own."""
        family = Family("ledger.000002.jsonl")
        self.assertEqual(family.found(["ledger.000002.jsonl"]).sealed, [])


class PositionTests(SynchronousTestCase):
    """Places in the ledger."""

    def test_they_are_ordered_by_segment_and_then_by_offset(self) -> None:
        self.assertLess(Position(1, 999), Position(2, 0))
        self.assertLess(Position(2, 0), Position(2, 1))
