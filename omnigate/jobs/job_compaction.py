"""When the job log is written anew, and by which steps of the writer; groups go on beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.jobs.job_groups import Groups
from omnigate.jobs.job_lines import DamagedLineError
from omnigate.jobs.job_log import JobLog
from omnigate.jobs.job_replay import Span
from omnigate.jobs.store_faults import EXPECTED
from omnigate.writer_thread import IWriter

#: The log is written anew once more lines than this were appended, and twice the jobs.
MIN_LINES: Final = 5_000


class Compaction:
    """Writes the log anew, one line a job; one at a time.

    :param crashed: told of a fault of this program.
    """

    _log = Logger(namespace="omnigate.jobs")

    def __init__(
        self, files: JobLog, groups: Groups, writer: IWriter, crashed: Callable[[Failure], None]
    ) -> None:
        self._files = files
        self._groups = groups
        self._writer = writer
        self._crashed = crashed
        self._is_running = False

    @property
    def is_due(self) -> bool:
        """Whether the log has grown enough since the last one."""
        lines = self._groups.lines_since
        return lines > MIN_LINES and lines > 2 * len(self._groups.table)

    async def first(self, damaged: Sequence[Span]) -> None:
        """Write it anew at a start; damaged lines are kept beside it before."""
        try:
            await self._writer.submit(partial(self._files.set_aside, damaged))
        except EXPECTED as error:
            self._tell(error)
        else:
            await self.run()

    async def run(self) -> None:
        """Write it anew, unless that is under way; a disk that refuses is told to the log."""
        if self._is_running:
            return
        self._is_running = True
        try:
            await self._groups.until_between()
            await self._write()
        except (*EXPECTED, DamagedLineError) as error:
            if self._groups.is_open:
                self._tell(error)
            with suppress(*EXPECTED):
                await self._writer.submit(self._files.drop_compaction)
        except Exception:
            self._crashed(Failure())
        finally:
            self._is_running = False

    async def _write(self) -> None:
        # No group is in hand, so these are the jobs of the log as the writer will find it.
        entries, before = self._groups.table.entries(), self._groups.lines_since
        await self._writer.submit(self._files.begin_compaction)
        place = 0
        while place < len(entries):
            place = await self._writer.submit(partial(self._files.compact, entries, place))
        while not await self._writer.submit(self._files.end_compaction):
            pass
        self._groups.lines_since -= before

    def _tell(self, error: Exception) -> None:
        self._log.error(
            "{path}: the log could not be written anew ({error}); it goes on growing, and it is "
            "tried again",
            path=self._files.path,
            error=str(error),
        )
