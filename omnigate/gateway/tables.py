"""The config snapshot compiled for serving; built aside and swapped whole.

What must outlive a snapshot is carried over from the tables before: what a key holds
and its bucket, an upstream's kept connections, how a target has fared, whose turn a
route is at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs
import msgspec

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotSecret,
    SnapshotUpstream,
)
from omnigate.dialects.endpoints import ENDPOINTS
from omnigate.dialects.models import models_list
from omnigate.dialects.translate import SERVED_BY_BOTH
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.cooldown import Cooldown
from omnigate.gateway.key_rules import KeyRules, key_rules
from omnigate.protocols.pool import UpstreamPool
from omnigate.token_bucket import AmountBucket, TokenBucket

#: Model lists kept, each of them made in 1 to 5 ms and up to 500 KB long: most keys share one.
MAX_MODEL_LISTS = 32


@attrs.define(eq=False)
class Key:
    """A gateway key as the data plane knows it; the key itself is nowhere.

    :ivar entry: the line of the snapshot that it was compiled from.
    :ivar sha256: its identity, by which everything is counted.
    :ivar rules: what holds for it beyond what any key has; ``None`` for most keys.
    :ivar secrets: the same key as each of its secrets opens it, by their SHA-256; ``None`` where
        its identity is its one secret.
    """

    entry: SnapshotKey
    name: str
    sha256: str
    rpm: int
    exact: frozenset[str] | None
    prefixes: tuple[str, ...]
    blocked: bool
    max_concurrent: int
    bucket: TokenBucket | None
    use: KeyUse
    rules: KeyRules | None = None
    secrets: dict[bytes, Key] | None = None

    def allows(self, model: str) -> bool:
        """Whether the key may ask for this model."""
        return self.exact is None or model in self.exact or model.startswith(self.prefixes)


@attrs.define(eq=False)
class Upstream:
    """A provider: where it is, what it is sent, and the connections kept to it.

    :ivar secret: the credential's bytes, empty when none is sent.
    :ivar missing: the variable that should hold the credential and does not.
    :ivar lines: the header lines that every request to it carries.
    :ivar path: what stands before the endpoint's own path.
    """

    config: SnapshotUpstream
    pool: UpstreamPool
    secret: bytes = attrs.field(repr=False)
    missing: str | None
    lines: bytes = attrs.field(repr=False)
    path: bytes
    drop_betas: frozenset[bytes]
    head_timeout_seconds: float


@attrs.define(eq=False)
class Target:
    """A model at an upstream.

    :ivar passes: the protocol of its upstream, where requests in it pass as they are, whatever
        they ask for; else empty.
    :ivar caps: what the model can do there, for a request that must be translated for it.
    """

    upstream: Upstream
    upstream_name: str
    model: str
    model_json: bytes
    weight: int
    passes: str
    caps: Capabilities
    cooldown: Cooldown

    def resting(self, now: float) -> bool:
        """Whether it is to be tried last."""
        return self.cooldown.resting_until > now


@attrs.define(eq=False)
class Route:
    """What a model name leads to.

    :ivar entry: what of the snapshot it was compiled from.
    :ivar by_kind: the targets that serve each kind of endpoint.
    :ivar turn: requests so far; where ``round_robin`` goes on.
    """

    entry: SnapshotRoute
    model: str
    strategy: str
    cache_ttl_s: int
    targets: tuple[Target, ...]
    by_kind: dict[str, tuple[Target, ...]]
    turn: int = 0


@attrs.define(eq=False)
class Tables:
    """Everything a request is judged by; taken once at its begin.

    :ivar keys: by the SHA-256 of each secret that opens one.
    :ivar identities: by the SHA-256 that each is counted by.
    :ivar capabilities: what the targets' models can do, each record once.
    :ivar model_lists: answers to ``GET /v1/models`` made before; see :meth:`model_list`.
    """

    version: str
    keys: dict[bytes, Key]
    identities: dict[bytes, Key]
    upstreams: dict[str, Upstream]
    routes: dict[str, Route]
    media_models: tuple[str, ...]
    capabilities: tuple[Capabilities, ...]
    model_lists: dict[tuple[object, ...], bytes] = attrs.field(factory=dict)

    def allows(self, key: Key, model: str) -> bool:
        """Whether there is this model, and the key may use it."""
        return key.allows(model) and (model in self.routes or model in self.media_models)

    def model_list(self, key: Key, protocol: str, created: int) -> bytes:
        """The answer to ``GET /v1/models``, made once for all keys that may use the same models.

        :param created: seconds since 1970, the same at each call.
        """
        kept = (key.exact, key.prefixes, protocol)
        answer = self.model_lists.get(kept)
        if answer is None:
            if len(self.model_lists) >= MAX_MODEL_LISTS:
                self.model_lists.clear()
            answer = models_list(protocol, self.models_of(key), created)
            self.model_lists[kept] = answer
        return answer

    def models_of(self, key: Key) -> list[str]:
        """The model names that the key may use, as the config orders them."""
        return [model for model in (*self.routes, *self.media_models) if key.allows(model)]


OpenUpstream = Callable[[SnapshotUpstream], Upstream]


class KeyLimits:
    """Makes what keys are counted in, where one process serves them all."""

    def uses(self, digests: Collection[bytes]) -> dict[bytes, KeyUse]:
        """What keys hold that were not there before: nothing yet.

        :param digests: the SHA-256 of each.
        """
        return {digest: KeyUse() for digest in digests}

    def bucket(self, use: KeyUse, rpm: int) -> TokenBucket:
        """A bucket for a key, full where nothing was taken from it lately."""
        return TokenBucket(rpm)

    def tokens(self, use: KeyUse, tpm: int) -> AmountBucket:
        """What a key's tokens are counted in, full where none were used lately."""
        return AmountBucket(tpm)

    def keep(self, digests: Collection[bytes]) -> None:
        """Forget all keys but these; what is in flight for the others still is."""


def compile_tables(
    snapshot: Snapshot,
    before: Tables | None,
    open_upstream: OpenUpstream,
    now: float,
    limits: KeyLimits,
) -> Tables:
    """The tables of a snapshot.

    What has not changed is taken over as it is: a new snapshot comes whenever a key is blocked,
    and to compile ten thousand keys and five thousand routes takes 45 ms.

    :param before: the tables in force, to carry over from.
    :param open_upstream: makes an upstream with a fresh pool.
    :param now: seconds on the clock, for the buckets whose rate changes.
    :param limits: makes what new keys are counted in.
    """
    upstreams: dict[str, Upstream] = {}
    for config in snapshot.upstreams:
        known = before.upstreams.get(config.name) if before else None
        upstreams[config.name] = (
            known if known is not None and known.config == config else open_upstream(config)
        )
    old_keys = before.identities if before else {}
    entries = {bytes.fromhex(entry.sha256): entry for entry in snapshot.keys}
    uses = limits.uses([digest for digest in entries if digest not in old_keys])
    identities: dict[bytes, Key] = {}
    for digest, entry in entries.items():
        old = old_keys.get(digest)
        if old is None or old.entry != entry:
            use = uses[digest] if old is None else old.use
            old = _key(entry, old, use, limits, now)
        identities[digest] = old
    kept = {record: record for record in before.capabilities} if before else {}
    capabilities = tuple(kept.get(record, record) for record in snapshot.capabilities)
    old_routes = before.routes if before else {}
    routes = {
        route.model: _route(route, old_routes.get(route.model), upstreams, capabilities)
        for route in snapshot.routes
    }
    return Tables(
        version=snapshot.version,
        keys=_by_secret(identities),
        identities=identities,
        upstreams=upstreams,
        routes=routes,
        media_models=tuple(snapshot.media_models),
        capabilities=capabilities,
    )


def retired_upstreams(before: Tables | None, after: Tables) -> list[Upstream]:
    """The upstreams whose connections nobody will ask for any more."""
    if before is None:
        return []
    kept = {id(upstream) for upstream in after.upstreams.values()}
    return [upstream for upstream in before.upstreams.values() if id(upstream) not in kept]


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


def _by_secret(identities: dict[bytes, Key]) -> dict[bytes, Key]:
    """The keys by what opens them."""
    if all(key.secrets is None for key in identities.values()):
        return identities
    keys: dict[bytes, Key] = {}
    for digest, key in identities.items():
        if key.secrets is None:
            keys[digest] = key
        else:
            keys.update(key.secrets)
    return keys


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
