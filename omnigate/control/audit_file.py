"""The files of the audit log: ``audit.jsonl``, which grows, and ``.1`` to ``.3`` before it.

Everything here blocks and is for the writer thread. A line that was appended is synced; the file is
renamed to ``.1`` before a line would make it longer than it may be, after the older ones moved up.
Each of these renames is synced before the next one: whatever a crash leaves of them, no line is
lost but those of the file that falls off, and the next start goes on from there.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

import attrs

from omnigate.control.audit_line import (
    MAX_LINE_BYTES,
    AuditEntry,
    AuditLine,
    decode_line,
    encode_line,
    line_of,
)
from omnigate.files import (
    AppendFile,
    file_size,
    list_names,
    read_lines,
    rename_file,
    settle_file,
)

#: Older files that are kept, ``.1`` the newest of them.
OLDER_FILES: Final = 3

#: Lines that a start reads back, newest first, and that memory keeps: what an operator looks at.
MAX_ENTRIES: Final = 1000

#: As far back from its end a file is read for them: they fit even if each is as long as it may be.
TAIL_BYTES: Final = MAX_ENTRIES * MAX_LINE_BYTES


class AuditFileError(Exception):
    """``audit.jsonl`` cannot be used; the text names the file and the remedy."""


@attrs.frozen
class Found:
    """What a start found.

    :ivar lines: the newest lines, oldest first, at most :data:`MAX_ENTRIES`.
    :ivar torn_bytes: how much of a line that was not written whole was cut off.
    :ivar damaged: lines that cannot be read, of those that were looked at; they stay as they are.
    """

    lines: list[AuditLine]
    torn_bytes: int
    damaged: int


@attrs.define
class _Tail:
    """The end of one file: its lines, and where behind its last line end something is torn."""

    lines: deque[AuditLine]
    end: int = 0
    damaged: int = 0


class AuditFile:
    """The log's files, of which the active one is held open.

    :param path: the active file.
    :param max_bytes: how long it may become.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self.path: Final = path
        self._max_bytes = max_bytes
        self._file: AppendFile | None = None
        self._next_seq = 1

    def open(self) -> Found:
        """Open or create the active file, and cut off what a crash left of its last line.

        :raises AuditFileError: what stands there is no audit log.
        :raises OSError: it cannot be read or written.
        """
        tail, torn = self._mend()
        lines, damaged = tail.lines, tail.damaged
        for number in range(1, OLDER_FILES + 1):
            if len(lines) >= MAX_ENTRIES:
                break
            older = self._tail_of(self._older(number))
            damaged += older.damaged
            older.lines.extend(lines)
            lines = older.lines
        # One that was written by hand or copied back may have a lower number than one before it.
        self._next_seq = max((line.seq for line in lines), default=self._next_seq - 1) + 1
        return Found(list(lines), torn, damaged)

    def append(self, entry: AuditEntry, now_ms: int) -> AuditLine:
        """Write an entry behind all others, and sync it; return it as it stands there.

        :raises OSError: it is not there.
        :raises AuditFileError: something else was put in the file's place.
        """
        line = line_of(entry, self._next_seq, now_ms)
        data = encode_line(line)
        file = self._ready_for(len(data))
        file.append(data)
        file.sync()
        self._next_seq += 1
        return line

    def close(self) -> None:
        """Close the active file; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _ready_for(self, length: int) -> AppendFile:
        """Return the active file with room for so many bytes."""
        file = self._file
        if file is None or not file.is_at(self.path) or file.was_added_to():
            # Somebody moved it away, or a rotation was broken off: lines go where people look. Or
            # somebody else wrote to it: no line is to stand behind half of another.
            self._mend()
            file = self._file
        if file is not None and file.size and file.size + length > self._max_bytes:
            self._rotate()
            file = self._file = AppendFile(self.path)
        if file is None:
            raise OSError(f"{self.path} is not open")
        return file

    def _mend(self) -> tuple[_Tail, int]:
        """Open the active file anew, ending at a line end; return its lines and what was cut."""
        self.close()
        if file_size(self.path) is not None:
            settle_file(self.path)
        elif self._is_there(self.path):
            raise AuditFileError(
                f"{self.path}: is no regular file; name another one in OMNIGATE_AUDIT"
            )
        tail = self._tail_of(self.path)
        file = AppendFile(self.path)
        try:
            torn = file.size - tail.end
            if torn > MAX_LINE_BYTES:
                raise AuditFileError(
                    f"{self.path}: its last line has {torn} bytes and no end, so this is no audit "
                    "log; move it away, or name another file in OMNIGATE_AUDIT"
                )
            if torn:
                file.cut(tail.end)
                file.sync()
        except BaseException:
            file.close()
            raise
        self._file = file
        return tail, torn

    def _tail_of(self, path: str) -> _Tail:
        """Read the end of a file; one that is not there has no lines."""
        size = file_size(path) or 0
        start = max(0, size - TAIL_BYTES)
        tail = _Tail(deque(maxlen=MAX_ENTRIES), end=size)
        for offset, line, whole in read_lines(path, MAX_LINE_BYTES, start):
            if not whole:
                tail.end = offset
            elif start and offset == start:
                continue  # in the middle of a line, as like as not
            elif line is not None and (found := decode_line(line)) is not None:
                tail.lines.append(found)
            else:
                tail.damaged += 1
        return tail

    def _rotate(self) -> None:
        """Move the active file to ``.1``, and the older ones up as far as there is one in the way.

        :raises OSError: not all was renamed; the next call goes on from there.
        """
        self.close()
        free = 1
        while free < OLDER_FILES and self._is_there(self._older(free)):
            free += 1
        for number in range(free, 1, -1):
            rename_file(self._older(number - 1), self._older(number))
        rename_file(self.path, self._older(1))

    def _is_there(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return name in list_names(folder)

    def _older(self, number: int) -> str:
        return f"{self.path}.{number}"
