"""The short form that continuous integration runs: when it fails, and that it measures."""

import contextlib
import io
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import baseline, in_memory, quick, relative, yardstick
from bench.baseline import figures
from bench.relative import quartile


class JudgeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())
        self.asked: list[float] = []

    def judge(self, *measured: dict[str, float]) -> tuple[int, str, str]:
        """Judge what comes of one measurement and, where it is asked for, of another."""
        results = iter(measured)

        def measure(seconds: float) -> dict[str, float]:
            self.asked.append(seconds)
            return next(results)

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = quick.judge(self.path, 1.5, 2.0, measure)
        return status, out.getvalue(), err.getvalue()

    def keep(self) -> None:
        """Keep figures for this Python."""
        kept = figures({"exchange": 4.0, "event": 0.2}, {}, {})
        baseline.save(self.path, baseline.python_key(), kept)

    def test_nothing_kept(self) -> None:
        """Without figures there is nothing to fail on, and that is said."""
        status, out, _ = self.judge({"exchange": 4.0})
        self.assertEqual(status, 0)
        self.assertIn("nothing is compared", out)

    def test_as_good(self) -> None:
        """What is a little dearer is told, and does not fail."""
        self.keep()
        status, out, err = self.judge({"exchange": 5.9, "event": 0.2})
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"exchange +yards +5\.90 +4\.00 +1\.4\d +worse")

    def test_once_is_no_time(self) -> None:
        """A bad measurement is taken again, for longer; the best of each figure counts."""
        self.keep()
        status, out, err = self.judge(
            {"exchange": 9.0, "event": 0.2}, {"exchange": 4.1, "event": 0.9}
        )
        self.assertEqual((status, err, self.asked), (0, "", [2.0, 4.0]))
        status, out, err = self.judge(
            {"exchange": 9.0, "event": 0.9},
            {"exchange": 4.1, "event": 0.9},
            {"exchange": 9.0, "event": 0.2},
        )
        self.assertEqual((status, err), (0, ""))
        self.assertIn("measured again", out)

    def test_another_python(self) -> None:
        """Where only the figures of another Python are kept, more is borne, but not all."""
        name, version, build = baseline._parts(baseline.python_key())
        kept = figures({"exchange": 4.0}, {}, {})
        baseline.save(self.path, f"{name}-3.{version + 1} {build}", kept)
        self.assertEqual(self.judge({"exchange": 8.9})[0], 0)
        slow = {"exchange": 9.1}
        self.assertEqual(self.judge(slow, slow, slow)[0], 1)

    def test_a_gross_loss(self) -> None:
        """What is over the limit in every try fails, by name."""
        self.keep()
        slow = {"exchange": 6.1, "event": 0.2}
        status, _, err = self.judge(slow, slow, slow)
        self.assertEqual(status, 1)
        self.assertIn("exchange takes 1.5", err)
        self.assertNotIn("event", err)

    def test_a_baseline_that_is_none(self) -> None:
        """A broken file is a fault, not a pass."""
        self.path.write_text("{}")
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(quick.main(["--baseline", str(self.path), "--seconds", "0"]), 1)
        self.assertIn("no baseline", err.getvalue())


class MeasureTests(SynchronousTestCase):
    def test_quartile(self) -> None:
        """A quarter of the values is at or below it."""
        self.assertEqual(quartile([5.0, 1.0, 2.0, 4.0, 3.0]), 2.0)
        self.assertEqual(quartile([7.0]), 7.0)

    def test_yard(self) -> None:
        """The work gives the same each time, so none of it was left out."""
        self.assertEqual(yardstick.yard(3), 3 * yardstick.yard(1))

    def test_yards(self) -> None:
        """Twice the work is about twice the yards, and the machine's speed is not in it."""
        exchange = next(one for one in in_memory.courses() if one.name == "exchange")
        double = in_memory.Course(
            name="double",
            title="",
            unit="request",
            request=exchange.request,
            answer=exchange.answer,
            payload=exchange.payload,
            units=2,
        )
        self.patch(relative, "MIN_TURNS", 4)
        one, half = relative.measure([exchange, double], 0.5)
        self.assertGreater(one.yards, 0.2)
        self.assertLess(abs(one.yards / half.yards - 2), 0.8)
