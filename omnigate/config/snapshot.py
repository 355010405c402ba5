"""The snapshot: all that the data plane knows of the configuration, as control hands it over.

It holds key hashes, upstreams with the *names* of the variables that hold their keys, routes, and
nothing about money: a budget arrives as a key's ``blocked`` flag only. On the wire and in the data
plane's cache file it is one JSON object whose first member is ``version``, the SHA-256 of all the
rest, so that any change the data plane could see changes the version, and a damaged file is
recognised. A snapshot is decoded strictly or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import msgspec

from omnigate.capabilities import Capabilities
from omnigate.config.models import target_capabilities
from omnigate.config.schema import Config, RouteConfig, UpstreamConfig
from omnigate.config.snapshot_checks import SnapshotError, check_snapshot
from omnigate.config.snapshot_rows import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotSecret,
    SnapshotTarget,
    SnapshotUpstream,
)

__all__ = [
    "MAX_SNAPSHOT_BYTES",
    "Snapshot",
    "SnapshotError",
    "SnapshotKey",
    "SnapshotRoute",
    "SnapshotSecret",
    "SnapshotTarget",
    "SnapshotUpstream",
    "build_snapshot",
    "decode_snapshot",
    "encode_snapshot",
    "hashed_json",
    "unsealed",
]

#: Ten thousand keys with long model lists are about 4 MiB; eight times that is no snapshot of ours.
MAX_SNAPSHOT_BYTES: Final = 32 * 1024 * 1024


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
        media_models=tuple(route.model for route in config.media.routes),
    )


def _upstream(upstream: UpstreamConfig) -> SnapshotUpstream:
    attested = upstream.attestation
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
        attestation="" if attested is None else attested.kind,
        signing_algo="" if attested is None else attested.signing_algo,
        compose_hashes=() if attested is None else attested.compose_hashes,
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


def decode_snapshot(data: bytes, known: Snapshot | None = None) -> Snapshot:
    """Return the snapshot in ``data``, every row of it checked.

    :param known: one that was decoded before, most of whose keys may have stayed as they were:
        those are checked by comparing them, which takes a tenth of the time and less.
    :raises SnapshotError: the bytes are not a snapshot, hold an unknown or a missing member, a
        value out of bounds, a name twice, a target without its upstream, or do not add up to
        their version.
    """
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise SnapshotError(f"the snapshot is longer than {MAX_SNAPSHOT_BYTES} bytes")
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
        alike = _holds_nothing_else(data, snapshot)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot cannot be read: {error}") from None
    if not alike:
        raise SnapshotError("the snapshot holds members this version does not know")
    check_snapshot(snapshot, known)
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
