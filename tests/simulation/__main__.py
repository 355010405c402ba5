"""``python -m tests.simulation``: plays runs for as long as one likes, or one again.

The end is 0 where everything held in all of them, 1 where something did not, and 2 where the
arguments make no sense.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import Any

from twisted.logger import ILogObserver, globalLogBeginner
from zope.interface import implementer

from tests.simulation.runner import FailedRunError, Stage, Tally

#: Seconds between two lines that tell how far it is.
PROGRESS_SECONDS = 5.0

#: The words of a failed run that are shown: its last ones tell why.
SHOWN_LINES = 60


def main(words: list[str] | None = None) -> int:
    """Play what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Plays runs of both planes on a simulated network, clock and disk, and asks"
        " after each whether every answer is billed once and exactly.",
    )
    parser.add_argument("--seed", type=int, help="play this one run and tell all that happens")
    parser.add_argument("--first", type=int, default=0, help="the first seed [0]")
    parser.add_argument("--runs", type=int, help="how many runs [2000]")
    parser.add_argument("--minutes", type=float, help="play for so long instead")
    given = parser.parse_args(words)
    globalLogBeginner.beginLoggingTo([_unheard], redirectStandardIO=False)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder)
        try:
            if given.seed is not None:
                return _one(stage, given.seed)
            return _many(stage, given.first, given.runs, given.minutes)
        finally:
            stage.close()


@implementer(ILogObserver)
def _unheard(event: Any) -> None:
    """Take what a run logs: thousands of outages, all of them meant."""


def _one(stage: Stage, seed: int) -> int:
    """Play one run and show it."""
    story = stage.story(seed, keeps_trace=True)
    try:
        story.play()
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    else:
        failed = ""
    print("\n".join(story.world.trace.lines or ()))
    print(f"digest {story.world.trace.digest()}")
    print(failed or "everything held")
    return 1 if failed else 0


def _many(stage: Stage, first: int, runs: int | None, minutes: float | None) -> int:
    """Play one run after the other until one fails."""
    began = told = time.monotonic()
    until = float("inf") if minutes is None else began + minutes * 60
    last = first + (runs if runs is not None else 2000 if minutes is None else sys.maxsize)
    tally = Tally()
    seed = first
    while seed < last and time.monotonic() < until:
        try:
            tally.count(stage.play(seed))
        except FailedRunError as error:
            story = stage.story(seed, keeps_trace=True)
            try:
                story.play()
            except Exception:
                pass
            print("\n".join((story.world.trace.lines or [])[-SHOWN_LINES:]))
            print(error)
            return 1
        seed += 1
        now = time.monotonic()
        if now - told > PROGRESS_SECONDS:
            told = now
            print(_progress(tally, now - began), flush=True)
    print(_progress(tally, time.monotonic() - began))
    print(f"everything held, seeds {first} to {seed - 1}")
    return 0


def _progress(tally: Tally, seconds: float) -> str:
    return (
        f"{tally.runs} runs in {seconds:.0f} s: {tally.requests} requests, {tally.faults} faults,"
        f" {tally.events} events billed; excused: {tally.under_way} under way,"
        f" {tally.unsynced} unsynced in {tally.powerless} power losses,"
        f" {tally.unwritten} unwritten on {tally.filled} full disks;"
        f" a key blocked in {tally.blocked_polls} of {tally.polls} polls"
    )


if __name__ == "__main__":
    sys.exit(main())
