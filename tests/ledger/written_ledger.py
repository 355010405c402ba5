"""A ledger as the control plane leaves it on the disk, made with the parts that it is made with."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from omnigate.events import UsageEvent
from omnigate.ledger.books import Books
from omnigate.ledger.family import Family, Position, SealedSegment
from omnigate.ledger.id_table import id_digest
from omnigate.ledger.lines import decode_line, encode_line
from omnigate.ledger.recorded_ids import RecordedIds
from omnigate.ledger.snapshots import SnapshotHead, decode, encode
from omnigate.periods import rfc3339, utc_day


class WrittenLedger:
    """Writes a ledger, step by step.

    :ivar books: what it has counted.
    """

    def __init__(self, family: Family, ids_days: int = 3) -> None:
        self.family = family
        self.books = Books()
        self.ids = RecordedIds(family, ids_days)
        self.ids.open({})
        self.sealed: list[SealedSegment] = []
        self._number = 1
        self._events = 0
        Path(family.active).touch()

    def record(self, received_ms: int, *events: UsageEvent, cost_nano: int = 7) -> None:
        """Record events, one line each."""
        self.ids.turn_to(utc_day(received_ms))
        self.books.turn_to(utc_day(received_ms), received_ms)
        digests = [id_digest(event.id) for event in events]
        with open(self.family.active, "ab") as file:
            for event, known in zip(events, self.ids.known(digests), strict=True):
                assert not known
                line = encode_line(event, cost_nano, rfc3339(received_ms))
                file.write(line)
                self.books.replay([(*decode_line(line), line[:-1])])
                self._events += 1
        self.ids.add(digests, utc_day(received_ms))
        self.ids.flush()

    def seal(self) -> str:
        """Seal the active segment; its path."""
        path = Path(self.family.sealed(self._number))
        Path(self.family.active).rename(path)
        data = path.read_bytes()
        self.sealed.append(
            SealedSegment(self._number, len(data), sha256(data).hexdigest(), self._events)
        )
        self._number += 1
        self._events = 0
        Path(self.family.active).touch()
        return str(path)

    def snapshot(self, written_ms: int) -> None:
        """Write a snapshot, and make the one before it the spare."""
        recorded = self.ids.sync()
        active = Path(self.family.active).read_bytes()
        head = SnapshotHead(
            written_at=rfc3339(written_ms),
            position=Position(self._number, len(active)),
            active_sha256=sha256(active).hexdigest(),
            sealed=tuple(self.sealed),
            ids=recorded,
            events=self.books.totals.events,
        )
        path = Path(self.family.snapshot)
        if path.exists():
            path.rename(self.family.spare)
        path.write_bytes(b"".join(encode(head, self.books.rows())))
        self.ids.keep_tables(recorded, final=True)

    def restart(self, now_ms: int) -> None:
        """Start anew from the snapshot, if there is one, and the lines behind it."""
        path = Path(self.family.snapshot)
        self.books, position = Books(), Position(1, 0)
        if path.exists():
            head, self.books = decode(path.read_bytes())
            position = head.position
        self.books.turn_to(utc_day(now_ms), now_ms)
        for number in range(position.segment, self._number + 1):
            segment = Path(
                self.family.active if number == self._number else self.family.sealed(number)
            )
            offset = position.offset if number == position.segment else 0
            for line in segment.read_bytes()[offset:].splitlines():
                self.books.replay([(*decode_line(line), line)])

    def forget_segments(self, numbers: Sequence[int]) -> None:
        """Delete sealed segments, as retention does."""
        for number in numbers:
            Path(self.family.sealed(number)).unlink()
        self.sealed = [segment for segment in self.sealed if segment.number not in numbers]
