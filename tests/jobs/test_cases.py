"""The golden cases are whole, and those that were agreed on."""

import os
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.jobs.cases import FOLDER, every_case


class Files(SynchronousTestCase):
    """The files."""

    def test_they_are_the_ones_agreed_on(self) -> None:
        """Where the originals are at hand, the copies are equal to them, byte for byte."""
        shared = os.environ.get("OMNIGATE_TEST_SHARED")
        if not shared:
            raise SkipTest("OMNIGATE_TEST_SHARED names no folder with the originals")
        originals = Path(shared) / "reference" / "media-vectors"
        self.assertEqual(_contents(FOLDER), _contents(originals))

    def test_every_case_has_a_name_of_its_own(self) -> None:
        """So a failure tells which one it is."""
        names = [case.id for case in every_case()]
        self.assertEqual(len(set(names)), len(names))
        self.assertGreater(len(names), 70)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}
