"""``python -m bench quick``: whether the data plane has become grossly dearer, in ten seconds.

It needs no sockets, no nginx and no second core: exchanges in memory are measured in yards and
compared with what is kept. A bad measurement is taken again, twice and for twice as long, before
it counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import baseline, in_memory, relative
from bench.answers import WrongAnswerError
from bench.baseline import BaselineError, Change
from bench.comparison import comparison
from bench.in_memory import WrongExchangeError

#: How many times the kept figure is a gross loss. The same code took 1.42 times the yards on
#: another kind of machine than that of the kept figures, and 1.47 times where that was busy.
LIMIT = 1.75
#: How long is measured at first.
SECONDS = 7.0
#: How often that is done again, for twice as long, where something was over the limit.
MORE_TRIES = 2
#: How many times as much is borne where only another Python's figures are kept: between two builds
#: of 3.11, one optimized and one not, long bodies differ by 1.6, for they are all searching.
OTHER_PYTHON = 1.5


def main(arguments: Sequence[str]) -> int:
    """Measure, compare, and return the exit status: 1 for a gross loss or a wrong answer."""
    parser = argparse.ArgumentParser(
        prog="python -m bench quick", description=__doc__.replace("``", "")
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"({LIMIT:g})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"({SECONDS:g})")
    parser.add_argument("--baseline", type=Path, default=baseline.PATH, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        return judge(options.baseline, options.limit, options.seconds, measured)
    except (BaselineError, WrongAnswerError, WrongExchangeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


def measured(seconds: float) -> dict[str, float]:
    """Return the yards of each course."""
    return {one.name: one.yards for one in relative.measure(in_memory.courses(), seconds)}


def judge(
    path: Path, limit: float, seconds: float, measure: Callable[[float], dict[str, float]]
) -> int:
    """Compare what is measured with what is kept, and say so.

    :param measure: returns yards by course, measured for so many seconds.
    :returns: 1 where a figure is over the limit in every try, else 0
    :raises BaselineError: what is kept cannot be read
    """
    pythons = baseline.read(path)
    key = baseline.python_key()
    kin = baseline.nearest(pythons, key)
    now = measure(seconds)
    if kin is None:
        print(f"bench: {path} has nothing for {key} or its like, so nothing is compared")
        return 0
    if kin != key:
        limit *= OTHER_PYTHON
    found = _changes(now, pythons, key, kin)
    bad = over(found, limit)
    for _ in range(MORE_TRIES):
        if not bad:
            break
        names = ", ".join(change.name for change in bad)
        print(f"bench: {names} over {limit:g} x; measured again, for longer")
        again = measure(2 * seconds)
        now = {name: min(now[name], again[name]) for name in now}
        found = _changes(now, pythons, key, kin)
        bad = over(found, limit)
    print(comparison(found, key, kin, pythons[kin]))
    for change in bad:
        print(
            f"bench: {change.name} takes {change.ratio:.2f} times what it took on "
            f"{pythons[kin].measured}; more than {limit:g} is a gross loss",
            file=sys.stderr,
        )
    return 1 if bad else 0


def over(found: Sequence[Change], limit: float) -> list[Change]:
    """Return what is dearer than so many times the kept figure."""
    return [change for change in found if change.ratio > limit]


def _changes(
    yards: dict[str, float], pythons: dict[str, baseline.Kept], key: str, kin: str
) -> list[Change]:
    return list(baseline.changes(baseline.figures(yards, {}, {}), pythons[kin], kin == key))
