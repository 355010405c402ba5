"""``python -m tests.browser.look / /keys``: pictures of pages, for whoever works on them.

Of a dashboard that ``python -m tests.browser.seeding`` has started, or of one of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, cast

from tests.browser.chromium import started
from tests.browser.seeding import Seeded
from tests.browser.visit import Theme, Visit
from tests.process.daemons import ADMIN_TOKEN, Gateway


class _Running:
    """Stands in for a gateway that somebody else has started."""

    def __init__(self, control_port: int) -> None:
        self.control_port = control_port

    def traces(self) -> list[str]:
        return []


def main() -> int:
    """Take the pictures; 1 where the browser complained of something."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.look", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="such as /keys")
    parser.add_argument("--port", type=int, help="of a control plane that runs (one of its own)")
    parser.add_argument("--into", type=Path, default=Path("/tmp/look"), help="a folder (/tmp/look)")
    parser.add_argument("--widths", default="1280", help="in pixels, such as 1280,800,360 (1280)")
    parser.add_argument("--themes", default="light", help="light,dark (light)")
    parser.add_argument("--token", default=ADMIN_TOKEN)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    gateway: Any = _Running(options.port) if options.port else Seeded().start()
    try:
        return _take(cast(Gateway, gateway), options)
    finally:
        if not options.port:
            gateway.stop()


def _take(gateway: Gateway, options: argparse.Namespace) -> int:
    faults: list[str] = []
    with started() as browser:
        for theme in options.themes.split(","):
            for width in map(int, options.widths.split(",")):
                size = (width, 800)
                visit = Visit(gateway, size=size, theme=cast(Theme, theme), browser=browser)
                visit.sign_in(options.token)
                for path in options.paths:
                    visit.page.goto(path)
                    name = path.strip("/").replace("/", "-").partition("?")[0] or "overview"
                    place = options.into / f"{name}-{width}-{theme}.png"
                    visit.page.screenshot(path=place, full_page=True)
                    wide = visit.width()
                    print(place, f"{wide} px wide" if wide > width else "")
                faults += visit.faults
                visit.context.close()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
