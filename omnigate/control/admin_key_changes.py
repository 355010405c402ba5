"""Changes of admin keys, and the audit log told of each.

Whoever takes a wish of an operator, as JSON or as a form, comes here with it.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigate.control.admin_key import AdminKey
from omnigate.control.admin_key_members import changed
from omnigate.control.admin_keys import AdminKeyStore
from omnigate.control.audited import Recorder, Tell, audited
from omnigate.control.credential_store import Witness
from omnigate.control.key_members import read_grace
from omnigate.control.routes import Call

#: Looks at a key as it is right before a change, and raises where it is not as was thought.
Check = Callable[[AdminKey], None]


def unchecked(key: AdminKey) -> None:
    """Take a key however it is."""


class AdminKeyChanges:
    """Makes, changes, rotates and deletes admin keys.

    Every method takes the call that it is done for, of which the audit log is told who and from
    where. All raise ``GatewayError`` as the store does, and ``storage_unavailable`` where the audit
    log cannot be written; nothing is changed then.
    """

    def __init__(self, keys: AdminKeyStore, audit: Recorder) -> None:
        self._keys = keys
        self._audit = audit

    async def create(self, call: Call, body: object) -> tuple[AdminKey, str]:
        """Make an admin key.

        :param body: its members, as decoded JSON has them.
        :return: the key, and its secret, which nobody can read again.
        """
        async with audited(self._audit, call, "admin_key.create") as tell:
            return await self._keys.create(body, _witness(tell))

    async def change(
        self, call: Call, name: str, body: object, check: Check = unchecked
    ) -> AdminKey:
        """Change what an admin key may do, from where and until when; return it as it is then.

        :param body: the members that are to be others, as decoded JSON has them.
        """

        def change(key: AdminKey) -> AdminKey:
            check(key)
            return changed(key, body)

        async with audited(self._audit, call, "admin_key.change") as tell:
            return await self._keys.change(name, change, _witness(tell))

    async def rotate(
        self, call: Call, name: str, body: object, check: Check = unchecked
    ) -> tuple[AdminKey, str]:
        """Give an admin key a new secret.

        :param body: may say how many seconds older secrets work on, as decoded JSON has it.
        :return: the key, and its new secret, which nobody can read again.
        """
        grace_s = read_grace(body)

        async def witness(key: AdminKey) -> None:
            await tell(key.name, {"grace_s": grace_s})

        async with audited(self._audit, call, "admin_key.rotate") as tell:
            return await self._keys.rotate(name, grace_s, witness, check)

    async def delete(self, call: Call, name: str) -> AdminKey:
        """Take an admin key away; return it as it was."""
        async with audited(self._audit, call, "admin_key.delete") as tell:
            return await self._keys.delete(name, _witness(tell))


def _witness(tell: Tell) -> Witness[AdminKey]:
    """Return a witness that tells what a key is to be like."""

    async def witness(key: AdminKey) -> None:
        await tell(key.name, key.told())

    return witness
