"""The control plane of a run: the real one, but for sockets and the thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure

from omnigate.control.auth import Credentials
from omnigate.control.config_file import Cause, ConfigFile
from omnigate.control.config_reading import Reading
from omnigate.control.dashboard.entrance import make_entrance
from omnigate.control.generation import LEDGER_WRITER, guard_stores, record_config
from omnigate.control.lasting import Lasting
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.request import Gate
from omnigate.control.service import ControlParts, ControlService
from omnigate.control.web import ControlFactory
from omnigate.reactor_lag import ReactorLag
from omnigate.testing.writer import SynchronousWriter
from tests.simulation.ending import Door, NoteEnding
from tests.simulation.side import Side
from tests.simulation.world import CONTROL_FOLDER

if TYPE_CHECKING:
    from tests.simulation.world import World


class Unmetered:
    """Metrics that nobody looks at: to make true ones would take a fifth of a run."""

    def __getattr__(self, name: str) -> Unmetered:
        """What takes whatever is told, and so do its parts."""
        return self

    def __call__(self, *arguments: object) -> None:
        """Take it, and do nothing."""


class ReadOnce(ConfigFile):
    """A config file that is read and checked by the first process alone."""

    _known: ClassVar[dict[str, Reading]] = {}

    @classmethod
    def read_now(cls, path: str, clock: IReactorTime) -> None:
        """Read a file while the program still has the disk that it lies on."""
        cls(path, clock, lambda name: None).load()

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
        self.config_file = ReadOnce(self._config_path, clock, lambda name: None, world.wall)
        self.config_file.load()
        metrics = cast(ControlMetrics, Unmetered())
        credentials = Credentials(
            INTERNAL_TOKEN, "admin-token-0123456789", clock.seconds, metrics.auth_failed
        )
        lasting = Lasting(
            ledger_path=LEDGER,
            keys_path=f"{CONTROL_FOLDER}/keys.json",
            admin_keys_path=f"{CONTROL_FOLDER}/admin_keys.json",
            audit_path=f"{CONTROL_FOLDER}/audit.jsonl",
            audit_max_bytes=1024 * 1024,
            history_path=f"{CONTROL_FOLDER}/config_history.json",
            jobs_path=f"{CONTROL_FOLDER}/jobs.jsonl",
            receipts_path=f"{CONTROL_FOLDER}/receipts.json",
            media_dir=f"{CONTROL_FOLDER}/media",
            credential=self.config_file.credential,
            config_file=self.config_file,
            credentials=credentials,
            metrics=metrics,
            reports=Reports(world.wall_ms()),
            clock=clock,
            wall=world.wall,
            steady=clock.seconds,
            make_writer=self._writer,
            metrics_writer=SynchronousWriter(),
            entrance=make_entrance("admin-token-0123456789", credentials, world.wall_ms),
            pause=lambda: deferLater(clock, 0),
        )
        self.guard = guard_stores(lasting)
        generation = self.guard.latest
        assert generation is not None
        generation.keys.load()
        self.book, self.ledger = generation.book, generation.ledger
        self.watch, self.snapshots = generation.watch, generation.snapshots
        self.factory = ControlFactory(Gate(self.guard, credentials, clock, world.wall))
        self.ending = NoteEnding()
        self.door = Door()
        parts = ControlParts(
            endpoint=cast(Any, self.door),
            factory=self.factory,
            guard=self.guard,
            config_file=self.config_file,
            record=record_config(lasting, self.guard),
            metrics=metrics,
            lag=ReactorLag(clock),
            writers=(),
            release_state=lambda: None,
        )
        self.service = ControlService(parts, clock, {}, self.ending, str)
        self.service.privilegedStartService()
        self.service.startService()
        self._past.append(self.service)
        world.note("the control plane starts")

    def _writer(self, name: str, lost: Callable[[Failure], None]) -> SynchronousWriter:
        """The ledger's writer does its jobs when it is told to, the others theirs at once."""
        return self.writer if name == LEDGER_WRITER else SynchronousWriter()

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
        return self.alive and self.guard.words is None

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
