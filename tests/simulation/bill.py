"""What must be in the ledger, told by everybody but the ledger: data plane, providers, network.

Nothing here uses the product's own sums, lines or prices: lines are read as JSON, costs are worked
out from the prices in :data:`PRICES`, and periods come from the calendar.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import attrs

from tests.simulation.config import BUDGETS, PRICES, Budget

if TYPE_CHECKING:
    from tests.simulation.data_side import DataSide
    from tests.simulation.provider import Attempt
    from tests.simulation.world import World

COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
)

#: What stands in a line of the ledger as it stood in the event.
KEPT = (
    "id",
    "key_sha256",
    "route_model",
    "upstream",
    "target_model",
    "status",
    "stream",
    *COUNTS,
    "cached",
    "estimated",
    "latency_ms",
    "attempts",
    "ts_ms",
    "endpoint",
)


class WrongBillError(AssertionError):
    """The ledger does not say what it must."""


@attrs.define(eq=False)
class Sum:
    """Requests, the four counts, and nano-dollars."""

    requests: int = 0
    counts: list[int] = attrs.Factory(lambda: [0, 0, 0, 0])
    nano: int = 0

    def add(self, counts: Iterable[int], nano: int) -> None:
        """Count one event in."""
        self.requests += 1
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]
        self.nano += nano

    def row(self) -> tuple[int, ...]:
        """All of it."""
        return (self.requests, *self.counts, self.nano)


@attrs.define(eq=False)
class Excused:
    """Exchanges that need not be in the ledger, by why.

    :ivar under_way: killed with their data plane.
    :ivar unsynced: taken by a power loss of the data plane.
    :ivar unwritten: refused by the data plane's full disk, and then killed with it.
    """

    under_way: int = 0
    unsynced: int = 0
    unwritten: int = 0


class Bill:
    """Takes note of what was used, and compares it with the ledger.

    :ivar events: usage events that the data plane settled, by id.
    :ivar half: those whose settling fell together with the end of the process, by id.
    :ivar acknowledged: the ids of those that the control plane said it has.
    :ivar lost: the ids of those that may be missing.
    :ivar refused_writes: the data plane's disk was full, and perhaps not all was written since.
    :ivar excused: how many there are, and why.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.events: dict[str, dict[str, Any]] = {}
        self.half: dict[str, dict[str, Any]] = {}
        self.under_way: set[str] = set()
        self.acknowledged: dict[str, None] = {}
        self.lost: set[str] = set()
        self.excused = Excused()
        self.refused_writes = False
        # By key: id, time and cost of all that was ever used.
        self._used: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        self._blocked: dict[str, frozenset[str]] = {}
        self._handed_polls = 0
        self.polls = 0
        self.blocked_polls = 0

    # -- what the data plane did

    def settled(self, event: dict[str, Any], taken: bool) -> None:
        """Note an event that was spooled."""
        if event["id"] in self.events:
            raise WrongBillError(f"{event['id']} was settled twice")
        self._keep(event)
        if not taken:
            raise WrongBillError(f"{event['id']} was refused by the spool")
        self.events[event["id"]] = event

    def half_settled(self, event: dict[str, Any]) -> None:
        """Note an event whose data plane ended while it was spooled."""
        self._keep(event)
        self.half[event["id"]] = event

    def _keep(self, event: dict[str, Any]) -> None:
        self._used[event["key_sha256"]].append((event["id"], event["ts_ms"], cost_nano(event)))

    def data_ended(self, data: DataSide) -> None:
        """Compare what a data plane that is gone has counted, and note what was under way."""
        exchanges = data.plane.exchanges
        unsettled = data.unsettled()
        self.under_way.update(unsettled)
        self.excused.under_way += len(unsettled)
        ids = [exchange.id for exchange in exchanges]
        used = [i for i in ids if i in self.events or i in self.half]
        if len(ids) != len(used) + data.refused + len([i for i in unsettled if i not in used]):
            raise WrongBillError(
                f"{len(ids)} exchanges: {len(used)} events, {data.refused} refusals and"
                f" {len(unsettled)} under way"
            )

    def machine_lost(
        self, power: bool, written: set[str], durable: set[str], left: set[str]
    ) -> None:
        """Work out what a data plane that was killed, or lost its power, has taken with it.

        :param written: ids of the whole lines that its spool file had.
        :param durable: ids of those that the disk had for good.
        :param left: ids of those that are there now.
        """
        for name in self.events:
            if name in self.acknowledged or name in self.lost or name in left:
                continue
            if name not in written:
                if not self.refused_writes:
                    raise WrongBillError(f"{name} was not in the file when its process was killed")
                self.excused.unwritten += 1
            elif power and name not in durable:
                self.excused.unsynced += 1
            else:
                raise WrongBillError(f"{name} was on the disk and is gone")
            self.lost.add(name)

    def see_written(self, written: set[str]) -> None:
        """Forget that the data plane's disk was full, if its file has all that waits by now."""
        if all(name in written or name in self.acknowledged for name in self.events):
            self.refused_writes = False

    # -- what the control plane said

    def handed(self, request: bytes) -> None:
        """Note a request that reached the control plane."""

    def answered(self, request: bytes, answer: bytes) -> None:
        """Note what the control plane answered, whether or not the answer arrives."""
        status = int(answer.split(b" ", 2)[1])
        line = request.split(b"\r\n", 1)[0]
        if b"/internal/usage/batch" in line and status == 200:
            events = json.loads(request.partition(b"\r\n\r\n")[2])["events"]
            self._world.note(f"acknowledged: {len(events)} events")
            for event in events:
                self.acknowledged[event["id"]] = None
        elif b"/internal/config" in line and status in (200, 304):
            head, _, body = answer.partition(b"\r\n\r\n")
            etag = _header(head, b"etag")
            if status == 200:
                keys = json.loads(body)["keys"]
                blocked = frozenset(key["sha256"] for key in keys if key["blocked"])
                self._blocked[etag] = blocked
            self._judge_blocked(self._blocked[etag])

    def _judge_blocked(self, blocked: frozenset[str]) -> None:
        """A key over its budget is blocked, and no other is."""
        self.polls += 1
        self.blocked_polls += bool(blocked)
        now_ms = self._world.wall_ms()
        for sha256, budget in BUDGETS.items():
            start, end = period(budget, now_ms)
            sure = perhaps = 0
            for name, ts_ms, nano in self._used[sha256]:
                if start <= ts_ms < end:
                    perhaps += nano
                    if name in self.acknowledged:
                        sure += nano
            if sure >= budget.nano and sha256 not in blocked:
                raise WrongBillError(f"{budget.name} spent {sure} of {budget.nano} and is free")
            if perhaps < budget.nano and sha256 in blocked:
                raise WrongBillError(f"{budget.name} spent {perhaps} of {budget.nano}, is blocked")

    # -- the end

    def check_lines(self, lines: Iterable[bytes], attempts: Iterable[Attempt]) -> Ledgered:
        """Compare the ledger's lines with what must stand in them."""
        recorded: dict[str, dict[str, Any]] = {}
        for line in lines:
            try:
                event = json.loads(line, parse_float=Decimal)
            except ValueError:
                raise WrongBillError(f"a line of the ledger is damaged: {line!r}") from None
            if event["id"] in recorded:
                raise WrongBillError(f"{event['id']} stands twice in the ledger")
            recorded[event["id"]] = event
        for name, event in recorded.items():
            sent = self.events.get(name) or self.half.get(name)
            if sent is None:
                raise WrongBillError(f"{name} is in the ledger and was never used")
            for member in KEPT:
                if event.get(member) != sent.get(member):
                    raise WrongBillError(f"{name}: {member} is {event.get(member)!r} in the ledger")
            nano = int(Decimal(event["cost_usd"]) * 10**9)
            if nano != cost_nano(sent):
                raise WrongBillError(f"{name} costs {nano} and must cost {cost_nano(sent)}")
        for name in self.acknowledged:
            if name not in recorded:
                raise WrongBillError(f"{name} was acknowledged and is not in the ledger")
        for name in self.events:
            if name not in recorded and name not in self.lost:
                raise WrongBillError(f"{name} is not in the ledger")
        self._check_providers(recorded, attempts)
        return Ledgered(recorded)

    def _check_providers(
        self, recorded: Mapping[str, dict[str, Any]], attempts: Iterable[Attempt]
    ) -> None:
        """The figures are the providers' own where they told them, and estimates where not."""
        told: dict[str, Attempt] = {}
        begun: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.told:
                if attempt.request_id in told:
                    raise WrongBillError(f"{attempt.request_id} was answered twice")
                told[attempt.request_id] = attempt
            begun[attempt.request_id].append(attempt)
        for name, attempt in told.items():
            event = self.events.get(name) or self.half.get(name)
            if event is None:
                if name not in self.under_way:
                    raise WrongBillError(f"{name} was answered whole and never settled")
                continue
            usage = attempt.usage
            figures = (
                usage.input_tokens,
                usage.cached_input_tokens,
                usage.cache_write_input_tokens,
                usage.output_tokens,
            )
            if event["estimated"] or tuple(event[member] for member in COUNTS) != figures:
                raise WrongBillError(f"{name} is billed {event} and was {figures}")
            if (event["upstream"], event["target_model"]) != (attempt.upstream, attempt.model):
                raise WrongBillError(f"{name} is billed to {event['upstream']}")
        for name, event in recorded.items():
            if name in told:
                continue
            used = any(event[member] for member in COUNTS)
            if used and not event["estimated"]:
                raise WrongBillError(f"{name} has figures that no provider told: {event}")
            if event["estimated"] and not begun[name]:
                raise WrongBillError(f"{name} is an estimate of what nobody was asked: {event}")
            in_part = begun[name] and begun[name][-1].begun
            if in_part and not event["estimated"] and event["upstream"] is not None:
                raise WrongBillError(f"{name} was answered in part and is no estimate: {event}")
        # Told once more as a sum, as a bill is compared with a provider's.
        theirs, ours = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for name, attempt in told.items():
            if name in recorded:
                for member in COUNTS:
                    theirs[attempt.upstream, member] += getattr(attempt.usage, member)
        for event in recorded.values():
            if not event["estimated"] and event["upstream"] is not None:
                for member in COUNTS:
                    ours[event["upstream"], member] += event[member]
        if +theirs != +ours:
            raise WrongBillError(f"the providers' sums are {theirs}, the ledger's {ours}")


@attrs.define(eq=False)
class Ledgered:
    """The sums of the ledger's lines, by key, day and month."""

    recorded: dict[str, dict[str, Any]]

    def sums(self, member: str) -> dict[str | None, tuple[int, ...]]:
        """The sums by a member of the lines: ``key_sha256``, ``route_model``, ``upstream``."""
        return self._sums(lambda event: event[member])

    def days(self) -> dict[str | None, tuple[int, ...]]:
        """The sums by UTC day."""
        return self._sums(lambda event: _day(event["ts_ms"]).isoformat())

    def of_day(self, day: str) -> dict[str | None, tuple[int, ...]]:
        """The sums by key of one UTC day."""
        return self._sums(
            lambda event: event["key_sha256"],
            lambda event: _day(event["ts_ms"]).isoformat() == day,
        )

    def spent(self, sha256: str, budget: Budget, now_ms: int) -> int:
        """Nano-dollars of a key in a period."""
        start, end = period(budget, now_ms)
        return sum(
            cost_nano(event)
            for event in self.recorded.values()
            if event["key_sha256"] == sha256 and start <= event["ts_ms"] < end
        )

    def _sums(self, name: Any, counts: Any = lambda event: True) -> dict[Any, tuple[int, ...]]:
        sums: dict[Any, Sum] = defaultdict(Sum)
        for event in self.recorded.values():
            if counts(event):
                sums[name(event)].add((event[m] for m in COUNTS), cost_nano(event))
        return {name: row.row() for name, row in sums.items()}


def cost_nano(event: Mapping[str, Any]) -> int:
    """What an event costs, in nano-dollars."""
    if event["cached"] or event["upstream"] is None:
        return 0
    prices = PRICES[event["upstream"]]
    # The prices are whole nano-dollars for one token, so nothing is ever rounded.
    return sum(event[member] * price for member, price in zip(COUNTS, prices, strict=True))


#: The period of each budget that was looked up last: most look-ups are for the same one.
_periods: dict[Budget, tuple[int, int]] = {}


def period(budget: Budget, now_ms: int) -> tuple[int, int]:
    """Beginning and end of a budget's period, by the calendar."""
    start, end = _periods.get(budget, (0, 0))
    if not start <= now_ms < end:
        start, end = _periods[budget] = _find_period(budget, now_ms)
    return start, end


def _find_period(budget: Budget, now_ms: int) -> tuple[int, int]:
    if budget.period == "total":
        return 0, 1 << 62
    zone = ZoneInfo(budget.zone)
    today = datetime.datetime.fromtimestamp(now_ms / 1000, zone).date()
    if budget.period == "daily":
        first, after = today, today + datetime.timedelta(days=1)
    elif budget.period == "weekly":
        first = today - datetime.timedelta(days=today.weekday())
        after = first + datetime.timedelta(days=7)
    else:
        first = today.replace(day=1)
        after = (first + datetime.timedelta(days=32)).replace(day=1)
    return _midnight(first, zone), _midnight(after, zone)


def _midnight(day: datetime.date, zone: ZoneInfo) -> int:
    moment = datetime.datetime.combine(day, datetime.time(), zone)
    return int(moment.timestamp() * 1000)


def _day(ts_ms: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC).date()


def _header(head: bytes, name: bytes) -> str:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(name + b":"):
            return line.partition(b":")[2].strip().decode()
    return ""
