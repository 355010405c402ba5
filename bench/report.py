"""What was measured, as one table for people and one object for programs."""

import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from bench import baseline, traffic
from bench.baseline import Kept
from bench.rounds import ALONE, GATEWAY, NGINX, Findings, Options
from bench.scenarios import SCENARIOS, Reading, Scenario
from omnigate import __version__

HEADINGS = (
    "scenario",
    "",
    "on",
    "CPU µs",
    "for each",
    "x nginx",
    "p50 ms",
    "p99 ms",
    "a second",
    "peak MB",
    "broken",
    "others",
)
MEMORY_HEADINGS = ("in memory", "", "CPU µs", "for each", "yards", "instructions")
_LEFT = (0, 1, 2, 4)  # columns of words

#: Work of others, in cores, that makes a run one to be done again.
MUCH_OTHER_WORK = 0.2


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed.

    :param ordered: the values, the smallest first; at least one.
    :param share: above 0, at most 1.
    """
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of what is there; ``None`` of nothing."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


@attrs.frozen
class Summary:
    """A scenario on a subject: the median of its rounds in every figure; ``None`` is unknown."""

    cpu_us: float | None
    p50_ms: float | None
    p99_ms: float | None
    rate: float | None
    rss_peak_mb: float | None
    broken: int
    other_cores: float | None

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> "Summary":
        """Sum up the rounds."""

        def each(figure: Callable[[Reading], float]) -> float | None:
            return median(figure(one) for one in readings if one.delays_ms)

        return cls(
            cpu_us=median(one.cpu_us for one in readings),
            p50_ms=each(lambda one: percentile(one.delays_ms, 0.50)),
            p99_ms=each(lambda one: percentile(one.delays_ms, 0.99)),
            rate=each(lambda one: one.units / one.seconds),
            rss_peak_mb=median(one.rss_peak_mb for one in readings),
            broken=sum(one.broken for one in readings),
            other_cores=each(lambda one: one.other_cores),
        )


Summaries = Mapping[tuple[str, str], Summary]


def summaries(findings: Findings) -> dict[tuple[str, str], Summary]:
    """Return the summary of each scenario on each subject."""
    return {name: Summary.of(readings) for name, readings in findings.readings.items()}


def ratio(findings: Findings, scenario: str) -> float | None:
    """Return how many times nginx's processor time the gateway takes.

    That is the median of the rounds' ratios, each of figures that are seconds apart: the machine
    may have drifted between the rounds.
    """
    rounds = zip(
        findings.readings.get((scenario, GATEWAY), ()),
        findings.readings.get((scenario, NGINX), ()),
        strict=False,  # a run that broke has a reading without its other
    )
    return median(
        ours.cpu_us / floor.cpu_us for ours, floor in rounds if ours.cpu_us and floor.cpu_us
    )


def added_ms(rows: Summaries, scenario: str) -> float | None:
    """Return by how much the gateway delays the median answer."""
    ours, alone = rows.get((scenario, GATEWAY)), rows.get((scenario, ALONE))
    if ours is None or alone is None or ours.p50_ms is None or alone.p50_ms is None:
        return None
    return ours.p50_ms - alone.p50_ms


def text_report(findings: Findings, options: Options) -> str:
    """Return the table, and below it what fits into no table."""
    rows = summaries(findings)
    lines = [memory_table(findings), ""] if findings.yards else []
    lines += [table(HEADINGS, list(_rows(findings, rows)), _LEFT)] if rows else []
    lines += ["", *_facts(findings, rows)]
    lines += [f"Note: {note}." for note in (*findings.notes, *_noise(rows))]
    if findings.readings or findings.starts or not findings.yards:
        lines.append(_conditions(findings, options))
    return "\n".join(lines).strip("\n")


def memory_table(findings: Findings) -> str:
    """Return what exchanges without sockets take."""
    counts = findings.instructions
    rows = [
        (
            one.name,
            one.title,
            figure(one.cpu_us),
            one.unit,
            figure(one.yards),
            f"{counts[one.name]:,.0f}" if one.name in counts else "",
        )
        for one in findings.yards
    ]
    return table(MEMORY_HEADINGS, rows, (0, 1, 3))


def kept_figures(findings: Findings) -> Kept:
    """Return those figures that can be compared with other days."""
    names = dict.fromkeys(name for name, _ in findings.readings)
    ratios = {name: ratio(findings, name) for name in names}
    return baseline.figures(
        {one.name: one.yards for one in findings.yards},
        findings.instructions,
        {name: found for name, found in ratios.items() if found is not None},
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Set rows under their headings.

    :param left: the columns that are set to the left; the others are numbers.
    """
    cells = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([line(cells[0]), "-" * len(line(cells[0])), *map(line, cells[1:])])


def document(findings: Findings, options: Options) -> dict[str, Any]:
    """Return everything, every round of it, for a program to read."""
    rows = summaries(findings)
    measured: dict[str, Any] = {}
    for scenario in SCENARIOS:
        subjects = {
            subject: {
                **attrs.asdict(summary),
                "rounds": [
                    attrs.asdict(Summary.of([reading])) | {"units": reading.units}
                    for reading in findings.readings[name, subject]
                ],
            }
            for (name, subject), summary in rows.items()
            if name == scenario.name
        }
        if subjects:
            measured[scenario.name] = {
                "title": scenario.title,
                "unit": scenario.unit,
                "cpu_ratio_to_nginx": ratio(findings, scenario.name),
                "added_p50_ms": added_ms(rows, scenario.name),
                "subjects": subjects,
            }
    return {
        "omnigate": __version__,
        "python": platform.python_version(),
        "machine": {"cores": os.cpu_count(), "pinned": findings.cores.gateway is not None},
        "options": attrs.asdict(options),
        "scenarios": measured,
        "first_answer_seconds": findings.starts,
        "idle_mb": findings.idle_mb,
        "control_cpu_us_per_event": findings.control_us,
        "memory": [attrs.asdict(one) for one in findings.yards],
        "instructions": findings.instructions,
        "notes": findings.notes,
        "faults": findings.faults,
    }


def _rows(findings: Findings, rows: Summaries) -> Iterable[list[str]]:
    for scenario in SCENARIOS:
        words = (scenario.name, scenario.title)
        for subject in (GATEWAY, NGINX, ALONE):
            summary = rows.get((scenario.name, subject))
            if summary is not None:
                yield [*words, *_row(scenario, subject, summary, ratio(findings, scenario.name))]
                words = ("", "")


def _row(
    scenario: Scenario, subject: str, summary: Summary, times_nginx: float | None
) -> list[str]:
    return [
        subject,
        figure(summary.cpu_us),
        scenario.unit if summary.cpu_us is not None else "",
        figure(times_nginx if subject == GATEWAY else None),
        figure(summary.p50_ms, 3),
        figure(summary.p99_ms, 3),
        figure(summary.rate, 2),
        figure(summary.rss_peak_mb, 3),
        str(summary.broken),
        "" if summary.other_cores is None else f"{summary.other_cores:.1f}",
    ]


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with so many digits that mean something, and nothing for none."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


#: What costs how many times something else on the gateway: both are scenarios.
_TIMES = {
    "TLS on both sides": ("tls32", "chat32"),
    "A translated request": ("xlate32", "chat32"),
    "A translated event": ("xstream32", "stream32"),
}


def _times(rows: Summaries, over: str, of: str) -> float | None:
    one, other = rows.get((over, GATEWAY)), rows.get((of, GATEWAY))
    if one is None or other is None or not one.cpu_us or not other.cpu_us:
        return None
    return one.cpu_us / other.cpu_us


def _facts(findings: Findings, rows: Summaries) -> Iterable[str]:
    if findings.starts:
        yield (
            f"From start to the first answered request: {_spread(findings.starts)} s. "
            f"Memory idle: {_spread(findings.idle_mb)} MB."
        )
    for name, (over, of) in _TIMES.items():
        times = _times(rows, over, of)
        if times is not None:
            yield f"{name} takes {times:.2f} times the processor time."
    for scenario in SCENARIOS:
        added = added_ms(rows, scenario.name)
        if added is not None:
            of = "event" if scenario.kind in traffic.PACES else "request"
            yield f"Added to the median {of} of {scenario.name}: {added:.2f} ms."
    if findings.booked is not None:
        yield (
            f"In the ledger, as served: {findings.booked}. The control plane's share: "
            f"{_spread(findings.control_us)} µs of CPU an event."
        )


def _noise(rows: Summaries) -> Iterable[str]:
    """Say so where the machine had much else to do."""
    most = max((row.other_cores or 0.0 for row in rows.values()), default=0.0)
    if most > MUCH_OTHER_WORK:
        yield (
            f"other programs took up to {most:.1f} cores (others), so processor time may be too "
            "high and delays mean little; run it again when less is going on"
        )


def _spread(values: Sequence[float]) -> str:
    """Return median, least and most, for figures that differ from round to round."""
    text = figure(statistics.median(values))
    if len(values) > 1:
        text += f" ({figure(min(values))} to {figure(max(values))})"
    return text


def _conditions(findings: Findings, options: Options) -> str:
    pinned = findings.cores.gateway is not None
    cores = "the gateway and nginx on a core of their own" if pinned else "nothing pinned"
    if options.workers > 1:
        cores += f", {options.workers} workers"
    done = max([len(found) for found in findings.readings.values()], default=len(findings.starts))
    return (
        f"Medians of {done} {'round' if done == 1 else 'rounds'}, loads of {options.seconds:g} s; "
        f"{os.cpu_count()} cores, {cores}; omnigate {__version__}, "
        f"Python {platform.python_version()}."
    )
