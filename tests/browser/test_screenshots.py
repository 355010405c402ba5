"""The pictures of the documentation: that all are there, small, and shown somewhere."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.screenshots import FOLDER, MAX_BYTES, SHOTS
from tests.process.daemons import ROOT


class ScreenshotTests(SynchronousTestCase):
    """``make screenshots`` takes them; nothing here does."""

    def test_each_is_kept_and_small(self) -> None:
        """As many files as are taken, none too large for a repository."""
        kept = {path.stem: path.stat().st_size for path in FOLDER.glob("*.png")}
        self.assertEqual(set(kept), {shot.name for shot in SHOTS})
        self.assertEqual({name: size for name, size in kept.items() if size > MAX_BYTES}, {})

    def test_each_is_shown(self) -> None:
        """Somewhere, that is in one of two files."""
        text = "".join((ROOT / name).read_text() for name in ("README.md", "docs/dashboard.md"))
        for shot in SHOTS:
            self.assertIn(f"screenshots/{shot.name}.png", text)
