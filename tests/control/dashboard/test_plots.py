"""Plots: whatever the values are, they are well-formed and stay in their frame."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard import drawing
from omnigate.control.dashboard.plots import (
    MAX_BARS,
    MAX_HOVERS,
    MAX_POINTS,
    MAX_SERIES,
    Series,
    lines,
    stacked,
)
from omnigate.control.dashboard.scales import (
    STEPS,
    TIME_TICKS,
    scale_to,
    tick_text,
    time_texts,
    time_ticks,
    value_text,
)

#: 2026-11-29T20:00:00Z
NOW = 1_795_982_400_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000

UNITS = st.sampled_from(["usd", "ms", "share", "requests", ""])
VALUES = st.none() | st.floats() | st.integers(-(10**30), 10**30)
NAMES = st.text(max_size=20)


@st.composite
def drawn_series(draw: st.DrawFn, points: int) -> list[Series]:
    """Series of any values, as many as can be told apart."""
    columns = st.lists(VALUES, min_size=points, max_size=points)
    return draw(st.lists(st.builds(Series, NAMES, columns), max_size=MAX_SERIES))


def check_frame(case: SynchronousTestCase, markup: str) -> ElementTree.Element:
    """See that nothing is outside of what is shown."""
    root = ElementTree.fromstring(markup)
    for element in root.iter():
        places = {name: element.get(name, "0") for name in ("x", "width", "x1", "x2", "cx")}
        shares = {name: float(text[:-1]) for name, text in places.items() if text.endswith("%")}
        case.assertTrue(all(0 <= share <= 100 for share in shares.values()), places)
        case.assertLessEqual(shares.get("x", 0) + shares.get("width", 0), 100.01)
        if element.tag in ("rect", "text", "line", "circle"):
            top = float(element.get("y") or element.get("y1") or element.get("cy") or "nan")
            case.assertTrue(0 <= top <= drawing.WHOLE, element.attrib)
            bottom = top + float(element.get("height", "0"))
            case.assertLessEqual(
                bottom, drawing.TOP + drawing.HEIGHT + 0.02 + 20 * (element.tag == "text")
            )
        if element.tag == "path" and element.get("d"):
            numbers = [float(text) for text in re.findall(r"[-0-9.]+", element.get("d", ""))]
            case.assertTrue(all(0 <= x <= 1000 for x in numbers[::2]))
            case.assertTrue(all(0 <= y <= drawing.HEIGHT for y in numbers[1::2]))
    return root


class AnyValueTests(SynchronousTestCase):
    """Values from anywhere."""

    @settings(deadline=None)
    @given(st.data(), st.integers(0, 12), UNITS, NAMES)
    def test_lines(self, data: st.DataObject, points: int, unit: str, title: str) -> None:
        """Over any times."""
        instants = st.lists(st.integers(0, 4 * NOW), min_size=points, max_size=points)
        times = sorted(data.draw(instants))
        check_frame(self, lines(title, times, data.draw(drawn_series(points)), unit))

    @settings(deadline=None)
    @given(st.data(), st.integers(0, 12), UNITS, NAMES)
    def test_bars(self, data: st.DataObject, bars: int, unit: str, title: str) -> None:
        """With any labels."""
        texts = NAMES | st.just("2026-11-29") | st.just("2026-02-30")
        labels = data.draw(st.lists(texts, min_size=bars, max_size=bars))
        check_frame(self, stacked(title, labels, data.draw(drawn_series(bars)), unit))

    @given(st.floats(0, 1e30), st.booleans(), UNITS)
    def test_an_axis(self, largest: float, are_whole: bool, unit: str) -> None:
        """It holds the value, has a few ticks, and no two say the same."""
        scale = scale_to(largest, are_whole or unit == "usd")
        self.assertGreaterEqual(
            scale.top, min(largest, 1e18) * (1 - 1e-9) if largest >= 1e-9 else 0
        )
        self.assertTrue(1 <= scale.steps <= STEPS + 1)
        texts = [tick_text(tick, scale, unit) for tick in scale.ticks]
        self.assertEqual(len(set(texts)), len(texts), texts)
        self.assertLess(max(map(len, texts)), 16, texts)

    @given(st.integers(0, 2 * NOW), st.integers(0, 2 * NOW))
    def test_an_axis_of_times(self, start: int, span: int) -> None:
        """A few ticks, all between both ends."""
        ticks = time_ticks(start, start + span)
        self.assertLessEqual(len(ticks), TIME_TICKS)
        self.assertTrue(all(start <= tick <= start + span for tick in ticks))


class PlotTests(SynchronousTestCase):
    """What is on them."""

    def test_ticks(self) -> None:
        """Steps of one, two and five, in the words of their unit."""
        for largest, unit, expected in (
            (7, "requests", "0 2 4 6 8"),
            (3, "requests", "0 1 2 3"),
            (12_000, "tokens", "0 5\u202f000 10\u202fk 15\u202fk"),
            (5 * 10**9, "usd", "0 $1 $2 $3 $4 $5"),
            (12_000_000, "usd", "0 $0.005 $0.010 $0.015"),
            (1_500, "ms", "0 0.5\u202fs 1.0\u202fs 1.5\u202fs"),
            (0.3, "ms", "0 0.1\u202fms 0.2\u202fms 0.3\u202fms"),
            (1, "share", "0 20\u202f% 40\u202f% 60\u202f% 80\u202f% 100\u202f%"),
        ):
            scale = scale_to(largest, unit not in ("ms", "share"))
            texts = [tick_text(tick, scale, unit) for tick in scale.ticks]
            self.assertEqual(" ".join(texts), expected)

    def test_ticks_of_time(self) -> None:
        """Hours within a day, days above; midnight is told by its day."""
        for span, expected in (
            (HOUR, "19:00 19:10 19:20 19:30 19:40 19:50 20:00"),
            (DAY, "21:00 29 Nov 03:00 06:00 09:00 12:00 15:00 18:00"),
            (7 * DAY, "23 Nov 24 Nov 25 Nov 26 Nov 27 Nov 28 Nov 29 Nov"),
        ):
            ticks = time_ticks(NOW - span, NOW)
            self.assertEqual(" ".join(time_texts(ticks)), expected)

    def test_values_on_hover(self) -> None:
        """Each bar tells its day and its layers."""
        root = check_frame(
            self,
            stacked(
                "Cost",
                ["2026-11-28", "2026-11-29"],
                [Series("fast", [10**9, 0]), Series("other", [None, 2 * 10**9])],
                "usd",
            ),
        )
        titles = [element.text for element in root.iter("title")]
        self.assertEqual(
            titles,
            [
                "2026-11-28\nfast: $1.00\nother: none\nall: $1.00",
                "2026-11-29\nfast: $0.00\nother: $2.00\nall: $2.00",
            ],
        )
        label = root[0].get("aria-label", "")
        self.assertEqual(
            label, "Cost: 2026-11-28 to 2026-11-29; fast at most $1.00; other at most $2.00"
        )
        rects = root.iter("rect")
        blocks = [one for one in rects if one.get("class", "").startswith("block series")]
        self.assertEqual(
            [one.get("class") for one in blocks], ["block series-1", "block series-other"]
        )
        self.assertEqual([float(one.get("height", "")) for one in blocks], [80.0, 160.0])

    def test_bars_of_instants(self) -> None:
        """They are told in UTC, and the script knows which they are."""
        root = check_frame(
            self, stacked("Spend", [NOW, NOW + HOUR], [Series("spend", [1, 2])], "requests")
        )
        labels = [text for text in root.iter("text") if text.get("data-time")]
        self.assertEqual([text.text for text in labels], ["20:00", "21:00"])
        self.assertEqual(labels[0].get("data-time"), str(NOW))
        titles = [element.text or "" for element in root.iter("title")]
        self.assertEqual(titles[0], "2026-11-29 20:00 UTC\nspend: 1 requests")

    def test_a_gap(self) -> None:
        """A line is broken where there is nothing; what stands alone is a dot."""
        times = [NOW + MINUTE * index for index in range(6)]
        root = check_frame(
            self, lines("Waiting", times, [Series("p95", [1, 2, None, 3, None, 4])], "ms")
        )
        (path,) = root.iter("path")
        self.assertEqual(path.get("d", "").count("M"), 1)
        self.assertEqual(len(list(root.iter("circle"))), 2)

    def test_nothing(self) -> None:
        """A plot of nothing says so."""
        root = check_frame(self, lines("Requests", [], [], "requests"))
        self.assertEqual(root[0].get("aria-label"), "Requests: nothing yet")

    def test_as_much_as_there_can_be(self) -> None:
        """It stays small enough to send; what is more is a fault of ours."""
        times = [NOW + MINUTE * index for index in range(MAX_POINTS)]
        values = [float(index) for index in range(MAX_POINTS)]
        series = [Series(f"model-{index}", values) for index in range(MAX_SERIES)]
        markup = lines("Requests", times, series, "requests")
        root = check_frame(self, markup)
        self.assertEqual(len(list(root.iter("title"))), MAX_HOVERS)
        self.assertLess(len(markup), 100_000)
        labels = [f"day {index}" for index in range(MAX_BARS)]
        layers = [Series(one.name, one.values[:MAX_BARS]) for one in series]
        self.assertLess(len(stacked("Requests", labels, layers, "requests")), 250_000)
        for too_much in (
            lambda: lines("Requests", [*times, NOW * 2], [], "requests"),
            lambda: stacked("Requests", [*labels, "one more"], [], "requests"),
            lambda: stacked("Requests", [], [Series("", [])] * (MAX_SERIES + 1), "requests"),
            lambda: stacked("Requests", ["a"], [Series("", [])], "requests"),
        ):
            self.assertRaises(ValueError, too_much)

    def test_values_in_words(self) -> None:
        """As numbers are written everywhere."""
        for value, unit, expected in (
            (None, "usd", "none"),
            (float("nan"), "ms", "none"),
            (10**9, "usd", "$1.00"),
            (1300, "ms", "1.3\u202fs"),
            (0.5, "share", "50\u202f%"),
            (0.25, "requests", "0.25 requests"),
            (12, "", "12"),
        ):
            self.assertEqual(value_text(value, unit), expected)
