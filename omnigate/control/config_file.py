"""The config file in force: loaded at the start, watched, re-read, and never replaced by a bad one.

The file is read again when :meth:`ConfigFile.reload` is called (SIGHUP, the admin API) and when a
poll finds it changed. Polling looks at the file behind any symbolic link, so an editor that renames
and a container platform that swaps links are both seen. A changed file is left alone until it has
stood still for a moment, so that a half-written one is seldom read; should it be, it has faults,
and the config in force stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from omnigate.config.file_keys import ResolvedKey, resolve_file_keys
from omnigate.config.schema import MAX_CONFIG_BYTES, Config, ConfigError, load_config
from omnigate.config.structure import Fault

#: A human saves a file and looks up: two seconds later it should be in force.
POLL_SECONDS: Final = 2.0

#: An editor or a copy writes a small file in far less; two looks this far apart must agree.
SETTLE_SECONDS: Final = 0.15

#: A file that never stands still is left to the next poll after so many looks (three seconds).
MAX_SETTLE_LOOKS: Final = 20

#: A log shows the first faults of a file; the admin API shows all.
MAX_LOGGED_FAULTS: Final = 50

Listener = Callable[[Config], None]


@attrs.frozen
class FileStamp:
    """What tells one content of a file from another without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class ConfigFile:
    """One config file, and the config that was last good in it.

    :ivar path: the file; it is read and never written.
    :ivar config: the config in force. Before :meth:`load` has succeeded it is an empty one.
    :ivar file_keys: the keys of that config with their hashes.
    :ivar loaded_at: when the config in force was read, in seconds of the clock.
    :ivar faults: what was wrong at the last try; empty if it was good.
    :ivar reloads: how many times the file was read with success, the start included.
    :ivar failures: how many times it had faults.
    """

    _log = Logger()

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        environ_lookup: Callable[[str], str | None],
        wall: Callable[[], float] | None = None,
    ) -> None:
        """Prepare; nothing is read yet.

        :param environ_lookup: gives the value of an environment variable, for ``key_env``.
        :param wall: seconds since 1970; the clock's where it is left out.
        """
        self.path: Final = path
        self.config = Config()
        self.file_keys: tuple[ResolvedKey, ...] = ()
        self.loaded_at = 0.0
        self.faults: tuple[Fault, ...] = ()
        self.reloads = 0
        self.failures = 0
        self._clock = clock
        self._wall = wall or clock.seconds
        self._environ_lookup = environ_lookup
        self._listeners: list[Listener] = []
        self._stamp: FileStamp | None = None
        self._timer: IDelayedCall | None = None

    def on_change(self, listener: Listener) -> None:
        """Call ``listener`` with the new config whenever another one comes into force."""
        self._listeners.append(listener)

    def load(self) -> Config:
        """Read the file for the first time and return its config.

        :raises ConfigError: the file cannot be read or has faults; a start must not go on.
        """
        config, keys = self._read()
        self._install(config, keys)
        return config

    def reload(self) -> bool:
        """Read the file again; return whether it was good.

        A good one is in force from now on, and the listeners are called if anything in it is new.
        A file with faults is logged and counted, and changes nothing else.
        """
        try:
            config, keys = self._read()
        except ConfigError as error:
            self.failures += 1
            self.faults = error.faults
            self._log_faults()
            return False
        self._install(config, keys)
        return True

    def start_polling(self) -> None:
        """Look for changes every :data:`POLL_SECONDS` from now on."""
        if self._timer is None:
            self._timer = self._clock.callLater(POLL_SECONDS, self._poll)

    def stop_polling(self) -> None:
        """Look no more."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _poll(self) -> None:
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            self._timer = self._clock.callLater(POLL_SECONDS, self._poll)
        else:
            self._wait_until_settled(stamp, MAX_SETTLE_LOOKS)

    def _wait_until_settled(self, stamp: FileStamp | None, looks: int) -> None:
        self._timer = self._clock.callLater(SETTLE_SECONDS, self._look_again, stamp, looks)

    def _look_again(self, before: FileStamp | None, looks: int) -> None:
        """Reload a file that looks as it did a moment ago, or wait on."""
        stamp = stamp_of(self.path)
        if stamp != before and looks > 1:
            self._wait_until_settled(stamp, looks - 1)
            return
        self._timer = self._clock.callLater(POLL_SECONDS, self._poll)
        if stamp == before:
            self.reload()

    def _read(self) -> tuple[Config, tuple[ResolvedKey, ...]]:
        """Return the file's config and keys.

        :raises ConfigError: with every fault, those of the environment included.
        """
        # Taken before the read: a change during it is then seen by the next poll.
        self._stamp = stamp_of(self.path)
        config = load_config(read_config_text(self.path))
        keys, faults = resolve_file_keys(config, self._environ_lookup)
        if faults:
            raise ConfigError(faults)
        return config, tuple(keys)

    def _install(self, config: Config, keys: tuple[ResolvedKey, ...]) -> None:
        changed = (config, keys) != (self.config, self.file_keys)
        first = not self.reloads
        self.config, self.file_keys = config, keys
        self.loaded_at = self._wall()
        self.faults = ()
        self.reloads += 1
        self._log.info(
            "config {path}: {what} ({keys} keys, {upstreams} upstreams, {routes} routes)",
            path=self.path,
            what="loaded" if first else "reloaded" if changed else "read again, nothing is new",
            keys=len(config.keys),
            upstreams=len(config.upstreams),
            routes=len(config.routes),
        )
        if not changed:
            return
        for listener in list(self._listeners):
            try:
                listener(config)
            except Exception:  # one listener's fault must not keep the config from the others
                self._log.failure("a listener failed on the new config")

    def _log_faults(self) -> None:
        self._log.error(
            "config {path}: {count} faults; the config in force stays",
            path=self.path,
            count=len(self.faults),
        )
        for fault in self.faults[:MAX_LOGGED_FAULTS]:
            self._log.error("config {path}: {fault}", path=self.path, fault=str(fault))


def stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of the file behind ``path``, or None where there is none to be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileStamp(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def read_config_text(path: str) -> str:
    """Return the text of a config file of at most :data:`MAX_CONFIG_BYTES`.

    :raises ConfigError: the file is not there, cannot be read, is no regular file, is too long,
        or is not UTF-8.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError([Fault(path, "is no regular file")])
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        remedy = "OMNIGATE_CONFIG or --config names the file"
        message = f"the config file cannot be read: {reason}; {remedy}"
        raise ConfigError([Fault(path, message)]) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError([Fault(path, f"is longer than {MAX_CONFIG_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Fault(f"line {line}", "is not UTF-8")]) from None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; without O_NONBLOCK the opening of a named pipe would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
