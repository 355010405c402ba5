"""What a snapshot may say: every row judged, and what several of them must agree on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.config import key_values, values
from omnigate.config.snapshot_rows import Snapshot, SnapshotKey, SnapshotRoute, SnapshotUpstream
from omnigate.periods import END_MS

Row = TypeVar("Row")


class SnapshotError(ValueError):
    """Bytes that are not exactly a snapshot; the text says where and why."""


def check_snapshot(snapshot: Snapshot, known: Snapshot | None = None) -> None:
    """Judge everything that a snapshot says, but for its version.

    :param known: one that was judged before; keys that it holds, too, are not judged again.
    :raises SnapshotError: a value is out of bounds, a name is there twice, a secret opens two keys,
        or a target has no upstream.
    """
    judged = {key.sha256: key for key in known.keys} if known is not None else {}

    def check_key(key: SnapshotKey) -> None:
        if judged.get(key.sha256) != key:
            _check_key(key)

    _check_rows("keys", snapshot.keys, check_key, lambda key: key.sha256)
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
_attestation = values.one_of("near", "redpill")
_signing_algo = values.one_of("ecdsa", "ed25519")
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
    if upstream.attestation:
        _attestation(upstream.attestation)
        _signing_algo(upstream.signing_algo)
    for digest in upstream.compose_hashes:
        values.plain_sha256(digest)


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
