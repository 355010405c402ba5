"""Keys are made, rotated and deleted with a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.axe import violations
from tests.browser.dashboards import dashboard
from tests.browser.visit import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Route

SECRET = re.compile(r"ogk_[0-9A-Za-z]{49}")


class KeyLifeTests(SynchronousTestCase):
    """One key from its first secret to its end."""

    def secret(self, visit: Visit) -> str:
        """The one secret that the page shows; the page is sound."""
        self.assertEqual(violations(visit.page), [])
        secrets: set[str] = set(SECRET.findall(visit.page.content()))
        (secret,) = secrets
        return secret

    def click_twice(self, visit: Visit, name: str) -> None:
        """Click, and once more while nothing was answered yet: the form is sent once."""
        sent: list[Route] = []
        page = visit.page
        page.route("**", lambda route: sent.append(route))
        button = page.get_by_role("button", name=name)
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        assert box is not None
        for clicks in (1, 2):
            page.mouse.click(box["x"] + 5, box["y"] + 5)
            while not sent and clicks == 1:
                page.wait_for_timeout(5)
        # What the second click may have sent is on its way by now.
        page.wait_for_timeout(200)
        self.assertEqual(len(sent), 1)
        sent[0].continue_()
        page.unroute("**")

    def test_by_impatient_hands(self) -> None:
        """Two clicks make one key and show its secret, which no later page does."""
        with Visit(dashboard()) as visit:
            page = visit.page
            visit.sign_in()
            visit.open("/keys/new")
            page.get_by_label("Name").fill("impatient")
            page.get_by_label("Budget in US dollars", exact=True).fill("2.50")
            page.get_by_label("Expires at (UTC)").fill("2031-01-31T12:00")
            self.click_twice(visit, "Create key")
            page.wait_for_selector("text=It is not shown again")
            first = self.secret(visit)
            page.get_by_role("link", name="To the key").click()
            page.wait_for_selector("text=Requests with it are served.")
            self.assertNotIn(first, page.content())
            page.locator("summary", has_text="Rotate").click()
            page.get_by_label("The old secret works on for").select_option("3600")
            self.click_twice(visit, "Rotate")
            page.wait_for_selector("text=The old secret works until")
            self.assertNotEqual(self.secret(visit), first)
            page.get_by_role("link", name="To the key").click()
            page.locator("summary", has_text="Delete").click()
            page.get_by_role("button", name="Delete").click()
            page.wait_for_selector("text=The key was deleted.")

    def test_faults_without_a_script(self) -> None:
        """The form comes back as it was typed, with each fault beside its field."""
        with Visit(dashboard(), script=False) as visit:
            page = visit.page
            visit.expected.add(400)
            visit.sign_in()
            visit.open("/keys/new")
            page.get_by_label("Requests a minute").fill("many")
            page.get_by_role("button", name="Create key").click()
            page.wait_for_selector("text=must be an integer")
            self.assertEqual(page.get_by_label("Requests a minute").input_value(), "many")
            self.assertEqual(page.get_by_label("Name").get_attribute("aria-invalid"), "true")
