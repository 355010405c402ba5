"""The id file of one day: 16 bytes a record, appended to and never written again.

The first record is a header that says the version, ``omnigate-ids 1``; every other is the digest of
an id (:mod:`~omnigate.ledger.id_table`), in the order of recording. What belongs to a whole record
is told by the length alone, so a file that was torn or cut is read up to its last whole record.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from zlib import crc32

import attrs

from omnigate import files
from omnigate.ledger.id_table import DIGEST_BYTES

#: The first record of an id file, as long as every other.
HEADER = b"omnigate-ids 1\r\n"
_HEADER_OF_ANY_VERSION = b"omnigate-ids "


class NewerIdsError(Exception):
    """An id file is of a later version of the program; the text names it and says what to do."""


@attrs.define(eq=False)
class DayFile:
    """The id file of one day, as the writer thread keeps it.

    :ivar synced: how many records of it survive a crash.
    :ivar crc: the CRC-32 of those, or of the first of them while they are read; None before.
    :ivar unsynced: ids that are in the file behind them.
    :ivar pending: ids that are not in the file yet.
    """

    path: str
    synced: int
    crc: int | None = None
    unsynced: bytearray = attrs.Factory(bytearray)
    pending: bytearray = attrs.Factory(bytearray)
    _file: files.AppendFile | None = None

    @property
    def count(self) -> int:
        """How many ids there are, wherever."""
        return self.synced + (len(self.unsynced) + len(self.pending)) // DIGEST_BYTES

    @property
    def is_open(self) -> bool:
        """Whether it is open for appending."""
        return self._file is not None

    def read(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """Read synced records, and take them into :attr:`crc`, which must be that of those before.

        :return: pieces of whole records.
        :raises OSError: it cannot be read, or is shorter than it was.
        """
        left = (self.synced if end is None else end) - start
        if not left:
            return
        offset = len(HEADER) + start * DIGEST_BYTES
        held = b""
        for piece in files.read_pieces(self.path, offset, offset + left * DIGEST_BYTES):
            held += piece
            whole = len(held) // DIGEST_BYTES * DIGEST_BYTES
            self.crc = crc32(held[:whole], self.crc or 0)
            left -= whole // DIGEST_BYTES
            yield held[:whole]
            held = held[whole:]
        if left:
            raise _shorter(self.path)

    def flush(self) -> None:
        """Append what is pending; all of it is in the file then, or none."""
        file = self._opened()
        if not file.size:
            file.append(HEADER)
        file.append(bytes(self.pending))
        self.unsynced += self.pending
        self.pending.clear()

    def sync(self) -> None:
        """Sync what is in the file; what a failed sync has lost is pending again."""
        if self._file is None or not self.unsynced:
            return
        try:
            self._file.sync()
        except OSError:
            self.pending[:0] = self.unsynced
            self.unsynced.clear()
            raise
        self.synced += len(self.unsynced) // DIGEST_BYTES
        if self.crc is not None:
            self.crc = crc32(self.unsynced, self.crc)
        self.unsynced.clear()

    def close(self) -> None:
        """Close it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> files.AppendFile:
        """Open it, with nothing behind what is synced."""
        if self._file is None:
            file = files.AppendFile(self.path)
            end = len(HEADER) + self.synced * DIGEST_BYTES if self.synced else 0
            try:
                if file.size < end:
                    raise _shorter(self.path)
                file.cut(end)
            except BaseException:
                file.close()
                raise
            self._file = file
        return self._file


def records_in(path: str) -> int:
    """How many whole records an id file has; 0 for one that is none, or is not there.

    :raises NewerIdsError: a later version wrote it.
    """
    size = files.file_size(path)
    if size is None:
        return 0
    header = b"".join(files.read_pieces(path, 0, len(HEADER)))
    if header == HEADER:
        return size // DIGEST_BYTES - 1
    version = header.removeprefix(_HEADER_OF_ANY_VERSION).rstrip()
    if header.startswith(_HEADER_OF_ANY_VERSION) and version.isdigit() and int(version) > 1:
        raise NewerIdsError(
            f"{path}: id file of version {int(version)}; this program reads 1. Start the version "
            "of omnigate that wrote it, or move the file away. It was left as it is."
        )
    return 0


def cut_to(path: str, records: int) -> None:
    """Cut an id file to so many records."""
    file = files.AppendFile(path)
    try:
        file.cut(len(HEADER) + records * DIGEST_BYTES)
    finally:
        file.close()


def _shorter(path: str) -> OSError:
    return OSError(errno.ESTALE, "the file was replaced or shortened while in use", path)
