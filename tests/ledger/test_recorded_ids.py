"""Tests for omnigate.ledger.recorded_ids and omnigate.ledger.id_file."""

import errno
from collections.abc import Sequence
from random import Random

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.ledger import recorded_ids
from omnigate.ledger.family import Family
from omnigate.ledger.id_file import HEADER
from omnigate.ledger.id_table import IdTable
from omnigate.ledger.recorded_ids import LostIds, NewerIdsError, RecordedIds, id_digest
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.platter import few_bytes

FAMILY = Family("/state/ledger.jsonl")
DAYS = [f"2026-11-{day:02d}" for day in range(10, 20)]


def digests(*names: object) -> list[bytes]:
    return [id_digest(str(name)) for name in names]


def records(*names: object) -> bytes:
    """An id file of these ids."""
    return HEADER + b"".join(digests(*names))


class RecordedIdsCase(SynchronousTestCase):
    """On a disk in memory, with tables for the smallest days."""

    def setUp(self) -> None:
        self.use(MemoryDisk("/state"))
        self.patch(recorded_ids, "TABLE_LEAST_IDS", 1)
        self.patch(recorded_ids, "TABLE_STEP_IDS", 4)
        self.patch(recorded_ids, "_FRESH_LEAST", 3)

    def use(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)

    def opened(
        self, recorded: dict[str, int], days_kept: int = 3, lost: Sequence[LostIds] = ()
    ) -> RecordedIds:
        ids = RecordedIds(FAMILY, days_kept)
        self.assertEqual(ids.open(recorded), list(lost))
        return ids

    def known(self, ids: RecordedIds, *names: object) -> list[bool]:
        return ids.known(digests(*names))

    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in sorted(self.disk.contents())]


class UseTests(RecordedIdsCase):
    """Remembering and forgetting."""

    def test_what_was_added_is_known(self) -> None:
        """On whatever day, in whatever order; written or not; and nothing else."""
        for days_kept in (0, 30):
            ids = self.opened({}, days_kept)
            for n, day in enumerate([DAYS[1], DAYS[0], DAYS[2], DAYS[1]]):
                ids.add(digests(*range(10 * n, 10 * n + 10)), day)
                self.assertEqual(self.known(ids, *range(-5, 60)).count(True), 10 * n + 10)
            self.assertEqual(len(ids), 40)
            self.assertIsNone(ids.flush())
            ids.sync()
            self.assertEqual(
                self.known(ids, *range(-2, 42)), [False] * 2 + [True] * 40 + [False] * 2
            )
            ids.close()

    def test_an_id_that_stands_twice_is_known_the_second_time(self) -> None:
        """Within one look-up; a known one is known each time."""
        ids = self.opened({})
        ids.add(digests("a"), DAYS[0])
        self.assertEqual(
            self.known(ids, "b", "a", "b", "c", "a", "b"), [False, True, True, False, True, True]
        )
        self.assertEqual(self.known(ids), [])

    def test_days_are_forgotten_whole(self) -> None:
        """With three days kept, the first is forgotten on the fifth: not a day early, files too."""
        ids = self.opened({})
        for n, day in enumerate(DAYS[:4]):
            self.assertEqual(ids.turn_to(day), [])
            ids.add(digests(n), day)
            ids.keep_tables(ids.sync())
        ids.keep_tables(ids.sync(), final=True)
        self.assertIn("ledger.ids.2026-11-10.table", self.names())
        self.assertEqual(self.known(ids, 0, 1), [True, True])
        self.assertEqual(ids.turn_to(DAYS[4]), [DAYS[0]])
        self.assertEqual(ids.turn_to(DAYS[4]), [])
        self.assertEqual(self.known(ids, 0, 1), [False, True])
        self.assertEqual([name for name in self.names() if DAYS[0] in name], [])
        self.assertEqual(list(ids.sync()), DAYS[1:4])
        self.assertEqual(ids.turn_to(DAYS[2]), [])

    def test_a_day_is_forgotten_even_if_its_file_cannot_be_removed(self) -> None:
        """It is removed by the next start, which finds it unknown."""
        ids = self.opened({})
        ids.add(digests("a"), DAYS[0])
        ids.sync()
        self.disk.fail("unlink")
        self.assertEqual(ids.turn_to(DAYS[9]), [DAYS[0]])
        self.assertEqual(self.names(), ["ledger.ids.2026-11-10"])
        self.opened(ids.sync())
        self.assertEqual(self.names(), [])

    def test_zero_keeps_ids_for_ever(self) -> None:
        """In one table, and still in one file a day."""
        ids = self.opened({}, 0)
        for n, day in enumerate(DAYS):
            ids.add(digests(n), day)
        self.assertEqual(ids.turn_to("2126-11-05"), [])
        recorded = ids.sync()
        self.assertEqual(recorded, dict.fromkeys(DAYS, 1))
        ids.keep_tables(recorded)
        self.assertEqual(len(self.names()), len(DAYS) + 1)
        self.assertEqual(self.names()[-1], f"ledger.ids.{DAYS[9]}.table")
        again = self.opened(recorded, 0)
        self.assertEqual(self.known(again, *range(11)), [True] * 10 + [False])
        again.add(digests(*range(100, 120)), "2026-12-01")
        again.keep_tables(again.sync())
        self.assertEqual(self.names()[-1], "ledger.ids.2026-12-01.table")
        self.assertEqual(len(self.names()), len(DAYS) + 2)

    def test_how_long_ids_are_kept_may_change_at_any_time(self) -> None:
        """What was added and not yet written stays known across it."""
        ids = self.opened({}, 3)
        ids.add(digests("a"), DAYS[0])
        ids.sync()
        for days_kept in (0, 3, 2, 0):
            ids.days_kept = days_kept
            ids.add(digests(f"b{days_kept}"), DAYS[1])
            self.assertEqual(self.known(ids, "a", f"b{days_kept}", "c"), [True, True, False])
            ids.keep_tables(ids.sync(), final=True)
        ids.turn_to(DAYS[9])
        ids.days_kept = 5
        self.assertEqual(ids.turn_to(DAYS[9]), DAYS[:2])

    def test_the_first_days_of_all_time(self) -> None:
        """A retention longer than the calendar forgets nothing."""
        ids = self.opened({}, 10**9)
        ids.add(digests("a"), "0001-01-01")
        self.assertEqual(ids.turn_to("0001-01-02"), [])
        self.assertEqual(ids.turn_to("1970-01-01"), [])

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_it_is_a_set_for_each_day(self, data: st.DataObject) -> None:
        """Whatever is done in whatever order, with restarts in between."""
        self.use(MemoryDisk("/state", recording=False))
        days_kept = data.draw(st.sampled_from([0, 1, 3]))
        ids = self.opened({}, days_kept)
        model: dict[int, str] = {}
        today = 0
        for _ in range(data.draw(st.integers(1, 15))):
            action = data.draw(st.sampled_from(["add", "add", "turn", "sync", "keep", "restart"]))
            if action == "add":
                names = data.draw(st.sets(st.integers(0, 60), max_size=12)) - set(model)
                ids.add(digests(*names), DAYS[today])
                model.update(dict.fromkeys(names, DAYS[today]))
                ids.flush()
            elif action == "turn":
                today = min(today + 1, len(DAYS) - 1)
                forgotten = ids.turn_to(DAYS[today])
                model = {name: day for name, day in model.items() if day not in forgotten}
                if days_kept:
                    oldest = DAYS[max(0, today - days_kept)]
                    self.assertTrue(all(day >= oldest for day in model.values()))
            elif action in ("keep", "sync"):
                recorded = ids.sync()
                self.assertEqual(sum(recorded.values()), len(model))
                if action == "keep":
                    ids.keep_tables(recorded, final=data.draw(st.booleans()))
            else:
                recorded = ids.sync()
                ids.close()
                ids = self.opened(recorded, days_kept)
            if data.draw(st.booleans()):
                asked = list(range(70))
                self.assertEqual(self.known(ids, *asked), [name in model for name in asked])
            self.assertEqual(len(ids), len(model))


class FileTests(RecordedIdsCase):
    """What stands on the disk, and what a start makes of it."""

    def test_the_format(self) -> None:
        """A header, then 16 bytes an id, in the order of recording."""
        ids = self.opened({})
        ids.add(digests("b", "a"), DAYS[0])
        ids.flush()
        ids.add(digests("c"), DAYS[0])
        self.assertEqual(ids.sync(), {DAYS[0]: 3})
        self.assertEqual(self.disk.contents(), {FAMILY.ids(DAYS[0]): records("b", "a", "c")})
        self.assertEqual(len(HEADER), 16)

    def test_longer_files_are_cut_in_whole_records(self) -> None:
        """To what the snapshot covers; what stood behind is not known."""
        for behind in (b"", b"torn", records("x")[16:], records("x", "y")[16:] + b"z"):
            self.disk.put(FAMILY.ids(DAYS[0]), records("a", "b") + behind)
            ids = self.opened({DAYS[0]: 2})
            self.assertEqual(self.disk.contents()[FAMILY.ids(DAYS[0])], records("a", "b"))
            self.assertEqual(self.known(ids, "a", "b", "x", "y"), [True, True, False, False])
            ids.add(digests("n"), DAYS[0])
            ids.sync()
            ids.close()
            self.assertEqual(self.disk.contents()[FAMILY.ids(DAYS[0])], records("a", "b", "n"))

    def test_files_that_the_snapshot_does_not_know_are_removed(self) -> None:
        """With their tables, and what a broken-off table left."""
        for path in (
            FAMILY.ids(DAYS[0]),
            FAMILY.ids(DAYS[1]),
            FAMILY.id_table(DAYS[1]),
            FAMILY.id_table(DAYS[2]),
            FAMILY.id_table(DAYS[0]) + ".tmp",
            FAMILY.active,
        ):
            self.disk.put(path, records("a"))
        ids = self.opened({DAYS[0]: 1})
        self.assertEqual(self.names(), ["ledger.ids.2026-11-10", "ledger.jsonl"])
        self.assertEqual(self.known(ids, "a"), [True])
        self.opened({})
        self.assertEqual(self.names(), ["ledger.jsonl"])

    def test_lost_ids_are_told_and_the_rest_is_known(self) -> None:
        """A file that is missing, short, or none; the ledger can go on with what there is."""
        self.disk.put(FAMILY.ids(DAYS[1]), records("a", "b")[:-1])
        self.disk.put(FAMILY.ids(DAYS[2]), b"something else, longer than a header")
        self.disk.put(FAMILY.ids(DAYS[3]), HEADER[:7])
        self.disk.put(FAMILY.ids(DAYS[4]), records("c"))
        recorded = {DAYS[0]: 7, DAYS[1]: 2, DAYS[2]: 1, DAYS[3]: 1, DAYS[4]: 1}
        lost = [
            LostIds(DAYS[0], 7, 0),
            LostIds(DAYS[1], 2, 1),
            LostIds(DAYS[2], 1, 0),
            LostIds(DAYS[3], 1, 0),
        ]
        self.assertEqual(RecordedIds(FAMILY, 0).lost(recorded), lost)
        before = self.disk.contents()
        self.assertEqual(RecordedIds(FAMILY, 2).lost(recorded, DAYS[4]), lost[2:])
        self.assertEqual(self.disk.contents(), before)
        ids = self.opened(recorded, lost=lost)
        self.assertEqual(self.known(ids, "a", "b", "c"), [True, False, True])
        ids.add(digests("n"), DAYS[2])
        self.assertEqual(ids.sync(), {**recorded, DAYS[2]: 2})
        aside = self.disk.contents()[FAMILY.ids(DAYS[2]) + ".damaged"]
        self.assertEqual(aside, b"something else, longer than a header")

    def test_what_comes_after_lost_ids_does_not_take_their_place(self) -> None:
        """So a start after a crash, which knows how many there were, does not take it for them."""
        for there in (b"", HEADER, records("a"), records("a", "b")[:-1]):
            self.disk.put(FAMILY.ids(DAYS[0]), there)
            found = (there.startswith(HEADER) and len(there) // 16 - 1) or 0
            ids = self.opened({DAYS[0]: 3}, lost=[LostIds(DAYS[0], 3, found)])
            ids.add(digests("n", "m"), DAYS[0])
            self.assertIsNone(ids.flush())
            self.assertEqual(len(ids), 5)
            again = self.opened({DAYS[0]: 3})
            self.assertEqual(self.known(again, "a", "n", "m"), [found == 1, False, False])
            again = self.opened({DAYS[0]: 3})
            again.add(digests("n"), DAYS[0])
            self.assertEqual(again.sync(), {DAYS[0]: 4})
            self.assertEqual(self.known(self.opened({DAYS[0]: 4}), "a", "n"), [found == 1, True])

    def test_what_is_forgotten_after_the_replay_is_not_written_in_it(self) -> None:
        """The file of its day was removed, maybe, and the snapshot still knows of it."""
        ids = RecordedIds(FAMILY, 1)
        self.assertEqual(ids.open({DAYS[0]: 1}, DAYS[4]), [])
        for day in (DAYS[0], DAYS[3]):
            ids.turn_to(day)
            ids.add(digests(day), day)
            self.assertIsNone(ids.flush())
        self.assertEqual(self.known(ids, DAYS[0], DAYS[3]), [False, True])
        self.assertEqual(self.names(), ["ledger.ids.2026-11-13"])
        ids.turn_to(DAYS[4])
        self.assertEqual(ids.sync(), {DAYS[3]: 1})

    def test_a_later_version_is_refused_and_left_alone(self) -> None:
        """Whether the snapshot knows the file or not."""
        self.disk.put(FAMILY.ids(DAYS[0]), records("a"))
        self.disk.put(FAMILY.ids(DAYS[1]), b"omnigate-ids 2\r\n" + bytes(64))
        before = self.disk.contents()
        for recorded in ({}, {DAYS[0]: 1}, {DAYS[1]: 1}):
            error = self.assertRaises(NewerIdsError, RecordedIds(FAMILY, 3).open, recorded)
            self.assertIn(FAMILY.ids(DAYS[1]), str(error))
            self.assertEqual(self.disk.contents(), before)

    def test_ids_are_read_when_they_are_asked_for(self) -> None:
        """Not before; a disk that refuses is asked again."""
        self.disk.put(FAMILY.ids(DAYS[0]), records("a"))
        self.disk.put(FAMILY.ids(DAYS[1]), records("b"))
        ids = self.opened({DAYS[0]: 1, DAYS[1]: 1})
        self.assertEqual(len(ids), 2)
        self.assertEqual(ids.sync(), {DAYS[0]: 1, DAYS[1]: 1})
        for call in (ids.load, lambda: ids.known([]), lambda: ids.add([], DAYS[0])):
            self.disk.fail("read")
            self.assertEqual(self.assertRaises(OSError, call).errno, errno.EIO)
        ids.load()
        self.disk.fail("read", times=9)
        self.assertEqual(self.known(ids, "a", "b", "c"), [True, True, False])

    def test_a_file_that_is_shortened_in_between_is_noticed(self) -> None:
        """When it is read, and when it is written."""
        for work in (lambda ids: ids.load(), lambda ids: (ids.add(digests("n"), DAYS[0]),)):
            self.disk.put(FAMILY.ids(DAYS[0]), records("a", "b"))
            ids = self.opened({DAYS[0]: 2})
            if work(ids) is not None:
                self.disk.put(FAMILY.ids(DAYS[0]), records("a"))
                self.assertEqual(self.assertRaises(OSError, ids.sync).errno, errno.ESTALE)
            ids.close()
            self.disk.put(FAMILY.ids(DAYS[0]), records("a", "b"))
            ids = self.opened({DAYS[0]: 2})
            self.disk.put(FAMILY.ids(DAYS[0]), records("a"))
            self.assertEqual(self.assertRaises(OSError, ids.load).errno, errno.ESTALE)
            ids.close()

    def test_a_disk_that_refuses_is_waited_for(self) -> None:
        """Ids that cannot be written stay known, and are written when it works again, once."""
        for break_disk in (
            lambda: self.disk.fail("open", times=3),
            lambda: self.disk.fail("write", times=3),
            lambda: self.disk.fail("fdatasync"),
            lambda: self.disk.free_bytes.update({"/state": 24}),
            lambda: self.disk.free_bytes.update({"/state": 40}),
        ):
            self.use(MemoryDisk("/state"))
            ids = self.opened({})
            break_disk()
            ids.add(digests("a", "b"), DAYS[0])
            ids.flush()
            self.assertRaises(OSError, ids.sync)
            self.assertEqual(self.known(ids, "a", "b", "c"), [True, True, False])
            self.disk.heal()
            ids.add(digests("c"), DAYS[0])
            self.assertIsNone(ids.flush())
            self.assertEqual(ids.sync(), {DAYS[0]: 3})
            self.assertEqual(self.disk.contents(), {FAMILY.ids(DAYS[0]): records("a", "b", "c")})

    def test_what_a_flush_cannot_write_is_told(self) -> None:
        """And kept for the next."""
        ids = self.opened({})
        ids.add(digests("a"), DAYS[0])
        self.disk.fail("write")
        error = ids.flush()
        self.assertIsInstance(error, OSError)
        self.assertIsNone(ids.flush())

    def test_few_files_are_open_in_a_long_replay(self) -> None:
        """Whatever number of days it meets; and what is not synced is bounded."""
        self.patch(recorded_ids, "UNSYNCED_BYTES", 160)
        ids = self.opened({}, 0)
        for n in range(60):
            ids.add(digests(*range(4 * n, 4 * n + 4)), DAYS[n * 7 % 10])
            self.assertIsNone(ids.flush())
            self.assertLessEqual(len(self.disk._opened), recorded_ids.OPEN_FILES + 1)
            for file in ids._files.values():
                self.assertLess(len(file.unsynced), 160)
        self.assertEqual(sum(ids.sync().values()), 240)
        self.assertLessEqual(len(self.disk._opened), 1)


class TableTests(RecordedIdsCase):
    """Tables are written now and then, and trusted only where they agree."""

    def kept(self, count: int = 10, days_kept: int = 3) -> RecordedIds:
        ids = self.opened({}, days_kept)
        ids.turn_to(DAYS[0])
        ids.add(digests(*range(count)), DAYS[0])
        ids.keep_tables(ids.sync())
        return ids

    def decoded(self) -> list[int]:
        """How many ids each table had that is read from now on."""
        seen: list[int] = []
        decode = IdTable.decode

        def counting(pieces: object, size: int) -> object:
            head, table = decode(pieces, size)  # type: ignore[arg-type]
            seen.append(len(table))
            return head, table

        self.patch(IdTable, "decode", counting)
        return seen

    def test_a_table_spares_reading_the_ids_one_by_one(self) -> None:
        """Only those behind it are added."""
        ids = self.kept(10)
        ids.add(digests(10, 11), DAYS[0])
        recorded = ids.sync()
        ids.keep_tables(recorded)
        ids.close()
        seen = self.decoded()
        again = self.opened(recorded)
        self.assertEqual(self.known(again, *range(13)), [True] * 12 + [False])
        self.assertEqual(seen, [10])

    def test_a_table_is_written_again_when_much_came(self) -> None:
        """Not for little, unless its day is over or it is the end."""
        self.patch(recorded_ids, "TABLE_STEP_IDS", 10)
        path = FAMILY.id_table(DAYS[0])
        ids = self.kept(8)
        self.assertNotIn(path, self.disk.contents())
        ids.add(digests(*range(8, 12)), DAYS[0])
        ids.keep_tables(ids.sync())
        first = self.disk.contents()[path]
        ids.add(digests(12), DAYS[0])
        ids.keep_tables(ids.sync())
        self.assertEqual(self.disk.contents()[path], first)
        ids.keep_tables(ids.sync(), final=True)
        second = self.disk.contents()[path]
        self.assertNotEqual(second, first)
        ids.add(digests(13), DAYS[0])
        ids.turn_to(DAYS[1])
        ids.keep_tables(ids.sync())
        self.assertNotEqual(self.disk.contents()[path], second)
        calls = len(self.disk.calls)
        ids.keep_tables(ids.sync())
        self.assertNotIn("replace", self.disk.calls[calls:])

    def test_large_tables_wait_for_an_eighth(self) -> None:
        """So that an id is not written again and again."""
        self.patch(recorded_ids, "TABLE_STEP_IDS", 1)
        ids = self.kept(800)
        sizes = []
        for n in range(800, 1300, 10):
            calls = len(self.disk.calls)
            ids.add(digests(*range(n, n + 10)), DAYS[0])
            ids.keep_tables(ids.sync())
            if "replace" in self.disk.calls[calls:]:
                sizes.append(n + 10)
        self.assertEqual(sizes, [920, 1060, 1220])

    def test_a_table_holds_what_the_snapshot_covers(self) -> None:
        """Also if more ids came since; if very many did, it is left for the next time."""
        ids = self.kept(100)
        path = FAMILY.id_table(DAYS[0])
        ids.add(digests(*range(100, 200)), DAYS[0])
        recorded = ids.sync()
        ids.add(digests("new"), DAYS[0])
        ids.keep_tables(recorded)
        seen = self.decoded()
        again = self.opened(recorded)
        self.assertEqual(self.known(again, 0, 199, "new"), [True, True, False])
        self.assertEqual(seen, [200])
        again.add(digests(*range(300, 600)), DAYS[0])
        before = self.disk.contents()[path]
        again.keep_tables(recorded, final=True)
        recorded = again.sync()
        again.add(digests(*range(600, 900)), DAYS[0])
        again.keep_tables(recorded, final=True)
        self.assertEqual(self.disk.contents()[path], before)

    def test_a_table_that_does_not_agree_is_made_anew(self) -> None:
        """Damaged, ahead of the file, of other ids, of another day: the id file decides."""
        self.kept(10).close()
        good = self.disk.contents()
        table = good[FAMILY.id_table(DAYS[0])]
        seen = self.decoded()
        self.assertEqual(self.known(self.opened({DAYS[0]: 10}), 9), [True])
        self.assertEqual(seen, [10])
        for id_file, other in (
            (records(*range(10)), table[:-1]),
            (records(*range(10)), b""),
            (records(*range(10)), table[:700] + b"\1" + table[701:]),
            (records(*range(9)), table),
            (records(*range(9), "x"), table),
            (records("x", *range(1, 10)), table),
        ):
            self.disk.put(FAMILY.ids(DAYS[0]), id_file)
            self.disk.put(FAMILY.id_table(DAYS[0]), other)
            count = len(id_file) // 16 - 1
            ids = self.opened({DAYS[0]: count})
            expected = [id_digest(str(n)) in id_file for n in range(11)]
            self.assertEqual(self.known(ids, *range(11)), expected)
            self.assertEqual(self.known(ids, "x"), [id_digest("x") in id_file])
            ids.keep_tables(ids.sync(), final=True)
            ids.close()
            del seen[:]
            self.opened({DAYS[0]: count}).load()
            self.assertEqual(seen, [count])
        self.disk.put(FAMILY.ids(DAYS[1]), records("y"))
        self.disk.put(FAMILY.id_table(DAYS[1]), table)
        ids = self.opened({DAYS[1]: 1})
        self.assertEqual(self.known(ids, 0, "y"), [False, True])

    def test_a_table_that_cannot_be_written_changes_nothing(self) -> None:
        """The old one stays, and no leftovers."""
        ids = self.kept(10)
        before = self.disk.contents()
        ids.add(digests(*range(10, 30)), DAYS[0])
        recorded = ids.sync()
        self.disk.free_bytes["/state"] = 2000
        self.assertRaises(OSError, ids.keep_tables, recorded)
        self.disk.heal()
        self.assertEqual(self.names(), sorted(path.rpartition("/")[2] for path in before))
        ids.keep_tables(recorded)
        ids.close()
        seen = self.decoded()
        self.opened(recorded).load()
        self.assertEqual(seen, [30])


@attrs.frozen
class Told:
    """What the world outside knows: how many events are on the disk, and the newest snapshot."""

    lines: int
    covered: int
    recorded: dict[str, int]
    today: str


class CrashTests(RecordedIdsCase):
    """Whatever a crash leaves: the ids after a start are those of the events that are counted."""

    def run_life(self, ids: RecordedIds, days_kept: int, rng: Random) -> list[tuple[str, str]]:
        """Record events over some days, with snapshots; returns each with its day."""
        lines: list[tuple[str, str]] = []
        covered, recorded = 0, dict[str, int]()
        for turn in range(14):
            today = DAYS[turn // 3]
            self.disk.mark(Told(len(lines), covered, recorded, today))
            forgotten = ids.turn_to(today)
            names = [f"{turn}/{n}" for n in range(rng.randrange(1, 7))]
            lines += [(name, today) for name in names]
            self.disk.mark(Told(len(lines), covered, recorded, today))
            ids.add(digests(*names), today)
            ids.flush()
            if forgotten or rng.random() < 0.5:
                recorded = ids.sync()
                covered = len(lines)
                self.disk.mark(Told(len(lines), covered, recorded, today))
                ids.keep_tables(recorded, final=rng.random() < 0.3)
        return lines

    def check(self, told: Told, lines: list[tuple[str, str]], days_kept: int) -> None:
        """Start anew from the newest snapshot, replay what stands behind it, and go on."""
        ids = RecordedIds(FAMILY, days_kept)
        self.assertEqual(ids.open(told.recorded, told.today), [])
        cutoff = ids._cutoff(told.today)
        for n, (name, day) in enumerate(lines[: told.lines]):
            if n < told.covered:
                if day >= cutoff:
                    self.assertEqual(self.known(ids, name), [True], name)
            else:
                ids.turn_to(day)
                self.assertEqual(self.known(ids, name), [False], name)
                ids.add(digests(name), day)
        ids.turn_to(told.today)
        kept = [(name, day) for name, day in lines[: told.lines] if day >= cutoff]
        self.assertEqual(len(ids), len(kept))
        recorded = ids.sync()
        self.assertEqual(sum(recorded.values()), len(kept))
        ids.close()
        again = RecordedIds(FAMILY, days_kept)
        self.assertEqual(again.open(recorded), [])
        self.assertTrue(all(again.known(digests(*(name for name, _ in kept)))))
        again.close()

    def test_every_crash_of_a_life(self) -> None:
        """A kill or a power loss after each step and within each write."""
        for days_kept, seed in ((2, 1), (0, 2)):
            rng = Random(seed)
            self.use(MemoryDisk("/state"))
            disk = self.disk
            ids = self.opened({}, days_kept)
            lines = self.run_life(ids, days_kept, rng)
            checked = 0
            for state in disk.crash_states(tears=few_bytes, rng=rng, mixed=1):
                told = state.marks[-1] if state.marks else Told(0, 0, {}, DAYS[0])
                assert isinstance(told, Told)
                self.use(state.disk())
                self.check(told, lines, days_kept)
                checked += 1
            self.assertGreater(checked, 300)
