"""The admin keys that there are: in memory to be looked up, and on the disk as hashes.

The admin token is none of them and always works, so that nobody is locked out by this file.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from twisted.internet.defer import DeferredLock
from twisted.python.failure import Failure

from omnigate.control.admin_key import PREFIX, AdminKey, rotated
from omnigate.control.admin_key_file import (
    MAX_FILE_BYTES,
    REMEDY,
    AdminKeysFileError,
    decode_admin_keys,
    encode_admin_keys,
)
from omnigate.control.admin_key_members import changed, read_new
from omnigate.control.key_secret import is_well_formed, new_secret, sha256_hex
from omnigate.control.whole_file import replace_or_undo
from omnigate.errors import GatewayError
from omnigate.files import IWriter, WriterBusyError, WriterStoppedError, read_file

#: A credential for each person and program of a large company.
MAX_ADMIN_KEYS: Final = 1_000

#: Told of a key as a change will leave it (of one that goes, as it was), once all was judged and
#: before anything is written. If it raises, nothing is changed.
Witness = Callable[[AdminKey], Awaitable[None]]


async def unwitnessed(key: AdminKey) -> None:
    """Let a change pass that nobody has to be told of."""


class AdminKeyStore:
    """The admin keys in memory, and ``admin_keys.json``, which always says the same.

    A change is written and synced before it is visible. One change runs at a time, so one that
    fails on disk leaves both as they were.

    :ivar name: what the log calls it.
    """

    name = "admin keys"

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str] = lambda: new_secret(prefix=PREFIX),
        crashed: Callable[[str, Failure], None] = lambda name, failure: None,
    ) -> None:
        """Prepare; nothing is read yet.

        :param crashed: called with the name and what broke where there is no answer for it.
        """
        self.path = path
        self._writer = writer
        self._now_ms = now_ms
        self._make_secret = make_secret
        self._crashed = crashed
        self._keys: dict[str, AdminKey] = {}
        # The hash of each secret, and until when it opens its key; 0 for as long as there is one.
        self._by_hash: dict[str, tuple[AdminKey, int]] = {}
        self._turn = DeferredLock()
        self._open = False
        self._closed = False

    # -- its life -----------------------------------------------------------------------------

    def read(self) -> dict[str, AdminKey]:
        """Return the keys of the file by name; no file is none. It blocks.

        :raises AdminKeysFileError: the file is there and cannot be used.
        """
        try:
            data = read_file(self.path, MAX_FILE_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise AdminKeysFileError(f"{self.path}: {error.strerror}; {REMEDY}") from None
            raise AdminKeysFileError(
                f"{self.path}: cannot be read ({error.strerror}); let this process read it"
            ) from None
        return {} if data is None else decode_admin_keys(self.path, data)

    def load(self) -> None:
        """Read the file and take over what is in it, all in the caller's thread.

        :raises AdminKeysFileError: the file is there and cannot be used.
        """
        self._take_over(self.read())

    async def open(self) -> None:
        """Read the file in the writer's thread, and take over what is in it.

        :raises AdminKeysFileError: the file is there and cannot be used.
        """
        self._take_over(await self._writer.submit(self.read))

    def _take_over(self, keys: dict[str, AdminKey]) -> None:
        self._keys = keys
        self._by_hash = {
            digest: (key, until_ms)
            for key in keys.values()
            for digest, until_ms in (
                (key.sha256, 0),
                *((secret.sha256, secret.until_ms) for secret in key.earlier),
            )
        }
        self._open = True

    async def close(self) -> None:
        """Let the changes that are waited for end, and take no more."""
        await self._turn.acquire()
        self._closed = True
        self._turn.release()

    def abandon(self) -> None:
        """Take no more changes, write none that has not been begun, and open nothing any more."""
        self._closed = True
        self._open = False

    # -- the keys -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[AdminKey]:
        return iter(self._keys.values())

    def get(self, name: str) -> AdminKey | None:
        """Return the key of that name."""
        return self._keys.get(name)

    def find(self, secret: str, address: str) -> tuple[AdminKey, str] | None:
        """Return the key that a secret belongs to, and why it does not open it, or ``""``.

        What is no admin key by its form is not looked up. A secret has 256 random bits, so that how
        long the look-up of its hash takes tells nothing about any other.

        :param address: where the caller is.
        :raises GatewayError: ``not_ready``: the keys are not loaded.
        """
        if not is_well_formed(secret, PREFIX):
            return None
        if not self._open:
            raise GatewayError("not_ready", "the admin keys are being loaded", retry_after=1)
        found = self._by_hash.get(sha256_hex(secret))
        now_ms = self._now_ms()
        if found is None or 0 < found[1] <= now_ms:
            return None
        return found[0], found[0].closed(address, now_ms)

    def _existing(self, name: str) -> AdminKey:
        key = self._keys.get(name)
        if key is None:
            raise GatewayError("not_found", f'there is no admin key named "{name}"')
        return key

    # -- changes ------------------------------------------------------------------------------

    async def create(self, body: object, witness: Witness = unwitnessed) -> tuple[AdminKey, str]:
        """Make a key and write it down.

        :param body: the decoded body of the request.
        :return: the key, and its secret, which nobody can read again.
        :raises GatewayError: ``invalid_request``, ``already_exists``, ``conflict``, or
            ``storage_unavailable`` with nothing changed; and what ``witness`` raises.
        """
        members = read_new(body)
        await self._turn.acquire()
        try:
            name = members["name"]
            if name in self._keys:
                raise GatewayError(
                    "already_exists", f'there is an admin key named "{name}"; take another name'
                )
            if len(self._keys) >= MAX_ADMIN_KEYS:
                raise GatewayError(
                    "conflict", f"there are {MAX_ADMIN_KEYS} admin keys; delete one first"
                )
            secret = self._make_secret()
            key = AdminKey(**members, sha256=sha256_hex(secret), created_ms=self._now_ms())
            await self._replace({**self._keys, name: key}, key, witness)
        finally:
            self._turn.release()
        return key, secret

    async def change(self, name: str, body: object, witness: Witness = unwitnessed) -> AdminKey:
        """Change what a key may do, from where and until when; its secrets stay.

        Where nothing changes, nothing is written, and there is nothing to witness.

        :raises GatewayError: ``not_found``, ``invalid_request``, what ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            new = changed(key, body)
            if new != key:
                await self._replace({**self._keys, name: new}, new, witness)
        finally:
            self._turn.release()
        return new

    async def rotate(
        self, name: str, grace_s: int, witness: Witness = unwitnessed
    ) -> tuple[AdminKey, str]:
        """Give a key a new secret; the one before it works on for the grace.

        :param grace_s: in seconds; with 0 no older secret works any more.
        :return: the key, and its new secret, which nobody can read again.
        :raises GatewayError: ``not_found``, ``conflict``, what ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """
        await self._turn.acquire()
        try:
            secret = self._make_secret()
            new = rotated(self._existing(name), sha256_hex(secret), self._now_ms(), grace_s)
            await self._replace({**self._keys, name: new}, new, witness)
        finally:
            self._turn.release()
        return new, secret

    async def delete(self, name: str, witness: Witness = unwitnessed) -> AdminKey:
        """Take a key away.

        :raises GatewayError: ``not_found``, what ``witness`` raises, or ``storage_unavailable``
            with nothing changed.
        """
        await self._turn.acquire()
        try:
            key = self._existing(name)
            rest = {other: kept for other, kept in self._keys.items() if other != name}
            await self._replace(rest, key, witness)
        finally:
            self._turn.release()
        return key

    async def _replace(self, keys: dict[str, AdminKey], key: AdminKey, witness: Witness) -> None:
        """Have the change of ``key`` witnessed; replace the file, then the table."""
        await witness(key)
        rows, before = tuple(keys.values()), tuple(self._keys.values())
        try:
            await self._writer.submit(lambda: self._write(rows, before))
        except (OSError, WriterBusyError, WriterStoppedError) as error:
            raise GatewayError(
                "storage_unavailable",
                "the admin keys could not be written, so nothing was changed; look at the control "
                "plane's disk",
                detail=f"{self.path}: {error}",
            ) from None
        except Exception:
            # No answer of a disk, or one that leaves the file in doubt: what is in memory cannot
            # be trusted either.
            self._crashed(self.name, Failure())
            raise
        self._take_over(keys)

    def _write(self, rows: Iterable[AdminKey], before: Iterable[AdminKey]) -> None:
        """Write the file, in the writer's thread."""
        if self._closed:
            raise WriterStoppedError("the file of admin keys is closed")
        replace_or_undo(self.path, encode_admin_keys(rows), encode_admin_keys(before))
