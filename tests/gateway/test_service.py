"""The data plane as a service: start, drain, stop, in order."""

import json
import os
from collections.abc import Callable
from typing import Any, cast

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotUpstream,
    _version_of,
    encode_snapshot,
)
from omnigate.gateway.access_log import AccessLog
from omnigate.gateway.attesting import Attesting
from omnigate.gateway.config_pull import ConfigPull
from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.count_reports import CountReports
from omnigate.gateway.delivery import Delivery
from omnigate.gateway.plane import DataPlane
from omnigate.gateway.service import DataParts, DataService, full_answer
from omnigate.gateway.settle import Books
from omnigate.gateway.spool import Spool
from omnigate.protocols.connector import _tls_options
from omnigate.protocols.pool import Connect
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import read_data_settings
from omnigate.testing.writer import SynchronousWriter
from tests.planes.memory import SECRET, FakeClient, FakeConnection, key, reply, request, route
from tests.planes.memory import upstream as an_upstream
from tests.planes.reading import read_answers
from tests.planes.scenes import ANSWER, CHAT, CHAT_STREAM, STREAM_HEAD, chunk, delta

GRACE = 5.0


class Port:
    """A listener that only knows whether it still listens."""

    def __init__(self) -> None:
        self.listening = True

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 8080)

    def stopListening(self) -> None:  # noqa: N802
        self.listening = False


class Endpoint:
    """Where to listen."""

    def __init__(self) -> None:
        self.port = Port()
        self.error: Exception | None = None

    def listen(self, factory: object) -> Deferred[Any]:
        return fail(self.error) if self.error else succeed(self.port)


class Ending:
    """The end of the process, as far as the service has a say in it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.hang_up: Callable[[], object] = lambda: None
        self.hurry: Callable[[], object] = lambda: None

    def watch(self) -> None:
        self.told.append("watch")

    def on_hangup(self, call: Callable[[], object]) -> None:
        self.told.append("hangup")
        self.hang_up = call

    def on_hurry(self, call: Callable[[], object]) -> None:
        self.hurry = call

    def stopped(self) -> None:
        self.told.append("stopped")

    def fail_start(self, line: str) -> None:
        self.told.append(line)


class Control:
    """A control plane that gives a config and takes everything."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = attrs.evolve(snapshot, version=_version_of(snapshot))
        self.posted: list[tuple[str, Any]] = []
        self.silent = False
        self.closed = False

    def get(self) -> Deferred[tuple[int, bytes]]:
        return succeed((200, encode_snapshot(self.snapshot)))

    def post(self, path: str, body: bytes) -> Deferred[tuple[int, bytes]]:
        if self.silent:
            return Deferred()
        message = json.loads(body)
        self.posted.append((path, message))
        count = len(message.get("events", ()))
        return succeed((200, b'{"recorded":%d,"duplicates":0,"invalid":0}' % count))

    def close(self) -> Deferred[None]:
        self.closed = True
        return succeed(None)

    def usage(self) -> list[dict[str, Any]]:
        """The usage events that were delivered."""
        return [event for path, body in self.posted if "batch" in path for event in body["events"]]


class ServiceTestCase(SynchronousTestCase):
    environ: dict[str, str] = {}

    def setUp(self) -> None:
        folder = self.mktemp()
        os.mkdir(folder)
        self.clock = Clock()
        self.clock.advance(1_790_000_000.0)
        self.opened: list[FakeConnection] = []
        environ = {
            "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
            "OMNIGATE_STATE_DIR": folder,
            "OMNIGATE_SHUTDOWN_GRACE_MS": str(int(GRACE * 1000)),
            "OMNIGATE_ACCESS_LOG": "off",
            "UPSTREAM_KEY": SECRET,
            **self.environ,
        }
        settings, _ = read_data_settings(environ)
        self.control = Control(
            Snapshot(
                version="1",
                keys=(key(),),
                upstreams=(an_upstream("u1"), an_upstream("u2", api_key_env="ABSENT_KEY")),
                capabilities=(Capabilities(),),
                routes=(route("small", ("u1", "vendor-1")),),
                media_models=(),
            )
        )
        writer = SynchronousWriter()
        spool = Spool(settings.spool, writer)
        spool.open()
        reports = CountReports(self.control.post, self.clock, "me")
        delivery = Delivery(spool, self.control.post, self.clock, 1.0, reports.send)
        access_log = AccessLog(settings.access_log, writer, self.clock)
        books = Books(spool.append, reports.refusal)
        watchdog = Watchdog(self.clock)
        plane = DataPlane(settings, self.clock, watchdog, books, access_log, self.clock.seconds)
        self.endpoint = Endpoint()
        self.ending = Ending()
        self.parts = DataParts(
            plane=plane,
            spool=spool,
            delivery=delivery,
            client=cast(ControlClient, self.control),
            access_log=access_log,
            endpoint=cast(Any, self.endpoint),
            connect=self.connect,
            writers=(writer,),
            attesting=Attesting(self.control.post, self.clock, lambda: 0),
        )
        self.service = DataService(
            self.parts,
            settings,
            self.clock,
            environ,
            self.ending,
            lambda error: f"cannot listen: {error}",
        )
        self.parts.pull = ConfigPull(
            self.control.get, self.clock, 2.0, settings.config_cache, self.service.install, writer
        )

    def connect(self, config: SnapshotUpstream) -> Connect:
        def open_connection(build: Any) -> Deferred[Any]:
            self.opened.append(FakeConnection(self.clock, config.name, build()))
            return succeed(self.opened[-1].protocol)

        return open_connection

    def start(self) -> None:
        self.service.privilegedStartService()
        self.service.startService()

    def client(self) -> FakeClient:
        return FakeClient(self.clock, self.service.factory)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)


class HangupTests(ServiceTestCase):
    def test_authorities_are_read_anew(self) -> None:
        """After a SIGHUP the next connection trusts what its ``ca_file`` holds by then."""
        self.start()
        _tls_options("provider.test", None)
        self.ending.hang_up()
        self.assertEqual(0, _tls_options.cache_info().currsize)


class StartTests(ServiceTestCase):
    def test_serves(self) -> None:
        """Once started it listens, takes the config, and serves."""
        with capturedLogs() as events:
            self.start()
        self.assertEqual(["watch", "hangup"], self.ending.told)
        client = self.client()
        client.send(request(CHAT))
        self.opened[-1].answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)
        self.pass_time(2)
        [event] = self.control.usage()
        self.assertEqual((9, 3), (event["input_tokens"], event["output_tokens"]))
        texts = " ".join(str(event) for event in events)
        self.assertIn("127.0.0.1:8080", texts)
        self.assertNotIn(SECRET, texts)
        self.successResultOf(self.stopped())

    def stopped(self) -> Deferred[None]:
        stopping = self.service.stopService()
        self.pass_time(GRACE + 30)
        return stopping

    def test_missing_credential(self) -> None:
        """A provider's key that is not in the environment is told of by its name, and counted."""
        with capturedLogs() as events:
            self.start()
        [told] = [event for event in events if event["log_level"] is LogLevel.error]
        self.assertEqual(("u2", "ABSENT_KEY"), (told["name"], told["variable"]))
        self.assertEqual(1, self.service.parts.plane.figures()["missing_credentials"])
        self.successResultOf(self.stopped())

    def test_port_in_use(self) -> None:
        """An address that cannot be listened on ends the start with its line."""
        self.endpoint.error = CannotListenError("", 8080, OSError("in use"))
        self.service.privilegedStartService()
        [line] = self.ending.told
        self.assertTrue(line.startswith("cannot listen: "))


class CapTests(ServiceTestCase):
    environ = {"OMNIGATE_MAX_CONNECTIONS": "1"}

    def test_turned_away(self) -> None:
        """A connection beyond the cap is told to come back, and counted."""
        self.start()
        self.client()
        client = self.client()
        [answer] = read_answers(client.received(), False)
        self.assertEqual((503, "overloaded"), (answer.status, answer.code))
        self.assertEqual(b"1", answer.headers[b"retry-after"])
        self.assertEqual(full_answer(), client.received())
        self.assertEqual(1, self.parts.plane.books.refusals)


class StopTests(ServiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.start()

    def test_idle(self) -> None:
        """Without a request under way it stops at once: listener, idle connections, files."""
        client = self.client()
        stopping = self.service.stopService()
        self.assertFalse(self.endpoint.port.listening)
        self.pass_time(1)
        self.successResultOf(stopping)
        self.assertFalse(client.open)
        self.assertTrue(self.control.closed)
        self.assertEqual("stopped", self.ending.told[-1])
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_under_way(self) -> None:
        """A request under way is answered within the grace, and its usage delivered."""
        client = self.client()
        client.send(request(CHAT))
        with capturedLogs() as logged:
            stopping = self.service.stopService()
        [line] = [formatEvent(event) for event in logged]
        self.assertIn("in flight (1) may take up to", line)
        self.pass_time(GRACE - 1)
        self.assertNoResult(stopping)
        self.opened[-1].answer(reply(ANSWER))
        self.pass_time(1)
        self.successResultOf(stopping)
        self.assertEqual(
            (200, b"close"), (client.answer.status, client.answer.headers[b"connection"])
        )
        self.assertEqual([200], [event["status"] for event in self.control.usage()])
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_over_the_grace(self) -> None:
        """One that takes longer is cut, and billed by what there is."""
        client = self.client()
        client.send(request(CHAT_STREAM))
        self.opened[-1].answer(STREAM_HEAD + chunk(delta(b"Hi")))
        stopping = self.service.stopService()
        with capturedLogs() as events:
            self.pass_time(GRACE + 1)
        self.successResultOf(stopping)
        self.assertEqual([1], [event["count"] for event in events if "count" in event])
        self.assertFalse(client.open)
        [event] = self.control.usage()
        self.assertEqual((499, True), (event["status"], event["estimated"]))
        self.assertEqual(0, self.parts.plane.admission.in_flight)
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_abandoned(self) -> None:
        """An answer that is read on for a client that left is stopped, and billed."""
        client = self.client()
        client.send(request(CHAT_STREAM))
        self.opened[-1].answer(STREAM_HEAD + chunk(delta(b"Hi")))
        client.leave()
        stopping = self.service.stopService()
        self.pass_time(1)
        self.successResultOf(stopping)
        [event] = self.control.usage()
        self.assertEqual((499, True), (event["status"], event["estimated"]))

    def test_in_a_hurry(self) -> None:
        """Asked once more, it cuts at once what is under way, bills it, and delivers nothing."""
        client, idle, left = self.client(), self.client(), self.client()
        for streaming in (client, left):
            streaming.send(request(CHAT_STREAM))
            self.opened[-1].answer(STREAM_HEAD + chunk(delta(b"Hi")))
        left.leave()
        stopping = self.service.stopService()
        self.pass_time(1)
        self.assertNoResult(stopping)
        self.assertFalse(idle.open)
        self.ending.hurry()
        self.pass_time(0.1)
        self.successResultOf(stopping)
        self.assertFalse(client.open)
        self.assertFalse(any(connection.open for connection in self.opened))
        self.assertEqual("stopped", self.ending.told[-1])
        self.assertEqual([], self.control.usage())
        with open(self.parts.spool.path, "rb") as spool:
            events = [json.loads(line) for line in spool]
        self.assertEqual([(499, True)] * 2, [(e["status"], e["estimated"]) for e in events])
        self.assertEqual(0, self.parts.plane.admission.in_flight)
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_in_a_hurry_while_delivering(self) -> None:
        """Asked once more during the last delivery, it gives that up."""
        client = self.client()
        client.send(request(CHAT))
        self.opened[-1].answer(reply(ANSWER))
        self.control.silent = True
        stopping = self.service.stopService()
        self.pass_time(1)
        self.assertNoResult(stopping)
        self.ending.hurry()
        self.pass_time(0.1)
        self.successResultOf(stopping)
        self.assertEqual(1, self.parts.spool.count)
        self.assertEqual("stopped", self.ending.told[-1])
        self.assertEqual([], self.clock.getDelayedCalls())

    def test_not_ready(self) -> None:
        """While it drains, probes that still come are told."""
        client = self.client()
        client.send(request(CHAT))
        stopping = self.service.stopService()
        self.assertEqual("draining", self.parts.plane.unready())
        self.opened[-1].answer(reply(ANSWER))
        self.pass_time(1)
        self.successResultOf(stopping)
