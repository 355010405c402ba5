"""An admin key: a credential of an operator or a program, beside the admin token.

It opens the admin API and nothing else. Its secret (``oga_``, and as a gateway key's from there on)
is shown once and kept as its SHA-256. What it may do is its *scope*: everything, or to look only.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from omnigate.client_address import Networks
from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.control.gateway_key import EarlierSecret
from omnigate.errors import GatewayError
from omnigate.periods import END_MS, rfc3339

PREFIX: Final = "oga_"

FULL: Final = "full"
READ_ONLY: Final = "read_only"
SCOPES: Final = (FULL, READ_ONLY)

#: Why a secret that is known opens nothing, as metrics and the audit log tell it.
DISABLED: Final = "disabled"
EXPIRED: Final = "expired"
ADDRESS: Final = "address"


@attrs.frozen
class AdminKey:
    """One admin key.

    :ivar sha256: the hash of its secret, 64 lower-case digits.
    :ivar scope: :data:`FULL` or :data:`READ_ONLY`.
    :ivar expires_ms: the instant from which on it opens nothing; 0 for never.
    :ivar allowed_ips: addresses and networks, each in its one spelling; ``None`` for all.
    :ivar earlier: secrets in their grace, the oldest first, and some whose grace is over.
    :ivar rotated_ms: when it was rotated last; ``None`` where it never was.
    """

    name: str
    sha256: str
    scope: str
    created_ms: int
    expires_ms: int = 0
    disabled: bool = False
    allowed_ips: tuple[str, ...] | None = None
    earlier: tuple[EarlierSecret, ...] = ()
    rotated_ms: int | None = None
    _networks: Networks = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_networks", Networks(self.allowed_ips or ()))

    @property
    def actor(self) -> str:
        """How the audit log names it."""
        return f"admin-key:{self.name}"

    def has_expired(self, now_ms: int) -> bool:
        """Whether it has come to its end."""
        return 0 < self.expires_ms <= now_ms

    def closed(self, address: str, now_ms: int) -> str:
        """Return why it opens nothing for a caller, or the empty string."""
        if self.disabled:
            return DISABLED
        if self.has_expired(now_ms):
            return EXPIRED
        if self.allowed_ips is not None and not self._networks.holds(address):
            return ADDRESS
        return ""

    def in_grace(self, now_ms: int) -> tuple[EarlierSecret, ...]:
        """Return the earlier secrets that still open it."""
        return tuple(secret for secret in self.earlier if now_ms < secret.until_ms)

    def old_secrets_until_ms(self, now_ms: int) -> int | None:
        """Return when the last of the earlier secrets stops to open it; ``None`` if none does."""
        return max((secret.until_ms for secret in self.in_grace(now_ms)), default=None)

    def told(self) -> dict[str, Any]:
        """Return what the audit log tells of it; no hash."""
        return {
            "scope": self.scope,
            "expires_at": rfc3339(self.expires_ms) if self.expires_ms else None,
            "disabled": self.disabled,
            "allowed_ips": self.allowed_ips,
        }


def rotated(key: AdminKey, sha256: str, now_ms: int, grace_s: int) -> AdminKey:
    """Return a key with a new secret; no older one opens it longer than the grace.

    :param sha256: the hash of the new secret.
    :raises GatewayError: ``conflict``: the key opens nothing, or too many secrets are in their
        grace.
    """
    if key.disabled:
        raise GatewayError("conflict", f'the admin key "{key.name}" is disabled; enable it first')
    if key.has_expired(now_ms):
        raise GatewayError(
            "conflict",
            f'the admin key "{key.name}" expired at {rfc3339(key.expires_ms)}; give it a later '
            "expires_at first",
        )
    until_ms = min(now_ms + grace_s * 1000, END_MS - 1)
    earlier: tuple[EarlierSecret, ...] = ()
    if grace_s:
        earlier = (
            *(
                EarlierSecret(secret.sha256, min(secret.until_ms, until_ms))
                for secret in key.in_grace(now_ms)
            ),
            EarlierSecret(key.sha256, until_ms),
        )
    if len(earlier) > MAX_EARLIER_SECRETS:
        raise GatewayError(
            "conflict",
            f'{MAX_EARLIER_SECRETS} earlier secrets of "{key.name}" still work; rotate with a '
            "grace of 0, which ends them all, or wait until one of them stops",
        )
    return attrs.evolve(key, sha256=sha256, earlier=earlier, rotated_ms=now_ms)
