"""The control plane of a run: the real one, but for sockets and the thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock, deferLater

from omnigate.config.prices import price_for
from omnigate.control.auth import Credentials
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.health import Health
from omnigate.control.internal_api import InternalApi
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.routes import Routes
from omnigate.control.service import ControlParts, ControlService
from omnigate.control.snapshots import Snapshots
from omnigate.control.web import ControlFactory, Guard
from omnigate.events import UsageEvent
from omnigate.ledger.service import Ledger
from omnigate.money import Price
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter
from tests.simulation.ending import Door, NoteEnding
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

    _known: ClassVar[dict[str, Any]] = {}

    def _read(self) -> Any:
        if self.path not in self._known:
            self._known[self.path] = super()._read()
        return self._known[self.path]


LEDGER = f"{CONTROL_FOLDER}/ledger.jsonl"
INTERNAL_TOKEN = "internal-token-0123456789"


class ControlSide:
    """The machine of the control plane: one process after the other on one disk.

    :ivar life: which process this is; counts up with every start.
    :ivar runs: whether there is one, perhaps one that is about to be found dead.
    :ivar prompt: whether its writer's jobs are done at once, and not one now and then.
    """

    def __init__(self, world: World, config_path: str) -> None:
        self._world = world
        self._config_path = config_path
        self.life = 0
        self.runs = False
        self.prompt = True
        self.clock = Clock()
        self.stopping: Deferred[None] | None = None
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
            *InternalApi(snapshots, self.ledger, reports, metrics, world.wall).endpoints(),
        )
        credentials = Credentials(
            INTERNAL_TOKEN, "admin-token-0123456789", clock.seconds, metrics.auth_failed
        )
        self.factory = ControlFactory(Guard(routes, credentials, clock, world.wall))
        self.ending = NoteEnding()
        self.door = Door()
        parts = ControlParts(
            endpoint=cast(Any, self.door),
            factory=self.factory,
            health=health,
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
    def alive(self) -> bool:
        """Whether there is a process, and its end has not come in the middle of things."""
        return self.runs and CONTROL_FOLDER not in self._world.disk.ended

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        return self.alive and self.health.unready is None

    def step(self, seconds: float) -> None:
        """Let time pass here."""
        if self.alive:
            self.clock.advance(seconds)
        if self.prompt:
            self.write()
        elif self._world.rng.random() < 0.5:
            self.write(1)

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

    def write(self, count: int | None = None) -> None:
        """Do disk jobs that wait; by default all, and those they lead to."""
        while self.alive and self.writer.pending:
            self.writer.run(1)
            if count is not None:
                count -= 1
                if not count:
                    break

    def stop(self) -> None:
        """Ask it to stop in order."""
        if self.alive and self.stopping is None:
            self._world.note("the control plane is told to stop")
            self.stopping = cast(Any, self.service.stopService())

    def killed(self) -> None:
        """The process is no more; the disk is the caller's business."""
        self.runs = False
        if self.stopping is not None:
            # It is never going to have stopped, which nobody need be told.
            self.stopping.addErrback(lambda _: None)
