"""An admin key: a credential of an operator or a program, beside the admin token.

It opens the admin API and nothing else. Its secret (``oga_``, and as a gateway key's from there on)
is shown once and kept as its SHA-256. What it may do is its *scope*: everything, or to look only.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from omnigate.client_address import Networks
from omnigate.control.credential import Credential
from omnigate.periods import rfc3339

PREFIX: Final = "oga_"

FULL: Final = "full"
READ_ONLY: Final = "read_only"
SCOPES: Final = (FULL, READ_ONLY)

#: Why a secret that is known opens nothing, as metrics and the audit log tell it.
DISABLED: Final = "disabled"
EXPIRED: Final = "expired"
ADDRESS: Final = "address"


@attrs.frozen
class AdminKey(Credential):
    """One admin key.

    :ivar sha256: the hash of its secret, 64 lower-case digits.
    :ivar scope: :data:`FULL` or :data:`READ_ONLY`.
    :ivar allowed_ips: addresses and networks, each in its one spelling; ``None`` for all.
    """

    noun = "admin key"

    sha256: str
    scope: str
    created_ms: int
    allowed_ips: tuple[str, ...] | None = None
    _networks: Networks = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_networks", Networks(self.allowed_ips or ()))

    @property
    def actor(self) -> str:
        """How the audit log names it."""
        return f"admin-key:{self.name}"

    @property
    def current_sha256(self) -> str:
        """The hash of the secret that was made last."""
        return self.sha256

    @property
    def own_hashes(self) -> frozenset[str]:
        """Every hash that no other admin key may have: those of all its secrets."""
        return frozenset((self.sha256, *(secret.sha256 for secret in self.earlier)))

    def closed(self, address: str, now_ms: int) -> str:
        """Return why it opens nothing for a caller, or the empty string."""
        if self.disabled:
            return DISABLED
        if self.has_expired(now_ms):
            return EXPIRED
        if self.allowed_ips is not None and not self._networks.holds(address):
            return ADDRESS
        return ""

    def told(self) -> dict[str, Any]:
        """Return what the audit log tells of it; no hash."""
        return {
            "scope": self.scope,
            "expires_at": rfc3339(self.expires_ms) if self.expires_ms else None,
            "disabled": self.disabled,
            "allowed_ips": self.allowed_ips,
        }


def rotated(key: AdminKey, sha256: str, now_ms: int, grace_s: int) -> AdminKey:
    """Return a key with a new secret.

    :param sha256: the hash of the new secret.
    :param grace_s: how many seconds those before work on at most.
    :raises GatewayError: ``conflict``: the key opens nothing, or too many secrets are in their
        grace.
    """
    earlier = key.earlier_after_rotation(now_ms, grace_s)
    return attrs.evolve(key, sha256=sha256, earlier=earlier, rotated_ms=now_ms)
