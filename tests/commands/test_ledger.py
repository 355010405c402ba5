"""Tests for omnigate.commands.ledger."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from omnigate import cli
from omnigate.commands import ledger_files
from omnigate.periods import DAY_MS
from tests.ledger.test_export import DAY, LedgerFilesTestCase, line
from tests.ledger.written_ledger import WrittenLedger
from tests.usage import usage_event


class Output(io.TextIOWrapper):
    """Standard output as a command sees it: text, and bytes below it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def written(self) -> bytes:
        """All that was written."""
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


class LedgerCommandTestCase(LedgerFilesTestCase):
    """A test that runs commands on the ledger at ``self.family``."""

    def run_cli(self, *arguments: str, **environ: str) -> tuple[int, bytes, str]:
        """Run a command of ``omnigate ledger``; its status and both outputs."""
        self.patch(os, "environ", environ)
        out, err = Output(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(("ledger", *arguments))
            except SystemExit as ending:
                assert isinstance(ending.code, int)
                status = ending.code
        return status, out.written(), err.getvalue()


class VerifyTests(LedgerCommandTestCase):
    """omnigate ledger verify."""

    def setUp(self) -> None:
        super().setUp()
        ledger = WrittenLedger(self.family)
        ledger.record(DAY, *[usage_event(f"e{n}", ts_ms=DAY) for n in range(20)])
        ledger.seal()
        ledger.record(DAY, usage_event("late", ts_ms=DAY))
        ledger.snapshot(DAY + 1)

    def test_all_right(self) -> None:
        """Status 0, with what was checked and what was not there."""
        status, out, err = self.run_cli("verify", self.family.active)
        path = self.family.active
        self.assertEqual((status, err), (0, ""))
        first, *rest, last = out.decode().splitlines()
        self.assertEqual((first, last), (f"{path}: 2 segments, 21 events", "no difference"))
        self.assertIn(f"There is no spare ({self.family.spare}).", rest)
        self.assertTrue(any("rows of 21 events compared" in text for text in rest))

    def test_a_difference(self) -> None:
        """Status 1, and the first one with its file and its place."""
        path = Path(self.family.sealed(1))
        path.write_bytes(path.read_bytes().replace(b'"status":200', b'"status":201'))
        status, out, _ = self.run_cli("verify", OMNIGATE_STATE_DIR=self.family.folder)
        lines = out.decode().splitlines()
        differences = [text for text in lines if text.startswith(("first difference: ", "then: "))]
        self.assertEqual((status, len(differences)), (1, 20))
        self.assertIn(f"first difference: {path} at offset 0: the line cannot", differences[0])
        self.assertIn(f"then: {path} at offset ", differences[1])
        self.assertRegex(lines[-1], "^and [0-9]+ more$")

    def test_nothing_there(self) -> None:
        """A path that leads to no ledger is a wrong argument."""
        for arguments in (["verify", self.mktemp()], ["verify", "--ids-days", "x"]):
            status, out, err = self.run_cli(*arguments)
            self.assertEqual((status, out), (2, b""))
        self.assertIn("no whole number", err)

    def test_what_may_not_be_read(self) -> None:
        """One line that names it, and status 1."""
        os.unlink(self.family.snapshot)
        os.mkdir(self.family.snapshot)
        status, out, err = self.run_cli("verify", self.family.active)
        self.assertEqual((status, out), (1, b""))
        self.assertIn("Is a directory", err)


class ExportTests(LedgerCommandTestCase):
    """omnigate ledger export."""

    def test_export(self) -> None:
        """The lines of the days asked for, on standard output, and what they were on the other."""
        lines = [line(n, DAY + n * DAY_MS) for n in range(4)]
        self.write(1, *lines, active=True)
        status, out, err = self.run_cli(
            *("export", "--since", "2026-11-30", "--until", "2026-12-01", self.family.active)
        )
        self.assertEqual((status, out), (0, lines[1] + lines[2]))
        self.assertEqual(err, "omnigate: 2 events exported\n")

    def test_where_the_ledger_is(self) -> None:
        """A path, a folder, or what the control plane would take from the environment."""
        self.write(1, line(1), active=True)
        folder, path = self.family.folder, self.family.active
        for arguments, environ in (
            ([path], {"OMNIGATE_LEDGER": "/nowhere"}),
            ([folder], {}),
            ([], {"OMNIGATE_LEDGER": path, "OMNIGATE_STATE_DIR": "/nowhere"}),
            ([], {"OMNIGATE_STATE_DIR": folder}),
            ([], {"STATE_DIRECTORY": folder}),
        ):
            self.assertEqual(self.run_cli("export", *arguments, **environ)[:2], (0, line(1)))

    def test_where_nothing_says_where_the_ledger_is(self) -> None:
        """That of the units or that of a plain start, whichever is there, and it is named."""
        self.write(1, line(1), active=True)
        folder, path = self.family.folder, self.family.active
        none = self.mktemp()
        for folders in ((folder, none), (none, folder)):
            self.patch(ledger_files, "SYSTEM_FOLDERS", folders)
            status, out, err = self.run_cli("export")
            self.assertEqual((status, out), (0, line(1)))
            self.assertIn(f"1 event exported out of {path}", err)
        for folders, words in (((folder, folder), "more than one"), ((none, none), "no")):
            self.patch(ledger_files, "SYSTEM_FOLDERS", folders)
            status, out, err = self.run_cli("export")
            self.assertEqual((status, out), (2, b""))
            self.assertIn(f"there is {words} ledger in {' and '.join(folders)}; name its", err)

    def test_wrong_arguments(self) -> None:
        """Status 2, and nothing is written."""
        self.write(1, line(1), active=True)
        path = self.family.active
        for arguments in (
            ["export", "--since", "2026-11-30", "--until", "2026-11-29", path],
            ["export", "--since", "today", path],
            ["export", "--format", "xml", path],
            ["export", self.mktemp()],
            ["export", "--ids-days", "few", path],
            ["export", "--ids-days", "-1", path],
            [],
        ):
            self.assertEqual(self.run_cli(*arguments)[:2], (2, b""), arguments)

    def test_a_file(self) -> None:
        """It is there whole or not at all, for nobody else to read."""
        self.write(1, line(1), active=True)
        output = Path(self.mktemp())
        status, out, _ = self.run_cli(
            *("export", "--format", "csv", "--output", str(output), self.family.active)
        )
        self.assertEqual((status, out), (0, b""))
        self.assertEqual(len(output.read_bytes().splitlines()), 2)
        self.assertEqual(output.stat().st_mode & 0o777, 0o600)
        status, _, err = self.run_cli(
            "export", "--output", str(output / "in-a-file"), self.family.active
        )
        self.assertEqual(status, 1)
        self.assertIn("Not a directory", err)

    def test_what_is_no_file_is_written_to_and_not_replaced(self) -> None:
        """A pipe takes the lines, and a link stays one, wherever it leads."""
        self.write(1, line(1), active=True)
        pipe = self.mktemp()
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reading)
        self.assertEqual(self.run_cli("export", "--output", pipe, self.family.active)[0], 0)
        self.assertEqual(os.read(reading, 10_000), line(1))
        self.assertTrue(Path(pipe).is_fifo())
        target, link = Path(self.mktemp()), Path(self.mktemp())
        target.write_bytes(b"old")
        link.symlink_to(os.path.abspath(target))
        self.assertEqual(self.run_cli("export", "--output", str(link), self.family.active)[0], 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_bytes(), line(1))
        folder = self.mktemp()
        os.mkdir(folder)
        status, _, err = self.run_cli("export", "--output", folder, self.family.active)
        self.assertEqual((status, "Is a directory" in err), (1, True))

    def test_files_that_are_no_segments(self) -> None:
        """What is made of the segments is not taken for one; the active segment is named."""
        path = self.write(1, line(1), active=True)
        ids, snapshot = self.family.ids("2026-11-29"), self.family.snapshot
        made = snapshot, self.family.spare, self.family.snapshot_tmp, ids, f"{ids}.table"
        for beside in (*made, f"{snapshot}.damaged", f"{snapshot}.damaged.2", f"{ids}.damaged"):
            Path(beside).write_bytes(b"anything")
            for action in ("verify", "export"):
                status, out, err = self.run_cli(action, beside)
                self.assertEqual((status, out), (2, b""))
                self.assertIn(f"name {path}, the active one", err)

    def test_the_ledger_is_not_written_over(self) -> None:
        """By whatever way its files are named."""
        path = self.write(1, line(1), active=True)
        self.write(1, line(2))
        link = Path(self.mktemp())
        link.symlink_to(os.path.abspath(self.family.folder))
        for output in (
            path,
            self.family.sealed(1),
            self.family.snapshot,
            self.family.ids("2026-11-29"),
            str(link / "ledger.jsonl"),
        ):
            status, _, err = self.run_cli("export", "--output", output, path)
            self.assertEqual(status, 2)
            self.assertIn("of the ledger itself", err)
        self.assertEqual(Path(path).read_bytes(), line(1))
        self.assertEqual(
            sorted(os.listdir(self.family.folder)), ["ledger.000001.jsonl", "ledger.jsonl"]
        )

    def test_damage_is_status_1(self) -> None:
        """Twenty faults are told one by one; what can be read is there."""
        self.write(1, *[b"{}\n"] * 30, line(1), active=True)
        status, out, err = self.run_cli("export", self.family.active)
        self.assertEqual((status, out), (1, line(1)))
        self.assertEqual(err.count("cannot be read"), 20)
        self.assertIn("and 10 more like these\n", err)
        self.assertTrue(err.endswith("omnigate: 1 event exported; 30 faults\n"))

    def test_duplicates_are_told(self) -> None:
        """They are no fault."""
        self.write(1, line(1), line(1), active=True)
        status, _, err = self.run_cli("export", self.family.active)
        self.assertEqual((status, err), (0, "omnigate: 1 event exported; 1 duplicate skipped\n"))

    def test_a_reader_that_leaves(self) -> None:
        """A pipe that was closed is no news."""
        self.write(1, *[line(n) for n in range(3_000)], active=True)
        path = os.path.abspath(self.family.active)
        done = subprocess.run(
            f"{sys.executable} -m omnigate.cli ledger export {path} | head -1",
            shell=True,
            cwd=Path(cli.__file__).parent.parent,
            capture_output=True,
        )
        self.assertEqual((done.stdout, done.stderr), (line(0), b""))
