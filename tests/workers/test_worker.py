"""A worker: what it does when its parent speaks, and what it listens on."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.worker_channel import Drain, FiguresWanted, Hangup, Hurry
from omnigate.settings import read_data_settings
from omnigate.workers.seat import WorkerSeat
from omnigate.workers.worker import InheritingReactor, WorkerEnding, endpoint_text, own_files


class Reactor:
    """As much of a reactor as a worker's ending and its port touch."""

    def __init__(self) -> None:
        self.running = True
        self.stops = 0
        self.adopted: list[tuple[int, Any]] = []

    def stop(self) -> None:
        self.stops += 1

    def callWhenRunning(  # noqa: N802
        self, call: Callable[..., object], *arguments: object
    ) -> None:
        """Nothing of it is wanted here."""

    def adoptStreamPort(self, fd: int, family: int, factory: Any) -> Any:
        os.fstat(fd)
        self.adopted.append((family, factory))
        return Port()


class Port:
    """A port that is none."""


class EndingTests(SynchronousTestCase):
    """What the parent says."""

    def setUp(self) -> None:
        self.reactor = Reactor()
        self.ending = WorkerEnding("omnigate-data", self.reactor)
        self.told: list[str] = []
        self.ending.on_hangup(lambda: self.told.append("hangup"))
        self.ending.on_hurry(lambda: self.told.append("hurry"))

    def test_hangup(self) -> None:
        """It does what SIGHUP asks for, each time."""
        self.ending.heard(Hangup())
        self.ending.heard(Hangup())
        self.assertEqual((self.told, self.reactor.stops), (["hangup", "hangup"], 0))

    def test_hangup_too_early(self) -> None:
        """Before there is anything to open anew, it asks for nothing."""
        WorkerEnding("omnigate-data", self.reactor).heard(Hangup())

    def test_drain(self) -> None:
        """It stops, once."""
        self.ending.heard(Drain())
        self.ending.heard(Drain())
        self.assertEqual((self.told, self.reactor.stops), ([], 1))

    def test_hurry(self) -> None:
        """It stops, and waits for nothing."""
        self.patch(self.ending, "_hurry_seconds", 3600.0)
        self.ending.heard(Drain())
        self.ending.heard(Hurry())
        self.ending.heard(Hurry())
        self.assertEqual((self.told, self.reactor.stops), (["hurry"], 1))

    def test_signals(self) -> None:
        """One signal says what the parent may have said already; two are in a hurry."""
        self.patch(self.ending, "_hurry_seconds", 3600.0)
        self.ending.heard(Drain())
        self.reactor.callFromThread = lambda call: call()  # type: ignore[attr-defined]
        self.ending._signalled()
        self.assertEqual((self.told, self.reactor.stops), ([], 1))
        self.ending._signalled()
        self.assertEqual((self.told, self.reactor.stops), (["hurry"], 1))

    def test_parent_is_gone(self) -> None:
        """It stops in order; at the end of a stop that is nothing new."""
        self.ending.orphaned()
        self.ending.orphaned()
        self.assertEqual(self.reactor.stops, 1)

    def test_figures(self) -> None:
        """They are somebody else's."""
        self.ending.heard(FiguresWanted(1))
        self.assertEqual((self.told, self.reactor.stops), ([], 0))


class ListenTests(SynchronousTestCase):
    """Whatever the endpoint says, it is the inherited socket."""

    def listen(self, text: str, family: socket.AddressFamily) -> tuple[Any, Any]:
        """Listen as a worker does; the factory that was adopted, and the port."""
        reactor = Reactor()
        with socket.socket(family) as handle:
            descriptor = os.dup(handle.fileno())
        stand_in: Any = InheritingReactor(reactor, descriptor, [0], 0)
        factory = Factory()
        port = self.successResultOf(serverFromString(stand_in, text).listen(factory))
        [(adopted, taken)] = reactor.adopted
        self.assertEqual(adopted, family)
        # Taken over: a listener that is closed must not go on listening.
        self.assertRaises(OSError, os.fstat, descriptor)
        self.assertTrue(taken is factory or isinstance(taken, TLSMemoryBIOFactory))
        return taken, port

    def test_tcp(self) -> None:
        """TCP, of both kinds."""
        self.listen("tcp:80:interface=10.1.2.3", socket.AF_INET)
        self.listen("tcp6:443:interface=\\:\\:", socket.AF_INET6)

    def test_systemd(self) -> None:
        """A socket of systemd's, of whatever kind, and whatever stands before it."""
        for text in ("systemd:domain=INET:name=public", "systemd:domain=INET6:index=0"):
            self.assertEqual(endpoint_text(text), "tcp:0")
        self.assertEqual(endpoint_text("haproxy:systemd:domain=UNIX:index=0"), "haproxy:tcp:0")
        for text in ("tcp:80", "unix:/run/systemd/x.sock", "tcp:80:interface=systemd"):
            self.assertEqual(endpoint_text(text), text)
        self.listen(endpoint_text("systemd:domain=INET:name=public"), socket.AF_INET)

    def test_the_rest_is_the_reactor(self) -> None:
        """Clocks and connections are the real one's."""
        reactor = Reactor()
        stand_in: Any = InheritingReactor(reactor, -1, [0], 0)
        stand_in.stop()
        self.assertEqual(reactor.stops, 1)


class FilesTests(SynchronousTestCase):
    """Files of its own."""

    def test_names(self) -> None:
        """The first keeps the plain names; the others have their number before the suffix."""
        folder = tempfile.gettempdir()
        environ = {"OMNIGATE_INTERNAL_TOKEN": "x" * 16, "OMNIGATE_STATE_DIR": folder}
        settings, _ = read_data_settings(environ)
        self.assertEqual(own_files(settings, WorkerSeat(0, 3, 3, 4, 5)), settings)
        second = own_files(settings, WorkerSeat(2, 3, 3, 4, 5))
        self.assertEqual(second.spool, f"{folder}/omnigate-usage-2.spool")
        self.assertEqual(second.config_cache, settings.config_cache)
