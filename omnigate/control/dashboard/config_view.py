"""The tables of a config as pages show them, and what was new in one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from omnigate.config.media import MediaRouteConfig, MediaTargetConfig
from omnigate.config.schema import KeyConfig, RouteConfig, TargetConfig, UpstreamConfig
from omnigate.config.structure import Fault
from omnigate.control.config_changes import TABLES
from omnigate.control.dashboard.paths import key_path, model_path, upstream_path
from omnigate.control.redaction import redacted

#: Upstreams, routes or keys of a page.
ROWS_A_PAGE: Final = 50

#: Targets of a route, or entries of a list, that are told; of more only how many there are.
MAX_ENTRIES: Final = 8

#: Faults that are told; whoever has more mends these first.
MAX_FAULTS: Final = 50


@attrs.frozen
class FaultLine:
    """One fault of the file: what to do stands in the message."""

    place: str
    row: str
    message: str


def fault_lines(faults: Sequence[Fault]) -> list[FaultLine]:
    """Return the first faults of a file; secrets were taken out when it was read."""
    return [FaultLine(fault.path, fault.row, fault.message) for fault in faults[:MAX_FAULTS]]


@attrs.frozen
class UpstreamLine:
    """One upstream.

    :ivar path: its page.
    :ivar odd: what of it is not as it comes.
    """

    name: str
    path: str
    protocol: str
    base_url: str
    credential: str
    odd: Sequence[str]


def upstream_line(upstream: UpstreamConfig) -> UpstreamLine:
    """Return an upstream as it is shown."""
    odd = [
        f"{name.replace('_', ' ')}: {_value(getattr(upstream, name))}"
        for name in _FIELDS_THAT_MAY_BE_ODD
        if getattr(upstream, name) != getattr(_PLAIN, name)
    ]
    return UpstreamLine(
        upstream.name,
        upstream_path(upstream.name),
        upstream.protocol,
        redacted(upstream.base_url),
        upstream.api_key_env or "",
        odd,
    )


@attrs.frozen
class RouteLine:
    """One route.

    :ivar path: the page of its model.
    :ivar targets: the first ones, each in words.
    :ivar more: how many there are beside these.
    """

    model: str
    path: str
    strategy: str
    targets: Sequence[str]
    more: int
    cache_ttl_s: int


def route_line(route: RouteConfig) -> RouteLine:
    """Return a route as it is shown."""
    weighs = route.strategy == "weighted"
    targets = [_target(target, weighs) for target in route.targets[:MAX_ENTRIES]]
    more = len(route.targets) - len(targets)
    path, strategy = model_path(route.model), route.strategy.replace("_", " ")
    return RouteLine(route.model, path, strategy, targets, more, route.cache_ttl_s)


def _target(target: TargetConfig, weighs: bool) -> str:
    words = f"{target.model} at {target.upstream}"
    if weighs:
        words += f", weight {target.weight}"
    if target.price is not None:
        words += f", ${target.price.input} in and ${target.price.output} out per million tokens"
    return words


@attrs.frozen
class MediaLine:
    """One route of media jobs.

    :ivar targets: the first ones, each in words.
    :ivar more: how many there are beside these.
    :ivar inputs: what its jobs may say, in words.
    """

    model: str
    targets: Sequence[str]
    more: int
    inputs: str
    timeout_s: int
    cache_ttl_s: int


def media_line(route: MediaRouteConfig) -> MediaLine:
    """Return a route of media jobs as it is shown."""
    targets = [_media_target(target) for target in route.targets[:MAX_ENTRIES]]
    inputs = "any field" if route.allowed_input is None else _value(route.allowed_input)
    if route.price_multipliers:
        inputs += f"; the price depends on {_value(tuple(route.price_multipliers))}"
    more = len(route.targets) - len(targets)
    return MediaLine(route.model, targets, more, inputs, route.timeout_s, route.cache_ttl_s)


def _media_target(target: MediaTargetConfig) -> str:
    words = f"{target.model} at {target.adapter}"
    if target.base_url is not None:
        words += f" ({redacted(target.base_url)})"
    words += f", credential {target.api_key_env}" if target.api_key_env else ", no credential"
    if target.price is None:
        return f"{words}, no price"
    parts = [
        f"${amount.normalize():f} {_PRICES[name]}"
        for name in _PRICES
        if (amount := getattr(target.price, name))
    ]
    return f"{words}, {' and '.join(parts) or 'free'}"


#: The parts of a price, and what each is for.
_PRICES: Final = {
    "per_job": "a job",
    "per_output": "an output",
    "per_second": "a second",
    "per_million_characters": "per million characters",
}


@attrs.frozen
class KeyLine:
    """One key of the file.

    :ivar path: its page.
    :ivar secret: where its secret or its hash is.
    :ivar limits: what limits it, in words.
    """

    name: str
    path: str
    secret: str
    limits: Sequence[str]


def key_line(key: KeyConfig) -> KeyLine:
    """Return a key of the file as it is shown."""
    limits = [
        f"{words}: {_value(getattr(key, name))}"
        for name, words in _LIMITS.items()
        if getattr(key, name) not in (None, 0)
    ]
    if key.budget_usd is not None or key.soft_budget_usd is not None:
        limits.append(f"budget period: {key.budget_period}, {key.budget_timezone}")
    secret = f"variable {key.key_env}" if key.key_env else "hash"
    return KeyLine(key.name, key_path(key.name), secret, limits)


_LIMITS: Final = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "max_concurrent": "requests at once",
    "max_open_jobs": "open media jobs",
    "max_jobs_per_day": "media jobs a day",
    "budget_usd": "budget in dollars",
    "soft_budget_usd": "soft budget in dollars",
    "models": "models",
    "endpoints": "endpoints",
    "allowed_ips": "addresses",
    "expires_at": "expires",
}

_PLAIN: Final = UpstreamConfig("plain", "openai", "https://plain")
_FIELDS_THAT_MAY_BE_ODD: Final = (
    "connect_timeout_ms",
    "head_timeout_ms",
    "cooldown",
    "anthropic_version",
    "drop_betas",
    "abandon",
    "proxy",
    "ca_file",
)


def _value(value: Any) -> str:
    """Return a value for people, without what may be a secret."""
    if attrs.has(type(value)):
        members = attrs.asdict(value).items()
        return ", ".join(f"{name.replace('_', ' ')} {member}" for name, member in members)
    if isinstance(value, tuple):
        told = ", ".join(map(str, value[:MAX_ENTRIES]))
        more = len(value) - MAX_ENTRIES
        return f"{told} and {more} more" if more > 0 else told
    return redacted(str(value))


#: The tables of settings, and what each is about.
_SETTINGS: Final = {
    "media": "settings of media jobs",
    "outbound": "whom webhooks and downloads may reach",
    "retention": "how long things are kept",
}


@attrs.frozen
class ChangeLine:
    """What happened to rows of one table: ``routes``, ``added``, and their names."""

    table: str
    what: str
    names: Sequence[str]


def change_lines(changes: Mapping[str, Any]) -> list[ChangeLine]:
    """Return what was new in a config, as its history tells it."""
    found = []
    for name in TABLES:
        told, table = changes.get(name), name.replace("_", " ")
        if not isinstance(told, dict):
            continue
        for what in ("added", "changed", "removed"):
            names = told.get(what)
            if isinstance(names, list) and names:
                found.append(ChangeLine(table, what, [str(name) for name in names]))
        if told.get("more"):
            found.append(ChangeLine(table, "more", [f"and {told['more']} more"]))
    for name, words in _SETTINGS.items():
        if changes.get(name):
            found.append(ChangeLine(name, "changed", [words]))
    return found


def change_words(lines: Sequence[ChangeLine]) -> str:
    """Return in a few words what was new: ``2 routes added, 1 key changed``."""
    words = []
    for line in lines:
        count = len(line.names)
        if line.table in _SETTINGS:
            words.append(f"{line.table} changed")
        elif line.what == "more":
            words.append(f"more {line.table}")
        else:
            words.append(f"{count} {line.table if count > 1 else line.table[:-1]} {line.what}")
    return ", ".join(words)
