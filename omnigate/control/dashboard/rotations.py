"""Rotating a key of either kind by a form: what is offered, and that it is done once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigate.control.credential import Credential
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.key_secret import sha256_hex
from omnigate.errors import GatewayError

#: How long older secrets work on, as every form offers it: seconds, and in words.
GRACES: Final[tuple[tuple[str, str], ...]] = (
    ("0", "Not at all: it stops at once"),
    ("3600", "1 hour"),
    ("86400", "24 hours"),
    ("604800", "7 days"),
)

_ROTATED: Final = (
    "This key was rotated meanwhile, perhaps by this very form. A secret is shown once; if nobody "
    "has the newest one, rotate the key again."
)


_RENEWED: Final = (
    "This key's webhook secret was made anew meanwhile, perhaps by this very form. It is shown "
    "once; if nobody has the newest one, make another."
)


def rotation_mark(key: Credential) -> str:
    """Return what tells a key from the same key with another secret; it tells nothing of either."""
    return sha256_hex(f"rotation of {key.current_sha256}")[:32]


def unrotated(mark: str) -> Callable[[Credential], None]:
    """Return what refuses a key that was rotated since a form was made.

    :param mark: the key's :func:`rotation_mark` by then.
    """

    def check(key: Credential) -> None:
        if rotation_mark(key) != mark:
            raise GatewayError("conflict", _ROTATED)

    return check


def renewal_mark(key: GatewayKey) -> str:
    """Return what tells a key from the same key with another webhook secret."""
    newest = key.signing[0].secret if key.signing else ""
    return sha256_hex(f"webhook secret of {key.sha256}: {newest}")[:32]


def unrenewed(mark: str) -> Callable[[GatewayKey], None]:
    """Return what refuses a key whose webhook secret is another than when a form was made.

    :param mark: the key's :func:`renewal_mark` by then.
    """

    def check(key: GatewayKey) -> None:
        if renewal_mark(key) != mark:
            raise GatewayError("conflict", _RENEWED)

    return check
