"""``python -m tests``: all tests, several parts of them at a time, as ``make test`` runs them.

Each part is a package of tests, or a module of :mod:`tests.process`, and runs in a trial of its
own. What a part says is shown whole when it ends, if it failed; of one that passed there is one
line. The status is 0 where every part passed, and 1 where one did not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

HERE: Final = Path(__file__).parent

#: More at a time gain little: few parts are long, and what they time gets less true.
MOST_JOBS: Final = 4

#: Those that take longest by far, so that they do not begin when all others have ended.
FIRST: Final = ("tests.crash", "tests.simulation", "tests.browser", "tests.ledger", "tests.planes")

#: Where trial puts what tests write, with one folder below it for each part. Not where it puts that
#: by itself, since a trial alone would find a folder there that it has not made, and end.
SCRATCH: Final = "_trial_temp-parts"

#: What takes longer than this hangs: the longest part takes four minutes on a slow machine. It is
#: ended by a signal at which Python tells where its threads are.
MOST_SECONDS: Final = 600.0

_COUNT = re.compile(rb"^Ran (\d+) tests? in ", re.MULTILINE)


@attrs.frozen
class Part:
    """Some tests that run in one trial: what trial is to be given, and what they are called."""

    name: str
    targets: tuple[str, ...]


@attrs.frozen
class Ended:
    """How a part ended.

    :ivar status: trial's; below zero the signal that ended it.
    """

    part: Part
    status: int
    output: bytes
    seconds: float

    @property
    def tests(self) -> int:
        """How many tests were run."""
        counted = _COUNT.findall(self.output)
        return int(counted[-1]) if counted else 0


def parts_below(folder: Path) -> list[Part]:
    """Return the parts that the tests in a folder fall into, in the order to run them."""
    found = []
    alone = sorted(path.stem for path in folder.glob("test_*.py"))
    if alone:
        found.append(Part("tests", tuple(f"tests.{name}" for name in alone)))
    for below in sorted(folder.iterdir()):
        modules = sorted(path.stem for path in below.glob("test_*.py")) if below.is_dir() else []
        if below.name == "process":
            # Most of them wait for processes, so one beside another costs little.
            names = [f"tests.process.{module}" for module in modules]
            found.extend(Part(name, (name,)) for name in names)
        elif modules:
            found.append(Part(f"tests.{below.name}", (f"tests.{below.name}",)))
    return sorted(found, key=lambda part: (part.name not in FIRST, "process" not in part.name))


async def run_part(part: Part, seconds: float) -> Ended:
    """Run one part to its end, or until it has taken so many seconds."""
    began = time.monotonic()
    scratch = os.path.join(SCRATCH, part.name)
    # Not a pipe, which whatever a trial that hung has left behind would hold open.
    with open(f"{scratch}.log", "w+b") as said:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-X", "faulthandler"),
            *("-m", "twisted.trial", f"--temp-directory={scratch}"),
            *part.targets,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=asyncio.subprocess.STDOUT,
        )
        end = asyncio.get_running_loop().call_later(seconds, child.send_signal, signal.SIGABRT)
        try:
            status = await child.wait()
        finally:
            end.cancel()
            # Where this ends before it: nobody would be there to read what it says.
            if child.returncode is None:
                child.terminate()
        said.seek(0)
        output = said.read()
    return Ended(part, status, output, time.monotonic() - began)


async def run_all(parts: Sequence[Part], jobs: int) -> list[Ended]:
    """Run parts, so many at a time, and tell of each that ends; return those that failed."""
    waiting = list(reversed(parts))
    failed: list[Ended] = []
    tests = done = 0

    async def work() -> None:
        nonlocal tests, done
        while waiting:
            ended = await run_part(waiting.pop(), MOST_SECONDS)
            done += 1
            tests += ended.tests
            # A part without a test is one whose tests were not found.
            good = ended.status == 0 and ended.tests > 0
            word = "passed" if good else "FAILED"
            print(
                f"[{done}/{len(parts)}] {ended.part.name}: {ended.tests} tests {word} "
                f"in {ended.seconds:.0f} s",
                flush=True,
            )
            if not good:
                failed.append(ended)
                print(ended.output.decode("utf-8", "replace"), flush=True)

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(jobs)))
    print(f"{tests} tests in {time.monotonic() - began:.0f} s, {jobs} at a time")
    return failed


def main(words: list[str] | None = None) -> int:
    """Run all tests; the status of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests", description="Runs all tests.")
    cores = len(os.sched_getaffinity(0))
    jobs = min(cores, MOST_JOBS)
    parser.add_argument("--jobs", type=int, default=jobs, help=f"how many at a time [{jobs}]")
    given = parser.parse_args(words)
    if given.jobs < 1:
        parser.error("--jobs is 1 at least")
    # In order, as Ctrl-C does it: what ends this ends the trials too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(SCRATCH)
    failed = asyncio.run(run_all(parts_below(HERE), given.jobs))
    for ended in failed:
        print(f"FAILED: {ended.part.name}; again alone: make test ARGS={ended.part.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
