"""``python -m tests.browser.screenshots``: takes the pictures of ``docs/screenshots`` anew."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Final

import attrs

from tests.browser import world
from tests.browser.chromium import started
from tests.browser.png import reduced
from tests.browser.seeding import Seeded
from tests.browser.visit import Theme, Visit
from tests.process.daemons import ROOT, wait_for

FOLDER: Final = ROOT / "docs" / "screenshots"

#: They are in the repository, and a page of the manual shows several.
MAX_BYTES: Final = 150 * 1024

#: Requests that a data plane serves before the first picture, whose waiting times are shown.
TRAFFIC: Final = 12

#: Those of media jobs; others than on the screen are not loaded.
_PICTURES_ARE_THERE: Final = """() => Array.from(document.images)
  .filter(image => image.getBoundingClientRect().bottom < innerHeight)
  .every(image => image.complete)"""


@attrs.frozen
class Shot:
    """One picture.

    :ivar name: of its file, without the suffix.
    :ivar path: what is opened; ``{request}`` is a request that fell over to another upstream,
        ``{done}`` a media job.
    """

    name: str
    path: str
    size: tuple[int, int]
    theme: Theme = "light"


SHOTS: Final = (
    Shot("overview", "/", (1280, 1500)),
    Shot("overview-dark", "/", (1280, 1500), "dark"),
    Shot("overview-phone", "/", (360, 1100)),
    Shot("requests", "/requests?status=failed", (1280, 1000)),
    Shot("requests-tablet", "/requests", (800, 900)),
    Shot("request", "/requests/one?id={request}", (1280, 1250)),
    Shot("jobs", "/jobs", (1280, 830)),
    Shot("job", "/jobs/{done}", (1280, 1250)),
    Shot("keys", "/keys", (1280, 830)),
    Shot("key", "/keys/support-bot", (1280, 1300)),
    Shot("models", "/models", (1280, 900)),
    Shot("usage", "/usage", (1280, 1160)),
    Shot("try", "/try?model=fast", (1280, 1100)),
)


def take(gateway: Seeded, folder: Path) -> None:
    """Take all pictures, as somebody who may change things, with some traffic behind them.

    :raises AssertionError: the browser complained of something.
    """
    folder.mkdir(exist_ok=True)
    request = gateway.fallen_over()
    dice = Random("traffic")
    for _ in range(TRAFFIC):
        team = dice.choice(world.TEAMS)
        gateway.request_of(team, dice.choice(list(team.models)))
    with started() as browser:
        blank = browser.new_page()
        with Visit(gateway, browser=browser) as visit:
            visit.sign_in()
            wait_for("waiting times", lambda: _has_waiting_times(visit))
        for shot in SHOTS:
            visit = Visit(gateway, size=shot.size, theme=shot.theme, browser=browser)
            with visit:
                visit.sign_in()
                visit.open(shot.path.format(request=request, **gateway.jobs))
                if shot.name == "try":
                    visit.page.get_by_role("button", name="Send").click()
                    visit.page.get_by_role("heading", name="Price").wait_for()
                visit.page.wait_for_function(_PICTURES_ARE_THERE)
                for live in visit.page.locator(".live-words").all():
                    live.filter(has_text="Live").wait_for()
                png = visit.page.screenshot(animations="disabled")
            (folder / f"{shot.name}.png").write_bytes(reduced(blank, png))


def _has_waiting_times(visit: Visit) -> bool:
    """Whether the data plane has told how long clients waited, as it does every few seconds."""
    visit.open("/")
    return visit.page.get_by_text("No streamed request").count() == 0


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
