"""What a request is judged by: the config snapshot as it is compiled for serving.

How it is made of a snapshot stands in :mod:`omnigate.gateway.compiling`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    SnapshotKey,
    SnapshotRoute,
    SnapshotUpstream,
)
from omnigate.dialects.models import models_list
from omnigate.gateway.admission import KeyUse
from omnigate.gateway.cooldown import Cooldown
from omnigate.gateway.key_rules import KeyRules
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


def retired_upstreams(before: Tables | None, after: Tables) -> list[Upstream]:
    """The upstreams whose connections nobody will ask for any more."""
    if before is None:
        return []
    kept = {id(upstream) for upstream in after.upstreams.values()}
    return [upstream for upstream in before.upstreams.values() if id(upstream) not in kept]
