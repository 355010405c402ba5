"""Pulls the config snapshot from the control plane, and keeps a copy of it on disk.

The copy is what the data plane starts from, so that it serves while the control plane is away;
it holds key hashes and routes, never a secret. A snapshot is installed only when its version is
not the one in force, and whatever goes wrong, the one in force stays.
"""

from collections.abc import Callable, Iterator

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.config.snapshot import (
    MAX_SNAPSHOT_BYTES,
    Snapshot,
    SnapshotError,
    decode_snapshot,
)
from omnigate.files import read_file, remove_leftovers, replace_file
from omnigate.gateway.outage import Outage
from omnigate.text import reason_of
from omnigate.writer_thread import IWriter

#: The fetch has a time limit of its own; this one holds should it ever be forgotten.
FETCH_SECONDS = 15.0

#: The least time between two polls that were not due: however many batches tell of other versions,
#: as two control planes behind one address would, the config is asked for eight times a second.
#: Where one key after another spends its budget, a block may come as much later.
EARLY_SECONDS = 0.125

#: Snapshots up to this are decoded at once, in 10 ms if all they hold is networks, which are the
#: dearest of it. Longer ones are decoded in the writer's thread, where they hold up nobody: ten
#: thousand keys take 40 ms there, and 5 s where each has 64 networks of its own.
MAX_DECODED_AT_ONCE_BYTES = 8 * 1024

_log = Logger()

Fetch = Callable[[], Deferred[tuple[int, bytes]]]


class ConfigPull:
    """The task that keeps the data plane's view of the configuration fresh.

    :ivar version: of the snapshot in force; None before there is one.
    :ivar failures: polls without a usable answer since the start.
    :ivar polled_at: when a poll had a usable answer last, by the clock; None before.
    """

    def __init__(
        self,
        fetch: Fetch,
        clock: IReactorTime,
        poll_seconds: float,
        cache_path: str,
        install: Callable[[Snapshot], Iterator[None]],
        writer: IWriter,
        keeps: bool = True,
    ) -> None:
        """Take the parts; nothing is read or fetched before :meth:`start`.

        :param fetch: asks the control plane for the snapshot; fires with status and body.
        :param install: puts a snapshot in force, which it is once the slices that this is done in
            are at their end; an exception of it leaves the old one there.
        :param writer: the thread that writes the copy.
        :param keeps: whether it writes the copy. Of several workers one does, for all to start
            from.
        """
        self._fetch = fetch
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._cache_path = cache_path
        self._install = install
        self._writer = writer
        self._keeps = keeps
        self._outage = Outage(_log, "the config cannot be fetched", clock)
        self._cache_outage = Outage(_log, f"{cache_path} cannot be written", clock)
        self._waiting: list[Deferred[Snapshot]] = []
        self._in_force: Snapshot | None = None
        self._last_body = b""
        self._broken_version: str | None = None
        self._stopped = True
        self._pending: Deferred[None] | None = None
        self._next: IDelayedCall | None = None
        self._told_version = ""
        self._told_meanwhile = False
        self._early_at = float("-inf")
        self.failures = 0
        self.polled_at: float | None = None

    @property
    def version(self) -> str | None:
        """The version in force, or None before there is one."""
        return None if self._in_force is None else self._in_force.version

    def first_snapshot(self) -> Deferred[Snapshot]:
        """Return a new Deferred that fires once a snapshot is in force, at once if one is."""
        first: Deferred[Snapshot] = Deferred()
        if self._in_force is None:
            self._waiting.append(first)
        else:
            first.callback(self._in_force)
        return first

    def start(self) -> None:
        """Install the copy on disk, if it is whole, and begin to poll."""
        self._stopped = False
        self._load_cache()
        self._poll()

    def told(self, version: str) -> None:
        """Poll at once where the control plane says that it has another config than ours.

        Once for each version, until another one is in force here: should it not be usable, the
        polls go on at their own pace. Nor is there more than one poll in :data:`EARLY_SECONDS`.

        :param version: empty where the control plane has yet to make the next one.
        """
        if self._stopped or version == self.version or (version and version == self._told_version):
            return
        self._told_version = version
        if self._next is None:
            # The answer under way may be older than what was told.
            self._told_meanwhile = True
            return
        now = self._clock.seconds()
        early = self._early_poll(now)
        if early < self._next.getTime():
            self._next.reset(early - now)
            self._early_at = early

    def _early_poll(self, now: float) -> float:
        """When a poll that is not due may begin; the last such one may have been a moment ago."""
        return max(now, self._early_at + EARLY_SECONDS)

    def stop(self) -> Deferred[None]:
        """Stop polling; the snapshot in force stays.

        :return: fires when a poll under way is given up.
        """
        self._stopped = True
        stopped: Deferred[None] = Deferred()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._pending is None:
            stopped.callback(None)
        else:
            self._pending.addBoth(lambda _: stopped.callback(None))
            self._pending.cancel()
        return stopped

    def _load_cache(self) -> None:
        if self._keeps:
            remove_leftovers(self._cache_path)
        try:
            body = read_file(self._cache_path, MAX_SNAPSHOT_BYTES)
        except OSError as error:
            reason = error.strerror or error
            _log.error("{path} cannot be read: {reason}", path=self._cache_path, reason=reason)
            return
        if body is None:
            return
        try:
            snapshot = decode_snapshot(body)
            # At once: nobody is served before there is a config.
            for _ in self._install(snapshot):
                pass
            self._is_in_force(snapshot, body)
        except SnapshotError as error:
            _log.error(
                "{path} is damaged and is not used: {error}", path=self._cache_path, error=error
            )
        except Exception:
            _log.failure("the config in {path} cannot be installed", path=self._cache_path)
        else:
            _log.info(
                "config {version} taken from {path}",
                version=snapshot.version[:12],
                path=self._cache_path,
            )

    def _poll(self) -> None:
        self._next = None
        poll = self._pending = Deferred.fromCoroutine(self._ask())
        poll.addErrback(self._broke)
        poll.addCallback(lambda _: self._poll_later())
        # Nobody waits for it: without this line it would end in silence.
        poll.addErrback(lambda failure: _log.failure("the polls have ended", failure))

    def _broke(self, failure: Failure) -> None:
        """Keep polling whatever happens: a fault in here must not freeze the config for ever."""
        if not (self._stopped and isinstance(failure.value, CancelledError)):
            _log.failure("a poll of the config broke; the one in force stays", failure)

    def _poll_later(self) -> None:
        self._pending = None
        pause = self._poll_seconds
        if self._told_meanwhile:
            # Read once: a clock goes on, and the reactor takes no call for a moment that is past.
            now = self._clock.seconds()
            early = self._early_poll(now)
            if early < now + pause:
                pause, self._early_at = early - now, early
        self._told_meanwhile = False
        if not self._stopped:
            self._next = self._clock.callLater(pause, self._poll)

    async def _ask(self) -> None:
        """Fetch once, and install what is new."""
        answer = self._fetch()
        answer.addTimeout(FETCH_SECONDS, self._clock)
        try:
            status, body = await answer
        except CancelledError:
            raise
        except Exception as error:
            self._failed(reason_of(error))
            return
        if status != 200:
            self._failed(_refusal(status))
            return
        # The control plane builds the snapshot anew for every poll, but from the same config the
        # same bytes come out; then there is nothing to decode.
        if body != self._last_body:
            try:
                await self._take(await self._decode(body), body)
            except SnapshotError as error:
                self._failed(f"the control plane's snapshot is not usable: {error}")
                return
        self.polled_at = self._clock.seconds()
        self._outage.ended()

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if self._in_force is None:
            reason += "; there is none to serve with"
        self._outage.failed(reason)

    async def _decode(self, body: bytes) -> Snapshot:
        if len(body) <= MAX_DECODED_AT_ONCE_BYTES:
            return decode_snapshot(body)
        known = self._in_force
        return await self._writer.submit(lambda: decode_snapshot(body, known))

    async def _take(self, snapshot: Snapshot, body: bytes) -> None:
        """Install a snapshot that came from the control plane, if it is new."""
        if snapshot.version != self.version:
            try:
                for _ in self._install(snapshot):
                    await self._pause()
                self._is_in_force(snapshot, body)
            except CancelledError:
                raise
            except Exception as error:
                if snapshot.version != self._broken_version:
                    self._broken_version = snapshot.version
                    _log.failure("config {version} broke", version=snapshot.version[:12])
                raise SnapshotError(f"it cannot be installed: {error}") from error
            if self._keeps:
                self._save(body)
        self._last_body = body

    def _pause(self) -> Deferred[None]:
        """Let the reactor look at everything else."""
        turn: Deferred[None] = Deferred(lambda _: call.cancel())
        call = self._clock.callLater(0, turn.callback, None)
        return turn

    def _is_in_force(self, snapshot: Snapshot, body: bytes) -> None:
        self._in_force = snapshot
        self._last_body = body
        # From here on, what was told before would be another config again: a key that is blocked
        # today as it was yesterday.
        self._told_version = ""
        waiting, self._waiting = self._waiting, []
        for first in waiting:
            first.callback(snapshot)

    def _save(self, body: bytes) -> None:
        """Have the copy written; without one a start needs the control plane, no more."""
        saved = self._writer.submit(lambda: replace_file(self._cache_path, body))
        saved.addCallbacks(
            lambda _: self._cache_outage.ended(),
            lambda failure: self._cache_outage.failed(reason_of(failure.value)),
        )


def _refusal(status: int) -> str:
    """Put a status into words, with the remedy where there is one."""
    if status == 503:
        return "the control plane is not ready"
    if status in (401, 403, 429):
        # 429 comes from a control plane that has seen too many wrong tokens.
        return (
            f"the control plane answered {status}; OMNIGATE_INTERNAL_TOKEN must be the same on"
            " both planes, and OMNIGATE_CONTROL_URL the address of the control plane"
        )
    if status in (404, 405):
        return (
            f"the control plane answered {status}; OMNIGATE_CONTROL_URL must be the address of"
            " the control plane"
        )
    return f"the control plane answered {status}"
