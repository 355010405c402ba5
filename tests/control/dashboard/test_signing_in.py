"""Signing in and out, and who is turned away."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import Plane


class SignInTests(SynchronousTestCase):
    """A person, a token and a cookie."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)

    def test_in_and_out(self) -> None:
        """A stranger is led to the form and back to the page; whoever signs out is a stranger."""
        reply = self.visitor.get("/")
        self.assertEqual((reply.status, reply.headers["location"]), (303, "/sign-in"))
        reply = self.visitor.sign_in(next="/")
        self.assertEqual((reply.status, reply.headers["location"]), (303, "/"))
        page = self.visitor.page("/")
        self.assertEqual(page.one("h1").text, "Overview")
        reply = self.visitor.send("/sign-out", {})
        self.assertEqual((reply.status, reply.headers["location"]), (303, "/sign-in"))
        self.assertEqual(self.visitor.get("/").status, 303)

    def test_a_wrong_token(self) -> None:
        """The form comes back and says so; no cookie is set."""
        reply = self.visitor.sign_in("not-the-token")
        self.assertEqual(reply.status, 401)
        self.assertIn("neither the admin token", Page(reply).one("p", role="alert").text)
        self.assertEqual(self.visitor.cookies, {})

    def test_another_page_with_the_form_of_nobody(self) -> None:
        """A form without the token of the session changes nothing."""
        self.visitor.sign_in()
        reply = self.visitor.send("/sign-out", {"form_token": "0" * 64})
        self.assertEqual(reply.status, 403)
        self.assertIn("another session", Page(reply).text)
        self.visitor.page("/")
