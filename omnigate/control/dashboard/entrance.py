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
from omnigate.writer_thread import IWriter


@attrs.frozen(eq=False)
class Entrance:
    """Pages can be made, people can be known, and signed in."""

    pages: Pages
    door: DashboardDoor
    front: Front


def make_entrance(
    admin_token: str,
    credentials: Credentials,
    now_ms: Callable[[], int],
    writer: IWriter | None = None,
) -> Entrance:
    """Make these parts; the files of the pages are read here.

    :param writer: the thread that reads the templates, once somebody wants a page; without one
        each is read where it is first wanted.
    """
    assets = Assets()
    pages = Pages(assets, now_ms, writer)
    door = DashboardDoor(SessionKeys(admin_token), credentials, pages, now_ms)
    return Entrance(pages, door, Front(door, pages, assets))
