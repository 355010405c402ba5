"""Live parts: what of a page comes up by itself while somebody looks at it.

A part has a name, and is registered once, by the topic that makes it, in its constructor::

    sources.live.whole("overview", self.render_figures, seconds=2)
    sources.live.rows("requests", self.render_new_rows)

There are two kinds.

*A whole* is shown in place of what was there. It is rendered again every few seconds while somebody
looks, and sent where it has changed::

    async def render_figures(self, query: Mapping[str, str]) -> str:
        return self._pages.html("overview_part.html", None, ...)

*Rows* are put on top of a list, the newest first. What is sent is what came since a mark. A mark is
a short text of the topic's own (``[A-Za-z0-9._:-]``), such as the position of the last row. It
comes back from browsers, so it is judged like a parameter; an empty one asks for nothing but the
first mark::

    async def render_new_rows(self, query: Mapping[str, str], mark: str) -> Update | None:
        rows = ...since(mark), matching the query, bounded
        return Update(self._pages.html("request_rows.html", None, rows=rows), new_mark)

Both are given the query of the page's address, which holds its filters, and may raise
``GatewayError``. One rendering goes to all who look, so it is made without a session: no form, and
nothing that only some may see. It has to be bounded (:data:`~.live_parts.MAX_UPDATE_BYTES`), and to
give way by ``sources.pause()`` like any page.

In the template, the element whose content is live::

    {{ parts.live_state("overview") }}
    <div data-live="overview" data-mark="{{ mark }}">{{ part }}</div>
    <tbody data-live="requests" data-mark="{{ mark }}" data-max="100">...</tbody>

``data-mark`` is what the page shows already: of a whole :func:`~.live_parts.mark_of` its HTML, of
rows the mark of its first row. ``data-max`` is how many rows are kept. The script asks for
``/live/NAME?FILTERS&mark=MARK`` and sends the query of the page's own address along.

Nothing is queued for anybody. Whoever reads more slowly than we write is left out until they have
caught up, and then is sent what came since, as far as the topic goes back.
"""

from __future__ import annotations

import re
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.control.byte_stream import EVENT_STREAM, ByteStream
from omnigate.control.dashboard.live_parts import (
    MAX_RENDERS,
    Filters,
    LiveParts,
    Part,
    RenderRows,
    RenderWhole,
    Update,
    Wish,
    message,
)
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError

#: Each holds a connection, of which the listener has some hundreds. Whoever comes later polls.
MAX_STREAMS: Final = 64

#: Then a browser asks anew, and its credential is judged again.
STREAM_SECONDS: Final = 300

#: Whatever stands between closes a connection that is silent for longer, a minute at the least.
HEARTBEAT_SECONDS: Final = 15

#: All are looked after by one timer.
TICK_SECONDS: Final = 1

_MARK = re.compile(r"[A-Za-z0-9._:-]{0,128}", re.ASCII)

#: Proxies that keep an answer back until it is whole are asked not to.
_AT_ONCE: Final = ((b"x-accel-buffering", b"no"),)

_log = Logger(namespace="omnigate.control")


@attrs.define(eq=False)
class _Looker:
    """Somebody who looks at a part.

    :ivar shown: the mark of what they were sent last.
    """

    part: Part
    filters: Filters
    shown: str
    stream: ByteStream
    began: float
    wrote: float

    @property
    def wish(self) -> Wish:
        """What is rendered for them."""
        return self.part.wish(self.filters, self.shown)


class Live:
    """The live parts of one generation; a :class:`~omnigate.control.guard.Store` without a file.

    :ivar name: what the log calls it.
    """

    name = "live"

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._parts = LiveParts(clock)
        #: Those who were served last are at the end.
        self._lookers: dict[_Looker, None] = {}
        self._timer: IDelayedCall | None = None
        self._is_ticking = False
        self._tick_number = 0
        self._is_open = False

    # -- topics -------------------------------------------------------------------------------

    def whole(self, name: str, render: RenderWhole, seconds: int = 1) -> None:
        """Register a part that is shown in place of what was there.

        :param seconds: how often it is rendered while somebody looks.
        """
        self._parts.whole(name, render, seconds)

    def rows(self, name: str, render: RenderRows, seconds: int = 1) -> None:
        """Register a part whose new rows are put on top."""
        self._parts.rows(name, render, seconds)

    # -- as a store ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Let people look."""
        self._is_open = True

    async def close(self) -> None:
        """End all streams."""
        self.abandon()

    def abandon(self) -> None:
        """End all streams."""
        self._is_open = False
        self._parts.clear()
        for looker in tuple(self._lookers):
            looker.stream.end()
        self._stop_timer()

    # -- requests -----------------------------------------------------------------------------

    @property
    def looking(self) -> int:
        """How many streams there are."""
        return len(self._lookers)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (Endpoint("GET", "/live/{name}", self.show, free_query=True),)

    async def show(self, call: Call) -> Answer:
        """Begin a stream; with ``once=1`` answer at once what is new, which may be nothing.

        :raises GatewayError: ``not_found`` for a part that is not there, ``invalid_request`` for a
            mark that cannot be one, ``overloaded`` where too many look, and what the topic raises.
        """
        part = self._parts.get(call.name)
        if part is None:
            raise GatewayError("not_found", "there is no such live part; load the page again")
        query = dict(call.query)
        is_once, mark = query.pop("once", "") != "", query.pop("mark", "")
        if not _MARK.fullmatch(mark):
            raise GatewayError("invalid_request", "this mark is none; load the page again")
        filters = tuple(sorted(query.items()))
        if is_once:
            return await self._once(part, filters, mark)
        if self.looking >= MAX_STREAMS:
            raise GatewayError(
                "overloaded",
                f"{MAX_STREAMS} live parts are looked at, which is the most; add once=1",
                retry_after=5,
            )
        return Answer(
            content_type=EVENT_STREAM,
            headers=_AT_ONCE,
            stream=lambda stream: self._begin(part, filters, mark, stream),
        )

    async def _once(self, part: Part, filters: Filters, mark: str) -> Answer:
        update = await self._parts.rendered(part.wish(filters, mark))
        if update is None or update.mark == mark:
            update = Update("", mark)
        return Answer(message(part, update))

    # -- streams ------------------------------------------------------------------------------

    def _begin(self, part: Part, filters: Filters, mark: str, stream: ByteStream) -> None:
        if not self._is_open or self.looking >= MAX_STREAMS:
            stream.end()
            return
        now = self._clock.seconds()
        looker = _Looker(part, filters, mark, stream, now, now)
        stream.closed = lambda: self._left(looker)
        self._lookers[looker] = None
        stream.write(b": live\n\n")
        if self._timer is None and not self._is_ticking:
            self._start_timer()

    def _left(self, looker: _Looker) -> None:
        self._lookers.pop(looker, None)
        if not self._lookers:
            self._stop_timer()

    def _start_timer(self) -> None:
        self._timer = self._clock.callLater(TICK_SECONDS, self._tick)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _tick(self) -> None:
        self._timer = None
        self._is_ticking = True
        self._tick_number += 1
        Deferred.fromCoroutine(self._serve()).addErrback(
            lambda failure: _log.failure("live parts could not be served", failure)
        ).addCallback(lambda _: self._ticked())

    def _ticked(self) -> None:
        self._is_ticking = False
        if self._is_open and self._lookers:
            self._start_timer()

    async def _serve(self) -> None:
        """Render what is wished, each thing once, and send it to all who wish it."""
        self._look_after()
        for wish, lookers in self._wishes().items():
            for looker in lookers:
                if looker in self._lookers:
                    del self._lookers[looker]
                    self._lookers[looker] = None  # at the end, so that others come first next time
            try:
                update = await self._parts.render(wish)
            except Exception as fault:
                if not isinstance(fault, GatewayError):
                    _log.failure(
                        "the live part {name} cannot be made", Failure(), name=wish.part.name
                    )
                for looker in lookers:
                    looker.stream.end()  # whoever asks again is told why
                continue
            if update is not None:
                self._send(wish.part, update, lookers)

    def _look_after(self) -> None:
        """End what has lasted long enough, and keep the others open."""
        now = self._clock.seconds()
        for looker in tuple(self._lookers):
            if now - looker.began >= STREAM_SECONDS:
                looker.stream.end()
            elif now - looker.wrote >= HEARTBEAT_SECONDS and looker.stream.has_room:
                looker.wrote = now
                looker.stream.write(b":\n\n")

    def _wishes(self) -> dict[Wish, list[_Looker]]:
        """Return what is to be rendered in this tick, and for whom."""
        wishes: dict[Wish, list[_Looker]] = {}
        for looker in self._lookers:
            if looker.stream.has_room and self._tick_number % looker.part.seconds == 0:
                wish = looker.wish
                if wish in wishes:
                    wishes[wish].append(looker)
                elif len(wishes) < MAX_RENDERS:
                    wishes[wish] = [looker]
        return wishes

    def _send(self, part: Part, update: Update, lookers: list[_Looker]) -> None:
        data = b"data: " + message(part, update) + b"\n\n"
        for looker in lookers:
            stream = looker.stream
            if looker.shown != update.mark and stream.has_room:
                looker.shown, looker.wrote = update.mark, self._clock.seconds()
                stream.write(data)
