"""Workers tell their parent what they counted, and a scrape of it is the sum."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway import figures
from omnigate.gateway.figure_teller import TELL_SECONDS, FigureTeller
from omnigate.gateway.metrics import DataMetrics
from omnigate.gateway.process_sums import ProcessSums
from omnigate.gateway.scrapes import scrape_factory
from omnigate.gateway.worker_figures import ASK_SECONDS, WorkerFigures
from omnigate.metric_families import Part
from omnigate.protocols.worker_channel import Figures, Frames, decode_up, frame
from omnigate.testing.writer import SynchronousWriter
from tests.gateway.scraping import Samples, figures_of, samples_of, total, value
from tests.planes.memory import FakeClient, MemoryDataPlane, reply, request
from tests.planes.scenes import ANSWER, CHAT

SCRAPE = b"GET /metrics HTTP/1.1\r\nhost: g\r\n\r\n"
REQUESTS = "omnigate_data_requests_total"


class Wire:
    """A line whose other end hears at once, while it listens.

    :ivar messages: how many were sent.
    """

    def __init__(self, heard: Callable[[Figures], object]) -> None:
        self._heard = heard
        self.is_read = True
        self.messages = 0

    def send(self, message: Figures) -> None:
        """Carry a message over."""
        self.messages += 1
        for told in Frames(decode_up).feed(frame(message)):
            assert isinstance(told, Figures)
            self._heard(told)


class Worker:
    """A worker in memory: a plane, and its line to the parent."""

    def __init__(self, index: int, parent: WorkerFigures) -> None:
        self.index = index
        self.alive = True
        self.silent = False
        self.memory = MemoryDataPlane()
        self.wire = Wire(lambda message: parent.told(index, message))
        self.teller = FigureTeller(
            figures_of(self.memory).parts, self.wire, self.memory.plane.clock
        )
        self.teller.start()

    def serve(self, count: int) -> None:
        """Answer so many requests."""
        for _ in range(count):
            client = self.memory.client()
            client.send(request(CHAT))
            self.memory.last.answer(reply(ANSWER))
            client.leave()

    def pass_time(self, seconds: float) -> None:
        """Let time pass for it, and its reactor turn."""
        self.memory.advance(seconds)


class ParentCase(SynchronousTestCase):
    """A parent and two workers."""

    def setUp(self) -> None:
        self.host = MemoryDataPlane()
        self.restarts = 0
        self.asked: list[int] = []
        self.figures = WorkerFigures(self.ask, self.count, self.host.clock)
        self.workers = [Worker(index, self.figures) for index in (0, 1)]
        self.metrics = DataMetrics(self.figures.parts, list, self.figures.latest)
        self.factory = scrape_factory(self.metrics, self.host.plane, SynchronousWriter())

    def ask(self, number: int) -> list[int]:
        """Ask those that live."""
        self.asked.append(number)
        living = [worker for worker in self.workers if worker.alive]
        for worker in living:
            if not worker.silent:
                worker.teller.wanted(number)
        return [worker.index for worker in living]

    def count(self) -> tuple[int, int]:
        """How many run, and were restarted."""
        return sum(worker.alive for worker in self.workers), self.restarts

    def kill(self, index: int) -> None:
        """A worker is gone where it stood, and another takes its place."""
        self.workers[index].alive = False
        self.figures.gone(index)
        self.restarts += 1
        self.workers[index] = Worker(index, self.figures)

    def scrape(self, seconds: float = 0.0) -> Samples:
        """What a scraper is told, within a time."""
        scraper = FakeClient(self.host.clock, self.factory)
        scraper.send(SCRAPE)
        for worker in self.workers:
            worker.pass_time(0.2)
        self.host.advance(seconds)
        for _ in range(200):
            self.host.turn()
        answer = scraper.answer
        self.assertEqual(200, answer.status)
        return samples_of(answer.body)


class ScrapeTests(ParentCase):
    def test_sum(self) -> None:
        """A scrape is what all have counted up to now; it says how many there are."""
        self.workers[0].serve(3)
        self.workers[1].serve(4)
        samples = self.scrape()
        self.assertEqual(7, total(samples, REQUESTS, route="small", outcome="answered"))
        self.assertEqual(63, total(samples, "omnigate_data_tokens_total", direction="input"))
        duration = "omnigate_data_request_duration_seconds"
        self.assertEqual(7, value(samples, f"{duration}_count", endpoint="chat"))
        self.assertEqual(7, value(samples, f"{duration}_bucket", endpoint="chat", le="+Inf"))
        self.assertEqual(2, value(samples, "omnigate_data_workers"))
        self.assertEqual(0, value(samples, "omnigate_data_worker_restarts_total"))
        self.assertEqual(1, total(samples, "omnigate_build_info"))
        self.assertEqual(
            0, value(samples, "omnigate_data_refusals_total", reason="invalid_api_key")
        )
        self.assertLess(0, total(samples, "python_gc_collections_total"))
        self.workers[1].serve(1)
        self.assertEqual(8, total(self.scrape(), REQUESTS))

    def test_restart(self) -> None:
        """What a killed worker had told stays in the sum; its connections do not."""
        self.workers[0].serve(3)
        self.workers[1].serve(4)
        self.workers[1].memory.client().send(request(CHAT))
        before = self.scrape()
        self.assertEqual(1, value(before, "omnigate_data_requests_in_flight"))
        self.kill(1)
        self.workers[1].serve(2)
        after = self.scrape()
        self.assertEqual(9, total(after, REQUESTS))
        self.assertEqual(0, value(after, "omnigate_data_requests_in_flight"))
        self.assertEqual(1, value(after, "omnigate_data_worker_restarts_total"))
        self.assertEqual(2, value(after, "omnigate_data_workers"))
        for (name, labels), counted in before.items():
            if name.endswith(("_total", "_count", "_bucket")):
                self.assertGreaterEqual(after[name, labels], counted, name)

    def test_told_by_itself(self) -> None:
        """A worker that nobody asked has told what it counted a second before it was killed."""
        self.workers[0].serve(5)
        self.workers[0].pass_time(TELL_SECONDS)
        self.workers[0].serve(1)
        self.kill(0)
        self.assertEqual(5, total(self.scrape(), REQUESTS))

    def test_silent_worker(self) -> None:
        """One that does not answer counts with what it told last, after two seconds."""
        self.workers[0].serve(1)
        self.workers[1].serve(1)
        self.assertEqual(2, total(self.scrape(), REQUESTS))
        self.workers[0].silent = True
        self.workers[1].serve(1)
        scraper = FakeClient(self.host.clock, self.factory)
        scraper.send(SCRAPE)
        self.workers[1].pass_time(0.2)
        self.host.advance(ASK_SECONDS - 0.1)
        self.assertEqual(b"", scraper.received())
        self.host.advance(0.1)
        for _ in range(200):
            self.host.turn()
        self.assertEqual(3, total(samples_of(scraper.answer.body), REQUESTS))

    def test_late_answer(self) -> None:
        """An answer to an earlier question is no answer to this one."""
        self.workers[0].silent = True
        self.scrape(ASK_SECONDS)
        self.workers[1].silent = True
        done = self.figures.latest()
        for worker in (0, 1):
            self.figures.told(worker, Figures(self.asked[-2], msgspec.Raw(b"[]")))
        self.assertNoResult(done)
        for worker in (0, 1):
            self.figures.told(worker, Figures(self.asked[-1], msgspec.Raw(b"[]")))
        self.successResultOf(done)

    def test_death_while_asked(self) -> None:
        """One that dies before it answers is not waited for."""
        before = len(self.host.clock.getDelayedCalls())
        self.workers[0].silent = True
        done = self.figures.latest()
        self.workers[1].pass_time(0.2)
        self.assertNoResult(done)
        self.figures.gone(0)
        self.successResultOf(done)
        self.assertEqual(before, len(self.host.clock.getDelayedCalls()))

    def test_no_workers(self) -> None:
        """While none runs there is a scrape all the same."""
        for worker in self.workers:
            worker.alive = False
            self.figures.gone(worker.index)
        samples = self.scrape()
        self.assertEqual(0, value(samples, "omnigate_data_workers"))


class TellerTests(ParentCase):
    def test_nothing_new(self) -> None:
        """Where nothing happens next to nothing is told."""
        wire = self.workers[0].wire
        self.workers[0].pass_time(3)
        before = wire.messages
        self.workers[0].pass_time(10)
        self.assertLessEqual(wire.messages - before, 10)

    def test_many_rows(self) -> None:
        """Where there is much to go through it is told less often."""
        worker = self.workers[0]
        for number in range(50_000):
            worker.memory.plane.books.tally.requests[f"r{number}", "chat", 2, "answered"] = 1
        worker.pass_time(TELL_SECONDS)
        before = worker.wire.messages
        told = []
        for _ in range(9):
            worker.serve(1)
            worker.pass_time(TELL_SECONDS)
            told.append(worker.wire.messages > before)
            before = worker.wire.messages
        self.assertEqual(3, sum(told))

    def test_line_that_is_not_read(self) -> None:
        """It is not filled up, and what was not told is told later, once."""
        worker = self.workers[0]
        worker.pass_time(2)
        worker.wire.is_read = False
        before = worker.wire.messages
        worker.serve(3)
        worker.pass_time(20)
        worker.teller.wanted(1)
        worker.pass_time(1)
        self.assertLessEqual(worker.wire.messages - before, 25)
        worker.wire.is_read = True
        worker.serve(1)
        self.assertEqual(4, total(self.scrape(), REQUESTS))

    def test_stop(self) -> None:
        """At a stop all is told, also what came while it was being told, and nothing after it."""
        worker = self.workers[0]
        for number in range(3000):
            worker.memory.plane.books.tally.plain(f"r{number}", "chat", 200, "answered")
        worker.teller.wanted(1)
        worker.memory.turn()
        worker.serve(1)
        stopped = worker.teller.stop()
        for _ in range(200):
            worker.memory.turn()
        self.successResultOf(stopped)
        worker.serve(1)
        worker.pass_time(5)
        self.kill(0)
        self.assertEqual(3001, total(self.scrape(), REQUESTS))

    def test_stop_without_a_reader(self) -> None:
        """A parent that is gone holds up no stop."""
        worker = self.workers[0]
        worker.wire.is_read = False
        stopped = worker.teller.stop()
        worker.pass_time(0.2)
        self.successResultOf(stopped)

    def test_broken_figure(self) -> None:
        """A figure that cannot be read is told of in the log, and the next second is another."""

        def broken() -> list[Part]:
            raise ZeroDivisionError

        clock = Clock()
        heard: list[Figures] = []
        teller = FigureTeller(broken, Wire(heard.append), clock)
        teller.start()
        for _ in range(2):
            clock.advance(TELL_SECONDS)
            self.assertEqual(1, len(self.flushLoggedErrors(ZeroDivisionError)))
        self.successResultOf(teller.stop())
        self.assertEqual(1, len(self.flushLoggedErrors(ZeroDivisionError)))
        self.assertEqual([], heard)

    def test_all_are_known(self) -> None:
        """Every figure that a plane reports to the control plane has its family."""
        self.assertEqual(set(figures.REPORTED), set(self.host.plane.figures()))


class ProcessTests(SynchronousTestCase):
    """What the system tells of the parent and its workers."""

    def sample(self, sums: ProcessSums, name: str) -> float:
        """One sample."""
        found = {s.name: s.value for metric in sums.read() for s in metric.samples}
        return found[name]

    def test_sums(self) -> None:
        """Memory, files and time are those of all; an end takes no time away."""
        if not Path("/proc/self/stat").exists():
            self.skipTest("there is no /proc")
        code = "import sys; sum(range(3_000_000)); print(1, flush=True); sys.stdin.read()"
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(child.kill)
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        alone, both = ProcessSums(list), ProcessSums(lambda: [child.pid, 2**22 + 1])
        for name in ("process_resident_memory_bytes", "process_open_fds", "process_max_fds"):
            self.assertLess(self.sample(alone, name), self.sample(both, name), name)
        start = "process_start_time_seconds"
        self.assertEqual(self.sample(alone, start), self.sample(both, start))
        seconds = "process_cpu_seconds_total"
        before = self.sample(both, seconds)
        self.assertLess(self.sample(ProcessSums(list), seconds), before)
        child.stdin.close()
        child.wait()
        child.stdout.close()
        self.assertLessEqual(before, self.sample(both, seconds))
        self.assertLess(before - 0.2, self.sample(ProcessSums(list), seconds))
