"""What gateway keys and admin keys have in common: an end, a switch, and one secret after another.

A secret is known by its SHA-256 only. After a rotation those before it may work on for a while,
which is their *grace*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

import attrs

from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.errors import GatewayError
from omnigate.periods import END_MS, rfc3339

#: The last instant that can be written.
LAST_MS: Final = END_MS - 1


@attrs.frozen
class EarlierSecret:
    """The hash of a secret that a newer one has replaced; it opens its key before ``until_ms``."""

    sha256: str
    until_ms: int


@attrs.frozen
class Credential(ABC):
    """A key of either kind, as far as its life goes.

    :cvar noun: what a message calls it.
    :ivar expires_ms: the instant from which on it opens nothing; 0 for never.
    :ivar disabled: whether it opens nothing for now.
    :ivar earlier: secrets in their grace, the oldest first, and some whose grace is over.
    :ivar rotated_ms: when it was rotated last; ``None`` where it never was.
    """

    noun: ClassVar[str] = "key"

    name: str
    expires_ms: int = attrs.field(default=0, kw_only=True)
    disabled: bool = attrs.field(default=False, kw_only=True)
    earlier: tuple[EarlierSecret, ...] = attrs.field(default=(), kw_only=True)
    rotated_ms: int | None = attrs.field(default=None, kw_only=True)

    @property
    @abstractmethod
    def current_sha256(self) -> str:
        """The hash of the secret that was made last."""

    @property
    @abstractmethod
    def own_hashes(self) -> frozenset[str]:
        """Every hash that no other key of its kind may have."""

    @property
    def list_bytes(self) -> int:
        """How long its lists are where they are written down; 0 where that needs no bound."""
        return 0

    def has_expired(self, now_ms: int) -> bool:
        """Whether it has come to its end."""
        return 0 < self.expires_ms <= now_ms

    def in_grace(self, now_ms: int) -> tuple[EarlierSecret, ...]:
        """Return the earlier secrets that still open it."""
        return tuple(secret for secret in self.earlier if now_ms < secret.until_ms)

    def old_secrets_until_ms(self, now_ms: int) -> int | None:
        """Return when the last of the earlier secrets stops to open it; ``None`` if none does."""
        return max((secret.until_ms for secret in self.in_grace(now_ms)), default=None)

    def earlier_after_rotation(self, now_ms: int, grace_s: int) -> tuple[EarlierSecret, ...]:
        """Return the secrets before a new one; none of them opens it longer than the grace.

        That includes those that an earlier rotation had given more time: whoever rotates without
        any grace ends all secrets but the new one.

        :param grace_s: in seconds.
        :raises GatewayError: ``conflict``: the key opens nothing, or too many secrets are in their
            grace.
        """
        this = f'the {self.noun} "{self.name}"'
        if self.disabled:
            raise GatewayError("conflict", f"{this} is disabled; enable it, then rotate it")
        if self.has_expired(now_ms):
            raise GatewayError(
                "conflict",
                f"{this} expired at {rfc3339(self.expires_ms)}; give it a later expires_at, then "
                "rotate it",
            )
        if not grace_s:
            return ()
        until_ms = min(now_ms + grace_s * 1000, LAST_MS)
        working = self.in_grace(now_ms)
        if len(working) >= MAX_EARLIER_SECRETS:
            first_ms = min(secret.until_ms for secret in working)
            raise GatewayError(
                "conflict",
                f"{MAX_EARLIER_SECRETS} earlier secrets of {this} still work; wait until "
                f"{rfc3339(first_ms)}, when the first of them stops, or rotate with a grace of 0, "
                "which ends them all",
            )
        return (
            *(attrs.evolve(secret, until_ms=min(secret.until_ms, until_ms)) for secret in working),
            EarlierSecret(self.current_sha256, until_ms),
        )
