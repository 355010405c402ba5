"""Tests for omnigate.ledger.id_table."""

import tracemalloc
from hashlib import sha256
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.id_table import (
    MIN_SLOTS,
    PARTS,
    DamagedTableError,
    Digests,
    IdTable,
    id_digest,
)

#: Digests that come into each other's way: few parts, few tags, few slots, and all bytes 0.
CROWDED = st.builds(
    lambda first, low, high: first + low + high,
    st.sampled_from([b"\0", b"\x01", b"\xff"]),
    st.sampled_from([bytes(7), b"\1" + bytes(6), bytes(6) + b"\1", b"\2" + bytes(6)]),
    st.integers(0, 40).map(lambda n: n.to_bytes(8, "little")) | st.binary(min_size=8, max_size=8),
)

DAYS = {"2026-11-10": (3, 7)}


def digests(*each: bytes) -> Digests:
    return Digests(b"".join(each))


def filled(*each: bytes) -> IdTable:
    table = IdTable()
    table.add(digests(*each))
    return table


def sealed(data: bytes) -> bytes:
    """The file with the checksum that goes with what it says."""
    return data[:-4] + crc32(data[:-4]).to_bytes(4, "little")


def many(count: int, salt: str = "") -> list[bytes]:
    return [id_digest(f"{salt}{n}") for n in range(count)]


class DigestTests(SynchronousTestCase):
    """What is remembered of an id."""

    def test_it_is_the_first_16_bytes_of_its_sha_256(self) -> None:
        """The digest does not depend on what the sender made the id look like."""
        for text in ("a", "00" * 16, "job/ü/" + "x" * 250):
            self.assertEqual(id_digest(text), sha256(text.encode()).digest()[:16])

    def test_half_a_surrogate_pair_has_a_digest_too(self) -> None:
        """No id can make the ledger fall over."""
        self.assertEqual(len(id_digest("\ud800")), 16)


class IdTableTests(SynchronousTestCase):
    """A set of digests."""

    @settings(max_examples=200, deadline=None)
    @given(st.lists(CROWDED, max_size=400), st.lists(CROWDED, max_size=50), st.integers(0, 10**4))
    def test_it_is_a_set(self, added: list[bytes], asked: list[bytes], expected: int) -> None:
        """However they crowd, in whatever pieces they come: what was added is there, no other."""
        table = IdTable(expected)
        for start in range(0, len(added), 7):
            table.add(digests(*added[start : start + 7]))
        self.assertEqual(len(table), len(set(added)))
        every = added + asked
        missing = table.missing(digests(*every), range(len(every)))
        self.assertEqual(missing, [n for n, each in enumerate(every) if each not in set(added)])

    def test_only_what_is_asked_for_is_looked_up(self) -> None:
        """In the order asked."""
        table = filled(*many(10))
        other = digests(*many(10, "x"), *many(10))
        self.assertEqual(table.missing(other, [12, 3, 19, 1]), [3, 1])

    def test_all_128_bits_count(self) -> None:
        """A digest that differs in one bit is another."""
        one = id_digest("one")
        table = filled(one)
        for bit in range(128):
            other = (int.from_bytes(one, "big") ^ 1 << bit).to_bytes(16, "big")
            self.assertEqual(table.missing(digests(other), [0]), [0])

    def test_growth_keeps_everything(self) -> None:
        """Part by part, from empty to fifty times doubled in all."""
        added = many(20_000)
        table = filled(*added)
        self.assertEqual(table.missing(digests(*added), range(len(added))), [])
        self.assertEqual(len(table), len(added))
        self.assertGreater(table.size, IdTable().size * 4)

    def test_room_is_made_for_what_is_expected(self) -> None:
        """Nothing grows, give or take a part that gets more than its share."""
        table = IdTable(30_000)
        before = table.size
        table.add(digests(*many(30_000)))
        self.assertLessEqual(table.size, before * 1.2)

    def test_memory_at_every_size(self) -> None:
        """At most 61 MiB a million ids, growth included, once a table has left its first size."""
        tracemalloc.start()
        try:
            table = IdTable()
            base = tracemalloc.get_traced_memory()[0]
            for count in range(5_000, 100_001, 5_000):
                batch = digests(*many(5_000, f"{count}/"))
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0] - table.size
                table.add(batch)
                peak = tracemalloc.get_traced_memory()[1] - before
                self.assertLess(peak, count * 64 + 100_000)
            self.assertLess(table.size, 100_000 * 61 * 1.048576)
            self.assertGreater(table.size, base)
        finally:
            tracemalloc.stop()


class FileTests(SynchronousTestCase):
    """Written down, and read back at once."""

    def read(self, data: bytes, piece: int = 1000) -> IdTable:
        pieces = [data[start : start + piece] for start in range(0, len(data), piece)]
        head, table = IdTable.decode(pieces, len(data))
        self.assertEqual(head.days, DAYS)
        return table

    @settings(max_examples=50, deadline=None)
    @given(st.lists(CROWDED, max_size=200), st.integers(1, 100_000))
    def test_what_was_written_is_read_back(self, added: list[bytes], piece: int) -> None:
        """In pieces of any length; and more can be added to it."""
        table = self.read(b"".join(filled(*added).encode(DAYS)), max(piece, 50))
        self.assertEqual(len(table), len(set(added)))
        self.assertEqual(table.missing(digests(*added), range(len(added))), [])
        table.add(digests(*many(1000)))
        self.assertEqual(table.missing(digests(*added, *many(1000)), range(len(added) + 1000)), [])

    def test_large_parts_are_written_in_pieces(self) -> None:
        """No call copies more than a little at a time."""
        table = IdTable(1_000_000)
        table.add(digests(*many(100)))
        pieces = list(table.encode(DAYS))
        self.assertLessEqual(max(map(len, pieces)), 512 * 1024)
        self.assertEqual(len(self.read(b"".join(pieces), 256 * 1024)), 100)

    def test_any_damage_is_noticed(self) -> None:
        """A byte turned anywhere, and any other length."""
        data = b"".join(filled(*many(50), bytes(16)).encode(DAYS))
        self.assertEqual(len(self.read(data)), 51)
        places = {*range(60), *range(len(data) - 40, len(data)), *range(60, len(data), 997)}
        for at in places:
            for bit in (0, 5):
                changed = bytearray(data)
                changed[at] ^= 1 << bit
                self.assertRaises(DamagedTableError, self.read, bytes(changed))
        for other in (b"", data[:10], data[:5000], data[:-1], data + b"\0", data[20:], data * 2):
            self.assertRaises(DamagedTableError, self.read, other)
        self.assertRaises(DamagedTableError, IdTable.decode, [data], len(data) + 1)
        self.assertRaises(DamagedTableError, IdTable.decode, [data[:-1]], len(data))

    def test_a_head_without_an_end_is_not_read_for_ever(self) -> None:
        """Whatever follows a first line that is right."""
        asked = []

        def endless() -> object:
            yield b"omnigate-id-table 1\n"
            while True:
                asked.append(1)
                yield bytes(1024 * 1024)

        self.assertRaises(DamagedTableError, IdTable.decode, endless(), 10**9)
        self.assertLess(len(asked), 10)

    def test_a_head_that_asks_for_too_much_is_refused(self) -> None:
        """Before any memory is taken for it."""
        data = b"".join(filled(*many(5)).encode(DAYS))
        for old, new in (
            (b'"slots":[16,', b'"slots":[1099511627776,'),
            (b'"slots":[16,', b'"slots":[17,'),
            (b'"slots":[16,', b'"slots":[-16,'),
            (b'"slots":[16,', b'"slots":[16,16,'),
            (b'"slots":[16,', b'"more":1,"slots":[16,'),
            (b"[3,7]", b"[3]"),
        ):
            self.assertIn(old, data)
            self.assertRaises(DamagedTableError, self.read, sealed(data.replace(old, new)))

    def test_a_table_that_is_too_full_is_refused(self) -> None:
        """A look-up in it might never end, whatever its checksum says."""
        data = bytearray(b"".join(IdTable().encode(DAYS)))
        tags = data.index(b"\n", data.index(b"\n") + 1) + 1
        self.assertEqual(len(self.read(sealed(bytes(data)))), 0)
        data[tags : tags + MIN_SLOTS] = b"\1" * MIN_SLOTS
        self.assertRaises(DamagedTableError, self.read, sealed(bytes(data)))

    def test_the_first_size(self) -> None:
        """An empty table costs little."""
        self.assertEqual(IdTable().size, PARTS * MIN_SLOTS * 17)
        self.assertEqual(len(self.read(b"".join(IdTable().encode(DAYS)))), 0)
