"""What the script of the pages does, in a browser, with answers that are made up here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.assets import FOLDER
from omnigate.control.dashboard.formats import moment
from tests.browser.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Route

#: Neither TLS nor this machine, so there is no clipboard.
ORIGIN = "http://dashboard.test"

STATE = (
    '<p data-live-state="rows"><span class="live-words" role="status"></span>'
    '<button type="button" hidden>Pause</button></p>'
)
ROWS = (
    f"{STATE}<p data-live-empty='rows'>None yet</p><table><tbody data-live='rows' data-mark='1' "
    "data-max='3'><tr><td>a</td></tr></tbody></table><p data-live-full='rows' hidden>Full</p>"
)
POLLING = "Live, every 5 seconds"


def message(mark: str, html: str, mode: str = "prepend") -> str:
    return json.dumps({"mode": mode, "mark": mark, "html": html})


class ScriptCase(SynchronousTestCase):
    """A page with the script, and answers to what that asks."""

    def setUp(self) -> None:
        #: The page; before that, those in front of it.
        self.body = ""
        self.bodies: list[str] = []
        self.asked: list[str] = []
        self.status = 200
        #: What the next streams hold, then what the next polls say; the last one goes on.
        self.streams: list[str] = []
        self.polls: list[str] = []
        self.faults: list[str] = []
        context = chromium().new_context(base_url=ORIGIN, timezone_id="Asia/Kolkata")
        self.addCleanup(context.close)
        context.route("**/*", self.answer)
        self.addCleanup(context.unroute_all, behavior="ignoreErrors")
        context.set_default_timeout(20_000)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.clock.install()

    def tearDown(self) -> None:
        self.assertEqual(self.faults, [])

    def answer(self, route: Route) -> None:
        """Answer as the control plane would."""
        url = urlsplit(route.request.url)
        if url.path == "/script.js":
            script = (FOLDER / "script.js").read_text("utf-8")
            route.fulfill(content_type="text/javascript", body=script)
        elif not url.path.startswith("/live/"):
            head = '<!doctype html><meta charset="utf-8"><script src="/script.js" defer></script>'
            body = self.bodies.pop() if self.bodies else self.body
            route.fulfill(content_type="text/html", body=head + body)
        elif "once" in parse_qs(url.query):
            self.asked.append(f"poll {parse_qs(url.query).get('mark', [''])[0]}")
            told = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
            route.fulfill(status=self.status, content_type="application/json", body=told)
        else:
            self.asked.append(f"stream {parse_qs(url.query).get('mark', [''])[0]}")
            told = self.streams.pop(0) if self.streams else ""
            if told:
                route.fulfill(content_type="text/event-stream", body=f"data: {told}\n\n")
            else:
                route.fulfill(status=503, body="too many")

    def show(self, body: str, query: str = "") -> None:
        self.body = body
        self.page.goto(f"/{query}")

    def words(self) -> str:
        return self.page.locator("[role=status]").inner_text()

    def until(self, script: str) -> Any:
        """Wait until a script holds, its clock going on meanwhile."""
        for _ in range(200):
            found = self.page.evaluate(script)
            if found:
                return found
            self.page.clock.run_for(500)
        raise AssertionError(f"{script}: never; {self.asked} {self.page.content()}")

    def until_says(self, words: str) -> None:
        self.until(f"document.querySelector('[role=status]').innerText === {json.dumps(words)}")


class TimeTests(ScriptCase):
    """Times in the zone of the reader."""

    def test_a_moment(self) -> None:
        """It is shown in their zone; what is told on hover stays."""
        self.show(
            f"{moment(1_795_982_400_000)}<div class='framed'><footer class='foot'></footer></div>"
        )
        self.assertIn("times in Asia/", self.page.locator("footer").inner_text())
        shown = self.page.locator("time")
        self.assertEqual(shown.inner_text(), "2026-11-30 01:30:00")
        self.assertEqual(shown.get_attribute("title"), "2026-11-29 20:00:00 UTC")

    def test_an_axis(self) -> None:
        """Midnight there is told by its day."""
        self.show(
            '<svg><text data-time="1795982400000">20:00</text>'
            '<text data-time="1795977000000">18:30</text></svg>'
        )
        self.assertEqual(self.page.locator("text").all_text_contents(), ["01:30", "30 Nov"])


class CopyTests(ScriptCase):
    """Copying."""

    BODY = "<p class='copy'><code>sk-1</code> <button data-copy hidden>Copy</button></p>"

    def test_without_a_clipboard(self) -> None:
        """What is selected is copied; the button says so for a while."""
        self.show(f"{self.BODY}<input>")
        self.page.get_by_role("button").click()
        self.until("document.querySelector('button').innerText === 'Copied'")
        self.assertEqual(self.page.evaluate("String(window.getSelection())"), "sk-1")
        self.until("document.querySelector('button').innerText === 'Copy'")


class LiveTests(ScriptCase):
    """Parts that come up by themselves."""

    def rows(self) -> list[str]:
        return self.page.locator("td").all_text_contents()

    def test_a_stream(self) -> None:
        """New rows stand on top, the oldest go; where it ends, the next one goes on from there."""
        self.streams = [message("3", "<tr><td>c</td></tr><tr><td>b</td></tr>")]
        self.polls = [message("4", "<tr><td>d</td></tr>"), message("4", "")]
        self.show(ROWS, "?model=fast&key=")
        self.until("document.querySelectorAll('td').length === 3")
        self.until("document.querySelector('td').innerText === 'd'")
        self.assertEqual(self.rows(), ["d", "c", "b"])
        self.assertEqual(self.asked[:2], ["stream 1", "poll 3"])
        self.assertTrue(self.page.locator("[data-live-empty]").is_hidden())
        # Whoever looks for the one that went is told.
        self.assertTrue(self.page.locator("[data-live-full]").is_visible())

    def test_no_stream(self) -> None:
        """It asks from time to time, and says so; once in a while it tries a stream again."""
        self.polls = [message("1", "")]
        self.show(ROWS)
        self.until_says(POLLING)
        self.polls = [message("2", "<tr><td>b</td></tr>"), message("2", "")]
        self.until("document.querySelectorAll('td').length === 2")
        before = self.asked.count("stream 2")
        self.streams = [message("3", "<tr><td>c</td></tr>")]
        self.until("document.querySelectorAll('td').length === 3")
        self.assertEqual(self.asked.count("stream 2"), before + 1)
        self.assertTrue(self.page.locator("[data-live-full]").is_hidden())

    def test_nobody_answers(self) -> None:
        """It says so, and goes on once somebody does."""
        self.status, self.polls = 503, ["the stores are being restarted"]
        self.show(ROWS)
        self.until_says("Not connected, trying again")
        self.status, self.polls = 200, [message("2", "<tr><td>b</td></tr>"), message("2", "")]
        self.until("document.querySelectorAll('td').length === 2")
        self.until_says(POLLING)

    def test_signed_out(self) -> None:
        """The page is loaded again, which leads to the form."""
        self.status, self.polls = 401, ["sign in first"]
        self.bodies = [ROWS]
        self.body = "<h1>Sign in</h1>"
        self.page.goto("/")
        self.page.locator("h1").wait_for()

    def test_a_pause(self) -> None:
        """Nothing is asked until it goes on."""
        self.polls = [message("1", "")]
        self.show(ROWS)
        self.until_says(POLLING)
        self.page.get_by_role("button", name="Pause").click()
        self.assertEqual(self.words(), "Paused")
        asked = len(self.asked)
        self.page.clock.run_for(60_000)
        self.assertEqual(len(self.asked), asked)
        self.page.get_by_role("button", name="Go on").click()
        self.until_says(POLLING)
        self.assertGreater(len(self.asked), asked)

    def test_a_whole(self) -> None:
        """It is shown in place of what was there, times in it too, but not under one's hands."""
        self.polls = [message("1", "", "swap")]
        self.show("<div data-live='figures' data-mark='1'><a href='/x'>old</a></div><input>")
        self.page.locator("a").focus()
        self.polls = [message("2", f"<p>{moment(1_795_982_400_000)}</p>", "swap")]
        asked = len(self.asked)
        for _ in range(10):
            self.page.clock.run_for(6_000)
        self.assertGreater(len(self.asked), asked)
        self.assertEqual(self.page.locator("a").inner_text(), "old")
        self.page.locator("input").focus()
        self.until("document.querySelector('time')")
        self.assertEqual(self.page.locator("time").inner_text(), "2026-11-30 01:30:00")


class SearchTests(ScriptCase):
    """Forms of filters."""

    def test_the_address_holds_what_was_filled_in(self) -> None:
        """And nothing that was left empty; a form that is sent keeps its empty fields."""
        fields = "<input name='a' value=''><input name='b' value='x y'><button>Go</button>"
        self.show(f"<form method='get' action='/found'>{fields}</form>")
        self.page.get_by_role("button").click()
        self.page.wait_for_url("**/found**")
        self.assertEqual(urlsplit(self.page.url).query, "b=x+y")
        self.show(f"<form method='post' action='/sent'>{fields}</form>")
        with self.page.expect_request("**/sent") as sent:
            self.page.get_by_role("button").click()
        self.assertEqual(sent.value.post_data, "a=&b=x+y")
        # A context that is closed while a request of it is being answered here may never close.
        self.page.wait_for_url("**/sent")
