"""What ``omnigate doctor`` looks at of media jobs: the secrets that the control plane needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from omnigate.config.key_values import webhook_secret
from omnigate.config.values import BadValueError, env_name
from omnigate.settings import SettingsError, provider_key
from omnigate.text import one_line


@attrs.frozen
class NamedSecret:
    """A variable of the control plane that the config names.

    :ivar user: what needs it, for people.
    :ivar fault: what is wrong with it as it is known here; empty where nothing is.
    """

    variable: str
    user: str
    fault: str = ""


def named_secrets(config: Any, environ: Mapping[str, str]) -> tuple[NamedSecret, ...]:
    """Return each secret of media jobs that a config names, once.

    :param config: as the control plane tells it, or as its file was read.
    :param environ: the control plane's environment, as far as it is known here.
    """
    found: dict[str, NamedSecret] = {}
    for variable, user, signs in _named(config):
        try:
            name = env_name(variable)
        except BadValueError:
            continue
        if name not in found:
            found[name] = NamedSecret(name, one_line(user, 100), _fault(environ, name, signs))
    return tuple(found.values())


def media_routes(config: Any) -> int:
    """Return how many routes of media jobs a config has."""
    media = config.get("media")
    return sum(1 for _ in _rows(media.get("routes"))) if isinstance(media, Mapping) else 0


def _named(config: Any) -> Iterator[tuple[object, str, bool]]:
    media = config.get("media")
    media = media if isinstance(media, Mapping) else {}
    for route in _rows(media.get("routes")):
        for target in _rows(route.get("targets")):
            yield target.get("api_key_env"), f"media model {route.get('model')}", False
    bucket = media.get("s3")
    if isinstance(bucket, Mapping) and media.get("storage") == "s3":
        for member in ("access_key_env", "secret_key_env", "session_token_env"):
            yield bucket.get(member), "the bucket", False
    for key in _rows(config.get("keys")):
        yield key.get("webhook_secret_env"), f"webhooks of the key {key.get('name')}", True


def _rows(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Iterable):
        yield from (row for row in value if isinstance(row, Mapping))


def _fault(environ: Mapping[str, str], name: str, signs: bool) -> str:
    try:
        secret = provider_key(environ, name)
        if secret is None:
            return f"{name} is not set for the control plane"
        if signs:
            webhook_secret(secret)
    except SettingsError as error:
        return one_line("; ".join(error.faults), 300)
    except BadValueError as fault:
        return f"the secret in {name} {fault}"
    return ""
