"""The data plane of a run: the real one, but for sockets, the thread and the dice."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock

from omnigate.config.snapshot import SnapshotUpstream
from omnigate.gateway.access_log import AccessLog
from omnigate.gateway.attesting import Attesting
from omnigate.gateway.config_pull import ConfigPull
from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.count_reports import CountReports
from omnigate.gateway.delivery import Delivery
from omnigate.gateway.plane_figures import PlaneFigures
from omnigate.gateway.service import DataParts, DataService
from omnigate.gateway.settle import Books
from omnigate.gateway.spool import Spool
from omnigate.protocols.pool import Connect, UpstreamPool
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import DataSettings, read_data_settings
from omnigate.testing.writer import SynchronousWriter
from tests.planes.memory import FakeClient, FakeConnection, InOrder, WatchedPlane
from tests.simulation.ending import Door, NoteEnding
from tests.simulation.side import Side
from tests.simulation.world import DATA_FOLDER

if TYPE_CHECKING:
    from tests.simulation.bill import Bill
    from tests.simulation.link import Link
    from tests.simulation.provider import Provider
    from tests.simulation.world import World

ENVIRON = {
    "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
    "OMNIGATE_CONTROL_URL": "http://control.test:8081",
    "OMNIGATE_STATE_DIR": DATA_FOLDER,
    "OMNIGATE_ACCESS_LOG": "off",
    "OMNIGATE_FLUSH_MS": "1000",
    "OMNIGATE_POLL_MS": "4000",
    "OMNIGATE_CLIENT_STALL_TIMEOUT_MS": "5000",
    "OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "12000",
    "OMNIGATE_ABORT_DRAIN_MS": "9000",
    "OMNIGATE_SHUTDOWN_GRACE_MS": "4000",
    "UPSTREAM_KEY": "sk-upstream-credential-42",
}


def settings() -> DataSettings:
    """The settings of every life of it."""
    return read_data_settings(ENVIRON)[0]


class DataSide(Side):
    """The machine of the data plane."""

    NAME = "data plane"
    FOLDER = DATA_FOLDER

    service: DataService

    def __init__(
        self, world: World, link: Link, provider: Provider, bill: Bill, settings: DataSettings
    ) -> None:
        super().__init__(world)
        self._link = link
        self._provider = provider
        self._bill = bill
        self._settings = settings
        self._ids = 0
        self._past: list[DataService] = []

    def start(self) -> bool:
        """Start a process; ``False`` where it cannot start."""
        world, settings = self._world, self._settings
        self.life += 1
        clock = self.clock = Clock()
        clock.advance(1000.0 + world.now)
        self.stopping = None
        self.writer = SynchronousWriter(holding=True)
        watchdog = Watchdog(clock)
        watchdog._timed = cast(Any, InOrder())
        self.spool = Spool(settings.spool, self.writer)
        self.runs = True
        try:
            self.spool.open()
        except OSError as error:
            world.note(f"the data plane cannot start: {error}")
            self.runs = False
            return False
        client = ControlClient(clock, watchdog, settings.control_url, settings.internal_token)
        client._pool = UpstreamPool(lambda build: self._link.connect(clock, build), watchdog)
        reports = CountReports(client.post, clock, f"life-{self.life}")
        delivery = Delivery(
            self.spool,
            client.post,
            clock,
            settings.flush_ms / 1000,
            reports.send,
            lambda version: self.pull.told(version),
        )
        self.refused = 0
        access_log = AccessLog(settings.access_log, self.writer, clock)
        books = Books(self._append, self._refuse(reports.refusal))
        self.plane = WatchedPlane(settings, clock, watchdog, books, access_log, world.wall)
        self.plane.new_id = self._new_id
        self.plane._random = Random(self.life)
        self.plane.abandoned._readers = cast(Any, InOrder())
        self.ending = NoteEnding()
        self.door = Door()
        parts = DataParts(
            plane=self.plane,
            spool=self.spool,
            delivery=delivery,
            client=client,
            access_log=access_log,
            endpoint=cast(Any, self.door),
            connect=self._connect,
            writers=(self.writer,),
            attesting=Attesting(client.post, clock, lambda: int(world.wall() * 1000)),
        )
        self.service = DataService(parts, settings, clock, ENVIRON, self.ending, str)
        self.service.factory.connections = cast(Any, InOrder())
        reports.figures = PlaneFigures(parts, self.service.factory)
        self.pull = parts.pull = ConfigPull(
            lambda: client.get("/internal/config"),
            clock,
            settings.poll_ms / 1000,
            settings.config_cache,
            self.service.install,
            self.writer,
        )
        self.service.privilegedStartService()
        self.service.startService()
        self._past.append(self.service)
        world.note(f"the data plane starts, {self.spool.count} events in its spool")
        return True

    # -- what the run does

    @property
    def ready(self) -> bool:
        """Whether it takes requests."""
        return self.alive and self.door.listening

    def client(self) -> FakeClient:
        """A new client's connection."""
        return FakeClient(self.clock, self.service.factory)

    def see_stopped(self) -> bool:
        """Whether it has stopped just now."""
        if self.stopping is None or not self.stopping.called or not self.alive:
            return False
        self._world.note("the data plane has stopped")
        self._bill.data_ended(self)
        self.runs = False
        self._provider.forget()
        return True

    def killed(self) -> None:
        """The process is no more; the disk is the caller's business."""
        super().killed()
        self._provider.forget()

    def unsettled(self) -> list[str]:
        """The exchanges under way."""
        return [exchange.id for exchange in self.plane.exchanges if not exchange.settled]

    @property
    def drained(self) -> bool:
        """Whether nothing waits to be delivered."""
        return self.alive and not self.spool.count and not self.unsettled()

    # -- what the plane does

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    @property
    def last_id(self) -> str:
        """The id that was given out last."""
        return f"{self._ids:032x}"

    def _append(self, line: bytes) -> bool:
        taken = self.spool.append(line)
        event = json.loads(line)
        if self.alive:
            self._world.note(f"used: {line.decode()}")
            self._bill.settled(event, taken)
        else:
            self._bill.half_settled(event)
        return taken

    def _refuse(self, told: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def refuse(name: str, code: str) -> None:
            self.refused += 1
            self._world.note(f"refused: {name} {code}")
            told(name, code)

        return refuse

    def _connect(self, config: SnapshotUpstream) -> Connect:
        clock = self.clock

        def open_connection(build: Callable[[], Any]) -> Deferred[Any]:
            if config.name in self._provider.refusing:
                return fail(ConnectionRefusedError())
            connection = FakeConnection(clock, config.name, build())
            self._provider.connected(connection)
            return succeed(connection.protocol)

        return open_connection
