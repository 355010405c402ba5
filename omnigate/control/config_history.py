"""The configs that were in force: when, by whom, what was new in them, and their text.

``config_history.json`` is replaced whole for each of them, the newest first::

    {"version": 1, "entries": [
      {"id": 12, "at": "2026-11-30T09:00:00.000Z", "actor": "file", "address": "",
       "sha256": "9f86…", "bytes": 2048, "keys": 3, "upstreams": 2, "routes": 5,
       "changes": {"routes": {"added": ["fast"]}}, "text": "…"}]}

The texts are kept for people to compare and to copy back by hand; no config is ever put in force
out of this file. What may be a secret is taken out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.control.config_reading import Reading
from omnigate.control.redaction import redacted
from omnigate.control.whole_file import read_whole
from omnigate.errors import GatewayError
from omnigate.files import remove_leftovers, replace_file
from omnigate.periods import rfc3339
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

FILE_VERSION: Final = 1

#: What an operator looks back on; a config that changes every day has fifty days.
MAX_ENTRIES: Final = 50

#: Of all texts together, in bytes: four of the longest that there may be, or fifty of an ordinary
#: one twenty times over.
MAX_TEXT_BYTES: Final = 16 * 1024 * 1024

#: The texts, twice over for what JSON escapes, and the rest.
MAX_FILE_BYTES: Final = 3 * MAX_TEXT_BYTES

#: Configs that may wait to be written, each with its text and all its tables in memory. One that
#: changes faster than the disk takes the history is not kept whole.
MAX_WAITING: Final = 4

_REMEDY: Final = "restore it from a backup, or move it away to begin a new one"


class ConfigHistoryError(Exception):
    """``config_history.json`` cannot be used; the text names the file and the remedy."""


class HistoryEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One config that was in force.

    :ivar at: when it came into force, as RFC 3339 in UTC.
    :ivar actor: who brought it there, as the audit log says; ``start`` for a start of the daemon.
    :ivar sha256: of the text as it was, before anything was taken out.
    :ivar bytes: how long that was.
    :ivar changes: what was new against the one before; empty where that is not known.
    :ivar text: without secrets; None where it is too long ago.
    """

    id: int
    at: str
    actor: str
    address: str
    sha256: str
    bytes: int
    keys: int
    upstreams: int
    routes: int
    changes: dict[str, Any]
    text: str | None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    entries: list[HistoryEntry]


class _Head(msgspec.Struct):
    version: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_File)
_entry_decoder = msgspec.json.Decoder(HistoryEntry)
_head_decoder = msgspec.json.Decoder(_Head)


def _unexpected(failure: Failure) -> None:
    failure.raiseException()


class ConfigHistory:
    """The history in memory, and its file, which says the same once a write is done.

    :param writer: the thread that does all its disk work.
    :param crashed: told of what it has no answer for.
    :ivar failed_writes: how many entries could not be written.
    """

    _log = Logger()
    name = "config history"

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        crashed: Callable[[Failure], None] = _unexpected,
    ) -> None:
        self.path: Final = path
        self.failed_writes = 0
        self._writer = writer
        self._now_ms = now_ms
        self._crashed = crashed
        self._entries: tuple[HistoryEntry, ...] = ()
        self._turn = DeferredLock()
        self._waiting = 0
        self._open = False

    async def open(self) -> None:
        """Read the file; none is an empty history.

        :raises ConfigHistoryError: it is there and cannot be used; it is left as it is.
        """
        self._entries = await self._writer.submit(lambda: _sweep_and_read(self.path))
        self._open = True

    async def close(self) -> None:
        """Wait for what is being written."""
        self._open = False
        await self._turn.acquire()
        self._turn.release()

    def abandon(self) -> None:
        """Let go of everything at once."""
        self._open = False
        self._entries = ()

    def entries(self) -> Sequence[HistoryEntry]:
        """Return all that there are, newest first.

        :raises GatewayError: ``not_ready`` before it is open.
        """
        if not self._open:
            raise GatewayError("not_ready", "the config history is not open", retry_after=1)
        return self._entries

    async def add(self, reading: Reading, actor: str, address: str = "") -> None:
        """Add a config that comes into force; one that cannot be written is logged and counted."""
        if self._waiting >= MAX_WAITING:
            self._not_added(f"{self._waiting} others wait for the disk")
            return
        self._waiting += 1
        await self._turn.acquire()
        try:
            if self._open:
                at = rfc3339(self._now_ms())
                before = self._entries
                self._entries = await self._writer.submit(
                    lambda: _add(self.path, before, reading, at, actor, address)
                )
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            self._not_added(error)
        except Exception:
            self._crashed(Failure())
        finally:
            self._waiting -= 1
            self._turn.release()

    def _not_added(self, reason: object) -> None:
        self.failed_writes += 1
        self._log.error(
            "{path}: a config in force could not be added ({error}); the config itself is not "
            "touched by that",
            path=self.path,
            error=reason,
        )


def _add(
    path: str,
    before: Sequence[HistoryEntry],
    reading: Reading,
    at: str,
    actor: str,
    address: str,
) -> tuple[HistoryEntry, ...]:
    """Write the history with one more entry, in the thread, and return it."""
    config = reading.config
    new = HistoryEntry(
        id=before[0].id + 1 if before else 1,
        at=at,
        actor=actor,
        address=address,
        sha256=reading.sha256,
        bytes=len(reading.text.encode("utf-8")),
        keys=len(config.keys),
        upstreams=len(config.upstreams),
        routes=len(config.routes),
        changes=reading.changes.rows(),
        text=redacted(reading.text),
    )
    entries = _bounded((new, *before[: MAX_ENTRIES - 1]))
    replace_file(path, _pieces(entries))
    return entries


def _bounded(entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """Return the entries without the texts that are too much, the oldest ones."""
    left, kept = MAX_TEXT_BYTES, []
    for entry in entries:
        if entry.text is not None:
            left -= len(entry.text.encode("utf-8"))
            if left < 0:
                entry = msgspec.structs.replace(entry, text=None)
        kept.append(entry)
    return tuple(kept)


def _head(version: int) -> bytes:
    return b'{"version": %d, "entries": [' % version


def _pieces(entries: Sequence[HistoryEntry]) -> list[bytes]:
    """Return the file in pieces: to encode it in one would hold the interpreter too long."""
    pieces = [_head(FILE_VERSION)]
    for index, entry in enumerate(entries):
        pieces.append(b",\n  " if index else b"\n  ")
        pieces.append(_encoder.encode(entry))
    return [*pieces, b"]}\n"]


def _from_pieces(data: bytes) -> list[HistoryEntry] | None:
    """Return the entries of a file as it was written, one at a time, for the same reason.

    :return: None for a file in another form, which may be a good one all the same.
    """
    head, *lines = data.removesuffix(b"]}\n").split(b"\n  ")
    if head != _head(FILE_VERSION) or not data.endswith(b"]}\n"):
        return None
    last = len(lines) - 1
    if not all(line.endswith(b",") for line in lines[:last]):
        return None
    try:
        return [
            _entry_decoder.decode(line if index == last else memoryview(line)[:-1])
            for index, line in enumerate(lines)
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _other_version(data: bytes) -> int | None:
    """Return the version of a file that is not of ours, whatever else may be in it."""
    try:
        version = _head_decoder.decode(data).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if version == FILE_VERSION else version


def _sweep_and_read(path: str) -> tuple[HistoryEntry, ...]:
    remove_leftovers(path)
    return _read(path)


def _read(path: str) -> tuple[HistoryEntry, ...]:
    data = read_whole(path, MAX_FILE_BYTES, _REMEDY, ConfigHistoryError)
    if data is None:
        return ()
    entries = _from_pieces(data)
    if entries is None:
        entries = _from_whole(path, data)
    ids = [entry.id for entry in entries]
    if ids != sorted(set(ids), reverse=True):
        raise ConfigHistoryError(f"{path}: its entries are out of order; {_REMEDY}")
    return tuple(entries)


def _from_whole(path: str, data: bytes) -> list[HistoryEntry]:
    version = _other_version(data)
    if version is not None:
        raise ConfigHistoryError(
            f"{path}: has format {version}, and this version reads {FILE_VERSION}; start the "
            "version that wrote it, or move it away to begin a new one"
        )
    try:
        return _decoder.decode(data).entries
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigHistoryError(f"{path}: is no config history ({error}); {_REMEDY}") from None
