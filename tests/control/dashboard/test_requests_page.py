"""The list of requests and the page of one, as somebody reads them."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.requests_page import ROWS
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import CONFIG, START, Plane, event

TIMEOUT = {
    "upstream": "first",
    "model": "m-1",
    "outcome": "timeout",
    "status": None,
    "duration_ms": 900,
}
OK = {
    "upstream": "openai",
    "model": "gpt-4o-mini",
    "outcome": "ok",
    "status": 200,
    "duration_ms": 100,
}


class PageCase(SynchronousTestCase):
    """A person who has signed in, and a ledger."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def record(self, *events: dict[str, Any]) -> None:
        body = json.dumps({"events": events}).encode()
        reply = self.plane.internal("POST", "/internal/usage/batch", body)
        self.assertEqual((reply.status, reply.json()["invalid"]), (200, 0))

    def links(self, page: Page) -> list[str]:
        """Return where the rows of the list lead."""
        return [
            element.attributes["href"]
            for element in page.all("a")
            if element.attributes["href"].startswith("/requests/one?")
        ]

    def link(self, page: Page, words: str) -> str:
        (found,) = (each for each in page.all("a") if each.text == words)
        return found.attributes["href"]


class ListTests(PageCase):
    """``/requests``."""

    def test_nothing_yet(self) -> None:
        """It says what to do next."""
        page = self.visitor.page("/requests")
        self.assertIn("No requests yet", page.text)
        self.assertIn("/refusals", [each.attributes["href"] for each in page.all("a")])

    def test_rows(self) -> None:
        """A row says who asked what of whom, what came of it, and what it cost."""
        self.record(
            event(id="plain"),
            event(id="odd/ü?&", key_sha256="ab" * 32, route_model="<b>", stream=False),
            event(
                id="failed",
                status=502,
                upstream=None,
                target_model=None,
                attempts=[TIMEOUT, {**OK, "outcome": "status_503", "status": 503}],
            ),
            event(id="cached", cached=True, upstream=None, target_model=None),
            event(id="guessed", estimated=True),
        )
        page = self.visitor.page("/requests")
        self.assertEqual(
            self.links(page),
            [
                f"/requests/one?id={quote(each, safe='')}"
                for each in ("guessed", "cached", "failed", "odd/ü?&", "plain")
            ],
        )
        rows = [" ".join(row.text.split()) for row in page.all("tr")[1:]]
        self.assertIn("app", rows[4])
        self.assertIn("$0.00016", rows[4])
        self.assertIn("abababababa", rows[3])
        self.assertIn("<b>", rows[3])
        self.assertIn("502", rows[2])
        self.assertIn("2 attempts", rows[2])
        self.assertIn("fastopenai, gpt-4o-mini", rows[2])
        self.assertIn("cached", rows[1])
        self.assertIn("estimated", rows[0])

    def test_filters_and_pages(self) -> None:
        """Filters stay as they were typed, on every page of what they find."""
        events = [event(id=f"e{n}", status=502 if n % 2 else 200) for n in range(3 * ROWS)]
        self.record(*events)
        page = self.visitor.page("/requests?key=app&model=&status=failed&unknown=1")
        self.assertEqual(len(self.links(page)), ROWS)
        self.assertEqual(page.one("input", name="key").attributes["value"], "app")
        (chosen,) = (each for each in page.all("option") if "selected" in each.attributes)
        self.assertEqual(chosen.attributes["value"], "failed")
        older = self.link(page, "Older")
        self.assertIn("status=failed", older)
        second = self.visitor.page(older)
        self.assertEqual(len(self.links(second)), ROWS // 2)
        self.assertEqual(
            self.links(page) + self.links(second),
            [f"/requests/one?id=e{n}" for n in range(3 * ROWS - 1, 0, -2)],
        )
        self.assertEqual(self.link(second, "Newer"), "/requests?key=app&status=failed")
        self.assertEqual(second.all("tbody", **{"data-live": "requests"}), [])

    def test_a_filter_that_is_none(self) -> None:
        """The fault stands beside its field; what was typed is still there."""
        for query, name in (
            ("key=nobody&model=fast", "key"),
            ("until=9999-12-31T23:59-23:59&model=fast", "until"),
            ("since=then&model=fast", "since"),
            ("until=then&model=fast", "until"),
            ("status=6xx&model=fast", "status"),
            (f"id={'x' * 257}&model=fast", "id"),
        ):
            reply = self.visitor.get(f"/requests?{query}")
            self.assertEqual(reply.status, 400, query)
            page = Page(reply)
            self.assertNotEqual(page.one("p", id=f"{name}-fault").text, "")
            self.assertEqual(page.one("input", name="model").attributes["value"], "fast")
        self.assertEqual(self.visitor.get("/requests?cursor=x").status, 400)

    def test_times_of_any_form(self) -> None:
        """A field for times takes one form, so whatever a link had is shown in that."""
        self.record(event(id="a"))
        for query, since, until in (
            ("since=2026-11-29&until=2026-11-29", "2026-11-29T00:00", "2026-11-30T00:00"),
            ("since=2026-11-29T21:00%2B01:00", "2026-11-29T20:00", ""),
            ("since=2026-11-29T19:59:59.250Z", "2026-11-29T19:59:59.250", ""),
        ):
            page = self.visitor.page(f"/requests?{query}")
            self.assertEqual(len(self.links(page)), 1, query)
            fields = [page.one("input", name=name).attributes for name in ("since", "until")]
            self.assertEqual([each["value"] for each in fields], [since, until])
            self.assertEqual({each["type"] for each in fields}, {"datetime-local"})

    def test_nothing_found(self) -> None:
        """It says so, and where refusals are."""
        self.record(event())
        page = self.visitor.page("/requests?status=failed&key=app")
        self.assertIn("Nothing found", page.text)
        hrefs = [each.attributes["href"] for each in page.all("a")]
        self.assertIn("/refusals?key=app", hrefs)

    def test_a_search_that_goes_on(self) -> None:
        """Where one look ends without having found all, it is said how far it came."""
        self.record(event(id="old", route_model="other"), event(id="new"))
        search = self.plane.generation.search
        search.max_bytes = 1
        search.block_bytes = 200
        page = self.visitor.page("/requests?model=other")
        self.assertIn("Searched back to 2026-11-29 20:00:00 UTC", page.text)
        pages = 1
        while not self.links(page):
            page = self.visitor.page(self.link(page, "Go on searching"))
            pages += 1
        self.assertEqual(self.links(page), ["/requests/one?id=old"])
        self.assertGreater(pages, 1)

    def test_live(self) -> None:
        """What comes is put on top, if it is what is asked for."""
        self.record(event(id="a"))
        page = self.visitor.page("/requests?status=failed")
        mark = page.one("tbody", **{"data-live": "requests"}).attributes["data-mark"]
        self.record(event(id="b", status=502), event(id="c"))
        update = self.visitor.get(f"/live/requests?once=1&status=failed&mark={mark}").json()
        self.assertEqual(update["mode"], "prepend")
        self.assertEqual(update["html"].count("<tr>"), 1)
        self.assertIn("/requests/one?id=b", update["html"])
        self.record(event(id="d"))
        again = self.visitor.get(
            f"/live/requests?once=1&status=failed&mark={update['mark']}"
        ).json()
        self.assertEqual(again["html"], "")
        self.assertNotEqual(again["mark"], update["mark"])
        first = self.visitor.get("/live/requests?once=1&mark=").json()
        self.assertEqual((first["html"], first["mark"]), ("", again["mark"]))
        self.assertEqual(self.visitor.get("/live/requests?once=1&mark=abc").status, 400)

    def test_live_after_a_pause(self) -> None:
        """More than are shown at once are not passed over in silence."""
        self.record(event(id="a"))
        page = self.visitor.page("/requests")
        mark = page.one("tbody", **{"data-live": "requests"}).attributes["data-mark"]
        self.record(*(event(id=f"b{n}") for n in range(ROWS)))
        whole = self.visitor.get(f"/live/requests?once=1&mark={mark}").json()["html"]
        self.record(event(id="c"))
        self.plane.clock.advance(2)  # what was rendered in the same second is not rendered anew
        parted = self.visitor.get(f"/live/requests?once=1&mark={mark}").json()["html"]
        self.assertEqual([whole.count("<th"), parted.count("<th")], [ROWS, ROWS])
        self.assertEqual([text.count("load the page again") for text in (whole, parted)], [0, 1])

    def test_live_on_another_ledger(self) -> None:
        """A page that is older than the ledger is told to be loaded again, and goes on."""
        self.record(event(id="a"))
        for mark in ("1.999999", "9.0"):
            update = self.visitor.get(f"/live/requests?once=1&mark={mark}").json()
            self.assertEqual(update["html"].count("load the page again"), 1)
            self.assertEqual(update["html"].count("<th"), 0)
        self.record(event(id="b"))
        update = self.visitor.get(f"/live/requests?once=1&mark={update['mark']}").json()
        self.assertEqual(update["html"].count("<th"), 1)
        self.assertIn("id=b", update["html"])

    def test_a_disk_that_refuses(self) -> None:
        """The page says so; it shows no empty list."""
        os.remove(self.plane.lasting.ledger_path)
        os.mkdir(self.plane.lasting.ledger_path)
        reply = self.visitor.get("/requests")
        self.assertEqual(reply.status, 503)
        self.assertIn("cannot be read", Page(reply).text)


class OneTests(PageCase):
    """``/requests/one``."""

    def test_whole(self) -> None:
        """Attempts, cost line by line, and where else to look."""
        self.record(event(id="r-1", attempts=[TIMEOUT, OK], latency_ms=1000))
        page = self.visitor.page("/requests/one?id=r-1")
        text = page.text
        self.assertIn("A provider answered, after one attempt that failed.", text)
        self.assertIn("did not begin to answer within the time", text)
        fills = [
            each.attributes for each in page.all("rect") if each.attributes["class"] == "bar-fill"
        ]
        self.assertEqual(
            [(each["x"], each["width"]) for each in fills], [("0.00", "90.00"), ("90.00", "10.00")]
        )
        self.assertIn("input1,000$0.15$0.00015", text)
        self.assertIn("input read from cache100$0.075$0.0000075", text)
        self.assertIn("output10$0.6$0.000006", text)
        self.assertIn("Sum, rounded once to a billionth of a dollar$0.0001635", text)
        self.assertIn("the price of this target in the config in force", text)
        self.assertIn('grep \'"request_id":"r-1"\' access.log', text)
        self.assertIn("/keys/app", [each.attributes["href"] for each in page.all("a")])
        self.assertIn("$0.0098365 left of $0.01 now", text)

    def test_a_price_that_has_changed(self) -> None:
        """Both sums are told, and which one counts."""
        self.record(event(id="r-1"))
        self.plane.write_config(CONFIG.replace("input = 0.15,", "input = 0.30,"))
        self.plane.config_file.load()
        text = self.visitor.page("/requests/one?id=r-1").text
        self.assertIn("At the price in force now$0.0003135", text)
        self.assertIn("As recorded, which is what counts$0.0001635", text)
        self.assertIn("the price has changed since", text)

    def test_a_499_of_the_provider(self) -> None:
        """It is no answer that broke off; of one that did, nobody knows whether it had begun."""
        for number, (outcome, status) in enumerate((("ok", 499), ("ok", 200), ("canceled", None))):
            attempt = {**OK, "outcome": outcome, "status": status}
            self.record(event(id=f"r-{number}", status=499, attempts=[attempt]))
        broken = "the client did not get the whole answer"
        texts = [self.visitor.page(f"/requests/one?id=r-{number}").text for number in range(3)]
        self.assertEqual([broken in text for text in texts], [False, True, True])
        self.assertIn("499, by the provider", texts[0])
        self.assertIn("499 from the provider", texts[0])

    def test_an_id_of_any_shape(self) -> None:
        """The link of its row leads to it."""
        for number, odd in enumerate(('a/b?c=d&e#f "g" %2F\\', "größer ☃", "'><script>", "..")):
            self.record(event(id=odd, ts_ms=START * 1000 + number))
            (link,) = self.links(self.visitor.page(f"/requests?id={quote(odd)}"))
            page = self.visitor.page(link)
            self.assertIn(odd, [each.text for each in page.all("code")])

    def test_not_there(self) -> None:
        """It says where else it may be."""
        reply = self.visitor.get("/requests/one?id=nothing")
        self.assertEqual(reply.status, 404)
        self.assertIn("The ledger has no request of this id.", Page(reply).text)
        self.assertEqual(self.visitor.get("/requests/one").status, 404)

    def test_further_back_than_one_look(self) -> None:
        """It says how far it was looked for, and goes on."""
        self.record(event(id="old"), event(id="new"))
        search = self.plane.generation.search
        search.max_bytes, search.block_bytes = 1, 200
        page = self.visitor.page("/requests/one?id=old")
        self.assertIn("There is more in the ledger.", page.text)
        while page.one("h1").text == "Not found yet":
            page = self.visitor.page(self.link(page, "Go on searching"))
        self.assertIn("Request", page.one("h1").text)

    def test_damaged_members(self) -> None:
        """An old line without most members is shown as far as it goes."""
        with open(self.plane.lasting.ledger_path, "ab") as file:
            file.write(
                b'{"id":"old","key_sha256":"k","route_model":"fast","ts_ms":1,"cost_usd":0.5,'
                b'"received_at":"2026-11-29T23:59:59.999Z","status":"200","attempts":[3]}\n'
            )
        self.visitor.page("/requests")
        text = self.visitor.page("/requests/one?id=old").text
        self.assertIn("As recorded: $0.5", text)
