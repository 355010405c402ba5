"""What a crash leaves of outputs: a job that says it has a file has it, and no file is nobody's."""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.adapters.base import InlineSource, UrlSource
from omnigate.jobs.job import RUNNING, SUCCEEDED, Job
from omnigate.jobs.output_faults import OutputFault
from omnigate.jobs.outputs import Outputs
from omnigate.jobs.store import JobStore, KeyLimits, NewJob
from omnigate.testing.memory_disk import CrashState, MemoryDisk
from omnigate.testing.platter import few_bytes
from omnigate.testing.writer import SynchronousWriter
from tests.jobs.outputs_case import MEDIA, PLENTY, PNG, FileHosts

LOG = "/state/jobs.jsonl"
NOW_MS = 1_796_000_000_000
URL = "https://cdn.example.com/0"
CONTENTS = (PNG * 3, b"second")
FINAL = "the job is final"


class Life:
    """The stores of one life of the process, on a disk."""

    def __init__(self, test: SynchronousTestCase, disk: MemoryDisk) -> None:
        test.patch(files, "os", disk)
        test.patch(files, "fcntl", disk)
        self.disk = disk
        self.test = test
        hosts = FileHosts()
        hosts.files[URL] = CONTENTS[0]
        self.store = JobStore(LOG, SynchronousWriter(), lambda: NOW_MS, chance=bytes)
        self.outputs = Outputs(
            MEDIA,
            SynchronousWriter(),
            SynchronousWriter(),
            lambda: hosts,
            lambda: "local",
            lambda: succeed(None),
            lambda: 0.0,
        )
        self.store.watchers.append(self.outputs.names.changed)

    def do(self, coroutine: Any) -> Any:
        """Return what has come of it."""
        return self.test.successResultOf(Deferred.fromCoroutine(coroutine))

    def open(self) -> Life:
        """Open both, as a start does."""
        self.do(self.store.open())
        self.outputs.names.load(self.store.every())
        self.do(self.outputs.open())
        return self

    def create(self) -> Job:
        """Make a job that runs."""
        new = NewJob("ab" * 32, "m", b'{"prompt":"x"}')
        job, _ = self.do(self.store.create(new, KeyLimits()))
        running: Job = self.do(self.store.change(job.id, status=RUNNING, started_ms=NOW_MS))
        return running

    def finish(self, job: Job) -> Deferred[Job]:
        """Store its outputs, and have it say so."""

        async def finish() -> Job:
            outputs = await self.outputs.store(
                job,
                [UrlSource(URL), InlineSource(CONTENTS[1])],
                own_origin="",
                limits=PLENTY,
            )
            return await self.store.change(
                job.id, status=SUCCEEDED, outputs=outputs, finished_ms=NOW_MS
            )

        return Deferred.fromCoroutine(finish())

    def files_there(self) -> dict[str, bytes]:
        """Return what lies in the media folder, by name."""
        return {
            path.removeprefix(MEDIA + "/"): content
            for path, content in self.disk.contents(MEDIA).items()
        }


class CrashTest(SynchronousTestCase):
    """Every crash of a job's end."""

    def check(self, state: CrashState, job_id: str) -> None:
        """Start anew on what is left, and go on."""
        life = Life(self, state.disk()).open()
        job, label = life.store.get(job_id), f"{state.point}: {state.label}"
        assert job is not None
        self.assertFalse(FINAL in state.marks and not job.is_final, label)
        if not job.is_final:
            self.assertEqual(life.files_there(), {}, label)
            job = self.successResultOf(life.finish(job))
        self.assertEqual(
            life.files_there(),
            {output.name: CONTENTS[n] for n, output in enumerate(job.outputs)},
            label,
        )
        for output, content in zip(job.outputs, CONTENTS, strict=True):
            self.assertEqual(output.size, len(content))
            self.assertEqual(output.sha256, hashlib.sha256(content).hexdigest())
        self.assertEqual(sorted(life.disk.listdir(MEDIA)), [".incoming", job_id], label)
        self.assertEqual(life.disk.listdir(f"{MEDIA}/.incoming"), [], label)
        # And what it has done now survives a power loss.
        life.disk.crash()
        self.assertEqual(len(Life(self, life.disk).open().files_there()), 2, label)

    def test_any_crash(self) -> None:
        life = Life(self, MemoryDisk("/state")).open()
        job = life.create()
        life.disk.record()
        self.successResultOf(life.finish(job))
        life.disk.mark(FINAL)
        states = 0
        for state in life.disk.crash_states(few_bytes, Random(1), mixed=5):
            self.check(state, job.id)
            states += 1
        self.assertGreater(states, 50)

    def test_the_world_ends_after_any_call(self) -> None:
        """What fails then fails the job, and the next start finds nothing that is nobody's."""
        calls = 0
        while True:
            life = Life(self, MemoryDisk("/state")).open()
            job = life.create()
            life.disk.calls_left["/state"] = calls
            result: list[Any] = []
            life.finish(job).addBoth(result.append)
            life.disk.kill()
            after = Life(self, life.disk).open()
            found = after.store.get(job.id)
            assert found is not None
            self.assertEqual(len(after.files_there()), len(found.outputs), calls)
            if isinstance(result[0], Job):
                self.assertEqual(found.status, SUCCEEDED)
                break
            calls += 1
        self.assertGreater(calls, 10)


class FullDiskTest(SynchronousTestCase):
    """A disk that fills up, at any byte."""

    def test_all_or_nothing(self) -> None:
        refused = stored = 0
        for free in range(0, sum(map(len, CONTENTS)) + 20, 3):
            life = Life(self, MemoryDisk("/state")).open()
            job = life.create()
            life.disk.free_bytes["/state"] = free
            done = Deferred.fromCoroutine(
                life.outputs.store(
                    job,
                    [UrlSource(URL), InlineSource(CONTENTS[1])],
                    own_origin="",
                    limits=PLENTY,
                )
            )
            if free < sum(map(len, CONTENTS)):
                fault = self.failureResultOf(done, OutputFault).value
                self.assertTrue(fault.is_ours)
                self.assertIn("no space left on device", fault.error.message)
                self.assertEqual(life.files_there(), {}, free)
                refused += 1
            else:
                self.successResultOf(done)
                self.assertEqual(len(life.files_there()), 2)
                stored += 1
        self.assertGreater(min(refused, stored), 3)
