"""Tests for omnigate.ledger.replay."""

import os

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from omnigate.ledger.books import Books
from omnigate.ledger.lines import encode_line
from omnigate.ledger.replay import (
    DAMAGE_LOGGED,
    LedgerUnreadableError,
    LoadCanceledError,
    Replay,
)
from omnigate.ledger.segments import SLICE_LINES, ActiveSegment
from omnigate.testing.writer import SynchronousWriter
from tests.ledger.test_lines import RECEIVED
from tests.usage import usage_event


class ReplayTests(SynchronousTestCase):
    """Reading into the books."""

    def setUp(self) -> None:
        folder = self.mktemp()
        os.makedirs(folder)
        self.path = os.path.join(folder, "ledger.jsonl")
        self.replay = Replay(ActiveSegment(self.path), Books(3))
        self.writer = SynchronousWriter()

    def write(self, *lines: bytes) -> None:
        with open(self.path, "wb") as file:
            file.writelines(lines)

    def run_it(self) -> "Deferred[None]":
        return Deferred.fromCoroutine(self.replay.run(self.writer))

    def test_it_goes_through_the_file_in_slices(self) -> None:
        """The reactor has its turn after each: what is entered grows by a slice at a time."""
        total = 2 * SLICE_LINES + 7
        self.write(*(encode_line(usage_event(str(n)), 1, RECEIVED) for n in range(total)))
        self.writer.holding = True
        done = self.run_it()
        seen = []
        while self.writer.pending:
            self.writer.run(1)
            seen.append(self.replay.events)
        self.successResultOf(done)
        self.assertEqual(seen, [0, SLICE_LINES, 2 * SLICE_LINES, total, total, total])
        self.assertEqual(self.replay.books.totals.lifetime(["ab" * 32]).cost_nano, total)

    def test_damage_is_counted_and_logged_up_to_a_bound(self) -> None:
        """A file full of junk fills no log."""
        logged: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            logged.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.write(*(b"junk %d\n" % n for n in range(100)))
        self.successResultOf(self.run_it())
        self.assertEqual((self.replay.events, self.replay.damaged), (0, 100))
        self.assertEqual(len(logged), DAMAGE_LOGGED)
        self.assertEqual([event["offset"] for event in logged[:3]], [0, 7, 14])

    def test_it_can_be_canceled(self) -> None:
        """It ends after the slice in hand, and the file is not opened for appending."""
        self.write(encode_line(usage_event(), 1, RECEIVED))
        self.replay.canceled = True
        self.failureResultOf(self.run_it(), LoadCanceledError)
        self.assertRaises(RuntimeError, self.replay.segment.append, b"x\n")

    def test_a_file_that_cannot_be_read_is_an_error(self) -> None:
        """Half a ledger is never taken for the whole."""
        os.mkdir(self.path)
        error = self.failureResultOf(self.run_it(), LedgerUnreadableError).value
        self.assertIn(self.path, str(error))
        self.assertIn("Is a directory", str(error))
