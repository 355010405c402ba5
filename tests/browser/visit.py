"""One person at one browser, and everything that is not right with what the browser is shown."""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.browser.chromium import chromium
from tests.process.daemons import ADMIN_TOKEN, SECONDS, Gateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Request, Response

Theme = Literal["light", "dark"]

#: The height matters for screenshots alone.
WIDE: Final = (1280, 800)
PHONE: Final = (360, 740)

#: What a browser says of each answer that is an error; which of them are meant is known here.
_STATUS: Final = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


class Visit:
    """A browser without a past, at the dashboard of a control plane.

    Whatever the browser complains of is kept, and :meth:`check` fails for it: a line in the
    console, a request that failed or went elsewhere, a page with an error that nobody expected. So
    is what the planes' logs tell of faults of their own.

    :param script: whether the browser is to run scripts.
    :ivar runs_scripts: whether the browser does.
    :ivar expected: statuses of errors that belong to the test.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        size: tuple[int, int] = WIDE,
        theme: Theme = "light",
        script: bool = True,
        browser: Browser | None = None,
    ) -> None:
        self._gateway = gateway
        self.origin = f"http://127.0.0.1:{gateway.control_port}"
        self.runs_scripts = script
        self.faults: list[str] = []
        self.expected: set[int] = set()
        self.context = (browser or chromium()).new_context(
            base_url=self.origin,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            java_script_enabled=script,
            locale="en-GB",
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(SECONDS * 1000)
        self.page = page = self.context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("request", self._asked)
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def __enter__(self) -> Visit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.context.close()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Hold that there was nothing to complain of.

        :raises AssertionError: there was.
        """
        faults = [*self.faults, *self._gateway.traces()]
        if faults:
            raise AssertionError("\n".join(faults))

    def sign_in(self, token: str = ADMIN_TOKEN) -> None:
        """Sign in by the form, and be on the first page."""
        self.page.goto("/sign-in")
        self.page.get_by_label("token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.origin}/")

    def open(self, path: str, status: int = 200) -> None:
        """Open a page, and wait until it is there with all that belongs to it.

        :raises AssertionError: it is answered with another status.
        """
        expected = self.expected
        self.expected = {*expected, status}
        answer = self.page.goto(path)
        self.expected = expected
        if answer is None or answer.status != status:
            raise AssertionError(f"{path}: {answer and answer.status}")

    def width(self) -> int:
        """Return how wide the page is, in pixels: more than the window where it scrolls."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth")
        return width

    def window_width(self) -> int:
        """Return how wide the window is, in pixels."""
        size = self.page.viewport_size
        assert size is not None
        return size["width"]

    def give_cookie(self, name: str, value: str) -> None:
        """Put a cookie into the browser, as if the control plane had set it."""
        self.context.add_cookies([{"name": name, "value": value, "url": self.origin}])

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Run a script in the page, and return what it gives.

        It works where the browser runs no scripts, but for what waits: that would wait for ever.
        """
        return self.page.evaluate(script, argument)

    # -- what the browser tells

    def _said(self, message: ConsoleMessage) -> None:
        status = _STATUS.match(message.text)
        if status is not None and int(status[1]) in self.expected:
            return
        if message.type in ("error", "warning"):
            self.faults.append(f"{self.page.url}: {message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.faults.append(f"{self.page.url}: asked {request.url}")

    def _failed(self, request: Request) -> None:
        # A page that is left ends what it still waits for, such as its stream of events.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"{self.page.url}: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.faults.append(f"{self.page.url}: {response.url}: {response.status}")
