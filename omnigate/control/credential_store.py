"""The keys of one kind in memory, and their file, which always says the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import ClassVar, Final, Generic, TypeVar

import attrs
from twisted.internet.defer import DeferredLock
from twisted.python.failure import Failure

from omnigate.control.credential import Credential
from omnigate.control.credential_file import CredentialFile
from omnigate.control.key_secret import sha256_hex
from omnigate.control.whole_file import replace_or_undo
from omnigate.errors import GatewayError
from omnigate.files import remove_leftovers
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

C = TypeVar("C", bound=Credential)

#: Told of a key as a change will leave it (of one that goes, as it was), once all was judged and
#: before anything is written. If it raises, nothing is changed.
Witness = Callable[[C], Awaitable[None]]


async def unwitnessed(key: Credential) -> None:
    """Let a change pass that nobody has to be told of."""


class CredentialStore(Generic[C]):
    """What the stores of gateway keys and of admin keys have in common.

    A change is written and synced before it is visible. One change runs at a time, so one that
    fails on disk leaves both as they were.

    :cvar name: what the log calls it, and messages its keys.
    :cvar noun: what a message calls one of its keys.
    :cvar most: how many keys there may be.
    :cvar most_list_bytes: how long the lists of all of them may be together, in bytes.
    :ivar now_ms: the time by which keys expire and graces end.
    :ivar revision: another number after every change.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    most: ClassVar[int]
    most_list_bytes: ClassVar[int] = 0

    def __init__(
        self,
        path: str,
        kind: CredentialFile[C],
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str],
        crashed: Callable[[str, Failure], None],
    ) -> None:
        """Prepare; nothing is read yet.

        :param kind: how the file is read and written.
        :param writer: the thread that does all its disk work.
        :param crashed: called with the name and what broke where there is no answer for it.
        """
        self.path: Final = path
        self.now_ms: Final = now_ms
        self.revision = 0
        self.is_open = False
        self._kind = kind
        self._writer = writer
        self._make_secret = make_secret
        self._crashed = crashed
        self._keys: dict[str, C] = {}
        # Whose each hash is, by the key's name; all of :attr:`Credential.own_hashes`.
        self._owners: dict[str, str] = {}
        self._list_bytes = 0
        self._turn = DeferredLock()
        self._closed = False

    # -- its life -----------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file and take over what is in it, all in the caller's thread.

        :raises Exception: the fault of its kind: the file is there and cannot be used.
        """
        self._begin_with(*self._read())

    async def open(self) -> None:
        """Read the file in the writer's thread, and take over what is in it.

        What :meth:`load` has read is not read again: nobody else writes the file.

        :raises Exception: the fault of its kind: the file is there and cannot be used.
        """
        await self._writer.submit(lambda: remove_leftovers(self.path))
        if not self.is_open:
            self._begin_with(*await self._writer.submit(self._read))

    def _read(self) -> tuple[dict[str, C], dict[str, str], int]:
        keys = self._kind.read(self.path)
        owners = {digest: key.name for key in keys.values() for digest in key.own_hashes}
        return keys, owners, sum(key.list_bytes for key in keys.values())

    def _begin_with(self, keys: dict[str, C], owners: dict[str, str], list_bytes: int) -> None:
        self._keys, self._owners, self._list_bytes = keys, owners, list_bytes
        self.revision += 1
        self.is_open = not self._closed

    async def close(self) -> None:
        """Let the changes that are waited for end, and take no more."""
        await self._turn.acquire()
        self._closed = True
        self._turn.release()

    def abandon(self) -> None:
        """Take no more changes, and write none that has not been begun."""
        self._closed = True
        self.is_open = False

    # -- the keys -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[C]:
        return iter(self._keys.values())

    def get(self, name: str) -> C | None:
        """Return the key of that name."""
        return self._keys.get(name)

    def owner(self, sha256: str) -> C | None:
        """Return the key that a hash is one of, whether or not it opens anything."""
        name = self._owners.get(sha256)
        return None if name is None else self._keys[name]

    def _existing(self, name: str) -> C:
        key = self._keys.get(name)
        if key is None:
            raise GatewayError("not_found", f'there is no {self.noun} named "{name}"')
        return key

    # -- changes ------------------------------------------------------------------------------

    async def _create(
        self, name: str, make: Callable[[str], C], witness: Witness[C], taken: Callable[[str], bool]
    ) -> tuple[C, str]:
        """Make a key and write it down.

        :param make: makes it of the hash of its secret.
        :param taken: tells whether a name cannot be had for another reason.
        """
        await self._turn.acquire()
        try:
            if name in self._keys or taken(name):
                raise GatewayError("already_exists", f'the name "{name}" is taken; take another')
            if len(self._keys) >= self.most:
                raise GatewayError(
                    "conflict", f"there are {self.most} {self.noun}s; delete one first"
                )
            secret = self._make_secret()
            key = make(sha256_hex(secret))
            self._check_room(key.list_bytes)
            await self._replace(None, key, witness)
        finally:
            self._turn.release()
        return key, secret

    async def change(
        self, name: str, change: Callable[[C], C], witness: Witness[C] = unwitnessed
    ) -> C:
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
                await self._replace(key, new, witness)
        finally:
            self._turn.release()
        return new

    async def _rotate(
        self, name: str, rotated: Callable[[C, str, int], C], witness: Witness[C]
    ) -> tuple[C, str]:
        """Give a key a new secret.

        :param rotated: makes it of the key before, the hash of the new secret, and the time.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            secret = self._make_secret()
            new = rotated(key, sha256_hex(secret), self.now_ms())
            await self._replace(key, new, witness)
        finally:
            self._turn.release()
        return new, secret

    async def delete(self, name: str, witness: Witness[C] = unwitnessed) -> C:
        """Take a key away.

        :raises GatewayError: ``not_found``, what ``witness`` raises, or ``storage_unavailable``
            with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            await self._replace(key, None, witness)
        finally:
            self._turn.release()
        return key

    def _check_room(self, more: int) -> None:
        """Refuse longer lists for which there is no room; shorter ones always find it.

        :raises GatewayError: ``conflict``.
        """
        if more > 0 and self._list_bytes + more > self.most_list_bytes:
            raise GatewayError(
                "conflict",
                f"the lists of models, addresses and recipients of all {self.noun}s would come to "
                f"more than {self.most_list_bytes} bytes; write prefixes and networks that hold "
                "many, or delete keys first",
            )

    async def _replace(self, old: C | None, new: C | None, witness: Witness[C]) -> None:
        """Have a change witnessed; replace the file, then the table.

        :param old: the key that goes or is changed, if there is one.
        :param new: the key that comes, if one does.
        """
        changed = new or old
        assert changed is not None
        await witness(changed)
        keys = {**self._keys, changed.name: changed}
        if new is None:
            del keys[changed.name]
        rows, before = tuple(keys.values()), tuple(self._keys.values())
        try:
            # Ten thousand keys take a while to encode, so that is done over there too.
            await self._writer.submit(lambda: self._write(rows, before))
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            raise GatewayError(
                "storage_unavailable",
                f"the {self.name} could not be written, so nothing was changed; look at the "
                "control plane's disk",
                detail=f"{self.path}: {error}",
            ) from None
        except Exception:
            # No answer of a disk, or one that leaves the file in doubt: what is in memory cannot
            # be trusted either.
            self._crashed(self.name, Failure())
            raise
        self._keys = keys
        if old is not None:
            self._list_bytes -= old.list_bytes
            for digest in old.own_hashes:
                del self._owners[digest]
        if new is not None:
            self._list_bytes += new.list_bytes
            self._owners.update(dict.fromkeys(new.own_hashes, new.name))
        self.revision += 1

    def _write(self, rows: Iterable[C], before: Iterable[C]) -> None:
        """Write the file, in the writer's thread."""
        if self._closed:
            raise WriterStoppedError(f"the file of {self.name} is closed")
        replace_or_undo(self.path, self._kind.encode(rows), self._kind.encode(before))
