"""Tests for omnigate.commands.progress."""

import io

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.commands.progress import LINE_SECONDS, TERMINAL_SECONDS, Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


class ProgressTests(SynchronousTestCase):
    """Progress."""

    def test_a_terminal_has_one_line(self) -> None:
        """It changes now and then, and is gone when something else is to be written."""
        clock, stream = Clock(), Terminal()
        progress = Progress(4_000_000, False, stream, clock.seconds)
        progress(0)
        self.assertEqual(stream.getvalue(), "")
        progress.clear()
        self.assertEqual(stream.getvalue(), "")
        for done in (1_000_000, 3_000_000):
            clock.advance(TERMINAL_SECONDS)
            progress(done)
            progress(done + 1)
        progress.clear()
        progress.clear()
        self.assertEqual(
            stream.getvalue(),
            "\r\x1b[K1.0 of 4.0 MB read, 25 %\r\x1b[K3.0 of 4.0 MB read, 75 %\r\x1b[K",
        )

    def test_elsewhere_it_is_silent(self) -> None:
        """A log has no use for it, unless it was asked for: then a line every few seconds."""
        for asked, told in ((False, ""), (True, "9.0 of 9.0 MB read, 100 %\n")):
            clock, stream = Clock(), io.StringIO()
            progress = Progress(4_000_000, asked, stream, clock.seconds)
            progress(1)
            clock.advance(LINE_SECONDS)
            progress(9_000_000)  # the ledger grew meanwhile
            progress.clear()
            self.assertEqual(stream.getvalue(), told)

    def test_nothing_to_read(self) -> None:
        """An empty ledger is read at once."""
        clock, stream = Clock(), io.StringIO()
        progress = Progress(0, True, stream, clock.seconds)
        clock.advance(LINE_SECONDS)
        progress(0)
        self.assertEqual(stream.getvalue(), "0.0 of 0.0 MB read, 100 %\n")
