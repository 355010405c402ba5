# mypy: allow-untyped-calls
# (twisted's services carry no types)
"""The parent of several data plane workers: opens the port, and keeps the processes that serve it.

It accepts nothing itself. To systemd, to a terminal and to whoever reads the log the parent and its
workers are one daemon: one start that succeeds or fails, one stop, one log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

import omnigate
from omnigate import systemd_notify
from omnigate.daemon import HURRY_SECONDS, Ending, endpoint_of, listen_fault
from omnigate.daemon_service import DaemonService, Listener
from omnigate.data_tap import LISTEN, PROGRAM
from omnigate.gateway.shared_uses import SharedUses
from omnigate.protocols.worker_channel import Down, Figures, FiguresWanted, Hangup
from omnigate.settings import DataSettings
from omnigate.workers.place import LOOK_SECONDS, Run, WorkerPlace
from omnigate.workers.run import WorkerCommand, start_worker

if TYPE_CHECKING:
    from omnigate.workers.metrics import ParentMetrics

#: What a worker's stop may take after its grace, in seconds: the last delivery and the closing of
#: files, as for a plane that is alone, and some to spare for the parent to hear of it.
AFTER_GRACE_SECONDS: Final = 20.0

#: What workers get in a hurry before they are killed; each ends itself after HURRY_SECONDS.
HURRIED_SECONDS: Final = HURRY_SECONDS + 1.0

#: After how long the parent itself ends where it stands, in a hurry.
LAST_RESORT_SECONDS: Final = HURRIED_SECONDS + 1.0

#: How often a stop looks whether all workers have ended, in seconds.
_STOP_LOOK_SECONDS: Final = 0.05

#: What a killed process may take to be gone; one that hangs in the kernel is left behind.
_KILLED_SECONDS: Final = 5.0


class NoConnections(Factory):
    """Stands where the parent's port wants a factory; nothing is ever accepted there."""

    noisy = False


class ParentService(DaemonService):
    """Owns the port and the workers.

    :ivar places: one for each worker.
    :ivar stopping: whether the end has begun, so that nothing is started any more.
    :ivar metrics: the port for metrics, said before the start.
    :ivar restarts: workers started in the place of one that ended.
    :ivar on_figures: called with a worker's index and its figures when it tells them.
    :ivar on_ended: called with a worker's index when its process is gone.

    :param start: starts the process of a place on a listening socket.
    :param ending: ends with the line that stopped the start of a worker.
    """

    log = Logger(namespace="omnigate.workers")

    def __init__(
        self,
        settings: DataSettings,
        listener: Listener,
        start: Callable[[WorkerPlace, int], Run],
        clock: IReactorTime,
        environ: Mapping[str, str],
        ending: Ending,
    ) -> None:
        super().__init__(listener, clock, environ, ending)
        self._grace = settings.shutdown_grace_ms / 1000
        self._start = start
        self._ending = ending
        self._listen_fd = -1
        self._told_ready = False
        self._failed = False
        self._hurried = False
        self._watch = LoopingCall(self._look)
        self._watch.clock = clock
        self.stopping = False
        self.metrics: ParentMetrics | None = None
        self.restarts = 0
        self._started: set[int] = set()
        self.on_figures: list[Callable[[int, Figures], object]] = []
        self.on_ended: list[Callable[[int], object]] = []
        held_seconds = self._grace + AFTER_GRACE_SECONDS
        self.places = [
            WorkerPlace(index, self._start_in, clock, self, held_seconds)
            for index in range(settings.workers)
        ]

    # -- start

    def privilegedStartService(self) -> None:
        """Open the port, or end the start with a line that says why not."""
        super().privilegedStartService()
        descriptor = self.listener.lend()
        if descriptor is None:
            self.ending.fail_start(
                f"{LISTEN}: this kind of endpoint is no one socket that processes can share; give "
                "another, or set OMNIGATE_WORKERS to 1"
            )
        else:
            self._listen_fd = descriptor
        if self.metrics is not None:
            self.metrics.open(self.ending)

    def startService(self) -> None:
        """Start the workers."""
        super().startService()
        self.ending.watch()
        self.ending.on_hangup(lambda: self.tell_all(Hangup()))
        self.ending.on_hurry(self.hurry)
        self.log.info(
            "omnigate-data {version} listens on {address} with {count} workers",
            version=omnigate.__version__,
            address=self.listener.address,
            count=len(self.places),
        )
        self.start_watchdog()
        if self.metrics is not None:
            self.metrics.start()
        for place in self.places:
            place.start()
        self._watch.start(LOOK_SECONDS, now=False)

    def _start_in(self, place: WorkerPlace) -> Run:
        run = self._start(place, self._listen_fd)
        self.restarts += place.index in self._started
        self._started.add(place.index)
        return run

    # -- while it runs

    def tell_all(self, message: Down) -> None:
        """Tell every worker something."""
        for place in self.places:
            place.send(message)

    def ask_for_figures(self, number: int) -> list[int]:
        """Ask the workers that serve for their figures, and return which they are."""
        serving = [place for place in self.places if place.ready]
        for place in serving:
            place.send(FiguresWanted(number))
        return [place.index for place in serving]

    def count(self) -> tuple[int, int]:
        """How many workers serve, and how many were started in the place of one that ended."""
        return sum(place.ready for place in self.places), self.restarts

    def pids(self) -> list[int]:
        """The process ids of the workers that run; safe in any thread."""
        runs = [place.run for place in self.places]
        pids = [run.pid for run in runs if run is not None]
        return [pid for pid in pids if pid is not None]

    def _look(self) -> None:
        for place in self.places:
            place.look()

    # -- what places tell

    def changed(self) -> None:
        """Tell the service manager how things are; that all is ready, once."""
        if self.stopping:
            return
        serving = [place for place in self.places if place.ready]
        said = next((f"; {place.status}" for place in serving if place.status), "")
        words = f"STATUS={len(serving)} of {len(self.places)} workers serve{said}"
        if not self._told_ready and all(place.was_ready for place in self.places):
            self._told_ready = True
            words = f"{systemd_notify.READY}\n{words}"
            self.log.info("all {count} workers serve", count=len(self.places))
        self.notify(words)

    def counted(self, place: WorkerPlace, figures: Figures) -> None:
        """Hand a worker's figures on."""
        for call in self.on_figures:
            call(place.index, figures)

    def ended(self, place: WorkerPlace) -> None:
        """Have what a worker held given free."""
        for call in self.on_ended:
            call(place.index)

    def start_failed(self, lines: list[str], status: int) -> None:
        """End the whole start as a plane that is alone would have ended its own."""
        if self._failed:
            return
        self._failed = self.stopping = True
        own = [line.removeprefix(f"{PROGRAM}: ") for line in lines if line.startswith(PROGRAM)]
        told = own or lines or ["a worker could not start and said nothing"]
        self._ending.fail_start(f"\n{PROGRAM}: ".join(told), status)

    # -- stop

    def hurry(self) -> None:
        """Have the workers wait for nothing any more."""
        self._hurried = True
        for place in self.places:
            place.hurry()

    def stopService(self) -> Deferred[None]:
        """Have all workers drain, and end when the last has ended."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        allowed = self._grace + AFTER_GRACE_SECONDS
        self.notify(
            f"{systemd_notify.STOPPING}\nEXTEND_TIMEOUT_USEC={int((allowed + 5) * 1_000_000)}"
        )
        self.stopping = True
        if self._watch.running:
            self._watch.stop()
        for place in self.places:
            place.drain()
        await self.listener.close()
        await self._workers_to_end(allowed)
        if self.metrics is not None:
            await self.metrics.stop()
        self.stop_watchdog()
        self.ending.stopped()
        self.log.info("omnigate-data has stopped")

    async def _workers_to_end(self, allowed: float) -> None:
        """Wait for them; those that take too long are killed."""
        give_up_at = self.clock.seconds() + allowed
        while self._left() and self.clock.seconds() < give_up_at:
            await self._pause()
            if self._hurried:
                give_up_at = min(give_up_at, self.clock.seconds() + HURRIED_SECONDS)
                self._hurried = False
        for place in self._left():
            self.log.error("worker {worker} did not stop in time; it is killed", worker=place.index)
            place.kill()
        give_up_at = self.clock.seconds() + _KILLED_SECONDS
        while self._left() and self.clock.seconds() < give_up_at:
            await self._pause()

    def _left(self) -> list[WorkerPlace]:
        return [place for place in self.places if place.run is not None]

    def _pause(self) -> Deferred[None]:
        paused: Deferred[None] = Deferred()
        self.clock.callLater(_STOP_LOOK_SECONDS, paused.callback, None)
        return paused


def parent_service(
    settings: DataSettings, reactor: Any, command: WorkerCommand, in_front: bool
) -> Service:
    """Put the parent together; what is wrong ends the start with status 1 and its line."""
    ending = Ending(PROGRAM, reactor, in_front, LAST_RESORT_SECONDS)
    listener = Listener(
        endpoint_of(PROGRAM, reactor, settings.listen, LISTEN),
        NoConnections(),
        lambda error: listen_fault(settings.listen, LISTEN, error),
    )

    shared = SharedUses.create(settings.workers)

    def start(place: WorkerPlace, listen_fd: int) -> Run:
        return start_worker(reactor, place, command, settings.workers, listen_fd, shared.fd)

    service = ParentService(settings, listener, start, reactor, os.environ, ending)
    service.on_ended.append(shared.clear)
    if settings.metrics_listen:
        _serve_metrics(reactor, service, settings.metrics_listen)
    return service


def _serve_metrics(reactor: Any, service: ParentService, listen: str) -> None:
    """Add the port for metrics."""
    # Where nobody scrapes, the Prometheus client need not be in memory.
    from omnigate.workers.metrics import ParentMetrics

    metrics = ParentMetrics(reactor, listen, service.ask_for_figures, service.count, service.pids)
    service.on_figures.append(metrics.figures.told)
    service.on_ended.append(metrics.figures.gone)
    service.metrics = metrics
