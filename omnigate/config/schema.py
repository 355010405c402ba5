"""The config file: its tables as attrs classes, and how its text becomes them.

The file is TOML. Every class below is one table of it and every attribute one key; the annotation
holds the type and, for cattrs, the check of :mod:`omnigate.config.values` that its value must pass.
:func:`load_config` reports every fault of a file at once. Nothing here looks at the environment:
``api_key_env`` and ``key_env`` stay names of variables.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal, cast

import attrs

from omnigate.capabilities import EFFORTS
from omnigate.config import key_values, media_values, values
from omnigate.config.agreement import disagreements
from omnigate.config.media import (
    MAX_RECIPIENTS,
    NO_MEDIA,
    PUBLIC_ONLY,
    MediaConfig,
    MediaRouteConfig,
    OutboundConfig,
)
from omnigate.config.structure import Array, Fault, Structure, Value
from omnigate.money import parse_usd
from omnigate.periods import PERIODS, UTC

#: Ten thousand keys with all their settings are about 2 MiB of text.
MAX_CONFIG_BYTES: Final = 4 * 1024 * 1024

#: Enough to mend a file in one go; a file with more is usually wrong in one place.
MAX_FAULTS: Final = 500

#: The longest key has four. The TOML reader notes every beginning of a key with dots: one of 100 KB
#: would take it ten gigabytes and a minute.
MAX_KEY_PARTS: Final = 64

#: Bounds on the tables of one file; a gateway that needs more has managed keys and more gateways.
MAX_KEYS: Final = 10_000
MAX_UPSTREAMS: Final = 500
MAX_ROUTES: Final = 5_000
MAX_TARGETS: Final = 64
MAX_PATTERNS: Final = 500
MAX_BETAS: Final = 64
MAX_COMPOSE_HASHES: Final = 64

ProtocolName = Literal["openai", "anthropic"]
StrategyName = Literal["failover", "round_robin", "weighted"]
Abandon = Literal["read_on", "cancel"]
BudgetPeriod = Literal["daily", "weekly", "monthly", "total"]

Name = Annotated[str, Value(values.name)]
EnvName = Annotated[str, Value(values.env_name)]
Flag = Annotated[bool, Value(values.flag)]
Milliseconds = Annotated[int, Value(values.whole(1, values.MAX_MS))]
Days = Annotated[int, Value(values.whole(0, 36_500))]
PriceUsd = Annotated[Decimal, Value(values.usd(values.MAX_PRICE_USD))]


@attrs.frozen
class KeyConfig:
    """``[[keys]]``: a gateway key of the file, by its hash or by the variable that holds it.

    ``rpm``, ``tpm`` and ``max_concurrent`` 0 mean no limit of the key's own; ``models``,
    ``allowed_ips`` and ``endpoints`` None mean all, ``expires_at`` None never.
    ``soft_budget_usd`` only tells. Without ``budget_period`` budgets never turn (``total``);
    ``budget_timezone`` is the zone whose midnights its days, weeks and months begin at.
    ``max_open_jobs`` 0 means no limit, ``max_jobs_per_day`` 0 that of ``[media]``. Webhooks of its
    jobs are signed with the secret in ``webhook_secret_env``, and their outputs are stored for its
    own ``age_recipients``, if it has any.
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
    budget_period: Annotated[BudgetPeriod, Value(values.one_of(*PERIODS))] = "total"
    budget_timezone: Annotated[str, Value(values.time_zone)] = UTC
    soft_budget_usd: Annotated[Decimal, Value(values.budget)] | None = None
    tpm: Annotated[int, Value(values.whole(0, key_values.MAX_TPM))] = 0
    allowed_ips: (
        Annotated[
            tuple[Annotated[str, Value(key_values.network)], ...],
            Array(1, key_values.MAX_NETWORKS),
        ]
        | None
    ) = None
    endpoints: (
        Annotated[
            tuple[Annotated[str, Value(key_values.endpoint_kind)], ...],
            Array(1, len(key_values.ENDPOINT_KINDS)),
        ]
        | None
    ) = None
    expires_at: Annotated[str, Value(key_values.instant)] | None = None
    max_open_jobs: Annotated[int, Value(values.whole(0, key_values.MAX_JOBS))] = 0
    max_jobs_per_day: Annotated[int, Value(values.whole(0, key_values.MAX_JOBS))] = 0
    webhook_secret_env: EnvName | None = None
    age_recipients: Annotated[
        tuple[Annotated[str, Value(media_values.age_recipient)], ...], Array(0, MAX_RECIPIENTS)
    ] = ()

    @property
    def expires_ms(self) -> int:
        """When it expires, in milliseconds since 1970, or 0 for a key that never does."""
        return 0 if self.expires_at is None else key_values.instant_ms(self.expires_at)

    @property
    def budget_nano(self) -> int | None:
        """The budget in nano-dollars, or None for a key without one."""
        return None if self.budget_usd is None else parse_usd(self.budget_usd)

    @property
    def soft_budget_nano(self) -> int | None:
        """The soft budget in nano-dollars, or None for a key without one."""
        return None if self.soft_budget_usd is None else parse_usd(self.soft_budget_usd)


@attrs.frozen
class CooldownConfig:
    """``cooldown``: after ``failures`` within ``window_s``, a target rests for ``seconds``."""

    failures: Annotated[int, Value(values.whole(1, values.MAX_COOLDOWN_FAILURES))] = 3
    window_s: Annotated[int, Value(values.whole(1, values.MAX_COOLDOWN_S))] = 30
    seconds: Annotated[int, Value(values.whole(0, values.MAX_COOLDOWN_S))] = 30


@attrs.frozen
class AttestationConfig:
    """``attestation``: an upstream that signs its answers, for receipts.

    ``kind`` says which provider's interface it has, ``signing_algo`` which signature is asked for.
    With ``compose_hashes`` a receipt fails whose node runs something else.
    """

    kind: Annotated[str, Value(values.one_of("near", "redpill"))]
    signing_algo: Annotated[str, Value(values.one_of("ecdsa", "ed25519"))] = "ecdsa"
    compose_hashes: Annotated[
        tuple[Annotated[str, Value(values.plain_sha256)], ...], Array(0, MAX_COMPOSE_HASHES)
    ] = ()


@attrs.frozen
class UpstreamConfig:
    """``[[upstreams]]``: a text provider.

    ``base_url`` goes up to and with ``/v1``. ``api_key_env`` None: no credential is sent.
    ``attestation`` None: it signs nothing.
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
    attestation: AttestationConfig | None = None


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

    None leaves a capability to :mod:`omnigate.config.models`. The meaning of each is told in
    :class:`omnigate.capabilities.Capabilities`.
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
        Annotated[tuple[Annotated[str, Value(values.one_of(*EFFORTS))], ...], Array(1, 16)] | None
    ) = None
    stop: Flag | None = None
    max_tokens_field: (
        Annotated[str, Value(values.one_of("max_tokens", "max_completion_tokens"))] | None
    ) = None
    user_field: Annotated[str, Value(values.one_of("user", "safety_identifier"))] | None = None
    upstream_api: Annotated[str, Value(values.one_of("chat", "responses"))] | None = None
    max_output: Annotated[int, Value(values.whole(1, values.MAX_OUTPUT_TOKENS))] | None = None


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
    cache_ttl_s: Annotated[int, Value(values.whole(0, values.MAX_CACHE_TTL_S))] = 0


@attrs.frozen
class RetentionConfig:
    """``[retention]``: how long, in days, each store keeps what it has; 0 is for ever."""

    ledger_days: Days = 0
    ledger_ids_days: Days = 3
    jobs_days: Days = 30
    receipts_days: Days = 90


def _routes_by_model(config: Config) -> Mapping[str, RouteConfig]:
    return {route.model: route for route in config.routes}


def _media_by_model(config: Config) -> Mapping[str, MediaRouteConfig]:
    return {route.model: route for route in config.media.routes}


@attrs.frozen
class Config:
    """The whole file, with every reference in it resolved; made by :func:`load_config`."""

    keys: Annotated[tuple[KeyConfig, ...], Array(0, MAX_KEYS)] = ()
    upstreams: Annotated[tuple[UpstreamConfig, ...], Array(0, MAX_UPSTREAMS)] = ()
    routes: Annotated[tuple[RouteConfig, ...], Array(0, MAX_ROUTES)] = ()
    media: MediaConfig = NO_MEDIA
    outbound: OutboundConfig = PUBLIC_ONLY
    retention: RetentionConfig = RetentionConfig()
    #: Looked up once per usage event, so it is made once per config.
    routes_by_model: Mapping[str, RouteConfig] = attrs.field(
        init=False, eq=False, repr=False, default=attrs.Factory(_routes_by_model, takes_self=True)
    )
    #: The same for media routes.
    media_by_model: Mapping[str, MediaRouteConfig] = attrs.field(
        init=False, eq=False, repr=False, default=attrs.Factory(_media_by_model, takes_self=True)
    )


class ConfigError(ValueError):
    """A config that cannot be used.

    :ivar faults: everything that is wrong with it, in the order of their paths.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in faults))


_STRUCTURE: Final = Structure(
    Config,
    {
        (KeyConfig, "disabled"): "is for managed keys: take the key out, or give it an expires_at",
        **{
            (TargetConfig, field.name): f"is one of caps: write caps = {{ {field.name} = … }}"
            for field in attrs.fields(CapsConfig)
        },
    },
)

_TOML_PLACE = re.compile(r"(?P<what>.*) \(at (?P<where>[^()]*)\)", re.DOTALL)
_DIGITS = re.compile(r"[0-9_]+")
_ROW = re.compile(r"(?P<above>media\.)?(?P<table>keys|upstreams|routes)\[(?P<index>\d+)\]")
_PATH_PART = re.compile(r"\[(\d+)\]|([^.\[]+)")


def load_config(text: str) -> Config:
    """Return the config that a TOML text holds.

    :raises ConfigError: with every fault of the text; of a text that is no TOML only the first
        syntax fault can be told, with its line.
    """
    document = _document(text)
    config, faults = _STRUCTURE.read(document)
    faults += disagreements(document)
    if faults:
        faults.sort(key=_by_place)
        if len(faults) > MAX_FAULTS:
            more = Fault("", f"and {len(faults) - MAX_FAULTS} more faults")
            faults = [*faults[:MAX_FAULTS], more]
        raise ConfigError([_with_row(fault, document) for fault in faults])
    return cast("Config", config)


# Where a key may begin in a line, a table's name too, and the beginning of one that is too long.
_KEY_BEGINS: Final = re.compile(r"\A[ \t]*+\[?+\[?+|[{,]")
_PART: Final = r"""[ \t]*+(?>[A-Za-z0-9_-]++|"(?>[^"\\]|\\.)*+"|'[^']*+')[ \t]*+\."""
_TOO_MANY_PARTS: Final = re.compile(f"(?:{_PART}){{{MAX_KEY_PARTS}}}", re.ASCII)


def _document(text: str) -> dict[str, Any]:
    """Parse TOML; numbers with a point stay exact decimals."""
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError([Fault("", f"the file is longer than {MAX_CONFIG_BYTES} bytes")])
    text = text.removeprefix("\ufeff")
    for number, line in enumerate(text.split("\n"), 1):
        # One call for each place, since a long one would hold the interpreter's lock.
        if line.count(".") >= MAX_KEY_PARTS and any(
            _TOO_MANY_PARTS.match(line, begin.end()) for begin in _KEY_BEGINS.finditer(line)
        ):
            what = f"a key has more than {MAX_KEY_PARTS} parts"
            raise ConfigError([Fault(f"line {number}", what)])
    try:
        return tomllib.loads(text, parse_float=_exact)
    except RecursionError:
        raise ConfigError([Fault("", "arrays or tables are nested too deep")]) from None
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        found = _TOML_PLACE.fullmatch(str(error))
        where, what = (found["where"], found["what"]) if found else _endless_number(text)
        raise ConfigError([Fault(where, f"{what[:1].lower()}{what[1:]}")]) from None


def _endless_number(text: str) -> tuple[str, str]:
    """Return where the number is that has more digits than any program reads, and what to say."""
    for digits in _DIGITS.finditer(text):
        if len(digits[0].replace("_", "")) > sys.get_int_max_str_digits() > 0:
            line = text.count("\n", 0, digits.start()) + 1
            return f"line {line}", "a number has thousands of digits"
    return "", "the file is no TOML"


def _exact(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:  # an exponent beyond what decimals can hold
        return Decimal("Infinity")


def _with_row(fault: Fault, document: Mapping[str, object]) -> Fault:
    """Return the fault with the name of the key, the upstream or the route that has it."""
    found = _ROW.match(fault.path)
    if found is None:
        return fault
    above = document.get("media") if found["above"] else document
    rows = above.get(found["table"]) if isinstance(above, Mapping) else None
    row = rows[int(found["index"])] if isinstance(rows, list) else None
    field, check = ("name", values.name)
    if found["table"] == "routes":
        field, check = ("model", values.model_id)
    try:
        name = check(row.get(field) if isinstance(row, Mapping) else None)
    except values.BadValueError:
        return fault
    return attrs.evolve(fault, row=values.quoted(name))


def _by_place(fault: Fault) -> list[tuple[str, int]]:
    """Return a key that puts ``keys[2]`` before ``keys[10]``."""
    parts = _PATH_PART.findall(fault.path)
    return [(name, int(index or 0)) for index, name in parts]
