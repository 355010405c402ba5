"""Gateway keys as the control plane keeps them: managed keys on disk, file keys beside them.

A managed key is made here, shown once and kept only as its SHA-256. ``keys.json``
(:mod:`omnigate.control.key_file`) holds all managed keys and is replaced whole on every change,
before the caller is answered.

File keys come out of the config. Both kinds end up in one :class:`KeyBook`, behind which nobody
can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs
from twisted.python.failure import Failure

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.structure import Fault
from omnigate.control.credential_store import CredentialStore, Witness, unwitnessed
from omnigate.control.gateway_key import MANAGED, GatewayKey, file_key, rotated
from omnigate.control.key_file import KEYS_FILE
from omnigate.control.key_members import FIELDS, read_members
from omnigate.control.key_secret import new_secret
from omnigate.control.webhook_secret import new_webhook_secret, renewed
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter

#: The file is rewritten whole, and the key list travels whole in every changed snapshot: ten
#: thousand keys are about 3 MB of both, which a poll still carries without anybody noticing.
MAX_MANAGED_KEYS: Final = 10_000

#: Lists of models and addresses of all managed keys together: a kilobyte for each of ten thousand.
#: What else there is of so many keys is 13 MiB at most, and a config of 4 MiB becomes 8, so that no
#: snapshot grows beyond what data planes take, nor ``keys.json`` beyond what a start reads.
MAX_LIST_BYTES: Final = 10 * 1024 * 1024


class KeyStore(CredentialStore[GatewayKey]):
    """The managed keys in memory, and ``keys.json``."""

    name = "keys"
    noun = "managed key"
    most = MAX_MANAGED_KEYS
    most_list_bytes = MAX_LIST_BYTES

    def __init__(
        self,
        path: str,
        writer: IWriter,
        now_ms: Callable[[], int],
        make_secret: Callable[[], str] = new_secret,
        crashed: Callable[[str, Failure], None] = lambda name, failure: None,
    ) -> None:
        super().__init__(path, KEYS_FILE, writer, now_ms, make_secret, crashed)

    async def create(
        self,
        body: object,
        taken: Callable[[str], bool],
        witness: Witness[GatewayKey] = unwitnessed,
    ) -> tuple[GatewayKey, str]:
        """Make a key and write it down.

        :param body: the decoded body of the request.
        :param taken: tells whether a file key has a name.
        :return: the key, and its secret, which nobody can read again.
        :raises GatewayError: ``invalid_request``, ``already_exists``, ``conflict``, or
            ``storage_unavailable`` with nothing changed; and what ``witness`` raises.
        """
        members = read_members(body, FIELDS, ("name",))

        def make(sha256: str) -> GatewayKey:
            return GatewayKey(**members, sha256=sha256, source=MANAGED, created_ms=self.now_ms())

        return await self._create(members["name"], make, witness, taken)

    async def rotate(
        self,
        name: str,
        grace_s: int,
        witness: Witness[GatewayKey] = unwitnessed,
        check: Callable[[GatewayKey], None] = lambda key: None,
    ) -> tuple[GatewayKey, str]:
        """Give a key a new secret; the one before it works on for the grace.

        :param grace_s: in seconds; with 0 no older secret works any more.
        :param check: given the key as it is, before anything; what it raises is raised.
        :return: the key, and its new secret, which nobody can read again.
        :raises GatewayError: ``not_found``, ``conflict`` (see
            :func:`~omnigate.control.gateway_key.rotated`), what ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """

        def rotate(key: GatewayKey, sha256: str, now_ms: int) -> GatewayKey:
            check(key)
            return rotated(key, sha256, now_ms, grace_s)

        return await self._rotate(name, rotate, witness)

    async def renew_webhook_secret(
        self,
        name: str,
        grace_s: int,
        witness: Witness[GatewayKey] = unwitnessed,
        check: Callable[[GatewayKey], None] = lambda key: None,
    ) -> tuple[GatewayKey, str]:
        """Give the webhooks of a key's jobs a new secret; those before sign too for the grace.

        :param grace_s: in seconds; with 0 only the new one signs.
        :param check: given the key as it is, before anything; what it raises is raised.
        :return: the key, and its new webhook secret, which is told this once.
        :raises GatewayError: ``not_found``, ``conflict`` (see
            :func:`~omnigate.control.webhook_secret.renewed`), what ``witness`` raises, or
            ``storage_unavailable``, with nothing changed.
        """
        secret = new_webhook_secret()

        def renew(key: GatewayKey) -> GatewayKey:
            check(key)
            signing = renewed(name, key.signing, secret, self.now_ms(), grace_s)
            return attrs.evolve(key, signing=signing)

        return await self.change(name, renew, witness), secret

    async def delete_webhook_secret(
        self, name: str, witness: Witness[GatewayKey] = unwitnessed
    ) -> GatewayKey:
        """Have no webhook of a key's jobs signed any more; return the key.

        :raises GatewayError: ``not_found``, also where there is no such secret, what ``witness``
            raises, or ``storage_unavailable``, with nothing changed.
        """

        def drop(key: GatewayKey) -> GatewayKey:
            if not key.signing:
                raise GatewayError("not_found", f'the key "{name}" has no webhook secret')
            return attrs.evolve(key, signing=())

        return await self.change(name, drop, witness)


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
        self._of_file: dict[str, GatewayKey] | None = None
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
        self._of_file = None
        self._installs += 1

    def owner(self, sha256: str) -> GatewayKey | None:
        """Return the key of a hash, which may be of an earlier secret of a managed one."""
        if self._of_file is None:
            self._of_file = {key.sha256: key for key in self._file_keys}
        managed = self.managed.owner(sha256)
        of_file = self._of_file.get(sha256)
        return of_file if managed is None or (of_file and not managed.is_rotated) else managed

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
