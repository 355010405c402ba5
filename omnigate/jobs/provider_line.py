"""How an adapter's requests go out: each answer through the cap that the request names.

Where an answer holds media, they go into files of the job as they arrive; the adapter is told of
them and never holds them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import attrs

from omnigate.config.media import MediaConfig
from omnigate.jobs.incoming import Incoming
from omnigate.jobs.inline_media import InlineSink
from omnigate.jobs.turn_budget import BudgetSink, TurnBudget
from omnigate.outbound.messages import NO_TURN, Answer, Cap, Request, Sink

#: What an interface says of a job; the longest that is known has some kilobytes.
MAX_API_BYTES: Final = 4 * 1024 * 1024

#: JSON around media in base64, and how long such an answer may be whatever the config allows.
JSON_ROOM_BYTES: Final = 64 * 1024
MAX_INLINE_BYTES: Final = 256 * 1024 * 1024

#: How long to wait where even the queue for connections is full.
FULL_SECONDS: Final = 1.0


class Calls(Protocol):
    """:class:`omnigate.outbound.client.Outbound`, as far as adapters need it."""

    def call(self, request: Request, max_bytes: int, sink: Sink | None = None) -> Awaitable[Answer]:
        """Send a request to the operator's own address."""


class ProviderLine:
    """A :class:`~omnigate.jobs.conversing.Line` over sockets.

    :param media: the config in force.
    :param pause: waits so many seconds.
    :param budget: what all answers with media may take of a turn of the reactor.
    """

    def __init__(
        self,
        outbound: Calls,
        incoming: Incoming,
        media: Callable[[], MediaConfig],
        pause: Callable[[float], Awaitable[None]],
        budget: TurnBudget,
    ) -> None:
        self._outbound = outbound
        self._incoming = incoming
        self._media = media
        self._pause = pause
        self._budget = budget

    async def send(self, job_id: str, request: Request) -> Answer:
        """Send a request of a job, as soon as a connection is free; see :attr:`NO_TURN`."""
        while True:
            answer = await self._sent(job_id, request)
            # Nothing was sent, and whoever waits has a time-out: a job does not fail for others.
            if answer.fault != NO_TURN:
                return answer
            await self._pause(FULL_SECONDS)

    async def _sent(self, job_id: str, request: Request) -> Answer:
        if request.cap is Cap.INLINE:
            return await self._inline(job_id, request)
        if request.cap is Cap.OUTPUT:
            return await self._output(job_id, request)
        return await self._outbound.call(request, MAX_API_BYTES)

    async def _inline(self, job_id: str, request: Request) -> Answer:
        media = self._media()
        sink = InlineSink(
            lambda n: self._incoming.sink(job_id, n, media.max_output_bytes),
            max_file_bytes=media.max_output_bytes,
            max_total_bytes=media.max_job_output_bytes,
        )
        in_turns = BudgetSink(sink, self._budget)
        answer = await self._outbound.call(request, inline_bytes(media), in_turns)
        if not answer.ok:
            return answer
        return attrs.evolve(answer, body=sink.body, media=sink.media)

    async def _output(self, job_id: str, request: Request) -> Answer:
        most = self._media().max_output_bytes
        sink = self._incoming.sink(job_id, 0, most)
        answer = await self._outbound.call(request, most, sink)
        return attrs.evolve(answer, kept=sink.kept) if answer.ok else answer


def inline_bytes(media: MediaConfig) -> int:
    """Return how long an answer with media in it may be."""
    return min(media.max_output_bytes * 4 // 3 + JSON_ROOM_BYTES, MAX_INLINE_BYTES)
