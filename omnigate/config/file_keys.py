"""The keys of the file made ready for use: every one of them as the SHA-256 of its secret.

A key with ``key_sha256`` is ready as it stands. For one with ``key_env`` the secret is looked up in
the environment of the control plane, hashed, and forgotten: neither the records here nor any fault
hold it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import attrs

from omnigate.config.key_values import webhook_secret
from omnigate.config.schema import Config, KeyConfig
from omnigate.config.structure import Fault
from omnigate.config.values import BadValueError, quoted
from omnigate.settings import SettingsError

#: Shorter keys can be guessed; longer ones do not fit where clients and proxies keep them.
MIN_KEY_CHARS: Final = 16
MAX_KEY_CHARS: Final = 256


@attrs.frozen
class ResolvedKey:
    """A file key with the hash that the data plane looks it up by (64 lower-case digits).

    :ivar webhook_secret: what webhooks of its jobs are signed with; empty where it has none.
    """

    sha256: str
    config: KeyConfig
    webhook_secret: str = attrs.field(default="", repr=False)


def resolve_file_keys(
    config: Config, environ_lookup: Callable[[str], str | None]
) -> tuple[list[ResolvedKey], list[Fault]]:
    """Return the file keys that can be used, and what is wrong with the others.

    :param environ_lookup: gives the value of a variable, or None where it is not set; it may
        raise :class:`~omnigate.settings.SettingsError` (``settings.provider_key`` does).
    """
    resolved: list[ResolvedKey] = []
    faults: list[Fault] = []
    first: dict[str, int] = {}
    for index, key in enumerate(config.keys):
        sha256 = key.key_sha256
        field = "key_sha256"
        if key.key_env is not None:
            field = "key_env"
            secret, wrong = _looked_up(key.key_env, environ_lookup)
            if secret is None:
                faults.append(Fault(f"keys[{index}].key_env", wrong, quoted(key.name)))
                continue
            sha256 = hashlib.sha256(secret.encode("ascii")).hexdigest()
        if sha256 is None:  # load_config lets no such key through
            continue
        if sha256 in first:
            message = f"is the same secret as that of keys[{first[sha256]}]"
            faults.append(Fault(f"keys[{index}].{field}", message, quoted(key.name)))
            continue
        first[sha256] = index
        signing, wrong = _webhook_secret(key, environ_lookup)
        if wrong:
            faults.append(Fault(f"keys[{index}].webhook_secret_env", wrong, quoted(key.name)))
            continue
        resolved.append(ResolvedKey(sha256=sha256, config=key, webhook_secret=signing))
    return resolved, faults


def _webhook_secret(key: KeyConfig, environ_lookup: Callable[[str], str | None]) -> tuple[str, str]:
    """Return the secret for a key's webhooks, empty for none, and what is wrong with it."""
    if key.webhook_secret_env is None:
        return "", ""
    secret, wrong = _held(key.webhook_secret_env, environ_lookup)
    if secret is None:
        return "", wrong
    try:
        return webhook_secret(secret), ""
    except BadValueError as fault:
        return "", f"the secret in {key.webhook_secret_env} {fault}"


def _held(name: str, environ_lookup: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Return what a variable holds, or None and why there is nothing."""
    try:
        secret = environ_lookup(name)
    except SettingsError as error:
        return None, "; ".join(error.faults)
    if secret is None:
        return None, f"{name} is not set in the control plane's environment, nor is {name}_FILE"
    return secret, ""


def _looked_up(name: str, environ_lookup: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Return the key that a variable holds, or None and what is wrong with it."""
    secret, wrong = _held(name, environ_lookup)
    if secret is None:
        return None, wrong
    if not MIN_KEY_CHARS <= len(secret) <= MAX_KEY_CHARS:
        return None, (
            f"the key in {name} has {len(secret)} characters; "
            f"it must have {MIN_KEY_CHARS} to {MAX_KEY_CHARS}"
        )
    if not all("!" <= char <= "~" for char in secret):
        return None, f"the key in {name} must hold visible ASCII characters only, and no space"
    return secret, ""
