"""The rows of a snapshot: keys, upstreams, targets, routes, and all of them together."""

from __future__ import annotations

import attrs
import msgspec

from omnigate.capabilities import Capabilities
from omnigate.config.schema import Abandon, ProtocolName, StrategyName


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
    """One text provider: where it is, how long to wait for it, and when to let it rest.

    :ivar attestation: whose interface it has to sign answers; empty for one that signs none.
    """

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
    attestation: str = ""
    signing_algo: str = ""
    compose_hashes: tuple[str, ...] = ()


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
