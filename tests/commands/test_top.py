"""Tests for omnigate top: the page over answers, and the program on a terminal of its own."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate import cli
from omnigate.admin_client import AdminClient
from omnigate.commands.top_screen import Rounds, ask, page_lines
from omnigate.commands.top_view import NEWEST, Told, page, sums, window
from omnigate.demo_children import python_environ
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin

NOW = 1_796_040_000.0
FIGURES = {
    "omnigate_spool_events": 12.0,
    "omnigate_keys_over_budget": 1.0,
    "omnigate_ledger_ready": 1.0,
    "omnigate_data_requests_in_flight": 7.0,
}
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.decimals()
MEMBERS = (
    *("key", "route_model", "upstream", "status", "input_tokens", "cached_input_tokens"),
    *("output_tokens", "cost_usd", "latency_ms", "ts_ms"),
)
SECONDS = 20
_CALL = AdminClient.call


def event(age: float = 1.0, **members: Any) -> dict[str, Any]:
    """A usage event of so many seconds ago."""
    return {
        "key": "app",
        "route_model": "fast",
        "upstream": "openai",
        "status": 200,
        "input_tokens": 60,
        "cached_input_tokens": 30,
        "cache_write_input_tokens": 10,
        "output_tokens": 20,
        "cost_usd": Decimal("0.001"),
        "latency_ms": 1500,
        "ts_ms": int((NOW - age) * 1000),
        **members,
    }


def told(*events: Mapping[str, Any], **changes: Any) -> Told:
    """A round of answers."""
    return attrs.evolve(Told(NOW, events, {}, FIGURES), **changes)


class PageTests(SynchronousTestCase):
    """The page."""

    def test_sums(self) -> None:
        """All input counts as input, and the slowest as slow."""
        found = sums([event(latency_ms=n * 10, status=500 if n < 5 else 200) for n in range(100)])
        self.assertEqual(
            (found.count, found.failed, found.failed_percent), (100, 5, Decimal("5.0"))
        )
        self.assertEqual((found.input_tokens, found.cached_tokens), (10_000, 3_000))
        self.assertEqual((found.output_tokens, found.usd), (2_000, Decimal("0.1")))
        self.assertEqual(found.quantile(0.5), Decimal("0.50"))
        self.assertEqual(found.quantile(0.95), Decimal("0.95"))
        self.assertIsNone(sums([]).quantile(0.5))

    def test_window(self) -> None:
        """A minute, or what the control plane still has of it."""
        self.assertEqual(window(told())[1], 60)
        events, seconds = window(told(event(1), event(59), event(61)))
        self.assertEqual((len(events), seconds), (2, 60))
        events, seconds = window(told(*(event(n / 100) for n in range(NEWEST))))
        self.assertEqual((len(events), round(seconds)), (NEWEST, 5))
        events, seconds = window(told(*(event(n) for n in range(NEWEST))))
        self.assertEqual((len(events), seconds), (61, 60))

    def test_a_page(self) -> None:
        """Sums, models, keys, refusals and the newest requests, of an 80x24 terminal."""
        events = (
            event(1, status=500, key="other"),
            *(event(n, route_model="smart", upstream=None) for n in range(2, 4)),
            *(event(n) for n in range(4, 10)),
        )
        before = told(at=NOW - 2, refusals={("app", "rate_limit_exceeded"): 3})
        now = told(*events, refusals={("app", "rate_limit_exceeded"): 7, ("x", "not_found"): 0})
        lines = page(now, before, "http://127.0.0.1:8081", 80, 24)
        text = "\n".join(lines)
        self.assertTrue(lines[0].startswith("omnigate at http://127.0.0.1:8081"), text)
        self.assertEqual(len(lines[0]), 80)
        for words in (
            "requests 0.1/s   failed 11.1 %   p50 1.50 s",
            "in flight 7\n",
            "tokens in 15/s (cached 30 %)   out 3/s   cost 0.0090 usd/min",
            "refused a minute: rate_limit_exceeded 120",
            "usage that waits 12   keys over budget 1   rates of the last 60 s",
        ):
            self.assertIn(words, text)
        self.assertRegex(text, r"\nfast   openai +7 +14.3 +1.50 +1.50 +14 +0.0070\n")
        self.assertRegex(text, r"\nsmart  - +2 +0.0 ")
        self.assertRegex(text, r"\napp +8 +0.0 +16 +0.0080 +120\n")
        self.assertRegex(text, r"\n\d\d:\d\d:\d\d  other  fast +openai +500 +1.50 +120  0.001000\n")

    def test_trouble(self) -> None:
        """What an operator has to see to."""
        for figures, words in (
            ({"omnigate_ledger_trouble": 1.0}, "THE LEDGER CANNOT BE WRITTEN"),
            ({"omnigate_ledger_ready": 0.0}, "the ledger is being loaded"),
            ({}, "NO DATA PLANE REPORTS"),
        ):
            self.assertIn(words, "\n".join(page(told(figures=figures), None, "a", 80, 24)))

    def test_a_control_plane_that_was_started_anew(self) -> None:
        """It counts from 0 again, which is no negative rate."""
        before = told(at=NOW - 2, refusals={("a", "b"): 9})
        text = "\n".join(page(told(refusals={("a", "b"): 1}), before, "a", 80, 24))
        self.assertIn("refused a minute: none", text)

    @given(
        st.lists(st.dictionaries(st.sampled_from(MEMBERS), VALUES), max_size=30),
        st.integers(1, 200),
        st.integers(1, 60),
    )
    @settings(max_examples=100, deadline=None)
    def test_any_answer(self, events: list[dict[str, Any]], width: int, height: int) -> None:
        """Whatever the control plane tells, the page fits any terminal and is only text."""
        for lines in (
            page(told(*events), None, "http://\x1b[2J", width, height),
            page(told(*(event(**row) for row in events)), told(at=NOW - 1), "a", width, height),
        ):
            self.assertLessEqual(len(lines), height)
            for line in lines:
                self.assertLessEqual(len(line), max(width, 1), line)
                self.assertNotRegex(line, r"[\x00-\x1f\x7f-\x9f]")


class TopTests(AdminServerTestCase):
    """omnigate top, beside a server that stands for the control plane."""

    def setUp(self) -> None:
        super().setUp()
        self.answer(1)

    def answer(self, count: int) -> None:
        """Have the server tell of so many requests just now."""
        rows = [event(ts_ms=int(time.time() * 1000), cost_usd=1) for _ in range(count)]
        FakeAdmin.answers |= {
            f"/admin/requests?limit={NEWEST}": (200, json.dumps({"requests": rows}).encode()),
            "/admin/refusals": (200, b'{"refusals": [{"key": "a", "code": "b", "count": 1}]}'),
            "/metrics": (200, b"omnigate_spool_events 3.0\n"),
        }

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of the command."""
        return {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN, **more}

    def test_refusals_that_none_has(self) -> None:
        """Counts beyond all bounds are none, be it of one round or between two."""
        client = AdminClient(self.url, TOKEN)
        rows: list[dict[str, Any]] = [{"key": n, "code": n} for n in range(5)]
        for row, count in zip(rows, (10**400, -1, None, "1", 1), strict=True):
            row["count"] = count
        before = ask(client)
        FakeAdmin.answers["/admin/refusals"] = (200, json.dumps({"refusals": rows}).encode())
        now = attrs.evolve(ask(client), at=before.at + 60)
        self.assertEqual(sorted(now.refusals.values()), [0, 0, 0, 0, 1])
        self.assertIn("refused a minute: 4 1\n", "\n".join(page(now, before, "a", 80, 24)))

    def test_a_round_that_cannot_be_asked_for(self) -> None:
        """Whatever it is, the page tells; and the next round counts again."""
        client = AdminClient(self.url, TOKEN)
        rounds = Rounds(client, ask(client), 1)
        for words, error in (("no thread", RuntimeError("no thread")), ("Memory", MemoryError())):

            def fail(*_: object, error: Exception = error) -> None:
                raise error

            self.patch(AdminClient, "call", fail)
            rounds.again()
            self.assertIn(words, page_lines(rounds, "a", 200, 24)[-1])
        self.patch(AdminClient, "call", _CALL)
        rounds.again()
        self.assertEqual(rounds.fault, "")

    def test_no_terminal(self) -> None:
        """One page, without any escape, and the end; or one line that says why not."""
        self.patch(os, "environ", self.environ(TERM="xterm"))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(cli.main(("top",)), 0)
            FakeAdmin.answers = {}
            self.assertEqual(cli.main(("top",)), 1)
        self.assertIn("usage that waits 3", out.getvalue())
        self.assertNotIn("\x1b", out.getvalue())
        self.assertTrue(err.getvalue().startswith("omnigate: 404"), err.getvalue())
        with contextlib.redirect_stderr(err):
            for text in ("0", "nan", "often"):
                with self.assertRaises(SystemExit) as ending:
                    cli.main(("top", "--interval", text))
                self.assertEqual(ending.exception.code, 2)

    def start(self) -> tuple["subprocess.Popen[bytes]", int]:
        """Start it on a terminal of its own; the process and our end of the terminal."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.seen = b""
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigate.cli", "top", "--interval", "0.5"],
            env=python_environ(self.environ(TERM="xterm")) | {"COLUMNS": "", "LINES": ""},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # Of its own, or the system would not let it be stopped where nobody could wake it.
            process_group=0,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, ours

    def frame(self, ours: int, words: str) -> list[str]:
        """The newest whole page, once it holds some words."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.05)[0]:
                self.seen += os.read(ours, 65536)
            drawn = self.seen.decode("utf-8", "replace").split("\x1b[H")[-1]
            if words in drawn and "\x1b[2Kq ends" in drawn:
                return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).split("\r\n")
        raise AssertionError(f"{words!r} never came: {drawn!r}")

    def check_left_as_it_was(self, ours: int) -> None:
        """The first screen is back, the cursor to be seen, and keys are shown again."""
        while select.select([ours], [], [], 0.2)[0]:
            self.seen += os.read(ours, 65536)
        self.assertEqual(self.seen.count(b"\x1b[?1049h"), 1)
        self.assertTrue(self.seen.rstrip().endswith(b"\x1b[?25h\x1b[?1049l"), self.seen[-99:])
        self.assertEqual(termios.tcgetattr(self.theirs), self.before)

    def test_a_terminal(self) -> None:
        """A page of 80x24 that changes with the answers and the size, until q."""
        process, ours = self.start()
        lines = self.frame(ours, "q ends")
        self.assertEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("app", "".join(lines))
        self.answer(30)
        self.frame(ours, "fast   openai         30")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
        end = time.monotonic() + SECONDS
        while len(lines := self.frame(ours, "q ends")) != 10:
            self.assertLess(time.monotonic(), end)
        self.assertLessEqual(max(map(len, lines)), 40)
        FakeAdmin.answers = {}
        self.frame(ours, "no answer: 404")
        self.answer(2)
        self.frame(ours, "fast   openai          2")
        os.write(ours, b"q")
        self.assertEqual(process.wait(SECONDS), 0)
        self.check_left_as_it_was(ours)

    def test_signals(self) -> None:
        """Ctrl-C and all that can be heard of leave the terminal as it was, too."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
            process, ours = self.start()
            self.frame(ours, "q ends")
            process.send_signal(number)
            self.assertEqual(process.wait(SECONDS), 130)
            self.check_left_as_it_was(ours)

    def test_a_pause(self) -> None:
        """Ctrl-Z gives the terminal back for as long as it lasts, and then all is drawn anew."""
        process, ours = self.start()
        self.frame(ours, "q ends")
        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status), status)
        self.check_left_as_it_was(ours)
        self.seen = b""
        process.send_signal(signal.SIGCONT)
        self.frame(ours, "app")
        os.write(ours, b"q")
        self.assertEqual(process.wait(SECONDS), 0)
        self.check_left_as_it_was(ours)
