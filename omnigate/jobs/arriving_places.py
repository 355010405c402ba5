"""How many outputs may be brought in at once: of one job, of one provider, and of all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
from twisted.internet.defer import DeferredSemaphore

ARRIVING_PER_JOB: Final = 2

#: A provider whose files come slowly, for half an hour each if it wants, keeps nobody else waiting.
ARRIVING_PER_PROVIDER: Final = 16

#: Each may have half a megabyte in memory, and one disk has to take them all.
MAX_ARRIVING: Final = 96


@attrs.define(eq=False)
class _Provider:
    places: DeferredSemaphore = attrs.Factory(lambda: DeferredSemaphore(ARRIVING_PER_PROVIDER))
    users: int = 0


class ArrivingPlaces:
    """Places for outputs of all jobs."""

    def __init__(self) -> None:
        self._all = DeferredSemaphore(MAX_ARRIVING)
        self._providers: dict[str, _Provider] = {}

    def __len__(self) -> int:
        """How many providers anything is known of."""
        return len(self._providers)

    @asynccontextmanager
    async def place(self, of_job: DeferredSemaphore, provider: str) -> AsyncIterator[None]:
        """Wait for a place, and have it.

        :param of_job: made by :func:`places_of_job`.
        :param provider: the origin of its address.
        """
        entry = self._providers.setdefault(provider, _Provider())
        entry.users += 1
        try:
            async with _held(of_job), _held(entry.places), _held(self._all):
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._providers[provider]


def places_of_job() -> DeferredSemaphore:
    """Return the places of one job."""
    return DeferredSemaphore(ARRIVING_PER_JOB)


@asynccontextmanager
async def _held(places: DeferredSemaphore) -> AsyncIterator[None]:
    await places.acquire()
    try:
        yield
    finally:
        places.release()
