"""Which files are some job's, against a plain count."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.job import Job, Output
from omnigate.jobs.stored_names import StoredNames

NAMES = [(storage, f"job_{n}/0.png") for storage in ("local", "s3") for n in range(3)]
OUTPUTS = st.lists(st.sampled_from(NAMES), max_size=4).map(
    lambda names: tuple(Output("image/png", 1, "00", "url", place, name) for place, name in names)
)
JOBS = st.integers(0, 4)
STATES = st.sampled_from(["queued", "running", "succeeded", "failed"])


class StoredNamesTest(SynchronousTestCase):
    """Jobs that come, change and go."""

    @given(
        st.lists(st.tuples(JOBS, STATES, OUTPUTS)),
        st.lists(st.tuples(JOBS, st.none() | st.tuples(STATES, OUTPUTS))),
    )
    def test_any_history(
        self,
        loaded: list[tuple[int, str, tuple[Output, ...]]],
        changes: list[tuple[int, tuple[str, tuple[Output, ...]] | None]],
    ) -> None:
        names, jobs = StoredNames(), dict[int, Job]()
        for n, status, outputs in loaded:
            jobs[n] = Job(f"job_{n}", "k", "m", 1, status=status, outputs=outputs)
        names.load(jobs.values())
        for n, after in changes:
            before = jobs.pop(n, None)
            if after is not None:
                jobs[n] = Job(f"job_{n}", "k", "m", 1, status=after[0], outputs=after[1])
            names.changed(before, jobs.get(n))
        counted = Counter((one.storage, one.name) for job in jobs.values() for one in job.outputs)
        self.assertEqual(len(names), len(counted))
        for storage, name in NAMES:
            self.assertEqual(names.held(storage, name), (storage, name) in counted)
        unfinished = {job.id for job in jobs.values() if job.status in ("queued", "running")}
        self.assertEqual(names.unfinished, unfinished)
