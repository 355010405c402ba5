"""The figures, plots and lists of the first page."""

from __future__ import annotations

import shlex
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.failed_requests import FAILED_SHOWN, failed_requests
from omnigate.control.dashboard.overview import (
    POINTS,
    first_request,
    plane_lines,
    plots,
    rates,
)
from omnigate.control.dashboard.plots import MAX_BARS
from omnigate.control.minutes import MINUTE_MS, MINUTES_KEPT, Minutes
from omnigate.control.plane_states import SILENT_MS, PlaneState
from omnigate.events import decode_event
from tests.control.plane import START, event

NOW = START * 1000
FIRST = "omnigate_data_time_to_first_event_seconds"


def plane(name: str = "gw", **members: Any) -> PlaneState:
    found: dict[str, Any] = {
        "reporter": name,
        "told_ms": NOW,
        "figures": {},
        "upstreams": {},
        "host": name,
    }
    return PlaneState(**(found | {"address": "127.0.0.1:8080"} | members))


class RateTests(SynchronousTestCase):
    def test_nothing_is_not_zero(self) -> None:
        found = rates(Minutes(NOW), NOW)
        self.assertEqual(0, found.requests)
        self.assertEqual(
            [None] * 4, [found.median_ms, found.slow_ms, found.hit_share, found.cached_share]
        )

    def test_a_minute(self) -> None:
        minutes = Minutes(NOW - 10 * MINUTE_MS)
        for number in range(9):
            minutes.recorded(decode_event(event(ts_ms=NOW, status=500 + number)), 1, NOW)
        minutes.counted(FIRST, ["chat", "3"], 4, NOW)
        minutes.counted("omnigate_data_cache_lookups_total", ["hit"], 1, NOW)
        minutes.counted("omnigate_data_cache_lookups_total", ["miss"], 3, NOW)
        found = rates(minutes, NOW + MINUTE_MS // 2)
        self.assertEqual((2.0, 2.0, 0.0), (found.requests, found.errors, found.refusals))
        self.assertEqual(0.25, found.hit_share)
        self.assertAlmostEqual(100 / 1100, found.cached_share or 0)
        self.assertAlmostEqual(37.5, found.median_ms or 0)


class PlotTests(SynchronousTestCase):
    def test_every_choice_can_be_drawn(self) -> None:
        minutes = Minutes(NOW - 7_000_000)
        minutes.recorded(decode_event(event(ts_ms=NOW)), 5_000_000, NOW)
        minutes.counted(FIRST, ["chat", "3"], 4, NOW)
        for hours, (points, step) in POINTS.items():
            self.assertEqual(hours * 60, points * step)
            self.assertLessEqual(points, MAX_BARS)
            self.assertLessEqual(hours * 60, MINUTES_KEPT)
            drawn = plots(minutes, hours, NOW)
            for svg in (drawn.requests, drawn.first_events, drawn.spend):
                self.assertIn("<svg", str(svg))

    def test_no_streams(self) -> None:
        self.assertIsNone(plots(Minutes(NOW), 1, NOW).first_events)


class FailedTests(SynchronousTestCase):
    def test_the_newest(self) -> None:
        def tried(outcome: str, status: int | None = None) -> list[dict[str, Any]]:
            last = {"upstream": "b", "outcome": outcome, "status": status}
            return [{"upstream": "a", "outcome": "timeout", "status": None}, last]

        found = failed_requests(
            [
                event(id="well", attempts=tried("ok", 200)),
                event(id="a", status=502, upstream=None, attempts=tried("status_503", 503)),
                event(id="b", status=400, attempts=tried("ok", 400), key_sha256="gone"),
                event(id="c", status=499, attempts=tried("canceled")),
                event(id="d/e&f", status=500, attempts=[]),
            ],
            {event()["key_sha256"]: "app"},
        )
        self.assertEqual(["a", "b", "c", "d/e&f"], [row.request_id for row in found])
        self.assertEqual(["app", None, "app", "app"], [row.key for row in found])
        self.assertEqual(["bad", "bad", "warn", "bad"], [row.cause.kind for row in found])
        self.assertEqual(["b", "b", "b", ""], [row.upstream for row in found])
        self.assertEqual(
            [
                "503 from the provider",
                "400 Bad Request, by the provider",
                "the client left",
                "500 Internal Server Error, by the provider",
            ],
            [row.cause.title for row in found],
        )
        self.assertNotIn("&f", found[3].path)

    def test_bounded(self) -> None:
        found = failed_requests([event(status=500)] * 400, {})
        self.assertEqual(FAILED_SHOWN, len(found))


class PlaneTests(SynchronousTestCase):
    def test_lines(self) -> None:
        found = plane_lines(
            [
                plane("a", config="v1", figures={"spool_events": 3.0, "reactor_lag_seconds": 0.02}),
                plane("b", config="v0"),
                plane("c"),
                plane("d", told_ms=NOW - SILENT_MS - 1),
                plane("e", polled_ms=NOW - 99_000_000),
                plane("f", missing=("openai",)),
            ],
            "v1",
            NOW,
        )
        words = {line.name[0]: (line.words, line.is_newest) for line in found}
        self.assertEqual(
            {
                "a": ("healthy", True),
                "b": ("healthy", False),
                "c": ("healthy", None),
                "d": ("silent", None),
                "e": ("no new config", None),
                "f": ("lacks a credential", None),
            },
            words,
        )
        self.assertEqual({"d", "e", "f"}, {line.name[0] for line in found[:3]})
        (line,) = [line for line in found if line.name[0] == "a"]
        self.assertEqual((3, 20.0), (line.waiting, line.hold_ms))


class FirstRequestTests(SynchronousTestCase):
    def test_where_a_plane_listens(self) -> None:
        for address, url in (
            ("10.0.0.5:8080", "http://10.0.0.5:8080/"),
            ("0.0.0.0:80", "http://127.0.0.1:80/"),
            ("[::]:80", "http://127.0.0.1:80/"),
            ("no port yet", "http://127.0.0.1:8080/"),
            ("/run/omnigate.sock", "http://127.0.0.1:8080/"),
        ):
            self.assertIn(url, first_request("fast", [plane(address=address)]))
        self.assertIn("http://127.0.0.1:8080/", first_request("fast", []))

    def test_tls(self) -> None:
        one = plane(
            address="10.0.0.5:443", figures={"certificate_expiry_timestamp_seconds": NOW / 1000}
        )
        self.assertIn("curl https://10.0.0.5:443/", first_request("fast", [one]))

    @given(st.text(max_size=30))
    def test_a_shell_reads_it(self, model: str) -> None:
        words = shlex.split(first_request(model, []))
        self.assertEqual("curl", words[0])
        self.assertEqual(8, len(words))
