"""How many jobs run at one provider at once, and whose turn it is there.

A provider is an address: the origin of a target's ``base_url``. The jobs of all routes that go
there share its places, fairly across keys (:mod:`~omnigate.jobs.fair_queue`).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import attrs

from omnigate.jobs.fair_queue import FairQueue


@attrs.frozen
class _Place:
    address: str
    key: str


def address_of(base_url: str) -> str:
    """Return the provider's address, such as ``https://api.example.com:8443``."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


class ProviderSlots:
    """The places at all providers.

    :param most: how many jobs may run at one provider; asked anew each time.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._queues: dict[str, FairQueue[str]] = {}
        self._places: dict[str, _Place] = {}
        self._starts: dict[str, Callable[[], None]] = {}
        self._giving: set[str] = set()
        self._is_over = False

    @property
    def waiting(self) -> int:
        """How many jobs wait for a place."""
        return len(self._starts)

    def running(self, address: str) -> int:
        """How many jobs run at a provider."""
        queue = self._queues.get(address)
        return 0 if queue is None else queue.running

    def waits_at(self, job_id: str) -> str:
        """Return the address at which a job waits for a place; empty where it waits nowhere."""
        return self._places[job_id].address if job_id in self._starts else ""

    def put(self, address: str, key: str, job_id: str, start: Callable[[], None]) -> bool:
        """Let a job wait for a place; it must have none.

        :param start: called once it has one, maybe before this returns.
        :return: False where too many wait already; it may be put later.
        """
        most = self._most()
        queue = self._queues.get(address)
        if queue is None:
            queue = self._queues[address] = FairQueue(most, most)
        queue.resize(most, most)
        if self._is_over or job_id in self._places or not queue.put(key, job_id):
            return False
        self._places[job_id] = _Place(address, key)
        self._starts[job_id] = start
        self._next(address, queue)
        return True

    def at(self, job_id: str) -> str:
        """Return the address at which a job has a place; empty where it has none."""
        place = self._places.get(job_id)
        return "" if place is None or job_id in self._starts else place.address

    def leave(self, job_id: str) -> None:
        """Give up a place, or wait for none any more; nothing where it did neither."""
        place = self._places.pop(job_id, None)
        if place is None:
            return
        queue = self._queues[place.address]
        if self._starts.pop(job_id, None) is not None:
            queue.remove(job_id)
        else:
            queue.done(place.key)
        self._next(place.address, queue)

    def stop(self) -> None:
        """Give no places any more; whoever waits is forgotten."""
        self._is_over = True
        for job_id in self._starts:
            del self._places[job_id]
        self._starts.clear()

    def _next(self, address: str, queue: FairQueue[str]) -> None:
        # One who gets a place may give it up at once: that is seen to by whoever gave it.
        if self._is_over or address in self._giving:
            return
        self._giving.add(address)
        try:
            while (job_id := queue.next()) is not None:
                self._starts.pop(job_id)()
        finally:
            self._giving.discard(address)
        if not queue.waiting and not queue.running:
            self._queues.pop(address, None)
