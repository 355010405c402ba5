"""Whether outputs can be kept is found out before anybody is paid for some."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.adapters.base import UrlSource
from omnigate.jobs.output_faults import OutputFault
from omnigate.jobs.readiness import KNOWN_SECONDS, Readiness
from omnigate.jobs.storage import StorageFault, StoredFile
from omnigate.jobs.storage_local import LEAST_ROOM_BYTES
from omnigate.testing.memory_disk import MemoryDisk
from tests.jobs.outputs_case import OutputsTestCase


class ReadinessTests(SynchronousTestCase):
    """What is known, for how long, and what is told."""

    def setUp(self) -> None:
        self.asked: list[Deferred[None]] = []
        self.clock = Clock()
        self.readiness = Readiness(self.ask, self.clock.seconds)

    def ask(self) -> Deferred[None]:
        """Find out when the test says so."""
        self.asked.append(Deferred())
        return self.asked[-1]

    def test_one_question_at_a_time(self) -> None:
        """Whoever asks while it is asked is told to come again."""
        self.assertEqual([self.readiness.unready() for _ in range(3)], [None] * 3)
        self.asked.pop().callback(None)
        self.assertEqual(self.readiness.unready(), "")
        self.clock.advance(KNOWN_SECONDS)
        self.assertIsNone(self.readiness.unready())
        self.assertEqual(len(self.asked), 1)

    def test_a_doubt(self) -> None:
        """What could not be kept has it asked anew at once."""
        self.readiness.unready()
        self.asked.pop().callback(None)
        self.readiness.doubt()
        self.assertIsNone(self.readiness.unready())

    def test_what_is_told(self) -> None:
        """A fault once, however often it is found, and its end."""
        with capturedLogs() as logs:
            for fault in ("no bucket", "no bucket", "no room", "", ""):
                self.readiness.unready()
                asked = self.asked.pop()
                if fault:
                    asked.errback(StorageFault(fault))
                else:
                    asked.callback(None)
                self.assertEqual(self.readiness.unready(), fault)
                self.clock.advance(KNOWN_SECONDS)
        self.assertEqual(
            list(map(formatEvent, logs)),
            [
                "media jobs fail before they are paid for: no bucket",
                "media jobs fail before they are paid for: no room",
                "outputs of media jobs can be kept again",
            ],
        )

    def test_a_fault_of_ours(self) -> None:
        """Nobody waits for ever."""
        self.readiness.unready()
        self.asked.pop().errback(ZeroDivisionError())
        self.assertEqual(self.readiness.unready(), "a fault of the gateway")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_an_end(self) -> None:
        """The question under way is given up."""
        self.readiness.unready()
        self.readiness.stop()
        self.assertTrue(self.asked[0].called)


class Shelf:
    """A storage that takes files, or does not.

    :ivar fault: what is wrong with it.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.asked = 0

    async def ready(self) -> None:
        """Say so."""
        self.asked += 1
        if self.fault:
            raise StorageFault(self.fault)

    async def keep(self, file: StoredFile) -> None:
        """Keep nothing."""
        raise StorageFault("it fell off")

    async def remove(self, name: str) -> None:
        """Nothing was kept."""


class OutputsTests(OutputsTestCase):
    """The folder that outputs come in, and what keeps them for good."""

    def test_little_room(self) -> None:
        """Nothing is begun on a disk that is nearly full, until somebody has made room."""
        self.assertEqual(self.outputs.unready(), "")
        self.disk.free_bytes["/state"] = LEAST_ROOM_BYTES - 1
        self.clock.advance(KNOWN_SECONDS)
        self.assertEqual(
            self.outputs.unready(),
            "the media folder: 63 MiB are free on its disk, and 64 MiB at least are kept for "
            "outputs",
        )
        self.disk.free_bytes["/state"] = LEAST_ROOM_BYTES
        self.clock.advance(KNOWN_SECONDS)
        self.assertEqual(self.outputs.unready(), "")

    def test_no_folder(self) -> None:
        """One that could not be made at the start, until it can be."""
        self.disk = MemoryDisk("/state")
        self.patch(files, "os", self.disk)
        self.disk.fail("mkdir", 2)
        outputs = self.opened()
        self.assertEqual(outputs.unready(), "the media folder: input/output error")
        self.clock.advance(KNOWN_SECONDS)
        self.assertEqual(outputs.unready(), "")

    def test_another_storage(self) -> None:
        """It is asked too, once it is chosen, and at the start."""
        shelf = Shelf()
        outputs = self.opened(shelf=shelf)
        self.assertEqual((outputs.unready(), shelf.asked), ("", 0))
        self.chosen, shelf.fault = "shelf", "there is no shelf"
        with capturedLogs() as logs:
            outputs = self.opened(shelf=shelf)
        (line,) = map(formatEvent, logs)
        self.assertIn("there is no shelf", line)
        self.assertEqual(outputs.unready(), "there is no shelf")

    def test_after_a_file_that_was_not_kept(self) -> None:
        """It is asked anew before the next job."""
        shelf = Shelf()
        self.chosen = "shelf"
        self.outputs = self.opened(shelf=shelf)
        self.assertEqual(self.outputs.unready(), "")
        self.hosts.files["https://files.example/0"] = b"pixels"
        self.failureResultOf(self.storing(UrlSource("https://files.example/0")), OutputFault)
        shelf.fault = "there is no shelf"
        self.assertEqual(self.outputs.unready(), "there is no shelf")
