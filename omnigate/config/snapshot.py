"""The snapshot: all that the data plane knows of the configuration, as control hands it over.

It holds key hashes, upstreams with the *names* of the variables that hold their keys, routes, and
nothing about money: a budget arrives as a key's ``blocked`` flag only. On the wire and in the data
plane's cache file it is one JSON object whose first member is ``version``, the SHA-256 of all the
rest, so that any change the data plane could see changes the version, and a damaged file is
recognised. A snapshot is decoded strictly or not at all.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs
import msgspec

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.config import key_values, values
from omnigate.config.models import target_capabilities
from omnigate.config.schema import (
    Abandon,
    Config,
    ProtocolName,
    RouteConfig,
    StrategyName,
    UpstreamConfig,
)
from omnigate.periods import END_MS

#: Ten thousand keys with long model lists are about 4 MiB; eight times that is no snapshot of ours.
MAX_SNAPSHOT_BYTES: Final = 32 * 1024 * 1024

Row = TypeVar("Row")


class SnapshotError(ValueError):
    """Bytes that are not exactly a snapshot; the text says where and why."""


class SnapshotSecret(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hash of a secret that opens a key, and when it stops to; ``until_ms`` 0 is never.

    Instants are milliseconds since 1970; from ``until_ms`` on the secret opens nothing.
    """

    sha256: str
    until_ms: int = 0


class SnapshotKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One gateway key as the data plane sees it.

    ``sha256`` is its identity, by which everything is counted: the hash of its first secret.
    ``secrets`` None: that secret opens it, and no other; else these do, and the first one only if
    it is among them. ``rpm`` and ``tpm`` 0 are no limit, ``max_concurrent`` 0 the data plane's own
    default, ``expires_ms`` 0 never; from ``expires_ms`` on the key opens nothing. ``models``,
    ``allowed_ips`` and ``endpoints`` None are all there are; an entry of ``models`` that ends with
    ``*`` matches a prefix, ``allowed_ips`` holds addresses and networks in their one spelling.

    The members stand in alphabetical order, so that a key is encoded once for the snapshot and for
    its version. Members with their defaults are left out: a snapshot without the limits that came
    later is the same in every version, and data planes and control plane are upgraded in any order.
    """

    allowed_ips: tuple[str, ...] | None = None
    blocked: bool
    endpoints: tuple[str, ...] | None = None
    expires_ms: int = 0
    max_concurrent: int
    models: tuple[str, ...] | None
    name: str
    rpm: int
    secrets: tuple[SnapshotSecret, ...] | None = None
    sha256: str
    tpm: int = 0


@attrs.frozen
class SnapshotUpstream:
    """One text provider: where it is, how long to wait for it, and when to let it rest."""

    name: str
    protocol: ProtocolName
    base_url: str
    api_key_env: str | None
    connect_timeout_ms: int
    head_timeout_ms: int
    cooldown_failures: int
    cooldown_window_s: int
    cooldown_seconds: int
    anthropic_version: str | None
    drop_betas: tuple[str, ...]
    abandon: Abandon
    proxy: str | None
    ca_file: str | None


@attrs.frozen
class SnapshotTarget:
    """A model at an upstream; ``weight`` counts in the strategy ``weighted`` only.

    ``caps`` is the place of its capabilities in the snapshot's list: few of them differ.
    """

    upstream: str
    model: str
    weight: int
    caps: int


@attrs.frozen
class SnapshotRoute:
    """What a model name leads to: targets in the order of the config, and who goes first.

    ``cache_ttl_s`` 0 is no response cache.
    """

    model: str
    strategy: StrategyName
    cache_ttl_s: int
    targets: tuple[SnapshotTarget, ...]


@attrs.frozen
class Snapshot:
    """The whole view of the data plane; ``version`` is 64 hexadecimal digits over all the rest.

    ``capabilities`` holds each record that a target has, once, in the order of the targets.
    """

    version: str
    keys: tuple[SnapshotKey, ...]
    upstreams: tuple[SnapshotUpstream, ...]
    capabilities: tuple[Capabilities, ...]
    routes: tuple[SnapshotRoute, ...]
    media_models: tuple[str, ...]


def build_snapshot(config: Config, keys: Sequence[SnapshotKey]) -> Snapshot:
    """Return the snapshot of a config and of all keys, file keys and managed keys in one list.

    Keys are put in the order of their hashes, so that the version does not depend on where a key
    came from. Of two with the same hash the first is taken.
    """
    snapshot = unsealed(config, keys)
    return attrs.evolve(snapshot, version=_version_of(snapshot))


def unsealed(config: Config, keys: Sequence[SnapshotKey]) -> Snapshot:
    """Return the same snapshot with an empty version."""
    first = {key.sha256: key for key in reversed(keys)}
    upstreams = {upstream.name: upstream for upstream in config.upstreams}
    records = _Records()
    routes = tuple(_route(route, upstreams, records) for route in config.routes)
    return Snapshot(
        version="",
        keys=tuple(first[sha256] for sha256 in sorted(first)),
        upstreams=tuple(_upstream(upstream) for upstream in config.upstreams),
        capabilities=tuple(records.places),
        routes=routes,
        media_models=(),
    )


def _upstream(upstream: UpstreamConfig) -> SnapshotUpstream:
    return SnapshotUpstream(
        name=upstream.name,
        protocol=upstream.protocol,
        base_url=upstream.base_url,
        api_key_env=upstream.api_key_env,
        connect_timeout_ms=upstream.connect_timeout_ms,
        head_timeout_ms=upstream.head_timeout_ms,
        cooldown_failures=upstream.cooldown.failures,
        cooldown_window_s=upstream.cooldown.window_s,
        cooldown_seconds=upstream.cooldown.seconds,
        anthropic_version=upstream.anthropic_version,
        drop_betas=upstream.drop_betas,
        abandon=upstream.abandon,
        proxy=upstream.proxy,
        ca_file=upstream.ca_file,
    )


class _Records:
    """The capabilities of all targets, each record once.

    :ivar places: of the records, in the order in which they came.
    """

    def __init__(self) -> None:
        self.places: dict[Capabilities, int] = {}
        self._by_id: dict[int, int] = {}

    def place(self, record: Capabilities) -> int:
        """Return the place of a record, the next one where it is new."""
        place = self._by_id.get(id(record))
        if place is None:
            place = self.places.setdefault(record, len(self.places))
            if len(self.places) > len(self._by_id):
                # Nearly all records are the table's own, and to hash one takes a microsecond.
                # ``places`` holds this one, so that its id stays its own.
                self._by_id[id(record)] = place
        return place


def _route(
    route: RouteConfig, upstreams: Mapping[str, UpstreamConfig], records: _Records
) -> SnapshotRoute:
    """Return a route as the data plane sees it.

    :param records: the capabilities seen so far; those of its targets are put in.
    """
    targets = tuple(
        SnapshotTarget(
            upstream=target.upstream,
            model=target.model,
            weight=target.weight,
            caps=records.place(target_capabilities(target, upstreams[target.upstream])),
        )
        for target in route.targets
    )
    return SnapshotRoute(
        model=route.model,
        strategy=route.strategy,
        cache_ttl_s=route.cache_ttl_s,
        targets=targets,
    )


def _version_of(snapshot: Snapshot) -> str:
    """Return the SHA-256 over everything but the version itself."""
    return hashlib.sha256(hashed_json(attrs.evolve(snapshot, version=""))).hexdigest()


def hashed_json(snapshot: Snapshot) -> bytes:
    """Return what the version of a snapshot is the SHA-256 of.

    :param snapshot: with an empty version.
    """
    return _sorted_json(snapshot)


def _sorted_json(value: object) -> bytes:
    """Return the one JSON of a value, whatever the order of its members."""
    return msgspec.json.encode(value, order="sorted")


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot as one JSON object, ``version`` first."""
    members = {"version": snapshot.version}
    return msgspec.json.encode(members | attrs.asdict(snapshot, recurse=False))


def decode_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot in ``data``, every row of it checked.

    :raises SnapshotError: the bytes are not a snapshot, hold an unknown or a missing member, a
        value out of bounds, a name twice, a target without its upstream, or do not add up to
        their version.
    """
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise SnapshotError(f"the snapshot is longer than {MAX_SNAPSHOT_BYTES} bytes")
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
        known = _holds_nothing_else(data, snapshot)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot cannot be read: {error}") from None
    if not known:
        raise SnapshotError("the snapshot holds members this version does not know")
    _check_rows("keys", snapshot.keys, _check_key, lambda key: key.sha256)
    _check_secrets(snapshot.keys)
    _check_rows("upstreams", snapshot.upstreams, _check_upstream, lambda upstream: upstream.name)
    _check_rows("capabilities", snapshot.capabilities, _check_capabilities, repr)
    names = frozenset(upstream.name for upstream in snapshot.upstreams)
    records = len(snapshot.capabilities)
    _check_rows(
        "routes",
        snapshot.routes,
        lambda route: _check_route(route, names, records),
        lambda route: route.model,
    )
    _check_rows("media_models", snapshot.media_models, values.model_id, lambda model: model)
    if snapshot.version != _version_of(snapshot):
        raise SnapshotError("the snapshot does not add up to its version: it was damaged or edited")
    return snapshot


def _holds_nothing_else(data: bytes, snapshot: Snapshot) -> bool:
    """Return whether ``data`` says what ``snapshot`` does, and no more.

    msgspec passes over members it does not know; one that this version does not know may be a
    limit that it would then not hold. Bytes of the same version of omnigate are simply equal; only
    others are worth a second reading.
    """
    if encode_snapshot(snapshot) == data:
        return True
    return _sorted_json(snapshot) == _sorted_json(msgspec.json.decode(data))


def _check_rows(
    name: str, rows: Iterable[Row], check: Callable[[Row], object], key: Callable[[Row], str]
) -> None:
    """Judge every row of one list and refuse the second row with the same key."""
    seen: set[str] = set()
    for index, row in enumerate(rows):
        try:
            check(row)
        except values.BadValueError as fault:
            raise SnapshotError(f"{name}[{index}]: {fault}") from None
        word = key(row)
        if word in seen:
            raise SnapshotError(f"{name}[{index}] is there twice")
        seen.add(word)


# Made once, not per row: a data plane may have ten thousand keys to judge, and 20 ms.
_rpm = values.whole(0, values.MAX_RPM)
_tpm = values.whole(0, key_values.MAX_TPM)
_concurrent = values.whole(0, values.MAX_CONCURRENT)
_instant = values.whole(0, END_MS - 1)
_milliseconds = values.whole(1, values.MAX_MS)
_failures = values.whole(1, values.MAX_COOLDOWN_FAILURES)
_window = values.whole(1, values.MAX_COOLDOWN_S)
_rest = values.whole(0, values.MAX_COOLDOWN_S)
_weight = values.whole(0, values.MAX_WEIGHT)
_cache_ttl = values.whole(0, values.MAX_CACHE_TTL_S)
_max_output = values.whole(0, values.MAX_OUTPUT_TOKENS)
_default_max_tokens = values.whole(1, values.MAX_OUTPUT_TOKENS)
_effort = values.one_of(*EFFORTS)
_thinking = values.one_of("budget", "adaptive")
_max_tokens_field = values.one_of("max_tokens", "max_completion_tokens")
_user_field = values.one_of("user", "safety_identifier")
_upstream_api = values.one_of("", "chat", "responses")


def _check_key(key: SnapshotKey) -> None:
    _check_hash(key.sha256)
    values.name(key.name)
    _rpm(key.rpm)
    _concurrent(key.max_concurrent)
    if key.models is not None:
        _check_models(key.models)
    _tpm(key.tpm)
    _instant(key.expires_ms)
    if key.secrets is not None:
        _check_length("secrets", key.secrets, 1 + key_values.MAX_EARLIER_SECRETS)
        for secret in key.secrets:
            _check_hash(secret.sha256)
            _instant(secret.until_ms)
    if key.allowed_ips is not None:
        _check_networks(key.allowed_ips)
    if key.endpoints is not None:
        _check_endpoints(key.endpoints)


def _check_hash(sha256: str) -> None:
    if values.sha256_hex(sha256) != sha256:
        raise values.BadValueError("sha256 is not in lower case")


def _check_length(name: str, entries: Sequence[object], most: int) -> None:
    if not 1 <= len(entries) <= most:
        raise values.BadValueError(f"{name} must have 1 to {most} entries")


def _check_secrets(keys: Sequence[SnapshotKey]) -> None:
    """Refuse a secret that opens two keys, or is the identity of another one.

    What is counted by a hash would else be two keys'.
    """
    rotated = [key for key in keys if key.secrets is not None]
    if not rotated:
        return
    owners = {key.sha256: key.sha256 for key in keys}
    for key in rotated:
        seen: set[str] = set()
        for secret in key.secrets or ():
            if secret.sha256 in seen or owners.setdefault(secret.sha256, key.sha256) != key.sha256:
                raise SnapshotError(f'keys: a secret of "{key.name}" is there twice')
            seen.add(secret.sha256)


# Many keys share a few lists.
@functools.lru_cache(maxsize=256)
def _check_networks(networks: tuple[str, ...]) -> None:
    _check_length("allowed_ips", networks, key_values.MAX_NETWORKS)
    for network in networks:
        if key_values.network(network) != network:
            raise values.BadValueError("allowed_ips has a network in another spelling")


@functools.lru_cache(maxsize=256)
def _check_endpoints(endpoints: tuple[str, ...]) -> None:
    _check_length("endpoints", endpoints, len(key_values.ENDPOINT_KINDS))
    for kind in endpoints:
        key_values.endpoint_kind(kind)


@functools.lru_cache(maxsize=256)
def _check_models(models: tuple[str, ...]) -> None:
    for pattern in models:
        values.model_pattern(pattern)


def _check_upstream(upstream: SnapshotUpstream) -> None:
    values.name(upstream.name)
    values.base_url(upstream.base_url)
    for milliseconds in (upstream.connect_timeout_ms, upstream.head_timeout_ms):
        _milliseconds(milliseconds)
    _failures(upstream.cooldown_failures)
    _window(upstream.cooldown_window_s)
    _rest(upstream.cooldown_seconds)
    if upstream.api_key_env is not None:
        values.env_name(upstream.api_key_env)
    for header in (upstream.anthropic_version, *upstream.drop_betas):
        if header is not None:
            values.header_token(header)
    if upstream.proxy is not None:
        values.proxy_url(upstream.proxy)
    if upstream.ca_file is not None:
        values.absolute_path(upstream.ca_file)


def _check_capabilities(capabilities: Capabilities) -> None:
    _thinking(capabilities.thinking)
    _max_tokens_field(capabilities.max_tokens_field)
    _user_field(capabilities.user_field)
    _upstream_api(capabilities.upstream_api)
    for effort in capabilities.efforts:
        _effort(effort)
    _max_output(capabilities.max_output)
    _default_max_tokens(capabilities.default_max_tokens)


def _check_route(route: SnapshotRoute, upstreams: frozenset[str], records: int) -> None:
    _cache_ttl(route.cache_ttl_s)
    values.model_id(route.model)
    if not route.targets:
        raise values.BadValueError("has no target")
    for target in route.targets:
        if target.upstream not in upstreams:
            raise values.BadValueError(f"no upstream named {values.quoted(target.upstream)}")
        if not 0 <= target.caps < records:
            raise values.BadValueError(f"no capabilities at place {target.caps}")
        values.upstream_model(target.model)
        _weight(target.weight)
