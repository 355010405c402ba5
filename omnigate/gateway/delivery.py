"""Delivers usage events to the control plane.

Events are delivered at least once: they stay in the spool until the control plane has said that
it wrote them. What else there is to tell goes after them (:mod:`omnigate.gateway.count_reports`).

What a batch can meet, and what follows: acknowledged by a 200 that accounts for each of its
events, it is taken off the spool; anything that speaks of the control plane and not of the batch
(no answer, 5xx, a wrong token, a wrong address), it stays and the pause grows; 413, it is halved;
400 or 422, it is halved until one event is left.
An event that is refused alone while another one is accepted is put aside into a file of its own,
so that it neither blocks the others nor is lost. While every event is refused, nothing is put
aside: then it is not the events.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.backoff import Backoff
from omnigate.events import MAX_BATCH_EVENTS
from omnigate.gateway.outage import Outage
from omnigate.gateway.spool import Spool
from omnigate.text import one_line, reason_of

USAGE_PATH = "/internal/usage/batch"

#: Bytes in one batch: 500 ordinary events are 300 KiB; events with many attempts go in smaller
#: batches, so that the control plane's bound for a body is never met by ours.
MAX_BATCH_BYTES = 1024 * 1024

#: The pause after the first failure, and the longest.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0

#: How long a stop may wait for the last delivery. Whatever is left is in the file and is delivered
#: by the next start, so this is courtesy and not safety.
STOP_SECONDS = 5.0

#: How many other events are tried to tell a refused event from a control plane that refuses all.
PROBES = 16

_log = Logger()

#: What became of one batch: acknowledged and perhaps more waits; acknowledged and that was all;
#: not acknowledged, but worth another try at once; not acknowledged, by a control plane that
#: cannot record anything now; not acknowledged.
_Outcome = Literal["more", "done", "again", "full", "failed"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_BATCH_EVENTS)]


class _Told(msgspec.Struct):
    """What the control plane says became of a batch; each event is one of the three.

    An older control plane tells no version.
    """

    recorded: _Count
    duplicates: _Count
    invalid: _Count
    config_version: str | None = None

    def accounts_for(self, count: int) -> bool:
        """Whether it says what became of every event of a batch of so many."""
        return self.recorded + self.duplicates + self.invalid == count


_decode_told = msgspec.json.Decoder(_Told).decode

Post = Callable[[str, bytes], Deferred[tuple[int, bytes]]]


class Delivery:
    """The one task that empties the spool.

    :ivar delivered: events acknowledged since the start.
    :ivar put_aside: events refused for good since the start.
    :ivar failures: posts of usage that failed since the start.
    """

    def __init__(
        self,
        spool: Spool,
        post: Post,
        clock: IReactorTime,
        flush_seconds: float,
        report: Callable[[bool], Awaitable[None]] | None = None,
        config_told: Callable[[str], None] | None = None,
    ) -> None:
        """Take the parts; nothing is sent before :meth:`start`.

        :param post: sends a body to a path of the control plane, within a time limit of its own.
        :param flush_seconds: the pause between two deliveries.
        :param report: tells what else there is to tell; it is given whether this is the last time.
        :param config_told: given the version of the config that the control plane has, with each
            acknowledgement.
        """
        self._spool = spool
        self._post = post
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._report = report
        self._config_told = config_told
        self._limit = MAX_BATCH_EVENTS
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._outage = Outage(_log, "usage events wait in the spool", clock)
        self._stopping = False
        self._given_up = False
        self._last: Deferred[None] | None = None
        self._running: Deferred[None] | None = None
        self._sleep: tuple[Deferred[None], IDelayedCall] | None = None
        self.delivered = 0
        self.put_aside = 0
        self.failures = 0

    def start(self) -> None:
        """Begin to deliver; the first delivery is made at once, for what an earlier run left."""
        self._stopping = False
        self._running = Deferred.fromCoroutine(self._run())

    def stop(self) -> Deferred[None]:
        """Deliver once more and stop.

        :return: fires when all is delivered, or it failed, or :data:`STOP_SECONDS` are over. It
            never fails.
        """
        self._stopping = True
        last = self._last = Deferred.fromCoroutine(self._finish())
        last.addTimeout(STOP_SECONDS, self._clock, onTimeoutCancel=lambda _result, _seconds: None)
        last.addErrback(self._last_failed)
        last.addCallback(lambda _: self._tell_rest())
        return last

    def give_up(self) -> None:
        """Break the last delivery off, or make none; what waits stays in the spool."""
        self._given_up = True
        if self._last is not None:
            self._last.cancel()

    def _last_failed(self, failure: Failure) -> None:
        if not (self._given_up and failure.check(CancelledError)):
            _log.failure("the last delivery broke", failure)

    def _tell_rest(self) -> None:
        if self._spool.count:
            _log.warn(
                "stopped with {count} usage events not delivered; the next start delivers them",
                count=self._spool.count,
            )

    async def _finish(self) -> None:
        """Let the task end, and deliver what it left."""
        if self._running is not None:
            running, self._running = self._running, None
            self._wake()
            if self._given_up:
                running.cancel()
            await running
        if not self._given_up:
            await self._turn()

    async def _run(self) -> None:
        """Deliver, pause, and so on until told to stop."""
        pause = 0.0
        while await self._pause(pause):
            pause = self._flush_seconds
            if await self._turn():
                self._backoff.reset()
            else:
                pause = max(pause, self._backoff.next())

    async def _pause(self, seconds: float) -> bool:
        """Wait, or not while stopping.

        :return: whether to go on.
        """
        if self._stopping:
            return False
        sleep: Deferred[None] = Deferred()
        self._sleep = (sleep, self._clock.callLater(seconds, sleep.callback, None))
        try:
            await sleep
        finally:
            self._sleep = None
        return not self._stopping

    def _wake(self) -> None:
        if self._sleep is not None:
            sleep, call = self._sleep
            call.cancel()
            sleep.callback(None)

    async def _turn(self) -> bool:
        """Deliver what waits, then tell the rest.

        :return: whether the control plane took everything.
        """
        try:
            self._spool.look_after_file()
            outcome = await self._deliver()
            if outcome != "failed" and self._report is not None:
                await self._report(self._stopping)
            return outcome == "done"
        except CancelledError:
            raise
        except Exception:
            # The task must outlive a fault of its own, or the spool fills up unseen.
            _log.failure("the delivery of usage broke; it goes on after a pause")
            return False

    async def _deliver(self) -> _Outcome:
        """Send batches until fewer events wait than fill one; at a stop, until none does.

        :return: ``done``, or how the batch ended that was not taken.
        """
        while self._spool.count:
            outcome = await self._deliver_batch()
            if outcome in ("failed", "full"):
                self.failures += 1
                return outcome
            # Leaving the rest for the next flush makes the batches larger and the posts fewer.
            if outcome == "done" and not self._stopping:
                break
        return "done"

    async def _deliver_batch(self) -> _Outcome:
        oldest = self._spool.peek(self._limit)
        lines = _within(oldest, MAX_BATCH_BYTES)
        status, fault = await self._send(lines)
        if not fault:
            self._spool.acknowledge(len(lines))
            self.delivered += len(lines)
            full = len(oldest) >= self._limit or len(lines) < len(oldest)
            self._limit = min(MAX_BATCH_EVENTS, self._limit * 2)
            self._outage.ended()
            return "more" if full else "done"
        if status in (400, 413, 422):
            if len(lines) > 1:
                self._limit = len(lines) // 2
                return "again"
            return await self._judge_event(lines[0], fault)
        self._outage.failed(fault)
        # Who cannot record can still be told how much waits, and that is when it matters.
        return "full" if status == 503 else "failed"

    async def _judge_event(self, line: bytes, fault: str) -> _Outcome:
        """Decide about an event that was refused alone."""
        for other in self._spool.peek(1 + PROBES)[1:]:
            # It stays in the spool and is sent again in its turn; an id counts once.
            status, other_fault = await self._send([other])
            if not other_fault:
                return await self._put_aside(line, fault)
            if status not in (400, 413, 422):
                break
        self._outage.failed(f"{fault}; it accepts none of the oldest events")
        return "failed"

    async def _put_aside(self, line: bytes, fault: str) -> _Outcome:
        try:
            path = await self._spool.put_aside()
        except OSError as error:
            self._outage.failed(f"{fault}, and that event cannot be put aside: {error}")
            return "failed"
        self.put_aside += 1
        _log.error(
            "usage event {event} was refused and is now in {path}: {fault}",
            event=one_line(line, 200),
            path=path,
            fault=fault,
        )
        return "again"

    async def _send(self, lines: list[bytes]) -> tuple[int, str]:
        """Post one batch.

        :return: the status (0 without one) and what was wrong, empty for an acknowledgement.
        """
        try:
            status, answer = await self._post(USAGE_PATH, b'{"events":[' + b",".join(lines) + b"]}")
        except CancelledError:
            raise
        except Exception as error:
            return 0, reason_of(error)
        if 200 <= status < 300:
            told = _read_told(answer)
            if status == 200 and told is not None and told.accounts_for(len(lines)):
                if self._config_told is not None and told.config_version is not None:
                    self._config_told(told.config_version)
                return status, ""
            # Some other server at that address: its 200 must not eat the money.
            return 0, "what answers at OMNIGATE_CONTROL_URL is not a control plane"
        fault = f"the control plane answered {status}"
        if status in (401, 403, 429):
            # 429 comes from a control plane that has seen too many wrong tokens.
            fault += (
                "; OMNIGATE_INTERNAL_TOKEN must be the same on both planes, and "
                "OMNIGATE_CONTROL_URL the address of the control plane"
            )
        elif status in (404, 405):
            fault += "; OMNIGATE_CONTROL_URL must be the address of the control plane"
        return status, fault


def _within(lines: list[bytes], max_bytes: int) -> list[bytes]:
    """Return as many of the first lines as fit, and at least one."""
    total = 0
    for index, line in enumerate(lines):
        total += len(line) + 1
        if total > max_bytes and index:
            return lines[:index]
    return lines


def _read_told(answer: bytes) -> _Told | None:
    """Return what an answer says became of a batch, if it is one of a control plane."""
    try:
        return _decode_told(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
