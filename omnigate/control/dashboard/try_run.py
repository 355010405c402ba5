"""One try: the request, its answer to whoever looks on, and its line of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from omnigate.control.byte_stream import ByteStream
from omnigate.control.dashboard.data_plane import DataPlane, DataRequest
from omnigate.control.dashboard.request_view import RequestView
from omnigate.control.dashboard.try_answer import REFUSED
from omnigate.control.dashboard.try_exchange import Exchange, Outcome

#: A data plane learns of a new secret with its next poll, which is two seconds away at most where
#: nobody has set another pace.
KEY_PAUSES: Final = (0.5, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0)

#: How often the ledger is asked for the usage event, and for how long: a data plane delivers each
#: second, or with the pace that was set.
BILL_PAUSE: Final = 0.25
BILL_SECONDS: Final = 15.0

_log = Logger(namespace="omnigate.control.dashboard")


class Teller(Protocol):
    """Puts what happens into the bytes of an answer."""

    def begin(self) -> bytes:
        """What comes before all else."""

    def note(self, words: str) -> bytes:
        """What is being waited for."""

    def text(self, text: str) -> bytes:
        """A piece of the model's text."""

    def outcome(self, outcome: Outcome) -> bytes:
        """How it ended."""

    def bill(self, outcome: Outcome, view: RequestView | None) -> bytes:
        """What the ledger has of it, if anything came, and the end of the answer."""


class TryRun:
    """One try, written to one stream.

    :param secret: of the gateway key.
    :param is_new_key: whether the data plane may not have heard of it yet.
    :param find: returns what the ledger has of a request, once it is recorded.
    """

    def __init__(
        self,
        style: str,
        request: DataRequest,
        is_new_key: bool,
        data_plane: DataPlane,
        clock: IReactorTime,
        find: Callable[[str], RequestView | None],
        teller: Teller,
    ) -> None:
        self._style = style
        self._request = request
        self._is_new_key = is_new_key
        self._data_plane = data_plane
        self._clock = clock
        self._find = find
        self._teller = teller
        self._exchange: Exchange | None = None

    def start(self, stream: ByteStream) -> None:
        """Begin; a place at the data plane is taken until it is over."""
        self._data_plane.take_place()
        running = Deferred.fromCoroutine(self._run(stream))
        # In a turn of its own: a session that is over is found by a write, amid all of this.
        stream.closed = partial(self._leave, running)
        stream.turned = lambda: self._turned(stream)
        running.addErrback(self._ended)
        running.addBoth(lambda _: self._over(stream))

    def _over(self, stream: ByteStream) -> None:
        self._data_plane.give_place()
        stream.closed = lambda: None
        stream.end()

    def _leave(self, running: Deferred[None]) -> None:
        self._clock.callLater(0, running.cancel)

    def _ended(self, failure: Any) -> None:
        if not failure.check(CancelledError):  # that is somebody who has left
            _log.failure("a try failed", failure=failure)

    def _turned(self, stream: ByteStream) -> None:
        if self._exchange is not None:
            self._exchange.set_room(stream.has_room)

    async def _run(self, stream: ByteStream) -> None:
        stream.write(self._teller.begin())
        if not stream.is_open:
            return  # the session has ended while a key was made
        outcome = await self._ask_until_known(stream)
        stream.write(self._teller.outcome(outcome))
        view = await self._wait_for_event(outcome)
        stream.write(self._teller.bill(outcome, view))

    async def _ask_until_known(self, stream: ByteStream) -> Outcome:
        """Ask, and again while the data plane does not know the new key."""
        for pause in KEY_PAUSES if self._is_new_key else ():
            outcome = await self._ask(stream)
            refused = outcome.verdict.outcome == REFUSED
            if not (refused and outcome.verdict.code == "invalid_api_key"):
                return outcome
            stream.write(self._teller.note("The data plane does not know the new secret yet."))
            await deferLater(self._clock, pause)
        return await self._ask(stream)

    async def _ask(self, stream: ByteStream) -> Outcome:
        def told(text: str) -> None:
            stream.write(self._teller.text(text))

        self._exchange = exchange = Exchange(self._style, self._clock, told)
        try:
            exchange.begin(self._data_plane.client, self._request)
            exchange.set_room(stream.has_room)
            return await exchange.done
        finally:
            self._exchange = None

    async def _wait_for_event(self, outcome: Outcome) -> RequestView | None:
        if not outcome.request_id or not outcome.has_upstream:
            return None
        end = self._clock.seconds() + BILL_SECONDS
        while self._clock.seconds() < end:
            await deferLater(self._clock, BILL_PAUSE)
            view = self._find(outcome.request_id)
            if view is not None:
                return view
        return None
