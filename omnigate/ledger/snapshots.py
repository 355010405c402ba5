"""A snapshot: all sums up to a position of the ledger, in one file that is trusted once checked.

The file is text. ::

    omnigate-ledger-snapshot 1
    <SHA-256 of everything behind this line, in 64 hex digits>
    {"version":1,"written_at":"2026-11-30T08:00:00.000Z","segment":7,"offset":123,
     "active_sha256":"…","sealed":[{"number":6,"size":67108900,"sha256":"…","events":111000}],
     "ids":{"2026-11-30":1000},"events":1000000,"rows":40000}
    ["lifetime","9f86…",1000,900000,100000,0,250000,292500000]
    …

The third line, one line in the file, is its head; the rows behind it are those of
:mod:`~omnigate.ledger.snapshot_rows`. Each line ends with a line feed.

=================  ===============================================================================
member             meaning
=================  ===============================================================================
``version``        1, as in the first line
``written_at``     when it was made, in RFC 3339, UTC
``segment``        the position: everything in segments of lower numbers is covered,
``offset``         and so many bytes of this one
``active_sha256``  the SHA-256 of these bytes, in hex
``sealed``         the sealed segments that it covers, by rising number, with their length in
                   bytes, their SHA-256, and how many events were counted of each
``ids``            how many ids the id file of each UTC day held
``events``         how many events the rows tell of
``rows``           how many rows follow
=================  ===============================================================================

The checksum catches accidents; it is no signature. So the head and each row are checked as well.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated

import attrs
import msgspec

from omnigate.ledger.books import Books
from omnigate.ledger.family import Position, SealedSegment
from omnigate.ledger.snapshot_rows import DamagedRowError, RowReader
from omnigate.ledger.totals import parse_day

#: The version that is written, and the latest one that is read.
SNAPSHOT_VERSION = 1

#: The longest snapshot that is read. 10,000 keys that are used every day have one of 45 MB; if they
#: are also used in each quarter of an hour, it has 200 MB, and the bounds of the tables let it grow
#: no further.
MAX_SNAPSHOT_BYTES = 512 * 1024 * 1024

#: Lines in front of the rows: the magic line, the checksum and the head.
LINES_BEFORE_ROWS = 3

_NAME = b"omnigate-ledger-snapshot "
_MAGIC = b"%b%d\n" % (_NAME, SNAPSHOT_VERSION)
_MAGIC_LINE = re.compile(re.escape(_NAME) + rb"([1-9][0-9]{0,8})\n")
_HEX_BYTES = 64


class DamagedSnapshotError(ValueError):
    """A snapshot is not what was written; the text names the line of it, and what is wrong."""


class NewerSnapshotError(Exception):
    """A snapshot was written by a later version of the program, and must not be guessed at."""


@attrs.frozen
class SnapshotHead:
    """What a snapshot covers.

    :ivar written_at: when it was made, from :func:`omnigate.periods.rfc3339`.
    :ivar position: all events before it are in the sums.
    :ivar active_sha256: the SHA-256 of the bytes before it in its segment, in hex.
    :ivar sealed: the sealed segments before it, by rising number.
    :ivar ids: how many ids each UTC day's id file held.
    :ivar events: how many events the sums tell of.
    :ivar rows: how many rows follow; filled in when it is written.
    """

    written_at: str
    position: Position
    active_sha256: str
    sealed: tuple[SealedSegment, ...]
    ids: Mapping[str, int]
    events: int
    rows: int = 0


_Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _Sealed(msgspec.Struct, forbid_unknown_fields=True):
    number: _Number
    size: _Natural
    sha256: _Sha256
    events: _Natural


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1)]
    written_at: str
    segment: _Number
    offset: _Natural
    active_sha256: _Sha256
    sealed: list[_Sealed]
    ids: dict[str, _Natural]
    events: _Natural
    rows: _Natural


class _Version(msgspec.Struct):
    version: int


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(head: SnapshotHead, chunks: Iterable[bytes]) -> list[bytes]:
    """Make the file of a snapshot.

    :param head: what it covers; its ``rows`` are counted here.
    :param chunks: the rows, from :meth:`~omnigate.ledger.books.Books.rows`.
    :return: the pieces of the file, in order: one for the lines in front, and the chunks.
    :raises OSError: EFBIG, it would be longer than one that is read back. What nobody can read must
        not stand for the segments that it covers.
    """
    rows = list(chunks)
    line = msgspec.json.encode(
        _Head(
            version=SNAPSHOT_VERSION,
            written_at=head.written_at,
            segment=head.position.segment,
            offset=head.position.offset,
            active_sha256=head.active_sha256,
            sealed=[_Sealed(s.number, s.size, s.sha256, s.events) for s in head.sealed],
            ids=dict(head.ids),
            events=head.events,
            rows=sum(chunk.count(b"\n") for chunk in rows),
        )
    )
    digest = sha256(line + b"\n")
    for chunk in rows:
        digest.update(chunk)
    front = b"%b%b\n%b\n" % (_MAGIC, digest.hexdigest().encode("ascii"), line)
    size = len(front) + sum(map(len, rows))
    if size > MAX_SNAPSHOT_BYTES:
        raise OSError(errno.EFBIG, f"a snapshot of {size} bytes is too long to be read back")
    return [front, *rows]


def decode(data: bytes) -> tuple[SnapshotHead, Books]:
    """Read a snapshot back, trusting none of it.

    :param data: the whole file.
    :return: what it covers, and its books, without ids. They know no time yet: tell them with
        :meth:`~omnigate.ledger.books.Books.turn_to`.
    :raises DamagedSnapshotError: it is not what was written, in any way.
    :raises NewerSnapshotError: it was written by a later version.
    """
    version, start = _read_magic(data)
    head_end = data.find(b"\n", start)
    line = data[start:head_end] if head_end >= 0 else b""
    if version > SNAPSHOT_VERSION:
        if _is_known(data, start, line):
            raise DamagedSnapshotError(f"line 1: version {version}, which the head is not of")
        raise NewerSnapshotError(_newer(version))
    _check_sum(data, start)
    if not line:
        raise DamagedSnapshotError("line 3: there is no head")
    head = _read_head(line)
    return head, _read_rows(data, head_end + 1, head)


def _read_magic(data: bytes) -> tuple[int, int]:
    """The version of the first line, and where the head begins."""
    magic = _MAGIC_LINE.match(data)
    if magic is None:
        raise DamagedSnapshotError("line 1: no snapshot of a ledger")
    return int(magic[1]), magic.end() + _HEX_BYTES + 1


def _check_sum(data: bytes, start: int) -> None:
    written = data[max(0, start - _HEX_BYTES - 1) : start]
    with memoryview(data) as view:
        found = sha256(view[start:]).hexdigest()
    if written != found.encode("ascii") + b"\n":
        raise DamagedSnapshotError(
            "line 2: the checksum does not match; the file was cut or changed since it was written"
        )


def _is_known(data: bytes, start: int, line: bytes) -> bool:
    """Whether, behind a first line of a later version, all is of this one and whole."""
    try:
        _check_sum(data, start)
        return _decode_version(line).version == SNAPSHOT_VERSION
    except (DamagedSnapshotError, *_UNREADABLE):
        return False


def _read_head(line: bytes) -> SnapshotHead:
    try:
        version = _decode_version(line).version
    except _UNREADABLE as error:
        raise DamagedSnapshotError(f"line 3: {error}") from None
    if version > SNAPSHOT_VERSION:
        raise NewerSnapshotError(_newer(version))
    try:
        head = _decode_head(line)
        datetime.fromisoformat(head.written_at)
        for day in head.ids:
            parse_day("ids", day)
    except (*_UNREADABLE, ValueError) as error:
        raise DamagedSnapshotError(f"line 3: {error}") from None
    numbers = [sealed.number for sealed in head.sealed]
    if numbers != sorted(set(numbers)) or (numbers and numbers[-1] >= head.segment):
        raise DamagedSnapshotError("line 3: the sealed segments are not those before the position")
    return SnapshotHead(
        written_at=head.written_at,
        position=Position(head.segment, head.offset),
        active_sha256=head.active_sha256,
        sealed=tuple(SealedSegment(s.number, s.size, s.sha256, s.events) for s in head.sealed),
        ids=head.ids,
        events=head.events,
        rows=head.rows,
    )


def _read_rows(data: bytes, start: int, head: SnapshotHead) -> Books:
    rows = RowReader()
    try:
        rows.enter(data, start)
        if rows.entered != head.rows:
            raise DamagedRowError(f"the head tells of {head.rows} rows")
        rows.finish(head.events)
    except DamagedRowError as error:
        line = LINES_BEFORE_ROWS + rows.entered
        raise DamagedSnapshotError(f"line {line}: {error}") from None
    return Books.of_rows(rows)


def _newer(version: int) -> str:
    return (
        f"snapshot of version {version}; this program reads {SNAPSHOT_VERSION}. Start the version "
        "of omnigate that wrote it, or move it and its spare away to read the segments anew"
    )
