"""``python -m bench admin``: how long the admin API takes to answer, and holds its reactor.

Over a million usage events and ten thousand keys: every grouping of ``GET /admin/usage`` over every
kind of range, as JSON and as CSV, and the lists. A query has 200 ms for all of its steps together,
and 20 ms for the longest of them; in between others have their turn. Processor time of the thread
is measured, so other load does little to it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from random import Random
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred

from omnigate.collector import set_apart
from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import Config, KeyConfig, RouteConfig, TargetConfig, UpstreamConfig
from omnigate.control.audit import AuditLog
from omnigate.control.audit_api import AuditApi
from omnigate.control.audit_line import AuditEntry, AuditLine, line_of
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_api import ConfigApi
from omnigate.control.config_file import ConfigFile
from omnigate.control.config_history import ConfigHistory
from omnigate.control.key_api import KeyApi
from omnigate.control.keys import KeyBook, KeyStore
from omnigate.control.reports import MAX_ROWS, Reports
from omnigate.control.requests_api import RequestsApi
from omnigate.control.routes import Answer, Call, Endpoint, Routes, parse_query, parse_target
from omnigate.control.usage_api import UsageApi
from omnigate.events import UsageEvent
from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.day_rows import DayRows
from omnigate.ledger.event_search import EventSearch
from omnigate.ledger.lines import encode_line
from omnigate.ledger.totals import GROUPINGS, NamedSums
from omnigate.periods import DAY_MS, UTC, rfc3339, utc_day
from omnigate.testing.writer import SynchronousWriter

#: What a query may take altogether, and its longest step, in milliseconds of processor time.
QUERY_MS = 200.0
HOLD_MS = 20.0

EVENTS, KEYS, MODELS, UPSTREAMS, DAYS = 1_000_000, 10_000, 200, 20, 120
ROUTES = 5_000

#: 2026-11-30T12:00:00Z.
NOW_MS = 1_796_040_000_000


@attrs.frozen
class Took:
    """What one query took, in milliseconds of processor time."""

    what: str
    whole_ms: float
    hold_ms: float
    size: int

    @property
    def is_over(self) -> bool:
        """Whether it is over one of its bars."""
        return self.whole_ms > QUERY_MS or self.hold_ms > HOLD_MS


class Accounts:
    """A ledger that is loaded, of books in memory only."""

    ready = True

    def __init__(self, books: Books) -> None:
        self._books = books

    @property
    def by_key_since(self) -> str | None:
        """The day from which on sums by key are whole."""
        return self._books.totals.by_key_since

    def gather(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> Generator[None, None, list[NamedSums]]:
        """Find sums in steps."""
        return self._books.totals.gather(by, since, until)

    def rows_by_day(
        self,
        by: str,
        groups: Sequence[Collection[str | None]],
        since: str | None = None,
        until: str | None = None,
    ) -> Generator[None, None, list[DayRows]]:
        """Find days in steps."""
        return self._books.totals.rows_by_day(by, groups, since, until)

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest events."""
        return self._books.recent(limit)

    def spend_nano(
        self, key_hashes: Iterable[str], period: str, now_ms: int, zone: str = UTC
    ) -> int:
        """Return what a key spent in its period."""
        return self._books.totals.spend_nano(key_hashes, period, now_ms, zone)


def filled(events: int = EVENTS, keys: int = KEYS) -> Books:
    """Return the books of so many events, the newest of them now."""
    books, dice = Books(), Random(1)
    books.turn_to(utc_day(NOW_MS), NOW_MS)
    digests = [digest_of(number) for number in range(keys)]
    for number in range(events):
        upstream = number % UPSTREAMS
        event = UsageEvent(
            id=f"event-{number}",
            key_sha256=digests[dice.randrange(keys)],
            route_model=f"model-{number % MODELS}",
            upstream=f"upstream-{upstream}",
            target_model=f"target-{number % MODELS}",
            status=200,
            stream=True,
            input_tokens=1000,
            cached_input_tokens=100,
            cache_write_input_tokens=0,
            output_tokens=200,
            cached=False,
            estimated=False,
            latency_ms=700,
            attempts=[],
            ts_ms=NOW_MS - (events - number) * DAYS * DAY_MS // events,
            endpoint="chat",
        )
        if number < events - RECENT_EVENTS:
            books.totals.count(event, 270_000)
        else:
            line = encode_line(event, 270_000, rfc3339(event.ts_ms))
            books.enter([_Entry(event, 270_000, line)])  # type: ignore[list-item]
    return books


@attrs.frozen
class _Entry:
    event: UsageEvent
    cost_nano: int
    line: bytes


def digest_of(number: int) -> str:
    """Return the hash of a key."""
    return sha256(b"%d" % number).hexdigest()


class Queries:
    """The endpoints, asked without a socket, with the time of each step."""

    def __init__(self, books: Books, keys: int = KEYS, routes: int = ROUTES) -> None:
        accounts = Accounts(books)
        store = KeyStore("/nowhere/keys.json", SynchronousWriter(), lambda: NOW_MS)
        configs = [
            KeyConfig(name=f"key-{number}", key_sha256=digest_of(number), budget_usd=Decimal(1000))
            for number in range(keys)
        ]
        book = KeyBook(store, [ResolvedKey(str(each.key_sha256), each) for each in configs])
        watch = BudgetWatch(book, accounts, lambda: NOW_MS)
        # What is found further back is read in another thread.
        search = EventSearch("/nowhere/ledger.jsonl", accounts, SynchronousWriter(), lambda: 3)
        reports = Reports(NOW_MS)
        for number in range(MAX_ROWS):
            reports.refused(f"key-{number % keys}", f"code-{number // keys}", 1, NOW_MS)
        config_file = cast(ConfigFile, _InForce(largest_config(tuple(configs), routes)))
        audit = cast(AuditLog, _Audited())
        self._routes = Routes(
            *KeyApi(book, watch, accounts, audit, self.pause).endpoints(),
            *UsageApi(book, accounts, reports, self.pause).endpoints(),
            *RequestsApi(book, accounts, search).endpoints(),
            *ConfigApi(config_file, cast(ConfigHistory, None), self.pause).endpoints(),
            *AuditApi(audit).endpoints(),
        )
        self._steps: list[float] = []
        self._began = 0.0

    async def pause(self) -> None:
        """End a step; nobody else is there to have a turn."""
        now = time.thread_time()
        self._steps.append(now - self._began)
        self._began = time.thread_time()

    def ask(self, target: str, accept: str = "") -> Took:
        """Ask once.

        :raises AssertionError: it was not answered with 200.
        """
        parsed = parse_target(target.encode())
        endpoint, name = self._routes.find("GET", parsed.path)
        answers: list[Answer] = []
        self._steps = []
        self._began = time.thread_time()
        query = parse_query(parsed.query, endpoint.query)
        call = Call("GET", parsed.path, name, query, b"", "bench", accept)
        done: Deferred[Answer] = Deferred.fromCoroutine(self._run(endpoint, call))
        done.addCallback(answers.append)
        self._steps.append(time.thread_time() - self._began)
        assert answers and answers[0].status == 200, target
        return Took(
            f"{target} {accept}".strip(),
            sum(self._steps) * 1000,
            max(self._steps) * 1000,
            len(answers[0].body),
        )

    async def _run(self, endpoint: Endpoint, call: Call) -> Answer:
        return await endpoint.run(call)


class _InForce:
    """A config file that was read."""

    path = "/etc/omnigate/omnigate.toml"
    loaded_at = NOW_MS / 1000
    faults = ()

    def __init__(self, config: Config) -> None:
        self.config = config


class _Audited:
    """An audit log with all the lines that it holds at hand."""

    def __init__(self) -> None:
        entry = AuditEntry("key.change", "admin-key:ops", "app", detail={"rpm": 600})
        self._lines = [line_of(entry, seq, NOW_MS) for seq in range(10_000, 0, -1)]

    def entries(self, limit: int, before_seq: int | None = None) -> list[AuditLine]:
        return self._lines[:limit]


def largest_config(keys: tuple[KeyConfig, ...], routes: int) -> Config:
    """Return a config of so many keys and routes."""
    upstream = UpstreamConfig(
        name="openai", protocol="openai", base_url="https://api.openai.com/v1"
    )
    target = TargetConfig(upstream="openai", model="gpt-4o-mini")
    return Config(
        keys=keys,
        upstreams=(upstream,),
        routes=tuple(
            RouteConfig(model=f"model-{number}", targets=(target, target))
            for number in range(routes)
        ),
    )


def targets() -> Iterator[tuple[str, str]]:
    """Yield everything that is asked, and what it is accepted as."""
    days = [utc_day(NOW_MS - back * DAY_MS) for back in (0, 1, 7, 30, DAYS, 399)]
    ranges = ["", *(f"&since={day}&until={days[0]}" for day in days), f"&until={days[1]}"]
    for by in GROUPINGS:
        for span in ranges:
            for accept in ("", "text/csv"):
                yield f"/admin/usage?by={by}{span}", accept
    yield "/admin/keys", ""
    yield "/admin/keys?limit=1000&after=key-5", ""
    yield "/admin/keys/key-7", ""
    yield f"/admin/requests?limit={RECENT_EVENTS}", ""
    yield f"/admin/requests?limit={RECENT_EVENTS}&before=event-999900", ""
    yield "/admin/refusals", ""
    yield "/admin/audit?limit=1000", ""
    yield "/admin/config", ""


def measure(queries: Queries, runs: int) -> list[Took]:
    """Ask everything, and return the best of its runs each."""
    found = []
    for target, accept in targets():
        took = [queries.ask(target, accept) for _ in range(runs)]
        found.append(
            attrs.evolve(
                took[0],
                whole_ms=min(each.whole_ms for each in took),
                hold_ms=min(each.hold_ms for each in took),
            )
        )
    return found


def main(arguments: list[str]) -> int:
    """Measure, print all, and return the exit status.

    :returns: 1 when a query is over a bar.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench admin",
        description="Measures how long the admin API takes over a million events, and holds up "
        "others.",
    )
    parser.add_argument("--events", type=int, default=EVENTS, help="usage events (1000000)")
    parser.add_argument("--keys", type=int, default=KEYS, help="gateway keys (10000)")
    parser.add_argument("--runs", type=int, default=3, help="of each, the best counts (3)")
    options = parser.parse_args(arguments)
    queries = Queries(filled(options.events, options.keys), options.keys)
    set_apart()
    found = measure(queries, options.runs)
    print(f"{'ms':>7} {'hold ms':>8} {'bytes':>9}  query")
    for took in found:
        over = "  OVER" if took.is_over else ""
        print(f"{took.whole_ms:7.1f} {took.hold_ms:8.1f} {took.size:9}  {took.what}{over}")
    over_bars = sum(took.is_over for took in found)
    print(f"{len(found)} queries, {over_bars} over {QUERY_MS:g} ms or held over {HOLD_MS:g} ms")
    return 1 if over_bars else 0
