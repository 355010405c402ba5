"""The control plane of a run: the real one, but for sockets and the thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock, deferLater

from omnigate.config.prices import price_for
from omnigate.control.audit import AuditLog
from omnigate.control.auth import Credentials
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import Cause, ConfigFile
from omnigate.control.config_reading import Reading
from omnigate.control.health import Health
from omnigate.control.internal_api import InternalApi
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.routes import Routes
from omnigate.control.service import ControlParts, ControlService
from omnigate.control.snapshots import Snapshots
from omnigate.control.web import ControlFactory, Gate
from omnigate.events import UsageEvent
from omnigate.ledger.service import Ledger
from omnigate.money import Price
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter
from tests.simulation.ending import Door, NoteEnding
from tests.simulation.side import Side
from tests.simulation.world import CONTROL_FOLDER

if TYPE_CHECKING:
    from tests.simulation.world import World


class Unmetered:
    """Metrics that nobody looks at: to make true ones would take a fifth of a run."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Take whatever is told."""
        return lambda *arguments: None


class ReadOnce(ConfigFile):
    """A config file that is read and checked by the first process alone."""

    _known: ClassVar[dict[str, Reading]] = {}

    def _read(self, cause: Cause) -> Reading:
        if self.path not in self._known:
            self._known[self.path] = super()._read(cause)
        return self._known[self.path]


LEDGER = f"{CONTROL_FOLDER}/ledger.jsonl"
INTERNAL_TOKEN = "internal-token-0123456789"


class ControlSide(Side):
    """The machine of the control plane."""

    NAME = "control plane"
    FOLDER = CONTROL_FOLDER

    service: ControlService

    def __init__(self, world: World, config_path: str) -> None:
        super().__init__(world)
        self._config_path = config_path
        self._past: list[ControlService] = []

    def start(self) -> None:
        """Start a process; the ledger is loaded as its jobs are done."""
        world = self._world
        self.life += 1
        clock = self.clock = Clock()
        clock.advance(1000.0 + world.now)
        self.stopping = None
        self.runs = True
        self.writer = SynchronousWriter(holding=True)
        keys_writer = SynchronousWriter()
        self.config_file = ReadOnce(self._config_path, clock, lambda name: None, world.wall)
        self.config_file.load()
        book = self.book = KeyBook(
            KeyStore(f"{CONTROL_FOLDER}/keys.json", keys_writer, world.wall_ms)
        )
        book.managed.load()
        book.install(self.config_file.file_keys)
        metrics = cast(ControlMetrics, Unmetered())
        reports = Reports(world.wall_ms())
        lag = ReactorLag(clock)
        self.ledger = self._ledger()
        self.watch = BudgetWatch(book, self.ledger, world.wall_ms)
        snapshots = self.snapshots = Snapshots(
            lambda: self.config_file.config,
            self.watch,
            keys_writer,
            lambda: deferLater(clock, 0),
        )
        health = self.health = Health(lambda: self.ledger.trouble)
        routes = Routes(
            *health.endpoints(),
            *InternalApi(
                snapshots, self.ledger, reports, metrics, world.wall, lambda: deferLater(clock, 0)
            ).endpoints(),
        )
        credentials = Credentials(
            INTERNAL_TOKEN, "admin-token-0123456789", clock.seconds, metrics.auth_failed
        )
        self.factory = ControlFactory(Gate(routes, credentials, clock, world.wall))
        self.ending = NoteEnding()
        self.door = Door()
        parts = ControlParts(
            endpoint=cast(Any, self.door),
            factory=self.factory,
            health=health,
            audit=AuditLog(
                f"{CONTROL_FOLDER}/audit.jsonl",
                clock,
                SynchronousWriter(),
                world.wall_ms,
                max_bytes=1024 * 1024,
            ),
            ledger=self.ledger,
            config_file=self.config_file,
            book=book,
            metrics=metrics,
            lag=lag,
            writers=(self.writer, keys_writer),
            snapshots=snapshots,
            release_state=lambda: None,
        )
        self.service = ControlService(parts, clock, {}, self.ending, str)
        self.service.privilegedStartService()
        self.service.startService()
        self._past.append(self.service)
        world.note("the control plane starts")

    def _ledger(self) -> Ledger:
        return Ledger(
            LEDGER,
            self.clock,
            self.writer,
            self._price,
            ids_days=self.config_file.config.retention.ledger_ids_days,
            ledger_days=self.config_file.config.retention.ledger_days,
            wall=self._world.wall,
            observe=lambda event, cost_nano: self.watch.touch(event, cost_nano),
        )

    def _price(self, event: UsageEvent) -> Price | None:
        return price_for(
            self.config_file.config,
            event.route_model,
            event.upstream or "",
            event.target_model or "",
        )

    # -- what the network asks

    @property
    def listening(self) -> bool:
        """Whether it takes connections."""
        return self.alive and self.door.listening

    def accept(self) -> IProtocol | None:
        """A protocol for a new connection."""
        return cast("IProtocol | None", self.factory.buildProtocol(None))

    # -- what the run does

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        return self.alive and self.health.unready is None

    def see_stopped(self) -> bool:
        """Whether it has stopped just now, or found that it cannot start."""
        if not self.alive:
            return False
        if self.ending.failed is not None:
            self._world.note(f"the control plane cannot start: {self.ending.failed}")
        elif self.stopping is not None and self.stopping.called:
            self._world.note("the control plane has stopped")
        else:
            return False
        self.runs = False
        return True
