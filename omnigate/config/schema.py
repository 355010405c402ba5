"""The config file: its tables as attrs classes, and how its text becomes them.

The file is TOML. Every class below is one table of it and every attribute one key; the annotation
holds the type and, for cattrs, the check of :mod:`omnigate.config.values` that its value must pass.
:func:`load_config` reports every fault of a file at once. Nothing here looks at the environment:
``api_key_env`` and ``key_env`` stay names of variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal

import attrs

from omnigate.config import values
from omnigate.config.structure import Array, Value

#: Bounds on the tables of one file; a gateway that needs more has managed keys and more gateways.
MAX_KEYS: Final = 10_000
MAX_UPSTREAMS: Final = 500
MAX_ROUTES: Final = 5_000
MAX_TARGETS: Final = 64
MAX_PATTERNS: Final = 500
MAX_BETAS: Final = 64

ProtocolName = Literal["openai", "anthropic"]
StrategyName = Literal["failover", "round_robin", "weighted"]
Abandon = Literal["read_on", "cancel"]
BudgetPeriod = Literal["daily", "monthly", "total"]

Name = Annotated[str, Value(values.name)]
EnvName = Annotated[str, Value(values.env_name)]
Flag = Annotated[bool, Value(values.flag)]
Milliseconds = Annotated[int, Value(values.whole(1, values.MAX_MS))]
Days = Annotated[int, Value(values.whole(0, 36_500))]
PriceUsd = Annotated[Decimal, Value(values.usd(values.MAX_PRICE_USD))]


@attrs.frozen
class KeyConfig:
    """``[[keys]]``: a gateway key of the file, by its hash or by the variable that holds it.

    ``rpm`` and ``max_concurrent`` 0 mean no limit of the key's own; ``models`` None means all. A
    budget without ``budget_period`` never turns (``total``).
    """

    name: Name
    key_sha256: Annotated[str, Value(values.sha256_hex)] | None = None
    key_env: EnvName | None = None
    rpm: Annotated[int, Value(values.whole(0, values.MAX_RPM))] = 0
    models: (
        Annotated[tuple[Annotated[str, Value(values.model_pattern)], ...], Array(1, MAX_PATTERNS)]
        | None
    ) = None
    max_concurrent: Annotated[int, Value(values.whole(0, values.MAX_CONCURRENT))] = 0
    budget_usd: Annotated[Decimal, Value(values.budget)] | None = None
    budget_period: Annotated[BudgetPeriod, Value(values.one_of("daily", "monthly", "total"))] = (
        "total"
    )


@attrs.frozen
class CooldownConfig:
    """``cooldown``: after ``failures`` within ``window_s``, a target rests for ``seconds``."""

    failures: Annotated[int, Value(values.whole(1, values.MAX_COOLDOWN_FAILURES))] = 3
    window_s: Annotated[int, Value(values.whole(1, values.MAX_COOLDOWN_S))] = 30
    seconds: Annotated[int, Value(values.whole(0, values.MAX_COOLDOWN_S))] = 30


@attrs.frozen
class UpstreamConfig:
    """``[[upstreams]]``: a text provider.

    ``base_url`` goes up to and with ``/v1``. ``api_key_env`` None: no credential is sent.
    """

    name: Name
    protocol: Annotated[ProtocolName, Value(values.one_of("openai", "anthropic"))]
    base_url: Annotated[str, Value(values.base_url)]
    api_key_env: EnvName | None = None
    connect_timeout_ms: Milliseconds = 5_000
    head_timeout_ms: Milliseconds = 120_000
    cooldown: CooldownConfig = CooldownConfig()
    anthropic_version: Annotated[str, Value(values.header_token)] | None = None
    drop_betas: Annotated[
        tuple[Annotated[str, Value(values.header_token)], ...], Array(0, MAX_BETAS)
    ] = ()
    abandon: Annotated[Abandon, Value(values.one_of("read_on", "cancel"))] = "read_on"
    proxy: Annotated[str, Value(values.proxy_url)] | None = None
    ca_file: Annotated[str, Value(values.absolute_path)] | None = None


@attrs.frozen
class PriceConfig:
    """``price``: US dollars per million tokens.

    A cached or a written token that is not priced costs what an input token does.
    """

    input: PriceUsd
    output: PriceUsd
    cached_input: PriceUsd | None = None
    cache_write: PriceUsd | None = None


@attrs.frozen
class CapsConfig:
    """``caps``: what a target's model can do, where it differs from what is known of the model.

    None leaves a capability to the built-in knowledge.
    """

    sampling: Flag | None = None
    thinking: Annotated[str, Value(values.one_of("budget", "adaptive"))] | None = None
    thinking_off: Flag | None = None
    forced_tools: Flag | None = None
    mid_system: Flag | None = None
    prefill: Flag | None = None
    structured_outputs: Flag | None = None
    reasoning: Flag | None = None
    effort_none: Flag | None = None
    efforts: (
        Annotated[tuple[Annotated[str, Value(values.header_token)], ...], Array(1, 16)] | None
    ) = None
    stop: Flag | None = None
    max_tokens_field: (
        Annotated[str, Value(values.one_of("max_tokens", "max_completion_tokens"))] | None
    ) = None
    user_field: Annotated[str, Value(values.one_of("user", "safety_identifier"))] | None = None
    upstream_api: Annotated[str, Value(values.one_of("chat", "responses"))] | None = None


@attrs.frozen
class TargetConfig:
    """``[[routes.targets]]``: a model at an upstream, its share, and its own price if any."""

    upstream: Name
    model: Annotated[str, Value(values.upstream_model)]
    weight: Annotated[int, Value(values.whole(0, values.MAX_WEIGHT))] = 1
    price: PriceConfig | None = None
    caps: CapsConfig = CapsConfig()
    default_max_tokens: Annotated[int, Value(values.whole(1, values.MAX_OUTPUT_TOKENS))] | None = (
        None
    )


@attrs.frozen
class RouteConfig:
    """``[[routes]]``: a model name that clients write, and the targets it leads to."""

    model: Annotated[str, Value(values.model_id)]
    targets: Annotated[tuple[TargetConfig, ...], Array(1, MAX_TARGETS)]
    strategy: Annotated[
        StrategyName, Value(values.one_of("failover", "round_robin", "weighted"))
    ] = "failover"
    cache_ttl_s: Annotated[int, Value(values.no_cache)] = 0


@attrs.frozen
class RetentionConfig:
    """``[retention]``: how long, in days, each store keeps what it has; 0 is for ever."""

    ledger_days: Days = 0
    ledger_ids_days: Days = 3
    jobs_days: Days = 30
    receipts_days: Days = 90


def _routes_by_model(config: Config) -> Mapping[str, RouteConfig]:
    return {route.model: route for route in config.routes}


@attrs.frozen
class Config:
    """The whole file, with every reference in it resolved; made by :func:`load_config`."""

    keys: Annotated[tuple[KeyConfig, ...], Array(0, MAX_KEYS)] = ()
    upstreams: Annotated[tuple[UpstreamConfig, ...], Array(0, MAX_UPSTREAMS)] = ()
    routes: Annotated[tuple[RouteConfig, ...], Array(0, MAX_ROUTES)] = ()
    retention: RetentionConfig = RetentionConfig()
    #: Looked up once per usage event, so it is made once per config.
    routes_by_model: Mapping[str, RouteConfig] = attrs.field(
        init=False, eq=False, repr=False, default=attrs.Factory(_routes_by_model, takes_self=True)
    )
