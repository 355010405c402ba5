"""``python -m bench dashboard``: how long each page of the dashboard takes, and holds its reactor.

Over a million usage events of a thousand keys and a month, as the admin API is measured by
``python -m bench admin``. A page has 300 ms for all of its steps together, and 20 ms for the
longest of them. Processor time of the thread is measured, so other load does little to it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from bench.dashboard_plane import DashboardPlane, Size, Took
from omnigate.collector import set_apart
from omnigate.control.auth import PEOPLE
from omnigate.control.routes import Endpoint, audience_of

#: What a page may take altogether, and its longest step, in milliseconds of processor time.
PAGE_MS: Final = 300.0
HOLD_MS: Final = 20.0

RUNS: Final = 5

#: A name for the open segment of a path, by what comes before it.
NAMES: Final = {
    "keys": "key-7",
    "admin-keys": "",
    "models": "model-7",
    "config": "1",
    "live": "",
    "jobs": "{job}",
    # Files that are not there.
    "job-files": "",
}

#: Pages that are nothing without a parameter.
WHOLE: Final = {
    "/models/one": "/models/one?model=model-7",
    "/models/upstream": "/models/upstream?name=upstream-3",
    "/requests/one": "/requests/one?id=event-{last}",
}

#: Pages with their filters set, which may cost more than those without.
FILTERED: Final = (
    "/keys?q=9&state=blocked&order=spent",
    "/keys?page=9",
    "/audit?actor=nobody",
    "/refusals?key=key-7",
    "/requests?key=key-7",
    "/requests?model=no-such-model",
    "/requests/one?id=event-0",
    "/usage?by=key&period=all",
    "/?hours=24",
    "/jobs?status=failed&key=key-7",
    "/jobs?model=no-such-model",
    "/jobs?model=film&status=failed&key=key-9",
    "/live/jobs?once=1",
    "/live/overview?once=1",
    "/live/requests?once=1",
)


@attrs.frozen
class Row:
    """What some runs of one page took."""

    what: str
    status: int
    median_ms: float
    longest_ms: float
    hold_ms: float
    size: int

    @property
    def is_over(self) -> bool:
        """Whether it is over one of its bars, or no page at all."""
        return self.status != 200 or self.longest_ms > PAGE_MS or self.hold_ms > HOLD_MS


def targets(endpoints: Iterable[Endpoint], events: int, job: str) -> Iterator[str]:
    """Yield every page that people have, and those of :data:`FILTERED`.

    :param job: the id of a media job.
    """
    last = events - 1
    for endpoint in endpoints:
        if endpoint.method == "GET" and audience_of(endpoint.pattern) == PEOPLE:
            head, opened, rest = endpoint.pattern.partition("{")
            if not opened:
                yield WHOLE.get(endpoint.pattern, endpoint.pattern).format(last=last)
                continue
            name = NAMES[head.split("/")[1]].format(last=last, job=job)
            if name:
                yield f"{head}{name}{rest.partition('}')[2]}"
    yield from FILTERED


def measure(plane: DashboardPlane, runs: int) -> list[Row]:
    """Ask for every page, once to warm up and then so many times."""
    found = []
    for target in targets(plane.endpoints, plane.size.events, plane.job_id):
        plane.ask(target)
        found.append(_row([plane.ask(target) for _ in range(runs)]))
    return found


def _row(took: list[Took]) -> Row:
    """Sum runs up; of the longest steps the one in the middle counts, as one may have bad luck."""
    wholes = [each.whole_ms for each in took]
    holds = [each.hold_ms for each in took]
    first = took[0]
    return Row(first.what, first.status, median(wholes), max(wholes), median(holds), first.size)


def main(arguments: list[str]) -> int:
    """Measure, print a table, and return the exit status.

    :returns: 1 when a page is over a bar.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench dashboard",
        description="Measures how long pages of the dashboard take over a million events, and "
        "hold up others.",
    )
    size = Size()
    parser.add_argument("--events", type=int, default=size.events, help="(1000000)")
    parser.add_argument("--keys", type=int, default=size.keys, help="gateway keys (1000)")
    parser.add_argument("--jobs", type=int, default=size.jobs, help="media jobs (100000)")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each page (5)")
    options = parser.parse_args(arguments)
    size = attrs.evolve(size, events=options.events, keys=options.keys, jobs=options.jobs)
    print(f"recording {size.events} events of {size.keys} keys, {size.jobs} jobs", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="omnigate-bench-") as folder:
        plane = DashboardPlane(Path(folder), size)
        set_apart()
        found = measure(plane, options.runs)
        plane.close()
    print(f"{'median ms':>9} {'longest':>8} {'hold ms':>8} {'bytes':>8}  page")
    for row in found:
        over = "  OVER" if row.is_over else ""
        print(
            f"{row.median_ms:9.1f} {row.longest_ms:8.1f} {row.hold_ms:8.1f} {row.size:8}  "
            f"{row.what}{over}"
        )
    over_bars = sum(row.is_over for row in found)
    print(f"{len(found)} pages, {over_bars} over {PAGE_MS:g} ms or held over {HOLD_MS:g} ms")
    return 1 if over_bars else 0
