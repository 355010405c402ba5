"""What both machines of a run have in common: one process after the other on one disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from omnigate.control.service import ControlService
from omnigate.gateway.service import DataService
from omnigate.testing.writer import SynchronousWriter

if TYPE_CHECKING:
    from tests.simulation.world import World


class Side:
    """A machine with a plane on it.

    :ivar life: which process this is; counts up with every start.
    :ivar runs: whether there is one, perhaps one that is about to be found dead.
    :ivar prompt: whether its writer's jobs are done at once, and not one now and then.
    """

    #: What the history calls the plane, and the folder of its machine.
    NAME: str
    FOLDER: str

    writer: SynchronousWriter
    service: ControlService | DataService

    def __init__(self, world: World) -> None:
        self._world = world
        self.life = 0
        self.runs = False
        self.prompt = True
        self.clock = Clock()
        self.stopping: Deferred[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether there is a process, and its end has not come in the middle of things."""
        return self.runs and self.FOLDER not in self._world.disk.ended

    def step(self, seconds: float) -> None:
        """Let time pass here."""
        if self.alive:
            self.clock.advance(seconds)
        if self.prompt:
            self.write()
        elif self._world.rng.random() < 0.5:
            self.write(1)

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
            self._world.note(f"the {self.NAME} is told to stop")
            self.stopping = cast(Any, self.service.stopService())

    def killed(self) -> None:
        """The process is no more; the disk is the caller's business."""
        self.runs = False
        if self.stopping is not None:
            # It is never going to have stopped, which nobody need be told.
            self.stopping.addErrback(lambda _: None)
