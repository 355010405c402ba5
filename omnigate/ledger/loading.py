"""The start: from the newest snapshot that can be trusted, or from the first line on.

A snapshot is trusted when its file is whole, every row of it holds, and the bytes of the ledger
that it covers are there and are the same. If the newest is not, the spare is tried; if that is not
either, every segment is read. Whatever stands after it is replayed.

It all happens in the writer thread, in steps with a pause between, on books that nobody else sees
until they are whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import attrs
from twisted.logger import LogLevel

from omnigate import files
from omnigate.ledger.books import Books
from omnigate.ledger.family import Family, Position, SealedSegment
from omnigate.ledger.recorded_ids import LostIds, NewerIdsError, RecordedIds
from omnigate.ledger.replay import LedgerUnreadableError, Note, Replay
from omnigate.ledger.retention import last_write
from omnigate.ledger.segments import Segments
from omnigate.ledger.snapshots import (
    MAX_SNAPSHOT_BYTES,
    DamagedSnapshotError,
    NewerSnapshotError,
    decode,
)
from omnigate.ledger.trusted_time import TrustedTime
from omnigate.periods import utc_day

#: Lines that are entered in one step: about 0.1 s, after which a stop can break the start off.
STEP_LINES = 4000

#: What a snapshot's name ends with that cannot be used and is kept, and how many of one name are
#: kept: ``.damaged``, ``.damaged.2`` and so on. Each is of one start that went wrong.
SET_ASIDE = ".damaged"
KEPT_ASIDE = 9


@attrs.frozen
class Start:
    """Where a start begins.

    :ivar position: everything before it is in ``books``.
    :ivar source: the path of the snapshot that they are from; empty for the first line.
    :ivar events: how many events they hold.
    :ivar sealed: the segments before the position, as the snapshot lists them.
    :ivar ids: how many ids of each day it covers.
    :ivar written_at_ms: when the snapshot was written; None without one.
    """

    position: Position
    books: Books
    source: str = ""
    events: int = 0
    sealed: Sequence[SealedSegment] = ()
    ids: Mapping[str, int] = attrs.Factory(dict)
    written_at_ms: int | None = None


@attrs.frozen
class Loaded:
    """What a start came to; its ``start.books`` now hold everything.

    :ivar sound: whether the file under the snapshot's name may become the spare: it was checked
        and used, or there is none.
    :ivar needs_snapshot: whether a new one is due: lines were replayed, ids forgotten, or the
        newest snapshot was not usable.
    :ivar replayed: events counted from lines; ``duplicates``, ``damaged`` and ``torn_bytes`` as
        :class:`~omnigate.ledger.replay.Replay` and the end of the active segment have them.
    :ivar known_ms: when the files were last written, as far as they say; None if they do not.
    """

    start: Start
    sound: bool
    needs_snapshot: bool
    replayed: int
    duplicates: int
    damaged: int
    torn_bytes: int
    known_ms: int | None


@attrs.define(eq=False)
class Loading:
    """One start.

    :ivar now_ms: what the clock shows; once it is known how old the files are, what is believed of
        it (:mod:`~omnigate.ledger.trusted_time`).
    :ivar notes: what the log is to be told so far; the reader empties it.
    :ivar loaded: the outcome, once :meth:`step` has returned True.
    """

    family: Family
    segments: Segments
    ids: RecordedIds
    now_ms: int
    notes: list[Note] = attrs.Factory(list)
    loaded: Loaded | None = None
    _steps: Iterator[None] | None = None
    # Snapshots that cannot be used: they may hold sums that no line tells any more.
    _unusable: list[str] = attrs.Factory(list)

    def step(self) -> bool:
        """Do the next piece of work, of about 0.2 s at most.

        :return: whether it is done.
        :raises LedgerUnreadableError: the disk refused, or a later version wrote a file.
        """
        if self._steps is None:
            self._steps = self._load()
        try:
            next(self._steps)
        except StopIteration:
            return True
        except NewerIdsError as error:
            raise LedgerUnreadableError(str(error)) from None
        except OSError as error:
            path = error.filename or self.family.active
            raise LedgerUnreadableError(
                f"{path}: {error.strerror or error}; the control plane must be able to read and "
                "write this file and its folder (OMNIGATE_LEDGER names it)"
            ) from error
        return False

    def _load(self) -> Iterator[None]:
        found = self.segments.open()
        # What a process may have left that was killed in the middle of it.
        for path in (self.family.snapshot_tmp, self.family.probe, self.family.probe_tmp):
            files.remove_file(path)
        yield
        start = yield from self._choose(found.sealed)
        yield
        known_ms = self._known_ms(start, found.sealed)
        self.now_ms = TrustedTime(self.now_ms, known_ms, 0.0).believed_ms
        for lost in self.ids.open(start.ids, utc_day(self.now_ms)):
            self._note(LogLevel.error, f"{self._lost(lost)}; they would count again if sent again")
        # The time first: so they keep of what is replayed no more than they need in the end.
        today = utc_day(self.now_ms)
        start.books.turn_to(today, self.now_ms)
        replay = Replay(start.books, self.ids, today, notes=self.notes)
        in_sealed = sum(segment.events for segment in start.sealed)
        self.segments.begin_reading(start.position, start.events - in_sealed)
        yield
        while piece := self.segments.next_lines(STEP_LINES):
            self.segments.count(replay.enter(piece.path, piece.lines))
            self.ids.flush()
            yield
        torn_bytes = self._cut_torn()
        newest = start.source == self.family.snapshot
        sound = newest or files.file_size(self.family.snapshot) is None
        self._set_aside()
        self.ids.turn_to(today)
        # Forgotten now, or by a process that was killed before it had written a snapshot of that.
        forgotten = [day for day in start.ids if files.file_size(self.family.ids(day)) is None]
        start.books.totals.drop_before(self.now_ms)
        self.loaded = Loaded(
            start=start,
            sound=sound,
            needs_snapshot=not newest
            or bool(forgotten or replay.events or replay.duplicates or replay.damaged),
            replayed=replay.events,
            duplicates=replay.duplicates,
            damaged=replay.damaged,
            torn_bytes=torn_bytes,
            known_ms=known_ms,
        )

    def _choose(self, sealed: list[int]) -> Generator[None, None, Start]:
        """Where to begin: the first that has everything, else the first that has the sums."""
        usable: list[Start] = []
        refused: list[str] = []
        for path in (self.family.snapshot, self.family.spare):
            start = self._tried(path, refused)
            yield
            if start is not None:
                usable.append(start)
                lost = self.ids.lost(start.ids, utc_day(self.now_ms))
                if not lost:
                    break
                refused.append(f"{path}: {self._lost(lost[0])}")
        else:
            if not usable:
                self._tell_full(sealed, refused)
                begin = Position(sealed[0] if sealed else 1, 0)
                usable.append(Start(begin, Books()))
            start = usable[0]
        if start.source == self.family.spare:
            self._tell_refused(start.source, refused)
        self._tell_gaps([n for n in sealed if n >= start.position.segment], start.position)
        return start

    def _known_ms(self, start: Start, sealed: list[int]) -> int | None:
        """When the snapshot was written; without one, when the last line was recorded."""
        if start.written_at_ms is not None:
            return start.written_at_ms
        paths = [self.family.active, *(self.family.sealed(number) for number in sealed[-1:])]
        times = [time for path in paths if (time := last_write(path)) is not None]
        return _instant_ms(times[0]) if times else None

    def _lost(self, lost: LostIds) -> str:
        return (
            f"{self.family.ids(lost.day)} has {lost.found} of the ids of {lost.recorded} events "
            "that were counted"
        )

    def _tried(self, path: str, refused: list[str]) -> Start | None:
        """What a snapshot says, or None; ``refused`` then says why."""
        try:
            data = files.read_file(path, MAX_SNAPSHOT_BYTES)
            if data is None:
                refused.append(f"{path} is not there")
                return None
            head, books = decode(data)
        except NewerSnapshotError as error:
            raise LedgerUnreadableError(
                f"{path}: {error}; start the version of omnigate that wrote it, or move the file "
                "away. It was left as it is."
            ) from None
        except (DamagedSnapshotError, OSError) as error:
            refused.append(f"{path}: {error}")
            self._unusable.append(path)
            return None
        damage = self.segments.damage_of(head.position, head.active_sha256, head.sealed)
        if damage is not None:
            refused.append(f"{path}: {damage}")
            self._unusable.append(path)
            return None
        written_at_ms = _instant_ms(head.written_at)
        return Start(head.position, books, path, head.events, head.sealed, head.ids, written_at_ms)

    def _cut_torn(self) -> int:
        torn = self.segments.begin_appending()
        if torn is None:
            return 0
        self._note(
            LogLevel.warn,
            f"{self.family.active}: the last line was cut short by a crash; its {torn.size} bytes "
            f"at offset {torn.offset} were cut off. Its batch was never acknowledged and comes "
            "again.",
        )
        return torn.size

    # -- what the log is told -----------------------------------------------------------------

    def _note(self, level: LogLevel, text: str) -> None:
        self.notes.append(Note(level, text))

    def _tell_refused(self, source: str, refused: list[str]) -> None:
        if refused:
            self._note(
                LogLevel.error,
                f"{'; '.join(refused)}: the start goes on from the spare, {source}",
            )

    def _tell_full(self, sealed: list[int], refused: list[str]) -> None:
        """Say why every segment is read, and what that may have lost."""
        paths = self.family.snapshot, self.family.spare
        if not sealed and all(files.file_size(path) is None for path in paths):
            return  # a new ledger, or one of a version that wrote no snapshots
        self._note(
            LogLevel.error,
            f"no snapshot can be used, so every segment is read: {'; '.join(refused)}",
        )
        if sealed and sealed[0] > 1:
            self._note(
                LogLevel.error,
                f"the segments before {self.family.sealed(sealed[0])} were deleted and no snapshot "
                "has their sums: spend recorded in them is lost. Put a backup of "
                f"{self.family.snapshot} in its place and start again, or go on without it.",
            )

    def _set_aside(self) -> None:
        """Keep the snapshots that cannot be used, whose names new ones are about to take."""
        kept = []
        for path in self._unusable:
            if files.file_size(path) is not None:
                aside = _free_name(path + SET_ASIDE)
                files.rename_file(path, aside)
                kept.append(aside)
        if kept:
            self._note(
                LogLevel.warn,
                f"what cannot be used was kept as {' and '.join(kept)}; remove it once the sums "
                "are found to be right",
            )

    def _tell_gaps(self, sealed: list[int], begin: Position) -> None:
        """Tell of segments that ought to be there and are not."""
        if not sealed:
            return
        numbers = [begin.segment - 1, *sealed]
        gaps = [(one + 1, two) for one, two in pairwise(numbers) if two > one + 1]
        if gaps:
            missing = sum(end - start for start, end in gaps)
            self._note(
                LogLevel.error,
                f"{missing} segments are missing, the first is "
                f"{self.family.sealed(gaps[0][0])}: what was recorded in them is not counted. Put "
                "them back and start again, or go on without them.",
            )


def _instant_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _free_name(path: str) -> str:
    """The path, or it with the first number behind it that nothing has; the last if all have."""
    names = [path, *(f"{path}.{number}" for number in range(2, KEPT_ASIDE + 1))]
    return next((name for name in names if files.file_size(name) is None), names[-1])
