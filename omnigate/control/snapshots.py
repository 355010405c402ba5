"""The snapshot for data planes: made anew when a key, a block or the config has changed.

A poll that finds nothing changed gets the snapshot there is, after a few comparisons. Where
something did change, only the keys that look different are encoded again; the rest is put together
out of pieces (:mod:`omnigate.config.snapshot_pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from omnigate.config.schema import Config
from omnigate.config.snapshot import SnapshotKey, SnapshotSecret
from omnigate.config.snapshot_pieces import Frame, encode_frame, encode_key, seal
from omnigate.control.budget_watch import BudgetWatch, Pause
from omnigate.control.gateway_key import GatewayKey
from omnigate.ledger.service import LedgerNotReady
from omnigate.writer_thread import IWriter

#: Keys that are gone through, and encoded if need be, in one go on the reactor's thread: 2 ms.
MAX_KEYS_AT_ONCE: Final = 500

#: Models and addresses of those keys: 2 ms, however long their names are.
MAX_ENTRIES_AT_ONCE: Final = 5_000

#: Targets that are encoded in one go there: 1 ms, or 12 ms for models that were never seen before.
MAX_TARGETS_AT_ONCE: Final = 500


@attrs.frozen
class Encoded:
    """A snapshot as data planes get it."""

    version: str
    data: bytes


@attrs.frozen
class _Made:
    """A snapshot, and all that the next one may be made from.

    :ivar by_hash: the keys that data planes are to know; the tuple of all tells by identity whether
        any is another one.
    :ivar rows: the keys as they were encoded, by hash too.
    :ivar order: the hashes in their order.
    """

    config: Config
    frame: Frame
    keys: tuple[GatewayKey, ...]
    blocked: frozenset[str]
    by_hash: Mapping[str, GatewayKey]
    rows: Mapping[str, bytes]
    order: Sequence[str]
    encoded: Encoded


class Snapshots:
    """Makes snapshots of the config in force, the keys, and who of them is blocked.

    :param watch: knows the keys, and which of them are blocked.
    :param worker: encodes a snapshot of many keys or targets away from the reactor.
    :param pause: lets the reactor do something else in between.
    """

    _log = Logger()

    def __init__(
        self,
        config: Callable[[], Config],
        watch: BudgetWatch,
        worker: IWriter,
        pause: Pause,
    ) -> None:
        self._config = config
        self._watch = watch
        self._worker = worker
        self._pause = pause
        self._turn = DeferredLock()
        self._made: _Made | None = None
        self._revision = 0

    @property
    def version(self) -> str:
        """The version of the newest snapshot there is; empty before the first."""
        return "" if self._made is None else self._made.encoded.version

    async def current(self) -> Encoded:
        """Return the snapshot as of now.

        :raises LedgerNotReady: what was spent cannot be told yet.
        """
        if not self._watch.ready:
            # Also where no key has a budget: a restart looks the same to every data plane.
            raise LedgerNotReady
        made = self._up_to_date()
        if made is None:
            await self._turn.acquire()
            try:
                # Of several that wait, the first makes it for all.
                made = self._up_to_date() or await self._make()
            finally:
                self._turn.release()
        return made.encoded

    def begin(self) -> None:
        """Look at all keys and make the first snapshot, now that the ledger is loaded."""
        made = Deferred.fromCoroutine(self.current())
        made.addErrback(lambda failure: self._log.failure("no snapshot could be made", failure))

    def version_after_events(self) -> str:
        """Return the version of the snapshot now that events were recorded.

        It takes no longer than to compare the keys of these events with their budgets.

        :return: empty where another snapshot has to be made, so that its version is not known.
        """
        try:
            self._watch.look()
            made = self._up_to_date()
        except Exception:
            # The events are on the disk and have to be acknowledged, whatever becomes of budgets.
            self._log.failure("the budgets of recorded events could not be compared")
            return ""
        return "" if made is None else made.encoded.version

    def _up_to_date(self) -> _Made | None:
        """Return the last snapshot, if nothing that it was made of has changed."""
        made, watch = self._made, self._watch
        if (
            made is None
            or watch.pending
            or self._revision != watch.revision
            or made.config is not self._config()
        ):
            return None
        return made

    async def _make(self) -> _Made:
        watch = self._watch
        await watch.settle(self._pause)
        made, config, revision = self._made, self._config(), watch.revision
        if made is not None and made.config is config and self._revision == revision:
            return made
        job = partial(_made_after, made, config, watch.keys, watch.blocked)
        targets = sum(len(route.targets) for route in config.routes)
        if targets <= MAX_TARGETS_AT_ONCE and _are_few(watch.keys):
            made = job()
        else:
            made = await self._worker.submit(job)
        self._made, self._revision = made, revision
        return made


def _are_few(keys: Sequence[GatewayKey]) -> bool:
    """Whether keys are few enough, and what they name, to be gone through in one go."""
    return (
        len(keys) <= MAX_KEYS_AT_ONCE
        and sum(key.list_entries for key in keys) <= MAX_ENTRIES_AT_ONCE
    )


def _made_after(
    last: _Made | None, config: Config, keys: tuple[GatewayKey, ...], blocked: frozenset[str]
) -> _Made:
    """Make a snapshot; what is in the last one is not encoded again."""
    if last is None or last.config is not config:
        frame = encode_frame(config)
    else:
        frame = last.frame
    if last is not None and last.keys is keys:
        rows, by_hash, order = dict(last.rows), last.by_hash, last.order
        for sha256 in blocked ^ last.blocked:
            if sha256 in by_hash:
                rows[sha256] = _encoded(by_hash[sha256], blocked)
    else:
        by_hash = {key.sha256: key for key in keys if not key.disabled}
        rows = _rows(last, by_hash, blocked)
        order = sorted(rows)
    version, data = seal(frame, [rows[sha256] for sha256 in order])
    return _Made(config, frame, keys, blocked, by_hash, rows, order, Encoded(version, data))


def _rows(
    last: _Made | None, by_hash: Mapping[str, GatewayKey], blocked: frozenset[str]
) -> dict[str, bytes]:
    """Return all keys encoded; those that are as they were in the last snapshot are taken over."""
    if last is None:
        return {sha256: _encoded(key, blocked) for sha256, key in by_hash.items()}
    rows: dict[str, bytes] = {}
    for sha256, key in by_hash.items():
        was = last.by_hash.get(sha256)
        # Keys are replaced and never changed, so most are the very same.
        same = was is key or was == key
        if same and (sha256 in blocked) is (sha256 in last.blocked):
            rows[sha256] = last.rows[sha256]
        else:
            rows[sha256] = _encoded(key, blocked)
    return rows


def _encoded(key: GatewayKey, blocked: frozenset[str]) -> bytes:
    return encode_key(
        SnapshotKey(
            allowed_ips=key.allowed_ips,
            blocked=key.sha256 in blocked,
            endpoints=key.endpoints,
            expires_ms=key.expires_ms,
            max_concurrent=key.max_concurrent,
            models=key.models,
            name=key.name,
            rpm=key.rpm,
            secrets=_secrets(key),
            sha256=key.sha256,
            tpm=key.tpm,
        )
    )


def _secrets(key: GatewayKey) -> tuple[SnapshotSecret, ...] | None:
    """Return what opens a key; data planes see for themselves when a grace is over."""
    if not key.is_rotated:
        return None
    earlier = (SnapshotSecret(secret.sha256, secret.until_ms) for secret in key.earlier)
    return (SnapshotSecret(key.secret_sha256), *earlier)
