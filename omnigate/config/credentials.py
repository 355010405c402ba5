"""The credentials that ``[media]`` names: which variables, what for, and what they hold.

Text providers' credentials are the data plane's. Those of media providers and of the bucket are
looked up in the environment of the control plane, whenever the config file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from omnigate.config.schema import Config
from omnigate.config.values import quoted
from omnigate.settings import SettingsError


@attrs.frozen
class Credentials:
    """What the environment holds of the credentials that one config names.

    :ivar values: by the name of the variable; one that is not set is not there.
    :ivar faults: a line for each variable that cannot be used, with what would need it.
    """

    values: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    faults: tuple[str, ...] = ()


def variables(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each variable that ``[media]`` names, once, and what needs it first."""
    seen: set[str] = set()
    for name, user in _named(config):
        if name not in seen:
            seen.add(name)
            yield name, user


def _named(config: Config) -> Iterator[tuple[str, str]]:
    for route in config.media.routes:
        for target in route.targets:
            if target.api_key_env is not None:
                yield target.api_key_env, f"the media model {quoted(route.model)}"
    bucket = config.media.s3
    if bucket is not None and config.media.storage == "s3":
        yield bucket.access_key_env, "the bucket"
        yield bucket.secret_key_env, "the bucket"
        if bucket.session_token_env is not None:
            yield bucket.session_token_env, "the bucket"


def read_credentials(config: Config, environ_lookup: Callable[[str], str | None]) -> Credentials:
    """Look up every credential that ``[media]`` names; one that is missing is no fault of a config.

    :param environ_lookup: gives the value of a variable, or None where it is not set; it may
        raise :class:`~omnigate.settings.SettingsError` (``settings.provider_key`` does), and may
        read files.
    """
    values: dict[str, str] = {}
    faults: list[str] = []
    for name, user in variables(config):
        try:
            value = environ_lookup(name)
        except SettingsError as error:
            faults.extend(f"{fault}; {user} needs it" for fault in error.faults)
            continue
        if value is None:
            faults.append(
                f"{name} is not set in the control plane's environment, nor is {name}_FILE; "
                f"{user} needs it"
            )
        else:
            values[name] = value
    return Credentials(values, tuple(faults))
