"""The command line of the benchmark."""

import contextlib
import io
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import baseline
from bench.__main__ import Ends, main, parse
from bench.scenarios import SCENARIOS


class ParseTests(SynchronousTestCase):
    def test_all_by_default(self) -> None:
        """Without options everything is measured, three rounds of two seconds."""
        options, ends = parse([])
        self.assertEqual(
            list(options.names),
            ["memory", "start", *(one.name for one in SCENARIOS if one.usual)],
        )
        self.assertEqual((options.rounds, options.seconds, options.paced_events), (3, 2.0, 200))
        self.assertTrue(options.nginx and options.control and options.pin and options.valgrind)
        self.assertEqual(ends, Ends(None, baseline.PATH, False, None))

    def test_options(self) -> None:
        """What is given is taken."""
        words = "--scenarios chat1,start --rounds 1 --seconds 0.5 --no-nginx --no-pin"
        words += " --no-valgrind --workers 3 --baseline kept.json --save-baseline --check 1.5"
        options, ends = parse([*words.split(), "--json", "out.json"])
        self.assertEqual(options.workers, 3)
        self.assertEqual((list(options.names), options.rounds), (["chat1", "start"], 1))
        self.assertFalse(options.nginx or options.pin or options.valgrind)
        self.assertFalse(parse(["--no-control"])[0].control)
        self.assertEqual(ends, Ends(Path("out.json"), Path("kept.json"), True, 1.5))

    def test_faults(self) -> None:
        """What cannot be is refused with status 2, and the words say what can."""
        for words, said in (
            ("--scenarios chat2", "there are memory, start, chat1"),
            ("--scenarios ,", "no scenario given"),
            ("--rounds 0", "--rounds must be 1 to 20"),
            ("--workers 65", "--workers must be 1 to 64"),
            ("--workers 2 --no-control", "needs the control plane"),
            ("--seconds 1000", "--seconds must be 0.1 to 30"),
        ):
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                ended = self.assertRaises(SystemExit, parse, words.split())
            self.assertEqual(ended.code, 2)
            self.assertIn(said, err.getvalue())

    def test_scan(self) -> None:
        """``scan`` is the table of hostile bodies; one small row of it here."""
        out = io.StringIO()
        self.patch(__import__("sys"), "argv", ["bench"])
        with contextlib.redirect_stdout(out):
            self.assertEqual(main(["scan", "--size", "20000", "image"]), 0)
        self.assertRegex(out.getvalue(), r"(?m)^image .* accepted$")
