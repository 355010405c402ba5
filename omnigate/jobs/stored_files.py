"""Stored outputs for whoever may have them: a file of this machine to read, or a URL elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
from twisted.logger import Logger

from omnigate.errors import GatewayError
from omnigate.jobs.file_reads import FileReads, GoneError, Taker
from omnigate.jobs.incoming import words_of
from omnigate.jobs.job import Job
from omnigate.jobs.serving import Served, served
from omnigate.jobs.storage import LOCAL, S3, StorageFault
from omnigate.jobs.storage_local import LocalStorage
from omnigate.jobs.storage_s3 import S3Storage
from omnigate.writer_thread import WriterBusyError

#: A picture that a page shows is at most so large: a browser holds all of them.
MAX_SHOWN_BYTES: Final = 16 * 1024 * 1024

_log = Logger()


@attrs.frozen
class OpenedOutput:
    """An output that can be had.

    :ivar file: what it is.
    :ivar url: where it is in a bucket, for a few minutes; empty for a file of this machine, which
        :meth:`StoredFiles.sender` reads.
    """

    file: Served
    url: str = ""


def no_such_file() -> GatewayError:
    """Return the refusal of a file that there is not, or that is somebody else's."""
    return GatewayError("not_found", "there is no such file; its job may be gone, or another key's")


class StoredFiles:
    """Opens stored outputs.

    :param get: returns a job by its id.
    :param bucket: None where nothing was ever put into one.
    """

    def __init__(
        self,
        get: Callable[[str], Job | None],
        local: LocalStorage,
        reads: FileReads,
        bucket: S3Storage | None = None,
    ) -> None:
        self._get = get
        self._local = local
        self._reads = reads
        self._bucket = bucket

    def find(self, job_id: str, n: int) -> tuple[Job, Served]:
        """Return a job and one of its outputs, whoever asks.

        :raises GatewayError: ``not_found``.
        """
        job = self._get(job_id)
        if job is None or not 0 <= n < len(job.outputs):
            raise no_such_file()
        return job, served(job.outputs[n])

    async def open_output(self, job_id: str, n: int) -> OpenedOutput:
        """Make sure that an output can be had, whoever asks.

        :raises GatewayError: ``not_found`` where it is not there any more, ``storage_unavailable``
            where the disk or the bucket cannot be asked now, ``overloaded``.
        """
        _, file = self.find(job_id, n)
        if file.storage == S3:
            return OpenedOutput(file, self._url(file))
        if file.storage != LOCAL:
            raise self._gone(file, f"its storage {file.storage} is not known")
        try:
            await self._reads.check(self._local.path_of(file.name), file.size)
        except GoneError:
            raise self._gone(file, "the file is not there, or has another length") from None
        except OSError as error:
            raise _unreadable(file, error) from None
        except WriterBusyError as error:
            raise GatewayError("overloaded", str(error), retry_after=1) from None
        # Last, since nothing is waited for from here on until it is read: of a thousand that come
        # together each would else find room.
        if not self._reads.has_room:
            raise GatewayError(
                "overloaded", "too many files are being read; try again in a second", retry_after=1
            )
        return OpenedOutput(file)

    async def head(self, opened: OpenedOutput, length: int) -> bytes:
        """Return the first bytes of a file of this machine, to tell what it is.

        :raises GatewayError: see :meth:`open_output`.
        """
        file = opened.file
        try:
            return await self._reads.head(self._local.path_of(file.name), length)
        except GoneError:
            raise self._gone(file, "the file is not there") from None
        except OSError as error:
            raise _unreadable(file, error) from None
        except WriterBusyError as error:
            raise GatewayError("overloaded", str(error), retry_after=1) from None

    def sender(self, opened: OpenedOutput, begin: int, end: int) -> Callable[[Taker], None]:
        """Return what writes a part of a file of this machine to whoever takes it."""
        path = self._local.path_of(opened.file.name)
        return partial(self._reads.send, path, begin, end)

    def _url(self, file: Served) -> str:
        try:
            if self._bucket is None:
                raise StorageFault("there is no bucket in the config; set media.s3")
            return self._bucket.url(file)
        except StorageFault as fault:
            _log.error("{name} cannot be served: {fault}", name=file.name, fault=fault)
            raise GatewayError(
                "storage_unavailable", "the file lies in a bucket that cannot be used now"
            ) from None

    def _gone(self, file: Served, why: str) -> GatewayError:
        _log.error("the output {name} cannot be served: {why}", name=file.name, why=why)
        return GatewayError("not_found", "the file has been removed from the gateway's storage")


def _unreadable(file: Served, error: OSError) -> GatewayError:
    _log.error("the output {name} cannot be read: {reason}", name=file.name, reason=words_of(error))
    return GatewayError("storage_unavailable", "the file cannot be read now")
