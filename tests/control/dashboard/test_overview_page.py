"""The first page, as somebody sees it who opens it."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.config_file import SIGNAL, Cause
from omnigate.control.dashboard.overview_page import GOOD_FOR_SECONDS
from tests.control.dashboard.visitor import Visitor
from tests.control.plane import APP_SHA, CONFIG, START, Plane, event


class OverviewCase(SynchronousTestCase):
    config = CONFIG

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp(), config=self.config)
        self.addCleanup(self.plane.close)
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()

    def text(self, target: str = "/") -> str:
        self.plane.clock.advance(GOOD_FOR_SECONDS)
        return self.visitor.page(target).text.replace("\N{NARROW NO-BREAK SPACE}", " ")

    def report(self, **members: Any) -> None:
        about = {"host": "gw-1", "address": "127.0.0.1:8080", **members.pop("about", {})}
        body = {"gauges": {"spool_events": 0}, "reporter": "a", "about": about, **members}
        reply = self.plane.internal("POST", "/internal/counters", json.dumps(body).encode())
        self.assertEqual(200, reply.status)

    def used(self, *events: dict[str, Any]) -> None:
        batch = json.dumps({"events": events}).encode()
        self.assertEqual(200, self.plane.internal("POST", "/internal/usage/batch", batch).status)


class WellTests(OverviewCase):
    def test_all_is_well(self) -> None:
        self.used(event(input_tokens=10))
        self.report()
        text = self.text()
        self.assertIn("Nothing needs attention.", text)
        self.assertNotIn("first request", text)
        self.assertIn("gw-1 (127.0.0.1:8080)", text)

    def test_figures(self) -> None:
        self.used(event(id="1", ts_ms=START * 1000 - 86_400_000), event(id="2"))
        self.report(
            counts=[("omnigate_data_time_to_first_event_seconds", [(["chat", "3"], 5)])],
            refusals=[{"key": "app", "code": "not_found", "count": 5}],
            number=1,
        )
        text = self.text()
        # 1,000 plain, 100 cached and 10 output tokens cost 0.0001635 dollars.
        self.assertIn("Spent today $0.000163", text)
        self.assertIn("Spent this month $0.000327", text)
        self.assertIn("38 ms", text)
        self.assertIn("None of the last 500 requests failed.", text)

    def test_a_clock_that_was_set_back(self) -> None:
        """What was gathered before that is not good until the clock has come up to it."""
        self.used(event(id="1"))
        self.assertIn("1 request, by UTC", self.text())
        self.used(event(id="2"))
        self.plane.clock.rightNow -= 20
        self.assertIn("2 requests, by UTC", self.visitor.page("/").text)
        self.plane.clock.rightNow -= 20
        self.used(event(id="3"))
        html = self.visitor.get("/live/overview?once=1").json()["html"]
        self.assertIn("3 requests, by UTC", html)

    def test_hours(self) -> None:
        self.used(event())
        self.assertIn("The last hour", self.text("/?hours=x"))
        self.assertIn("The last 6 hours", self.text("/?hours=6"))
        self.assertIn("since", self.text("/?hours=24"))

    def test_comes_up_by_itself(self) -> None:
        """What is sent later is made by the same template."""
        self.used(event())
        page = self.visitor.page("/")
        mark = page.one("div", **{"data-live": "overview"}).attributes["data-mark"]
        reply = self.visitor.get(f"/live/overview?once=1&mark={mark}")
        self.assertEqual((200, ""), (reply.status, reply.json()["html"]))
        self.used(event(id="2", status=502))
        self.plane.clock.advance(2 * GOOD_FOR_SECONDS)
        update = self.visitor.get(f"/live/overview?once=1&mark={mark}").json()
        self.assertIn("Newest failed requests", update["html"])
        self.assertIn("502", update["html"])
        self.assertNotIn("form_token", update["html"])


class TroubleTests(OverviewCase):
    def test_what_is_not_well_stands_first(self) -> None:
        self.used(
            event(
                id="1",
                status=502,
                upstream=None,
                target_model=None,
                attempts=[
                    {
                        "upstream": "openai",
                        "model": "gpt-4o-mini",
                        "outcome": "timeout",
                        "status": None,
                        "duration_ms": 5,
                    }
                ],
            ),
            event(id="2", input_tokens=10**6),  # 0.15 dollars of a budget of 0.01
        )
        self.plane.write_config("nonsense")
        self.plane.config_file.reload(Cause(SIGNAL))
        self.report(upstreams={"openai": 2})
        text = self.text()
        for words in (
            "The config file has 1 fault",
            "Upstream openai: all models rest; 100 % of 1 attempts failed",
            "Key app has spent its budget and is blocked.",
        ):
            self.assertIn(words, text)
            self.assertLess(text.index(words), text.index("Spent today"))
        self.assertIn("app blocked", text)

    def test_the_strip_says_nothing_twice(self) -> None:
        self.plane.write_config("nonsense")
        self.plane.config_file.reload(Cause(SIGNAL))
        self.assertEqual(1, self.text().count("the last good config is in force"))
        self.assertEqual(1, self.text("/models").count("the last good config is in force"))

    def test_nobody_reports(self) -> None:
        self.used(event())
        self.assertNotIn("No data plane reports.", self.text())
        self.plane.clock.advance(60)
        self.assertIn("No data plane reports.", self.text())


class RestartTests(OverviewCase):
    """Another process over the same files."""

    def test_what_comes_back(self) -> None:
        """What was spent, the newest requests and who signed in; minutes begin anew, and say so."""
        self.used(event(id="1", status=502), event(id="2"))
        before = self.text()
        self.plane.close()
        plane = Plane(os.path.dirname(self.plane.config_path), config=self.config)
        self.addCleanup(plane.close)
        self.visitor = Visitor(plane.talk)
        self.visitor.sign_in()
        after = self.text()
        for words in ("Spent today $0.000327", "Spent this month $0.000327", "2 requests"):
            self.assertIn(words, before)
            self.assertIn(words, after)
        self.assertIn("These are counted in memory, since the control plane started", after)
        self.assertEqual(len(self.visitor.page("/").all("a", href="/requests/one?id=1")), 1)
        for number in (1, 2):
            link = f"/requests/one?id={number}"
            self.assertTrue(self.visitor.page("/requests").all("a", href=link), link)
        lines = self.visitor.page("/audit").one("tbody").text
        self.assertEqual(lines.count("sign_in"), 2)


class OldLinesTests(SynchronousTestCase):
    """Lines that lack what no sum needs, or have it of another kind."""

    def test_every_page_that_shows_recent_requests(self) -> None:
        folder = self.mktemp()
        os.makedirs(folder)
        members: list[dict[str, Any]] = [
            {},
            {"status": "502"},
            {"status": None, "attempts": None},
            {"status": True},
            {"status": 502.5, "upstream": None},
            {"status": 502, "attempts": {"a": 1}, "cached": "no"},
            {"status": 502, "attempts": [3, {"outcome": 7, "status": "x"}], "estimated": 1},
        ]
        with open(os.path.join(folder, "ledger.jsonl"), "w") as file:
            for number, some in enumerate(members):
                line: dict[str, Any] = {
                    "id": f"old{number}",
                    "key_sha256": APP_SHA,
                    "route_model": "fast",
                }
                line |= {"ts_ms": START * 1000, "received_at": "2026-11-29T20:00:00.000Z"}
                file.write(json.dumps({**line, "cost_usd": 0, **some}) + "\n")
        plane = Plane(folder)
        self.addCleanup(plane.close)
        visitor = Visitor(plane.talk)
        visitor.sign_in()
        self.assertEqual(7, plane.generation.ledger.events)
        for target in ("/", "/keys", "/keys/app", "/requests", "/usage", "/models"):
            visitor.page(target)
        self.assertEqual(visitor.page("/").text.count("every target failed"), 2)


class NewTests(OverviewCase):
    config = ""

    def test_what_to_do_next(self) -> None:
        text = self.text()
        for words in (self.plane.config_path, "Create a key", "curl http://127.0.0.1:8080/v1/"):
            self.assertIn(words, text)

    def test_nothing_is_expected_of_nobody(self) -> None:
        self.plane.clock.advance(60)
        self.assertNotIn("No data plane reports.", self.text())
