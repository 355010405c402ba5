"""The next lines of the job log, judged one after the other as if those before were there already.

A draft is made of a table and thrown away, or taken over into the table once its lines are on the
disk; so a write that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from omnigate.errors import GatewayError
from omnigate.jobs.job import FINAL, NEXT, Job, Webhook
from omnigate.jobs.job_lines import (
    CHANGEABLE,
    MAX_INLINE_INPUT_BYTES,
    change_line,
    gone_line,
    job_line,
    repaired,
)
from omnigate.jobs.job_table import Entry, JobTable, KeyTally, Repeat, owes
from omnigate.jobs.new_job import KeyLimits, NewJob
from omnigate.periods import DAY_MS
from omnigate.text import one_line, valid_text
from omnigate.wire.json_values import rounded

#: Bytes of the lines of all jobs but for their inputs, beyond which no more are made: a job has
#: about 1 KB, and takes twice that in memory. Where metadata are long, or outputs many, it is
#: reached before the number of jobs is.
MAX_SIZE: Final = 512 * 1024 * 1024

#: What may still change of a final job: what is owed about its end.
CHANGEABLE_AT_THE_END: Final = frozenset(("webhook", "cost_owed"))


class JobFinal(Exception):  # noqa: N818
    """A final job's end was to be changed; it stays as it is.

    :ivar job: the job as it is.
    """

    def __init__(self, job: Job, fields: Iterable[str]) -> None:
        super().__init__(f"{job.id} is {job.status}: {', '.join(sorted(fields))} cannot change")
        self.job = job


class JobGone(Exception):  # noqa: N818
    """There is no such job, or not any more."""


@attrs.define(eq=False)
class Draft:
    """Judges what is to be done, and keeps the lines that say so.

    :ivar max_jobs: how many jobs there may be.
    :ivar lines: what is to be appended.
    :ivar new: for each line the id of the job that it makes, or None.
    :ivar inputs: the files to be written before that: job id, content.
    :ivar gone: the jobs that are to be removed.
    """

    table: JobTable
    max_jobs: int
    lines: list[bytes] = attrs.Factory(list)
    new: list[str | None] = attrs.Factory(list)
    inputs: list[tuple[str, bytes]] = attrs.Factory(list)
    gone: list[str] = attrs.Factory(list)
    _jobs: dict[str, Entry] = attrs.Factory(dict)
    _removed: set[str] = attrs.Factory(set)
    _repeats: dict[Repeat, str] = attrs.Factory(dict)
    _tallies: dict[str, KeyTally] = attrs.Factory(dict)
    _steps: list[Entry] = attrs.Factory(list)
    _made: int = 0

    # -- a new job ----------------------------------------------------------------------------

    def create(
        self, new: NewJob, limits: KeyLimits, now_ms: int, make_id: Callable[[], str]
    ) -> tuple[str, bool]:
        """Have a job made, unless its idempotency key has made one before.

        :return: its id, and whether it is new.
        :raises GatewayError: ``too_many_open_jobs``, ``too_many_jobs_today``, ``invalid_request``
            for an idempotency key of another request or an input that could not be read back,
            ``storage_unavailable`` where there are as many jobs as can be.
        """
        repeat = new.key_sha256, new.idempotency_key
        if new.idempotency_key:
            known = self._known(repeat)
            if known is not None:
                return same_request(known, new.request_sha256).id, False
        tally = self._tally(new.key_sha256)
        today = now_ms // DAY_MS
        self._check(tally, limits, today)
        job = Job(
            id=make_id(),
            key_sha256=new.key_sha256,
            model=valid_text(new.model),
            created_ms=now_ms,
            metadata=new.metadata,
            idempotency_key=new.idempotency_key,
            request_sha256=new.request_sha256 if new.idempotency_key else "",
            webhook=None if new.webhook_url is None else Webhook(valid_text(new.webhook_url)),
        )
        inline = None
        if len(new.input_json) > MAX_INLINE_INPUT_BYTES:
            job = msgspec.structs.replace(job, input_file=True)
        else:
            # A line end can stand in JSON only where a space can.
            inline = new.input_json.replace(b"\r", b" ").replace(b"\n", b" ")
            job = msgspec.structs.replace(job, input=_decoded(inline))
        try:
            line = job_line(job, 1, inline)
        except UnicodeEncodeError:
            job = repaired(job)
            line = job_line(job, 1, inline)
        if job.input_file:
            self.inputs.append((job.id, new.input_json))
        self.lines.append(line)
        self.new.append(job.id)
        self._put(Entry(job, 1, len(line) - len(inline or b"")))
        if new.idempotency_key:
            self._repeats[repeat] = job.id
        tally.open += 1
        tally.count(today)
        self._made += 1
        return job.id, True

    def _known(self, repeat: Repeat) -> Job | None:
        job_id = self._repeats.get(repeat)
        if job_id is not None:
            return self._jobs[job_id].job
        job = self.table.repeat_of(repeat)
        return None if job is None or job.id in self._removed else self.get(job.id)

    def _tally(self, key_sha256: str) -> KeyTally:
        tally = self._tallies.get(key_sha256)
        if tally is None:
            tally = self._tallies[key_sha256] = attrs.evolve(self.table.tally(key_sha256))
        return tally

    def _check(self, tally: KeyTally, limits: KeyLimits, today: int) -> None:
        if limits.max_open_jobs and tally.open >= limits.max_open_jobs:
            raise GatewayError(
                "too_many_open_jobs",
                f"this key has {tally.open} unfinished jobs and may have {limits.max_open_jobs}; "
                "wait until one is done, or cancel one",
                retry_after=10,
            )
        made = tally.made_on(today)
        if limits.max_jobs_per_day and made >= limits.max_jobs_per_day:
            raise GatewayError(
                "too_many_jobs_today",
                f"this key has made {made} jobs today and may make {limits.max_jobs_per_day} a "
                "day; the next day begins at midnight UTC",
                retry_after=60,
            )
        if len(self.table) + self._made >= self.max_jobs or self.table.size >= MAX_SIZE:
            raise GatewayError(
                "storage_unavailable",
                f"{len(self.table)} jobs are kept, and no more can be; an operator can have "
                "finished ones removed earlier, with retention.jobs_days",
                retry_after=60,
            )

    # -- a change -----------------------------------------------------------------------------

    def get(self, job_id: str) -> Job:
        """Return a job as it will be.

        :raises JobGone: there is none.
        """
        return self._entry(job_id).job

    def _entry(self, job_id: str) -> Entry:
        mine = self._jobs.get(job_id)
        if mine is not None:
            return mine
        entry = self.table.entry(job_id)
        if entry is None or job_id in self._removed:
            raise JobGone(job_id)
        return entry

    def change(self, job_id: str, fields: Mapping[str, Any]) -> None:
        """Have a job changed; where it is so already, nothing is written.

        :raises JobGone: there is no such job.
        :raises JobFinal: its end would change.
        :raises ValueError: the states do not follow each other, or a field never changes.
        """
        entry = self._entry(job_id)
        job, n = entry.job, entry.n
        unknown = fields.keys() - CHANGEABLE
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} of a job cannot change")
        changed = {name: value for name, value in fields.items() if getattr(job, name) != value}
        if not changed:
            return
        if job.is_final and not changed.keys() <= CHANGEABLE_AT_THE_END:
            raise JobFinal(job, changed.keys() - CHANGEABLE_AT_THE_END)
        status = changed.get("status", job.status)
        if status != job.status and status not in NEXT[job.status]:
            raise ValueError(f"{job.id} is {job.status}, and cannot become {status}")
        try:
            line = change_line(job_id, n + 1, changed)
        except UnicodeEncodeError:
            changed = repaired(changed)
            line = change_line(job_id, n + 1, changed)
        after = msgspec.structs.replace(job, **changed)
        if status in FINAL and not job.is_final:
            # Nothing works with it any more: from now on it is read back where it is asked for.
            after = msgspec.structs.replace(after, input=None)
            self._tally(job.key_sha256).open -= 1
        self.lines.append(line)
        self.new.append(None)
        self._put(Entry(after, n + 1, entry.size + len(line)))

    def _put(self, entry: Entry) -> None:
        self._jobs[entry.job.id] = entry
        self._steps.append(entry)

    # -- a removal ----------------------------------------------------------------------------

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Have final jobs removed that owe nothing; others are passed over.

        :return: those that will be.
        """
        removed = []
        for job_id in ids:
            try:
                job = self.get(job_id)
            except JobGone:
                continue
            if job.is_final and not owes(job):
                removed.append(job_id)
                self._jobs.pop(job_id, None)
        self._removed.update(removed)
        self.gone.extend(removed)
        if removed:
            self.lines.append(gone_line(removed))
            self.new.append(None)
        return removed

    # -- the end ------------------------------------------------------------------------------

    def take_over(self) -> tuple[list[tuple[Job | None, Job]], list[Job]]:
        """Put it all into the table: its lines are on the disk.

        :return: each change as (before, after), and the jobs that were removed.
        """
        changes = [
            (self.table.put(entry.job, entry.n, entry.size), entry.job) for entry in self._steps
        ]
        return changes, self.table.remove(self.gone)


_decode_input = msgspec.json.Decoder(dict[str, Any], float_hook=rounded).decode


def _decoded(inline: bytes) -> dict[str, Any]:
    """Read an input as a start will, before it is written."""
    try:
        return _decode_input(inline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GatewayError(
            "invalid_request",
            f"the input cannot be kept: {one_line(str(error), 200)}",
            param="input",
        ) from None


def same_request(job: Job, request_sha256: str) -> Job:
    """Return the job of an idempotency key, if it is of the same request.

    :raises GatewayError: ``invalid_request``.
    """
    if job.request_sha256 != request_sha256:
        raise GatewayError(
            "invalid_request",
            "this idempotency key has made a job with another request before; take a new one for "
            "another job, or send the same request again",
            param="Idempotency-Key",
        )
    return job
