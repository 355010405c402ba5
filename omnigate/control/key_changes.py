"""Changes of gateway keys: what may be changed here, and the audit log told of each.

Whoever takes a wish of an operator, as JSON or as a form, comes here with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigate.control.audited import Recorder, audited
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_change import changed, differences, set_members
from omnigate.control.key_members import BadMembersError, read_grace
from omnigate.control.keys import KeyBook
from omnigate.control.routes import Call
from omnigate.control.webhook_secret import DEFAULT_GRACE_S
from omnigate.errors import GatewayError
from omnigate.jobs import age_files

#: Where a key of the config file is changed instead, by what was wished.
TO_CHANGE: Final = "change it there"
TO_ROTATE: Final = "add another key there, and take this one out later"
TO_DELETE: Final = "take it out there"
TO_SIGN: Final = "name a variable with its webhook secret there (webhook_secret_env)"

#: Looks at a key as it is right before a change, and raises where it is not as was thought.
Check = Callable[[GatewayKey], None]


def unchecked(key: GatewayKey) -> None:
    """Take a key however it is."""


class KeyChanges:
    """Makes, changes, rotates and deletes managed keys.

    Every method takes the call that it is done for, of which the audit log is told who and from
    where. All raise ``GatewayError`` as the stores do, and ``storage_unavailable`` where the audit
    log cannot be written; nothing is changed then.
    """

    def __init__(self, book: KeyBook, audit: Recorder) -> None:
        self._book = book
        self._audit = audit

    def check_managed(self, name: str, remedy: str) -> None:
        """Refuse what is the config file's.

        :param remedy: what to do there instead.
        :raises GatewayError: ``conflict``.
        """
        if self._book.is_file_key(name) and self._book.managed.get(name) is None:
            raise GatewayError("conflict", f'"{name}" stands in the config file; {remedy}')

    async def create(self, call: Call, body: object) -> tuple[GatewayKey, str]:
        """Make a managed key.

        :param body: its members, as decoded JSON has them.
        :return: the key, and its secret, which nobody can read again.
        """

        async def witness(key: GatewayKey) -> None:
            _check_recipients(key)
            await tell(key.name, set_members(key))

        async with audited(self._audit, call, "key.create") as tell:
            return await self._book.managed.create(body, self._book.is_file_key, witness)

    async def change(
        self, call: Call, name: str, body: object, check: Check = unchecked
    ) -> GatewayKey:
        """Change limits and budgets of a managed key; return it as it is then.

        :param body: the members that are to be others, as decoded JSON has them.
        """
        self.check_managed(name, TO_CHANGE)
        before: list[GatewayKey] = []

        def change(key: GatewayKey) -> GatewayKey:
            check(key)
            before.append(key)
            return changed(key, body)

        async def witness(key: GatewayKey) -> None:
            if key.age_recipients != before[0].age_recipients:
                _check_recipients(key)
            await tell(key.name, differences(before[0], key))

        async with audited(self._audit, call, "key.change") as tell:
            return await self._book.managed.change(name, change, witness)

    async def rotate(
        self, call: Call, name: str, body: object, check: Check = unchecked
    ) -> tuple[GatewayKey, str]:
        """Give a managed key a new secret.

        :param body: may say how many seconds older secrets work on, as decoded JSON has it.
        :return: the key, and its new secret, which nobody can read again.
        """
        self.check_managed(name, TO_ROTATE)
        grace_s = read_grace(body)

        async def witness(key: GatewayKey) -> None:
            await tell(key.name, {"grace_s": grace_s})

        async with audited(self._audit, call, "key.rotate") as tell:
            return await self._book.managed.rotate(name, grace_s, witness, check)

    async def renew_webhook_secret(
        self, call: Call, name: str, body: object, check: Check = unchecked
    ) -> tuple[GatewayKey, str]:
        """Give the webhooks of a managed key's jobs a new secret.

        :param body: may say how many seconds older ones sign too, as decoded JSON has it.
        :return: the key, and its new webhook secret, which is told this once.
        """
        self.check_managed(name, TO_SIGN)
        grace_s = read_grace(body, DEFAULT_GRACE_S)

        async def witness(key: GatewayKey) -> None:
            await tell(key.name, {"grace_s": grace_s})

        async with audited(self._audit, call, "key.webhook_secret") as tell:
            return await self._book.managed.renew_webhook_secret(name, grace_s, witness, check)

    async def delete_webhook_secret(self, call: Call, name: str) -> GatewayKey:
        """Have no webhook of a managed key's jobs signed any more."""
        self.check_managed(name, TO_SIGN)

        async def witness(key: GatewayKey) -> None:
            await tell(key.name, {})

        async with audited(self._audit, call, "key.webhook_secret_delete") as tell:
            return await self._book.managed.delete_webhook_secret(name, witness)

    async def delete(self, call: Call, name: str) -> GatewayKey:
        """Take a managed key away; return it as it was."""
        self.check_managed(name, TO_DELETE)

        async def witness(key: GatewayKey) -> None:
            await tell(key.name, {})

        async with audited(self._audit, call, "key.delete") as tell:
            return await self._book.managed.delete(name, witness)


def _check_recipients(key: GatewayKey) -> None:
    """Refuse recipients that nothing can be encrypted for here, before a job finds that out.

    :raises GatewayError: ``invalid_request``.
    """
    fault = age_files.fault_of(key.age_recipients)
    if fault:
        raise BadMembersError([("age_recipients", fault)])
