"""A gateway key as the control plane knows it, and the secrets that open it.

A key has one *identity* for ever: the hash of its first secret. All that is counted (events in the
ledger, budgets, limits in data planes) goes by it, so that a rotation changes no sum and shares
every limit. What opens the key are its *secrets*: the current one, and for a while those before it.
"""

from __future__ import annotations

from typing import Final

import attrs

from omnigate.config.file_keys import ResolvedKey
from omnigate.control.credential import Credential
from omnigate.control.webhook_secret import WebhookSecret
from omnigate.periods import TOTAL, UTC

FILE: Final = "file"
MANAGED: Final = "managed"

#: Quotes and a comma.
LIST_ENTRY_BYTES: Final = 3


@attrs.frozen
class GatewayKey(Credential):
    """One key of either kind.

    :ivar sha256: its identity, 64 lower-case digits.
    :ivar source: ``"file"`` or ``"managed"``.
    :ivar models: ``None`` for all models.
    :ivar budget_nano: ``None`` without a budget.
    :ivar budget_period: what both budgets count for; without one it means nothing.
    :ivar budget_timezone: the zone whose midnights the period begins at.
    :ivar soft_budget_nano: ``None`` without a soft budget, which only tells.
    :ivar created_ms: ``None`` for a file key.
    :ivar tpm: tokens a minute; 0 for no limit.
    :ivar allowed_ips: addresses and networks, each in its one spelling; ``None`` for all.
    :ivar endpoints: kinds of endpoints; ``None`` for all.
    :ivar max_open_jobs: media jobs that are not final yet; 0 for no limit.
    :ivar max_jobs_per_day: media jobs made in a day of UTC; 0 for the limit of ``[media]``.
    :ivar age_recipients: whom outputs of its jobs are encrypted for; empty: those of ``[media]``.
    :ivar signing: the secrets for webhooks of its jobs, the newest first, and some that do not sign
        any more; :meth:`webhook_secrets` has those that do.
    :ivar secret_sha256: the current secret's; the identity until the first rotation.
    """

    sha256: str
    source: str
    rpm: int = 0
    models: tuple[str, ...] | None = None
    max_concurrent: int = 0
    budget_nano: int | None = None
    budget_period: str = TOTAL
    budget_timezone: str = UTC
    soft_budget_nano: int | None = None
    created_ms: int | None = None
    tpm: int = 0
    allowed_ips: tuple[str, ...] | None = None
    endpoints: tuple[str, ...] | None = None
    max_open_jobs: int = 0
    max_jobs_per_day: int = 0
    age_recipients: tuple[str, ...] = ()
    signing: tuple[WebhookSecret, ...] = attrs.field(default=(), repr=False)
    secret_sha256: str = attrs.field(
        default=attrs.Factory(lambda self: self.sha256, takes_self=True)
    )

    @property
    def current_sha256(self) -> str:
        """The hash of the secret that was made last."""
        return self.secret_sha256

    @property
    def hashes(self) -> tuple[str, ...]:
        """Every hash whose spend is this key's."""
        return (self.sha256,)

    @property
    def is_rotated(self) -> bool:
        """Whether another secret than the first one opens it."""
        return self.secret_sha256 != self.sha256

    @property
    def own_hashes(self) -> frozenset[str]:
        """Every hash that no other key may have: the identity and all secrets."""
        if not self.is_rotated:
            return frozenset((self.sha256,))
        earlier = (secret.sha256 for secret in self.earlier)
        return frozenset((self.sha256, self.secret_sha256, *earlier))

    def may_use(self, model: str) -> bool:
        """Whether a model, or a prefix of it with a star, is among those that it may use."""
        return self.models is None or any(
            model == name or (name.endswith("*") and model.startswith(name[:-1]))
            for name in self.models
        )

    def webhook_secrets(self, now_ms: int) -> tuple[str, ...]:
        """Return the secrets that webhooks of its jobs are signed with, the newest first."""
        return tuple(one.secret for one in self.signing if one.signs(now_ms))

    def old_webhook_secrets_until_ms(self, now_ms: int) -> int | None:
        """Return when the last secret but the newest stops to sign; ``None`` if none does."""
        return max((one.until_ms for one in self.signing[1:] if one.signs(now_ms)), default=None)

    @property
    def list_entries(self) -> int:
        """How many models, addresses and recipients it names."""
        return len(self.models or ()) + len(self.allowed_ips or ()) + len(self.age_recipients)

    @property
    def list_bytes(self) -> int:
        """How long its lists of names are, where they are written down."""
        entries = (*(self.models or ()), *(self.allowed_ips or ()), *self.age_recipients)
        return sum(map(len, entries)) + LIST_ENTRY_BYTES * len(entries)

    @property
    def has_budget(self) -> bool:
        """Whether it has a budget of either kind."""
        return self.budget_nano is not None or self.soft_budget_nano is not None


def file_key(resolved: ResolvedKey) -> GatewayKey:
    """Return a key of the config, as the control plane keeps all keys."""
    config = resolved.config
    return GatewayKey(
        name=config.name,
        sha256=resolved.sha256,
        source=FILE,
        rpm=config.rpm,
        models=config.models,
        max_concurrent=config.max_concurrent,
        budget_nano=config.budget_nano,
        budget_period=config.budget_period,
        budget_timezone=config.budget_timezone,
        soft_budget_nano=config.soft_budget_nano,
        tpm=config.tpm,
        allowed_ips=config.allowed_ips,
        endpoints=config.endpoints,
        expires_ms=config.expires_ms,
        max_open_jobs=config.max_open_jobs,
        max_jobs_per_day=config.max_jobs_per_day,
        age_recipients=config.age_recipients,
        signing=(WebhookSecret(resolved.webhook_secret),) if resolved.webhook_secret else (),
    )


def rotated(key: GatewayKey, secret_sha256: str, now_ms: int, grace_s: int) -> GatewayKey:
    """Return a key with a new secret.

    :param secret_sha256: the hash of the new secret.
    :param grace_s: how many seconds those before work on at most.
    :raises GatewayError: ``conflict``: the key opens nothing, or too many secrets are in their
        grace.
    """
    earlier = key.earlier_after_rotation(now_ms, grace_s)
    return attrs.evolve(key, secret_sha256=secret_sha256, earlier=earlier, rotated_ms=now_ms)
