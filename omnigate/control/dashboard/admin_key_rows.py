"""Admin keys as their pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from omnigate.control.admin_key import AdminKey

#: Keys of one page of the list.
ROWS: Final = 100

#: An end is told this long before it comes: whoever uses the key has to be found first.
SOON_MS: Final = 14 * 24 * 3600 * 1000


@attrs.frozen
class Badge:
    """A word on the state of a key, and how much it matters."""

    text: str
    kind: str


@attrs.frozen
class AdminKeyRow:
    """One admin key.

    :ivar grace_until_ms: until when an old secret works; ``None`` where none does.
    :ivar is_own: whether it is the key that whoever looks has signed in with.
    """

    key: AdminKey
    badges: tuple[Badge, ...]
    grace_until_ms: int | None
    is_own: bool


@attrs.frozen
class RowsPage:
    """One page of the list.

    :ivar number: which one it is, from 1 on.
    :ivar total: how many keys there are.
    """

    rows: tuple[AdminKeyRow, ...]
    number: int
    total: int

    @property
    def before(self) -> int:
        """The number of the page before; 0 where there is none."""
        return self.number - 1

    @property
    def behind(self) -> int:
        """The number of the next page; 0 where there is none."""
        return self.number + 1 if self.number * ROWS < self.total else 0


def row_of(key: AdminKey, now_ms: int, actor: str) -> AdminKeyRow:
    """Return a key as it is shown.

    :param actor: who looks, as the audit log names them.
    """
    return AdminKeyRow(
        key, badges(key, now_ms), key.old_secrets_until_ms(now_ms), key.actor == actor
    )


def page_of(keys: Iterable[AdminKey], number: int, now_ms: int, actor: str) -> RowsPage:
    """Return a page of the keys by their names; the nearest one where there are not so many."""
    ordered = sorted(keys, key=lambda key: key.name)
    last = max(1, -(-len(ordered) // ROWS))
    number = min(max(1, number), last)
    shown = ordered[(number - 1) * ROWS : number * ROWS]
    return RowsPage(tuple(row_of(key, now_ms, actor) for key in shown), number, len(ordered))


def badges(key: AdminKey, now_ms: int) -> tuple[Badge, ...]:
    """Return how a key is."""
    found = []
    if key.disabled:
        found.append(Badge("disabled", "quiet"))
    if key.has_expired(now_ms):
        found.append(Badge("expired", "bad"))
    elif key.expires_ms and key.expires_ms - now_ms <= SOON_MS:
        found.append(Badge("expires soon", "warn"))
    if not found:
        found.append(Badge("active", "good"))
    if key.in_grace(now_ms):
        found.append(Badge("old secret works", "info"))
    return tuple(found)
