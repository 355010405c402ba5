"""A headless Chromium of this machine, driven by playwright; without either, tests are skipped."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from twisted.trial.unittest import SkipTest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Says where the browser is, if it is not on the path.
VARIABLE: Final = "OMNIGATE_TEST_CHROMIUM"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")

_running: list[Browser] = []


def find_chromium() -> str | None:
    """Return the path of the browser, if there is one."""
    named = os.environ.get(VARIABLE)
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser.

    :raises SkipTest: it is not there, or playwright is not.
    """
    path = find_chromium()
    if path is None:
        raise SkipTest(f"there is no {', '.join(NAMES)}; {VARIABLE} may say where one is")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SkipTest("playwright is not installed; the extra dev has it") from None
    # Root has no sandbox, and containers have little shared memory. All else is loopback.
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


def chromium() -> Browser:
    """Return the one browser of all tests of this process, which ends with it.

    :raises SkipTest: see :func:`started`.
    """
    if not _running:
        start = started()
        _running.append(start.__enter__())
        atexit.register(start.__exit__, None, None, None)
    return _running[0]
