"""Jobs that were done before: an identical one takes over their outputs, at no cost.

Identical is what asks for the same: one key, one route, one input, whatever the order of its
members. Only an input that lies in the job's record is looked for; one that is a file is large for
the images in it, and those are hardly sent twice.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from omnigate.jobs.job import SUCCEEDED, Job

#: Jobs that are remembered, of 250 bytes each; the oldest are forgotten.
MAX_REMEMBERED: Final = 20_000

_canonical = msgspec.json.Encoder(order="deterministic").encode


@attrs.frozen
class _Earlier:
    job_id: str
    recipients: tuple[str, ...]


class EarlierJobs:
    """What was done before.

    :param get: returns a job as the disk has it.
    """

    def __init__(self, get: Callable[[str], Job | None]) -> None:
        self._get = get
        self._known: OrderedDict[bytes, _Earlier] = OrderedDict()

    def remember(self, mark: bytes | None, job: Job, recipients: Sequence[str]) -> None:
        """Remember a job that has succeeded on its own.

        :param mark: what :func:`mark_of` said of it.
        :param recipients: whom outputs of its key are encrypted for now.
        """
        if mark is None or job.status != SUCCEEDED or job.cached_from or not job.outputs:
            return
        if any(output.encrypted != bool(recipients) for output in job.outputs):
            return  # the config became another one while they were stored
        self._known.pop(mark, None)
        self._known[mark] = _Earlier(job.id, tuple(recipients))
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def load(self, mark: bytes | None, job: Job) -> None:
        """Remember a job of a former life; the newest come first.

        Nobody knows any more whom outputs were encrypted for, so such are left out.
        """
        if mark is None or mark in self._known or len(self._known) >= MAX_REMEMBERED:
            return
        if not any(output.encrypted for output in job.outputs):
            self.remember(mark, job, ())
            if mark in self._known:
                self._known.move_to_end(mark, last=False)

    def find(
        self, mark: bytes | None, ttl_s: int, recipients: Sequence[str], now_ms: int
    ) -> Job | None:
        """Return the job that did what another one asks for, if its outputs are still there.

        :param mark: what :func:`mark_of` said of that other one.
        """
        earlier = None if mark is None else self._known.get(mark)
        if earlier is None or mark is None:
            return None
        found = self._get(earlier.job_id)
        if found is None or found.status != SUCCEEDED:
            del self._known[mark]
            return None
        fresh = 0 <= now_ms - found.finished_ms <= ttl_s * 1000
        return found if fresh and earlier.recipients == tuple(recipients) else None


def is_worth_reading(job: Job) -> bool:
    """Whether the input of a job of a former life is needed: whether it can be remembered."""
    return (
        job.status == SUCCEEDED
        and not job.cached_from
        and not job.input_file
        and bool(job.outputs)
        and not any(output.encrypted for output in job.outputs)
    )


def mark_of(job: Job, input: Mapping[str, Any] | None) -> bytes | None:
    """Return what identical jobs have in common; None of one that is not looked for.

    :param input: that of the job, where it lies in the job's record.
    """
    if input is None or job.input_file:
        return None
    return hashlib.sha256(_canonical((job.key_sha256, job.model, input))).digest()
