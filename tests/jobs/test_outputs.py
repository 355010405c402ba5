"""Outputs of an attempt: brought in, judged and stored, or nothing left of them."""

import errno
import hashlib

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import capturedLogs, formatEvent

from omnigate import files
from omnigate.jobs.adapters.base import InlineSource, UrlSource
from omnigate.jobs.arriving_places import (
    ARRIVING_PER_JOB,
    ARRIVING_PER_PROVIDER,
    MAX_ARRIVING,
)
from omnigate.jobs.job import Job, JobError, Output
from omnigate.jobs.output_faults import OutputFault, OutputLimits
from omnigate.jobs.storage import StorageFault, StoredFile
from omnigate.outbound.messages import (
    CONNECTION_LOST,
    REFUSED,
    TOO_MANY_REDIRECTS,
    Answer,
    KeptMedia,
)
from omnigate.testing.memory_disk import MemoryDisk
from tests.jobs.outputs_case import JOB, MEDIA, OTHER, PLENTY, PNG, OutputsTestCase, a_job

FIRST, SECOND, THIRD = (f"https://cdn.example.com/{n}" for n in range(3))


class UrlsTest(OutputsTestCase):
    """Outputs that are fetched."""

    def test_one_is_stored_as_it_is(self) -> None:
        self.hosts.files[FIRST] = PNG
        self.hosts.types[FIRST] = "image/png"
        (output,) = self.successResultOf(self.storing(UrlSource(FIRST)))
        self.assertEqual(
            output,
            Output(
                "image/png",
                len(PNG),
                hashlib.sha256(PNG).hexdigest(),
                "url",
                "local",
                f"{JOB}/0.png",
            ),
        )
        self.assertEqual(self.left(), {f"{JOB}/0.png": PNG})

    def test_it_is_there_for_certain_before_the_job_says_so(self) -> None:
        self.hosts.files[FIRST] = PNG
        self.successResultOf(self.storing(UrlSource(FIRST)))
        self.disk.crash()
        self.assertEqual(self.left(), {f"{JOB}/0.png": PNG})

    def test_several_in_their_order(self) -> None:
        for url in (FIRST, SECOND, THIRD):
            self.hosts.files[url] = url.encode()
        stored = self.successResultOf(self.storing(*map(UrlSource, (FIRST, SECOND, THIRD))))
        self.assertEqual([one.name for one in stored], [f"{JOB}/{n}.bin" for n in range(3)])
        self.assertEqual(self.left()[f"{JOB}/2.bin"], THIRD.encode())

    def test_what_is_asked_for(self) -> None:
        self.hosts.files[FIRST] = PNG
        source = UrlSource(FIRST, headers=(("authorization", "Bearer secret"),))
        self.successResultOf(self.storing(source, limits=OutputLimits(500, 4, 300)))
        (asked,) = self.hosts.asked
        self.assertEqual(asked.max_bytes, 300)
        self.assertEqual(asked.headers, (("authorization", "Bearer secret"),))
        self.assertEqual(asked.own_origin, "https://api.example.com")

    def test_the_type_is_told_by_download_then_answer_then_content(self) -> None:
        for declared, named, expected in (
            ("video/mp4; codecs=x", "image/webp", "video/mp4"),
            ("application/octet-stream", "image/webp", "image/webp"),
            ("text/html", "", "image/png"),
        ):
            self.hosts.files[FIRST] = PNG
            self.hosts.types[FIRST] = declared
            (output,) = self.successResultOf(self.storing(UrlSource(FIRST, named)))
            self.assertEqual(output.content_type, expected)

    def test_a_page_instead_of_an_image_is_stored_as_octets(self) -> None:
        self.hosts.files[FIRST] = b"<html></html>"
        self.hosts.types[FIRST] = "text/html"
        (output,) = self.successResultOf(self.storing(UrlSource(FIRST)))
        self.assertEqual((output.content_type, output.size), ("application/octet-stream", 13))
        self.assertEqual(output.name, f"{JOB}/0.bin")

    def test_a_few_at_once(self) -> None:
        urls = [f"https://cdn.example.com/{n}" for n in range(6)]
        self.hosts.files = dict.fromkeys(urls, PNG)
        self.hosts.holding = True
        done = self.storing(*map(UrlSource, urls))
        for _ in urls:
            self.hosts.go_on()
        self.successResultOf(done)
        self.assertEqual(self.hosts.most, ARRIVING_PER_JOB)

    def begin(self, count: int, provider: str) -> list[Deferred[object]]:
        """Begin to store outputs of so many jobs of a provider."""
        begun = len(self.begun)
        self.begun += [
            self.storing(
                UrlSource(FIRST), job=a_job(f"job_{n:026}"), own_origin=f"https://{provider}.test"
            )
            for n in range(begun, begun + count)
        ]
        return self.begun[begun:]

    def test_bounds_of_one_provider_and_of_all(self) -> None:
        self.begun: list[Deferred[object]] = []
        self.hosts.files[FIRST] = PNG
        self.hosts.holding = True
        self.begin(ARRIVING_PER_PROVIDER + 3, "slow")
        self.assertEqual(self.hosts.under_way, ARRIVING_PER_PROVIDER)
        # It keeps nobody else waiting.
        self.begin(1, "other")
        self.assertEqual(self.hosts.under_way, ARRIVING_PER_PROVIDER + 1)
        for n in range(MAX_ARRIVING // ARRIVING_PER_PROVIDER):
            self.begin(ARRIVING_PER_PROVIDER, str(n))
        self.assertEqual(self.hosts.under_way, MAX_ARRIVING)
        for _ in self.begun:
            self.hosts.go_on()
        for one in self.begun:
            self.successResultOf(one)
        self.assertEqual(self.hosts.most, MAX_ARRIVING)
        self.assertEqual(len(self.outputs._places), 0)

    def test_places_are_given_back_by_whoever_is_canceled(self) -> None:
        self.begun = []
        self.hosts.files[FIRST] = PNG
        self.hosts.holding = True
        for one in self.begin(ARRIVING_PER_PROVIDER + 3, "slow"):
            one.cancel()
            self.failureResultOf(one, CancelledError)
        self.assertEqual((self.hosts.under_way, len(self.outputs._places)), (0, 0))


class InlineTest(OutputsTestCase):
    """Outputs that came in an answer."""

    def kept(self, content: bytes, prefix: str = "") -> KeptMedia:
        """Return what came in for the job as a file."""
        sink = self.outputs.incoming.sink(JOB, 0, 10_000)
        sink.write(content)
        self.successResultOf(sink.finish())
        assert sink.kept is not None
        found = sink.kept
        return KeptMedia(found.path, found.size, found.sha256, found.head, prefix)

    def stored(self, source: InlineSource | UrlSource, content: bytes, kind: str) -> None:
        """Check what becomes of one."""
        (output,) = self.successResultOf(self.storing(source))
        self.assertEqual(output.content_type, kind)
        self.assertEqual(output.sha256, hashlib.sha256(content).hexdigest())
        self.assertEqual(output.size, len(content))
        self.assertEqual(output.source, "inline")
        self.assertEqual(self.left(), {output.name: content})
        self.assertEqual(self.hosts.asked, [])

    def test_bytes(self) -> None:
        self.stored(InlineSource(PNG, "image/webp"), PNG, "image/webp")

    def test_bytes_with_a_head(self) -> None:
        wave = b"RIFF\0\0\0\0WAVE"
        self.stored(InlineSource(b"samples", prefix=wave), wave + b"samples", "audio/wav")

    def test_a_file(self) -> None:
        self.stored(InlineSource(self.kept(PNG)), PNG, "image/png")

    def test_a_file_whose_type_stood_in_the_answer(self) -> None:
        source = InlineSource(self.kept(b"?", "data:audio/ogg;base64,"))
        self.stored(source, b"?", "audio/ogg")

    def test_a_file_with_a_head(self) -> None:
        wave = b"RIFF\0\0\0\0WAVE"
        self.stored(
            InlineSource(self.kept(b"samples"), prefix=wave), wave + b"samples", "audio/wav"
        )

    def test_too_large_ones(self) -> None:
        limits = OutputLimits(50, 4, 1000)
        for source in (
            InlineSource(PNG),
            InlineSource(b"x" * 45, prefix=b"123456"),
            InlineSource(self.kept(PNG)),
            InlineSource(self.kept(b"x" * 45), prefix=b"123456"),
        ):
            error = self.failureResultOf(self.storing(source, limits=limits), OutputFault).value
            self.assertEqual(error.error.code, "output_too_large")
            self.assertEqual(error.error.message, "output is larger than 50 bytes")
            self.assertEqual(self.left(), {})


class RefusedTest(OutputsTestCase):
    """What a provider does wrong is told in words of ours, and another target may be tried."""

    def refused(self, *sources: UrlSource, limits: OutputLimits = PLENTY) -> JobError:
        """Return why nothing is stored."""
        fault = self.failureResultOf(self.storing(*sources, limits=limits), OutputFault).value
        self.assertFalse(fault.is_ours)
        self.assertEqual(self.left(), {})
        self.assertEqual(self.disk.listdir(f"{MEDIA}/.incoming"), [])
        error: JobError = fault.error
        return error

    def test_too_many(self) -> None:
        error = self.refused(*map(UrlSource, (FIRST, SECOND, THIRD)), limits=OutputLimits(9, 2, 9))
        self.assertEqual(error, JobError("output_too_large", "3 outputs, 2 allowed"))
        self.assertEqual(self.hosts.asked, [])

    def test_one_too_large(self) -> None:
        self.hosts.files[FIRST] = bytes(1025)
        error = self.refused(UrlSource(FIRST), limits=OutputLimits(1024, 4, 5000))
        self.assertEqual(error, JobError("output_too_large", "output is larger than 1024 bytes"))

    def test_too_large_together(self) -> None:
        self.hosts.files = {FIRST: bytes(700), SECOND: bytes(400)}
        expected = JobError("output_too_large", "outputs are larger than 1024 bytes together")
        limits = OutputLimits(5000, 4, 1024)
        self.assertEqual(self.refused(UrlSource(FIRST), UrlSource(SECOND), limits=limits), expected)
        self.hosts.files[FIRST] = bytes(1025)
        self.assertEqual(self.refused(UrlSource(FIRST), limits=limits), expected)

    def test_together_just_right(self) -> None:
        self.hosts.files = {FIRST: bytes(700), SECOND: bytes(324)}
        limits = OutputLimits(5000, 2, 1024)
        stored = self.successResultOf(
            self.storing(UrlSource(FIRST), UrlSource(SECOND), limits=limits)
        )
        self.assertEqual(len(stored), 2)

    def test_what_the_download_came_to(self) -> None:
        for answer, code, message in (
            (
                Answer(0, fault=REFUSED, detail="address not allowed"),
                "output_refused",
                "address not allowed",
            ),
            (
                Answer(302, fault=TOO_MANY_REDIRECTS, detail="too many redirects"),
                "output_refused",
                "too many redirects",
            ),
            (Answer(404), "output_unavailable", "the provider's file answered 404"),
            (
                Answer(0, fault=CONNECTION_LOST, detail="no answer within 30 s"),
                "output_unavailable",
                "the provider's file could not be fetched: no answer within 30 s",
            ),
            (
                Answer(0, fault=CONNECTION_LOST, detail=f"lost at {FIRST}"),
                "output_unavailable",
                "the provider's file could not be fetched: connection_lost",
            ),
        ):
            self.hosts.files[FIRST] = answer
            self.assertEqual(self.refused(UrlSource(FIRST)), JobError(code, message))

    def test_an_empty_file(self) -> None:
        """It is none: nobody pays for it, and the next target is tried."""
        self.hosts.files[FIRST] = b""
        expected = JobError("output_unavailable", "the provider's file is empty")
        self.assertEqual(self.refused(UrlSource(FIRST)), expected)

    def test_the_others_are_ended_with_the_first_that_fails(self) -> None:
        self.hosts.files = {FIRST: Answer(404), SECOND: PNG, THIRD: PNG}
        self.hosts.holding = True
        done = self.storing(*map(UrlSource, (FIRST, SECOND, THIRD)))
        self.hosts.go_on()
        self.failureResultOf(done, OutputFault)
        self.assertEqual(self.hosts.canceled, [SECOND])
        self.assertEqual(self.hosts.under_way, 0)
        self.assertEqual(len(self.hosts.asked), 2)
        # Every place is free again.
        self.hosts.holding = False
        self.hosts.files[FIRST] = PNG
        self.successResultOf(self.storing(*map(UrlSource, [FIRST] * 8)))

    def test_canceled_in_the_middle(self) -> None:
        self.hosts.files[FIRST] = PNG
        self.hosts.holding = True
        done = self.storing(UrlSource(FIRST), UrlSource(FIRST))
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.assertEqual(self.hosts.canceled, [FIRST, FIRST])
        self.assertEqual(self.left(), {})


class OwnFaultTest(OutputsTestCase):
    """What is our own storage's fault fails the job, and nothing of it is left."""

    def broken(self, *sources: UrlSource | InlineSource) -> JobError:
        """Return why nothing is stored."""
        fault = self.failureResultOf(self.storing(*sources), OutputFault).value
        self.assertTrue(fault.is_ours)
        self.assertEqual(fault.error.code, "storage_failed")
        self.disk.heal()
        self.successResultOf(self.outputs.incoming.clear(JOB))
        self.assertEqual(self.left(), {})
        error: JobError = fault.error
        return error

    def test_a_full_disk(self) -> None:
        self.hosts.files[FIRST] = bytes(5000)
        self.disk.free_bytes["/state"] = 2000
        message = self.broken(UrlSource(FIRST)).message
        self.assertEqual(message, "the output could not be kept: no space left on device")

    def test_a_full_disk_for_what_came_inline(self) -> None:
        self.disk.free_bytes["/state"] = 10
        self.broken(InlineSource(PNG))

    def test_any_call_that_fails(self) -> None:
        self.hosts.files = {FIRST: PNG, SECOND: PNG}
        sources = UrlSource(FIRST), UrlSource(SECOND)
        calls = len(self.disk.calls)
        self.successResultOf(self.storing(*sources))
        for name in sorted(set(self.disk.calls[calls:]) - {"unlink", "rmdir"}):
            for output in list(self.left()):
                self.disk.unlink(f"{MEDIA}/{output}")
            self.disk.fail(name, error=errno.EIO)
            self.broken(*sources)

    def test_files_that_are_stored_already_are_removed(self) -> None:
        storage = BrokenStorage(after=1)
        self.outputs = self.opened(broken=storage)
        self.chosen = "broken"
        self.hosts.files[FIRST] = PNG
        error = self.broken(UrlSource(FIRST), UrlSource(FIRST), UrlSource(FIRST))
        self.assertEqual(error.message, "the bucket is full")
        self.assertEqual(storage.removed, [f"{JOB}/0.png", f"{JOB}/1.png"])

    def test_a_writer_that_has_been_stopped_is_no_fault_of_anybody(self) -> None:
        self.hosts.files[FIRST] = PNG
        self.writer.stop()
        self.failureResultOf(self.storing(InlineSource(PNG)), CancelledError)


class BrokenStorage:
    """A storage that takes a few files, and then no more."""

    def __init__(self, after: int) -> None:
        self.room = after
        self.removed: list[str] = []

    async def keep(self, file: StoredFile) -> None:
        """Keep it, while there is room."""
        if not self.room:
            raise StorageFault("the bucket is full")
        self.room -= 1

    async def remove(self, name: str) -> None:
        """Note it."""
        self.removed.append(name)


class RetentionTest(OutputsTestCase):
    """Files go with the last job that has them."""

    def setUp(self) -> None:
        super().setUp()
        self.hosts.files = {FIRST: PNG, SECOND: PNG}
        stored = self.successResultOf(self.storing(UrlSource(FIRST), UrlSource(SECOND)))
        self.job = Job(JOB, "k", "m", 1, status="succeeded", outputs=stored)
        self.outputs.names.changed(a_job(), self.job)

    def remove(self, job: Job) -> None:
        """Do what is done once a job is gone."""
        self.outputs.names.changed(job, None)
        self.successResultOf(Deferred.fromCoroutine(self.outputs.remove(job.outputs)))

    def test_the_folder_goes_too(self) -> None:
        self.remove(self.job)
        self.assertEqual(self.disk.listdir(MEDIA), [".incoming"])
        self.assertEqual(len(self.outputs.names), 0)

    def test_files_that_another_job_shares_stay(self) -> None:
        cached = Job(OTHER, "k", "m", 2, status="succeeded", outputs=self.job.outputs)
        self.outputs.names.changed(None, cached)
        self.remove(self.job)
        self.assertEqual(len(self.left()), 2)
        self.remove(cached)
        self.assertEqual(self.left(), {})

    def test_what_is_gone_already(self) -> None:
        self.disk.unlink(f"{MEDIA}/{JOB}/0.png")
        self.remove(self.job)
        self.assertEqual(self.left(), {})

    def test_what_cannot_be_removed_stays(self) -> None:
        self.disk.fail("unlink")
        self.remove(self.job)
        self.assertEqual(len(self.left()), 1)

    def test_a_storage_that_is_no_more(self) -> None:
        outputs = (Output("image/png", 1, "00", "url", "tape", "x/0.png"),)
        self.successResultOf(Deferred.fromCoroutine(self.outputs.remove(outputs)))

    def test_at_a_start_what_no_job_has_is_removed(self) -> None:
        self.hosts.files[THIRD] = PNG
        self.successResultOf(self.storing(UrlSource(THIRD), job=a_job(OTHER)))
        self.disk.put(f"{MEDIA}/{JOB}/7.png", b"orphan")
        self.disk.mkdir(f"{MEDIA}/notes")
        self.disk.put(f"{MEDIA}/notes/own.txt", b"the operator's")
        self.opened(self.job)
        self.assertEqual(sorted(self.left()), [f"{JOB}/0.png", f"{JOB}/1.png", "notes/own.txt"])

    def test_what_an_unfinished_job_has_left_goes_before_it_runs(self) -> None:
        self.successResultOf(self.storing(UrlSource(FIRST), job=a_job(OTHER)))
        self.writer.holding = True
        opening = self.opening(self.job, a_job(OTHER))
        while self.writer.run(1) and not opening.called:
            pass
        self.assertEqual(sorted(self.left()), [f"{JOB}/0.png", f"{JOB}/1.png"])

    def test_what_is_stored_while_it_is_searched_stays(self) -> None:
        self.writer.holding = True
        opening = self.opening(self.job, a_job(OTHER))
        while not opening.called:
            self.writer.run(1)
        self.disk.mkdir(f"{MEDIA}/{OTHER}")
        self.disk.put(f"{MEDIA}/{OTHER}/0.png", b"of a job that runs")
        self.disk.put(f"{MEDIA}/{JOB}/5.png", b"of none")
        self.writer.run()
        self.assertEqual(sorted(self.left()), [f"{JOB}/0.png", f"{JOB}/1.png", f"{OTHER}/0.png"])

    def test_the_search_ends_with_the_stores(self) -> None:
        for end in ("close", "abandon"):
            self.pauses = []
            opened = self.opened(self.job)
            getattr(opened, end)()
            self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_disk_that_fails_at_a_start_keeps_nothing_else_from_it(self) -> None:
        self.hosts.files[THIRD] = PNG
        for name in ("mkdir", "listdir", "unlink"):
            self.disk = MemoryDisk("/state")
            self.patch(files, "os", self.disk)
            if name != "mkdir":
                self.disk.mkdir(MEDIA)
                self.disk.mkdir(f"{MEDIA}/.incoming")
                self.disk.put(f"{MEDIA}/.incoming/stray", b"stray")
            self.disk.fail(name)
            with capturedLogs() as logs:
                self.outputs = self.opened(a_job(OTHER))
            (event,) = logs
            self.assertEqual(event["log_level"].name, "error")
            self.assertIn("input/output error; jobs fail until that is mended", formatEvent(event))
            # Once it works again, so do jobs.
            (output,) = self.successResultOf(self.storing(UrlSource(THIRD)))
            self.assertIn(output.name, self.left())

    def test_a_folder_that_cannot_be_searched_is_no_end(self) -> None:
        self.writer.holding = True
        opening = self.opening(self.job)
        self.writer.run(2)
        self.disk.fail("listdir", times=5)
        self.writer.run()
        self.successResultOf(opening)
        self.assertEqual(len(self.flushLoggedErrors(StorageFault)), 1)

    def test_an_empty_folder_of_a_job_goes_at_a_start(self) -> None:
        self.disk.mkdir(f"{MEDIA}/{OTHER}")
        self.opened(self.job)
        self.assertEqual(sorted(self.disk.listdir(MEDIA)), [".incoming", JOB])
