"""Inputs too long for the job log: a file each, ``<jobs log>.inputs/<job id>.json``.

A file is written and synced before the job that points at it is in the log, and removed after the
job is out of it. So a crash in between leaves a file without a job, never a job without its file;
and such files are removed at a start. Everything here blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import Final

from omnigate import files

SUFFIX: Final = ".json"

#: The longest input that is read back: the most that a request may have.
MAX_INPUT_BYTES: Final = 8_000_000

_NAME = re.compile(r"job_[0-9a-z]{26}\.json", re.ASCII)


class InputFiles:
    """The folder of such files beside the log at ``log_path``."""

    def __init__(self, log_path: str) -> None:
        self.folder: Final = f"{log_path}.inputs"

    def path(self, job_id: str) -> str:
        """Return where the input of a job lies."""
        return os.path.join(self.folder, job_id + SUFFIX)

    def open(self, with_files: Collection[str]) -> tuple[int, list[str]]:
        """Make the folder if it is not there, and remove the files that no job has.

        Other files in it are left alone.

        :param with_files: the ids of the jobs whose input lies in a file.
        :return: how many files were removed, and the ids of jobs whose file is missing.
        :raises OSError: it cannot be read or made.
        """
        if not files.make_folder(self.folder):
            # Whoever made it may have been killed before its name was synced.
            files.sync_directory(os.path.dirname(self.folder) or ".")
        found = {name for name in files.list_names(self.folder) if _NAME.fullmatch(name)}
        wanted = {job_id + SUFFIX for job_id in with_files}
        orphans = sorted(found - wanted)
        for name in orphans:
            files.remove_file(os.path.join(self.folder, name))
        missing = sorted(name.removesuffix(SUFFIX) for name in wanted - found)
        return len(orphans), missing

    def write(self, inputs: Iterable[tuple[str, bytes]]) -> None:
        """Write inputs, and sync them and their names.

        :raises OSError: the disk refused; some of them, or parts, may be there.
        """
        written = False
        for job_id, content in inputs:
            files.write_file(self.path(job_id), content)
            written = True
        if written:
            files.sync_directory(self.folder)

    def read(self, job_id: str) -> bytes:
        """Return an input as it was written.

        :raises OSError: it cannot be read; ENOENT where it is not there.
        """
        content = files.read_file(self.path(job_id), MAX_INPUT_BYTES)
        if content is None:
            raise FileNotFoundError(f"{self.path(job_id)}: the input of this job is missing")
        return content

    def remove(self, job_ids: Iterable[str]) -> None:
        """Remove inputs, as far as they are there.

        A power loss may bring one back; a start removes it again.

        :raises OSError: one could not be removed.
        """
        for job_id in job_ids:
            files.remove_file(self.path(job_id))
