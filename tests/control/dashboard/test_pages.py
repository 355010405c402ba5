"""What every template is held to."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import PEOPLE
from omnigate.control.dashboard.alerts import Alert, alerts_of
from omnigate.control.dashboard.assets import Assets
from omnigate.control.dashboard.entrance import make_entrance
from omnigate.control.dashboard.pages import FOLDER, MENU, Pages
from omnigate.control.routes import AUDIENCES
from omnigate.testing.writer import SynchronousWriter
from tests.control.conversation import ADMIN_TOKEN, Conversation, Wire, read_reply, request_bytes
from tests.control.dashboard.visitor import Page
from tests.control.plane import Plane


class TemplateTests(SynchronousTestCase):
    """Every file there is."""

    def test_each_can_be_read(self) -> None:
        """It is a template, and uses no filter that there is not; the first page reads them all."""
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


class ReadyTests(SynchronousTestCase):
    """Templates are read once somebody wants a page."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.writer = SynchronousWriter(holding=True)
        entrance = make_entrance(
            ADMIN_TOKEN, self.plane.lasting.credentials, self.plane.now_ms, self.writer
        )
        self.talk = Conversation(*entrance.front.endpoints(), door=entrance.door)

    def ask(self, target: str) -> Wire:
        channel, transport = self.talk.connect()
        channel.dataReceived(request_bytes("GET", target))
        return transport

    def test_the_first_page_waits(self) -> None:
        """All who come meanwhile do, and none who comes later."""
        first, second = self.ask("/sign-in"), self.ask("/sign-in")
        self.assertEqual((first.value(), second.value()), (b"", b""))
        self.writer.run()
        for transport in (first, second, self.ask("/sign-in")):
            reply, _ = read_reply(transport.value())
            self.assertEqual((reply.status, Page(reply).one("h1").text), (200, "Sign in"))

    def test_a_refusal_does_not(self) -> None:
        """It says in plain words what a page would say."""
        reply, _ = read_reply(self.ask("/sign-in/nothing").value())
        self.assertEqual(reply.status, 404)
        self.assertTrue(reply.headers["content-type"].startswith("text/plain"))
        self.assertIn("content-security-policy", reply.headers)

    def test_a_thread_that_takes_no_work(self) -> None:
        """The page says that it is not ready, and a later one is."""
        self.writer.stop()
        reply, _ = read_reply(self.ask("/sign-in").value())
        self.assertEqual(reply.status, 503)


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
