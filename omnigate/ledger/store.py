"""The ledger's files as one store: loaded, appended to, sealed, snapshotted, and thinned out.

Everything here blocks, and is called in the writer thread, one call after another. The order of a
group is ``line, sync, id``; the totals, and then the acknowledgement, are up to who called.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import compress

import attrs
from twisted.logger import LogLevel

from omnigate import files
from omnigate.ledger.family import Family, Position, SealedSegment
from omnigate.ledger.loading import Loaded, Loading
from omnigate.ledger.recorded_ids import RecordedIds
from omnigate.ledger.replay import Note
from omnigate.ledger.retention import MAX_SEGMENTS, deletable, last_write, outdated
from omnigate.ledger.segments import Segments
from omnigate.ledger.snapshots import SnapshotHead, encode
from omnigate.periods import DAY_MS, rfc3339

#: A segment of this length is sealed: about 100,000 events, which anyone's tools can still open.
SEAL_BYTES = 64 * 1024 * 1024

#: How much a probe writes: more than a full group's lines, so that a disk on which it fits is not
#: full again with the next group.
PROBE_BYTES = 1024 * 1024


@attrs.frozen
class Appended:
    """What became of a group.

    :ivar known: for each event whether it was recorded before, and so left out.
    :ivar full: whether the active segment is to be sealed.
    :ivar forgotten: whether a day of ids was forgotten on the way.
    :ivar seconds: how long the write and its sync took; 0 where there was nothing to write.
    """

    known: list[bool]
    full: bool
    forgotten: bool
    seconds: float


@attrs.define
class StoreFigures:
    """What metrics tell of the files; whole numbers that the writer thread sets.

    :ivar segments: how many there are, the active one included.
    :ivar active_bytes: the length of the active one.
    :ivar ids: how many ids are remembered.
    :ivar snapshot_at_ms: when the newest snapshot was written; None without one.
    """

    segments: int = 0
    active_bytes: int = 0
    ids: int = 0
    snapshot_at_ms: int | None = None


@attrs.define(eq=False)
class LedgerStore:
    """One opening of the ledger's files.

    :ivar ids_days: for how many days ids are remembered; 0 for ever. It may be changed while the
        store is in use.
    """

    family: Family
    ids_days: int
    figures: StoreFigures = attrs.Factory(StoreFigures)
    _segments: Segments = attrs.field(init=False)
    _ids: RecordedIds = attrs.field(init=False)
    _loading: Loading | None = attrs.field(default=None, init=False)
    # The positions that the snapshot and its spare cover, as far as they are known to be good.
    _covered: Position | None = attrs.field(default=None, init=False)
    _spare_covered: Position | None = attrs.field(default=None, init=False)
    # Whether the file under the snapshot's name may take the spare's place.
    _sound: bool = attrs.field(default=False, init=False)
    _last_writes: dict[int, str | None] = attrs.field(factory=dict, init=False)
    # The segments that the snapshot of the start lists, deleted ones too, so that their events and
    # those of the active one are all that were counted; later ones are told by ``_segments``.
    _sealed: list[SealedSegment] = attrs.field(factory=list, init=False)
    _installed: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._segments = Segments(self.family)
        self._ids = RecordedIds(self.family, self.ids_days)

    # -- the start ----------------------------------------------------------------------------

    def load_step(self, now_ms: int) -> tuple[Loaded | None, list[Note]]:
        """Do the next piece of the start; about 0.2 s at most.

        :return: the outcome once it is done, and what the log is to be told.
        :raises LedgerUnreadableError: the disk refused, or a later version wrote a file.
        """
        if self._loading is None:
            self._loading = Loading(self.family, self._segments, self._ids, now_ms)
        done = self._loading.step()
        # Emptied, not replaced: the replay goes on adding to this list.
        notes = self._loading.notes.copy()
        self._loading.notes.clear()
        if not done:
            return None, notes
        loaded, self._loading = self._loading.loaded, None
        assert loaded is not None
        self._sound = loaded.sound
        self._sealed = list(loaded.start.sealed)
        self.figures.snapshot_at_ms = loaded.start.written_at_ms
        if loaded.start.source == self.family.snapshot:
            self._covered = loaded.start.position
        elif loaded.start.source:
            self._spare_covered = loaded.start.position
        self._count_segments()
        self._count()
        return loaded, notes

    def warm_up(self) -> list[Note]:
        """Have the ids ready before they are asked for.

        :return: what the log is to be told of id files that are not as they were.
        :raises OSError: they cannot be read now; they are read at their first use then.
        """
        self._ids.load()
        self._count()
        changed, self._ids.changed = self._ids.changed, []
        return [
            Note(
                LogLevel.error,
                f"{path} was changed since its table was made: events whose ids it lost would "
                "count again if sent again. Look with omnigate ledger verify.",
            )
            for path in changed
        ]

    # -- recording ----------------------------------------------------------------------------

    def append(
        self, digests: Sequence[bytes], lines: Sequence[bytes], day: str, today: str
    ) -> Appended:
        """Write and sync the lines of events that were not recorded before.

        :param digests: for each event what is remembered of its id.
        :param lines: for each event its line.
        :param day: the UTC day of recording of them all.
        :param today: the UTC day by which ids are forgotten.
        :raises OSError: the disk refused; nothing of the group is recorded.
        """
        forgotten = self._turn_to(today)
        known = self._ids.known(digests)
        fresh = [not is_known for is_known in known]
        seconds = 0.0
        if any(fresh):
            began = time.monotonic()
            self._segments.append(b"".join(compress(lines, fresh)), sum(fresh))
            seconds = time.monotonic() - began
            self._ids.add(list(compress(digests, fresh)), day)
            self._ids.flush()
            self._count()
        return Appended(known, self._segments.size >= SEAL_BYTES, forgotten, seconds)

    def _turn_to(self, day: str) -> bool:
        """Forget the ids of days that are too long past; True if there were any."""
        self._ids.days_kept = self.ids_days
        return bool(self._ids.turn_to(day))

    def probe(self) -> None:
        """Find out whether the disk takes a group again.

        :raises OSError: it does not.
        """
        path = self.family.probe
        try:
            files.replace_file(path, bytes(PROBE_BYTES), temporary=self.family.probe_tmp)
        finally:
            files.remove_file(path)
        self._segments.append(b"", 0)

    # -- upkeep -------------------------------------------------------------------------------

    def turn_to(self, day: str) -> bool:
        """Go on with the UTC day; True if ids were forgotten, which a snapshot must follow."""
        forgotten = self._turn_to(day)
        self._count()
        return forgotten

    def seal(self, day: str) -> bool:
        """Seal the active segment if it was begun before ``day`` or is full; whether it was.

        :raises OSError: the disk refused.
        """
        opened = self._segments.opened_day
        if opened is None or (opened >= day and self._segments.size < SEAL_BYTES):
            return False
        try:
            self._segments.seal()
        finally:
            self._count_segments()
            self._count()
        return True

    def install_snapshot(
        self, chunks: Sequence[bytes], events: int, trusted_ms: int, now_ms: int
    ) -> None:
        """Write a snapshot of all that was recorded up to now.

        :param chunks: the rows of the books, which hold just that.
        :param events: how many events that is.
        :param trusted_ms: the time by which things are forgotten, which it is dated with.
        :param now_ms: what the clock shows.
        :raises OSError: the disk refused; a usable snapshot is there as before.
        """
        recorded = self._ids.sync()
        position = self._segments.position
        head = SnapshotHead(
            written_at=rfc3339(trusted_ms),
            position=position,
            active_sha256=self._segments.active_sha256(),
            sealed=(*self._sealed, *self._segments.sealed),
            ids=recorded,
            events=events,
        )
        before, self._covered = self._covered, None
        spare_before, self._spare_covered = self._spare_covered, None
        # A snapshot that was found damaged must not push out the spare, which is all there is.
        spare = self.family.spare if self._sound else None
        files.replace_file(
            self.family.snapshot,
            encode(head, chunks),
            temporary=self.family.snapshot_tmp,
            spare=spare,
        )
        self._covered = position
        self._spare_covered = before if self._sound else spare_before
        self._sound = True
        self.figures.snapshot_at_ms = now_ms
        self._installed = recorded

    def keep_tables(self, final: bool) -> None:
        """Write down the tables of ids that the newest snapshot covers, where that is worth it.

        :param final: whether the ledger is about to be closed.
        :raises OSError: the disk refused; they are derived, and made anew at a start.
        """
        self._ids.keep_tables(self._installed, final=final)

    def outdated(self, ledger_days: int, now_ms: int) -> list[int]:
        """The sealed segments that ``retention.ledger_days`` no longer keeps, oldest first.

        :raises OSError: the disk refused.
        """
        return outdated(
            self._count_segments(),
            self._last_write,
            rfc3339(max(0, now_ms - ledger_days * DAY_MS)),
        )

    def _last_write(self, number: int) -> str | None:
        """When a sealed segment was last written; it is read once, since it does not change."""
        if number not in self._last_writes:
            if len(self._last_writes) > 2 * MAX_SEGMENTS:
                self._last_writes.clear()
            self._last_writes[number] = last_write(self.family.sealed(number))
        return self._last_writes[number]

    def uncovered(self, numbers: Sequence[int]) -> bool:
        """Whether a segment among these is not in both snapshot generations yet."""
        return len(self._deletable(numbers)) < len(numbers)

    def sweep(self, numbers: Sequence[int]) -> list[int]:
        """Delete the outdated segments that both snapshot generations cover.

        :return: those deleted.
        :raises OSError: the disk refused.
        """
        deleted = []
        try:
            for number in self._deletable(numbers):
                # One by one and in order, so that whatever a crash leaves is an unbroken row: one
                # that is missing behind one that is there was not deleted but lost. The first one
                # waits for what an earlier sweep, or process, may have removed and not synced.
                files.sync_directory(self.family.folder)
                files.remove_file(self.family.sealed(number))
                deleted.append(number)
        finally:
            self._count_segments()
        if deleted:
            files.sync_directory(self.family.folder)
        return deleted

    def _deletable(self, numbers: Sequence[int]) -> list[int]:
        return deletable(numbers, (self._covered, self._spare_covered))

    def close(self) -> None:
        """Close the files, and let another process have them. A second call does nothing."""
        self._segments.close()
        self._ids.close()

    def _count_segments(self) -> list[int]:
        """Look which sealed segments there are."""
        sealed = self.family.found(files.list_names(self.family.folder)).sealed
        self.figures.segments = len(sealed) + 1
        return sealed

    def _count(self) -> None:
        figures = self.figures
        figures.active_bytes = self._segments.size
        figures.ids = len(self._ids)
