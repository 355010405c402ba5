"""Tests for omnigate.commands.table."""

import contextlib
import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.commands.table import fit, print_listing, print_table

ROWS: list[dict[str, Any]] = [
    {"name": "app", "rpm": 600, "models": ["fast", "claude-*"], "cost": Decimal("0.000012300")},
    {"name": "=1+1", "rpm": 0, "models": None, "blocked": True, "cost": Decimal("-1")},
]
COLUMNS = ("name", "rpm", "models", "blocked", "cost", "gone")
VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=3)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


class TableTests(SynchronousTestCase):
    """Listings."""

    def printed(
        self,
        shape: str,
        rows: list[dict[str, Any]] = ROWS,
        columns: Sequence[str] = COLUMNS,
        stream: io.StringIO | None = None,
        environ: Mapping[str, str] = {},
    ) -> str:
        """What a listing prints, by default where there is no terminal."""
        self.patch(os, "environ", environ)
        with contextlib.redirect_stdout(stream or io.StringIO()) as out:
            print_listing(shape, "rows", rows, columns)
        return str(out.getvalue())

    def test_table(self) -> None:
        """Texts stand to the left, numbers to the right; a column of nothing is left out."""
        self.assertEqual(
            self.printed("table"),
            "name  rpm  models         blocked         cost\n"
            "app   600  fast,claude-*  -        0.000012300\n"
            "=1+1    0  -              yes               -1\n",
        )
        self.assertEqual(self.printed("table", []), "  ".join(COLUMNS) + "\n")

    def test_json(self) -> None:
        """Everything that the rows have, money to the last digit."""
        text = self.printed("json")
        self.assertIn('"cost":0.000012300', text)
        self.assertEqual(json.loads(text, parse_float=Decimal), {"rows": ROWS})

    def test_csv(self) -> None:
        """Always the same columns, and no formula."""
        self.assertEqual(
            self.printed("csv"),
            "name,rpm,models,blocked,cost,gone\r\n"
            'app,600,"fast,claude-*",,0.000012300,\r\n'
            "'=1+1,0,,true,-1,\r\n",
        )

    def test_a_terminal_is_never_too_narrow(self) -> None:
        """The widest texts are cut there, numbers never, and nothing is cut in a pipe."""
        rows = [{"name": "n" * 30, "models": ["m" * 100], "rpm": 123456789}]
        columns = ("name", "rpm", "models")
        environ = {"COLUMNS": "60", "TERM": "dumb"}
        whole = self.printed("table", rows, columns, environ=environ)
        self.assertIn("n" * 30 + "  123456789  " + "m" * 100, whole)
        cut = self.printed("table", rows, columns, Terminal(), environ)
        self.assertEqual([len(line) for line in cut.splitlines()[1:]], [60])
        self.assertIn("  123456789  ", cut)
        self.assertEqual(cut.count("…"), 2)

    def test_colour(self) -> None:
        """The head is bold on a terminal that can, unless NO_COLOR says otherwise."""
        cases: tuple[tuple[dict[str, str], bool], ...] = (
            ({"TERM": "xterm"}, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, False),
            ({"TERM": "xterm", "NO_COLOR": ""}, True),
            ({"TERM": "dumb"}, False),
            ({}, False),
        )
        for environ, bold in cases:
            text = self.printed("table", stream=Terminal(), environ=environ)
            self.assertEqual("\033[1m" in text, bold, environ)
            self.assertEqual(text.count("\033"), 2 * bold)
        self.assertNotIn("\033", self.printed("table", environ={"TERM": "xterm"}))

    @given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), max_size=4), st.integers(1, 9))
    @settings(max_examples=100, deadline=None)
    def test_any_rows(self, rows: list[dict[str, Any]], tens: int) -> None:
        """One line a row, whatever it holds; CSV reads back and holds nothing that would run."""
        for stream in (io.StringIO(), Terminal()):
            with contextlib.redirect_stdout(stream):
                self.patch(os, "environ", {"COLUMNS": str(10 * tens), "TERM": "dumb"})
                print_table(rows, "abc")
            text = stream.getvalue()
            self.assertEqual(len(text.splitlines()), len(rows) + 1)
            self.assertTrue(text.replace("\n", "").isprintable() or not text.isascii())
        back = list(csv.reader(io.StringIO(self.printed("csv", rows, "abc"), newline="")))
        self.assertEqual(len(back), len(rows) + 1)
        for line, row in zip(back[1:], rows, strict=True):
            for name, field in zip("abc", line, strict=True):
                if isinstance(row.get(name), str | list):
                    self.assertFalse(field.startswith(("=", "+", "-", "@", "\t", "\r")))

    @given(st.text(st.characters(categories=("L", "N", "P"))), st.integers(2, 20))
    @settings(max_examples=200, deadline=None)
    def test_fit(self, text: str, width: int) -> None:
        """What fits stays, what does not is a beginning with an ellipsis."""
        cut = fit(text, width)
        self.assertLessEqual(len(cut), width)
        if cut != text:
            self.assertTrue(cut.endswith("…") and text.startswith(cut[:-1]))
