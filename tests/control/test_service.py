"""Start, readiness and stop of the control plane."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.service import ControlParts, ControlService
from omnigate.reactor_lag import ReactorLag
from tests.control.plane import CONFIG, Plane


class Port:
    """A listening port that is none."""

    def __init__(self) -> None:
        self.listening = True

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 8081)

    def stopListening(self) -> Deferred[None]:  # noqa: N802
        self.listening = False
        return succeed(None)


class Endpoint:
    """An endpoint that answers what it is told."""

    def __init__(self, result: Deferred[Any]) -> None:
        self.result = result

    def listen(self, factory: object) -> Deferred[Any]:
        return self.result


class Endings:
    """Notes what the service decides over the process."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.hangup: Callable[[], object] = lambda: None

    def watch(self) -> None:
        self.events.append("watch")

    def on_hangup(self, call: Callable[[], object]) -> None:
        self.hangup = call

    def on_hurry(self, call: Callable[[], object]) -> None:
        self.events.append("hurry")

    def stopped(self) -> None:
        self.events.append("stopped")

    def fail_start(self, line: str) -> None:
        self.events.append(line)


class ServiceTests(SynchronousTestCase):
    """A service over a plane in memory."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.plane = Plane(self.folder, open_ledger=False)
        self.port = Port()
        self.ending = Endings()
        #: Whether the ledger was loaded each time that what is in memory was said to stay.
        self.stays: list[bool] = []

    def service(self, listening: Deferred[Any] | None = None) -> ControlService:
        endpoint: Any = Endpoint(listening or succeed(self.port))
        parts = ControlParts(
            endpoint=endpoint,
            factory=self.plane.talk.factory,
            guard=self.plane.guard,
            config_file=self.plane.config_file,
            record=self.plane.record,
            metrics=self.plane.metrics,
            lag=ReactorLag(self.plane.clock),
            writers=(self.plane.scrape_writer,),
            release_state=lambda: self.ending.events.append("released"),
            stays=lambda: self.stays.append(self.plane.ledger.ready),
            end_streams=lambda: self.ending.events.append("streams end"),
        )
        return ControlService(
            parts, self.plane.clock, {}, self.ending, lambda error: f"no port: {error}"
        )

    def start(self, service: ControlService) -> None:
        service.privilegedStartService()
        service.startService()

    def test_ready_once_the_ledger_is_loaded(self) -> None:
        """It listens first, answers 503, and is ready when sums can be told."""
        self.plane.writer.holding = True
        service = self.service()
        self.start(service)
        self.assertEqual(self.plane.talk.ask("GET", "/readyz").status, 503)
        self.assertEqual(self.plane.internal("GET", "/internal/config").status, 503)
        while self.plane.writer.run():
            pass
        self.assertEqual(self.plane.talk.ask("GET", "/readyz").status, 200)
        self.assertEqual(self.ending.events, ["watch"])
        self.assertEqual(self.stays, [False, True])

    def test_clean_stop(self) -> None:
        """A stop closes the port, the ledger and the writer, leaves no timer, and says so."""
        service = self.service()
        self.start(service)
        self.successResultOf(service.stopService())
        self.assertEqual(self.ending.events, ["watch", "streams end", "released", "stopped"])
        self.assertFalse(self.port.listening)
        self.assertFalse(self.plane.ledger.ready)
        self.assertEqual(self.plane.clock.getDelayedCalls(), [])
        reply = self.plane.talk.ask("GET", "/readyz")
        self.assertEqual((reply.status, reply.json()["detail"]), (503, "stopping"))

    def test_stop_waits_for_what_is_to_be_written(self) -> None:
        """A batch in flight at the stop is written and answered."""
        import json

        from tests.control.conversation import INTERNAL, request_bytes
        from tests.control.plane import event

        service = self.service()
        self.start(service)
        self.plane.writer.holding = True
        channel, transport = self.plane.talk.connect()
        body = json.dumps({"events": [event()]}).encode()
        channel.dataReceived(request_bytes("POST", "/internal/usage/batch", INTERNAL, body))
        stopped = service.stopService()
        self.assertNoResult(stopped)
        while self.plane.writer.run():
            pass
        self.successResultOf(stopped)
        self.assertIn(b'"recorded":1', transport.value())

    def test_port_in_use(self) -> None:
        """A port that cannot be had ends the start with its line."""
        error = CannotListenError("127.0.0.1", 8081, OSError(98, "Address already in use"))
        self.service(fail(error)).privilegedStartService()
        (line,) = self.ending.events
        self.assertTrue(line.startswith("no port: Couldn't listen"), line)

    def test_port_refused_later(self) -> None:
        """So does one whose refusal comes late."""
        listening: Deferred[Any] = Deferred()
        self.service(listening).privilegedStartService()
        self.assertEqual(self.ending.events, [])
        listening.errback(OSError("no"))
        self.assertEqual(self.ending.events, ["no port: no"])

    def test_ledger_cannot_be_loaded(self) -> None:
        """A ledger that cannot be read ends the first start; its line names the file."""
        os.mkdir(os.path.join(self.folder, "ledger.jsonl"))
        self.start(self.service())
        self.assertEqual(self.ending.events[0], "watch")
        self.assertIn("ledger.jsonl", self.ending.events[1])
        self.assertEqual(self.plane.talk.ask("GET", "/readyz").status, 503)

    def test_hangup_reads_the_config_again(self) -> None:
        """SIGHUP brings a changed file into force, keys included."""
        self.start(self.service())
        self.plane.write_config(CONFIG.replace('"app"', '"web"'))
        self.ending.hangup()
        self.assertEqual(self.plane.admin("GET", "/admin/keys/web").status, 200)
        self.plane.write_config("[[")
        self.ending.hangup()
        self.assertEqual(self.plane.admin("GET", "/admin/keys/web").status, 200)

    def test_watched_file(self) -> None:
        """A changed file is in force within seconds without being told."""
        self.start(self.service())
        self.plane.write_config(CONFIG.replace('"app"', '"website"'))
        for _ in range(30):
            self.plane.clock.advance(0.1)
        self.assertEqual(self.plane.admin("GET", "/admin/keys/website").status, 200)


class NotifyTests(SynchronousTestCase):
    """What the service manager is told."""

    def test_ready_alive_stopping(self) -> None:
        """READY once it can work, WATCHDOG again and again, STOPPING at the end."""
        # The path of such a socket has at most 108 bytes, which a deep checkout can pass.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "notify")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.setblocking(False)
        plane = Plane(self.mktemp(), open_ledger=False)
        endpoint: Any = Endpoint(succeed(Port()))
        parts = ControlParts(
            endpoint=endpoint,
            factory=plane.talk.factory,
            guard=plane.guard,
            config_file=plane.config_file,
            record=plane.record,
            metrics=plane.metrics,
            lag=ReactorLag(plane.clock),
            writers=(plane.scrape_writer,),
            release_state=lambda: None,
        )
        environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "10000000"}
        service = ControlService(parts, plane.clock, environ, Endings(), str)
        service.privilegedStartService()
        service.startService()
        self.assertEqual(manager.recv(200), b"READY=1\nSTATUS=ready: 1 keys, 1 upstreams, 1 routes")
        self.assertEqual(manager.recv(200), b"WATCHDOG=1")
        plane.clock.advance(5)
        self.assertEqual(manager.recv(200), b"WATCHDOG=1")
        self.successResultOf(service.stopService())
        self.assertEqual(manager.recv(200), b"STOPPING=1")
        self.assertRaises(BlockingIOError, manager.recv, 200)
