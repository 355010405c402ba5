"""Leads an adapter's conversation: sends what it yields, and hands it what came back."""

from __future__ import annotations

from typing import Protocol, TypeVar

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from omnigate.jobs.adapters.base import Steps
from omnigate.jobs.alarms import Alarms
from omnigate.jobs.pace import Pace
from omnigate.outbound.messages import NOT_KEPT, Answer, Request

T = TypeVar("T")

#: A head that is waited for at least, however little of a job's time is left.
LEAST_SECONDS = 1.0


class OutOfTime(Exception):  # noqa: N818
    """A conversation was not over in time, and was broken off."""


class NotKeptError(Exception):
    """The provider has answered with what it made, and the disk did not take that.

    The message says what is wrong with the disk.
    """


class Line(Protocol):
    """What requests go out by."""

    async def send(self, job_id: str, request: Request) -> Answer:
        """Send one request of a job and read its answer through the cap that it names.

        Faults of the peer are answers. Whoever cancels it breaks the connection off.
        """


@attrs.frozen(eq=False)
class Conversing:
    """Leads conversations.

    :ivar line: sends requests.
    :ivar pace: lets a few of them get on in each turn of the reactor.
    :ivar alarms: for waits between them.
    """

    line: Line
    pace: Pace
    clock: IReactorTime
    alarms: Alarms = attrs.field(
        default=attrs.Factory(lambda self: Alarms(self.clock), takes_self=True)
    )

    def stop(self) -> None:
        """Let nobody get on, or wake, any more."""
        self.pace.stop()
        self.alarms.stop()

    async def lead(self, job_id: str, steps: Steps[T], seconds: float) -> T:
        """Lead a conversation to its end.

        :param seconds: how long it may take.
        :return: what the adapter makes of it.
        :raises OutOfTime: it took longer; what was sent was sent.
        :raises NotKeptError: an answer holds media that could not be kept; no adapter is told, for
            it is not its provider's fault.
        """
        seconds = max(seconds, LEAST_SECONDS)
        talk = Deferred.fromCoroutine(self._lead(job_id, steps, seconds))
        late = False

        def give_up() -> None:
            nonlocal late
            late = True
            talk.cancel()

        timer = self.clock.callLater(seconds, give_up)
        try:
            return await talk
        except CancelledError:
            if late:
                raise OutOfTime from None
            raise
        finally:
            if timer.active():
                timer.cancel()

    async def _lead(self, job_id: str, steps: Steps[T], seconds: float) -> T:
        answer: Answer | None = None
        try:
            while True:
                await self.pace.turn()
                try:
                    request = next(steps) if answer is None else steps.send(answer)
                except StopIteration as end:
                    result: T = end.value
                    return result
                if request.pause_seconds > 0:
                    await deferLater(self.clock, request.pause_seconds)
                if request.head_seconds > seconds:
                    request = attrs.evolve(request, head_seconds=seconds)
                answer = await self.line.send(job_id, request)
                if answer.fault == NOT_KEPT:
                    raise NotKeptError(answer.detail)
        finally:
            steps.close()
