"""From the sources that an adapter names to outputs that are stored: fetched, judged, kept.

All outputs of an attempt are brought in first, a few at once, and only then stored, so that an
attempt that fails leaves nothing behind. What a crash has left is removed after the next start.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    FirstError,
    succeed,
)
from twisted.logger import Logger

from omnigate.files import make_folder, remove_file
from omnigate.jobs import age_files
from omnigate.jobs.adapters.base import Source
from omnigate.jobs.age_files import AgeFault, EncryptedFile
from omnigate.jobs.arriving import Arrived, Arriving, Fetches, not_kept
from omnigate.jobs.arriving_places import ArrivingPlaces, places_of_job
from omnigate.jobs.incoming import INCOMING, Incoming, words_of
from omnigate.jobs.job import Job, Output
from omnigate.jobs.media_types import OCTETS, extension
from omnigate.jobs.output_faults import OutputLimits, storage_failed
from omnigate.jobs.readiness import Readiness
from omnigate.jobs.storage import LOCAL, Storage, StorageFault, StoredFile
from omnigate.jobs.storage_local import LocalStorage
from omnigate.jobs.stored_names import StoredNames
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

_log = Logger()


class Outputs:
    """Stores the outputs of jobs, and removes them; a store of the control plane's guard.

    :param folder: the media folder.
    :param writer: whose thread takes what arrives and moves it to its place.
    :param worker: whose thread does what takes long: encrypting, copying.
    :param outbound: returns what fetches, which changes with the config.
    :param chosen: returns the name of the storage that the config says.
    :param pause: lets the reactor do something else.
    :param seconds: counts up, whatever is done to the machine's clock.
    :param others: the storages beside the media folder, by name.
    :ivar names: the files that jobs have; a watcher of the job store, which is opened before.
    """

    name = "outputs"

    def __init__(
        self,
        folder: str,
        writer: IWriter,
        worker: IWriter,
        outbound: Callable[[], Fetches],
        chosen: Callable[[], str],
        pause: Callable[[], Awaitable[None]],
        seconds: Callable[[], float],
        others: Mapping[str, Storage] | None = None,
    ) -> None:
        self.folder = folder
        self.incoming = Incoming(folder, writer)
        self.names = StoredNames()
        self.local = LocalStorage(folder, writer)
        self._writer = writer
        self._worker = worker
        self._outbound = outbound
        self._chosen = chosen
        self._pause = pause
        self._storages: dict[str, Storage] = {LOCAL: self.local, **(others or {})}
        self._places = ArrivingPlaces()
        self._sweeping: Deferred[None] = succeed(None)
        self._readiness = Readiness(partial(_ready, self.local, self._storages, chosen), seconds)

    async def open(self) -> None:
        """Make the media folder, and remove what an end of the process left of unfinished jobs.

        It is called once :attr:`names` has all jobs, and before any of them runs. What is left of
        others is looked for from then on, since that may take minutes. A folder that cannot be used
        is told, and nothing else has to wait for it: jobs fail while that lasts.
        """
        try:
            await self._writer.submit(partial(_make_folders, self.folder))
            await self.incoming.sweep()
            await self.local.clear(sorted(self.names.unfinished))
        except (OSError, StorageFault) as error:
            _log.error(
                "the media folder {folder} cannot be used: {reason}; jobs fail until that is "
                "mended",
                folder=self.folder,
                reason=words_of(error) if isinstance(error, OSError) else str(error),
            )
            return
        self._sweeping = Deferred.fromCoroutine(self._sweep())
        # Whoever starts the plane with a bucket that takes nothing reads of it then.
        self._readiness.unready()

    def close(self) -> Deferred[None]:
        """End the search for what is left; whoever stores has been ended before."""
        self.abandon()
        return succeed(None)

    def abandon(self) -> None:
        """Let go of everything; what is left half done is removed after the next start."""
        self._sweeping.cancel()
        self._readiness.stop()

    async def _sweep(self) -> None:
        try:
            removed = await self.local.sweep(self._is_orphan, self._pause)
        except CancelledError:
            return
        except Exception:
            _log.failure("the media folder could not be searched for files that are no job's")
            return
        if removed:
            _log.info("{count} files in the media folder were no job's; removed", count=removed)

    def _is_orphan(self, job_id: str, name: str) -> bool:
        return job_id not in self.names.unfinished and not self.names.held(LOCAL, name)

    def unready(self) -> str | None:
        """Return why nothing can be kept now; empty where it can be, None where that is asked.

        Whoever gets None asks again soon.
        """
        return self._readiness.unready()

    async def store(
        self,
        job: Job,
        sources: Sequence[Source],
        *,
        own_origin: str,
        limits: OutputLimits,
        recipients: Sequence[str] = (),
    ) -> tuple[Output, ...]:
        """Bring in and store what an attempt made; what came in for the job is gone then.

        :param own_origin: of the target's ``base_url``: allowed whatever its address is, and the
            only one that a credential goes to.
        :param recipients: of age, to encrypt for; none to store it as it is.
        :raises OutputFault: it could not be; nothing of this attempt is left.
        """
        try:
            if len(sources) > limits.max_outputs:
                raise limits.too_many(len(sources))
            fault = age_files.fault_of(recipients)
            if fault:
                raise storage_failed(fault)
            arriving = Arriving(
                job, self.incoming, self._outbound(), self._worker, limits, own_origin
            )
            arrived = await self._bring_all(arriving, sources)
            return await self._keep_all(job, arrived, recipients)
        finally:
            self.incoming.clear(job.id)

    async def remove(self, outputs: Sequence[Output]) -> None:
        """Remove stored files that no job has any more; what stays is logged.

        It is called once the jobs that had them are gone, or did not become what they were for.
        """
        for output in outputs:
            if not self.names.held(output.storage, output.name):
                await self._remove(output)

    async def _remove(self, output: Output) -> None:
        storage = self._storages.get(output.storage)
        try:
            if storage is None:
                raise StorageFault(f"there is no storage {output.storage} here")
            await storage.remove(output.name)
        except StorageFault as fault:
            _log.warn(
                "the output {name} could not be removed, and stays: {fault}",
                name=output.name,
                fault=fault,
            )

    async def _bring_all(self, arriving: Arriving, sources: Sequence[Source]) -> list[Arrived]:
        """Bring in all, or end them all with the first that fails."""
        of_job = places_of_job()
        total = 0
        first: BaseException | None = None

        async def bring(n: int, source: Source) -> Arrived:
            nonlocal total, first
            async with self._places.place(of_job, arriving.own_origin):
                try:
                    if first is not None:
                        raise CancelledError
                    arrived = await arriving.bring(n, source)
                    total += arrived.kept.size
                    if total > arriving.limits.max_total_bytes:
                        raise arriving.limits.too_large_together()
                    return arrived
                except BaseException as error:
                    # Whoever gets this place next need not begin.
                    first = first or error
                    raise

        tasks = [Deferred.fromCoroutine(bring(n, one)) for n, one in enumerate(sources)]
        try:
            found = await DeferredList(tasks, fireOnOneErrback=True, consumeErrors=True)
        except FirstError as error:
            raise (first or error) from None
        finally:
            for task in tasks:
                task.cancel()
        return [arrived for _, arrived in found]

    async def _keep_all(
        self, job: Job, arrived: Sequence[Arrived], recipients: Sequence[str]
    ) -> tuple[Output, ...]:
        place = self._chosen()
        outputs: list[Output] = []
        try:
            for n, one in enumerate(arrived):
                file = await self._file_of(job, n, one, recipients)
                outputs.append(_output(one, file, place, encrypted=bool(recipients)))
                await self._storages[place].keep(file)
        except Exception as error:
            # Waited for: the next target's outputs have the same names.
            for output in outputs:
                await self._remove(output)
            if isinstance(error, StorageFault):
                self._readiness.doubt()
                raise storage_failed(str(error)) from None
            raise
        return tuple(outputs)

    async def _file_of(
        self, job: Job, n: int, one: Arrived, recipients: Sequence[str]
    ) -> StoredFile:
        """Return the file to store of one output, encrypted where that is asked for."""
        name, kept = f"{job.id}/{n}.{extension(one.content_type)}", one.kept
        file = StoredFile(kept.path, name, one.content_type, kept.size, kept.sha256)
        if recipients:
            return await self._encrypted(file, self.incoming.new_path(job.id, n), recipients)
        return file

    async def _encrypted(
        self, file: StoredFile, path: str, recipients: Sequence[str]
    ) -> StoredFile:
        try:
            made = await self._worker.submit(partial(_encrypt, file.path, path, recipients))
        except AgeFault as fault:
            raise storage_failed(str(fault)) from None
        except OSError as error:
            raise not_kept(words_of(error)) from None
        except WriterBusyError as error:
            raise not_kept(str(error)) from None
        except WriterStoppedError:
            raise CancelledError from None
        name = file.name + age_files.SUFFIX
        return StoredFile(path, name, OCTETS, made.size, made.sha256)


async def _ready(
    local: LocalStorage, storages: Mapping[str, Storage], chosen: Callable[[], str]
) -> None:
    """Find out whether outputs can be kept; whatever keeps them for good, they come in locally."""
    await local.ready()
    if chosen() != LOCAL:
        await storages[chosen()].ready()


def _output(one: Arrived, file: StoredFile, place: str, *, encrypted: bool) -> Output:
    kept = one.kept
    output = Output(one.content_type, kept.size, kept.sha256, one.source, place, file.name)
    if not encrypted:
        return output
    return replace(output, encrypted=True, stored_size=file.size, stored_sha256=file.sha256)


def _make_folders(folder: str) -> None:
    make_folder(folder)
    make_folder(os.path.join(folder, INCOMING))


def _encrypt(source: str, target: str, recipients: Sequence[str]) -> EncryptedFile:
    """Encrypt a file, and remove the clear one at once."""
    try:
        return age_files.encrypt_file(source, target, recipients)
    finally:
        remove_file(source)
