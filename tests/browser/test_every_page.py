"""What holds for every page: rules of accessibility, no page wider than a phone, no complaints."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.axe import violations
from tests.browser.dashboards import dashboard
from tests.browser.places import PLACES, Place, pages_of
from tests.browser.visit import PHONE, WIDE, Theme, Visit
from tests.control.plane import Plane


class ListTests(SynchronousTestCase):
    """The list of pages."""

    def test_it_has_every_page(self) -> None:
        """A page that is new stands in the list, so that all below is held for it, too."""
        plane = Plane(self.mktemp())
        self.addCleanup(plane.close)
        listed = {place.path.partition("?")[0] for place in PLACES}
        self.assertEqual(pages_of(plane.guard.endpoints) - listed, set())


class EveryPageTests(SynchronousTestCase):
    """Each page as it is with a month behind it, and as somebody sees it who may look only."""

    def walk(self, size: tuple[int, int], theme: Theme) -> None:
        """Open every page and hold what is to hold."""
        faults = []
        gateway = dashboard()
        with Visit(gateway, size=size, theme=theme) as visit:
            signed_in = False
            for place in sorted(PLACES, key=lambda place: place.signed_in):
                if place.signed_in and not signed_in:
                    visit.sign_in()
                    signed_in = True
                visit.open(place.path)
                faults += [f"{place.path}: {told}" for told in self.faults_of(visit, place)]
        self.assertEqual(faults, [], "\n".join(faults))

    def faults_of(self, visit: Visit, place: Place) -> list[str]:
        """Return what is wrong with the page that is open."""
        faults = violations(visit.page)
        if visit.width() > visit.window_width():
            faults.append(f"{visit.width()} px wide in a window of {visit.window_width()}")
        if visit.page.locator("h1").count() != 1:
            faults.append("not one h1")
        return faults

    def test_light(self) -> None:
        """On a desk, by day."""
        self.walk(WIDE, "light")

    def test_dark(self) -> None:
        """On a desk, by night."""
        self.walk(WIDE, "dark")

    def test_phone(self) -> None:
        """On a phone."""
        self.walk(PHONE, "light")

    def test_phone_by_night(self) -> None:
        """On a phone, by night."""
        self.walk(PHONE, "dark")
