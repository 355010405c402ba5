"""The page of usage, and its file."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import usage_page
from omnigate.periods import DAY_MS
from tests.control.conversation import Reply
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import START, Plane, event

GONE = "ab" * 32


class UsageCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def use(self, *events: dict[str, Any]) -> None:
        batch = [event(**{"id": f"e{n}", **members}) for n, members in enumerate(events)]
        self.plane.internal("POST", "/internal/usage/batch", json.dumps({"events": batch}).encode())

    def use_some(self) -> None:
        yesterday = START * 1000 - DAY_MS
        self.use(
            {},
            {"ts_ms": yesterday},
            {"key_sha256": GONE, "ts_ms": yesterday, "input_tokens": 5000},
            {"ts_ms": yesterday - 60 * DAY_MS, "upstream": None, "target_model": None},
        )

    def names(self, target: str) -> list[str]:
        """The first cells of the rows."""
        return [cell.text for cell in self.visitor.page(target).all("th", scope="row")][:-1]


class PageTests(UsageCase):
    """The page."""

    def test_nothing(self) -> None:
        """It says what to do."""
        self.assertIn("Nothing was used in these days", self.visitor.page("/usage").text)

    def test_by_key(self) -> None:
        """The dearest first; a key that is gone is told by its hash, and has no page."""
        self.use_some()
        page = self.visitor.page("/usage")
        self.assertEqual(
            [cell.text for cell in page.all("th", scope="row")],
            ["abababababab… a key that is gone", "app", "All 2"],
        )
        self.assertEqual(page.one("a", href="/keys/app").text, "app")
        requests = page.one("a", href="/requests?since=2026-10-31&until=2026-11-29&key=app")
        self.assertEqual(requests.text, "2")
        # Three bars of thirty have something, in two layers.
        self.assertEqual(len(page.all("rect", **{"class": "block series-1"})), 1)
        self.assertEqual(len(page.all("rect", **{"class": "block series-2"})), 2)

    def test_other_groupings(self) -> None:
        """By model, upstream and day; a day leads to what was used on it."""
        self.use_some()
        self.assertEqual(self.names("/usage?by=model&period=all"), ["fast"])
        self.assertEqual(
            self.names("/usage?by=upstream&period=all"),
            ["openai", "(none answered) refused by every upstream, or answered out of the cache"],
        )
        self.assertEqual(
            self.names("/usage?by=day&period=all"), ["2026-11-29", "2026-11-28", "2026-09-29"]
        )
        page = self.visitor.page("/usage?by=day&period=7d")
        path = page.one("a", href="/usage?since=2026-11-28&until=2026-11-28").attributes["href"]
        self.assertEqual(len(self.names(path)), 2)
        # What is no grouping is the first one.
        self.assertEqual(len(self.names("/usage?by=colour")), 2)

    def test_one_name(self) -> None:
        """The days of one key, model or upstream alone, in the same days as before."""
        self.use_some()
        for name, days in (
            ("key=app", ["2026-11-29", "2026-11-28", "2026-09-29"]),
            (f"key={GONE}", ["2026-11-28"]),
            ("upstream=openai&by=key", ["2026-11-29", "2026-11-28"]),
            ("model=fast", ["2026-11-29", "2026-11-28", "2026-09-29"]),
            ("model=%3Cb%3E", []),
        ):
            self.assertEqual(self.names(f"/usage?period=all&{name}"), days, name)
        page = self.visitor.page("/usage?key=app&period=7d")
        self.assertIn("Only the key app, day by day.", page.text)
        self.assertEqual(page.one("input", type="hidden", name="key").attributes["value"], "app")
        self.assertIn(
            "/usage?by=day&key=app&period=90d", [link.attributes["href"] for link in page.all("a")]
        )

    def test_days(self) -> None:
        """They stay as they were filled in, also when they are wrong, which is told by them."""
        self.use_some()
        page = self.visitor.page("/usage?by=day&since=2026-11-29&until=")
        self.assertEqual(page.one("input", id="since").attributes["value"], "2026-11-29")
        self.assertEqual(page.one("input", id="until").attributes["value"], "")
        reply = self.visitor.get("/usage?since=2026-13-01&until=2026-11-29")
        self.assertEqual(reply.status, 400)
        self.assertIn(b"This is no day", reply.body)
        self.assertIn(b'value="2026-13-01"', reply.body)

    def test_weeks(self) -> None:
        """A long span is drawn by week."""
        self.use({}, {"ts_ms": START * 1000 - 200 * DAY_MS})
        self.assertIn("Cost by week", self.visitor.page("/usage?period=all").text)
        self.assertIn("Cost by day", self.visitor.page("/usage?period=90d").text)

    def test_pages(self) -> None:
        """Many rows are told a page at a time, with the total of all."""
        self.patch(usage_page, "ROWS_A_PAGE", 2)
        self.use(*({"key_sha256": f"{n:064x}", "input_tokens": 9000 - n} for n in range(5)))
        page = self.visitor.page("/usage?page=3&period=7d")
        self.assertIn("5 to 5 of 5", page.text)
        self.assertEqual(
            page.one("a", rel="prev").attributes["href"], "/usage?by=key&period=7d&page=2"
        )
        self.assertIn("All 5", page.text)

    def test_days_without_sums_by_key(self) -> None:
        """It is said from which day on they are whole."""
        self.use_some()
        self.assertNotIn("are whole from", self.visitor.page("/usage").text)
        days = self.plane.ledger._ready_books().totals.days
        days[min(days)].keys = None
        page = self.visitor.page("/usage")
        self.assertIn("Sums by key are whole from 2026-09-30 on", page.text)
        self.assertNotIn("are whole from", self.visitor.page("/usage?by=model").text)


class CsvTests(UsageCase):
    """The file."""

    def rows(self, reply: Reply) -> list[list[str]]:
        self.assertEqual(reply.status, 200)
        return list(csv.reader(io.StringIO(reply.body.decode())))

    def test_the_same_as_the_page(self) -> None:
        """All rows of all pages in their order, in a file with a name that says what it is."""
        self.patch(usage_page, "ROWS_A_PAGE", 1)
        self.use_some()
        page = self.visitor.page("/usage?period=7d")
        (link,) = [a for a in page.all("a") if a.text == "Download as CSV"]
        reply = self.visitor.get(link.attributes["href"])
        self.assertEqual(
            reply.headers["content-disposition"],
            'attachment; filename="omnigate-usage-by-key-since-2026-11-23-until-2026-11-29.csv"',
        )
        rows = self.rows(reply)
        self.assertEqual(rows[0][:3], ["key", "key_sha256", "requests"])
        self.assertEqual([row[0] for row in rows[1:]], ["", "app"])
        self.assertEqual(rows[1][1:3], [GONE, "1"])

    def test_it_is_what_the_api_tells(self) -> None:
        """The same rows, whatever their order."""
        self.use_some()
        for by in ("key", "model", "upstream", "day"):
            page = self.rows(self.visitor.get(f"/usage/csv?by={by}&period=all"))
            api = self.rows(self.plane.admin("GET", f"/admin/usage?by={by}", accept="text/csv"))
            self.assertEqual(page[0], api[0])
            self.assertEqual(sorted(page), sorted(api))

    def test_one_name(self) -> None:
        """Its days, in a file that has its name."""
        self.use({"route_model": 'a/"b'}, {})
        reply = self.visitor.get("/usage/csv?model=a/%22b&period=today")
        self.assertEqual(
            reply.headers["content-disposition"],
            'attachment; filename="omnigate-usage-by-day-of-model-a-b-2026-11-29.csv"',
        )
        self.assertEqual([row[:2] for row in self.rows(reply)[1:]], [["2026-11-29", "1"]])

    def test_no_formula(self) -> None:
        """A spreadsheet runs nothing of it."""
        self.use({"route_model": "=cmd()"})
        rows = self.rows(self.visitor.get("/usage/csv?by=model"))
        self.assertEqual(rows[1][0], "'=cmd()")

    def test_bad_days(self) -> None:
        """There is no file of them."""
        self.assertEqual(self.visitor.get("/usage/csv?since=never").status, 400)
