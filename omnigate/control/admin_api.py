"""The admin API: keys, usage, the newest requests, refusals, the config in force, metrics.

Everything here needs the admin token. Amounts of money are exact decimal numbers of US dollars.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, Final, Protocol, cast

import attrs
import msgspec

from omnigate.config.structure import Fault
from omnigate.control.budget_watch import BudgetWatch
from omnigate.control.config_file import ConfigFile
from omnigate.control.key_change import changed
from omnigate.control.keys import GatewayKey, KeyBook
from omnigate.control.metrics import ControlMetrics
from omnigate.control.reports import Reports
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.control.usage_report import UsageReport
from omnigate.errors import GatewayError, problem
from omnigate.ledger.books import RECENT_EVENTS
from omnigate.ledger.totals import GROUPINGS, NamedSums
from omnigate.money import usd
from omnigate.periods import rfc3339

#: A key with the longest model list is about 130 KB.
MAX_KEY_BYTES: Final = 256 * 1024

#: Keys that are shown in one go; five hundred take about 5 ms.
KEYS_AT_ONCE: Final = 500

#: Two screens; whoever wants more says so, up to all that is kept.
DEFAULT_REQUESTS: Final = 100
MAX_REQUESTS: Final = RECENT_EVENTS

#: What is told of a key by the ledger.
_STANDING: Final = ("spent_usd", "left_usd", "blocked", "over_soft", "turns_at")

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Accounts(Protocol):
    """The ledger, as far as operators look into it."""

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""

    @property
    def by_key_since(self) -> str | None:
        """The day from which on sums by key are whole; None where all are."""

    def gather(
        self, by: str, since: str | None = None, until: str | None = None
    ) -> Generator[None, None, list[NamedSums]]:
        """Find sums by key, model, upstream or day, in steps."""

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest events, newest first."""


class AdminApi:
    """The endpoints of operators.

    :param pause: lets the reactor do something else in between.
    """

    def __init__(
        self,
        book: KeyBook,
        watch: BudgetWatch,
        ledger: Accounts,
        config_file: ConfigFile,
        reports: Reports,
        metrics: ControlMetrics,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._book = book
        self._watch = watch
        self._ledger = ledger
        self._config_file = config_file
        self._reports = reports
        self._metrics = metrics
        self._pause = pause

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints for the router."""
        usage = frozenset({"by", "since", "until"})
        return (
            Endpoint("GET", "/admin/keys", self.list_keys),
            Endpoint("POST", "/admin/keys", self.create_key, body_limit=MAX_KEY_BYTES),
            Endpoint("GET", "/admin/keys/{name}", self.show_key),
            Endpoint("PATCH", "/admin/keys/{name}", self.change_key, body_limit=MAX_KEY_BYTES),
            Endpoint("DELETE", "/admin/keys/{name}", self.delete_key),
            Endpoint("GET", "/admin/usage", self.usage, query=usage),
            Endpoint("GET", "/admin/requests", self.requests, query=frozenset({"limit"})),
            Endpoint("GET", "/admin/refusals", self.refusals),
            Endpoint("GET", "/admin/config", self.config),
            Endpoint("POST", "/admin/reload", self.reload),
            Endpoint("GET", "/metrics", self.scrape),
        )

    # -- keys ---------------------------------------------------------------------------------

    async def list_keys(self, call: Call) -> Answer:
        """Answer every key of both kinds, by name."""
        keys = sorted(self._book, key=lambda key: key.name)
        rows: list[bytes] = []
        for start in range(0, len(keys), KEYS_AT_ONCE):
            if start:
                await self._pause()
            rows.extend(_encode(self._key_row(key)) for key in keys[start : start + KEYS_AT_ONCE])
        return Answer(b'{"keys":[' + b",".join(rows) + b"]}")

    async def show_key(self, call: Call) -> Answer:
        """Answer one key."""
        key = self._book.get(call.name)
        if key is None:
            raise GatewayError("not_found", f'there is no key named "{call.name}"')
        return Answer(_encode(self._key_row(key)))

    async def create_key(self, call: Call) -> Answer:
        """Make a managed key; its secret is in this answer and nowhere else."""
        body = _read(call.body)
        key, secret = await self._book.managed.create(body, self._book.is_file_key)
        location = f"/admin/keys/{key.name}".encode("ascii")
        return Answer(
            _encode({"secret": secret, **self._key_row(key)}),
            status=201,
            headers=((b"location", location),),
        )

    async def change_key(self, call: Call) -> Answer:
        """Change limits and budgets of a managed key, and answer it as it is then."""
        self._check_managed(call.name, "change it there")
        body = _read(call.body)
        key = await self._book.managed.change(call.name, lambda key: changed(key, body))
        return Answer(_encode(self._key_row(key)))

    def _check_managed(self, name: str, remedy: str) -> None:
        """Refuse what is the config file's."""
        if self._book.is_file_key(name) and self._book.managed.get(name) is None:
            raise GatewayError("conflict", f'"{name}" stands in the config file; {remedy}')

    async def delete_key(self, call: Call) -> Answer:
        """Take a managed key away."""
        self._check_managed(call.name, "take it out there")
        key = await self._book.managed.delete(call.name)
        return Answer(_encode({"name": key.name, "deleted": True}))

    def _key_row(self, key: GatewayKey) -> dict[str, Any]:
        """Return a key as people see it; what was spent is null until the ledger is loaded."""
        row: dict[str, Any] = {
            "name": key.name,
            "source": key.source,
            "key_sha256": key.sha256,
            "rpm": key.rpm,
            "models": key.models,
            "max_concurrent": key.max_concurrent,
            "budget_usd": _dollars(key.budget_nano),
            "soft_budget_usd": _dollars(key.soft_budget_nano),
            "budget_period": key.budget_period if key.has_budget else None,
            "budget_timezone": key.budget_timezone if key.has_budget else None,
            "created_at": _time(key.created_ms),
        }
        if not self._ledger.ready:
            return {**row, **dict.fromkeys(_STANDING)}
        stands = self._watch.standing(key)
        return {
            **row,
            "spent_usd": _dollars(stands.spent_nano),
            "left_usd": _dollars(stands.left_nano),
            "blocked": stands.blocked,
            "over_soft": stands.over_soft,
            "turns_at": _time(stands.turns_at_ms) if key.has_budget else None,
        }

    # -- what was used ------------------------------------------------------------------------

    async def usage(self, call: Call) -> Answer:
        """Answer sums by key, model, upstream or day, as JSON or as CSV."""
        by = call.query.get("by", "key")
        since, until = call.query.get("since"), call.query.get("until")
        if by not in GROUPINGS:
            raise GatewayError(
                "invalid_request", f"by must be one of {', '.join(GROUPINGS)}", param="by"
            )
        try:
            sums = await self._gathered(by, since, until)
        except ValueError as error:
            raise GatewayError("invalid_request", str(error)) from None
        if since is not None and until is not None and since > until:
            raise GatewayError("invalid_request", "since is after until", param="since")
        report = UsageReport(by, self._pause)
        await report.take(sums, self._book.names_by_hash() if by == "key" else {})
        if "text/csv" in call.accept.lower():
            disposition = f'attachment; filename="omnigate-usage-by-{by}.csv"'.encode("ascii")
            return Answer(
                await report.csv(),
                b"text/csv; charset=utf-8; header=present",
                headers=((b"content-disposition", disposition),),
            )
        since_whole = self._ledger.by_key_since if by == "key" else None
        return Answer(await report.json(since=since, until=until, by_key_since=since_whole))

    async def _gathered(self, by: str, since: str | None, until: str | None) -> list[NamedSums]:
        """Have the ledger sum up, with pauses.

        :raises ValueError: a day is none.
        """
        steps = self._ledger.gather(by, since, until)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(list[NamedSums], end.value)
            await self._pause()

    async def requests(self, call: Call) -> Answer:
        """Answer the newest events of the ledger, newest first."""
        limit = _whole(call.query, "limit", DEFAULT_REQUESTS, MAX_REQUESTS)
        names = self._book.names_by_hash()
        rows = [
            {
                **event,
                "key": names.get(event.get("key_sha256", "")),
                "cost_usd": msgspec.Raw(str(event["cost_usd"]).encode("ascii")),
            }
            for event in self._ledger.recent(limit)
        ]
        return Answer(_encode({"requests": rows}))

    async def refusals(self, call: Call) -> Answer:
        """Answer the refusals that data planes reported since the start, the largest first."""
        rows = [
            {"key": row.key, "code": row.code, "count": row.count, "last_at": _time(row.last_ms)}
            for row in self._reports.rows()
        ]
        return Answer(_encode({"since": _time(self._reports.since_ms), "refusals": rows}))

    # -- the config ---------------------------------------------------------------------------

    async def config(self, call: Call) -> Answer:
        """Answer the config in force, and what is wrong with the file if it is not that."""
        document = attrs.asdict(
            self._config_file.config, filter=lambda attribute, _: bool(attribute.init)
        )
        return Answer(
            _encode(
                {
                    "path": self._config_file.path,
                    "loaded_at": _time(int(self._config_file.loaded_at * 1000)),
                    "faults": _fault_rows(self._config_file.faults),
                    "config": document,
                }
            )
        )

    async def reload(self, call: Call) -> Answer:
        """Read the config file again; one with faults is refused with all of them."""
        if self._config_file.reload():
            config = self._config_file.config
            counts = {
                "keys": len(config.keys),
                "upstreams": len(config.upstreams),
                "routes": len(config.routes),
            }
            return Answer(_encode({"reloaded": True, **counts}))
        faults = self._config_file.faults
        error = GatewayError(
            "conflict", f"the config file has {len(faults)} faults; the config in force stays"
        )
        document = msgspec.json.decode(problem(error))
        document["faults"] = _fault_rows(faults)
        return Answer(_encode(document), b"application/problem+json", error.kind.status)

    async def scrape(self, call: Call) -> Answer:
        """Answer the metrics."""
        self._metrics.count_keys(self._book)
        body, content_type = self._metrics.scrape(call.accept)
        return Answer(body, content_type)


def _read(body: bytes) -> object:
    """Return the JSON of a body."""
    try:
        return read_json(body)
    except StrictJsonError as error:
        raise GatewayError("invalid_json", f"the body {error}") from None


def _dollars(nano: int | None) -> msgspec.Raw | None:
    """Return an amount as a JSON number that is exact."""
    return None if nano is None else msgspec.Raw(usd(nano).encode("ascii"))


def _time(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)


def _fault_rows(faults: Iterable[Fault]) -> list[dict[str, str]]:
    return [{"path": fault.path, "message": fault.message} for fault in faults]


def _whole(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a parameter that is a whole number from 1 to ``most``."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise GatewayError("invalid_request", f"{name} must be 1 to {most}", param=name)
    return int(text)
