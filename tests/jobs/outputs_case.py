"""What tests of outputs share: a media folder in memory, and providers' files by their URLs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.job import Job
from omnigate.jobs.output_faults import OutputLimits
from omnigate.jobs.outputs import Outputs
from omnigate.outbound.messages import NOT_KEPT, TOO_LARGE, Answer, Sink
from omnigate.testing.memory_disk import MemoryDisk
from omnigate.testing.writer import SynchronousWriter

MEDIA = "/state/media"
JOB = "job_01jd0000000000000000000000"
OTHER = "job_01jd0000000000000000000001"

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 10
PLENTY = OutputLimits(10_000_000, 16, 20_000_000)


def a_job(job_id: str = JOB) -> Job:
    """Return a job that runs."""
    return Job(id=job_id, key_sha256="ab" * 32, model="m", created_ms=1, status="running")


@attrs.frozen
class Asked:
    """What was asked of :class:`FileHosts`."""

    url: str
    max_bytes: int
    headers: Sequence[tuple[str, str]]
    own_origin: str


class _Source:
    def pause(self) -> None:
        """Nothing comes in pieces here."""

    def resume(self) -> None:
        """Nothing comes in pieces here."""


class FileHosts:
    """Stands in for :class:`~omnigate.outbound.client.Outbound`: the files there are, by URL.

    :ivar holding: whether an answer waits for :meth:`go_on`.
    :ivar most: how many were under way at once.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | Answer] = {}
        self.types: dict[str, str] = {}
        self.asked: list[Asked] = []
        self.holding = False
        self.most = 0
        self.under_way = 0
        self.canceled: list[str] = []
        self._waiting: deque[Deferred[None]] = deque()

    def go_on(self) -> None:
        """Let the oldest one go on."""
        self._waiting.popleft().callback(None)

    async def fetch(
        self,
        source_url: str,
        max_bytes: int,
        sink: Sink,
        *,
        headers: Sequence[tuple[str, str]] = (),
        own_origin: str = "",
    ) -> Answer:
        """Answer with the file of that URL."""
        self.asked.append(Asked(source_url, max_bytes, headers, own_origin))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self._turn(source_url)
            return await self._answer(source_url, max_bytes, sink)
        finally:
            self.under_way -= 1

    async def _turn(self, url: str) -> None:
        if self.holding:
            waiting: Deferred[None] = Deferred(lambda _: self.canceled.append(url))
            self._waiting.append(waiting)
            await waiting

    async def _answer(self, url: str, max_bytes: int, sink: Sink) -> Answer:
        found = self.files[url]
        if isinstance(found, Answer):
            return found
        if len(found) > max_bytes:
            return Answer(200, fault=TOO_LARGE, detail=f"output is larger than {max_bytes} bytes")
        sink.begin(_Source())
        try:
            for start in range(0, len(found), 1000):
                sink.write(found[start : start + 1000])
            await sink.finish()
        except OSError as error:
            sink.abandon()
            return Answer(200, fault=NOT_KEPT, detail=str(error))
        kind = self.types.get(url)
        return Answer(200, {} if kind is None else {"content-type": kind})


class OutputsTestCase(SynchronousTestCase):
    """Outputs on a disk in memory."""

    def setUp(self) -> None:
        self.disk = MemoryDisk("/state")
        self.patch(files, "os", self.disk)
        self.hosts = FileHosts()
        self.writer, self.worker = SynchronousWriter(), SynchronousWriter()
        self.chosen = "local"
        self.clock = Clock()
        self.pauses: list[Deferred[None]] | None = None
        self.outputs = self.opened()

    def opened(self, *jobs: Job, **storages: Any) -> Outputs:
        """Open what stores outputs, as at a start, with these jobs."""
        self.successResultOf(self.opening(*jobs, **storages))
        return self.latest

    def opening(self, *jobs: Job, **storages: Any) -> Deferred[None]:
        """Begin to open it."""
        self.latest = Outputs(
            MEDIA,
            self.writer,
            self.worker,
            lambda: self.hosts,
            lambda: self.chosen,
            self.pause,
            self.clock.seconds,
            storages,
        )
        self.latest.names.load(jobs)
        return Deferred.fromCoroutine(self.latest.open())

    def pause(self) -> Deferred[None]:
        """Go on at once, or when the test says so."""
        if self.pauses is None:
            return succeed(None)
        self.pauses.append(Deferred())
        return self.pauses[-1]

    def storing(
        self, *sources: Any, limits: OutputLimits = PLENTY, **options: Any
    ) -> Deferred[Any]:
        """Begin to store what an attempt made."""
        options = {"own_origin": "https://api.example.com", "job": a_job(), **options}
        return Deferred.fromCoroutine(self.outputs.store(sources=sources, limits=limits, **options))

    def left(self) -> dict[str, bytes]:
        """Return what lies in the media folder."""
        return {
            path.removeprefix(MEDIA + "/"): content
            for path, content in self.disk.contents(MEDIA).items()
        }
