"""What a soak prints at its end: what was done, and what held."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.soak.check import Check
from bench.soak.states import NOTHING, Course, State
from bench.soak.watch import Sight

_TITLES = {
    "asked": "what was asked",
    "manner": "how the clients behaved",
    "answers": "what they got",
    "provider": "what the providers played",
}
_COLUMNS = 3


def text(
    course: Course,
    states: tuple[State, State],
    tables: Mapping[str, Counter[str]],
    checks: Sequence[Check],
    events: int,
) -> str:
    """Return the whole report.

    :param states: before the load and after it.
    """
    parts = []
    for name, title in _TITLES.items():
        parts.append(_table(f"{title} ({sum(tables[name].values())})", tables[name]))
    parts.append(_table("what was done to the planes", course.disturbances, columns=1))
    parts.append(_state(course, *states, events))
    parts.append("\n".join(_verdict(check) for check in checks))
    return "\n\n".join(parts)


def _table(title: str, counts: Counter[str], columns: int = _COLUMNS) -> str:
    cells = [f"{count:7} {name}" for name, count in counts.most_common()]
    width = max((len(cell) for cell in cells), default=0) + 2
    lines = [
        "".join(f"{cell:{width}}" for cell in cells[at : at + columns]).rstrip()
        for at in range(0, len(cells), columns)
    ]
    return "\n".join([title, *lines])


def _state(course: Course, before: State, after: State, events: int) -> str:
    lines = ["before and after"]
    for name in ("data", "control"):
        lines.append(f"{name:8} {_sight(getattr(before, name))}")
        lines.append(f"{'':8} {_sight(getattr(after, name))}")
    for figure in (*NOTHING, "deadlines", "timers"):
        lines.append(f"{figure}: {before.gauges.get(figure):g}, {after.gauges.get(figure):g}")
    lines.append(f"{events} events in the ledger")
    lines.append(f"the data plane's memory in the last two thirds: {course.trend_kb():+.0f} KB/min")
    waited = after.data.waited_seconds - before.data.waited_seconds
    lines.append(
        f"the longest hold of its reactor: {course.worst_lag * 1000:.0f} ms; it stood in line for "
        f"a core for {waited:.1f} of {course.seconds:.0f} s"
    )
    return "\n".join(lines)


def _sight(sight: Sight) -> str:
    sockets = ", ".join(
        f"{count} {place} {state}" for (place, state), count in sorted(sight.sockets.items())
    )
    return f"{sight.rss_mb:6.1f} MB, {sight.files} files, sockets: {sockets}"


def _verdict(check: Check) -> str:
    count = f" ({check.counted})" if check.counted > 1 else ""
    if check.ok:
        return f"ok      {check.name}{count}"
    faults = "".join(f"\n          {fault}" for fault in check.faults)
    return f"FAILED  {check.name}{count}: {check.wrong}{faults}"
