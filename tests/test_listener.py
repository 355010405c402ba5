"""The port of a daemon."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory
from twisted.trial.unittest import SynchronousTestCase

from omnigate.daemon_service import Listener


class Port:
    """Knows where it listens until it is closed, as Twisted's do."""

    def __init__(self, host: object) -> None:
        self.host = host
        self.closed = False

    def getHost(self) -> object:
        """Return where it listens."""
        if self.closed:
            raise AttributeError("no socket")
        return self.host

    def stopListening(self) -> None:  # noqa: N802
        """Close it."""
        self.closed = True


class Endpoint:
    """Listens at once."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def listen(self, factory: object) -> Deferred[Any]:
        """Listen."""
        return succeed(self.port)


class ListenerTests(SynchronousTestCase):
    """What is told of the address."""

    def test_address(self) -> None:
        """It is known as long as the port is there, and in reports that are sent after that."""
        for host, told in (
            (IPv4Address("TCP", "127.0.0.1", 8080), "127.0.0.1:8080"),
            (IPv6Address("TCP", "::1", 8080), "[::1]:8080"),
        ):
            endpoint: Any = Endpoint(Port(host))
            listener = Listener(endpoint, Factory(), str)
            self.assertEqual(listener.address, "no port yet")
            ending: Any = None
            listener.open(ending)
            self.assertEqual(listener.address, told)
            self.successResultOf(Deferred.fromCoroutine(listener.close()))
            self.assertEqual(listener.address, told)
