"""The stand-in for the writer thread; what it shares with the thread is in ``test_files``."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.writer import SynchronousWriter


class SynchronousWriterTests(SynchronousTestCase):
    def test_without_holding_jobs_are_done_at_once(self) -> None:
        """A test that is not about waiting need not wait."""
        writer = SynchronousWriter()
        self.assertEqual(self.successResultOf(writer.submit(lambda: 3)), 3)
        self.failureResultOf(writer.submit(lambda: 1 // 0), ZeroDivisionError)
        self.successResultOf(writer.stop())

    def test_held_jobs_are_done_when_told(self) -> None:
        """A test can stand between a job and its result."""
        writer = SynchronousWriter(holding=True)
        results = [writer.submit(lambda: 1), writer.submit(lambda: 2)]
        self.assertEqual(writer.run(1), 1)
        self.assertEqual(self.successResultOf(results[0]), 1)
        self.assertNoResult(results[1])
        self.assertEqual(writer.run(), 1)
        self.assertEqual(self.successResultOf(results[1]), 2)
