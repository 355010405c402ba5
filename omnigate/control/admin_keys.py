"""The admin keys that there are: in memory to be looked up, and on the disk as hashes.

The admin token is none of them and always works, so that nobody is locked out by this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.python.failure import Failure

from omnigate.control.admin_key import PREFIX, AdminKey, rotated
from omnigate.control.admin_key_file import ADMIN_KEYS_FILE
from omnigate.control.admin_key_members import read_new
from omnigate.control.credential_store import CredentialStore, Witness, unwitnessed
from omnigate.control.key_secret import is_well_formed, new_secret, sha256_hex
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter

#: A credential for each person and program of a large company.
MAX_ADMIN_KEYS: Final = 1_000


class AdminKeyStore(CredentialStore[AdminKey]):
    """The admin keys in memory, and ``admin_keys.json``."""

    name = "admin keys"
    noun = "admin key"
    most = MAX_ADMIN_KEYS

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str] = lambda: new_secret(prefix=PREFIX),
        crashed: Callable[[str, Failure], None] = lambda name, failure: None,
    ) -> None:
        super().__init__(path, ADMIN_KEYS_FILE, writer, now_ms, make_secret, crashed)

    def find(self, secret: str, address: str) -> tuple[AdminKey, str] | None:
        """Return the key that a secret belongs to, and why it does not open it, or ``""``.

        What is no admin key by its form is not looked up. A secret has 256 random bits, so that how
        long the look-up of its hash takes tells nothing about any other.

        :param address: where the caller is.
        :raises GatewayError: ``not_ready``: the keys are not loaded.
        """
        if not is_well_formed(secret, PREFIX):
            return None
        return self.shown(sha256_hex(secret), address)

    def shown(self, sha256: str, address: str) -> tuple[AdminKey, str] | None:
        """Return the key that a secret of this hash belongs to, and why it does not open it.

        :raises GatewayError: ``not_ready``: the keys are not loaded.
        """
        if not self.is_open:
            raise GatewayError("not_ready", "the admin keys are being loaded", retry_after=1)
        now_ms = self.now_ms()
        key = self.owner(sha256)
        if key is None:
            return None
        if sha256 != key.sha256 and all(sha256 != old.sha256 for old in key.in_grace(now_ms)):
            return None
        return key, key.closed(address, now_ms)

    async def create(
        self, body: object, witness: Witness[AdminKey] = unwitnessed
    ) -> tuple[AdminKey, str]:
        """Make a key and write it down.

        :param body: the decoded body of the request.
        :return: the key, and its secret, which nobody can read again.
        :raises GatewayError: ``invalid_request``, ``already_exists``, ``conflict``, or
            ``storage_unavailable`` with nothing changed; and what ``witness`` raises.
        """
        members = read_new(body)

        def make(sha256: str) -> AdminKey:
            return AdminKey(**members, sha256=sha256, created_ms=self.now_ms())

        return await self._create(members["name"], make, witness, lambda name: False)

    async def rotate(
        self,
        name: str,
        grace_s: int,
        witness: Witness[AdminKey] = unwitnessed,
        check: Callable[[AdminKey], None] = lambda key: None,
    ) -> tuple[AdminKey, str]:
        """Give a key a new secret; the one before it works on for the grace.

        :param grace_s: in seconds; with 0 no older secret works any more.
        :param check: looks at the key before, and raises where it is not as was thought.
        :return: the key, and its new secret, which nobody can read again.
        :raises GatewayError: ``not_found``, ``conflict``, what ``check`` or ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """

        def make(key: AdminKey, sha256: str, now_ms: int) -> AdminKey:
            check(key)
            return rotated(key, sha256, now_ms, grace_s)

        return await self._rotate(name, make, witness)
