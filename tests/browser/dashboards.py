"""The one dashboard that all tests of this package look at; none of them leaves it broken."""

from __future__ import annotations

from tests.browser.chromium import chromium
from tests.browser.seeding import Seeded
from tests.process.daemons import shared


def dashboard() -> Seeded:
    """Return it, with a month behind it.

    :raises SkipTest: there is no browser to look at it with.
    """
    chromium()
    gateway = shared("dashboard", lambda: Seeded().start())
    assert isinstance(gateway, Seeded)
    return gateway
