"""Holds the id files and their tables against the events that were counted."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from omnigate.files import file_size, read_pieces
from omnigate.ledger.family import Family
from omnigate.ledger.id_file import HEADER, NewerIdsError, records_in
from omnigate.ledger.id_table import DIGEST_BYTES, DamagedTableError, Digests, IdTable


def id_file_fault(
    path: str, recorded: int, expected: bytes | bytearray, first: int
) -> tuple[int | None, str] | None:
    """Say where an id file is not what a snapshot and the events say, and how; None if it is.

    :param recorded: how many records of it the snapshot covers.
    :param expected: the digests of some of these, in the order of recording.
    :param first: which record the first of those is, from 0 on.
    :raises OSError: it cannot be read.
    """
    size = file_size(path) or 0
    try:
        there = records_in(path)
    except NewerIdsError as error:
        return 0, str(error)
    if size and b"".join(read_pieces(path, 0, len(HEADER))) != HEADER:
        return 0, "is no id file"
    if there < recorded:
        return size, f"has {there} ids, and the snapshot knows {recorded}"
    start = offset = len(HEADER) + first * DIGEST_BYTES
    for piece in read_pieces(path, start, start + len(expected)):
        wanted = expected[offset - start : offset - start + len(piece)]
        if piece != wanted:
            at = next(n for n, (a, b) in enumerate(zip(piece, wanted, strict=True)) if a != b)
            record = (offset + at) // DIGEST_BYTES * DIGEST_BYTES
            return record, "is not the id of the event that was counted here"
        offset += len(piece)
    return None


def id_table_fault(family: Family, day: str) -> str | None:
    """Say what is wrong with the table of a day's ids; None if nothing is.

    A table of a time when the id file had fewer records is right.

    :raises OSError: a file cannot be read.
    """
    path = family.id_table(day)
    size = file_size(path)
    if size is None:
        return None
    try:
        head, table = IdTable.decode(read_pieces(path), size)
    except DamagedTableError as error:
        return f"cannot be used: {error}"
    if len(table) != sum(count for count, _ in head.days.values()):
        return "has another number of ids than it says"
    for name, (count, check) in head.days.items():
        found = whole = 0
        lacking = False
        for piece in _records(family.ids(name), count):
            found = crc32(piece, found)
            whole += len(piece) // DIGEST_BYTES
            apart = Digests(piece)
            lacking = lacking or bool(table.missing(apart, range(len(apart))))
        if whole != count or found != check:
            return f"was not made from the first {count} ids of {family.ids(name)}"
        if lacking:
            return f"lacks ids of {family.ids(name)}"
    return None


def _records(path: str, count: int) -> Iterator[bytes]:
    """The first records of an id file, in pieces of whole ones; fewer if it has fewer."""
    held = b""
    if file_size(path) is None:
        return
    for piece in read_pieces(path, len(HEADER), len(HEADER) + count * DIGEST_BYTES):
        held += piece
        whole = len(held) // DIGEST_BYTES * DIGEST_BYTES
        yield held[:whole]
        held = held[whole:]
