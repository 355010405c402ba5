"""The table, the medians, and the object for programs."""

import json
import re

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from bench import report
from bench.relative import Yards
from bench.report import Summary, median, percentile, table
from bench.rounds import ALONE, GATEWAY, NGINX, Findings, Options
from bench.scenarios import Reading
from bench.usage import Usage


def reading(cpu_us: float | None, delays_ms: list[float], broken: int = 0) -> Reading:
    """One measurement of a load of two seconds."""
    return Reading(
        units=len(delays_ms),
        requests=len(delays_ms),
        cpu_us=cpu_us,
        delays_ms=delays_ms,
        seconds=2.0,
        rss_peak_mb=None if cpu_us is None else 57.3,
        other_cores=0.125,
        broken=broken,
        reasons=[],
    )


def findings() -> Findings:
    """Three rounds of one scenario on all subjects, and one of another on the gateway alone."""
    found = Findings(starts=[0.9, 0.7, 0.8], idle_mb=[55.0, 56.0, 54.0], notes=["a note"])
    found.readings = {
        ("chat1", GATEWAY): [reading(us, [1.0, 2.0, 9.0]) for us in (70.0, 50.0, 60.0)],
        ("chat1", NGINX): [reading(us, [1.0, 1.0, 1.0]) for us in (35.0, 20.0, 20.0)],
        ("chat1", ALONE): [reading(None, [0.5, 0.5, 0.5])],
        ("stream32", GATEWAY): [reading(3.456, [14.0])],
    }
    found.booked = Usage(7, 100, 200)
    found.control_us = [30.0]
    return found


class FigureTests(SynchronousTestCase):
    def test_percentile(self) -> None:
        """The nearest rank, and never a value that was not measured."""
        values = [float(value) for value in range(1, 101)]
        self.assertEqual(percentile(values, 0.50), 50)
        self.assertEqual(percentile(values, 0.99), 99)
        self.assertEqual(percentile(values, 1.0), 100)
        self.assertEqual(percentile([7.0], 0.01), 7)

    @settings(max_examples=100)
    @given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0.001, 1.0))
    def test_percentile_of_anything(self, values: list[float], share: float) -> None:
        """At least the share is at or below it, and less than the share is below it."""
        found = percentile(sorted(values), share)
        at_most = sum(value <= found for value in values)
        below = sum(value < found for value in values)
        self.assertGreaterEqual(at_most + 1e-9, share * len(values))
        self.assertLess(below, share * len(values) + 1e-9)

    def test_median(self) -> None:
        """What is not known counts for nothing."""
        self.assertEqual(median([3.0, None, 1.0, 2.0]), 2)
        self.assertIsNone(median([None]))

    def test_digits(self) -> None:
        """Three digits that mean something, whatever the size."""
        shown = [
            report.figure(value) for value in (0, 0.04567, 1.0, 9.996, 99.96, 12345.6, -0.0312)
        ]
        self.assertEqual(shown, ["0", "0.0457", "1.00", "10.0", "100", "12,300", "-0.0312"])
        self.assertEqual(report.figure(None), "")


class SummaryTests(SynchronousTestCase):
    def test_medians_of_rounds(self) -> None:
        """A summary has the median of each figure, and the sum of the broken answers."""
        summary = Summary.of([reading(us, [us, us], 1) for us in (3.0, 1.0, 2.0)])
        self.assertEqual((summary.cpu_us, summary.p50_ms, summary.rate), (2, 2, 1))
        self.assertEqual(summary.broken, 3)

    def test_nothing_measured(self) -> None:
        """A load whose warm-up broke has no figures, and is no error."""
        summary = Summary.of([reading(None, [], 20)])
        self.assertEqual((summary.p50_ms, summary.rate, summary.broken), (None, None, 20))

    def test_ratio_and_what_is_added(self) -> None:
        """Both are of one scenario, and unknown where the other side is missing."""
        rows = report.summaries(findings())
        self.assertEqual(report.ratio(findings(), "chat1"), 2.5)
        self.assertEqual(report.added_ms(rows, "chat1"), 1.5)
        self.assertIsNone(report.ratio(findings(), "stream32"))
        self.assertIsNone(report.added_ms(rows, "stream32"))


class TextTests(SynchronousTestCase):
    def test_table(self) -> None:
        """Words stand to the left, numbers to the right, and no line ends in blanks."""
        text = table(("", "CPU"), [("chat", "1.5"), ("", "12,000")], left=(0,))
        self.assertEqual(text, "         CPU\n------------\nchat     1.5\n      12,000")

    def test_report(self) -> None:
        """Scenarios come in their order, named once; facts and notes follow."""
        lines = report.text_report(findings(), Options(names=["chat1"])).splitlines()
        self.assertEqual(
            [re.split(" {2,}", line)[:3] for line in lines[2:6]],
            [
                ["chat1", "chat, 1 KB, 1 connection", "omnigate"],
                ["", "nginx", "20.0"],
                ["", "no gateway", "0.500"],
                ["stream32", "streams of 100 events in one write, 32", "omnigate"],
            ],
        )
        self.assertRegex(
            lines[2], r"omnigate +60\.0 +request +2\.50 +2\.00 +9\.00 +1\.5 +57\.3 +0 +0\.1$"
        )
        self.assertRegex(lines[4], r"no gateway +0\.500 +0\.500 +1\.5 +0 +0\.1$")
        text = "\n".join(lines)
        self.assertIn("answered request: 0.800 (0.700 to 0.900) s. Memory idle: 55.0", text)
        self.assertIn("Added to the median request of chat1: 1.50 ms.", text)
        self.assertIn("Note: a note.", text)
        self.assertIn("7 requests, 100 tokens in, 200 out, 0.000135 USD", text)

    def test_what_costs_how_often(self) -> None:
        """TLS and translation are told in times what the plain figure is."""
        found = findings()
        found.readings["chat32", GATEWAY] = [reading(50.0, [1.0])]
        found.readings["tls32", GATEWAY] = [reading(90.0, [1.0])]
        text = report.text_report(found, Options(names=["chat32", "tls32"]))
        self.assertIn("TLS on both sides takes 1.80 times the processor time.", text)
        self.assertNotIn("A translated request takes", text)

    def test_memory(self) -> None:
        """What was measured in memory has a table of its own, with instructions where there are."""
        found = Findings(yards=[Yards("exchange", "one exchange", "request", 3.9, 60.0)])
        text = report.text_report(found, Options(names=["memory"]))
        self.assertRegex(text, r"exchange +one exchange +60\.0 +request +3\.90$")
        found.instructions = {"exchange": 485_214.0}
        text = report.text_report(found, Options(names=["memory"]))
        self.assertRegex(text, r"one exchange +60\.0 +request +3\.90 +485,214$")
        kept = report.kept_figures(found)
        self.assertEqual((kept.yards, kept.nginx), ({"exchange": 3.9}, {}))
        self.assertEqual(report.kept_figures(findings()).nginx, {"chat1": 2.5})

    def test_much_else_to_do(self) -> None:
        """A run beside other programs says so, and that it should be done again."""
        found = findings()
        self.assertNotIn("other programs", report.text_report(found, Options(names=["chat1"])))
        busy = attrs.evolve(reading(50.0, [1.0]), other_cores=1.26)
        found.readings["chat32", GATEWAY] = [busy]
        text = report.text_report(found, Options(names=["chat1", "chat32"]))
        self.assertIn("Note: other programs took up to 1.3 cores (others), ", text)
        self.assertIn("run it again", text)

    def test_report_of_nothing(self) -> None:
        """A run that broke before its first figure still has a report."""
        self.assertIn("Medians of", report.text_report(Findings(), Options(names=["chat1"])))

    def test_document(self) -> None:
        """The object is JSON, and has every round."""
        document = json.loads(json.dumps(report.document(findings(), Options(names=["chat1"]))))
        chat = document["scenarios"]["chat1"]
        self.assertEqual(chat["cpu_ratio_to_nginx"], 2.5)
        rounds = chat["subjects"][GATEWAY]["rounds"]
        self.assertEqual([one["cpu_us"] for one in rounds], [70, 50, 60])
        self.assertEqual(document["first_answer_seconds"], [0.9, 0.7, 0.8])
