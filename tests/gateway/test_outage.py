"""An outage is told once, seldom again, and once at its end."""

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.logger import Logger, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.outage import (
    SECONDS_BETWEEN_REASONS,
    SECONDS_BETWEEN_REMINDERS,
    Outage,
    told_connect,
)
from omnigate.protocols.connector import UpstreamConnectError


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


class ConnectTests(SynchronousTestCase):
    """Connections to an upstream."""

    def setUp(self) -> None:
        """Wrap a connector that is told by hand how each connection ends."""
        self.opening: list[Deferred[IProtocol]] = []
        self.outage = Outage(Logger(), "upstream x cannot be reached", Clock())
        self.connect = told_connect(self.begin, self.outage)

    def begin(self, make: object) -> Deferred[IProtocol]:
        """Begin a connection."""
        self.opening.append(Deferred())
        return self.opening[-1]

    def test_reason(self) -> None:
        """A failure is told with its reason and goes on to the caller; a success ends it."""
        connection = Protocol()
        with capturedLogs() as logged:
            opening = self.connect(Protocol)
            self.opening[0].errback(UpstreamConnectError("cannot connect to x:1: refused"))
            self.failureResultOf(opening, UpstreamConnectError)
            opening = self.connect(Protocol)
            self.opening[1].callback(connection)
            self.assertIs(self.successResultOf(opening), connection)
        self.assertEqual(
            [(event["what"], event.get("reason")) for event in logged],
            [
                ("upstream x cannot be reached", "cannot connect to x:1: refused"),
                ("upstream x cannot be reached", None),
            ],
        )

    def test_called_off(self) -> None:
        """A connection that nobody wants any more says nothing of the upstream."""
        opening = self.connect(Protocol)
        opening.cancel()
        self.failureResultOf(opening)
        self.assertIsNone(self.outage.since)
