"""Every answer is billed once and exactly, whatever goes wrong: runs by the thousand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from tests.simulation import limits
from tests.simulation.runner import Stage, Tally

ROOT = Path(__file__).resolve().parent.parent.parent

#: How many runs each of the four quarters plays; ``make soak`` plays as many as one likes.
QUARTER = 250


class StageTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        folder = self.mktemp()
        os.mkdir(folder)
        self.stage = Stage(folder)
        self.addCleanup(self.stage.close)


class QuarterTests(StageTestCase):
    """The first quarter of the runs."""

    quarter: ClassVar[int] = 0

    def test_every_answer_is_billed_once(self) -> None:
        """Whatever fails: figures, sums, budgets; and only what must be is excused."""
        tally = Tally()
        first = self.quarter * QUARTER
        for seed in range(first, first + QUARTER):
            story = self.stage.play(seed)
            self.assertEqual([], self.flushLoggedErrors(), f"run {seed}")
            excused = story.bill.excused
            if not story.mishaps.power_lost:
                self.assertEqual(0, excused.unsynced, f"run {seed}")
            if not story.mishaps.disk_filled:
                self.assertEqual(0, excused.unwritten, f"run {seed}")
            tally.count(story)
        # What never happens is not tested.
        self.assertGreater(tally.events, 5 * QUARTER)
        self.assertGreater(tally.faults, QUARTER // 2)
        self.assertGreater(tally.blocked_polls, QUARTER // 4)
        self.assertGreater(tally.under_way, 0)
        self.assertGreater(tally.unsynced, 0)
        self.assertGreater(tally.unwritten, 0)


class SecondQuarterTests(QuarterTests):
    """The second."""

    quarter = 1


class ThirdQuarterTests(QuarterTests):
    """The third."""

    quarter = 2


class LastQuarterTests(QuarterTests):
    """The last."""

    quarter = 3


class LimitsTests(SynchronousTestCase):
    """Bounds that runs make small."""

    def test_all_are_there(self) -> None:
        """A bound that was moved or renamed is to be followed, or runs would never come to it."""
        self.assertEqual([], limits.missing())


class SeedTests(StageTestCase):
    """A run is made from its seed and nothing else."""

    SEEDS = range(3000, 3012)

    def digests(self) -> list[str]:
        return [self.stage.play(seed).world.trace.digest() for seed in self.SEEDS]

    def test_same_seed_same_history(self) -> None:
        """Twice in one process, after whatever ran before."""
        self.assertEqual(self.digests(), self.digests())

    def test_other_process_same_history(self) -> None:
        """In processes that hash strings otherwise."""
        here = self.digests()
        code = (
            "import sys, tempfile\n"
            "from tests.simulation.runner import Stage\n"
            "stage = Stage(tempfile.mkdtemp(dir=sys.argv[1]))\n"
            f"for seed in range({self.SEEDS.start}, {self.SEEDS.stop}):\n"
            "    print(stage.play(seed).world.trace.digest())\n"
        )
        for hash_seed in ("1", "2"):
            told = subprocess.run(
                [sys.executable, "-c", code, os.path.abspath(self.mktemp_folder())],
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                check=True,
                timeout=300,
            )
            self.assertEqual(here, told.stdout.decode().split())

    def mktemp_folder(self) -> str:
        folder: str = self.mktemp()
        os.mkdir(folder)
        return folder
