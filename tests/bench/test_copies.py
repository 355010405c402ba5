"""Bytes copied for each byte relayed: what valgrind tells, and what is sent."""

import contextlib
import io
import shutil

from twisted.trial.unittest import SynchronousTestCase

from bench import copies, traffic
from bench.copies import CopiesError, read_total
from omnigate.settings import read_data_settings

TOLD = """==77== DHAT, a dynamic heap analysis tool
==77== Command: python3
==77==
==77== Total:     252,574,441 bytes in 681,697 blocks
"""


class CopiesTests(SynchronousTestCase):
    def test_total(self) -> None:
        """The total is read, and that there is none is a fault."""
        self.assertEqual(read_total(TOLD), 252_574_441)
        for told in ("", TOLD.replace("Total", "Tota"), "==7== Total: none bytes in 0 blocks"):
            self.assertRaises(CopiesError, read_total, told)

    def test_rows(self) -> None:
        """Every row has a body of its size, and none is refused for it."""
        settings, _ = read_data_settings({"OMNIGATE_INTERNAL_TOKEN": "i" * 24})
        most = settings.max_request_mb * 1024 * 1024
        for row in copies.rows():
            body = traffic.request_body(row.kind, row.request_bytes)
            self.assertLessEqual(len(body), most)
            longest = max(len(body), traffic.ANSWER_BYTES.get(row.kind, 0))
            if row.kind == "burst":
                longest = len(traffic.burst_payload(with_usage=False))
            self.assertEqual(row.body_bytes, longest, row.name)

    def test_shares(self) -> None:
        """What the run with few requests copies is no part of the figure."""
        (row, *_) = copies.rows()
        totals = {1: 5_000_000, 1 + row.more: 5_000_000 + 3 * row.more * row.body_bytes}
        self.patch(copies, "_copied", lambda row, times, keep: totals[times])
        self.assertEqual(copies.measure(row, None), 3.0)

    def test_options(self) -> None:
        """A row that is none is refused, with the names of those that are."""
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            ended = self.assertRaises(SystemExit, copies.main, ["--rows", "up1m,sideways"])
        self.assertEqual(ended.code, 2)
        self.assertIn("up8m", err.getvalue())

    def test_without_valgrind(self) -> None:
        """Where there is no valgrind, that is what it says."""
        self.patch(shutil, "which", lambda name: None)
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(copies.main([]), 1)
        self.assertIn("valgrind", err.getvalue())
