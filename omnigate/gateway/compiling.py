"""Compiles a config snapshot for serving; built aside, in slices, and swapped whole.

What must outlive a snapshot is carried over from the tables before: what a key holds
and its bucket, an upstream's kept connections, how a target has fared, whose turn a
route is at.
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotSecret,
)
from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.dialects.translate import SERVED_BY_BOTH
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.cooldown import Cooldown
from omnigate.gateway.key_rules import key_rules
from omnigate.gateway.tables import Key, KeyLimits, OpenUpstream, Route, Tables, Target, Upstream
from omnigate.token_bucket import AmountBucket

#: Rows compiled between two looks at the reactor. A key with every limit, eight secrets in their
#: grace and counters that workers share takes 30 µs; the dearest slice is 6 ms.
ROWS_AT_ONCE = 128
#: Keys put in order between two looks, at 0.4 µs each, or given counters that workers share, at
#: 3.5 µs each.
HASHES_AT_ONCE = 2048


def compile_tables(
    snapshot: Snapshot,
    before: Tables | None,
    open_upstream: OpenUpstream,
    now: float,
    limits: KeyLimits,
) -> Generator[None, None, Tables]:
    """Make the tables of a snapshot, in slices; what the generator returns are they.

    What has not changed is taken over as it is: a new snapshot comes whenever a key is blocked.
    Where it is given up half way, whatever was in force still is as it was.

    :param before: the tables in force, to carry over from; none other may come into force before
        the generator is at its end.
    :param open_upstream: makes an upstream with a fresh pool.
    :param now: seconds on the clock, for the buckets whose rate changes.
    :param limits: makes what new keys are counted in.
    """
    upstreams: dict[str, Upstream] = {}
    for number, config in enumerate(snapshot.upstreams):
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            yield
        known = before.upstreams.get(config.name) if before else None
        upstreams[config.name] = (
            known if known is not None and known.config == config else open_upstream(config)
        )
    kept = {record: record for record in before.capabilities} if before else {}
    capabilities = tuple(kept.get(record, record) for record in snapshot.capabilities)
    old_routes = before.routes if before else {}
    routes: dict[str, Route] = {}
    for number, route in enumerate(snapshot.routes):
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            yield
        model = route.model
        routes[model] = _route(route, old_routes.get(model), upstreams, capabilities)
    # Last, since the buckets of keys in force are changed with them: an upstream that cannot be
    # opened must leave each at the rate that its key still has.
    old_keys = before.identities if before else {}
    entries: dict[bytes, SnapshotKey] = {}
    for number, entry in enumerate(snapshot.keys, 1):
        entries[bytes.fromhex(entry.sha256)] = entry
        if number % HASHES_AT_ONCE == 0:
            yield
    new = [digest for digest in entries if digest not in old_keys]
    uses = limits.uses(new[:HASHES_AT_ONCE])
    for start in range(HASHES_AT_ONCE, len(new), HASHES_AT_ONCE):
        yield
        uses |= limits.uses(new[start : start + HASHES_AT_ONCE])
    identities: dict[bytes, Key] = {}
    keys: dict[bytes, Key] = {}
    rotated = False
    for number, (digest, entry) in enumerate(entries.items()):
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            yield
        key = old_keys.get(digest)
        if key is None or key.entry != entry:
            use = uses[digest] if key is None else key.use
            key = _key(entry, key, use, limits, now)
        identities[digest] = key
        if key.secrets is None:
            keys[digest] = key
        else:
            rotated = True
            keys.update(key.secrets)
    return Tables(
        version=snapshot.version,
        keys=keys if rotated else identities,
        identities=identities,
        upstreams=upstreams,
        routes=routes,
        media_models=tuple(snapshot.media_models),
        capabilities=capabilities,
    )


def _key(entry: SnapshotKey, old: Key | None, use: KeyUse, limits: KeyLimits, now: float) -> Key:
    exact: frozenset[str] | None = None
    prefixes: tuple[str, ...] = ()
    if entry.models is not None:
        exact = frozenset(model for model in entry.models if not model.endswith("*"))
        prefixes = tuple(model[:-1] for model in entry.models if model.endswith("*"))
    bucket = old.bucket if old is not None else None
    if entry.rpm <= 0:
        bucket = None
    elif bucket is None:
        bucket = limits.bucket(use, entry.rpm)
    else:
        bucket.resize(entry.rpm, now)
    tokens = old.rules.tokens if old is not None and old.rules is not None else None
    if entry.tpm <= 0:
        tokens = None
    elif tokens is None:
        tokens = limits.tokens(use, entry.tpm)
    else:
        tokens.resize(entry.tpm)
    key = Key(
        entry=entry,
        name=entry.name,
        sha256=entry.sha256,
        rpm=entry.rpm,
        exact=exact,
        prefixes=prefixes,
        blocked=entry.blocked,
        max_concurrent=entry.max_concurrent,
        bucket=bucket,
        use=use,
        rules=key_rules(entry, tokens),
    )
    if entry.secrets is not None:
        key.secrets = {
            bytes.fromhex(secret.sha256): _opened_by(key, tokens, secret)
            for secret in entry.secrets
        }
    return key


def _opened_by(key: Key, tokens: AmountBucket | None, secret: SnapshotSecret) -> Key:
    """The same key as one of its secrets opens it."""
    # By hand: to evolve a record takes ten times as long.
    return Key(
        entry=key.entry,
        name=key.name,
        sha256=key.sha256,
        rpm=key.rpm,
        exact=key.exact,
        prefixes=key.prefixes,
        blocked=key.blocked,
        max_concurrent=key.max_concurrent,
        bucket=key.bucket,
        use=key.use,
        rules=key_rules(key.entry, tokens, secret.until_ms),
    )


def _route(
    entry: SnapshotRoute,
    old: Route | None,
    upstreams: dict[str, Upstream],
    capabilities: tuple[Capabilities, ...],
) -> Route:
    fared = {}
    if old is not None:
        if old.entry == entry and all(
            target.upstream is upstreams[wanted.upstream]
            and target.caps is capabilities[wanted.caps]
            for target, wanted in zip(old.targets, entry.targets, strict=True)
        ):
            return old
        fared = {(id(t.upstream), t.model): t.cooldown for t in old.targets}
    targets = []
    for target in entry.targets:
        upstream = upstreams[target.upstream]
        cooldown = fared.get((id(upstream), target.model))
        if cooldown is None:
            config = upstream.config
            cooldown = Cooldown(
                config.cooldown_failures, config.cooldown_window_s, config.cooldown_seconds
            )
        caps = capabilities[target.caps]
        depends = caps.upstream_api or caps.tools_over_responses
        targets.append(
            Target(
                upstream=upstream,
                upstream_name=upstream.config.name,
                model=target.model,
                model_json=msgspec.json.encode(target.model),
                weight=target.weight,
                passes="" if depends else upstream.config.protocol,
                caps=caps,
                cooldown=cooldown,
            )
        )
    everyone = tuple(targets)
    by_kind: dict[str, tuple[Target, ...]] = {}
    for endpoint in ENDPOINTS.values():
        if endpoint.kind in SERVED_BY_BOTH:
            by_kind[endpoint.kind] = everyone
        else:
            by_kind[endpoint.kind] = tuple(
                target for target in targets if target.upstream.config.protocol == endpoint.protocol
            )
    return Route(
        entry=entry,
        model=entry.model,
        strategy=entry.strategy,
        cache_ttl_s=entry.cache_ttl_s,
        targets=everyone,
        by_kind=by_kind,
        turn=old.turn if old is not None else 0,
    )
