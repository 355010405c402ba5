"""An outage is told once, seldom again, and once at its end."""

from twisted.internet.task import Clock
from twisted.logger import Logger, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.outage import SECONDS_BETWEEN_REASONS, SECONDS_BETWEEN_REMINDERS, Outage


class OutageTests(SynchronousTestCase):
    """What reaches the log."""

    def setUp(self) -> None:
        """Begin with all well."""
        self.clock = Clock()
        self.outage = Outage(Logger(), "it fails", self.clock)

    def told(self, *reasons: str, every: float = 1.0) -> list[str]:
        """Let it fail with these reasons and return those that were logged."""
        with capturedLogs() as logged:
            for reason in reasons:
                self.outage.failed(reason)
                self.clock.advance(every)
        return [event["reason"].partition(" (")[0] for event in logged]

    def test_once(self) -> None:
        """The same reason is told once."""
        self.assertEqual(self.told(*["refused"] * 100), ["refused"])

    def test_reminder(self) -> None:
        """It is told again after some minutes, with how long it lasts."""
        self.told("refused")
        self.clock.advance(SECONDS_BETWEEN_REMINDERS)
        with capturedLogs() as logged:
            self.outage.failed("refused")
        self.assertEqual(logged[0]["reason"], "refused (for 301 s now)")

    def test_new_reason(self) -> None:
        """Another reason is news, but not when reasons take turns."""
        self.assertEqual(
            self.told("refused", "late", every=SECONDS_BETWEEN_REASONS), ["refused", "late"]
        )
        self.assertLess(len(self.told(*["a", "b"] * 30)), 8)

    def test_end(self) -> None:
        """Its end is told, and a success without an outage is not."""
        self.outage.failed("refused")
        self.assertEqual(self.outage.since, 0.0)
        self.clock.advance(7)
        with capturedLogs() as logged:
            self.outage.ended()
            self.outage.ended()
        self.assertEqual([event["lasting"] for event in logged], [7])
        self.assertIsNone(self.outage.since)
        self.assertEqual(self.told("refused"), ["refused"])
