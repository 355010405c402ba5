"""Admin keys as their pages show them."""

from __future__ import annotations

from typing import Final

import attrs

from omnigate.control.admin_key import AdminKey

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


def row_of(key: AdminKey, now_ms: int, actor: str) -> AdminKeyRow:
    """Return a key as it is shown.

    :param actor: who looks, as the audit log names them.
    """
    return AdminKeyRow(
        key, badges(key, now_ms), key.old_secrets_until_ms(now_ms), key.actor == actor
    )


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
