"""The dashboard's parts that last, whatever happens to the stores."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from omnigate.control.auth import Credentials
from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.door import DashboardDoor
from omnigate.control.dashboard.front import Front
from omnigate.control.dashboard.pages import Pages
from omnigate.control.sessions import SessionKeys


@attrs.frozen(eq=False)
class Entrance:
    """Pages can be made, people can be known, and signed in."""

    pages: Pages
    door: DashboardDoor
    front: Front


def make_entrance(
    admin_token: str, credentials: Credentials, now_ms: Callable[[], int]
) -> Entrance:
    """Make these parts; the templates and the files of the pages are read here."""
    assets = Assets()
    pages = Pages(assets, now_ms)
    door = DashboardDoor(SessionKeys(admin_token), credentials, pages, now_ms)
    return Entrance(pages, door, Front(door, pages, assets))
