"""A table of recorded ids in memory, and the file that it can be read back from at once.

What is remembered of an id is its *digest*: the first 16 bytes of its SHA-256, all of them, in one
slot of an open-addressed table. A table is 256 parts, chosen by the digest's first byte, which
grow one by one: each doubles when six slots of ten are taken. So an id takes 27 to 53 bytes, at no
time is more than one part in memory twice, and no growth takes longer than about 1/256 of what
filling the whole table took.

The file of a table is::

    omnigate-id-table 1\\n
    {"byteorder":"little","days":{"2026-11-10":[1000,305419896]},
     "slots":[...],"counts":[...],"odd":[]}\\n             (one line)
    the slots of all parts, as they are in memory
    CRC-32 of all that, 4 bytes, little-endian

``days`` says which id files it was made from: of each how many of its first records, and the CRC-32
of those. The table is good for nothing else, and is made anew whenever anything does not agree.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from zlib import crc32

import msgspec

#: Bytes of the SHA-256 kept of an id. Two of a billion ids share 128 bits with odds of 1 to 10**20.
DIGEST_BYTES = 16

#: Into how many parts a table is divided: as many as the first byte of a digest has values.
PARTS = 256

#: Slots of a part at first: 64 KiB a table, before anything is in it.
MIN_SLOTS = 16

# A part doubles when so many of its slots are taken. At 0.6 the way to an id that is not there is
# 3.6 slots long; at 0.7 it would be 6.
_LOAD = 0.6

#: About how long the pieces are in which a table file is written, in bytes.
PIECE_BYTES = 256 * 1024

#: The longest head of a table file: with a hundred years of days it has 1.2 MB.
MAX_HEAD_BYTES = 4 * 1024 * 1024

_MAGIC = b"omnigate-id-table 1\n"
_CHECK_BYTES = 4


class DamagedTableError(Exception):
    """A table file is not whole, or is none; the text says why."""


def id_digest(event_id: str) -> bytes:
    """What is remembered of an id."""
    return sha256(event_id.encode("utf-8", "replace")).digest()[:DIGEST_BYTES]


class Digests:
    """Some digests, taken apart for a look at tables; taken apart once, looked at in many tables.

    :ivar first: of each its first byte, which says the part.
    :ivar low: of each its first 8 bytes, as a number. It is 0 for one of 10**19.
    :ivar high: of each its last 8 bytes, as a number; it says the slot.
    """

    __slots__ = ("first", "high", "low")

    def __init__(self, raw: bytes | bytearray) -> None:
        """Take them apart.

        :param raw: the digests one behind the other.
        """
        words = array("Q", raw).tolist()
        self.first = raw[::DIGEST_BYTES]
        self.low: list[int] = words[::2]
        self.high: list[int] = words[1::2]

    def __len__(self) -> int:
        return len(self.low)


class TableHead(msgspec.Struct, forbid_unknown_fields=True):
    """The second line of a table file.

    :ivar byteorder: that of the machine that wrote it; on another the table is made anew.
    :ivar days: for each UTC day how many of the first records of its id file are in the table, and
        their CRC-32.
    :ivar slots: how many slots each part has.
    :ivar counts: how many of them are taken.
    :ivar odd: the digests that no slot can hold, as numbers: their first 8 bytes are 0.
    """

    byteorder: str
    days: dict[str, tuple[int, int]]
    slots: list[int]
    counts: list[int]
    odd: list[int]


_decode_head = msgspec.json.Decoder(TableHead).decode
_encode_head = msgspec.json.Encoder().encode


class IdTable:
    """A set of digests.

    A slot is two 64-bit words, those of the digest; it is free where the first one is 0.

    :param expected: how many digests will be added; there is room for them from the beginning.
    """

    def __init__(self, expected: int = 0) -> None:
        slots = MIN_SLOTS
        while slots * PARTS * _LOAD < expected:
            slots *= 2
        self._parts = [_empty(slots) for _ in range(PARTS)]
        self._counts = [0] * PARTS
        self._odd: set[int] = set()

    def __len__(self) -> int:
        return sum(self._counts) + len(self._odd)

    @property
    def size(self) -> int:
        """Bytes of memory that the slots take."""
        return sum(map(len, self._parts)) * 8

    def missing(self, digests: Digests, among: Iterable[int]) -> list[int]:
        """Look digests up; 0.4 µs each.

        :param among: the indices of those to look for.
        :return: the indices of those that are not in the table, in the same order.
        """
        parts, first, low, high = self._parts, digests.first, digests.low, digests.high
        missing = []
        for index in among:
            part = parts[first[index]]
            wrap = len(part) - 2
            at = high[index] & wrap
            while stored := part[at]:
                if stored == low[index] and part[at + 1] == high[index]:
                    break
                at = at + 2 & wrap
            else:
                missing.append(index)
        if self._odd:
            return [n for n in missing if low[n] or high[n] not in self._odd]
        return missing

    def add(self, digests: Digests) -> None:
        """Add digests, whether they are in the table or not; 0.9 µs each, growth included."""
        parts, counts = self._parts, self._counts
        for number, low, high in zip(digests.first, digests.low, digests.high, strict=True):
            if not low:
                self._odd.add(high)
                continue
            part = parts[number]
            wrap = len(part) - 2
            at = high & wrap
            while stored := part[at]:
                if stored == low and part[at + 1] == high:
                    break
                at = at + 2 & wrap
            else:
                part[at] = low
                part[at + 1] = high
                counts[number] += 1
                if counts[number] * 2 > len(part) * _LOAD:
                    parts[number] = _doubled(part)

    def clear(self) -> None:
        """Give the memory back, part by part, since giving back much in one go takes its time."""
        self._counts = [0] * PARTS
        self._odd.clear()
        for number in range(PARTS):
            self._parts[number] = _empty(MIN_SLOTS)

    def encode(self, days: dict[str, tuple[int, int]]) -> Iterator[bytes]:
        """Write the table down.

        :param days: the id files that it was made from, as in :class:`TableHead`.
        :return: the file, in pieces of about :data:`PIECE_BYTES`.
        """
        head = _MAGIC + _encode_head(
            TableHead(
                byteorder=sys.byteorder,
                days=days,
                slots=[len(part) // 2 for part in self._parts],
                counts=self._counts,
                odd=sorted(self._odd),
            )
        )
        piece = bytearray(head + b"\n")
        check = 0
        for part in self._parts:
            view = memoryview(part).cast("B")
            for start in range(0, len(view), PIECE_BYTES):
                piece += view[start : start + PIECE_BYTES]
                # Small parts go together, so that a small table is one write and not 256.
                if len(piece) >= PIECE_BYTES:
                    check = crc32(piece, check)
                    yield bytes(piece)
                    piece.clear()
        check = crc32(piece, check)
        yield bytes(piece) + check.to_bytes(_CHECK_BYTES, "little")

    @classmethod
    def decode(cls, pieces: Iterable[bytes], size: int) -> tuple[TableHead, IdTable]:
        """Read a table back; 20 ms of CPU for a million ids.

        :param pieces: the file.
        :param size: its length.
        :raises DamagedTableError: anything about it is not as it was written.
        """
        source = iter(pieces)
        start, rest = _split_head(source)
        try:
            head = _decode_head(start[len(_MAGIC) :])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedTableError(str(error)) from None
        _check_head(head, size - len(start))
        table = cls()
        # Part by part, so that its memory is not asked for in one long call.
        table._parts = [_empty(slots) for slots in head.slots]
        table._counts = list(head.counts)
        table._odd = set(head.odd)
        if table._fill(chain((rest,), source), crc32(start)):
            return head, table
        raise DamagedTableError("its checksum is wrong")

    def _fill(self, pieces: Iterable[bytes], check: int) -> bool:
        """Fill the slots of all parts from a file; whether the checksum behind them is right."""
        targets = iter(self._parts)
        target = memoryview(next(targets)).cast("B")
        at = 0
        tail = b""
        for piece in pieces:
            left = memoryview(piece)
            while left and target:
                taken = left[: len(target) - at]
                target[at : at + len(taken)] = taken
                check = crc32(taken, check)
                left = left[len(taken) :]
                at += len(taken)
                if at == len(target):
                    target, at = memoryview(next(targets, b"")).cast("B"), 0
            tail += left
        return not target and tail == check.to_bytes(_CHECK_BYTES, "little")


def _split_head(pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The first two lines of a table file, and what was read behind them."""
    start = b""
    for piece in pieces:
        start += piece
        if not start.startswith(_MAGIC) and len(start) >= len(_MAGIC):
            raise DamagedTableError("it is no table of this version")
        end = start.find(b"\n", len(_MAGIC))
        if end >= 0:
            return start[: end + 1], start[end + 1 :]
        if len(start) > MAX_HEAD_BYTES:
            break
    raise DamagedTableError("it has no head")


def _check_head(head: TableHead, rest: int) -> None:
    """Refuse a head that does not go with itself, this machine or what stands behind it."""
    if head.byteorder != sys.byteorder:
        raise DamagedTableError("it was written on another kind of machine")
    if len(head.slots) != PARTS or len(head.counts) != PARTS:
        raise DamagedTableError("it has another number of parts")
    for slots, count in zip(head.slots, head.counts, strict=True):
        if slots < MIN_SLOTS or slots & slots - 1 or not 0 <= count <= slots * _LOAD:
            raise DamagedTableError("a part has an impossible length")
    if sum(head.slots) * DIGEST_BYTES + _CHECK_BYTES != rest:
        raise DamagedTableError("its length is wrong")


def _empty(slots: int) -> array[int]:
    return array("Q", bytes(slots * DIGEST_BYTES))


def _doubled(part: array[int]) -> array[int]:
    """The same digests in twice as many slots."""
    doubled = _empty(len(part))
    wrap = len(doubled) - 2
    for low, high in zip(part[::2], part[1::2], strict=True):
        if low:
            at = high & wrap
            while doubled[at]:
                at = at + 2 & wrap
            doubled[at] = low
            doubled[at + 1] = high
    return doubled
