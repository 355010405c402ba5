"""All templates at once."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.pages import Pages


class TemplateTests(SynchronousTestCase):
    """Those of every page, opened or not."""

    def test_each_can_be_read(self) -> None:
        """A start reads them all, so one that cannot be read would be none."""
        Pages(Assets(), lambda: 0).load()
