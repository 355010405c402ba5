"""What the dashboard is for: from a new key to its block and back, by mouse and by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.dashboards import dashboard
from tests.browser.visit import Visit
from tests.process.daemons import ADMIN_TOKEN, Answer, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator

#: How often Tab is pressed at most until something has the focus.
MOST_TABS = 120


def ask(secret: str) -> Answer:
    """Ask as an application does that has this secret."""
    body = {"model": "fast", "messages": [{"role": "user", "content": "Hello"}]}
    return dashboard().post("/v1/chat/completions", body, secret)


def asked(secret: str, status: int) -> Answer:
    """Ask until the answer has a status: data planes hear of changes within moments."""

    def answer() -> Answer | None:
        found = ask(secret)
        return found if found.status == status else None

    return wait_for(f"an answer of {status}", answer)


class StoryTests(SynchronousTestCase):
    """An operator, and an application that gets a key."""

    def setUp(self) -> None:
        self.visit = Visit(dashboard())
        self.addCleanup(self.visit.__exit__, None, None, None)
        self.page = self.visit.page

    def press(self, name: str) -> None:
        """Press a button of the page's content."""
        self.page.locator("main").get_by_role("button", name=name, exact=True).click()

    def shown_secret(self) -> str:
        """Return the secret that is shown, as the button beside it copies it."""
        self.visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
        shown = self.page.locator(".copy").first
        shown.get_by_role("button").click()
        self.page.get_by_text("Copied").first.wait_for()
        copied: str = self.visit.evaluate("navigator.clipboard.readText()")
        self.assertEqual(copied, shown.locator("code").inner_text())
        return copied

    def wait_for_text(self, path: str, text: str) -> None:
        """Load a page until it says something, as what happens takes a moment to be told."""

        def says() -> bool:
            self.visit.open(path)
            return text in self.page.locator("main").inner_text()

        wait_for(f"{path} to say {text!r}", says)

    def test_from_a_new_key_to_its_block_and_back(self) -> None:
        """All of it, with the requests coming up by themselves in another window."""
        self.visit.sign_in()
        secret = self.make_key("story")
        with Visit(dashboard()) as other:
            other.sign_in()
            other.open("/requests")
            answer = asked(secret, 200)
            row = other.page.locator(f'tbody a[href*="{answer.id}"]')
            row.wait_for()
            row.click()
            other.page.get_by_role("heading", name="Attempts").wait_for()
            self.assertTrue(other.page.get_by_role("link", name="story", exact=True).is_visible())
        self.try_it(secret)
        self.spend_the_budget(secret)
        self.rotate_and_raise(secret)
        self.page.get_by_role("button", name="Sign out").click()
        self.page.wait_for_url(f"{self.visit.origin}/sign-in")

    def make_key(self, name: str) -> str:
        """Make a key by the form; its secret."""
        self.page.get_by_role("link", name="Keys", exact=True).click()
        self.page.get_by_role("link", name="New key").click()
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Budget in US dollars", exact=True).fill("5")
        self.page.locator("main form button[type=submit]").click()
        self.page.get_by_text("It is not shown again").wait_for()
        return self.shown_secret()

    def try_it(self, secret: str) -> None:
        """Send a request from the page that is for it."""
        self.visit.open("/try?model=fast")
        self.page.get_by_label("Secret of the key").fill(secret)
        self.press("Send")
        self.page.get_by_role("heading", name="Price").wait_for()
        self.page.get_by_text("The answer is whole.").wait_for()

    def spend_the_budget(self, secret: str) -> None:
        """Lower the budget below what is spent; the block and its reason are told."""
        self.visit.open("/keys/story/edit")
        self.page.get_by_label("Budget in US dollars", exact=True).fill("0.000001")
        self.page.locator("main form button[type=submit]").click()
        self.page.get_by_text("Blocked since").wait_for()
        self.assertEqual(asked(secret, 402).code, "budget_exceeded")
        self.wait_for_text("/keys/story", "budget_exceeded")
        self.wait_for_text("/refusals?key=story", "budget_exceeded")
        self.visit.open("/keys?state=blocked")
        self.page.get_by_role("link", name="story", exact=True).wait_for()

    def rotate_and_raise(self, secret: str) -> None:
        """Give the key another secret and more money: the new one works, the old one does not."""
        self.visit.open("/keys/story")
        self.page.locator("summary", has_text="Rotate").click()
        self.page.get_by_label("The old secret works on for").select_option("0")
        self.press("Rotate")
        self.page.get_by_text("It is not shown again").wait_for()
        new = self.shown_secret()
        self.assertNotEqual(new, secret)
        self.visit.open("/keys/story/edit")
        self.page.get_by_label("Budget in US dollars", exact=True).fill("5")
        self.page.locator("main form button[type=submit]").click()
        self.page.get_by_text("Requests with it are served").wait_for()
        asked(new, 200)
        asked(secret, 401)


class KeyboardTests(SynchronousTestCase):
    """The main path without a mouse."""

    def setUp(self) -> None:
        self.visit = Visit(dashboard())
        self.addCleanup(self.visit.__exit__, None, None, None)
        self.page = self.visit.page

    def tab_to(self, target: Locator) -> None:
        """Press Tab until something has the focus."""
        target.wait_for()
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{MOST_TABS} times Tab did not lead to {target}")

    def test_a_key_is_made_and_deleted(self) -> None:
        """Tab, letters, Enter and Space do it."""
        page, keyboard = self.page, self.page.keyboard
        self.visit.open("/sign-in")
        page.locator("input[name=token]:focus").wait_for()
        keyboard.type(ADMIN_TOKEN)
        keyboard.press("Enter")
        page.wait_for_url(f"{self.visit.origin}/")
        keyboard.press("Tab")
        keyboard.press("Enter")  # the first stop skips the menu
        self.assertEqual(self.visit.evaluate("document.activeElement.id"), "main")
        page.reload()
        self.tab_to(page.get_by_role("link", name="Keys", exact=True))
        keyboard.press("Enter")
        self.tab_to(page.get_by_role("link", name="New key"))
        keyboard.press("Enter")
        self.tab_to(page.get_by_label("Name"))
        keyboard.type("by-keyboard")
        keyboard.press("Enter")
        self.tab_to(page.get_by_role("link", name="To the key"))
        keyboard.press("Enter")
        self.tab_to(page.locator("summary", has_text="Delete"))
        keyboard.press("Enter")
        self.tab_to(page.locator("main").get_by_role("button", name="Delete", exact=True))
        keyboard.press("Space")
        page.wait_for_url(f"{self.visit.origin}/keys?**")
        self.assertEqual(page.get_by_role("link", name="by-keyboard").count(), 0)
