"""The page of refusals, and what it is made of."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import refusals_page
from omnigate.control.dashboard.refusals_view import (
    NO_KEY,
    Misfit,
    chosen,
    misfits_of,
    reasons_of,
    refused_keys,
)
from omnigate.control.reports import OTHER_KEY, RefusalRow
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import Plane

ROWS = [
    RefusalRow("app", "rate_limit_exceeded", 40, 5000),
    RefusalRow("Other-App", "rate_limit_exceeded", 2, 9000),
    RefusalRow("", "invalid_api_key", 7, 1000),
]


class ViewTests(SynchronousTestCase):
    """Counts as they are shown."""

    def test_what_is_chosen(self) -> None:
        """A part of the key's name in any case, a code, both or neither."""
        for key, code, found in (
            ("", "", ROWS),
            ("APP", "", ROWS[:2]),
            ("app", "invalid_api_key", []),
            ("", "invalid_api_key", ROWS[2:]),
            (NO_KEY, "", ROWS[2:]),
        ):
            self.assertEqual(chosen(ROWS, key, code), found, (key, code))

    def test_reasons(self) -> None:
        """All keys together, the most frequent first, with words and a link that keeps the key."""
        reasons = reasons_of(ROWS, "ap p")
        self.assertEqual(
            [(reason.code, reason.count, reason.last_ms, reason.path) for reason in reasons],
            [
                ("rate_limit_exceeded", 42, 9000, "/refusals?key=ap+p&code=rate_limit_exceeded"),
                ("invalid_api_key", 7, 1000, "/refusals?key=ap+p&code=invalid_api_key"),
            ],
        )
        self.assertIn("within a minute", reasons[0].words.meaning)

    def test_keys(self) -> None:
        """A key that there is has a link; one that is gone, none, and many together have none."""
        rows = [*ROWS, RefusalRow(OTHER_KEY, "other", 1, 1)]
        self.assertEqual(
            [(row.key, row.key_path) for row in refused_keys(rows, {"app", OTHER_KEY})],
            [("app", "/keys/app"), ("Other-App", ""), (NO_KEY, ""), (OTHER_KEY, "")],
        )

    def test_wrong_credentials(self) -> None:
        """Those that there were, in words."""
        self.assertEqual(
            misfits_of({("admin", "wrong"): 2, ("internal", "missing"): 9, ("admin", "locked"): 0}),
            [
                Misfit("Data planes", "no credential came with the request", 9),
                Misfit("Operators", "the credential was wrong", 2),
            ],
        )


class PageTests(SynchronousTestCase):
    """The page."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def refuse(self, *rows: tuple[str, str, int]) -> None:
        refusals = [{"key": key, "code": code, "count": count} for key, code, count in rows]
        self.plane.internal(
            "POST", "/internal/counters", json.dumps({"refusals": refusals}).encode()
        )

    def test_none(self) -> None:
        """It says that there were none, and of what."""
        text = self.visitor.page("/refusals").text
        self.assertIn("Nothing was refused", text)
        self.assertIn("There were none since the start.", text)

    def test_some(self) -> None:
        """Each reason with words and a remedy, each key with a link."""
        self.refuse(("app", "budget_exceeded", 3), ("gone", "invalid_api_key", 12345))
        page = self.visitor.page("/refusals")
        self.assertIn("The key has spent its budget", page.text)
        self.assertIn("Raise its budget", page.text)
        self.assertEqual(page.one("a", href="/keys/app").text, "app")
        self.assertEqual(page.all("a", href="/keys/gone"), [])
        self.assertIn("2026-11-29 20:00:00 UTC", page.text)

    def test_filters(self) -> None:
        """They stay as they were chosen, and no match is no dead end."""
        self.refuse(("app", "budget_exceeded", 3), ("b<b>", "invalid_api_key", 1))
        page = self.visitor.page("/refusals?key=ap&code=&page=1")
        self.assertNotIn("b<b>", page.text)
        self.assertEqual(page.one("input", name="key").attributes["value"], "ap")
        page = self.visitor.page("/refusals?code=length_required&key=%3Cscript%3E")
        self.assertIn("Nothing was refused for this", page.text)
        self.assertEqual(page.one("option", selected="").attributes["value"], "length_required")
        self.assertIn("b<b>", self.visitor.page("/refusals").text)

    def test_pages(self) -> None:
        """Many rows are told a page at a time."""
        self.patch(refusals_page, "ROWS_A_PAGE", 2)
        self.refuse(*((f"k{n}", "budget_exceeded", 9 - n) for n in range(5)))
        page = self.visitor.page("/refusals?page=2")
        self.assertIn("3 to 4 of 5", page.text)
        self.assertIn("k3", page.text)
        self.assertNotIn("k4", page.text)
        self.assertEqual(page.one("a", rel="next").attributes["href"], "/refusals?page=3")

    def test_wrong_credentials_here(self) -> None:
        """Those of operators and data planes are counted, too."""
        self.plane.talk.ask("GET", "/admin/usage", ((b"authorization", b"Bearer wrong-token"),))
        page = self.visitor.page("/refusals")
        self.assertIn("the credential was wrong", [cell.text for cell in page.all("td")])
        self.assertIn("Operators", [cell.text for cell in page.all("th", scope="row")])
