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


def media_variables(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield each variable that ``[media]`` names, once: its first place, its model, its name.

    The model is empty for those of the bucket, which are needed with ``storage = "s3"`` only.
    """
    seen: set[str] = set()
    for path, model, name in _named(config):
        if name is not None and name not in seen:
            seen.add(name)
            yield path, model, name


def _named(config: Config) -> Iterator[tuple[str, str, str | None]]:
    for number, route in enumerate(config.media.routes):
        for place, target in enumerate(route.targets):
            path = f"media.routes[{number}].targets[{place}].api_key_env"
            yield path, route.model, target.api_key_env
    bucket = config.media.s3
    if bucket is not None and config.media.storage == "s3":
        yield "media.s3.access_key_env", "", bucket.access_key_env
        yield "media.s3.secret_key_env", "", bucket.secret_key_env
        yield "media.s3.session_token_env", "", bucket.session_token_env


def read_credentials(config: Config, environ_lookup: Callable[[str], str | None]) -> Credentials:
    """Look up every credential that ``[media]`` names; one that is missing is no fault of a config.

    :param environ_lookup: gives the value of a variable, or None where it is not set; it may
        raise :class:`~omnigate.settings.SettingsError` (``settings.provider_key`` does), and may
        read files.
    """
    values: dict[str, str] = {}
    faults: list[str] = []
    for _, model, name in media_variables(config):
        user = f"the media model {quoted(model)}" if model else "the bucket"
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
