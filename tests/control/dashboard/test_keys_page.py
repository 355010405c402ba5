"""The list of keys, and the page of one."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import key_list
from omnigate.control.dashboard.key_list import Wanted, wanted
from omnigate.ledger.service import Ledger
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import APP_SHA, CONFIG, START, Plane, event

HOUR_S = 3600


class KeysCase(SynchronousTestCase):
    """A plane with a file key, and somebody who has signed in."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def make(self, name: str, **members: Any) -> str:
        """Make a managed key; return its identity."""
        made = Deferred.fromCoroutine(
            self.plane.store.create({"name": name, **members}, lambda name: False)
        )
        return self.successResultOf(made)[0].sha256

    def spend(self, sha256: str, events: int = 1, **members: Any) -> None:
        """Record events at 1.63 ten-thousandths of a dollar each."""
        batch = [
            event(id=f"{sha256[:8]}-{number}-{self.plane.ledger.events}", key_sha256=sha256)
            | members
            for number in range(events)
        ]
        self.successResultOf(self.plane.ledger.record(batch))

    def shown(self, target: str = "/keys") -> list[str]:
        """The names of the keys on a page of the list."""
        page = self.visitor.page(target)
        return [found.text.strip() for found in page.all("th", scope="row")]


class ListTests(KeysCase):
    """Which keys are shown, and in which order."""

    def test_what_a_line_says(self) -> None:
        """Spend against the budget, when it starts anew, limits, the last use, refusals."""
        self.spend(APP_SHA, 50)
        self.plane.reports.refused("app", "budget_exceeded", 3, START * 1000)
        page = self.visitor.page("/keys")
        row = " ".join(page.one("tbody").text.split())
        for part in (
            "near its budget",
            "$0.00817 of $0.01 a day",
            "in 4 h",
            "600 requests/min",
            "just nowfast",
        ):
            self.assertIn(part, row)
        self.assertEqual(page.one("a", href="/keys/app#refusals").text, "3")
        (bar,) = (svg for svg in page.all("svg") if "bar" in svg.attributes["class"].split())
        self.assertEqual(bar.attributes["class"], "bar warn")

    def test_filters(self) -> None:
        """By a part of the name and by the state; what is not known is passed over."""
        self.make("web-1", disabled=True)
        self.make("web-2", expires_at="2026-12-01T00:00:00Z")
        self.make("api", expires_at="2027-12-01T00:00:00Z")
        self.spend(APP_SHA, 70)
        self.assertEqual(self.shown(), ["api", "app", "web-1", "web-2"])
        self.assertEqual(self.shown("/keys?q=WEB"), ["web-1", "web-2"])
        for state, names in (
            ("blocked", ["app"]),
            ("disabled", ["web-1"]),
            ("expiring", ["web-2"]),
            ("near", []),
            ("bogus", ["api", "app", "web-1", "web-2"]),
        ):
            self.assertEqual(self.shown(f"/keys?state={state}"), names, state)
        self.assertEqual(self.shown("/keys?q=web&state=disabled"), ["web-1"])
        page = self.visitor.page("/keys?q=nobody")
        self.assertIn("No key is like that", page.text)

    def test_orders(self) -> None:
        """The worst, the dearest or the most refused first."""
        self.make("a")
        dear = self.make("dear")
        self.make("off", disabled=True)
        self.spend(APP_SHA, 70)
        self.spend(dear, 90)
        self.plane.reports.refused("a", "invalid_json", 1, 0)
        for order, names in (
            ("worst", ["app", "off", "a", "dear"]),
            ("spent", ["dear", "app", "a", "off"]),
            ("refused", ["a", "app", "dear", "off"]),
            ("bogus", ["a", "app", "dear", "off"]),
        ):
            self.assertEqual(self.shown(f"/keys?order={order}"), names, order)

    def test_pages(self) -> None:
        """Each key is on one page; a page behind the last is the last."""
        self.patch(key_list, "ROWS", 2)
        for name in ("b", "c", "d"):
            self.make(name)
        found = [self.shown("/keys"), self.shown("/keys?page=2"), self.shown("/keys?page=99")]
        self.assertEqual(found, [["app", "b"], ["c", "d"], ["c", "d"]])
        page = self.visitor.page("/keys?order=spent&page=2&q=a")
        self.assertEqual(page.all("a", rel="prev"), [])
        page = self.visitor.page("/keys?order=spent&page=2")
        self.assertEqual(page.one("a", rel="prev").attributes["href"], "/keys?order=spent")

    def test_judged_in_steps(self) -> None:
        """Others have their turn where every key has to be looked at."""
        self.patch(key_list, "JUDGED_AT_ONCE", 2)
        for name in ("b", "c", "d", "e"):
            self.make(name)
        pauses = self.plane.pauses
        self.shown("/keys?order=worst")
        self.assertEqual(self.plane.pauses - pauses, 3)

    def test_no_keys(self) -> None:
        """It says what to do next, and to whom it may not, that somebody else can."""
        plane = Plane(self.mktemp(), CONFIG[CONFIG.index("[[upstreams]]") :])
        visitor = Visitor(plane.talk)
        visitor.sign_in()
        page = visitor.page("/keys")
        self.assertIn("There are no keys yet", page.text)
        self.assertIn("Create the first one", page.text)

    def test_queries(self) -> None:
        """Whatever stands in the address, there is a list to show."""
        for query, found in (
            ({"state": "odd", "order": "odd"}, Wanted()),
            ({"q": "A" * 99, "state": "blocked"}, Wanted("a" * 64, "blocked")),
        ):
            self.assertEqual(wanted(query), found)
        self.assertEqual(Wanted("a&b", order="spent").query, {"q": "a&b", "order": "spent"})

    def test_last_uses_before_the_start(self) -> None:
        """The newest events tell the moment, the sums the day; one of ages ago is told too."""
        old, ancient = self.make("old"), self.make("ancient")
        self.spend(old, ts_ms=(START - 48 * HOUR_S) * 1000)
        self.spend(ancient, ts_ms=(START - 500 * 24 * HOUR_S) * 1000)
        self.plane.close()
        folder = os.path.dirname(self.plane.config_path)
        for told in (("48 h agofast", "500 d agofast"), ("2026-11-27", "long ago")):
            plane = Plane(folder)
            visitor = Visitor(plane.talk)
            visitor.sign_in()
            text = visitor.page("/keys").text
            for words in told:
                self.assertIn(words, text)
            plane.close()
            self.patch(Ledger, "recent", lambda self, limit=0: [])


class KeyTests(KeysCase):
    """The page of one key."""

    def test_why_it_is_blocked(self) -> None:
        """Since when it opens again, and what its requests met."""
        self.spend(APP_SHA, 70, status=502)
        self.plane.reports.refused("app", "budget_exceeded", 3, START * 1000)
        self.plane.reports.refused("other", "invalid_json", 9, START * 1000)
        text = self.visitor.page("/keys/app").text
        self.assertIn("Blocked since its daily budget of $0.01 is spent.", text)
        self.assertIn("It opens again 2026-11-30 00:00:00 UTC", text)
        self.assertIn("budget_exceeded", text)
        self.assertIn("Raise its budget, or wait until the period ends.", text)
        self.assertNotIn("invalid_json", text)
        self.assertIn("502 Bad Gateway, by the provider", text)
        self.assertIn("Today (UTC) $0.0114 70 requests", text)

    def test_of_the_config_file(self) -> None:
        """It says where it stands, and has nothing to change it with."""
        page = self.visitor.page("/keys/app")
        self.assertIn("stands in the config file", page.text)
        actions = [form.attributes["action"] for form in page.all("form")]
        self.assertEqual(actions, ["/sign-out"])

    def test_every_state_in_words(self) -> None:
        """Each has its sentence."""
        self.make("k", expires_at="2026-12-01T00:00:00Z", soft_budget_usd=1, budget_usd=2)
        self.rotate("k", 60)
        sha256 = self.plane.store.get("k").sha256  # type: ignore[union-attr]
        self.spend(sha256, 1, input_tokens=11_000_000)
        text = self.visitor.page("/keys/k").text
        self.assertIn("It has spent 83", text)
        self.assertIn("It has reached its soft budget of $1.", text)
        self.assertIn("It expires 2026-12-01 00:00:00 UTC", text)
        self.assertIn("An old secret works until 2026-11-29 20:01:00 UTC", text)
        self.make("off", disabled=True)
        self.assertIn("Somebody has disabled it", self.visitor.page("/keys/off").text)
        self.make("plain")
        self.assertIn("Requests with it are served.", self.visitor.page("/keys/plain").text)
        self.plane.clock.advance(40 * HOUR_S)
        self.visitor.sign_in()
        self.assertIn("Expired 2026-12-01 00:00:00 UTC.", self.visitor.page("/keys/k").text)

    def rotate(self, name: str, grace_s: int) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.plane.store.rotate(name, grace_s)))

    def test_a_key_that_is_gone(self) -> None:
        """What it used is found by its hash; while it is there the hash leads to its name."""
        gone = self.make("gone")
        self.spend(gone)
        reply = self.visitor.get(f"/keys/{gone}")
        self.assertEqual((reply.status, reply.headers["location"]), (303, "/keys/gone"))
        self.successResultOf(Deferred.fromCoroutine(self.plane.store.delete("gone")))
        self.assertIn("Lifetime $0.000163 1 request", self.visitor.page(f"/keys/{gone}").text)
        for name in ("gone", "f" * 64):
            self.assertEqual(self.visitor.get(f"/keys/{name}").status, 404)

    def test_a_key_of_both_kinds(self) -> None:
        """The managed one is shown, since it can be changed here, and the other is told of."""
        self.make("web")
        self.plane.write_config(CONFIG.replace('name = "app"', 'name = "web"'))
        self.plane.admin("POST", "/admin/reload")
        page = self.visitor.page("/keys/web")
        self.assertIn("The config file has another key of this name.", page.text)
        self.assertIn("Identity", page.text)
        self.assertNotIn(APP_SHA, page.text)

    def test_a_key_called_new(self) -> None:
        """Its page is beside the one for new keys."""
        self.make("new")
        link = self.visitor.page("/keys").one("a", href="/keys/new/key")
        self.assertEqual(link.text, "new")
        self.assertEqual(self.visitor.page("/keys/new/key").one("h1").text, "new")
        self.assertEqual(self.visitor.page("/keys/new").one("h1").text, "New key")

    def test_a_hostile_name(self) -> None:
        """What data planes say is text, whatever it looks like."""
        self.spend(APP_SHA, 1, route_model="<script>alert(1)</script>", status=500)
        reply = self.visitor.get("/keys/app")
        self.assertNotIn(b"<script>alert", reply.body)
        self.assertIn("<script>alert(1)</script>", Page(reply).text)
