"""Holds all files of a ledger against each other, without writing any, beside a running plane.

The lines are read once, from the first segment to the end of the active one, and summed up anew.
Where the reading comes to the position of a snapshot, what it has by then must be what the
snapshot says, row by row; each sealed segment must have the SHA-256 that the snapshots list; and
the id files must hold the ids of the events that were counted, in their order.

Where retention has deleted the first segments, sums cannot be made from the first event on. Then
the older snapshot and the events from its position on must come to the newer one, and no lifetime
of it may be below what the segments that are left add up to.

A control plane that runs meanwhile adds lines behind the newest snapshot; what it adds after the
segments were listed is not looked at.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256

from omnigate.files import list_names
from omnigate.ledger.books import Books
from omnigate.ledger.family import Family, Position, SealedSegment
from omnigate.ledger.findings import (
    DeletedMeanwhileError,
    Difference,
    Findings,
    Generation,
    read_generations,
    replaced_since,
)
from omnigate.ledger.id_table import DIGEST_BYTES
from omnigate.ledger.loading import SET_ASIDE
from omnigate.ledger.reading import Run, SeenIds, SegmentReader, gaps_in, read_runs, segments_of
from omnigate.ledger.verified_ids import CountedIds, IdCheck, days_between
from omnigate.ledger.verified_sums import RowDifference, differences, shortfalls
from omnigate.periods import utc_day

#: How often everything is read anew since retention deleted something meanwhile. It does so every
#: five minutes at most, and mostly once a day.
ATTEMPTS = 5


def verify(
    family: Family,
    ids_days: int,
    progress: Callable[[int], None] = lambda done: None,
    settle: Callable[[], None] = lambda: None,
) -> Findings:
    """Check everything there is.

    :param ids_days: for how many days the ledger remembers ids, 0 for ever. Days that the
        snapshots know ids of are remembered in any case.
    :param progress: told how many bytes of lines are read so far.
    :param settle: waits for as long as a running control plane takes from dropping ids to the
        snapshot that no longer knows them.
    :raises OSError: a file cannot be read.
    :raises DeletedMeanwhileError: files were deleted while it was at work, each time anew.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(DeletedMeanwhileError):
            return _attempt(family, ids_days, progress, settle)
    return _attempt(family, ids_days, progress, settle)


def _attempt(
    family: Family, ids_days: int, progress: Callable[[int], None], settle: Callable[[], None]
) -> Findings:
    """Check everything, as long as nothing is deleted meanwhile."""
    findings = Findings()
    # The snapshots first: what they cover is in the segments that are listed after them.
    generations = read_generations(family, findings)
    walk = _Walk(family, generations, findings, _days_remembered(generations, ids_days))
    walk.run(progress)
    _tell_set_aside(family, findings)
    IdCheck(family, generations, walk.ids, findings, ids_days, settle).run()
    return findings


def _tell_set_aside(family: Family, findings: Findings) -> None:
    """Tell of files that a start could not use and kept."""
    for name in list_names(family.folder):
        if name.startswith(os.path.basename(family.stem) + ".") and SET_ASIDE in name:
            path = os.path.join(family.folder, name)
            findings.note(f"{path} was set aside by a start that could not use it.")


def _days_remembered(generations: Iterable[Generation], ids_days: int) -> int:
    """For how many days ids were remembered, as far as can be told."""
    reach = 0
    for generation in generations:
        for day in generation.head.ids:
            reach = max(reach, days_between(day, generation.head.written_at[:10]))
    return max(ids_days, reach) if ids_days else 0


class _Walk:
    """One reading of all segments, from the first to the end of the active one.

    :ivar ids: the ids that were counted; whether they are whole says the same of the events.
    """

    def __init__(
        self, family: Family, generations: list[Generation], findings: Findings, ids_days: int
    ) -> None:
        self.family = family
        self.findings = findings
        self.generations = generations
        self.ids = CountedIds({day: bytearray() for g in generations for day in g.head.ids})
        self._seen = SeenIds(ids_days)
        self._left = list(generations)
        self._books = Books()
        # From the older snapshot on, where the first events are gone.
        self._continued: Books | None = None
        # What is wrong with a segment's bytes; told behind its damaged lines, whose place is known.
        self._byte_faults: list[Difference] = []

    def run(self, progress: Callable[[int], None]) -> None:
        """Read and compare."""
        segments = segments_of(self.family)
        self._look_for_gaps(segments)
        self._look_for_listed(segments)
        done = 0
        for segment in segments:
            size = segment.size()
            if size is None and not segment.active:
                raise DeletedMeanwhileError(segment.path)
            try:
                self._begin_segment(segment, size or 0)
                for end in self._read(segment, size or 0):
                    progress(done + end)
            except FileNotFoundError as error:
                raise DeletedMeanwhileError(segment.path) from error
            if not segment.active and segment.size() is None:
                raise DeletedMeanwhileError(segment.path)  # perhaps before its lines were read
            done += size or 0
        self._tell_end()

    # -- segments -----------------------------------------------------------------------------

    def _look_for_gaps(self, segments: list[SegmentReader]) -> None:
        first = segments[0].number
        if first > 1:
            self.ids.whole = False
            which = "segment 1 was" if first == 2 else f"segments 1 to {first - 1} were"
            if self.generations:
                self.findings.note(
                    f"The {which} deleted; what they added to the sums is in the snapshots only, "
                    "and cannot be made anew to compare."
                )
            else:
                text = f"{which} deleted, and no snapshot has what they added: it is lost"
                self.findings.differs(self.family.snapshot, None, text)
        for generation in self.generations:
            if generation.position.segment < first:
                if replaced_since(self.generations):
                    raise DeletedMeanwhileError(self.family.sealed(generation.position.segment))
                text = f"segment {generation.position.segment}, in which it ends, is not there"
                self.findings.differs(generation.path, None, text)
                self._left.remove(generation)
        for start, end in gaps_in(segments):
            self.ids.whole = False
            which = f"segment {start} is" if start == end else f"segments {start} to {end} are"
            self.findings.differs(self.family.sealed(start), None, f"{which} missing")

    def _look_for_listed(self, segments: list[SegmentReader]) -> None:
        """Look for segments that a snapshot lists behind the last that there is."""
        last = segments[-1].number
        listed = {sealed.number for g in self.generations for sealed in g.head.sealed}
        for number in sorted(number for number in listed if number >= last):
            self.findings.differs(self.family.sealed(number), None, "is missing")

    def _begin_segment(self, segment: SegmentReader, size: int) -> None:
        """Compare a segment's bytes with what the snapshots say of them."""
        listed = {s for g in self.generations for s in g.head.sealed if s.number == segment.number}
        ends = {
            g.position.offset: g for g in self.generations if g.position.segment == segment.number
        }
        stops = sorted({*ends, *(sealed.size for sealed in listed)})
        hashes = _hashes(segment, [stop for stop in stops if stop <= size])
        for sealed in sorted(listed, key=lambda sealed: sealed.size):
            self._check_sealed(segment, sealed, size, hashes)
        for offset, generation in sorted(ends.items()):
            if offset > size:
                text = f"has {size} bytes; {generation.path} covers {offset}"
                self._byte_faults.append(Difference(segment.path, size, text))
            elif hashes[offset] != generation.head.active_sha256:
                text = f"the first {offset} bytes are not those that {generation.path} covers"
                self._byte_faults.append(Difference(segment.path, None, text))

    def _check_sealed(
        self, segment: SegmentReader, sealed: SealedSegment, size: int, hashes: dict[int, str]
    ) -> None:
        if size != sealed.size:
            text = f"has {size} bytes; it was sealed with {sealed.size}"
            self._byte_faults.append(Difference(segment.path, min(size, sealed.size), text))
        elif hashes[size] != sealed.sha256:
            text = "its SHA-256 is not that which was recorded"
            self._byte_faults.append(Difference(segment.path, None, text))

    def _tell_byte_faults(self) -> None:
        for fault in self._byte_faults:
            self.findings.differs(fault.path, fault.offset, fault.text)
        self._byte_faults = []

    def _read(self, segment: SegmentReader, size: int) -> Iterator[int]:
        """Read a segment's lines, and compare where a snapshot ends; yield how far it is."""
        stops = {g.position.offset for g in self._left if g.position.segment == segment.number}
        path, counted = segment.path, 0
        damage = partial(self._damage, path)
        limit = size if segment.active else None
        self._compare_up_to(Position(segment.number, 0))
        for run in read_runs(segment, self._seen, damage, stops, limit):
            self._enter(run)
            counted += sum(run.new)
            self._compare_up_to(Position(segment.number, run.end))
            yield run.end
        self._tell_byte_faults()
        self.findings.segments += 1
        for generation in self.generations:
            for sealed in generation.head.sealed:
                if sealed.number == segment.number and sealed.events != counted:
                    text = f"{counted} events of it count; {generation.path} says {sealed.events}"
                    self.findings.differs(path, None, text)

    def _damage(self, path: str, offset: int, reason: str) -> None:
        self.findings.differs(path, offset, f"the line cannot be read: {reason}")

    def _enter(self, run: Run) -> None:
        """Count the events of some lines that were recorded on one day."""
        kept = [books for books in (self._books, self._continued) if books is not None]
        if run.lines and run.day != self.ids.last_day:
            # As the ledger did, so that what it dropped then is dropped here.
            self.ids.last_day = run.day
            now_ms = int(datetime.fromisoformat(f"{run.day}T00:00:00+00:00").timestamp()) * 1000
            # A line that is later than the snapshot is of a time when the clock was ahead.
            now_ms = min(now_ms, max((g.written_ms for g in self.generations), default=now_ms))
            for books in kept:
                books.turn_to(utc_day(now_ms), now_ms)
        counted, fresh = [], []
        for line, event, cost, digest, new in zip(
            run.lines, run.events, run.costs, run.digests, run.new, strict=True
        ):
            if new:
                counted.append((event, cost, line))
                fresh.append(digest)
        for books in kept:
            books.replay(counted)
        self.findings.events += len(fresh)
        self.findings.duplicates += len(run.lines) - len(fresh)
        if self._left and run.day in self.ids.expected:
            self.ids.expected[run.day] += b"".join(fresh)

    # -- snapshots ----------------------------------------------------------------------------

    def _compare_up_to(self, position: Position) -> None:
        """Compare the snapshots whose position was reached."""
        while self._left and self._left[0].position <= position:
            if position.offset:
                self._tell_byte_faults()
            generation = self._left.pop(0)
            if generation.position < position:
                self.findings.differs(
                    generation.path, None, "the position it covers is not the beginning of a line"
                )
            self._compare(generation)

    def _compare(self, generation: Generation) -> None:
        head, books = generation.head, self._books if self.ids.whole else self._continued
        where = f"segment {head.position.segment}, offset {head.position.offset}"
        about = f"{generation.path}: up to {where}, written at {head.written_at}"
        if books is not None:
            for found in differences(books, generation.books, generation.written_ms):
                self._row_differs(generation, found)
            self.findings.checked.append(
                f"{about}; {head.rows:,} rows of {head.events:,} events compared"
            )
        else:
            for found in shortfalls(self._books.totals, generation.books.totals):
                self._row_differs(generation, found)
            self.findings.checked.append(
                f"{about}; its lifetimes are compared with the segments that are left only"
            )
        if not self.ids.whole and self._continued is None:
            self._continued = generation.books
        self._compare_counts(generation)

    def _row_differs(self, generation: Generation, found: RowDifference) -> None:
        names = ", ".join(f'"{name}"' if name is not None else "null" for name in found.row)
        offset = found.offset_in(generation.data)
        self.findings.differs(generation.path, offset, f"the row [{names}] {found.text}")

    def _compare_counts(self, generation: Generation) -> None:
        """Compare how many ids a snapshot knows with the events counted on each day."""
        for day, recorded in sorted(generation.head.ids.items()):
            counted = len(self.ids.expected[day]) // DIGEST_BYTES
            if counted > recorded or (self.ids.whole and counted < recorded):
                text = f"it knows {recorded} ids of {day}, and {counted} events were counted"
                self.findings.differs(generation.path, None, text)

    def _tell_end(self) -> None:
        """Tell of snapshots that end behind the last line."""
        for generation in self._left:
            place = generation.position
            text = (
                f"it covers segment {place.segment} up to offset {place.offset}, which is not there"
            )
            self.findings.differs(generation.path, None, text)
        if not self.generations:
            self.findings.note("Without a snapshot there is nothing to compare the sums with.")


def _hashes(segment: SegmentReader, stops: list[int]) -> dict[int, str]:
    """The SHA-256 of a segment's first bytes, for each of some rising numbers of them."""
    hashes: dict[int, str] = {}
    digest, done = sha256(), 0
    if not stops:
        return hashes
    for piece in segment.pieces(stops[-1]) if stops[-1] else ():
        start = 0
        for stop in stops:
            if done + start <= stop < done + len(piece):
                digest.update(piece[start : stop - done])
                start = stop - done
                hashes[stop] = digest.hexdigest()
        digest.update(piece[start:])
        done += len(piece)
    hashes[stops[-1]] = digest.hexdigest()
    hashes.setdefault(0, sha256().hexdigest())
    return hashes
