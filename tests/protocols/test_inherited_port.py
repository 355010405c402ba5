"""A port on an inherited socket: what it leaves alone, and what it leaves to others."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.inherited_port import (
    GRANTED,
    HOLD_BACK_SECONDS,
    FairShare,
    InheritedUnixPort,
    inherit_port,
)


class Port:
    """A port with connections that wait, and none of Twisted's machinery."""

    def __init__(self) -> None:
        self.connected = True
        self.disconnecting = False
        self.reading = True
        self.numberAccepts = 100
        self.accepted = 0

    def doRead(self) -> None:
        self.accepted += self.numberAccepts
        self.numberAccepts += 20

    def stopReading(self) -> None:  # noqa: N802
        self.reading = False

    def startReading(self) -> None:  # noqa: N802
        self.reading = True


class FairShareTests(SynchronousTestCase):
    """Whoever is ahead holds back."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.port = Port()
        self.counts = [0, 0, 0]
        self.share = FairShare(self.port, self.clock, self.counts, 1)

    def take(self, most: int) -> int:
        """Accept as long as this worker does, so many at most; how many it took."""
        taken = 0
        while self.port.reading and taken < most:
            before = self.port.accepted
            self.share.read()
            taken += self.port.accepted - before
            self.counts[1] += self.port.accepted - before
        return taken

    def test_one_at_a_time(self) -> None:
        """However many wait, the others have their turn after each."""
        self.share.read()
        self.share.read()
        self.assertEqual(self.port.accepted, 2)

    def test_holds_back(self) -> None:
        """Beside workers that have none it takes two, and then a few each moment."""
        self.assertEqual(self.take(100), 2)
        for _ in range(5):
            self.clock.advance(HOLD_BACK_SECONDS)
            self.assertEqual(self.take(100), GRANTED)
        self.assertEqual(self.port.accepted, 2 + 5 * GRANTED)

    def test_others_catch_up(self) -> None:
        """It goes on at once when the others have as many."""
        self.take(100)
        self.counts[0] = self.counts[2] = 50
        self.clock.advance(HOLD_BACK_SECONDS)
        self.assertEqual(self.take(40), 40)

    def test_many(self) -> None:
        """Of thousands a few more or less do not matter."""
        self.counts[:] = [1000, 1000, 1000]
        self.assertGreater(self.take(1000), 50)
        self.assertLess(self.counts[1], 1100)

    def test_closed_meanwhile(self) -> None:
        """A port that was closed while it held back stays closed."""
        for gone in ("connected", "disconnecting"):
            self.setUp()
            self.take(100)
            setattr(self.port, gone, gone == "disconnecting")
            self.clock.advance(HOLD_BACK_SECONDS)
            self.assertFalse(self.port.reading)


class Reactor(Clock):
    """As much of a reactor as a port touches."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()

    def addReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.add(reader)

    def removeReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.discard(reader)

    def removeWriter(self, writer: Any) -> None:  # noqa: N802
        """It never writes."""


class UnixTests(SynchronousTestCase):
    """A UNIX socket that somebody else has made."""

    def test_left_alone(self) -> None:
        """Neither its mode nor its name is changed, and it goes on for the others."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "x.sock"
        reactor: Any = Reactor()
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
            made.listen(5)
            path.chmod(0o640)
            descriptor = os.dup(made.fileno())
            port: Any = inherit_port(reactor, descriptor, Factory(), [0], 0)
            self.assertIsInstance(port, InheritedUnixPort)
            self.assertRaises(OSError, os.fstat, descriptor)
            self.assertIn(port, reactor.readers)
            port.stopListening()
            reactor.advance(0)
            self.assertNotIn(port, reactor.readers)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(10)
                client.connect(str(path))
                made.accept()[0].close()

    def test_no_socket(self) -> None:
        """What is no socket is refused."""
        with tempfile.TemporaryFile() as file:
            reactor: Any = Reactor()
            self.assertRaises(OSError, inherit_port, reactor, file.fileno(), Factory(), [0], 0)
