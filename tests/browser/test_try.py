"""A request tried in a browser: with the page's script and without."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.axe import violations
from tests.browser.chromium import chromium
from tests.browser.visit import PHONE, Visit
from tests.process.daemons import Gateway, key_of
from tests.process.test_try import config


class TryTests(SynchronousTestCase):
    """One gateway for all."""

    def setUp(self) -> None:
        chromium()
        self.gateway = Gateway(config).start()
        self.addCleanup(self.gateway.stop)

    def test_with_script(self) -> None:
        """Whole, then cut, then stopped, one after the other on one page that stays."""
        with Visit(self.gateway, size=PHONE) as visit:
            visit.sign_in()
            visit.open("/try?model=plain")
            page = visit.page
            end, send = page.locator("#try-end"), page.get_by_role("button", name="Send")
            page.get_by_label("Secret of the key").fill(key_of("app"))
            self.assertTrue(page.get_by_label("Use this one").is_checked())
            send.click()
            page.get_by_text("The answer is whole.").wait_for()
            page.get_by_role("heading", name="Price").wait_for()
            self.assertEqual(len(page.locator("#try-text").inner_text().split()), 20)
            self.assertEqual(violations(page), [])
            self.assertLessEqual(visit.width(), visit.window_width())

            page.get_by_label("Model", exact=True).fill("cut")
            send.click()
            page.get_by_text("The answer is cut.").wait_for()
            page.get_by_role("heading", name="Price").wait_for()
            self.assertNotIn("is whole", end.inner_text())

            page.get_by_label("Model", exact=True).fill("endless")
            send.click()
            page.get_by_role("button", name="Stop").click()
            page.get_by_text("You left").wait_for()
            self.assertEqual(end.inner_text(), "")
            self.assertEqual(page.url, f"{visit.origin}/try?model=plain")

    def test_a_fault(self) -> None:
        """The server's page says what is to be mended, and keeps what was written."""
        with Visit(self.gateway) as visit:
            visit.expected.add(400)
            visit.sign_in()
            visit.open("/try?model=plain")
            visit.page.get_by_label("Message").fill("Hello there")
            visit.page.get_by_label("Max output tokens").fill("many")
            visit.page.get_by_role("button", name="Send").click()
            visit.page.get_by_text("Give a whole number").wait_for()
            self.assertEqual(visit.page.get_by_label("Message").input_value(), "Hello there")

    def test_without_script(self) -> None:
        """The same form, and one whole page."""
        with Visit(self.gateway, script=False) as visit:
            visit.sign_in()
            visit.open("/try?model=plain")
            visit.page.get_by_role("button", name="Send").click()
            visit.page.get_by_role("heading", name="Price").wait_for()
            text = visit.page.locator("#try-text").inner_text()
            self.assertEqual(len(text.split()), 20)
            self.assertIn("The answer is whole.", visit.page.locator("#try-end").inner_text())
