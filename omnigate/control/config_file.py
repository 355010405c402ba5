"""The config file in force: loaded at the start, read again on change, never replaced by a bad one.

The file is read again when :meth:`ConfigFile.reload` is called: by SIGHUP, by the admin API, and by
:class:`~omnigate.control.config_watch.ConfigWatch` when it has changed. That is done by a thread,
one reading at a time. Before another config comes into force a witness is asked, which writes that
down; what it refuses does not come into force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock, execute, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.config.credentials import Credentials
from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import Config, ConfigError
from omnigate.config.structure import Fault
from omnigate.control.config_reading import FileStamp, Reading, read_config, stamp_of
from omnigate.control.config_watch import ConfigWatch, MakeFolders
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.redaction import redacted
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

#: A log shows the first faults of a file; the admin API shows all.
MAX_LOGGED_FAULTS: Final = 50

#: What has the file read again, where no operator does by the admin API.
START: Final = "start"
SIGNAL: Final = "signal"
FILE: Final = "file"

Listener = Callable[[Config], None]


@attrs.frozen
class Cause:
    """Who has the file read: an operator, as the audit log names him, or one of the words above."""

    actor: str
    address: str = ""
    request_id: str = ""


#: Told of every reading before anything comes of it: why, and what was read or what is wrong with
#: it. What it raises as a :class:`GatewayError` keeps a new config from coming into force; what it
#: returns is called once it has.
Witness = Callable[
    [Cause, Reading | None, tuple[Fault, ...]], Awaitable[Callable[[], object] | None]
]


async def _nobody(cause: Cause, reading: Reading | None, faults: tuple[Fault, ...]) -> None:
    """Write nothing down."""


class ConfigFile:
    """One config file, and the config that was last good in it.

    :ivar path: the file; it is read and never written.
    :ivar config: the config in force. Before :meth:`load` has succeeded it is an empty one.
    :ivar file_keys: the keys of that config with their hashes.
    :ivar reading: the reading that brought it into force.
    :ivar loaded_at: when the config in force was read, in seconds of the clock.
    :ivar faults: what was wrong at the last try; empty if it was good.
    :ivar reloads: how many times the file was read with success, the start included.
    :ivar failures: how many times it had faults.
    :ivar witness: asked before a config comes into force, but for that of the start.
    :ivar was_read: called after every reading but that of the start, whatever came of it.
    """

    _log = Logger()

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        environ_lookup: Callable[[str], str | None],
        wall: Callable[[], float] | None = None,
        reader: IWriter | None = None,
        make_folders: MakeFolders | None = None,
    ) -> None:
        """Prepare; nothing is read yet.

        :param environ_lookup: gives the value of an environment variable, for ``key_env``.
        :param wall: seconds since 1970; the clock's where it is left out.
        :param reader: the thread that reads; without one it is done on the spot.
        :param make_folders: makes a watch on folders; without one the file is polled only.
        """
        self.path: Final = path
        self.config = Config()
        self.file_keys: tuple[ResolvedKey, ...] = ()
        self.reading: Reading | None = None
        self.loaded_at = 0.0
        self.faults: tuple[Fault, ...] = ()
        self.reloads = 0
        self.failures = 0
        self.witness: Witness = _nobody
        self.was_read: Callable[[], None] = lambda: None
        self._wall = wall or clock.seconds
        self._environ_lookup = environ_lookup
        self._reader = reader
        self._credentials = Credentials()
        self._listeners: list[Listener] = []
        self._stamp: FileStamp | None = None
        self._turn = DeferredLock()
        self._waiting: dict[str, list[Deferred[bool]]] = {}
        self._watch = ConfigWatch(
            path, clock, lambda: self._stamp, self._reload_changed, make_folders
        )

    @property
    def gateway_keys(self) -> tuple[GatewayKey, ...]:
        """The keys of the config in force, as the control plane keeps all keys."""
        return () if self.reading is None else self.reading.gateway_keys

    def credential(self, name: str) -> str | None:
        """Return the value of a variable that ``[media]`` names, as the last good reading found it.

        :returns: None where it was not set, could not be used, or is not named there.
        """
        return self._credentials.values.get(name)

    def on_change(self, listener: Listener) -> None:
        """Call ``listener`` with the new config whenever another one comes into force."""
        self._listeners.append(listener)

    def start_watching(self) -> None:
        """Look for changes from now on, at once where folders can be watched."""
        self._watch.start()

    def stop(self) -> Deferred[None]:
        """Look no more, and read no more; fires when the thread has ended."""
        self._watch.stop()
        return succeed(None) if self._reader is None else self._reader.stop()

    # -- reading ------------------------------------------------------------------------------

    def load(self) -> Config:
        """Read the file for the first time and return its config; it blocks.

        :raises ConfigError: the file cannot be read or has faults; a start must not go on.
        """
        self._stamp = stamp_of(self.path)
        self._install(self._read(Cause(START)))
        return self.config

    def reload(self, cause: Cause) -> Deferred[bool]:
        """Read the file again; the result is whether it was good.

        A good one is in force then, and the listeners were called if anything in it is new. A file
        with faults is logged and counted, and changes nothing else. While one reading is under
        way, all that the same actor asks for meanwhile is one more.

        :return: fails with :class:`GatewayError` where a good config could not be put in force
            since the witness, or the thread, is not to be had.
        """
        result: Deferred[bool] = Deferred()
        waiting = self._waiting.get(cause.actor)
        if waiting is not None:
            waiting.append(result)
            return result
        waiting = self._waiting[cause.actor] = [result]
        done = Deferred.fromCoroutine(self._reload_in_turn(cause))
        done.addBoth(_tell, waiting)
        return result

    async def _reload_in_turn(self, cause: Cause) -> bool:
        await self._turn.acquire()
        try:
            del self._waiting[cause.actor]
            return await self._reload(cause)
        finally:
            self._turn.release()
            self.was_read()

    async def _reload(self, cause: Cause) -> bool:
        # Taken before the read: a change during it is then seen by the next look.
        self._stamp = stamp_of(self.path)
        try:
            reading = await self._submit(partial(self._read, cause))
        except ConfigError as error:
            self._refuse(error.faults)
            try:
                await self.witness(cause, None, error.faults)
            except GatewayError as unwritten:  # nothing was changed, so nothing was changed unseen
                self._log.error("a refused config is not audited: {error}", error=unwritten)
            return False
        except (WriterBusyError, WriterStoppedError) as error:
            self._stamp = None  # so that it is tried again
            self._refuse([Fault(self.path, f"cannot be read now: {error}")])
            raise GatewayError(
                "not_ready", "the config cannot be read now", retry_after=1, detail=str(error)
            ) from None
        except Exception:
            # A fault of this program: what is in the file is not in force, and nobody may think so.
            self._refuse([Fault(self.path, "could not be read; the log says more")])
            raise
        try:
            afterwards = await self.witness(cause, reading, ())
        except GatewayError as error:
            self._stamp = None  # so that it is tried again
            self._refuse([Fault(self.path, f"cannot be put in force: {error.message}")])
            raise
        self._install(reading)
        if afterwards is not None:
            afterwards()
        return True

    def _submit(self, job: Callable[[], Reading]) -> Deferred[Reading]:
        return execute(job) if self._reader is None else self._reader.submit(job)

    def _read(self, cause: Cause) -> Reading:
        """Read the file, in the thread.

        :raises ConfigError: with every fault, those of the environment included.
        """
        try:
            return read_config(
                self.path, self._environ_lookup, self.reading, refuse_empty=cause.actor == FILE
            )
        except ConfigError as error:
            # They go to the log and to whoever may read the config, and repeat words of the file.
            raise ConfigError([_without_secrets(fault) for fault in error.faults]) from None

    def _reload_changed(self) -> Deferred[None]:
        def failed(failure: Failure) -> None:
            if failure.check(GatewayError) is None:
                self._log.failure("the config could not be read", failure=failure)

        return self.reload(Cause(FILE)).addCallback(lambda good: None).addErrback(failed)

    # -- what comes of it ---------------------------------------------------------------------

    def _install(self, reading: Reading) -> None:
        config = reading.config
        first = not self.reloads
        self.faults = ()
        self.reloads += 1
        self.loaded_at = self._wall()
        self._log.info(
            "config {path}: {what} ({keys} keys, {upstreams} upstreams, {routes} routes, {media} "
            "media routes)",
            path=self.path,
            what="loaded"
            if first
            else "reloaded"
            if reading.changed
            else "read again, nothing is new",
            keys=len(config.keys),
            upstreams=len(config.upstreams),
            routes=len(config.routes),
            media=len(config.media.routes),
        )
        self._take_credentials(reading.credentials)
        if not (reading.changed or first):
            return
        self.reading = reading
        self.config, self.file_keys = config, reading.keys
        for listener in list(self._listeners):
            try:
                listener(config)
            except Exception:  # one listener's fault must not keep the config from the others
                self._log.failure("a listener failed on the new config")

    def _take_credentials(self, found: Credentials) -> None:
        """Use these from now on; what is amiss is told when it is new."""
        told = set(self._credentials.faults)
        self._credentials = found
        faults = [fault for fault in found.faults if fault not in told]
        for fault in faults[:MAX_LOGGED_FAULTS]:
            self._log.warn("config {path}: {fault}", path=self.path, fault=fault)

    def _refuse(self, faults: Sequence[Fault]) -> None:
        """Count faults; those that were told already are not logged again."""
        self.failures += 1
        before, self.faults = self.faults, tuple(faults)
        if self.faults == before:
            return
        self._log.error(
            "config {path}: {count} faults; the config in force stays",
            path=self.path,
            count=len(self.faults),
        )
        for fault in self.faults[:MAX_LOGGED_FAULTS]:
            self._log.error("config {path}: {fault}", path=self.path, fault=str(fault))


def _without_secrets(fault: Fault) -> Fault:
    """Return a fault without what may be a secret that was pasted into the file."""
    path, message, row = map(redacted, (fault.path, fault.message, fault.row))
    return Fault(path, message, row)


def _tell(result: bool | Failure, waiting: list[Deferred[bool]]) -> None:
    """Tell all who wait for one reading what became of it."""
    for each in waiting:
        each.callback(result)
