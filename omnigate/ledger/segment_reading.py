"""One segment while it is read: its lines in slices, and the hash of its bytes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from omnigate import files
from omnigate.ledger.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

#: Bytes of lines in one slice, beside the number of lines that the caller asks for: the longest
#: lines are a hundred times as long as the usual ones, and a slice is held whole.
SLICE_BYTES = 8 * 1024 * 1024


class SegmentReading:
    """One segment while it is read: its lines, and the hash of its bytes.

    :ivar digest: of all bytes before :attr:`end`.
    :ivar end: an offset up to the last line handed out; when finished, that behind the last line.
    :ivar finished: whether there are no more lines.
    """

    def __init__(
        self, number: int, path: str, offset: int, digest: Digest, *, active: bool
    ) -> None:
        """Go to an offset.

        :param digest: of all bytes before it.
        :param active: whether bytes behind the last line end are torn, and no line. In a sealed
            segment, which was synced whole, they are for the reader to judge like any other line.
        """
        self.number = number
        self.path = path
        self.digest = digest
        self.end = offset
        self.finished = False
        self._active = active
        self._lines = files.read_lines(path, MAX_LINE_BYTES, offset)

    def next_lines(self, limit: int) -> list[tuple[int, bytes | None]]:
        """Read so many lines more; none at the end."""
        lines: list[tuple[int, bytes | None]] = []
        if self.finished:
            return lines
        size = 0
        end = None
        for offset, line, complete in self._lines:
            if not complete and self._active:
                self.finished, end = True, offset
                break
            lines.append((offset, line))
            # Where a line without bytes ends is known when the next one begins.
            end = None if line is None or not complete else offset + len(line) + 1
            size += len(line or b"")
            if len(lines) >= limit or size >= SLICE_BYTES:
                break
        else:
            self.finished, end = True, files.file_size(self.path)
        if end is not None and end > self.end:
            hash_into(self.digest, self.path, self.end, end)
            self.end = end
        return lines


def hash_into(digest: Digest, path: str, start: int, end: int) -> None:
    """Take a part of a file into a hash.

    :raises OSError: it cannot be read; ESTALE where the file is shorter.
    """
    for piece in files.read_pieces(path, start, end):
        digest.update(piece)
        start += len(piece)
    if start != end:
        raise stale()


def stale() -> OSError:
    """What is raised for a file that is not what it was."""
    return OSError(errno.ESTALE, "the file was moved, replaced or shortened while in use")
