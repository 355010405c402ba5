"""Live parts by their names, and what each is rendered as: see :mod:`.live`."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import msgspec
from twisted.internet.interfaces import IReactorTime

#: Parts that are rendered in one tick: those who look for other things wait for the next ones.
MAX_RENDERS: Final = 8

#: A hundred rows of a list are a tenth of this.
MAX_UPDATE_BYTES: Final = 256 * 1024

SWAP: Final = "swap"
PREPEND: Final = "prepend"


@attrs.frozen
class Update:
    """What is new of a part.

    :ivar html: what a template has made of it; empty where only the mark is new.
    :ivar mark: what the next rendering begins from.
    """

    html: str
    mark: str


Query = Mapping[str, str]
#: The query of a page's address, in order.
Filters = tuple[tuple[str, str], ...]

RenderWhole = Callable[[Query], Awaitable[str]]
RenderRows = Callable[[Query, str], Awaitable[Update | None]]


class _Message(msgspec.Struct, frozen=True):
    """An update as the script reads it."""

    mode: str
    mark: str
    html: str


def message(part: Part, update: Update) -> bytes:
    """Return an update as the script reads it."""
    return msgspec.json.encode(_Message(part.mode, update.mark, update.html))


def mark_of(html: str) -> str:
    """Return the mark of a whole that is shown."""
    return hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:16]


@attrs.frozen(eq=False)
class Part:
    """One live part."""

    name: str
    mode: str
    seconds: int
    render: RenderRows

    def wish(self, filters: Filters, mark: str) -> Wish:
        """Return what somebody wishes who is shown this mark."""
        return Wish(self, filters, "" if self.mode == SWAP else mark)


@attrs.frozen
class Wish:
    """What one rendering answers.

    :ivar mark: what is shown already; empty for a whole, which is the same whatever that is.
    """

    part: Part
    filters: Filters
    mark: str


class LiveParts:
    """The parts of one generation, and what they were rendered as last.

    :param clock: tells seconds.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._parts: dict[str, Part] = {}
        self._recent: dict[Wish, tuple[float, Update | None]] = {}

    def whole(self, name: str, render: RenderWhole, seconds: int) -> None:
        """Register a part that is shown in place of what was there."""

        async def render_update(query: Query, mark: str) -> Update:
            html = await render(query)
            return Update(html, mark_of(html))

        self._parts[name] = Part(name, SWAP, seconds, render_update)

    def rows(self, name: str, render: RenderRows, seconds: int) -> None:
        """Register a part whose new rows are put on top."""
        self._parts[name] = Part(name, PREPEND, seconds, render)

    def get(self, name: str) -> Part | None:
        """Return the part of this name, if there is one."""
        return self._parts.get(name)

    def clear(self) -> None:
        """Forget all: what renders parts holds the stores, which are to go when they do."""
        self._parts.clear()
        self._recent.clear()

    async def render(self, wish: Wish) -> Update | None:
        """Render a part.

        :return: what is new; ``None`` for nothing.
        :raises GatewayError: as the topic does.
        :raises ValueError: it is too much.
        """
        part = wish.part
        update = await part.render(dict(wish.filters), wish.mark)
        if update is not None and len(update.html) > MAX_UPDATE_BYTES:
            raise ValueError(f"{part.name}: {len(update.html)} characters, which is too much")
        if part is not self._parts.get(part.name):
            return update  # all was cleared meanwhile
        self._recent.pop(wish, None)
        if len(self._recent) >= MAX_RENDERS:
            del self._recent[next(iter(self._recent))]
        self._recent[wish] = (self._clock.seconds(), update)
        return update

    async def rendered(self, wish: Wish) -> Update | None:
        """Return what a part was rendered as lately; else :meth:`render` it."""
        made, update = self._recent.get(wish, (0.0, None))
        if wish in self._recent and self._clock.seconds() - made < wish.part.seconds:
            return update
        return await self.render(wish)
