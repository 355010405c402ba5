"""``python -m tests.browser.screenshots``: takes the pictures of ``docs/screenshots`` anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import attrs

from tests.browser.chromium import started
from tests.browser.seeding import Seeded
from tests.browser.visit import WIDE, Theme, Visit
from tests.process.daemons import ROOT

FOLDER: Final = ROOT / "docs" / "screenshots"

#: They are in the repository, and a page of the manual shows several.
MAX_BYTES: Final = 150 * 1024

TABLET: Final = (800, 900)


@attrs.frozen
class Shot:
    """One picture.

    :ivar name: of its file, without the suffix.
    :ivar path: what is opened; ``{request}`` is a request that fell over to another upstream.
    """

    name: str
    path: str
    size: tuple[int, int] = WIDE
    theme: Theme = "light"


SHOTS: Final = (
    Shot("overview", "/"),
    Shot("overview-dark", "/", theme="dark"),
)


def take(gateway: Seeded, folder: Path) -> None:
    """Take all pictures, as somebody who may change things.

    :raises AssertionError: the browser complained of something.
    """
    folder.mkdir(exist_ok=True)
    request = gateway.fallen_over()
    with started() as browser:
        for shot in SHOTS:
            visit = Visit(gateway, size=shot.size, theme=shot.theme, browser=browser)
            with visit:
                visit.sign_in()
                visit.open(shot.path.format(request=request))
                visit.page.evaluate("document.fonts.ready")
                visit.page.screenshot(path=folder / f"{shot.name}.png", animations="disabled")


def main() -> int:
    """Take them into the documentation."""
    gateway = Seeded().start()
    try:
        take(gateway, FOLDER)
    finally:
        gateway.stop()
    for path in sorted(FOLDER.glob("*.png")):
        print(f"{path.stat().st_size:7} {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
