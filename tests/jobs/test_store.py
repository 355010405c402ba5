"""Tests for omnigate.jobs.store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import product
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.errors import GatewayError
from omnigate.jobs import job_compaction, job_draft, job_groups
from omnigate.jobs.job import (
    CANCELED,
    DELIVERED,
    FAILED,
    PENDING,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
    JobError,
    Output,
    Webhook,
)
from omnigate.jobs.job_table import JobTable
from omnigate.jobs.new_job import id_of
from omnigate.jobs.store import (
    InputLost,
    JobFinal,
    JobGone,
    JobLogUnreadableError,
    JobStore,
    KeyLimits,
    NewJob,
    StorageUnavailable,
)
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter

FOLDER = "/state"
PATH = f"{FOLDER}/jobs.jsonl"
INPUTS = f"{PATH}.inputs"
NOW_MS = 1_796_000_000_000
DAY_MS = 86_400_000
KEY = "a" * 64
OTHER = "b" * 64
NO_LIMITS = KeyLimits(0, 0)


def new_job(text: str = "a cat", **members: Any) -> NewJob:
    """A job that is to be made, its input about as long as the text."""
    made = {"prompt": text}
    return NewJob(
        **{
            "key_sha256": KEY,
            "model": "flux",
            "input_json": json.dumps(made).encode(),
            "request_sha256": text,
            **members,
        }
    )


LONG = "x" * 9_000


class StoreCase(SynchronousTestCase):
    """A store on a disk in memory, with a writer that works on the spot."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(FOLDER, INPUTS)
        self.patch(files, "os", self.disk)
        self.patch(files, "fcntl", self.disk)
        self.now_ms = NOW_MS
        self.crashes: list[Failure] = []
        self.store = self.start()

    def start(self, **options: Any) -> JobStore:
        """Start a process on what the disk has; the one before is killed."""
        self.disk.kill()
        self.writer = SynchronousWriter()
        self.store = JobStore(
            PATH, self.writer, lambda: self.now_ms, crashed=self.crashes.append, **options
        )
        self.done(self.store.open())
        return self.store

    def done(self, coroutine: Any) -> Any:
        """Have something done, and return what it returns."""
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def failed(self, coroutine: Any, *kinds: type[BaseException]) -> Any:
        """Have something done, and return what it raises."""
        return self.failureResultOf(Deferred.fromCoroutine(coroutine), *kinds).value

    def make(self, text: str = "a cat", limits: KeyLimits = NO_LIMITS, **members: Any) -> Job:
        """Make a job."""
        job, made = self.done(self.store.create(new_job(text, **members), limits))
        self.assertTrue(made)
        assert isinstance(job, Job)
        return job

    def change(self, job: Job, **fields: Any) -> Job:
        """Change a job."""
        changed = self.done(self.store.change(job.id, **fields))
        assert isinstance(changed, Job)
        return changed

    def end(self, job: Job, **fields: Any) -> Job:
        """Have a job succeed."""
        return self.change(job, **{"status": SUCCEEDED, "finished_ms": self.now_ms, **fields})

    def lines(self) -> list[dict[str, Any]]:
        """What stands in the log."""
        content = self.disk.contents()[PATH]
        return [json.loads(line) for line in content.splitlines()]

    def ids(self, jobs: Iterable[Job]) -> list[str]:
        return [job.id for job in jobs]


class JobsOnDiskTests(StoreCase):
    """What is written, and what a start reads back."""

    def test_a_new_job_is_one_line_and_each_change_a_short_one(self) -> None:
        """The input is written once; a change names only what changed."""
        job = self.make()
        self.change(job, status=RUNNING, started_ms=NOW_MS + 1)
        first, second = self.lines()
        self.assertEqual(first["input"], {"prompt": "a cat"})
        self.assertEqual((first["id"], first["status"]), (job.id, QUEUED))
        del second["crc32"]
        self.assertEqual(
            second,
            {
                "v": 1,
                "kind": "change",
                "n": 2,
                "id": job.id,
                "status": RUNNING,
                "started_ms": NOW_MS + 1,
            },
        )

    def test_every_field_comes_back(self) -> None:
        """A start knows all that was written, nested values included, and fields set back."""
        job = self.make(metadata={"user": 7}, webhook_url="https://example.com/h")
        self.change(
            job,
            status=RUNNING,
            target=1,
            provider_job_id="p1",
            provider_notes={"get": "https://provider.example/1"},
            attempts=(Attempt(0, "fal", "https://q", "m", 1, 2, "failed", JobError("x", "y")),),
        )
        self.change(job, provider_job_id="", provider_notes={})
        expected = self.end(
            job,
            outputs=(Output("image/png", 5, "f" * 64, "url", "local", "job/0.png"),),
            cost_nano=3_000_000,
            cost_owed=True,
            webhook=Webhook("https://example.com/h", PENDING),
        )
        self.assertEqual(self.start().get(job.id), expected)
        self.assertEqual(expected.provider_job_id, "")
        self.assertEqual(expected.metadata, {"user": 7})

    def test_nothing_is_written_where_nothing_differs(self) -> None:
        """A change to what is so already costs no sync."""
        job = self.make()
        self.assertEqual(self.change(job, status=QUEUED), job)
        self.assertEqual(len(self.lines()), 1)

    def test_a_long_input_lies_in_a_file(self) -> None:
        """It is synced before the job's line is there, and says so in the line."""
        job = self.make(LONG)
        self.assertIsNone(job.input)
        (line,) = self.lines()
        self.assertEqual((line["input"], line["input_file"]), (None, True))
        self.assertIn(f"{INPUTS}/{job.id}.json", self.disk.certain())
        self.assertEqual(self.done(self.store.input_of(job)), {"prompt": LONG})
        self.assertEqual(self.done(self.start().input_of(job)), {"prompt": LONG})

    def test_a_short_input_is_dropped_from_memory_at_the_end_and_read_back(self) -> None:
        """After a start, and after a compaction, too."""
        job = self.end(self.make())
        self.assertIsNone(job.input)
        self.assertEqual(self.done(self.store.input_of(job)), {"prompt": "a cat"})
        self.start()
        self.assertEqual(len(self.lines()), 1)
        found = self.store.get(job.id)
        assert found is not None
        self.assertIsNone(found.input)
        self.assertEqual(self.done(self.store.input_of(found)), {"prompt": "a cat"})

    def test_a_lost_input_is_told(self) -> None:
        """A backup without the folder of inputs loses them, and no more."""
        job = self.make(LONG)
        self.disk.unlink(f"{INPUTS}/{job.id}.json")
        self.start()
        self.flushLoggedErrors()
        self.failed(self.store.input_of(job), InputLost)

    def test_an_input_file_without_a_job_is_removed_at_a_start(self) -> None:
        """Other files in the folder are left alone."""
        job = self.make(LONG)
        orphan = f"{INPUTS}/job_{'0' * 26}.json"
        other = f"{INPUTS}/notes.txt"
        for path in (orphan, other):
            self.disk.put(path, b"{}")
        self.start()
        self.assertEqual(set(self.disk.contents(INPUTS)), {other, f"{INPUTS}/{job.id}.json"})

    def test_line_ends_in_an_input_do_not_break_the_line(self) -> None:
        """A client may send JSON over many lines."""
        text = b'{\n  "prompt":\r\n "a\\ncat"\n}'
        job = self.make(input_json=text)
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(job.input, {"prompt": "a\ncat"})

    def test_text_that_cannot_be_encoded_is_repaired(self) -> None:
        """Half a surrogate pair in a provider's words becomes U+FFFD, in memory as on the disk."""
        job = self.make(metadata={"a": "\ud800"})
        self.assertEqual(job.metadata, {"a": "\N{REPLACEMENT CHARACTER}"})
        ended = self.change(job, status=FAILED, error=JobError("provider_failed", "x\udfff"))
        self.assertEqual(ended.error, JobError("provider_failed", "x\N{REPLACEMENT CHARACTER}"))
        self.assertEqual(self.start().get(job.id), ended)

    def test_numbers_that_are_hard_to_round(self) -> None:
        """Jobs full of them hold up neither their making nor a start."""
        began = time.thread_time()
        for _ in range(20):
            made = self.make(
                input_json=b'{"a":[%b1]}' % (b"1e308," * 1_300), metadata={"a": [1e308] * 2_500}
            )
        self.assertEqual(made, self.start().get(made.id))
        self.assertLess(time.thread_time() - began, 0.5)

    def test_ids_sort_by_the_time_of_creation(self) -> None:
        """Also within a millisecond, with a clock put back, and after a start."""
        made = [self.make(), self.make()]
        self.now_ms -= 5_000
        made.append(self.make())
        self.start()
        made.append(self.make())
        self.now_ms += 60_000
        made.append(self.make())
        self.assertEqual(self.ids(made), sorted(self.ids(made)))
        self.assertEqual(len({job.id for job in made}), 5)
        for job in made:
            self.assertRegex(job.id, r"\Ajob_[0-9a-hjkmnp-tv-z]{26}\Z")


class LimitsTests(StoreCase):
    """What is judged in one step with the insert."""

    def refusal(self, limits: KeyLimits, **members: Any) -> str:
        error = self.failed(self.store.create(new_job(**members), limits), GatewayError)
        return str(error.kind.code)

    def test_an_idempotency_key_makes_one_job(self) -> None:
        """The same key again is the same job, also when it is final and after a start."""
        job = self.make(idempotency_key="k1")
        again, made = self.done(self.store.create(new_job(idempotency_key="k1"), NO_LIMITS))
        self.assertEqual((again, made), (job, False))
        ended = self.end(job)
        self.start()
        again, made = self.done(self.store.create(new_job(idempotency_key="k1"), NO_LIMITS))
        self.assertEqual((again, made), (ended, False))
        other = self.make(key_sha256=OTHER, idempotency_key="k1")
        self.assertNotEqual(other.id, job.id)

    def test_an_idempotency_key_of_another_request_is_refused(self) -> None:
        """And the refusal names it."""
        self.make(idempotency_key="k1")
        error = self.failed(
            self.store.create(new_job("a dog", idempotency_key="k1"), NO_LIMITS), GatewayError
        )
        self.assertEqual((error.kind.code, error.param), ("invalid_request", "Idempotency-Key"))

    def test_open_jobs_are_counted_until_they_end(self) -> None:
        """By key; a start counts them anew."""
        limits = KeyLimits(2, 0)
        first = self.make(limits=limits)
        self.make(limits=limits)
        self.assertEqual(self.refusal(limits), "too_many_open_jobs")
        self.make(limits=limits, key_sha256=OTHER)
        self.start()
        self.assertEqual(self.refusal(limits), "too_many_open_jobs")
        self.end(first)
        self.make(limits=limits)
        self.assertEqual(self.refusal(limits), "too_many_open_jobs")

    def test_jobs_of_a_day_are_counted_until_midnight_utc(self) -> None:
        """Also those that have ended; a start counts them anew."""
        limits = KeyLimits(0, 2)
        self.end(self.make(limits=limits))
        self.make(limits=limits)
        self.assertEqual(self.refusal(limits), "too_many_jobs_today")
        self.start()
        self.assertEqual(self.refusal(limits), "too_many_jobs_today")
        self.now_ms = (NOW_MS // DAY_MS + 1) * DAY_MS - 1
        self.assertEqual(self.refusal(limits), "too_many_jobs_today")
        self.now_ms += 1
        self.make(limits=limits)

    def test_a_clock_that_was_ahead_does_not_use_up_the_days_to_come(self) -> None:
        """A day back counts as the same day, so that nobody gains by it; a year back does not."""
        limits = KeyLimits(0, 1)
        self.now_ms += 365 * DAY_MS
        self.make(limits=limits)
        self.now_ms -= DAY_MS
        self.assertEqual(self.refusal(limits), "too_many_jobs_today")
        self.now_ms = NOW_MS
        self.make(limits=limits)
        self.start()
        self.assertEqual(self.refusal(limits), "too_many_jobs_today")
        self.now_ms += DAY_MS
        self.make(limits=limits)

    def test_a_repeat_is_answered_whatever_the_limits(self) -> None:
        """It makes nothing, so nothing is counted."""
        limits = KeyLimits(1, 1)
        job = self.make(limits=limits, idempotency_key="k")
        again, made = self.done(self.store.create(new_job(idempotency_key="k"), limits))
        self.assertEqual((again, made), (job, False))

    def test_a_full_store_refuses_with_the_remedy(self) -> None:
        """More than so many jobs do not fit into memory."""
        self.start(max_jobs=1)
        self.make()
        error = self.failed(self.store.create(new_job(), NO_LIMITS), GatewayError)
        self.assertEqual(error.kind.code, "storage_unavailable")
        self.assertIn("retention.jobs_days", error.message)

    def test_long_records_fill_the_store_sooner(self) -> None:
        """Counted without inputs, the same after a start, and given back with a job."""
        self.make(LONG)
        job = self.make(metadata={"a": "x" * 5_000})
        self.end(job)
        size = self.store._table.size
        self.assertTrue(5_000 < size < 8_000, size)
        self.start()
        self.assertTrue(5_000 < self.store._table.size < 8_000)
        self.patch(job_draft, "MAX_SIZE", 5_000)
        self.assertEqual(self.refusal(NO_LIMITS), "storage_unavailable")
        self.done(self.store.sweep(NOW_MS + 1))
        self.make()

    def test_an_input_that_could_not_be_read_back_is_refused(self) -> None:
        """Whoever made it said that it is JSON."""
        self.assertEqual(self.refusal(NO_LIMITS, input_json=b'{"a":'), "invalid_request")
        self.assertEqual(self.lines(), [])


class ChangesTests(StoreCase):
    """What may change, and what may not."""

    def test_a_final_job_does_not_change(self) -> None:
        """But for what is owed about its end."""
        job = self.end(self.make(webhook_url="https://e.com"), cost_owed=True)
        for fields in ({"status": FAILED}, {"outputs": ()}, {"cost_nano": 1}, {"cancel_ms": 1}):
            if fields != {"outputs": ()}:
                self.failed(self.store.change(job.id, **fields), JobFinal)
        self.assertEqual(self.store.get(job.id), job)
        job = self.change(job, cost_owed=False, webhook=Webhook("https://e.com", PENDING))
        self.assertFalse(job.cost_owed)

    def test_states_follow_each_other(self) -> None:
        """A running job is not queued again."""
        job = self.change(self.make(), status=RUNNING)
        self.failed(self.store.change(job.id, status=QUEUED), ValueError)
        self.failed(self.store.change(job.id, model="x"), ValueError)
        self.change(job, status=CANCELED)

    def test_a_job_that_is_not_there_is_told(self) -> None:
        """Not made up."""
        self.failed(self.store.change("job_x", status=RUNNING), JobGone)
        self.assertIsNone(self.store.get("job_x"))

    def test_a_patch_that_is_too_long_is_refused_alone(self) -> None:
        """Nothing of it is written."""
        job = self.make()
        self.failed(self.store.change(job.id, provider_notes={"a": "x" * 300_000}), ValueError)
        self.assertEqual(len(self.lines()), 1)
        self.change(job, status=RUNNING)

    def test_watchers_are_told_of_what_is_visible(self) -> None:
        """One that raises keeps nobody from being told."""
        seen: list[tuple[str | None, str]] = []

        def break_down(before: Job | None, after: Job) -> None:
            raise RuntimeError("oh")

        def watch(before: Job | None, after: Job) -> None:
            self.assertEqual(self.store.get(after.id), after)
            seen.append((None if before is None else before.status, after.status))

        self.store.watchers += [break_down, watch]
        self.change(self.make(), status=RUNNING)
        self.assertEqual(seen, [(None, QUEUED), (QUEUED, RUNNING)])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    def test_what_is_unfinished_and_what_is_owed_is_known(self) -> None:
        """Also after a start."""
        queued = self.make()
        owing = self.end(self.make(), cost_owed=True)
        hooked = self.end(
            self.make(webhook_url="https://e.com"), webhook=Webhook("https://e.com", PENDING)
        )
        self.end(self.make())
        for _ in range(2):
            self.assertEqual(self.ids(self.store.unfinished()), [queued.id])
            self.assertEqual(self.ids(self.store.with_debts()), [owing.id, hooked.id])
            self.start()
        self.assertEqual(self.ids(self.store.with_debts(limit=1)), [owing.id])
        self.assertEqual(self.ids(self.store.with_debts(owing.id, 1)), [hooked.id])
        self.assertEqual(self.ids(self.store.with_debts(hooked.id, 1)), [])
        self.change(owing, cost_owed=False)
        self.assertEqual(self.ids(self.store.with_debts()), [hooked.id])
        self.change(hooked, webhook=Webhook("https://e.com", DELIVERED))
        self.assertEqual(self.ids(self.store.with_debts(owing.id)), [])


class GroupsTests(StoreCase):
    """What waits together is written together."""

    def setUp(self) -> None:
        super().setUp()
        self.writer.holding = True

    def ask(self, coroutine: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(coroutine)

    def test_a_thousand_jobs_take_a_few_syncs(self) -> None:
        """One for the first, and one for each group after it."""
        self.disk.calls.clear()
        asked = [self.ask(self.store.create(new_job(str(n)), NO_LIMITS)) for n in range(1_000)]
        while self.writer.run():
            pass
        for each in asked:
            self.successResultOf(each)
        self.assertEqual(self.disk.calls.count("fdatasync"), 1 + 10)

    def test_nothing_is_visible_before_it_is_synced(self) -> None:
        """Neither a new job nor a change."""
        asked = self.ask(self.store.create(new_job(), NO_LIMITS))
        self.assertNoResult(asked)
        self.assertEqual(len(self.store), 0)
        self.writer.run()
        job, _ = self.successResultOf(asked)
        change = self.ask(self.store.change(job.id, status=RUNNING))
        self.assertEqual(self.store.get(job.id), job)
        self.writer.run()
        self.successResultOf(change)

    def test_what_waits_is_judged_by_what_is_before_it(self) -> None:
        """The last place is taken once, an idempotency key makes one job, a job ends once."""
        limits = KeyLimits(3, 0)
        first = self.ask(self.store.create(new_job(), limits))
        same = [self.ask(self.store.create(new_job(idempotency_key="k"), limits)) for _ in range(2)]
        asked = [self.ask(self.store.create(new_job(), limits)) for _ in range(3)]
        self.writer.run()
        self.writer.run()
        job, _ = self.successResultOf(first)
        made = [self.successResultOf(each) for each in same]
        self.assertEqual(made[0][0], made[1][0])
        self.assertEqual([is_new for _, is_new in made], [True, False])
        self.successResultOf(asked[0])
        for each in asked[1:]:
            self.failureResultOf(each, GatewayError)
        ends = [
            self.ask(self.store.change(job.id, status=status)) for status in (FAILED, SUCCEEDED)
        ]
        more = self.ask(self.store.change(job.id, cost_owed=True))
        for _ in range(3):
            self.writer.run()
        self.successResultOf(ends[0])
        self.failureResultOf(ends[1], JobFinal)
        found = self.successResultOf(more)
        self.assertEqual((found.status, found.cost_owed), (FAILED, True))

    def test_a_group_that_fails_has_not_happened(self) -> None:
        """Each of it fails; places and idempotency keys are free again."""
        self.writer.holding = False
        job = self.make()
        self.writer.holding = True
        for call, folder in (
            ("write", INPUTS),
            ("fsync", INPUTS),
            ("write", FOLDER),
            ("fdatasync", FOLDER),
        ):
            limits = KeyLimits(3, 3)
            change = self.ask(self.store.change(job.id, status=RUNNING))
            self.writer.run()
            self.successResultOf(change)
            blocking = self.ask(self.store.change(job.id, target=job.target + 1))
            asked = [
                self.ask(self.store.create(new_job(LONG, idempotency_key="k"), limits)),
                self.ask(self.store.create(new_job("b"), limits)),
                self.ask(self.store.change(job.id, status=FAILED)),
            ]
            self.writer.run(1)
            self.successResultOf(blocking)
            self.disk.fail(call, folder=folder)
            self.writer.run()
            for each in asked:
                self.failureResultOf(each, StorageUnavailable)
            found = self.store.get(job.id)
            assert found is not None
            self.assertEqual((found.status, len(self.store)), (RUNNING, 1))
            self.assertEqual(self.disk.contents(INPUTS), {})
            job = found
        self.writer.holding = False
        self.make(LONG, limits=KeyLimits(2, 0), idempotency_key="k")

    def test_what_is_wanted_while_others_are_told_comes_behind_them(self) -> None:
        """So a watcher sees the changes of a job in their order."""
        seen: list[tuple[int, int]] = []

        def watch(before: Job | None, after: Job) -> None:
            if before is not None:
                seen.append((before.target, after.target))
            if after.target == 0:
                self.ask(self.store.change(after.id, target=2))

        self.writer.holding = False
        job = self.make()
        self.store.watchers.append(watch)
        self.writer.holding = True
        self.ask(self.store.change(job.id, started_ms=5))
        self.ask(self.store.change(job.id, target=0))
        self.ask(self.store.change(job.id, target=1))
        self.writer.holding = False
        self.writer.run()
        self.assertEqual(seen, [(-1, -1), (-1, 0), (0, 1), (1, 2)])

    def test_a_log_that_was_moved_takes_nothing(self) -> None:
        """What would be written could be lost at the next start."""
        self.writer.holding = False
        job = self.make()
        content = self.disk.contents()[PATH]
        self.disk.unlink(PATH)
        error = self.failed(self.store.change(job.id, status=RUNNING), StorageUnavailable)
        self.assertIn("moved", error.detail)
        self.disk.put(PATH, content)
        self.start()
        self.change(job, status=RUNNING)

    def test_closing_writes_what_waits(self) -> None:
        """And takes nothing more."""
        asked = [self.ask(self.store.create(new_job(), NO_LIMITS)) for _ in range(300)]
        closed = self.ask(self.store.close())
        self.failureResultOf(self.ask(self.store.create(new_job(), NO_LIMITS)), GatewayError)
        while self.writer.run():
            pass
        self.successResultOf(closed)
        for each in asked:
            self.successResultOf(each)
        self.assertEqual(len(self.start()), 300)

    def test_abandoning_fails_whoever_waits(self) -> None:
        """Nothing is written any more."""
        asked = [self.ask(self.store.create(new_job(), NO_LIMITS)) for _ in range(2)]
        self.store.abandon()
        for each in asked:
            error = self.failureResultOf(each, GatewayError).value
            self.assertEqual(error.kind.code, "not_ready")
        self.assertEqual(len(self.start()), 0)

    def test_a_fault_of_the_program_is_a_crash(self) -> None:
        """The guard starts it again."""

        def broken(*arguments: object) -> None:
            raise RuntimeError("oh")

        self.patch(self.store._files, "append", broken)
        asked = self.ask(self.store.create(new_job(), NO_LIMITS))
        self.writer.run()
        self.failureResultOf(asked, GatewayError)
        self.assertEqual(len(self.crashes), 1)
        self.failureResultOf(self.ask(self.store.create(new_job(), NO_LIMITS)), GatewayError)

    def test_more_than_may_wait_is_refused(self) -> None:
        """The disk has stopped answering."""
        self.patch(job_groups, "MAX_WAITING", 2)
        asked = [self.ask(self.store.create(new_job(), NO_LIMITS)) for _ in range(4)]
        self.failureResultOf(asked[3], StorageUnavailable)
        self.store.abandon()
        for each in asked[:3]:
            self.failureResultOf(each, GatewayError)


class CompactionTests(StoreCase):
    """The log is written anew, and says the same."""

    def test_a_start_with_more_lines_than_jobs_compacts(self) -> None:
        """One line a job; with as many lines as jobs nothing is written."""
        ended = self.end(self.make(LONG))
        waiting = self.make()
        self.start()
        self.assertEqual(len(self.lines()), 2)
        self.assertEqual(list(self.store._table), [ended, waiting])
        self.disk.calls.clear()
        self.start()
        self.assertNotIn("replace", self.disk.calls)

    def test_a_running_store_compacts_once_the_log_has_grown(self) -> None:
        """More than both bounds, and not one line earlier."""
        self.patch(job_compaction, "MIN_LINES", 4)
        job = self.make()
        for target in range(3):
            self.change(job, target=target)
        self.done(self.store.check())
        self.assertEqual(len(self.lines()), 4)
        job = self.change(job, target=9)
        self.done(self.store.check())
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(self.start().get(job.id), job)

    def test_what_is_asked_for_meanwhile_is_in_the_new_log(self) -> None:
        """Groups go on between the steps; new jobs, changes and removals are copied behind."""
        from omnigate.jobs import job_log

        self.patch(job_log, "STEP_JOBS", 2)
        self.patch(job_log, "LAST_STEP_BYTES", 300)
        made = [self.end(self.make(str(n))) for n in range(4)]
        going = self.make("going")
        self.writer.holding = True
        compaction = Deferred.fromCoroutine(self.store._compaction.run())
        self.now_ms += 5 * DAY_MS
        asked: list[Deferred[Any]] = [
            Deferred.fromCoroutine(self.store.create(new_job("new"), NO_LIMITS)),
            Deferred.fromCoroutine(self.store.sweep(self.now_ms)),
            Deferred.fromCoroutine(self.store.change(going.id, status=RUNNING)),
        ]
        while self.writer.run(1):
            pass
        self.successResultOf(compaction)
        (new, _), *_ = [self.successResultOf(each) for each in asked]
        self.writer.holding = False
        expected = [self.store.get(job.id) for job in (going, new)]
        self.assertEqual(self.store.newest().jobs, expected[::-1])
        self.end(new)
        self.assertEqual(self.done(self.store.input_of(new)), {"prompt": "new"})
        found = self.store.get(new.id)
        assert found is not None
        self.assertEqual(self.done(self.store.input_of(found)), {"prompt": "new"})
        self.start()
        self.assertEqual(self.ids(self.store._table), [going.id, new.id])
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertNotIn(f"{PATH}.damaged", self.disk.contents())
        self.assertEqual(len(made), 4)

    def test_a_compaction_that_fails_leaves_the_log(self) -> None:
        """It is tried again; nothing is left of it."""
        job = self.make()
        self.change(job, status=RUNNING)
        for call in ("open", "write", "fdatasync", "replace"):
            self.disk.fail(call)
            self.done(self.store._compaction.run())
            self.disk.heal()
            self.assertEqual(len(self.lines()), 2, call)
            self.assertEqual(set(self.disk.contents()), {PATH}, call)
        self.change(job, target=1)
        self.done(self.store._compaction.run())
        self.assertEqual(len(self.lines()), 1)

    def test_a_start_on_a_full_disk_goes_on_without(self) -> None:
        """There is more to the log than there need be."""
        job = self.change(self.make(), status=RUNNING)
        self.disk.kill()
        self.disk.free_bytes[FOLDER] = 0
        self.store = JobStore(PATH, SynchronousWriter(), lambda: self.now_ms)
        self.done(self.store.open())
        self.assertEqual(self.store.get(job.id), job)


class RetentionTests(StoreCase):
    """What is old is removed."""

    def test_final_jobs_that_owe_nothing_go_with_their_inputs(self) -> None:
        """The others stay; idempotency keys go with their jobs."""
        old = self.end(self.make(LONG, idempotency_key="k"))
        owing = self.end(self.make(), cost_owed=True)
        waiting = self.make(LONG)
        self.now_ms += DAY_MS
        young = self.end(self.make())
        removed: list[str] = []
        self.store.removal_watchers.append(lambda jobs: removed.extend(self.ids(jobs)))
        swept = self.done(self.store.sweep(NOW_MS + 1))
        self.assertEqual((self.ids(swept), removed), ([old.id], [old.id]))
        self.assertEqual(set(self.disk.contents(INPUTS)), {f"{INPUTS}/{waiting.id}.json"})
        self.assertEqual(len(self.lines()), 3)
        for _ in range(2):
            self.assertIsNone(self.store.get(old.id))
            self.assertEqual(self.ids(self.store.newest().jobs), [young.id, waiting.id, owing.id])
            self.start()
        self.make(idempotency_key="k")

    def test_old_ones_behind_those_of_a_clock_that_was_ahead(self) -> None:
        """Jobs stand in the order they were made in, whatever their time."""
        self.now_ms += 365 * DAY_MS
        ahead = self.end(self.make())
        self.now_ms = NOW_MS
        old = self.end(self.make())
        self.assertEqual(self.ids(self.done(self.store.sweep(NOW_MS + 1))), [old.id])
        self.assertIsNotNone(self.store.get(ahead.id))

    def test_many_are_removed_batch_by_batch(self) -> None:
        """Each batch is one line."""
        for n in range(250):
            self.end(self.make(str(n)))
        kept = self.make()
        swept = self.done(self.store.sweep(NOW_MS + 1))
        self.assertEqual(len(swept), 250)
        self.assertEqual(self.ids(self.store.newest().jobs), [kept.id])
        self.assertEqual(len(self.lines()), 1)


class DamageTests(StoreCase):
    """What a crash or a sick disk leaves."""

    def spoil(self, number: int, old: bytes, new: bytes) -> None:
        """Change a line of the log."""
        self.disk.kill()
        lines = self.disk.contents()[PATH].splitlines(keepends=True)
        self.assertIn(old, lines[number])
        lines[number] = lines[number].replace(old, new)
        self.disk.put(PATH, b"".join(lines))

    def test_a_torn_end_is_cut_off(self) -> None:
        """At any byte."""
        first = self.make()
        self.make("second")
        content = self.disk.contents()[PATH]
        begin = content.index(b"\n") + 1
        for end in range(begin + 1, len(content)):
            self.disk.kill()
            self.disk.put(PATH, content[:end])
            self.start()
            self.assertEqual(self.ids(self.store._table), [first.id])
            self.assertEqual(self.disk.contents()[PATH], content[:begin])

    def test_a_damaged_line_loses_no_other_job(self) -> None:
        """It is told with its place, and kept for a person before it is left out."""
        self.end(self.make("first"))
        second = self.end(self.make("second"))
        spoiled = self.disk.contents()[PATH].splitlines()[0].replace(b"first", b"fisrt")
        self.spoil(0, b"first", b"fisrt")
        self.start()
        self.assertEqual(list(self.store._table), [second])
        aside = self.disk.contents()[f"{PATH}.damaged"].splitlines()
        self.assertEqual(aside[0], spoiled)
        # The change of a job that is lost is kept beside it.
        self.assertEqual(len(aside), 2)
        self.assertEqual(len(self.lines()), 1)

    def test_a_line_whose_name_is_damaged_may_be_of_anybody(self) -> None:
        """What it names is believed only where somebody else names it, too."""
        job, other = self.make(), self.make("other")
        self.change(job, status=RUNNING)
        self.change(job, provider_job_id="p1")
        last = self.make("last")
        self.spoil(3, job.id.encode(), job.id[:-3].encode() + b"000")
        self.start()
        states = [self.store.get(each.id).status for each in (job, other, last)]  # type: ignore[union-attr]
        self.assertEqual(states, [FAILED, FAILED, "queued"])

    def test_a_job_that_is_lost_casts_no_doubt_on_others(self) -> None:
        """Nor do its changes, or the damage to one of them."""
        other, job = self.make("other"), self.make()
        for n in range(3):
            self.change(job, cancel_ms=n + 1)
        self.make("last")
        self.spoil(1, b"prompt", b"pormpt")
        self.spoil(3, b"cancel", b"cnacel")
        self.start()
        self.assertEqual(self.store.get(other.id).status, "queued")  # type: ignore[union-attr]
        self.assertIsNone(self.store.get(job.id))

    def test_an_unfinished_job_of_which_a_change_is_missing_is_failed(self) -> None:
        """Going on with it could pay a provider twice; others go on."""
        job = self.make(webhook_url="https://e.com")
        other = self.make("other")
        self.change(job, status=RUNNING)
        self.change(job, provider_job_id="p1")
        self.spoil(3, b"p1", b"p2")
        self.start()
        found = self.store.get(job.id)
        assert found is not None and found.error is not None and found.webhook is not None
        self.assertEqual((found.status, found.error.code), (FAILED, "storage_failed"))
        self.assertEqual((found.webhook.state, found.webhook.next_ms), (PENDING, self.now_ms))
        # The ledger is told of it, as of every job that ran.
        self.assertEqual(self.ids(self.store.with_debts()), [job.id])
        self.assertTrue(found.cost_owed)
        self.assertEqual(self.store.get(other.id), other)
        self.assertEqual(self.ids(self.store.unfinished()), [other.id])

    def test_a_gap_in_the_lines_of_a_job_is_known(self) -> None:
        """Also where nothing is left of the line that is missing."""
        job = self.make()
        self.change(job, status=RUNNING)
        self.change(job, provider_job_id="p1")
        self.disk.kill()
        lines = self.disk.contents()[PATH].splitlines(keepends=True)
        self.disk.put(PATH, lines[0] + lines[2])
        self.start()
        self.assertEqual(self.store.unfinished(), [])

    def test_a_nameless_damaged_line_is_about_those_that_say_nothing_later(self) -> None:
        """A job with a later line of the right number has lost none."""
        first, second = self.make("1"), self.make("2")
        self.change(first, target=1)
        self.spoil(2, b'"id":"job_', b'"id":"jub_')
        self.start()
        self.assertEqual(self.store.unfinished(), [])
        third, fourth = self.make("3"), self.make("4")
        self.change(third, target=1)
        self.change(fourth, target=2)
        self.change(third, target=2)
        fifth = self.make("5")
        self.spoil(5, b'"id":"job_', b'"id":"jub_')
        self.start()
        self.assertEqual(self.ids(self.store.unfinished()), [third.id, fifth.id])
        self.assertEqual(second.status, QUEUED)

    def test_a_log_of_a_later_version_is_refused(self) -> None:
        """And nothing is written."""
        from omnigate.events import checked_line

        self.disk.kill()
        content = checked_line(b'{"v":2,"kind":"job"}') + b"\n"
        self.disk.put(PATH, content)
        self.store = JobStore(PATH, SynchronousWriter(), lambda: self.now_ms)
        error = self.failed(self.store.open(), JobLogUnreadableError)
        self.assertIn("run the version that wrote it", str(error))
        self.assertEqual(self.disk.contents()[PATH], content)


class TableTests(SynchronousTestCase):
    """Every list of a table, held against a plain one."""

    @given(
        st.lists(
            st.tuples(st.integers(0, 11), st.sampled_from(["put", "put", "put", "remove"])),
            max_size=40,
        ),
        st.randoms(use_true_random=False),
    )
    @settings(max_examples=200, deadline=None)
    def test_any_changes(self, steps: list[tuple[int, str]], random: Random) -> None:
        """Jobs come, go on and go, in any order."""
        table, plain = JobTable(), dict[str, Job]()
        for number, what in steps:
            job_id = id_of(number)
            if what == "remove":
                gone = {job_id, *random.sample(sorted(plain), len(plain) // 2)}
                removed = table.remove(gone)
                self.assertEqual({job.id for job in removed}, gone & set(plain))
                plain = {key: job for key, job in plain.items() if key not in gone}
                continue
            was = plain.get(job_id)
            job = Job(
                id=job_id,
                key_sha256="ab"[number % 2],
                model="xyz"[number % 3],
                created_ms=number,
                status=random.choice([RUNNING, FAILED]) if was else QUEUED,
                idempotency_key=str(number) if number % 4 else "",
                cost_owed=random.random() < 0.3,
            )
            if was is not None and was.is_final:
                job = msgspec.structs.replace(was, cost_owed=job.cost_owed)
            self.assertEqual(table.put(job, 1, number), was)
            plain[job_id] = job
        self.hold(table, [plain[key] for key in sorted(plain)])

    def hold(self, table: JobTable, jobs: list[Job]) -> None:
        self.assertEqual(len(table), len(jobs))
        self.assertEqual(table.size, sum(job.created_ms for job in jobs))
        self.assertEqual(table.unfinished(), [job for job in jobs if not job.is_final])
        self.assertEqual(table.open, len(table.unfinished()))
        self.assertEqual(table.with_debts(), [job for job in jobs if job.cost_owed])
        for job in jobs:
            if job.idempotency_key:
                self.assertEqual(table.repeat_of((job.key_sha256, job.idempotency_key)), job)
        for key in ("a", "b"):
            own = [job for job in jobs if job.key_sha256 == key]
            tally = table.tally(key)
            self.assertEqual(tally.kept, len(own))
            self.assertEqual(tally.open, sum(not job.is_final for job in own))
        for key_, status, model in product((None, "a"), (None, QUEUED, FAILED), (None, "x")):
            found: list[Job] = []
            after: str | None = None
            while after != "":
                page = table.page(key_sha256=key_, status=status, model=model, after=after, limit=2)
                found += page.jobs
                after = page.after if page.has_more else ""
            expected = [
                job
                for job in reversed(jobs)
                if key_ in (None, job.key_sha256)
                and status in (None, job.status)
                and model in (None, job.model)
            ]
            self.assertEqual(found, expected)


class ListsTests(StoreCase):
    """Jobs by key, status and model, newest first."""

    def test_pages_of_a_key(self) -> None:
        """Each job once, whatever happens between two pages."""
        made = [self.make(str(n)) for n in range(5)]
        self.make(key_sha256=OTHER)
        first, more = self.store.jobs_of(KEY, limit=2)
        self.assertEqual((self.ids(first), more), (self.ids([made[4], made[3]]), True))
        self.make("newer")
        second, more = self.store.jobs_of(KEY, after=first[-1].id, limit=3)
        self.assertEqual((self.ids(second), more), (self.ids(made[2::-1]), False))
        self.assertEqual(self.store.jobs_of("c" * 64), ([], False))

    def test_jobs_of_a_status(self) -> None:
        """They move as they go on."""
        a, b, c = [self.make(str(n)) for n in range(3)]
        self.change(b, status=RUNNING)
        self.end(a)
        for status, jobs in ((QUEUED, [c]), (RUNNING, [b]), (SUCCEEDED, [a]), (FAILED, [])):
            found, more = self.store.jobs_of(KEY, status=status)
            self.assertEqual((self.ids(found), more), (self.ids(jobs), False))
            self.assertEqual(self.ids(self.store.newest(status=status).jobs), self.ids(jobs))

    def test_the_newest_of_a_model(self) -> None:
        """Filters can be put together."""
        a = self.make(model="veo")
        b = self.make(model="veo", key_sha256=OTHER)
        self.make()
        self.assertEqual(self.ids(self.store.newest(model="veo").jobs), self.ids([b, a]))
        page = self.store.newest(model="veo", key_sha256=OTHER, status=QUEUED)
        self.assertEqual(self.ids(page.jobs), [b.id])
