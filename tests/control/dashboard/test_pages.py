"""What every template is held to."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import PEOPLE
from omnigate.control.dashboard.alerts import Alert, alerts_of
from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.pages import FOLDER, MENU, Pages
from omnigate.control.routes import AUDIENCES
from tests.control.plane import Plane


class TemplateTests(SynchronousTestCase):
    """Every file there is."""

    def test_each_can_be_read(self) -> None:
        """It is a template, and uses no filter that there is not."""
        Pages(Assets(), lambda: 0).load()

    def test_none_needs_what_the_policy_forbids(self) -> None:
        """No style, no script and no handler stands in a page, and nothing is unescaped."""
        for path in sorted(FOLDER.iterdir()):
            text = path.read_text(encoding="utf-8")
            for pattern in (
                r"\sstyle\s*=",
                r"<style",
                r"<script(?! src)",
                r"\son[a-z]+\s*=\s*[\"']",
                r"javascript:",
                r"(?:src|href)=[\"'](?:https?:)?//",
                # But for a part that another template has made, nothing is taken as it is.
                r"(?<!\{\{ part)\|\s*safe",
                r"autoescape",
            ):
                self.assertIsNone(re.search(pattern, text, re.IGNORECASE), (path.name, pattern))

    def test_each_form_that_is_sent_has_a_token(self) -> None:
        """But for the one that begins a session."""
        for path in sorted(FOLDER.iterdir()):
            text = path.read_text(encoding="utf-8")
            for form in re.findall(r'<form[^>]*method="post".*?</form>', text, re.DOTALL):
                if 'action="/sign-in"' not in form:
                    self.assertRegex(form, r"form_token", path.name)


class MenuTests(SynchronousTestCase):
    """The menu."""

    def test_every_entry_leads_somewhere(self) -> None:
        """To a page for people who have signed in."""
        plane = Plane(self.mktemp())
        for place in MENU:
            endpoint, _ = plane.guard.find("GET", place.path)
            self.assertTrue(endpoint.is_page)
            self.assertEqual(AUDIENCES[place.path.split("/")[1]], PEOPLE)


class AlertTests(SynchronousTestCase):
    """What is told on top of every page."""

    def test_what_is_not_well(self) -> None:
        """Stores that are away first, then a config that is not in force."""
        self.assertEqual(alerts_of(0, None), ())
        (alert,) = alerts_of(1, None)
        self.assertEqual((alert.path, alert.kind), ("/config", "bad"))
        self.assertIn("1 fault;", alert.text)
        away, faulty = alerts_of(2, "the stores are being restarted")
        self.assertEqual(
            away, Alert("The control plane is not ready: the stores are being restarted.")
        )
        self.assertIn("2 faults;", faulty.text)
