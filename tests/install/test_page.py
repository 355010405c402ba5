"""Blocks of commands and their marks, and that the page on operations has no block without one."""

import subprocess
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.install.checks import CHECKS
from tests.install.page import Block, PageError, blocks_of
from tests.test_docs import DOCS


class PageTests(SynchronousTestCase):
    """Pages of a few lines."""

    def test_blocks(self) -> None:
        """Names, commands, promises and statuses."""
        page = (
            "# Page\n\nText\n\n<!-- run: first -->\n\n    one  # → done\n\n      two\n\nText\n\n"
            "<!-- not run: why -->\n\n    three\n<!-- run: last one (status 0 or 1) -->\n    four\n"
        )
        self.assertEqual(
            blocks_of(page),
            [
                Block("first", "one  # → done\n\n  two\n", ("done",)),
                Block("", "three\n", ()),
                Block("last one", "four\n", (), (0, 1)),
            ],
        )

    def test_marks_that_are_lost(self) -> None:
        """A block without a mark, a mark without a block, and two marks are faults."""
        for page in (
            "Text\n\n    one\n",
            "<!-- run: a -->\n\nText\n\n    one\n",
            "<!-- run: a -->\n<!-- run: b -->\n    one\n",
            "Text\n\n<!-- run: a -->\n",
        ):
            self.assertRaises(PageError, blocks_of, page)


class OperationsTests(SynchronousTestCase):
    """The page itself."""

    def setUp(self) -> None:
        if not DOCS.is_dir():
            raise SkipTest("the pages are in the checkout only, not in the installed package")
        self.blocks = blocks_of((DOCS / "operations.md").read_text())

    def test_every_block_is_marked(self) -> None:
        """What is run has a name of its own, and every check belongs to a name."""
        names = [block.name for block in self.blocks if block.name]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(set(CHECKS) - set(names)), [])

    def test_every_block_is_a_script(self) -> None:
        """A shell can read what is run."""
        for block in self.blocks:
            if block.name:
                done: Any = subprocess.run(
                    ["bash", "-n"], input=block.commands, text=True, capture_output=True, timeout=20
                )
                self.assertEqual(done.returncode, 0, f"{block.name}: {done.stderr}")
