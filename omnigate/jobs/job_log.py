"""The files of the job store: the log and the inputs beside it; everything here blocks.

What a group of changes does, in this order: its inputs are written and synced, its lines are
appended by one write, and that is synced. Then, and not before, somebody is told.

A *compaction* writes the log anew, one line a job, while groups go on: step by step a file is
built of the jobs as they were when it began, then what was appended since is copied behind it, and
it takes the log's place. So no group waits longer than for one step, of a few milliseconds, and for
the last one, which copies, syncs and renames.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import attrs

from omnigate import files
from omnigate.jobs.input_files import InputFiles
from omnigate.jobs.job import Job
from omnigate.jobs.job_lines import job_line, raw_input
from omnigate.jobs.job_replay import JobLogUnreadableError, Replay, Span
from omnigate.jobs.job_table import Entry

#: Bytes and jobs that one step of a compaction writes: some milliseconds.
STEP_BYTES: Final = 1024 * 1024
STEP_JOBS: Final = 500

#: Lines that stand in a stretch of up to so many bytes are read together.
MAX_READ_BYTES: Final = 4 * 1024 * 1024

#: After how many bytes the file of a compaction is synced.
SYNC_BYTES: Final = 8 * 1024 * 1024

#: How much of what was appended meanwhile is left for the last step, which is done in one go.
LAST_STEP_BYTES: Final = 4 * 1024 * 1024

DAMAGED_SUFFIX: Final = ".damaged"
#: A name of its own, so that a start removes what a crash left of it.
NEW_SUFFIX: Final = ".new" + files.TEMPORARY_SUFFIX


@attrs.define(eq=False)
class _Building:
    """A new log on its way.

    :ivar began: how long the old log was when it was begun.
    :ivar copied: up to where the old log is in it.
    :ivar base: where in it that begins which was appended since; None before that is copied.
    :ivar places: where the whole line of each job stands in it.
    :ivar gone: the jobs that were removed since.
    """

    file: files.AppendFile
    began: int
    copied: int = attrs.field(default=attrs.Factory(lambda self: self.began, takes_self=True))
    base: int | None = None
    places: dict[str, Span] = attrs.Factory(dict)
    gone: list[str] = attrs.Factory(list)
    _unsynced: int = 0

    def append(self, data: bytes) -> None:
        """Write on, and sync now and then, so that the end need not wait for all of it."""
        self.file.append(data)
        self._unsynced += len(data)
        if self._unsynced >= SYNC_BYTES:
            self.file.sync()
            self._unsynced = 0


class JobLog:
    """The log at ``path``, open for one writer.

    :ivar size: its length in bytes.
    """

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self.inputs: Final = InputFiles(path)
        self._file: files.AppendFile | None = None
        self._places: dict[str, Span] = {}
        self._replay: Replay | None = None
        self._steps: Iterator[None] | None = None
        self._building: _Building | None = None
        # Inputs of jobs that were not made after all, though their lines may come back in a crash.
        self._left_over: list[str] = []
        self._name_unsynced = False

    @property
    def size(self) -> int:
        """Its length in bytes; 0 while it is not open."""
        return 0 if self._file is None else self._file.size

    # -- the start ----------------------------------------------------------------------------

    def open_step(self) -> Replay | None:
        """Do the next piece of the start, and return what the log says once it is done.

        :raises JobLogUnreadableError: it cannot be used.
        """
        try:
            return self._open_step()
        except OSError as error:
            raise JobLogUnreadableError(
                f"{error.filename or self.path}: the jobs cannot be read ({error.strerror or error}"
                "); let this process read and write it, or name another file in OMNIGATE_JOBS"
            ) from None

    def _open_step(self) -> Replay | None:
        if self._steps is None:
            files.remove_leftovers(self.path)
            with suppress(FileNotFoundError):
                files.settle_file(self.path)
            self._replay = Replay(self.path)
            self._steps = self._replay.steps()
        for _ in self._steps:
            return None
        replay, self._replay, self._steps = self._replay, None, None
        assert replay is not None
        file = files.AppendFile(self.path)
        try:
            if replay.torn_bytes:
                file.cut(replay.size)
                file.sync()
                replay.mended.append(
                    f"{self.path}: cut off {replay.torn_bytes} bytes that were not written whole"
                )
            with_files = [job.id for job in replay.table if job.input_file]
            orphans, missing = self.inputs.open(with_files)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._places, replay.places = replay.places, {}
        if orphans:
            replay.mended.append(f"{self.inputs.folder}: removed {orphans} inputs that no job has")
        if missing:
            replay.told.append(
                f"{self.inputs.folder}: {len(missing)} inputs are missing, such as that of "
                f"{missing[0]}; restore them from the same backup as {self.path}"
            )
        return replay

    def set_aside(self, damaged: Sequence[Span]) -> None:
        """Keep damaged lines for a person, before the log is written without them.

        :raises OSError: they could not be kept.
        """
        if not damaged:
            return
        aside = files.AppendFile(self.path + DAMAGED_SUFFIX)
        try:
            for span in damaged:
                for piece in files.read_pieces(self.path, span.offset, span.end):
                    aside.append(piece)
                aside.append(b"\n")
            aside.sync()
        finally:
            aside.close()

    def close(self) -> None:
        """Close it; a compaction on its way is thrown away."""
        self.drop_compaction()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # -- groups -------------------------------------------------------------------------------

    def append(
        self,
        lines: Sequence[bytes],
        new: Sequence[str | None],
        inputs: Sequence[tuple[str, bytes]],
        gone: Sequence[str],
    ) -> None:
        """Write a group, and sync it.

        :param new: for each line the id of the job that it is the whole line of, or None.
        :param inputs: what lies in files, by job id.
        :param gone: the jobs that lines of it remove.
        :raises OSError: the disk refused; nothing of the group is there.
        """
        file = self._opened()
        if not file.is_at(self.path):
            raise OSError(
                errno.ESTALE,
                "the file was moved, removed or shortened while it was in use; put it back, or "
                "restart the control plane to begin with what stands there",
                self.path,
            )
        self._sync_name()
        try:
            self.inputs.write(inputs)
        except OSError:
            self._remove_inputs([job_id for job_id, _ in inputs])
            raise
        offset = file.size
        try:
            file.append(b"".join(lines))
            file.sync()
        except OSError:
            self._left_over += [job_id for job_id, _ in inputs]
            # A crash could bring back lines of the group until the cut is on the disk, too.
            with suppress(OSError):
                file.sync()
                self._remove_left_over()
            raise
        for line, job_id in zip(lines, new, strict=True):
            if job_id is not None:
                self._places[job_id] = Span(offset, len(line) - 1)
            offset += len(line)
        if self._building is not None:
            # It may have to write them still, since what follows in the log is about them.
            self._building.gone.extend(gone)
        else:
            for job_id in gone:
                self._places.pop(job_id, None)
        self._remove_left_over()

    def _remove_left_over(self) -> None:
        left_over, self._left_over = self._left_over, []
        self._remove_inputs(left_over)

    def _remove_inputs(self, job_ids: Sequence[str]) -> None:
        """Remove inputs that no job has; what cannot be removed now is at the next start."""
        with suppress(OSError):
            self.inputs.remove(job_ids)

    def remove_inputs(self, job_ids: Sequence[str]) -> None:
        """Remove the inputs of jobs that are gone; what cannot be is removed at the next start."""
        self._remove_inputs(job_ids)

    def read_input(self, job_id: str, input_file: bool) -> bytes:
        """Return the input of a job as JSON.

        :raises OSError: it cannot be read; ENOENT where the job or its file is not there.
        :raises DamagedLineError: its line cannot be read any more.
        """
        if input_file:
            return self.inputs.read(job_id)
        place = self._places.get(job_id)
        if place is None:
            raise OSError(errno.ENOENT, f"there is no job {job_id} any more")
        return raw_input(self._read(place))

    def _opened(self) -> files.AppendFile:
        if self._file is None:
            raise OSError(errno.EBADF, "the job log is not open", self.path)
        return self._file

    # -- compaction ---------------------------------------------------------------------------

    def begin_compaction(self) -> None:
        """Begin to write the log anew; what is to be written are the jobs of now.

        :raises OSError: the disk refused.
        """
        self.drop_compaction()
        path = self.path + NEW_SUFFIX
        files.remove_file(path)
        self._building = _Building(files.AppendFile(path), self._opened().size)

    def compact(self, entries: Sequence[Entry], start: int) -> int:
        """Write some of the jobs as they were.

        :param entries: all of them.
        :param start: how many of them are written already.
        :return: how many are by now.
        :raises OSError: the disk refused; the log is as it was.
        :raises DamagedLineError: an input that stands in the log cannot be read any more.
        """
        building = self._begun()
        part = entries[start : start + STEP_JOBS]
        read = self._inputs_of([entry.job for entry in part])
        lines: list[bytes] = []
        size = 0
        for entry in part:
            line = job_line(entry.job, entry.n, read.get(entry.job.id))
            building.places[entry.job.id] = Span(building.file.size + size, len(line) - 1)
            lines.append(line)
            size += len(line)
            if size >= STEP_BYTES:
                break
        building.append(b"".join(lines))
        return start + len(lines)

    def _inputs_of(self, jobs: Sequence[Job]) -> dict[str, bytes]:
        """Return the inputs of jobs that stand in their lines, by job id.

        :raises DamagedLineError: one cannot be read any more.
        """
        spans = {job.id: self._places[job.id] for job in jobs if not job.input_file}
        if not spans:
            return {}
        start = min(span.offset for span in spans.values())
        end = max(span.end for span in spans.values())
        if end - start > MAX_READ_BYTES:
            return {job_id: raw_input(self._read(span)) for job_id, span in spans.items()}
        # They mostly stand together, and to open the file for each takes as long as all else.
        text = self._read(Span(start, end - start))
        return {
            job_id: raw_input(text[span.offset - start : span.end - start])
            for job_id, span in spans.items()
        }

    def _read(self, span: Span) -> bytes:
        return b"".join(files.read_pieces(self.path, span.offset, span.end))

    def end_compaction(self) -> bool:
        """Copy what was appended since, and put the new log in the old one's place.

        :return: False where there is more of it than is copied in one step, and it is to be called
            again.
        :raises OSError: the disk refused; the log is as it was.
        """
        building, old = self._begun(), self._opened()
        if building.base is None:
            building.base = building.file.size
        end = min(old.size, building.copied + LAST_STEP_BYTES)
        for piece in files.read_pieces(self.path, building.copied, end):
            building.append(piece)
            building.copied += len(piece)
        if building.copied < old.size:
            return False
        building.file.sync()
        files.rename_file(building.file.path, self.path, sync=False)
        # From here on the new one is the log, also where its name is not synced yet.
        building.file.path = self.path
        self._name_unsynced = True
        self._file, self._building = building.file, None
        old.close()
        moved = building.base - building.began
        for job_id, span in self._places.items():
            if span.offset >= building.began:
                building.places[job_id] = Span(span.offset + moved, span.length)
        self._places = building.places
        for job_id in building.gone:
            self._places.pop(job_id, None)
        with suppress(OSError):
            self._sync_name()
        return True

    def _sync_name(self) -> None:
        """See to it that a crash does not bring back the log from before a compaction."""
        if self._name_unsynced:
            files.sync_directory(os.path.dirname(self.path) or ".")
            self._name_unsynced = False

    def _begun(self) -> _Building:
        if self._building is None:
            raise OSError(errno.ECANCELED, "the compaction was broken off", self.path)
        return self._building

    def drop_compaction(self) -> None:
        """Throw away a compaction on its way, if there is one."""
        building, self._building = self._building, None
        if building is None:
            return
        building.file.close()
        for job_id in building.gone:
            self._places.pop(job_id, None)
        with suppress(OSError):
            files.remove_file(building.file.path)
