"""Who may not come in, and who may look only: what a browser is shown, and what it cannot do."""

from __future__ import annotations

import time

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import PEOPLE
from omnigate.control.dashboard.door import cookie_name
from omnigate.control.routes import WRITE, audience_of
from omnigate.control.sessions import MAX_IDLE_MS, SessionKeys
from tests.browser.dashboards import dashboard
from tests.browser.places import PLACES
from tests.browser.seeding import READER
from tests.browser.visit import Visit
from tests.control.plane import Plane
from tests.process.daemons import ADMIN_TOKEN

#: Sends a form as another page of the same browser could; answers with the status.
_SEND = """async ([path, fields]) => {
  const answer = await fetch(path, {
    method: 'POST', body: new URLSearchParams(fields), redirect: 'manual'
  });
  return answer.status;
}"""


class StrangerTests(SynchronousTestCase):
    """Nobody in particular."""

    def visit(self) -> Visit:
        """Begin a visit that ends with the test, and has nothing to complain of."""
        visit = Visit(dashboard())
        self.addCleanup(visit.__exit__, None, None, None)
        return visit

    def test_wrong_token(self) -> None:
        """It is said on the same form, and a right one then leads on to where they wanted to go."""
        visit = self.visit()
        visit.expected.add(401)
        visit.page.goto("/")
        self.assertTrue(visit.page.url.startswith(f"{visit.origin}/sign-in"), visit.page.url)
        visit.page.get_by_label("token").fill("not the token")
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.get_by_role("alert").wait_for()
        visit.page.get_by_label("token").fill(ADMIN_TOKEN)
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.wait_for_url(f"{visit.origin}/")

    def test_session_that_is_over(self) -> None:
        """One that was idle for too long, or that somebody made up, is asked to sign in again."""
        visit = self.visit()
        keys = SessionKeys(ADMIN_TOKEN)
        now_ms = int(time.time() * 1000)
        for cookie in (
            keys.seal(keys.begin("", now_ms - MAX_IDLE_MS)),
            SessionKeys("a guess").seal(keys.begin("", now_ms)),
        ):
            visit.give_cookie(cookie_name(keys, is_secure=False), cookie)
            visit.page.goto("/")
            self.assertEqual(visit.page.url, f"{visit.origin}/sign-in")
        # This is how one is made that is good.
        visit.give_cookie(cookie_name(keys, is_secure=False), keys.seal(keys.begin("", now_ms)))
        visit.open("/")
        self.assertEqual(visit.page.url, f"{visit.origin}/")

    def test_signing_out(self) -> None:
        """After it no page is shown, not even by the button that leads back."""
        visit = self.visit()
        visit.sign_in()
        visit.page.get_by_role("button", name="Sign out").click()
        visit.page.wait_for_url(f"{visit.origin}/sign-in")
        visit.page.go_back()
        self.assertTrue(visit.page.url.startswith(f"{visit.origin}/sign-in"), visit.page.url)

    def test_form_without_its_token(self) -> None:
        """A form that was not made for this session changes nothing."""
        visit = self.visit()
        visit.expected.add(403)
        visit.sign_in()
        for fields in ({}, {"form_token": "0" * 64}):
            self.assertEqual(visit.evaluate(_SEND, ["/sign-out", fields]), 403)
        visit.open("/")
        self.assertEqual(visit.page.url, f"{visit.origin}/")

    def test_form_of_another_site(self) -> None:
        """Not even with the right token: whoever has that may have stolen it."""
        visit = self.visit()
        visit.sign_in()
        token = visit.page.locator("input[name=form_token]").first.input_value()
        for origin, status in (("http://elsewhere.test", 403), (visit.origin, 303)):
            answer = visit.context.request.post(
                "/sign-out", form={"form_token": token}, headers={"origin": origin}, max_redirects=0
            )
            self.assertEqual(answer.status, status, origin)


class ReaderTests(SynchronousTestCase):
    """Somebody whose admin key may look only."""

    def setUp(self) -> None:
        self.visit = Visit(dashboard())
        self.addCleanup(self.visit.__exit__, None, None, None)
        self.visit.sign_in(dashboard().secrets[READER])

    def test_every_page(self) -> None:
        """Each says who they are, and has no form that changes anything."""
        names = {"request": dashboard().fallen_over(), **dashboard().jobs}
        forms = self.visit.page.locator("form[method=post]:not([action='/sign-out'])")
        for place in PLACES:
            # The forms themselves are refused, where there is nothing else on a page.
            if place.signed_in and not place.path.endswith(("/new", "/edit")):
                self.visit.open(place.path.format_map(names), place.status)
                self.assertIn(READER, self.visit.page.locator("header").inner_text())
                self.assertEqual(forms.count(), 0, place.path)

    def test_every_change_is_refused(self) -> None:
        """Also of somebody who knows what a form would send."""
        plane = Plane(self.mktemp())
        self.addCleanup(plane.close)
        page = self.visit.page
        token = page.locator("input[name=form_token]").first.input_value()
        self.visit.expected.add(403)
        changes = [
            endpoint.pattern
            for endpoint in plane.guard.endpoints
            if endpoint.method == "POST"
            and audience_of(endpoint.pattern) == PEOPLE
            and endpoint.scope == WRITE
        ]
        self.assertIn("/keys/new", changes)
        for pattern in changes:
            job = dashboard().jobs["done"]
            path = pattern.replace("{name}", "mobile-app").replace("{id}", job)
            self.assertEqual(self.visit.evaluate(_SEND, [path, {"form_token": token}]), 403, path)
