"""The secrets that webhooks of a key's jobs are signed with: the newest, and those just before it.

They have the form of Standard Webhooks (https://www.standardwebhooks.com): ``whsec_`` and the
base64 of random bytes. Unlike a key's own secret they are kept as they are, since every delivery
signs with them; so they are in no listing, no log and no representation.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from omnigate.config.key_values import WEBHOOK_PREFIX
from omnigate.control.credential import LAST_MS
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339

RANDOM_BYTES: Final = 32

#: Secrets that still sign beside the newest one: each makes a signature of every delivery longer.
MAX_EARLIER: Final = 2

#: A day: who receives webhooks takes the new secret within one.
DEFAULT_GRACE_S: Final = 86_400


@attrs.frozen
class WebhookSecret:
    """One secret.

    :ivar until_ms: when it stops to sign; 0 for the newest one, which goes on.
    """

    secret: str = attrs.field(repr=False)
    until_ms: int = 0

    def signs(self, now_ms: int) -> bool:
        """Whether deliveries are signed with it."""
        return not self.until_ms or now_ms < self.until_ms


def new_webhook_secret(randomness: Callable[[int], bytes] = os.urandom) -> str:
    """Return a new secret.

    :param randomness: returns as many random bytes as it is asked for.
    """
    return WEBHOOK_PREFIX + base64.b64encode(randomness(RANDOM_BYTES)).decode("ascii")


def renewed(
    name: str, secrets: Sequence[WebhookSecret], secret: str, now_ms: int, grace_s: int
) -> tuple[WebhookSecret, ...]:
    """Return the secrets of a key with a new one, the newest first; none signs beyond the grace.

    :param name: the key's, for messages.
    :param grace_s: in seconds; with 0 only the new one signs.
    :raises GatewayError: ``conflict``: too many are in their grace.
    """
    signing = [one for one in secrets if one.signs(now_ms)] if grace_s else []
    if len(signing) > MAX_EARLIER:
        first_ms = min(one.until_ms for one in signing if one.until_ms)
        raise GatewayError(
            "conflict",
            f'{MAX_EARLIER} earlier webhook secrets of the key "{name}" still sign; wait until '
            f"{rfc3339(first_ms)}, when the first of them stops, or ask with a grace_s of 0, which "
            "ends them all",
        )
    until_ms = min(now_ms + grace_s * 1000, LAST_MS)
    earlier = (
        attrs.evolve(one, until_ms=min(one.until_ms or until_ms, until_ms)) for one in signing
    )
    return (WebhookSecret(secret), *earlier)
