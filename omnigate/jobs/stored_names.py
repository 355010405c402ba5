"""Which stored files are some job's: a cached job has those of another, which may go before it.

And which jobs have not ended: theirs may be stored just now.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigate.jobs.job import Job, Output


class StoredNames:
    """Counts the jobs that have a file, by its storage and name.

    It hears of every change of a job, in order: :meth:`changed` is a watcher of the job store.

    :ivar unfinished: the ids of the jobs that have not ended.
    """

    def __init__(self) -> None:
        # By storage, then by name: 300,000 jobs have many.
        self._counts: dict[str, dict[str, int]] = {}
        self.unfinished: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self._counts.values()))

    def held(self, storage: str, name: str) -> bool:
        """Whether a job has the file of that name."""
        return name in self._counts.get(storage, ())

    def load(self, jobs: Iterable[Job]) -> None:
        """Take in the jobs there are."""
        for job in jobs:
            self._add(job.outputs)
            if not job.is_final:
                self.unfinished.add(job.id)

    def changed(self, before: Job | None, after: Job | None) -> None:
        """Take in that a job is another now, is new, or is gone (None)."""
        old = () if before is None else before.outputs
        new = () if after is None else after.outputs
        if old is not new and old != new:
            self._add(new)
            self._take(old)
        if after is not None and not after.is_final:
            self.unfinished.add(after.id)
        elif before is not None:
            self.unfinished.discard(before.id)

    def _add(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            counts = self._counts.setdefault(output.storage, {})
            counts[output.name] = counts.get(output.name, 0) + 1

    def _take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            counts = self._counts.get(output.storage, {})
            left = counts.get(output.name, 0) - 1
            if left > 0:
                counts[output.name] = left
            else:
                counts.pop(output.name, None)
