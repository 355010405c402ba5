"""Reading the job log back at a start, whatever a crash or a sick disk has made of it.

* What the file ends with and cannot be read is *torn*: nobody was told of it, and it is cut off.
* A *damaged* line before that is told with its place and counted. It is kept for a person in
  ``<jobs log>.damaged`` before a compaction leaves it out, and no other job suffers from it.
* A job whose own line is damaged is lost with it; changes of it that follow are damaged lines too.
* A job of which a change may be missing is *in doubt*: its number of lines has a gap, or the
  damage names it, or it names nobody that is known, since the name may be what is damaged, and no
  later line shows that nothing is missing. One that is
  final stays as its lines say. One that is not could be sent to a provider, and paid, a second
  time if it went on, so it is ended as failed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import attrs
import msgspec

from omnigate import files
from omnigate.jobs.job import NEXT, Job
from omnigate.jobs.job_lines import (
    MAX_LINE_BYTES,
    ChangeLine,
    DamagedLineError,
    GoneLine,
    JobLine,
    Line,
    NewerLineError,
    decode_line,
    id_in,
)
from omnigate.jobs.job_table import JobTable

#: Damaged lines that are told one by one; the others only count.
MAX_TOLD: Final = 20

#: Lines that are read in one step: a fifth of a second.
STEP_LINES: Final = 10_000

_OWN_LINE: Final = b'{"v":1,"kind":"job",'


class JobLogUnreadableError(Exception):
    """The job log cannot be used as it is; the text says why, and what to do."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """A piece of the file: where it begins, and its length without the line end.

    There is one for each job, so the collector need not look at it.
    """

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.length


@attrs.frozen
class _Unread:
    """A line that cannot be read, and of which it is not known yet what follows it.

    :ivar is_own: whether it looks like the one that a job begins with.
    """

    span: Span
    error: DamagedLineError
    is_torn: bool
    is_own: bool


@attrs.define(eq=False)
class Replay:
    """What the log says, read line by line.

    :ivar places: where the whole line of each job stands.
    :ivar lines: how many lines stand in the file, once what is torn is cut off.
    :ivar size: its length then.
    :ivar torn_bytes: how many bytes are to be cut off at its end.
    :ivar damaged: the damaged lines, but for those.
    :ivar in_doubt: jobs that are not final and of which a change may be missing.
    :ivar told: what is wrong, for the log of the daemon.
    :ivar mended: what a crash has left, and was put in order.
    """

    path: str
    table: JobTable = attrs.Factory(JobTable)
    places: dict[str, Span] = attrs.Factory(dict)
    lines: int = 0
    size: int = 0
    torn_bytes: int = 0
    damaged: list[Span] = attrs.Factory(list)
    in_doubt: list[str] = attrs.Factory(list)
    told: list[str] = attrs.Factory(list)
    mended: list[str] = attrs.Factory(list)
    _unread: list[_Unread] = attrs.Factory(list)
    _gaps: set[str] = attrs.Factory(set)
    # The last good line of each job, and the last damaged one that names it, by their numbers.
    _good: dict[str, int] = attrs.Factory(dict)
    _bad: dict[str, int] = attrs.Factory(dict)
    _nameless: int = 0
    # Damaged lines that name somebody, if the name is right, and who else is named by good ones.
    _hearsay: dict[str, int] = attrs.Factory(dict)
    _lost: set[str] = attrs.Factory(set)

    def steps(self) -> Iterator[None]:
        """Read it, pausing now and then.

        :raises JobLogUnreadableError: a later version of the program wrote it.
        :raises OSError: it cannot be read.
        """
        lines = files.read_lines(self.path, MAX_LINE_BYTES)
        for count, (offset, line, is_whole) in enumerate(lines, 1):
            self._read(offset, line, is_whole)
            if count % STEP_LINES == 0:
                yield
        end = files.file_size(self.path) or 0
        while self._unread and self._unread[-1].is_torn:
            end = self._unread.pop().span.offset
        self._settle_unread(end)
        self.size = end
        self.torn_bytes = (files.file_size(self.path) or 0) - end
        for job_id, number in self._hearsay.items():
            if job_id not in self._good and job_id not in self._lost:
                self._nameless = max(self._nameless, number)
        self.in_doubt = [
            job.id
            for job in self.table.unfinished()
            if job.id in self._gaps
            or self._good[job.id] < max(self._nameless, self._bad.get(job.id, 0))
        ]
        if len(self.damaged) > MAX_TOLD:
            self.told.append(f"{self.path}: {len(self.damaged)} damaged lines in all")

    def _read(self, offset: int, line: bytes | None, is_whole: bool) -> None:
        span = Span(offset, 0 if line is None else len(line))
        try:
            if line is None:
                raise DamagedLineError(f"longer than {MAX_LINE_BYTES} bytes")
            if not is_whole:
                raise DamagedLineError("it has no line end", id_in(line))
            read = decode_line(line)
        except DamagedLineError as error:
            # A crash leaves a line without its end, or zero bytes in the place of what was not
            # written yet. Anything else was whole once, and somebody was told of it.
            torn = not is_whole or (line is not None and b"\0" in line)
            is_own = line is not None and line.startswith(_OWN_LINE)
            self._unread.append(_Unread(span, error, torn, is_own))
            return
        except NewerLineError as error:
            raise JobLogUnreadableError(
                f"{self.path}: byte {offset}: {error}; run the version that wrote it"
            ) from None
        self._settle_unread(offset)
        self.lines += 1
        try:
            self._apply(span, read)
        except DamagedLineError as error:
            self._lost.add(error.id)
            self._damage(span, error)

    def _settle_unread(self, end: int) -> None:
        """Take lines that could not be read for damaged: something good stands behind them."""
        if not self._unread:
            return
        unread, self._unread = self._unread, []
        ends = [*(each.span.offset for each in unread[1:]), end]
        for each, next_offset in zip(unread, ends, strict=True):
            self.lines += 1
            # Of a line that is too long to be held, the length shows only by what follows.
            start = each.span.offset
            if each.error.id and not each.is_own:
                self._hearsay[each.error.id] = self.lines
            self._damage(Span(start, next_offset - 1 - start), each.error)

    def _damage(self, span: Span, error: DamagedLineError) -> None:
        """Take note of a damaged line, and of whom it may have been about."""
        self.damaged.append(span)
        if error.id:
            self._bad[error.id] = self.lines
        else:
            self._nameless = self.lines
        if len(self.damaged) <= MAX_TOLD:
            about = f" of {error.id}" if error.id else ""
            self.told.append(
                f"{self.path}: the line{about} at byte {span.offset} cannot be used ({error}); "
                f"it is kept in {self.path}.damaged"
            )

    def _apply(self, span: Span, line: Line) -> None:
        if isinstance(line, JobLine):
            job = line.job
            if self.table.get(job.id) is not None:
                raise DamagedLineError("there is this job already", job.id)
            size = span.length - (len(_encode(job.input)) if job.input is not None else 0)
            self.table.put(share_texts(without_input(job)), line.n, size)
            self.places[job.id] = span
            self._good[job.id] = self.lines
        elif isinstance(line, ChangeLine):
            self._change(line, span.length)
        elif isinstance(line, GoneLine):
            for job in self.table.remove(line.ids):
                del self.places[job.id]

    def _change(self, line: ChangeLine, size: int) -> None:
        entry = self.table.entry(line.id)
        if entry is None:
            raise DamagedLineError("it changes a job that is not there", line.id)
        if line.n <= entry.n:
            raise DamagedLineError(f"it is line {line.n} of a job that has {entry.n}", line.id)
        if line.n > entry.n + 1:
            self._gaps.add(line.id)
        self._good[line.id] = self.lines
        self.table.put(share_texts(changed(entry.job, line)), line.n, entry.size + size)


def changed(job: Job, line: ChangeLine) -> Job:
    """Return a job after a change; a state that cannot follow is left out."""
    fields = dict(line.fields)
    status = fields.get("status", job.status)
    if status != job.status and status not in NEXT.get(job.status, ()):
        del fields["status"]
    return without_input(msgspec.structs.replace(job, **fields))


_encode = msgspec.json.Encoder().encode


def share_texts(job: Job) -> Job:
    """Have a job that was read share the texts that many jobs have, such as that of their key.

    It is changed in place, and equal to what it was.
    """
    _share(job, "key_sha256", "model")
    for attempt in job.attempts:
        _share(attempt, "adapter", "base_url", "model")
    for output in job.outputs:
        _share(output, "content_type", "source", "storage")
    return job


def _share(value: msgspec.Struct, *names: str) -> None:
    for name in names:
        msgspec.structs.force_setattr(value, name, sys.intern(getattr(value, name)))


def without_input(job: Job) -> Job:
    """Return a job as it is held in memory: a final one without its input."""
    if job.is_final and job.input is not None:
        return msgspec.structs.replace(job, input=None)
    return job
