"""Looks back into the ledger's files in a thread of its own, a few looks at a time.

Neither the reactor nor the ledger's writer waits for a look: what is recorded is read beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from omnigate.errors import GatewayError
from omnigate.ledger.event_filter import EventFilter
from omnigate.ledger.family import Family, Position
from omnigate.ledger.looking_back import LOOK_BYTES, LookedBack, look_back
from omnigate.ledger.pieces_back import BLOCK_BYTES
from omnigate.ledger.recording import LedgerNotReady
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

#: Looks that wait or are under way. Each takes a fifth of a second at most, so the last one is
#: begun after a second.
MAX_LOOKS: Final = 6


class Loaded(Protocol):
    """The ledger, as far as it says whether it is open."""

    @property
    def ready(self) -> bool:
        """Whether it can be read."""


class EventSearch:
    """Finds events in the ledger's files.

    :param path: the active segment.
    :param reader: the thread that reads.
    :param ids_days: says for how many days ids are remembered.
    :ivar max_bytes: what one look reads at most.
    :ivar block_bytes: what it reads at a time.
    """

    def __init__(
        self, path: str, ledger: Loaded, reader: IWriter, ids_days: Callable[[], int]
    ) -> None:
        self._family = Family(path)
        self._ledger = ledger
        self._reader = reader
        self._ids_days = ids_days
        self._looks = 0
        self.max_bytes = LOOK_BYTES
        self.block_bytes = BLOCK_BYTES

    def look_back(
        self,
        wanted: EventFilter,
        limit: int,
        before: Position | None = None,
        after: Position | None = None,
    ) -> Deferred[LookedBack]:
        """Find the newest events that are wanted; see :func:`~.looking_back.look_back`.

        :return: fails with ``GatewayError``: ``overloaded`` where too many look already,
            ``storage_unavailable`` where the disk refused.
        :raises LedgerNotReady: it is not loaded.
        :raises GatewayError: ``overloaded``.
        """
        if not self._ledger.ready:
            raise LedgerNotReady
        if self._looks >= MAX_LOOKS:
            raise GatewayError(
                "overloaded", "others are searching the ledger; try again", retry_after=1
            )
        self._looks += 1
        job = partial(
            look_back,
            self._family,
            wanted,
            limit,
            self._ids_days(),
            before,
            after,
            max_bytes=self.max_bytes,
            block_bytes=self.block_bytes,
        )
        return Deferred.fromCoroutine(self._look(job))

    async def _look(self, job: Callable[[], LookedBack]) -> LookedBack:
        try:
            return await self._reader.submit(job)
        except (WriterBusyError, WriterStoppedError):
            raise LedgerNotReady from None
        except OSError as error:
            raise GatewayError(
                "storage_unavailable",
                "a file of the ledger cannot be read; the log of the control plane says more",
                detail=str(error),
            ) from None
        finally:
            self._looks -= 1
