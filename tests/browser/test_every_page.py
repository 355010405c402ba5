"""What holds for every page: rules of accessibility, no page wider than a phone, no complaints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from tests.browser.axe import violations
from tests.browser.dashboards import dashboard
from tests.browser.places import PLACES, Place, pages_of
from tests.browser.visit import PHONE, WIDE, Visit
from tests.control.plane import Plane

#: Of all that the keyboard reaches: what looks no different while it has the focus.
_UNSEEN_FOCUS = """() => {
  const reached = document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]');
  const unseen = [];
  for (const element of reached) {
    if (!element.checkVisibility() || element.disabled) continue;
    element.focus({focusVisible: true, preventScroll: true});
    const style = getComputedStyle(element);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    if (document.activeElement === element && !outlined && style.boxShadow === 'none')
      unseen.push(element.outerHTML.slice(0, 200));
  }
  document.activeElement.blur();
  return unseen;
}"""

#: Forms that change something and carry no token.
_UNGUARDED = """() => Array.from(document.forms)
  .filter(form => form.method === 'post' && !form.elements.form_token)
  .map(form => form.getAttribute('action'))"""

#: Where the links of a page lead, without the places within pages.
_LINKS = """() => Array.from(document.querySelectorAll("a[href]:not([href^='#'])"))
  .map(link => link.href.split('#')[0])"""

#: Links that are followed of those that differ in the values of their parameters alone.
ALIKE: Final = 3


class ListTests(SynchronousTestCase):
    """The list of pages."""

    def test_it_has_every_page(self) -> None:
        """A page that is new stands in the list, so that all below is held for it, too."""
        plane = Plane(self.mktemp())
        self.addCleanup(plane.close)
        listed = {place.path.partition("?")[0] for place in PLACES}
        self.assertEqual(pages_of(plane.guard.endpoints) - listed, set())
        self.assertEqual(len(set(PLACES)), len(PLACES), "a page is in the list twice")


class EveryPageTests(SynchronousTestCase):
    """Each page as it is with a month behind it."""

    def walk(self, visit: Visit, faults_of: Callable[[Visit, Place], list[str]]) -> None:
        """Open every page, and hold that each is without faults."""
        faults: list[str] = []
        gateway = dashboard()
        names = {"request": gateway.fallen_over(), **gateway.jobs}
        strangers = [place for place in PLACES if not place.signed_in]
        people = [place for place in PLACES if place.signed_in]
        for places in (strangers, people):
            for place in places:
                visit.open(place.path.format_map(names), place.status)
                faults += [f"{place.path}: {told}" for told in faults_of(visit, place)]
            if places is strangers:
                visit.sign_in()
        self.assertEqual(faults, [], "\n".join(faults))

    def test_every_look(self) -> None:
        """On a desk by day and by night, and on a phone; and where its links lead.

        Every link leads to a page; of those that look alike, some are followed.
        """
        links: dict[str, str] = {}

        def faults_of(visit: Visit, place: Place) -> list[str]:
            for link in visit.evaluate(_LINKS):
                links.setdefault(link, place.path)
            return [
                *form_faults(visit, place),
                *_of("desk", look_faults(visit, WIDE, ())),
                *_of("dark", dark_faults(visit)),
                *_of("phone", look_faults(visit, PHONE, LOOKS)),
            ]

        with Visit(dashboard()) as visit:
            self.walk(visit, faults_of)
            followed: Counter[str] = Counter()
            faults = []
            for link, found_on in links.items():
                kind = re.sub(r"=[^&]*", "=", link)
                followed[kind] += 1
                status = visit.context.request.get(link).status if followed[kind] <= ALIKE else 200
                if status != 200:
                    faults.append(f"{link}, which is on {found_on}: {status}")
        self.assertEqual(faults, [], "\n".join(faults))

    def test_without_script(self) -> None:
        """With no script at all."""

        def faults_of(visit: Visit, place: Place) -> list[str]:
            return [*form_faults(visit, place), *width_faults(visit)]

        with Visit(dashboard(), size=PHONE, script=False) as visit:
            self.walk(visit, faults_of)


#: Rules of axe-core whose outcome changes with the size of the window and the theme; all others are
#: held once, since they take long.
LOOKS: Final = ("color-contrast", "target-size", "scrollable-region-focusable")


def look_faults(visit: Visit, size: tuple[int, int], rules: Sequence[str]) -> list[str]:
    """Return what is wrong with the open page in a window of this size."""
    visit.page.set_viewport_size({"width": size[0], "height": size[1]})
    faults = [*violations(visit.page, rules), *width_faults(visit)]
    return faults + [f"no focus is seen: {found}" for found in visit.evaluate(_UNSEEN_FOCUS)]


def dark_faults(visit: Visit) -> list[str]:
    """Return what is wrong with the colours of the open page by night."""
    visit.page.emulate_media(color_scheme="dark")
    faults = violations(visit.page, LOOKS)
    visit.page.emulate_media(color_scheme="light")
    return faults


def width_faults(visit: Visit) -> list[str]:
    """Return whether the open page scrolls sideways."""
    width, window = visit.width(), visit.window_width()
    return [f"{width} px wide in a window of {window}"] if width > window else []


def form_faults(visit: Visit, place: Place) -> list[str]:
    """Return what is wrong with the open page, however it looks."""
    faults = [] if visit.page.locator("h1").count() == 1 else ["not one h1"]
    if place.signed_in:
        faults += [f"no form token: {found}" for found in visit.evaluate(_UNGUARDED)]
    return faults


def _of(what: str, faults: list[str]) -> list[str]:
    return [f"{what}: {fault}" for fault in faults]
