"""A table of recorded ids in memory, and the file that it can be read back from at once.

What is remembered of an id is its *digest*: the first 16 bytes of its SHA-256, all of them, in one
slot of an open-addressed table. Beside the slots stands a byte for each, its *tag*: 0 for a free
slot, else a byte of the digest. A look-up goes along the tags, which are few enough to stay in the
processor's cache, and touches a slot only where the tag is right: for an id that is not there that
is one time in a hundred.

A table is 256 parts, chosen by the digest's first byte, which grow one by one: each doubles when
65 slots of 100 are taken. So an id takes 26 to 52 bytes, and at no time is more than one part in
memory twice.

The file of a table is::

    omnigate-id-table 1\\n
    {"days":{"2026-11-10":[1000,305419896]},"slots":[16,...]}\\n
    for each part: its tags, then its slots
    CRC-32 of all that, 4 bytes, little-endian

``days`` says which id files it was made from: of each how many of its first records, and the CRC-32
of those. ``slots`` says how many slots each part has. The table is good for nothing else, and is
made anew whenever anything does not agree.
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

#: Slots of a part at first: 68 KiB a table, before anything is in it.
MIN_SLOTS = 16

# A part doubles when so many of its slots are taken. At 0.65 the way to an id that is not there is
# 4.6 tags long; at 0.6 it would be 3.6, and a table up to 57 bytes an id instead of 52.
_LOAD = 0.65

#: About how long the pieces are in which a table file is written, in bytes.
PIECE_BYTES = 256 * 1024

#: The longest head of a table file: with a hundred years of days it has 1.2 MB.
MAX_HEAD_BYTES = 4 * 1024 * 1024

_MAGIC = b"omnigate-id-table 1\n"
_CHECK_BYTES = 4

# What a byte of the digest becomes as a tag: itself, but never 0.
_TAGS = b"\1" + bytes(range(1, 256))

# A part's tags, and its slots.
_Part = tuple[bytearray, bytearray]


class DamagedTableError(Exception):
    """A table file is not whole, or is none; the text says why."""


def id_digest(event_id: str) -> bytes:
    """What is remembered of an id."""
    return sha256(event_id.encode("utf-8", "replace")).digest()[:DIGEST_BYTES]


class Digests:
    """Some digests, taken apart for a look at tables; taken apart once, looked at in many tables.

    :ivar raw: the digests one behind the other.
    :ivar parts: of each its first byte, which says the part.
    :ivar tags: of each its tag, made from its second byte.
    :ivar places: of each a number, its last 8 bytes, that says where to begin to look.
    """

    __slots__ = ("parts", "places", "raw", "tags")

    def __init__(self, raw: bytes | bytearray) -> None:
        self.raw = raw
        self.parts = raw[::DIGEST_BYTES]
        self.tags = raw[1::DIGEST_BYTES].translate(_TAGS)
        self.places: list[int] = _places(raw)

    def __len__(self) -> int:
        return len(self.places)


class TableHead(msgspec.Struct, forbid_unknown_fields=True):
    """The second line of a table file.

    :ivar days: for each UTC day how many of the first records of its id file are in the table, and
        their CRC-32.
    :ivar slots: how many slots each part has.
    """

    days: dict[str, tuple[int, int]]
    slots: list[int]


_decode_head = msgspec.json.Decoder(TableHead).decode
_encode_head = msgspec.json.Encoder().encode


class IdTable:
    """A set of digests.

    :param expected: how many digests will be added; there is room for them from the beginning.
    """

    def __init__(self, expected: int = 0) -> None:
        slots = MIN_SLOTS
        while slots * PARTS * _LOAD < expected:
            slots *= 2
        self._parts = [_empty(slots) for _ in range(PARTS)]
        self._counts = [0] * PARTS

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def size(self) -> int:
        """Bytes of memory that tags and slots take."""
        return sum(len(tags) + len(slots) for tags, slots in self._parts)

    def missing(self, digests: Digests, among: Iterable[int]) -> list[int]:
        """Look digests up; 0.4 µs each.

        :param among: the indices of those to look for.
        :return: the indices of those that are not in the table, in the same order.
        """
        parts, raw = self._parts, digests.raw
        numbers, wanted, places = digests.parts, digests.tags, digests.places
        missing = []
        for index in among:
            tags, slots = parts[numbers[index]]
            wrap = len(tags) - 1
            at = places[index] & wrap
            tag = wanted[index]
            while there := tags[at]:
                if there == tag:
                    begin = index * 16
                    if slots[at * 16 : at * 16 + 16] == raw[begin : begin + 16]:
                        break
                at = at + 1 & wrap
            else:
                missing.append(index)
        return missing

    def add(self, digests: Digests) -> None:
        """Add digests, whether they are in the table or not; 1 µs each, growth included."""
        parts, counts, raw = self._parts, self._counts, digests.raw
        begin = 0
        for number, tag, place in zip(digests.parts, digests.tags, digests.places, strict=True):
            tags, slots = parts[number]
            wrap = len(tags) - 1
            at = place & wrap
            digest = raw[begin : begin + 16]
            begin += 16
            while there := tags[at]:
                if there == tag and slots[at * 16 : at * 16 + 16] == digest:
                    break
                at = at + 1 & wrap
            else:
                tags[at] = tag
                slots[at * 16 : at * 16 + 16] = digest
                counts[number] += 1
                if counts[number] > len(tags) * _LOAD:
                    parts[number] = _doubled(tags, slots)

    def clear(self) -> None:
        """Give the memory back, part by part, since giving back much in one go takes its time."""
        self._counts = [0] * PARTS
        for number in range(PARTS):
            self._parts[number] = _empty(MIN_SLOTS)

    def encode(self, days: dict[str, tuple[int, int]]) -> Iterator[bytes]:
        """Write the table down.

        :param days: the id files that it was made from, as in :class:`TableHead`.
        :return: the file, in pieces of about :data:`PIECE_BYTES`.
        """
        head = TableHead(days=days, slots=[len(tags) for tags, _ in self._parts])
        piece = bytearray(_MAGIC + _encode_head(head) + b"\n")
        check = 0
        for taken in chain.from_iterable(self._parts):
            view = memoryview(taken)
            for start in range(0, len(view), PIECE_BYTES):
                piece += view[start : start + PIECE_BYTES]
                # Small parts go together, so that a small table is one write and not 512.
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
        if not table._fill(chain((rest,), source), crc32(start)):
            raise DamagedTableError("its checksum is wrong")
        table._counts = [len(tags) - tags.count(0) for tags, _ in table._parts]
        for count, slots in zip(table._counts, head.slots, strict=True):
            if count > slots * _LOAD:
                raise DamagedTableError("a part is too full")  # a look-up might never end
        return head, table

    def _fill(self, pieces: Iterable[bytes], check: int) -> bool:
        """Fill all parts from a file; whether the checksum behind them is right."""
        targets = chain.from_iterable(self._parts)
        target = memoryview(next(targets))
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
                    target, at = memoryview(next(targets, b"")), 0
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
    """Refuse a head that does not go with itself or with the length of what stands behind it."""
    if len(head.slots) != PARTS:
        raise DamagedTableError("it has another number of parts")
    if any(slots < MIN_SLOTS or slots & slots - 1 for slots in head.slots):
        raise DamagedTableError("a part has an impossible length")
    if sum(head.slots) * (1 + DIGEST_BYTES) + _CHECK_BYTES != rest:
        raise DamagedTableError("its length is wrong")


def _empty(slots: int) -> _Part:
    return bytearray(slots), bytearray(slots * DIGEST_BYTES)


def _places(raw: bytes | bytearray) -> list[int]:
    """For each digest, or slot, the number that says where to begin to look."""
    words = array("Q", raw)
    if sys.byteorder == "big":
        words.byteswap()
    return words[1::2].tolist()


def _doubled(tags: bytearray, slots: bytearray) -> _Part:
    """The same digests in twice as many slots."""
    new_tags, new_slots = _empty(2 * len(tags))
    wrap = len(new_tags) - 1
    begin = -16
    for tag, place in zip(tags, _places(slots), strict=True):
        begin += 16
        if tag:
            at = place & wrap
            while new_tags[at]:
                at = at + 1 & wrap
            new_tags[at] = tag
            new_slots[at * 16 : at * 16 + 16] = slots[begin : begin + 16]
    return new_tags, new_slots
