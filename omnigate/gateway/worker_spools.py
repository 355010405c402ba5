"""The spools of several workers: their names, and what becomes of those that a run left over.

Worker 0 has the plain name, as a plane of one process has; worker *k* has ``-k`` before the suffix.
A run with fewer workers than the one before finds spools that no worker of its own opens. Worker 0
delivers what is in them, one after the other, straight to the control plane, and removes each once
it is empty: nothing is copied, so there is no step at which an event stands nowhere or is billed
twice. A spool that another process still has (a worker of the run before that takes its time to
end) is looked at again later.
"""

from __future__ import annotations

import os
import re
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from omnigate.files import file_size, list_names
from omnigate.gateway.delivery import Delivery, Post
from omnigate.gateway.outage import Outage
from omnigate.gateway.spool import Spool, SpoolInUseError
from omnigate.text import reason_of
from omnigate.writer_thread import IWriter

#: How often spools that could not be had are looked at again, in seconds. A worker that drains
#: takes minutes.
LOOK_SECONDS: Final = 10.0

#: The numbers that workers may have; other names are somebody else's files.
_NUMBER: Final = re.compile(r"[1-9][0-9]?", re.ASCII)


def worker_path(path: str, index: int) -> str:
    """Return the name of a worker's own file, out of the name that is set for the plane."""
    if not index:
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{index}{suffix}"


def left_paths(path: str, count: int) -> list[str]:
    """Return the spools that workers beyond the first ``count`` left, in order.

    :param path: the plane's spool.
    :raises OSError: the folder cannot be read.
    """
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    found = []
    for entry in list_names(folder):
        number = entry.removeprefix(f"{stem}-").removesuffix(suffix)
        if _NUMBER.fullmatch(number) and entry == f"{stem}-{number}{suffix}":
            index, whole = int(number), os.path.join(folder, entry)
            if index >= count and file_size(whole) is not None:
                found.append((index, whole))
    return [whole for _, whole in sorted(found)]


class LeftSpools:
    """The task that empties what a run with more workers left."""

    log = Logger()

    def __init__(
        self,
        path: str,
        count: int,
        writer: IWriter,
        post: Post,
        clock: IReactorTime,
        flush_seconds: float,
    ) -> None:
        """Take the parts; nothing is looked at before :meth:`start`.

        :param path: the plane's spool, under its plain name.
        :param count: how many workers there are; their own spools are left alone.
        :param writer: the thread that reads what was left.
        :param post: see :class:`~omnigate.gateway.delivery.Delivery`, as is ``flush_seconds``.
        """
        self._path = path
        self._count = count
        self._writer = writer
        self._post = post
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._told: set[str] = set()
        self._outage = Outage(
            self.log, "spools that a run with more workers may have left are not emptied", clock
        )
        self._spool: Spool | None = None
        self._delivery: Delivery | None = None
        self._running: Deferred[None] | None = None
        self._stopping = False
        self._sleep: tuple[Deferred[None], IDelayedCall] | None = None
        self._delivered = 0
        self._put_aside = 0
        self._failures = 0

    @property
    def count(self) -> int:
        """Events that wait in the one that is being emptied."""
        return self._spool.count if self._spool is not None else 0

    @property
    def bytes(self) -> int:
        """What they take."""
        return self._spool.bytes if self._spool is not None else 0

    @property
    def delivered(self) -> int:
        """Events acknowledged since the start."""
        return self._delivered + (self._delivery.delivered if self._delivery else 0)

    @property
    def put_aside(self) -> int:
        """Events refused for good since the start."""
        return self._put_aside + (self._delivery.put_aside if self._delivery else 0)

    @property
    def failures(self) -> int:
        """Posts that failed since the start."""
        return self._failures + (self._delivery.failures if self._delivery else 0)

    def start(self) -> None:
        """Look for what was left, and begin to deliver it."""
        self._running = Deferred.fromCoroutine(self._run())
        self._running.addErrback(
            lambda failure: self.log.failure("spools that were left cannot be emptied", failure)
        )

    def stop(self) -> Deferred[None]:
        """Stop; what is not delivered stays where it is, for the next start.

        :return: fires when it is done; it never fails.
        """
        self._stopping = True
        stopped: Deferred[None] = Deferred()
        if self._sleep is not None:
            sleep, call = self._sleep
            call.cancel()
            sleep.callback(None)
        if self._running is None:
            stopped.callback(None)
        else:
            self._running.addBoth(lambda _: stopped.callback(None))
        return stopped

    async def _run(self) -> None:
        """Empty one after the other, until none is left."""
        while not self._stopping:
            try:
                left = await self._writer.submit(lambda: left_paths(self._path, self._count))
                emptied = [await self._empty(path) for path in left if not self._stopping]
            except Exception as error:
                # What was left is there still, whatever has kept us from it for now.
                self._outage.failed(reason_of(error))
            else:
                self._outage.ended()
                if all(emptied):
                    return
            await self._pause(LOOK_SECONDS)

    async def _empty(self, path: str) -> bool:
        """Deliver what is in a spool and remove it.

        :return: whether that is done.
        """
        spool = Spool(path, self._writer)
        try:
            # In the thread, since up to 128 MiB are read and nothing else knows of it yet.
            await self._writer.submit(spool.open)
        except SpoolInUseError:
            self._tell(path, "another process has it")
            return False
        except OSError as error:
            self._tell(path, str(error.strerror or error))
            return False
        try:
            await self._deliver(spool)
            if spool.count or spool.rewriting:
                return False
            spool.remove()
        except OSError as error:
            self._tell(path, f"it cannot be removed: {error.strerror or error}")
            return False
        finally:
            spool.close()
        return True

    async def _deliver(self, spool: Spool) -> None:
        if not spool.count:
            return
        self.log.info(
            "{path} was left by a run with more workers; its {count} usage events are delivered",
            path=spool.path,
            count=spool.count,
        )
        delivery = Delivery(spool, self._post, self._clock, self._flush_seconds)
        self._spool, self._delivery = spool, delivery
        delivery.start()
        while (spool.count or spool.rewriting) and not self._stopping:
            await self._pause(self._flush_seconds)
        # What is left is in the file; the last delivery of the plane is about its own spool.
        delivery.give_up()
        await delivery.stop()
        self._delivered += delivery.delivered
        self._put_aside += delivery.put_aside
        self._failures += delivery.failures
        self._spool = self._delivery = None

    def _tell(self, path: str, reason: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self.log.warn(
                "{path} was left by a run with more workers, and its usage events wait: {reason}; "
                "it is tried again every {seconds:g} s",
                path=path,
                reason=reason,
                seconds=LOOK_SECONDS,
            )

    async def _pause(self, seconds: float) -> None:
        if not self._stopping:
            sleep: Deferred[None] = Deferred()
            self._sleep = (sleep, self._clock.callLater(seconds, sleep.callback, None))
            try:
                await sleep
            finally:
                self._sleep = None
