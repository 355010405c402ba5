"""All jobs as the disk has them, found by id, key, status, model and idempotency key."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import msgspec

from omnigate.jobs.job import PENDING, QUEUED, RUNNING, Job
from omnigate.periods import DAY_MS

#: Jobs that are looked at for one page where no list answers it alone: 2 ms. A page of few is told
#: to go on then.
MAX_LOOKED_AT: Final = 20_000

#: Jobs that may stand before older ones, since a clock was ahead when they were made.
MAX_AHEAD: Final = 1_000

#: The states of a job that is not final.
OPEN: Final = (QUEUED, RUNNING)

#: An idempotency key, with the gateway key that it is of.
Repeat: TypeAlias = tuple[str, str]


class Entry(msgspec.Struct, gc=False):
    """A job, how many lines it has had, and how many bytes these have but for the input."""

    job: Job
    n: int
    size: int


@attrs.frozen
class Page:
    """Jobs, newest first.

    :ivar has_more: whether there are more behind it.
    :ivar after: where to go on, behind the last one that was looked at; empty at the end.
    """

    jobs: list[Job]
    has_more: bool
    after: str


@attrs.define
class KeyTally:
    """What is counted of one gateway key.

    :ivar kept: its jobs that are kept.
    :ivar open: those that are not final.
    :ivar day: the last UTC day on which it made one, in days since 1970; the day before, by a clock
        that was put back, counts as that one.
    :ivar made: how many it made on that day.
    """

    kept: int = 0
    open: int = 0
    day: int = 0
    made: int = 0

    def made_on(self, day: int) -> int:
        """Return how many it made on that day, or on the next."""
        # A clock that was years ahead for a moment must not count for years.
        return self.made if self.day - 1 <= day <= self.day else 0

    def count(self, day: int) -> None:
        """Count one that is made on that day."""
        if not self.day - 1 <= day <= self.day:
            self.day, self.made = day, 0
        self.made += 1


def owes(job: Job) -> bool:
    """Whether something is still to be done about the end of a job: its cost, or its webhook."""
    return job.cost_owed or (job.webhook is not None and job.webhook.state == PENDING)


class JobTable:
    """The jobs, in the order they were made in, which is that of their ids.

    Whoever changes it sees to it that the disk has the change already.

    :ivar size: how many bytes the lines of all jobs have but for their inputs: about half of what
        the jobs take in memory.
    """

    def __init__(self) -> None:
        self.size = 0
        self._entries: dict[str, Entry] = {}
        self._repeats: dict[Repeat, str] = {}
        self._tallies: dict[str, KeyTally] = {}
        self._open = 0
        # Receivers that do not answer can make many, so they are in order by themselves.
        self._debts: set[str] = set()
        self._debts_in_order: list[str] = []
        # Ids in their order: of all jobs, and by what one can ask for.
        self._ids: list[str] = []
        self._lists: dict[tuple[str, ...], list[str]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Job]:
        return (entry.job for entry in self._entries.values())

    @property
    def newest_id(self) -> str:
        """The greatest id; empty where there is no job."""
        return self._ids[-1] if self._ids else ""

    @property
    def open(self) -> int:
        """How many are not final."""
        return self._open

    def entries(self) -> list[Entry]:
        """Return what stands in it now; of a job that changes later, the entry stays as it is."""
        return list(self._entries.values())

    def entry(self, job_id: str) -> Entry | None:
        """Return a job with the number of its lines."""
        return self._entries.get(job_id)

    def get(self, job_id: str) -> Job | None:
        """Return a job."""
        entry = self._entries.get(job_id)
        return None if entry is None else entry.job

    def repeat_of(self, repeat: Repeat) -> Job | None:
        """Return the job that was made with an idempotency key."""
        job_id = self._repeats.get(repeat)
        return None if job_id is None else self._entries[job_id].job

    def tally(self, key_sha256: str) -> KeyTally:
        """Return what is counted of a key."""
        return self._tallies.get(key_sha256) or KeyTally()

    def unfinished(self) -> list[Job]:
        """Return the jobs that are not final, the oldest first; of 10,000 it takes 2 ms."""
        # Two sorted lists, so that sorting them is putting them together.
        ids = [job_id for status in OPEN for job_id in self._lists.get(("status", status), ())]
        ids.sort()
        return [self._entries[job_id].job for job_id in ids]

    def with_debts(self, after: str = "", limit: int | None = None) -> list[Job]:
        """Return the jobs of which something is owed, the oldest first; see :func:`owes`.

        :param after: the id of the job behind which to go on, whether it is still there or not.
        """
        first = bisect_right(self._debts_in_order, after)
        ids = self._debts_in_order[first : None if limit is None else first + limit]
        return [self._entries[job_id].job for job_id in ids]

    def ended_before(self, before_ms: int, limit: int) -> list[str]:
        """Return ids of final jobs that ended before that and owe nothing, the oldest first.

        Only those that were made before that are looked at, so what it takes is bounded by what is
        to go, and the few that cannot.
        """
        found: list[str] = []
        newer = 0
        for job_id in self._ids:
            job = self._entries[job_id].job
            newer += job.created_ms >= before_ms
            if newer > MAX_AHEAD or len(found) >= limit:
                break
            ended_ms = job.finished_ms or job.created_ms
            if job.is_final and ended_ms < before_ms and job_id not in self._debts:
                found.append(job_id)
        return found

    # -- changes ------------------------------------------------------------------------------

    def put(self, job: Job, n: int, size: int) -> Job | None:
        """Put in a job, new or changed, and return what it was before."""
        before = self._entries.get(job.id)
        # Not changed in place: a compaction may be writing what there was.
        self._entries[job.id] = Entry(job, n, size)
        self.size += size - (0 if before is None else before.size)
        if before is None:
            self._add(job)
        elif before.job.status != job.status:
            _take_out(self._lists, before.job, (job.id,), before.job.status)
            self._file(job, job.status)
        opened = (not job.is_final) - (before is not None and not before.job.is_final)
        self._open += opened
        self._tallies[job.key_sha256].open += opened
        if not owes(job):
            self._settled(job.id)
        elif job.id not in self._debts:
            self._debts.add(job.id)
            insort(self._debts_in_order, job.id)
        return None if before is None else before.job

    def _settled(self, job_id: str) -> None:
        if job_id in self._debts:
            self._debts.remove(job_id)
            del self._debts_in_order[bisect_left(self._debts_in_order, job_id)]

    def _add(self, job: Job) -> None:
        insort(self._ids, job.id)
        insort(self._lists.setdefault((job.key_sha256,), []), job.id)
        insort(self._lists.setdefault(("model", job.model), []), job.id)
        self._file(job, job.status)
        if job.idempotency_key:
            self._repeats[job.key_sha256, job.idempotency_key] = job.id
        tally = self._tallies.setdefault(job.key_sha256, KeyTally())
        tally.kept += 1
        tally.count(job.created_ms // DAY_MS)

    def _file(self, job: Job, status: str) -> None:
        insort(self._lists.setdefault((job.key_sha256, status), []), job.id)
        insort(self._lists.setdefault(("status", status), []), job.id)

    def remove(self, ids: Iterable[str]) -> list[Job]:
        """Take jobs out, and return them; ids that are not there are passed over."""
        entries = [self._entries.pop(job_id) for job_id in ids if job_id in self._entries]
        self.size -= sum(entry.size for entry in entries)
        removed = [entry.job for entry in entries]
        gone = sorted(job.id for job in removed)
        _cut_out(self._ids, gone)
        by_list: dict[tuple[str, ...], list[str]] = {}
        for job in removed:
            for name in _lists_of(job):
                by_list.setdefault(name, []).append(job.id)
            self._open -= not job.is_final
            self._settled(job.id)
            repeat = job.key_sha256, job.idempotency_key
            if job.idempotency_key and self._repeats.get(repeat) == job.id:
                del self._repeats[repeat]
            tally = self._tallies[job.key_sha256]
            tally.kept -= 1
            tally.open -= not job.is_final
            if not tally.kept:
                del self._tallies[job.key_sha256]
        for name, listed in by_list.items():
            _cut_out(self._lists[name], sorted(listed))
            if not self._lists[name]:
                del self._lists[name]
        return removed

    # -- lists --------------------------------------------------------------------------------

    def page(
        self,
        *,
        key_sha256: str | None = None,
        status: str | None = None,
        model: str | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> Page:
        """Return jobs, the newest first.

        :param after: the id of the job behind which to go on, whether it is still there or not.
        """
        listed = self._shortest(key_sha256, status, model)
        place = len(listed) if after is None else bisect_left(listed, after)
        found: list[Job] = []
        last = max(0, place - MAX_LOOKED_AT)
        while place > last:
            place -= 1
            job = self._entries[listed[place]].job
            if (
                (status is None or job.status == status)
                and (model is None or job.model == model)
                and (key_sha256 is None or job.key_sha256 == key_sha256)
            ):
                found.append(job)
                if len(found) > limit:
                    return Page(found[:limit], True, found[limit - 1].id)
        return Page(found, place > 0, listed[place] if place > 0 else "")

    def _shortest(
        self, key_sha256: str | None, status: str | None, model: str | None
    ) -> Sequence[str]:
        """Return the list that needs the fewest looks."""
        names: list[tuple[str, ...]] = []
        if key_sha256 is not None:
            names.append((key_sha256,) if status is None else (key_sha256, status))
        elif status is not None:
            names.append(("status", status))
        if model is not None:
            names.append(("model", model))
        return min((self._lists.get(name, []) for name in names), key=len, default=self._ids)


def _lists_of(job: Job) -> tuple[tuple[str, ...], ...]:
    return (
        (job.key_sha256,),
        (job.key_sha256, job.status),
        ("status", job.status),
        ("model", job.model),
    )


def _take_out(
    lists: dict[tuple[str, ...], list[str]], job: Job, ids: Sequence[str], status: str
) -> None:
    for name in ((job.key_sha256, status), ("status", status)):
        _cut_out(lists[name], ids)
        if not lists[name]:
            del lists[name]


def _cut_out(listed: list[str], ids: Sequence[str]) -> None:
    """Take sorted ids out of a sorted list that has them, run by run, the last run first."""
    end = len(ids)
    while end:
        place = bisect_left(listed, ids[end - 1])
        run = 1
        while run < end and place - run >= 0 and listed[place - run] == ids[end - 1 - run]:
            run += 1
        del listed[place - run + 1 : place + 1]
        end -= run
