"""Single requests: found among all that were recorded, and shown whole."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.request_filters import read_time
from omnigate.errors import GatewayError
from omnigate.ledger.event_filter import EventFilter
from omnigate.ledger.event_search import MAX_LOOKS, EventSearch
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import START, Plane, event

#: More than there are in memory.
MANY = 520


class SearchTests(SynchronousTestCase):
    """``GET /admin/requests`` with filters, and ``GET /admin/requests/{id}``."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())

    def record(self, *events: dict[str, Any]) -> None:
        for first in range(0, len(events), 500):
            body = json.dumps({"events": events[first : first + 500]}).encode()
            self.assertEqual(self.plane.internal("POST", "/internal/usage/batch", body).status, 200)

    def ids(self, query: str) -> list[str]:
        """Return the ids of all pages of a search."""
        found: list[str] = []
        cursor: str | None = "newest"
        while cursor is not None:
            answer = self.plane.admin("GET", f"/admin/requests?{query}&cursor={cursor}").json()
            self.assertIsNone(answer["next"])
            found += [row["id"] for row in answer["requests"]]
            cursor = answer["cursor"]
        return found

    def test_further_back_than_memory(self) -> None:
        """Everything is found that was recorded, a page at a time."""
        self.record(*(event(id=f"e{number}") for number in range(MANY)))
        self.assertEqual(self.ids("limit=97"), [f"e{number}" for number in reversed(range(MANY))])
        answer = self.plane.admin("GET", "/admin/requests/e0").json()
        self.assertEqual(
            (answer["id"], answer["key"], answer["cost_usd"]), ("e0", "app", 0.0001635)
        )

    def test_filters(self) -> None:
        """All that is asked for has to be true of an event."""
        attempt = {"upstream": "second", "model": "m", "outcome": "timeout", "status": None}
        gone = "ab" * 32
        self.record(
            event(id="a", ts_ms=START * 1000 - 1),
            event(id="b", status=502, upstream=None, target_model=None),
            event(id="c", attempts=[{**attempt, "duration_ms": 3}]),
            event(id="d", key_sha256=gone, status=499),
            event(id="e/ü?", route_model="other"),
        )
        for query, expected in (
            ("key=app", ["e/ü?", "c", "b", "a"]),
            (f"key={gone}", ["d"]),
            (f"key={gone.upper()}", ["d"]),
            ("model=other", ["e/ü?"]),
            ("upstream=second", ["c"]),
            ("upstream=openai", ["e/ü?", "d", "c", "a"]),
            ("status=failed", ["d", "b"]),
            ("status=cut", ["d"]),
            ("status=5xx", ["b"]),
            ("status=200&key=app", ["e/ü?", "c", "a"]),
            ("since=2026-11-29T20:00:00Z", ["e/ü?", "d", "c", "b"]),
            ("until=2026-11-29T21:00%2B01:00", ["a"]),
            ("until=2026-11-29", ["e/ü?", "d", "c", "b", "a"]),
            ("until=2026-11-28", []),
            (f"id={quote('e/ü?', safe='')}", ["e/ü?"]),
        ):
            self.assertEqual(self.ids(query), expected, query)
        answer = self.plane.admin("GET", "/admin/requests?status=5xx").json()
        self.assertEqual(answer["searched_back_to"], "2026-11-29T20:00:00.000Z")

    def test_what_cannot_be_asked(self) -> None:
        """The parameter that is at fault is named."""
        for query, at_fault in (
            ("key=nobody", "key"),
            ("status=6xx", "status"),
            ("until=9999-12-31T23:59-23:59", "until"),
            ("since=yesterday", "since"),
            ("since=2026-11-30&until=2026-11-28", "since"),
            ("cursor=1", "cursor"),
            ("before=a&status=failed", "before"),
            ("limit=0", "limit"),
        ):
            reply = self.plane.admin("GET", f"/admin/requests?{query}")
            self.assertEqual((reply.status, reply.json().get("param")), (400, at_fault), query)

    def test_an_id_that_is_not_there(self) -> None:
        """It is said where else to look."""
        reply = self.plane.admin("GET", "/admin/requests/nothing")
        self.assertEqual((reply.status, reply.json()["code"]), (404, "not_found"))
        self.assertIn("refusals", reply.json()["detail"])

    def test_a_disk_that_refuses(self) -> None:
        """It is no empty list."""
        os.remove(self.plane.lasting.ledger_path)
        os.mkdir(self.plane.lasting.ledger_path)
        reply = self.plane.admin("GET", "/admin/requests?status=failed")
        self.assertEqual((reply.status, reply.json()["code"]), (503, "storage_unavailable"))

    def test_too_many_at_once(self) -> None:
        """So many wait for the thread; the next one is told to come back."""
        writer = SynchronousWriter(holding=True)
        search = EventSearch(self.plane.lasting.ledger_path, self.plane.ledger, writer, lambda: 3)
        waiting = [search.look_back(EventFilter(), 1) for _ in range(MAX_LOOKS)]
        refused = self.assertRaises(GatewayError, search.look_back, EventFilter(), 1)
        self.assertEqual((refused.kind.code, refused.retry_after), ("overloaded", 1))
        writer.run()
        for each in waiting:
            self.assertEqual(self.successResultOf(each).events, [])
        writer.holding = False
        self.successResultOf(search.look_back(EventFilter(), 1))


class TimeTests(SynchronousTestCase):
    """Times as people and programs write them."""

    def test_forms(self) -> None:
        for text, expected in (
            ("2026-11-29T20:00:00Z", START * 1000),
            ("2026-11-29T20:00", START * 1000),
            ("2026-11-29 22:00:00.250+02:00", START * 1000 + 250),
            ("1969-12-31", 0),
        ):
            self.assertEqual(read_time("since", text), expected, text)
        self.assertEqual(
            read_time("until", "2026-11-29", is_end=True), read_time("until", "2026-11-30")
        )

    @given(
        st.text(max_size=30) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.{0,9}", fullmatch=True)
    )
    def test_anything_else(self, text: str) -> None:
        """Whatever is no time is refused as that."""
        try:
            self.assertGreaterEqual(read_time("since", text, is_end=True), 0)
        except GatewayError as refusal:
            self.assertEqual(refusal.param, "since")
