"""Gateway keys as the control plane keeps them: managed keys on disk, file keys beside them.

A managed key is made here, shown once and kept only as its SHA-256. ``keys.json``
(:mod:`omnigate.control.key_file`) holds all managed keys and is replaced whole on every change,
before the caller is answered.

File keys come out of the config. Both kinds end up in one :class:`KeyBook`, behind which nobody
can tell them apart.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock
from twisted.python.failure import Failure

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.structure import Fault
from omnigate.control.gateway_key import MANAGED, GatewayKey, file_key, rotated
from omnigate.control.key_file import (
    MAX_FILE_BYTES,
    REMEDY,
    KeysFileError,
    decode_keys,
    encode_keys,
)
from omnigate.control.key_members import FIELDS, read_members
from omnigate.control.key_secret import new_secret, sha256_hex
from omnigate.control.whole_file import replace_or_undo
from omnigate.errors import GatewayError
from omnigate.files import IWriter, WriterBusyError, WriterStoppedError, read_file

#: The file is rewritten whole, and the key list travels whole in every changed snapshot: ten
#: thousand keys are about 3 MB of both, which a poll still carries without anybody noticing.
MAX_MANAGED_KEYS: Final = 10_000

#: Lists of models and addresses of all managed keys together: a kilobyte for each of ten thousand.
#: What else there is of so many keys is 13 MiB at most, and a config of 4 MiB becomes 8, so that no
#: snapshot grows beyond what data planes take, nor ``keys.json`` beyond what a start reads.
MAX_LIST_BYTES: Final = 10 * 1024 * 1024

#: Told of a key as a change will leave it (of one that goes, as it was), once all was judged and
#: before anything is written. If it raises, nothing is changed.
Witness = Callable[[GatewayKey], Awaitable[None]]


async def unwitnessed(key: GatewayKey) -> None:
    """Let a change pass that nobody has to be told of."""


class KeyStore:
    """The managed keys in memory, and ``keys.json``, which always says the same.

    A change is written and synced before it is visible. One change runs at a time, so one that
    fails on disk leaves both as they were.

    :ivar name: what the log calls it.
    :ivar now_ms: the time by which keys expire and graces end.
    :ivar revision: another number after every change.
    """

    name = "keys"

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str] = new_secret,
        crashed: Callable[[str, Failure], None] = lambda name, failure: None,
    ) -> None:
        """Prepare; nothing is read yet.

        :param crashed: called with the name and what broke where there is no answer for it.
        """
        self.path = path
        self._writer = writer
        self.now_ms = now_ms
        self._make_secret = make_secret
        self._crashed = crashed
        self._keys: dict[str, GatewayKey] = {}
        # Whose each hash is, by the key's name; all of :attr:`GatewayKey.own_hashes`.
        self._owners: dict[str, str] = {}
        self._list_bytes = 0
        self._turn = DeferredLock()
        self._closed = False
        self.revision = 0

    # -- its life -----------------------------------------------------------------------------

    def read(self) -> dict[str, GatewayKey]:
        """Return the managed keys of ``keys.json`` by name; no file is none. It blocks.

        :raises KeysFileError: the file is there and cannot be used.
        """
        try:
            data = read_file(self.path, MAX_FILE_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise KeysFileError(f"{self.path}: {error.strerror}; {REMEDY}") from None
            raise KeysFileError(
                f"{self.path}: cannot be read ({error.strerror}); let this process read it"
            ) from None
        return {} if data is None else decode_keys(self.path, data)

    def load(self) -> None:
        """Read the file and take over what is in it, all in the caller's thread.

        :raises KeysFileError: the file is there and cannot be used.
        """
        self._begin_with(*self._read_all())

    async def open(self) -> None:
        """Read the file in the writer's thread, and take over what is in it.

        :raises KeysFileError: the file is there and cannot be used.
        """
        self._begin_with(*await self._writer.submit(self._read_all))

    def _read_all(self) -> tuple[dict[str, GatewayKey], dict[str, str], int]:
        keys = self.read()
        owners = {digest: key.name for key in keys.values() for digest in key.own_hashes}
        return keys, owners, sum(key.list_bytes for key in keys.values())

    def _begin_with(
        self, keys: dict[str, GatewayKey], owners: dict[str, str], list_bytes: int
    ) -> None:
        self._keys, self._owners, self._list_bytes = keys, owners, list_bytes
        self.revision += 1

    async def close(self) -> None:
        """Let the changes that are waited for end, and take no more."""
        await self._turn.acquire()
        self._closed = True
        self._turn.release()

    def abandon(self) -> None:
        """Take no more changes, and write none that has not been begun."""
        self._closed = True

    # -- the keys -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[GatewayKey]:
        return iter(self._keys.values())

    def get(self, name: str) -> GatewayKey | None:
        """Return the managed key of that name."""
        return self._keys.get(name)

    def owner(self, sha256: str) -> GatewayKey | None:
        """Return the managed key that a hash is the identity or a secret of."""
        name = self._owners.get(sha256)
        return None if name is None else self._keys[name]

    def _existing(self, name: str) -> GatewayKey:
        key = self._keys.get(name)
        if key is None:
            raise GatewayError("not_found", f'there is no managed key named "{name}"')
        return key

    # -- changes ------------------------------------------------------------------------------

    async def create(
        self, body: object, taken: Callable[[str], bool], witness: Witness = unwitnessed
    ) -> tuple[GatewayKey, str]:
        """Make a key and write it down.

        :param body: the decoded body of the request.
        :param taken: tells whether a file key has a name.
        :return: the key, and its secret, which nobody can read again.
        :raises GatewayError: ``invalid_request``, ``already_exists``, ``conflict``, or
            ``storage_unavailable`` with nothing changed; and what ``witness`` raises.
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
                **members, sha256=sha256_hex(secret), source=MANAGED, created_ms=self.now_ms()
            )
            self._check_room(key.list_bytes)
            await witness(key)
            await self._replace({**self._keys, name: key}, None, key)
        finally:
            self._turn.release()
        return key, secret

    async def change(
        self,
        name: str,
        change: Callable[[GatewayKey], GatewayKey],
        witness: Witness = unwitnessed,
    ) -> GatewayKey:
        """Replace a key by what ``change`` makes of it; its name and its secrets stay.

        Where that is the same key, nothing is written, and there is nothing to witness.

        :raises GatewayError: ``not_found``, ``conflict``, what ``change`` or ``witness`` raises,
            or ``storage_unavailable``, with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            new = change(key)
            if new != key:
                self._check_room(new.list_bytes - key.list_bytes)
                new = attrs.evolve(new, earlier=new.in_grace(self.now_ms()))
                await witness(new)
                await self._replace({**self._keys, name: new}, key, new)
        finally:
            self._turn.release()
        return new

    async def rotate(
        self, name: str, grace_s: int, witness: Witness = unwitnessed
    ) -> tuple[GatewayKey, str]:
        """Give a key a new secret; the one before it works on for the grace.

        :param grace_s: in seconds; with 0 no older secret works any more.
        :return: the key, and its new secret, which nobody can read again.
        :raises GatewayError: ``not_found``, ``conflict`` (see
            :func:`~omnigate.control.gateway_key.rotated`), what ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            secret = self._make_secret()
            new = rotated(key, sha256_hex(secret), self.now_ms(), grace_s)
            await witness(new)
            await self._replace({**self._keys, name: new}, key, new)
        finally:
            self._turn.release()
        return new, secret

    async def delete(self, name: str, witness: Witness = unwitnessed) -> GatewayKey:
        """Take a key away; what it spent stays in the ledger, under its identity.

        :raises GatewayError: ``not_found``, what ``witness`` raises, or ``storage_unavailable``
            with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            await witness(key)
            await self._replace({n: k for n, k in self._keys.items() if n != name}, key, None)
        finally:
            self._turn.release()
        return key

    def _check_room(self, more: int) -> None:
        """Refuse longer lists for which there is no room; shorter ones always find it.

        :raises GatewayError: ``conflict``.
        """
        if more > 0 and self._list_bytes + more > MAX_LIST_BYTES:
            raise GatewayError(
                "conflict",
                "the lists of models and addresses of all managed keys would come to more than "
                f"{MAX_LIST_BYTES} bytes; write prefixes and networks that hold many, or delete "
                "keys first",
            )

    async def _replace(
        self, keys: dict[str, GatewayKey], old: GatewayKey | None, new: GatewayKey | None
    ) -> None:
        """Replace the file, then the table.

        :param old: the key that goes, if one does.
        :param new: the key that comes, if one does.
        """
        rows, before = tuple(keys.values()), tuple(self._keys.values())
        try:
            # Ten thousand keys take a while to encode, so that is done over there too.
            await self._writer.submit(lambda: self._write(rows, before))
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            raise GatewayError(
                "storage_unavailable",
                "the keys could not be written, so nothing was changed; look at the control "
                "plane's disk",
                detail=f"{self.path}: {error}",
            ) from None
        except Exception:
            # No answer of a disk, or one that leaves the file in doubt: what is in memory cannot
            # be trusted either.
            self._crashed(self.name, Failure())
            raise
        self._keys = keys
        self._list_bytes -= 0 if old is None else old.list_bytes
        self._list_bytes += 0 if new is None else new.list_bytes
        for digest in () if old is None else old.own_hashes:
            del self._owners[digest]
        if new is not None:
            self._owners.update(dict.fromkeys(new.own_hashes, new.name))
        self.revision += 1

    def _write(self, rows: Iterable[GatewayKey], before: Iterable[GatewayKey]) -> None:
        """Write the file, in the writer's thread."""
        if self._closed:
            raise WriterStoppedError("the key file is closed")
        replace_or_undo(self.path, encode_keys(rows), encode_keys(before))


def made_keys(
    file_keys: Iterable[ResolvedKey], before: Iterable[GatewayKey]
) -> tuple[GatewayKey, ...]:
    """Return the keys of a config; those that are as they were before stay the same objects.

    Of ten thousand keys it takes 50 ms, so a thread does it where a config is read again.
    """
    known = {key.sha256: key for key in before}
    made = []
    for resolved in file_keys:
        key = file_key(resolved)
        old = known.get(key.sha256)
        made.append(old if old is not None and old == key else key)
    return tuple(made)


class KeyBook:
    """File keys and managed keys as one list, each hash in it once.

    Of a file key and a managed key with the same secret the file key counts. Where the managed one
    was rotated it has other secrets beside, so that then it counts.
    """

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
        self.take(made_keys(file_keys, self._file_keys))

    def take(self, file_keys: tuple[GatewayKey, ...]) -> None:
        """Replace the file keys by those that were made of a new config elsewhere."""
        self._file_keys = file_keys
        self._installs += 1

    def keys(self) -> tuple[GatewayKey, ...]:
        """Return all keys; the same tuple until one of them changes."""
        revision = self.revision
        if self._all[0] != revision:
            of_file, taken = [], set()
            for key in self._file_keys:
                owner = self.managed.owner(key.sha256)
                if owner is None or not owner.is_rotated:
                    of_file.append(key)
                if owner is not None and not owner.is_rotated:
                    taken.add(owner.name)
            managed: Iterable[GatewayKey] = self.managed
            if taken:
                managed = (key for key in managed if key.name not in taken)
            self._all = revision, (*of_file, *managed)
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
        faults = []
        for index, key in enumerate(self._file_keys):
            owner = self.managed.owner(key.sha256)
            if self.managed.get(key.name) is not None:
                message = "a managed key has this name too; rename one of them"
                faults.append(Fault(f"keys[{index}].name", message))
            elif owner is not None and owner.is_rotated:
                message = (
                    f"is the same secret as one that the managed key {owner.name} has, or had "
                    "before it was rotated; make a new one"
                )
                faults.append(Fault(f"keys[{index}]", message))
            elif owner is not None:
                message = f"is the same secret as the managed key {owner.name}"
                faults.append(Fault(f"keys[{index}]", message))
        return faults
