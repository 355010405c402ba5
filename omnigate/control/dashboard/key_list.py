"""The list of keys: which of them, in which order, a page at a time.

Ten thousand keys may have to be judged for one page, so that is done a few hundred at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final

import attrs

from omnigate.control.dashboard.key_states import STATES, Meter, badness, meter, states_of
from omnigate.control.dashboard.slices import Slice, page_of
from omnigate.control.dashboard.sources import Sources
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.last_uses import LastUse
from omnigate.ledger.budgets import Standing

#: Keys of one page: to write it takes 8 ms.
ROWS: Final = 50

#: Keys that are judged in one go: 6 ms.
JUDGED_AT_ONCE: Final = 400

#: Keys that are put in order in one go: 3 ms.
ORDERED_AT_ONCE: Final = 2_000

#: Names of keys are no longer.
MAX_PART_CHARS: Final = 64

NAME: Final = "name"
ORDERS: Final[Mapping[str, str]] = {
    NAME: "Name",
    "worst": "Worst first",
    "spent": "Largest spend first",
    "refused": "Most refusals first",
}


@attrs.frozen
class Wanted:
    """What somebody wants to see.

    :ivar part: of the name, in lower case.
    :ivar state: one of :data:`~omnigate.control.dashboard.key_states.STATES`, or empty for all.
    :ivar order: one of :data:`ORDERS`.
    """

    part: str = ""
    state: str = ""
    order: str = NAME

    @property
    def is_filtered(self) -> bool:
        """Whether some keys may be left out."""
        return bool(self.part or self.state)

    @property
    def query(self) -> dict[str, str]:
        """What the address of this list says."""
        order = "" if self.order == NAME else self.order
        said = {"q": self.part, "state": self.state, "order": order}
        return {name: value for name, value in said.items() if value}


def wanted(query: Mapping[str, str]) -> Wanted:
    """Read the filters of a list; what cannot be meant is the same as nothing."""
    state, order = query.get("state", ""), query.get("order", NAME)
    return Wanted(
        query.get("q", "")[:MAX_PART_CHARS].lower(),
        state if state in STATES else "",
        order if order in ORDERS else NAME,
    )


@attrs.frozen
class Judged:
    """A key and how it is doing.

    :ivar stands: ``None`` until the ledger is loaded.
    :ivar refused: how many requests of it were refused since the start.
    """

    key: GatewayKey
    states: tuple[str, ...]
    stands: Standing | None
    refused: int = 0

    @property
    def meter(self) -> Meter | None:
        """How full its budget is."""
        return meter(self.key, self.stands, self.states)


@attrs.frozen
class KeyRow:
    """One line of the list.

    :ivar last_use: when it was used last, where that is known to the moment.
    :ivar last_day: else the last day of a use; ``None`` where the ledger knows of none.
    :ivar was_used: whether it was ever used.
    """

    judged: Judged
    last_use: LastUse | None
    last_day: str | None
    was_used: bool

    @property
    def key(self) -> GatewayKey:
        """The key."""
        return self.judged.key

    @property
    def limits(self) -> str:
        """Its limits in short."""
        return short_limits(self.key)


@attrs.frozen
class KeyPage:
    """One page of the list.

    :ivar part: which rows of all that were found.
    :ivar total: how many keys there are without any filter.
    """

    rows: tuple[KeyRow, ...]
    part: Slice
    total: int
    newer: str
    older: str


#: Keys, each with its place in an order.
_Run = list[tuple[tuple[float, ...], Judged]]


class KeyList:
    """Finds pages of keys; the keys by name are kept until one of them changes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._named: tuple[object, tuple[GatewayKey, ...]] = (None, ())

    async def find(self, wanted: Wanted, page: str | None = None) -> KeyPage:
        """Return a page of the list; one behind the last is the last.

        :param page: the number that an address has, if any.
        """
        keys = self._by_name()
        total = len(keys)
        if wanted.part:
            keys = tuple(key for key in keys if wanted.part in key.name.lower())
        refused = self._sources.reports.by_key()
        if wanted.state or wanted.order != NAME:
            runs = await self._judge_all(keys, wanted, refused)
            part = page_of(sum(map(len, runs)), ROWS, page)
            shown = await self._ordered(runs, part.before)
        else:
            part = page_of(len(keys), ROWS, page)
            shown = [self.judge(key, refused) for key in part.of(keys)]
        return KeyPage(self._rows(shown), part, total, *part.links("/keys", wanted.query))

    def _by_name(self) -> tuple[GatewayKey, ...]:
        """Return all keys by name; to sort ten thousand takes 3 ms."""
        revision = self._sources.book.revision
        if self._named[0] != revision:
            self._named = revision, tuple(sorted(self._sources.book, key=attrgetter("name")))
        return self._named[1]

    async def _judge_all(
        self, keys: Sequence[GatewayKey], wanted: Wanted, refused: Mapping[str, int]
    ) -> list[_Run]:
        """Look at all keys; return those that are wanted in runs, each in order."""
        runs: list[_Run] = []
        place = _PLACES[wanted.order]
        for start in range(0, len(keys), JUDGED_AT_ONCE):
            run = []
            for number, key in enumerate(keys[start : start + JUDGED_AT_ONCE], start):
                one = self.judge(key, refused)
                if not wanted.state or wanted.state in one.states:
                    # The keys come by name, and no two have the same number.
                    run.append(((*place(one), number), one))
            run.sort(key=itemgetter(0))
            runs.append(run)
            await self._sources.pause()
        return runs

    async def _ordered(self, runs: Iterable[_Run], start: int) -> list[Judged]:
        """Return the keys of a page that begins with this one of all."""
        merged = merge(*runs, key=itemgetter(0))
        for skipped in range(0, start, ORDERED_AT_ONCE):
            for _ in islice(merged, min(ORDERED_AT_ONCE, start - skipped)):
                pass
            await self._sources.pause()
        return [one for _, one in islice(merged, ROWS)]

    def judge(self, key: GatewayKey, refused: Mapping[str, int]) -> Judged:
        """Look how a key is doing."""
        sources = self._sources
        stands = sources.watch.standing(key) if sources.ledger.ready else None
        states = states_of(key, stands, sources.now_ms())
        return Judged(key, states, stands, refused.get(key.name, 0))

    def _rows(self, shown: Sequence[Judged]) -> tuple[KeyRow, ...]:
        """Find out when the keys of a page were used last."""
        sources = self._sources
        if not sources.ledger.ready:
            return tuple(KeyRow(judged, None, None, False) for judged in shown)
        uses = {one.key.sha256: sources.last_uses.of(one.key.sha256) for one in shown}
        unseen = [sha256 for sha256, use in uses.items() if use is None]
        days = sources.ledger.last_days(unseen, sources.now_ms())
        return tuple(
            KeyRow(
                one,
                uses[one.key.sha256],
                days.get(one.key.sha256),
                sources.ledger.lifetime(one.key.hashes).requests > 0,
            )
            for one in shown
        )


def _share(judged: Judged) -> float:
    found = judged.meter
    return 0.0 if found is None else found.share


#: Where a key stands in each order; of two in the same place the name decides.
_PLACES: Final[Mapping[str, Callable[[Judged], tuple[float, ...]]]] = {
    NAME: lambda one: (),
    "worst": lambda one: (badness(one.states), -_share(one), -one.refused),
    "spent": lambda one: (-(one.stands.spent_nano if one.stands else 0),),
    "refused": lambda one: (-one.refused,),
}


def short_limits(key: GatewayKey) -> str:
    """Return the limits of a key as a list has room for them."""
    found = (
        (key.rpm, "requests/min"),
        (key.tpm, "tokens/min"),
        (key.max_concurrent, "at once"),
    )
    return ", ".join(f"{_grouped(limit)} {what}" for limit, what in found if limit)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
