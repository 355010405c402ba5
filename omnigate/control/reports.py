"""What data planes report of themselves: requests they refused, figures, states of upstreams.

Seeing a refusal is worth something, but not a write to the disk: everything here is in memory,
begins at 0 with the process, and is bounded however a data plane behaves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import attrs

from omnigate.config.values import MAX_NAME_CHARS
from omnigate.errors import CLIENT_GONE, ERRORS
from omnigate.text import one_line
from omnigate.upstream_state import UpstreamState, worst

#: Key names times codes that are counted apart. Two hundred keys that meet every code fit in.
MAX_ROWS: Final = 5_000

#: The key name under which everything beyond :data:`MAX_ROWS` is counted.
OTHER_KEY: Final = "(other)"
OTHER_CODE: Final = "other"

#: What is shown of a name; the names of keys are no longer than this.
MAX_KEY_CHARS: Final = MAX_NAME_CHARS

#: A data plane has a handful of figures to tell.
MAX_FIGURES: Final = 64

#: Processes of data planes whose figures are kept: sixteen planes of 64 workers each. Of more, the
#: one that has been silent for longest is forgotten.
MAX_REPORTERS: Final = 1_024

#: Processes of which the number of the last report is remembered, also when they have left: so many
#: that one which runs is not among those forgotten. Each takes 200 bytes.
MAX_NUMBERED: Final = 4 * MAX_REPORTERS

#: Upstreams of which a process may report the state; a config has at most 500.
MAX_UPSTREAMS: Final = 500

#: Figures are reported every few seconds; after this long without one they are no longer shown.
FIGURES_SECONDS: Final = 120.0

#: Figures of which the largest tells something, and the sum does not; all others are added up.
_LARGEST: Final = frozenset({"missing_credentials", "reactor_lag_seconds"})
#: Figures of which the smallest does.
_SMALLEST: Final = frozenset({"certificate_expiry_timestamp_seconds"})

#: No figure is beyond this: bytes, seconds since 1970, counts. One that is would fill a page.
MAX_FIGURE: Final = 1e15

_FIGURE = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


@attrs.frozen
class _Told:
    """What one process reported last, and when."""

    figures: Mapping[str, float]
    upstreams: Mapping[str, int]
    at: float


@attrs.define
class RefusalRow:
    """Refusals of one key for one reason."""

    key: str
    code: str
    count: int = 0
    last_ms: int = 0


class Reports:
    """The refusals and figures received since the start.

    :ivar since_ms: since when they are counted.
    """

    def __init__(self, now_ms: int) -> None:
        self.since_ms = now_ms
        self._rows: dict[tuple[str, str], RefusalRow] = {}
        # By reporter, the one that has been silent for longest first.
        self._told: dict[str, _Told] = {}
        # How many processes told each state of an upstream.
        self._states: Counter[tuple[str, int]] = Counter()
        # The number of each reporter's last report, the one that was silent for longest first.
        self._numbers: dict[str, int] = {}

    def is_new(self, reporter: str, number: int) -> bool:
        """Note the number of a report; whether its counts are not among those counted already.

        :param number: from 1 on, greater with each report of a process; 0 of one that does not
            number them.
        """
        if not number:
            return True
        last = self._numbers.pop(reporter, 0)
        if len(self._numbers) >= MAX_NUMBERED:
            del self._numbers[next(iter(self._numbers))]
        self._numbers[reporter] = max(last, number)
        return number > last

    def refused(self, key: str, code: str, count: int, now_ms: int) -> None:
        """Count refusals of one key for one reason.

        :param code: see :func:`counted_code`.
        """
        key = one_line(key, MAX_KEY_CHARS)
        code = counted_code(code)
        row = self._rows.get((key, code))
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                key = OTHER_KEY
            row = self._rows.setdefault((key, code), RefusalRow(key, code))
        row.count += count
        row.last_ms = max(row.last_ms, now_ms)

    def rows(self) -> list[RefusalRow]:
        """Return every count, the largest first."""
        return sorted(self._rows.values(), key=lambda row: (-row.count, row.key, row.code))

    def of_key(self, key: str) -> list[RefusalRow]:
        """Return the counts of one key, the largest first."""
        found = [row for row in self._rows.values() if row.key == key]
        return sorted(found, key=lambda row: (-row.count, row.code))

    def by_key(self) -> dict[str, int]:
        """Return how many requests of each key were refused."""
        found: dict[str, int] = {}
        for row in self._rows.values():
            found[row.key] = found.get(row.key, 0) + row.count
        return found

    def report_figures(
        self,
        figures: Mapping[str, float],
        now: float,
        reporter: str = "",
        upstreams: Mapping[str, int] | None = None,
    ) -> None:
        """Take the figures of a data plane in place of those it reported before.

        :param upstreams: the states of upstreams that are not healthy
            (:class:`~omnigate.upstream_state.UpstreamState`).
        :param reporter: which process of which plane it is. Planes that do not say are one: of
            them the last word counts.
        """
        self.leave(reporter)
        if len(self._told) >= MAX_REPORTERS:
            self.leave(next(iter(self._told)))
        states = dict(islice((upstreams or {}).items(), MAX_UPSTREAMS))
        self._told[reporter] = _Told(dict(acceptable(figures.items())), states, now)
        for state in states.items():
            self._states[state] += 1

    def leave(self, reporter: str) -> None:
        """Forget the figures of a process that ends."""
        told = self._told.pop(reporter, None)
        if told is not None and told.upstreams:
            # Those with a count of 0 go.
            self._states -= Counter(told.upstreams.items())

    def figures(self, now: float) -> Mapping[str, float]:
        """Return what the processes that reported lately have in all.

        Each figure is the sum of theirs, but for those of which one tells something: the longest
        that a reactor was held, the certificate that ends first.
        """
        found: dict[str, float] = {}
        for told in self._lately(now):
            for name, value in told.figures.items():
                before = found.get(name)
                if before is None:
                    if len(found) < MAX_FIGURES:
                        found[name] = value
                elif name in _LARGEST:
                    found[name] = max(before, value)
                elif name in _SMALLEST:
                    found[name] = min(before, value)
                else:
                    found[name] = before + value
        return found

    def processes(self, now: float) -> int:
        """Return how many processes reported lately."""
        return len(self._lately(now))

    def upstream_states(self, names: Iterable[str], now: float) -> dict[str, UpstreamState]:
        """Return how upstreams fare: the worst that any process tells.

        What one cannot reach is what an alarm is about, and the others would hide it.

        :param names: of the upstreams; there is no state while no process reports.
        """
        if not self._lately(now):
            return {}
        found: dict[str, list[int]] = {name: [] for name in names}
        for name, state in self._states:
            if name in found:
                found[name].append(state)
        return {name: worst(states) for name, states in found.items()}

    def _lately(self, now: float) -> list[_Told]:
        """Forget who fell silent; return what the others told."""
        for reporter, told in list(self._told.items()):
            if now - told.at > FIGURES_SECONDS:
                self.leave(reporter)
        return list(self._told.values())


def counted_code(code: str) -> str:
    """Return under what a refusal is counted: its code, or ``other`` for one of no table."""
    return code if code in ERRORS or code == CLIENT_GONE else OTHER_CODE


def acceptable(figures: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return those of some figures that can be shown, as many as there may be."""
    return [
        (name, value)
        for name, value in figures
        if _FIGURE.fullmatch(name) and abs(value) <= MAX_FIGURE
    ][:MAX_FIGURES]
