"""What ``omnigate top`` shows: answers of the admin API in, the lines of a page out.

The control plane keeps the newest few hundred events. Rates are those of the events of the last
minute or, where more come in a minute than it keeps, of the time that they cover, which the page
tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import attrs

from omnigate.commands.table import fit, table_lines
from omnigate.text import one_line

#: Over which rates are counted, at most.
WINDOW_SECONDS: Final = 60.0
#: How many events the control plane is asked for: all that it keeps.
NEWEST: Final = 500

#: Lines of a page that are there whatever happens: heads, figures, gaps, the foot.
_FIXED_LINES: Final = 11
_MODELS = ("model", "upstream", "req/min", "failed %", "p50 s", "p95 s", "tokens/s", "usd/min")
_KEYS = ("key", "req/min", "failed %", "tokens/s", "usd/min", "refused/min")
_REQUESTS = ("at", "key", "model", "upstream", "status", "seconds", "tokens", "usd")
_CENT = Decimal("0.01")
#: Beyond what any count of one event is; what is more would break the arithmetic.
_MANY: Final = 10**15


@attrs.frozen
class Told:
    """One round of answers.

    :ivar at: when they came, in seconds of the epoch.
    :ivar events: the newest usage events, newest first.
    :ivar refusals: how many requests were refused since the start, by key and code.
    :ivar figures: the samples of the control plane's scrape, by name and labels as they stand.
    """

    at: float
    events: Sequence[Mapping[str, Any]]
    refusals: Mapping[tuple[str, str], int]
    figures: Mapping[str, float]


@attrs.frozen
class Sums:
    """What some events have in all.

    :ivar seconds: how long each took, in order.
    """

    count: int
    failed: int
    seconds: Sequence[float]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: Decimal

    @property
    def failed_percent(self) -> Decimal:
        """How many of a hundred failed."""
        return Decimal(100 * self.failed / self.count if self.count else 0).quantize(Decimal("0.1"))

    def quantile(self, share: float) -> Decimal | None:
        """How long that share of them took at most; None where there is none."""
        if not self.seconds:
            return None
        place = min(int(share * len(self.seconds)), len(self.seconds) - 1)
        return Decimal(self.seconds[place]).quantize(_CENT)


def sums(events: Iterable[Mapping[str, Any]]) -> Sums:
    """Sum up some events; one with a status of 400 or more has failed."""
    known = list(events)
    cached = sum(number(event, "cached_input_tokens") for event in known)
    written = sum(number(event, "cache_write_input_tokens") for event in known)
    return Sums(
        count=len(known),
        failed=sum(number(event, "status") >= 400 for event in known),
        seconds=sorted(number(event, "latency_ms") / 1000 for event in known),
        input_tokens=sum(number(event, "input_tokens") for event in known) + cached + written,
        cached_tokens=cached,
        output_tokens=sum(number(event, "output_tokens") for event in known),
        usd=sum((_usd(event) for event in known), Decimal(0)),
    )


def window(told: Told) -> tuple[list[Mapping[str, Any]], float]:
    """Return the events that rates are counted over, and how many seconds they cover."""
    newest = [event for event in told.events if told.at - _time(event) <= WINDOW_SECONDS]
    if len(told.events) < NEWEST or len(newest) < len(told.events):
        return newest, WINDOW_SECONDS
    return newest, max(told.at - min(map(_time, newest)), 1.0)


def page(told: Told, before: Told | None, address: str, width: int, height: int) -> list[str]:
    """Return the lines of a page, at most ``height`` of at most ``width`` columns.

    :param before: an earlier round, which refusals are compared with.
    """
    events, seconds = window(told)
    room = max(height - _FIXED_LINES, 3)
    models, keys = max(room * 2 // 5, 1), max(room // 4, 1)
    refused = _refused(told, before)
    lines = [
        _head(told, address, width),
        *_summary(sums(events), seconds, told, refused),
        *table_lines(_by_model(events, seconds)[:models], _MODELS, width),
        "",
        *table_lines(_by_key(events, seconds, refused)[:keys], _KEYS, width),
        "",
    ]
    left = max(height - len(lines) - 1, 0)
    newest = [_request_row(event) for event in told.events[:left]]
    lines += table_lines(newest, _REQUESTS, width) if newest else ["no requests yet"]
    return [fit(line, width) for line in lines[:height]]


def _head(told: Told, address: str, width: int) -> str:
    clock = datetime.fromtimestamp(told.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = fit(f"omnigate at {one_line(address, 200)}", max(width - len(clock) - 2, 12))
    return f"{left}{' ' * max(width - len(left) - len(clock), 2)}{clock}"


def _summary(
    all_sums: Sums, seconds: float, told: Told, refused: Mapping[tuple[str, str], float]
) -> list[str]:
    """The lines of figures below the head, the last one empty where nothing is to be seen to."""
    figures = told.figures
    cached = 100 * all_sums.cached_tokens // all_sums.input_tokens if all_sums.input_tokens else 0
    codes: dict[str, float] = defaultdict(float)
    for (_, code), rate in refused.items():
        codes[code] += rate
    largest = sorted(codes.items(), key=lambda item: (-item[1], item[0]))[:3]
    refusals = ", ".join(f"{one_line(code, 40)} {rate:.0f}" for code, rate in largest if rate)
    flight = figures.get("omnigate_requests_in_flight", figures.get(
        "omnigate_data_requests_in_flight"))  # fmt: skip
    return [
        f"requests {all_sums.count / seconds:,.1f}/s   failed {all_sums.failed_percent} %   "
        f"p50 {_text(all_sums.quantile(0.5))} s   p95 {_text(all_sums.quantile(0.95))} s   "
        f"in flight {_whole(flight)}",
        f"tokens in {all_sums.input_tokens / seconds:,.0f}/s (cached {cached} %)   "
        f"out {all_sums.output_tokens / seconds:,.0f}/s   "
        f"cost {_per_minute(all_sums.usd, seconds)} usd/min",
        f"refused a minute: {refusals or 'none'}",
        f"usage that waits {_whole(figures.get('omnigate_spool_events'))}   keys over budget "
        f"{_whole(figures.get('omnigate_keys_over_budget'))}   rates of the last {seconds:.0f} s",
        _trouble(figures),
    ]


def _trouble(figures: Mapping[str, float]) -> str:
    """What an operator has to see to, in words."""
    if figures.get("omnigate_ledger_trouble", 0) > 0:
        return "THE LEDGER CANNOT BE WRITTEN"
    if figures.get("omnigate_ledger_ready") == 0:
        return "the ledger is being loaded"
    if "omnigate_spool_events" not in figures:
        return "NO DATA PLANE REPORTS"
    return ""


def _refused(told: Told, before: Told | None) -> dict[tuple[str, str], float]:
    """Refusals a minute by key and code, between two rounds."""
    if before is None or told.at <= before.at:
        return {}
    rates = {}
    for name, count in told.refusals.items():
        # A control plane that was started anew counts from 0 again.
        more = count - before.refusals.get(name, 0)
        rates[name] = max(more, 0) * 60 / (told.at - before.at)
    return rates


def _by_model(events: Iterable[Mapping[str, Any]], seconds: float) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        groups[_word(event, "route_model"), _word(event, "upstream")].append(event)
    rows = []
    for (model, upstream), group in groups.items():
        found = sums(group)
        rows.append(
            {
                "model": model,
                "upstream": upstream,
                **_rates(found, seconds),
                "p50 s": found.quantile(0.5),
                "p95 s": found.quantile(0.95),
            }
        )
    return _largest_first(rows)


def _by_key(
    events: Iterable[Mapping[str, Any]], seconds: float, refused: Mapping[tuple[str, str], float]
) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        groups[_word(event, "key")].append(event)
    rates: dict[str, float] = defaultdict(float)
    for (key, _), rate in refused.items():
        rates[one_line(key, 100) or "-"] += rate
    for key, rate in rates.items():
        if rate:
            groups.setdefault(key, [])
    return _largest_first(
        {"key": key, **_rates(sums(group), seconds), "refused/min": round(rates.get(key, 0))}
        for key, group in groups.items()
    )


def _rates(found: Sums, seconds: float) -> dict[str, Any]:
    tokens = found.input_tokens + found.output_tokens
    return {
        "req/min": round(found.count * 60 / seconds),
        "failed %": found.failed_percent,
        "tokens/s": round(tokens / seconds),
        "usd/min": _per_minute(found.usd, seconds),
    }


def _largest_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["req/min"], row.get("model") or row.get("key")))


def _request_row(event: Mapping[str, Any]) -> dict[str, Any]:
    tokens = sums([event])
    return {
        "at": datetime.fromtimestamp(_time(event), UTC).strftime("%H:%M:%S"),
        "key": _word(event, "key"),
        "model": _word(event, "route_model"),
        "upstream": _word(event, "upstream"),
        "status": number(event, "status"),
        "seconds": Decimal(number(event, "latency_ms")).scaleb(-3).quantize(_CENT),
        "tokens": tokens.input_tokens + tokens.output_tokens,
        "usd": _usd(event).quantize(Decimal("0.000001")),
    }


def _per_minute(usd: Decimal, seconds: float) -> Decimal:
    return (usd * 60 / Decimal(seconds)).quantize(Decimal("0.0001"))


def _text(value: Decimal | None) -> str:
    return "-" if value is None else str(value)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _time(event: Mapping[str, Any]) -> float:
    """When an event was, in seconds; one beyond what a clock can show is of the epoch."""
    seconds = number(event, "ts_ms") / 1000
    return seconds if 0 <= seconds < 2**33 else 0.0


def number(event: Mapping[str, Any], name: str) -> int:
    """Return a count of an event or of refusals; 0 for what none has."""
    value = event.get(name)
    return value if isinstance(value, int) and 0 <= value < _MANY else 0


def _usd(event: Mapping[str, Any]) -> Decimal:
    value = event.get("cost_usd")
    amount = Decimal(value) if isinstance(value, int | Decimal) else Decimal(0)
    # In this order: what is no number cannot be compared.
    return amount if amount.is_finite() and 0 <= amount < _MANY else Decimal(0)


def _word(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return one_line(value, 100) if isinstance(value, str) and value else "-"
