"""Outputs in a folder of this machine: ``<media folder>/<job id>/<n>.<extension>``.

A file is synced where it came in, moved to its place, and both folders are synced, all before the
job says that it is there. Where the process ends in between, it lies there and no job says so: such
are removed after a start (:meth:`LocalStorage.clear`, :meth:`LocalStorage.sweep`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NoReturn, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.files import (
    free_bytes,
    list_names,
    make_folder,
    move_file,
    names_in,
    remove_empty_folder,
    remove_file,
    remove_folder,
)
from omnigate.jobs.incoming import as_os_error, words_of
from omnigate.jobs.storage import StorageFault, StoredFile
from omnigate.writer_thread import IWriter, WriterStoppedError

T = TypeVar("T")

#: Folders of jobs that are looked at in one turn of the reactor, or one job of the writer.
SWEPT_AT_ONCE: Final = 100

#: With less room no job is begun: what providers make for it would be paid for, and lost. A few
#: pictures, or a short film.
LEAST_ROOM_BYTES: Final = 64 * 1024 * 1024

#: Nothing else in the media folder is ever removed.
_JOB_FOLDER = re.compile(r"job_[0-9a-z]{26}", re.ASCII)

_log = Logger()


class LocalStorage:
    """A :class:`~omnigate.jobs.storage.Storage`.

    :param folder: the media folder.
    :param writer: whose thread works there.
    """

    def __init__(self, folder: str, writer: IWriter) -> None:
        self.folder = folder
        self._writer = writer

    def path_of(self, name: str) -> str:
        """Return where a stored file lies."""
        return os.path.join(self.folder, *name.split("/"))

    async def ready(self) -> None:
        """Look at the room on the disk; a folder that is not there is made."""
        free = await self._do(partial(_room, self.folder))
        if free < LEAST_ROOM_BYTES:
            raise StorageFault(
                f"the media folder: {free >> 20} MiB are free on its disk, and "
                f"{LEAST_ROOM_BYTES >> 20} MiB at least are kept for outputs"
            )

    async def keep(self, file: StoredFile) -> None:
        """Move a file, which is synced, to its place for good."""
        await self._do(partial(_keep, file.path, self.path_of(file.name)))

    async def remove(self, name: str) -> None:
        """Remove a file, and the folder of its job with the last one in it."""
        await self._do(partial(_remove, self.path_of(name)))

    async def clear(self, job_ids: Sequence[str]) -> None:
        """Remove the folders of jobs that have nothing stored: what a crash has left of them."""
        for begin in range(0, len(job_ids), SWEPT_AT_ONCE):
            some = job_ids[begin : begin + SWEPT_AT_ONCE]
            await self._do(partial(_clear, self.folder, some))

    async def sweep(
        self,
        is_orphan: Callable[[str, str], bool],
        pause: Callable[[], Awaitable[None]],
    ) -> int:
        """Remove the files that no job has, while jobs run.

        :param is_orphan: whether a file, given the id of the job in its name and its whole name, is
            no job's and will be none's.
        :param pause: lets the reactor do something else.
        :returns: how many files were removed.
        :raises StorageFault: the folder cannot be read.
        """
        jobs = await self._do(partial(_job_folders, self.folder))
        removed = 0
        for begin in range(0, len(jobs), SWEPT_AT_ONCE):
            some = jobs[begin : begin + SWEPT_AT_ONCE]
            for job, name in await self._do(partial(_files_of, self.folder, some)):
                if is_orphan(job, name):
                    removed += await self._swept(name)
            await pause()
        return removed

    async def _swept(self, name: str) -> int:
        try:
            await self.remove(name)
        except StorageFault as fault:
            _log.warn("{name} is no job's, and stays: {fault}", name=name, fault=fault)
            return 0
        return 1

    def _do(self, job: Callable[[], T]) -> Deferred[T]:
        return self._writer.submit(job).addErrback(_as_fault)


def _as_fault(failure: Failure) -> NoReturn:
    if failure.check(WriterStoppedError):
        raise CancelledError
    raise StorageFault(f"the media folder: {words_of(as_os_error(failure))}")


def _room(folder: str) -> int:
    make_folder(folder)
    return free_bytes(folder)


def _keep(source: str, target: str) -> None:
    make_folder(os.path.dirname(target))
    move_file(source, target)


def _remove(path: str) -> None:
    remove_file(path)
    remove_empty_folder(os.path.dirname(path))


def _clear(folder: str, jobs: Iterable[str]) -> None:
    for job in jobs:
        remove_folder(os.path.join(folder, job))


def _job_folders(folder: str) -> list[str]:
    return [name for name in names_in(folder) if _JOB_FOLDER.fullmatch(name)]


def _files_of(folder: str, jobs: Iterable[str]) -> list[tuple[str, str]]:
    """Return the files of jobs: each with its job, and by its whole name.

    An empty folder is removed: a file is moved into a new one by the job that makes that.
    """
    found = []
    for job in jobs:
        names = list_names(os.path.join(folder, job))
        if not names:
            remove_empty_folder(os.path.join(folder, job))
        found += [(job, f"{job}/{name}") for name in names]
    return found
