"""Gateway keys as the control plane knows them: managed keys on disk, file keys beside them.

A managed key is made here, shown once and kept only as its SHA-256. ``keys.json`` holds all
managed keys and is replaced whole on every change, before the caller is answered::

    {"version": 1, "keys": [
      {"name": "app", "sha256": "9f86…", "created_ms": 1795978800000, "rpm": 600,
       "models": ["fast"], "max_concurrent": 0, "budget_usd": 50, "budget_period": "monthly",
     "budget_timezone": "Europe/Stockholm", "soft_budget_usd": 40}]}

File keys come out of the config. Both kinds end up in one :class:`KeyBook`, behind which nobody
can tell them apart.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec
from twisted.internet.defer import DeferredLock

from omnigate.config import values
from omnigate.config.file_keys import ResolvedKey
from omnigate.config.structure import Fault
from omnigate.control.key_members import FIELDS, read_members
from omnigate.control.key_secret import new_secret, sha256_hex
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.errors import GatewayError
from omnigate.files import IWriter, WriterBusyError, WriterStoppedError, read_file, replace_file
from omnigate.money import usd
from omnigate.periods import TOTAL, UTC

FILE_VERSION: Final = 1

#: The file is rewritten whole, and the key list travels whole in every changed snapshot: ten
#: thousand keys are about 3 MB of both, which a poll still carries without anybody noticing.
MAX_MANAGED_KEYS: Final = 10_000

#: Ten thousand keys with ordinary model lists stay far below.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024

_REMEDY: Final = "restore it from a backup, or move it away to start without managed keys"


class KeysFileError(Exception):
    """``keys.json`` cannot be used; the text names the file and the remedy."""


@attrs.frozen
class GatewayKey:
    """One key of either kind.

    :ivar source: ``"file"`` or ``"managed"``.
    :ivar models: ``None`` for all models.
    :ivar budget_nano: ``None`` without a budget.
    :ivar budget_period: what both budgets count for; without one it means nothing.
    :ivar budget_timezone: the zone whose midnights the period begins at.
    :ivar soft_budget_nano: ``None`` without a soft budget, which only tells.
    :ivar created_ms: ``None`` for a file key.
    """

    name: str
    sha256: str
    source: str
    rpm: int = 0
    models: tuple[str, ...] | None = None
    max_concurrent: int = 0
    budget_nano: int | None = None
    budget_period: str = TOTAL
    budget_timezone: str = UTC
    soft_budget_nano: int | None = None
    created_ms: int | None = None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Every hash whose spend is this key's."""
        return (self.sha256,)

    @property
    def has_budget(self) -> bool:
        """Whether it has a budget of either kind."""
        return self.budget_nano is not None or self.soft_budget_nano is not None


_ROW_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    **FIELDS,
    "sha256": ("sha256", values.sha256_hex),
    "created_ms": ("created_ms", values.whole(0, 10**15)),
}


class KeyStore:
    """The managed keys in memory, and ``keys.json``, which always says the same.

    A change is written and synced before it is visible. One change runs at a time, so one that
    fails on disk leaves both as they were.

    :ivar revision: another number after every change.
    """

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str] = new_secret,
    ) -> None:
        self.path = path
        self._writer = writer
        self._now_ms = now_ms
        self._make_secret = make_secret
        self._keys: dict[str, GatewayKey] = {}
        self._turn = DeferredLock()
        self.revision = 0

    def load(self) -> None:
        """Read ``keys.json``; no file is an empty store. It blocks, and is for the start only.

        :raises KeysFileError: the file is there and cannot be used.
        """
        try:
            data = read_file(self.path, MAX_FILE_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise KeysFileError(f"{self.path}: {error.strerror}; {_REMEDY}") from None
            raise KeysFileError(
                f"{self.path}: cannot be read ({error.strerror}); let this process read it"
            ) from None
        if data is not None:
            self._keys = _decode_file(self.path, data)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[GatewayKey]:
        return iter(self._keys.values())

    def get(self, name: str) -> GatewayKey | None:
        """Return the managed key of that name."""
        return self._keys.get(name)

    async def create(self, body: object, taken: Callable[[str], bool]) -> tuple[GatewayKey, str]:
        """Make a key and write it down.

        :param body: the decoded body of the request.
        :param taken: tells whether a file key has a name.
        :return: the key, and its secret, which nobody can read again.
        :raises GatewayError: ``invalid_request``, ``already_exists``, ``conflict``, or
            ``storage_unavailable`` with nothing changed.
        """
        members = read_members(body, FIELDS, ("name",))
        await self._turn.acquire()
        try:
            name = members["name"]
            if name in self._keys or taken(name):
                raise GatewayError(
                    "already_exists", f'there is a key named "{name}"; take another name'
                )
            if len(self._keys) >= MAX_MANAGED_KEYS:
                raise GatewayError(
                    "conflict", f"there are {MAX_MANAGED_KEYS} managed keys; delete one first"
                )
            secret = self._make_secret()
            key = GatewayKey(
                **members, sha256=sha256_hex(secret), source="managed", created_ms=self._now_ms()
            )
            await self._replace({**self._keys, name: key})
        finally:
            self._turn.release()
        return key, secret

    async def change(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        """Replace a key by what ``change`` makes of it; its name and its secret stay.

        :raises GatewayError: ``not_found``, what ``change`` raises, or ``storage_unavailable``,
            with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._keys.get(name)
            if key is None:
                raise GatewayError("not_found", f'there is no managed key named "{name}"')
            new = change(key)
            if new != key:
                await self._replace({**self._keys, name: new})
        finally:
            self._turn.release()
        return new

    async def delete(self, name: str) -> GatewayKey:
        """Take a key away; what it spent stays in the ledger, under its hash.

        :raises GatewayError: ``not_found``, or ``storage_unavailable`` with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._keys.get(name)
            if key is None:
                raise GatewayError("not_found", f'there is no managed key named "{name}"')
            await self._replace({n: k for n, k in self._keys.items() if n != name})
        finally:
            self._turn.release()
        return key

    async def _replace(self, keys: dict[str, GatewayKey]) -> None:
        """Replace the file, then the table."""
        rows = tuple(keys.values())
        try:
            # Ten thousand keys take a while to encode, so that is done over there too.
            await self._writer.submit(lambda: replace_file(self.path, _encode_file(rows)))
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            raise GatewayError(
                "storage_unavailable",
                "the keys could not be written, so nothing was changed; look at the control "
                "plane's disk",
                detail=f"{self.path}: {error}",
            ) from None
        self._keys = keys
        self.revision += 1


def _encode_file(keys: Iterable[GatewayKey]) -> bytes:
    """Return ``keys.json``, one key a line, so that people can read and compare it."""
    rows = [_row_of_key(key) for key in keys]
    return b'{"version": %d, "keys": [%s]}\n' % (
        FILE_VERSION,
        b",".join(b"\n  " + row for row in rows),
    )


def _row_of_key(key: GatewayKey) -> bytes:
    row: dict[str, Any] = {"name": key.name, "sha256": key.sha256, "created_ms": key.created_ms}
    row |= {"rpm": key.rpm, "models": key.models, "max_concurrent": key.max_concurrent}
    if key.budget_nano is not None:
        row["budget_usd"] = msgspec.Raw(usd(key.budget_nano).encode("ascii"))
    if key.soft_budget_nano is not None:
        row["soft_budget_usd"] = msgspec.Raw(usd(key.soft_budget_nano).encode("ascii"))
    if key.has_budget:
        row["budget_period"] = key.budget_period
        if key.budget_timezone != UTC:
            row["budget_timezone"] = key.budget_timezone
    return msgspec.json.encode(row)


def _decode_file(path: str, data: bytes) -> dict[str, GatewayKey]:
    """Read the bytes of ``keys.json`` strictly."""
    try:
        document = read_json(data)
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, int) and version > FILE_VERSION:
            raise KeysFileError(
                f"{path}: has format {version}, and this version reads {FILE_VERSION}; start the "
                "newer version that wrote it"
            )
        if version != FILE_VERSION or set(document) != {"version", "keys"}:
            raise StrictJsonError("is no key file")
        if not isinstance(document["keys"], list):
            raise StrictJsonError("holds no list of keys")
        keys = [_key_of_row(row) for row in document["keys"]]
        for attribute in ("name", "sha256"):
            if len({getattr(key, attribute) for key in keys}) != len(keys):
                raise StrictJsonError("holds a key twice")
    except (StrictJsonError, GatewayError) as error:
        raise KeysFileError(f"{path}: {error}; {_REMEDY}") from None
    return {key.name: key for key in keys}


def _key_of_row(row: object) -> GatewayKey:
    members = read_members(row, _ROW_FIELDS, ("name", "sha256", "created_ms"))
    return GatewayKey(**members, source="managed")


def file_key(resolved: ResolvedKey) -> GatewayKey:
    """Return a key of the config, as the control plane keeps all keys."""
    config = resolved.config
    return GatewayKey(
        name=config.name,
        sha256=resolved.sha256,
        source="file",
        rpm=config.rpm,
        models=config.models,
        max_concurrent=config.max_concurrent,
        budget_nano=config.budget_nano,
        budget_period=config.budget_period,
        budget_timezone=config.budget_timezone,
        soft_budget_nano=config.soft_budget_nano,
    )


class KeyBook:
    """File keys and managed keys as one list, each secret in it once."""

    def __init__(self, managed: KeyStore, file_keys: Iterable[ResolvedKey] = ()) -> None:
        self.managed = managed
        self._file_keys: tuple[GatewayKey, ...] = ()
        self._installs = 0
        self._all: tuple[tuple[int, int], tuple[GatewayKey, ...]] = ((-1, -1), ())
        self.install(file_keys)

    @property
    def revision(self) -> tuple[int, int]:
        """Another value after every change of any key."""
        return self._installs, self.managed.revision

    def install(self, file_keys: Iterable[ResolvedKey]) -> None:
        """Replace the file keys by those of a new config.

        A key that is as it was stays the same object, so that others see at a glance what is new.
        """
        known = {key: key for key in self._file_keys}
        keys = (file_key(resolved) for resolved in file_keys)
        self._file_keys = tuple(known.get(key, key) for key in keys)
        self._installs += 1

    def keys(self) -> tuple[GatewayKey, ...]:
        """Return all keys; the same tuple until one of them changes."""
        revision = self.revision
        if self._all[0] != revision:
            of_file = {key.sha256 for key in self._file_keys}
            managed = (key for key in self.managed if key.sha256 not in of_file)
            self._all = revision, (*self._file_keys, *managed)
        return self._all[1]

    def __iter__(self) -> Iterator[GatewayKey]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def get(self, name: str) -> GatewayKey | None:
        """Return the key of that name, of either kind."""
        for key in self._file_keys:
            if key.name == name:
                return key
        return self.managed.get(name)

    def is_file_key(self, name: str) -> bool:
        """Tell whether the config has a key of that name."""
        return any(key.name == name for key in self._file_keys)

    def names_by_hash(self) -> dict[str, str]:
        """Return the name for every hash, for whoever shows a row of the ledger to a person."""
        return {digest: key.name for key in self for digest in key.hashes}

    def clashes(self) -> list[Fault]:
        """Find file keys with the name or the secret of a managed key.

        A start is refused for them. In a config that is reloaded both keys go on working, and the
        operator is told; which of two keys of one name a person means cannot be known.
        """
        hashes = {key.sha256: key.name for key in self.managed}
        faults = []
        for index, key in enumerate(self._file_keys):
            if self.managed.get(key.name) is not None:
                message = "a managed key has this name too; rename one of them"
                faults.append(Fault(f"keys[{index}].name", message))
            elif key.sha256 in hashes:
                message = f"is the same secret as the managed key {hashes[key.sha256]}"
                faults.append(Fault(f"keys[{index}]", message))
        return faults
