"""The console script: its commands, what they print, and their exit statuses."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest

from omnigate import cli
from omnigate.demo_children import python_environ
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin

GOOD = """
[[upstreams]]
name = "openai"
protocol = "openai"
base_url = "https://api.openai.com/v1"
[[routes]]
model = "fast"
  [[routes.targets]]
  upstream = "openai"
  model = "gpt-4o-mini"
"""


class CliCase(AdminServerTestCase):
    """A command line that finds an admin API which is played."""

    def run_cli(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; its status and both outputs."""
        self.patch(os, "environ", {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN})
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(arguments)
            except SystemExit as ending:
                assert isinstance(ending.code, int)
                status = ending.code
        return status, out.getvalue(), err.getvalue()


class CliTests(CliCase):
    """omnigate."""

    def config(self, text: str) -> str:
        """A file with this text."""
        path = Path(self.mktemp())
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_help(self) -> None:
        """It has examples; wrong arguments are status 2."""
        status, out, _ = self.run_cli("--help")
        self.assertEqual(status, 0)
        self.assertIn("omnigate keys create app --rpm 600", out)
        for arguments in ((), ("nonsense",), ("keys",), ("usage", "--by", "moon"), ("check",)):
            self.assertEqual(self.run_cli(*arguments)[0], 2, arguments)

    def test_check_good(self) -> None:
        """A good file is status 0 with what is in it."""
        status, out, _ = self.run_cli("check", self.config(GOOD))
        self.assertEqual(status, 0)
        self.assertIn("good, with 0 keys, 1 upstream and 1 route", out)

    def test_check_notes(self) -> None:
        """What is no fault but may be a slip is noted, beside what was asked."""
        keys = '[[keys]]\nname = "app"\nkey_env = "A"\nmodels = ["no-such"]\n'
        status, out, err = self.run_cli("check", self.config(keys + GOOD))
        self.assertEqual(status, 0)
        self.assertIn("good, with 1 key", out)
        self.assertIn('note: keys[0].models ("app"): no route has a model "no-such"', err)
        status, _, err = self.run_cli("check", self.config(GOOD + "  caps = { prefill = true }\n"))
        self.assertEqual(status, 0)
        self.assertIn("note: routes[0].targets[0].caps.prefill", err)

    def test_check_tells_every_fault(self) -> None:
        """One line for each, with the file and the place, and status 1."""
        text = GOOD.replace('"openai"\n  model', '"opnai"\n  modell').replace("https:", "gopher:")
        path = self.config(text)
        status, out, err = self.run_cli("check", path)
        self.assertEqual((status, out), (1, ""))
        lines = err.splitlines()
        for line in lines[:-1]:
            self.assertRegex(line, rf"^{re.escape(path)}:[0-9]+: ")
        self.assertIn("routes[0].targets[0].upstream", err)
        self.assertIn("upstreams[0].base_url", err)
        self.assertEqual(lines[-1], f"omnigate: {len(lines) - 1} faults")

    def test_check_lines(self) -> None:
        """Each fault has the number of the line that it is about, syntax faults too."""
        path = self.config(GOOD + "  prize = 1\n")
        line = 1 + GOOD.count("\n")
        self.assertIn(f"{path}:{line}: routes[0].targets[0].prize", self.run_cli("check", path)[2])
        path = self.config(GOOD + "\n[[keys\n")
        line = 2 + GOOD.count("\n")
        self.assertIn(f"{path}:{line}: ", self.run_cli("check", path)[2])

    def test_check_json(self) -> None:
        """For programs: what was found, with line and place, and the same status."""
        status, out, err = self.run_cli("check", "--format", "json", self.config(GOOD))
        document = json.loads(out)
        self.assertEqual((status, err, document["good"], document["routes"]), (0, "", True, 1))
        self.assertEqual(document["faults"], [])
        bad = self.config(GOOD.replace("https:", "gopher:"))
        status, out, err = self.run_cli("check", "--format", "json", bad)
        document = json.loads(out)
        self.assertEqual((status, err, document["good"]), (1, "", False))
        (fault,) = document["faults"]
        self.assertEqual(fault["path"], "upstreams[0].base_url")
        self.assertEqual(fault["line"], 1 + GOOD[: GOOD.index("base_url")].count("\n"))

    def test_check_what_may_be_a_slip(self) -> None:
        """Expired keys, models without a price and variables that are not set are notes."""
        key = '[[keys]]\nname = "app"\nkey_env = "NO_SUCH_KEY"\nexpires_at = 2020-01-01T00:00:00Z\n'
        route = '[[routes]]\nmodel = "own"\n[[routes.targets]]\nupstream = "openai"\n'
        text = key + GOOD + route + 'model = "no-price-is-known-of-it"\n'
        status, _, err = self.run_cli("check", self.config(text))
        self.assertEqual(status, 0)
        self.assertIn(':4: note: keys[0].expires_at ("app"): the key expired at 2020-01-01', err)
        self.assertIn("NO_SUCH_KEY is not set in this environment", err)
        self.assertIn('note: routes[1].targets[0] ("own"): no price is known', err)
        self.assertNotIn("routes[0]", err)

    def test_check_models_of_media(self) -> None:
        """A model that no job could be sent to is noted with its place; others are not."""
        for adapter, model, good in (
            ("replicate", "acme", False),
            ("replicate", "acme/m", True),
            ("fal", "flux", False),
            ("xai_video", "grok-imagine-video", True),
            ("elevenlabs", "eleven_v3", True),
        ):
            text = (
                '[[media.routes]]\nmodel = "m"\n[[media.routes.targets]]\n'
                f'adapter = "{adapter}"\nmodel = "{model}"\nprice = {{ per_job = 1 }}\n'
            )
            status, _, err = self.run_cli("check", self.config(text))
            self.assertEqual(status, 0, err)
            note = f':5: note: media.routes[0].targets[0].model ("m"): a target of {adapter} needs'
            self.assertEqual(note in err, not good, err)

    def test_check_schema(self) -> None:
        """The schema is printed as it is shipped, and no file is read."""
        status, out, err = self.run_cli("check", "--schema")
        self.assertEqual((status, err, json.loads(out)["title"]), (0, "", "omnigate.toml"))
        self.assertEqual(self.run_cli("check", "--schema", "x.toml")[0], 2)

    def test_check_unreadable(self) -> None:
        """A file that is not there, or is no text, is one line and status 2."""
        status, _, err = self.run_cli("check", "/there/is/no/such.toml")
        self.assertEqual(
            (status, err), (2, "omnigate: /there/is/no/such.toml: No such file or directory\n")
        )
        path = Path(self.mktemp())
        path.write_bytes(b"\xff")
        self.assertIn("not UTF-8 at byte 0", self.run_cli("check", str(path))[2])

    def test_usage(self) -> None:
        """Rows as they came, money to its last decimal."""
        row = b'{"model": "fast", "requests": 2, "input_tokens": 30, "cost_usd": 0.000012300}'
        FakeAdmin.answers["/admin/usage?by=model&since=2026-11-01"] = (
            200,
            b'{"by": "model", "rows": [%b]}' % row,
        )
        status, out, _ = self.run_cli("usage", "--by", "model", "--since", "2026-11-01")
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines()[1].split(), ["fast", "2", "30", "0.000012300"])

    def test_usage_total(self) -> None:
        """The sum of several rows stands below them, as the control plane made it."""
        rows = [{"day": f"2026-11-0{n}", "requests": n, "cost_usd": n} for n in (1, 2)]
        answer = {"rows": rows, "total": {"requests": 3, "cost_usd": 3}}
        FakeAdmin.answers["/admin/usage?by=day"] = (200, json.dumps(answer).encode())
        out = self.run_cli("usage", "--by", "day")[1]
        self.assertEqual(out.splitlines()[-1].split(), ["(total)", "3", "3"])

    def test_usage_for_programs(self) -> None:
        """JSON and CSV are printed as the control plane writes them."""
        for shape, content in (("json", b'{"rows": []}'), ("csv", b"key,requests\r\napp,2\r\n")):
            FakeAdmin.answers["/admin/usage?by=key"] = (200, content)
            status, out, _ = self.run_cli("usage", "--format", shape)
            self.assertEqual((status, out.rstrip("\n")), (0, content.decode().rstrip("\n")))
            self.assertIn(shape, FakeAdmin.accepted[-1])
        FakeAdmin.answers["/admin/usage?by=key"] = (200, b'{"rows": []}')
        self.assertEqual(self.run_cli("usage", "--json")[1], '{"rows": []}\n')
        self.assertEqual(self.run_cli("usage", "--json", "--format", "csv")[0], 2)

    def test_usage_by_key_that_is_not_whole(self) -> None:
        """Days whose rows by key were dropped are told of, where they were asked for."""
        answer = {"rows": [], "by_key_since": "2026-10-01"}
        for days, told in (
            ("&since=2026-09-30", True),
            ("&until=2026-11-01", True),
            ("&since=2026-10-01", False),
            ("", False),
        ):
            FakeAdmin.answers["/admin/usage?by=key" + days] = (200, json.dumps(answer).encode())
            options = [f"--{part}" for part in days.split("&") if part]
            err = self.run_cli("usage", *options)[2]
            self.assertEqual("whole from 2026-10-01 on" in err, told, days)

    def test_usage_of_no_day(self) -> None:
        """A day that is none is a wrong argument, and nothing is asked."""
        for text in ("yesterday", "2026-11-31", "20261101", "2026-W48-7"):
            status, _, err = self.run_cli("usage", "--since", text)
            self.assertEqual(status, 2)
            self.assertIn("write it as YYYY-MM-DD", err)
        self.assertEqual(FakeAdmin.asked, [])

    def test_usage_of_a_key_that_is_gone(self) -> None:
        """It has no name any more, so its hash tells which it was."""
        row = b'{"key": null, "key_sha256": "549f82394a404a10", "requests": 1}'
        FakeAdmin.answers["/admin/usage?by=key"] = (200, b'{"rows": [%b]}' % row)
        self.assertIn("(gone: 549f8239)         1", self.run_cli("usage")[1])

    def test_refusals_are_status_1(self) -> None:
        """One line on standard error."""
        FakeAdmin.answers["/admin/usage?by=key"] = (503, b'{"detail": "loading"}')
        status, out, err = self.run_cli("usage")
        self.assertEqual((status, out, err), (1, "", "omnigate: 503: loading\n"))
        FakeAdmin.answers["/admin/usage?by=key"] = (200, b"[]")
        self.assertEqual(self.run_cli("usage")[0], 1)


class OutputTests(AdminServerTestCase):
    """What becomes of a command whose output cannot be written, as a process."""

    def run_shell(self, command: str) -> tuple[int, str]:
        """Run a command line in which ``$O`` is the program; its status and standard error."""
        environ = python_environ(
            {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN}
        ) | {"O": f"{sys.executable} -m omnigate.cli"}
        run = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, env=environ, timeout=60
        )
        return run.returncode, run.stderr

    def check(self, command: str, words: str) -> None:
        """It ends with 1 and one line, wherever its output goes."""
        status, err = self.run_shell(command)
        self.assertEqual((status, err.count("\n")), (1, 1), f"{command}: {err}")
        self.assertIn(words, err)
        self.assertTrue(err.startswith("omnigate: "), err)

    def test_output_that_cannot_be_written(self) -> None:
        """A full disk is told, small output or large."""
        if not os.path.exists("/dev/full"):
            raise SkipTest("there is no device that is always full")
        for size in (1, 100_000):
            rows = b",".join([b'{"key":"a","requests":1}'] * size)
            FakeAdmin.answers = {
                "/admin/usage?by=key": (200, b'{"rows":[%b]}' % rows),
                "/admin/keys": (200, b'{"keys":[{"name":"a"}],"secret":"s"}'),
            }
            for command in ("usage", "usage --json", "usage --format csv", "keys create a"):
                self.check(f"exec $O {command} >/dev/full", "No space left on device")
        self.check("exec $O --version >/dev/full", "No space left on device")

    def test_no_output(self) -> None:
        """Nothing is made or asked for where nobody could be told of it."""
        for command in ("usage", "keys create a", "ledger export x", "ledger verify x"):
            self.check(f"exec $O {command} >&-", "standard output is closed")
        self.assertEqual(FakeAdmin.asked, [])

    def test_no_error_output(self) -> None:
        """What is said beside the output is never printed where that belongs, nor missed."""
        FakeAdmin.answers = {"/admin/keys": (200, b'{"secret":"s"}')}
        ledger = Path(self.mktemp())
        ledger.mkdir()
        (ledger / "ledger.jsonl").touch()
        for command, status, told in (
            ("usage --json", 1, ""),
            ("check /no/such", 2, ""),
            ("keys create a", 0, "s"),
            ("keys delete a", 1, ""),
            (f"ledger export {ledger}", 0, ""),
        ):
            shell = f'told=$($O {command} 2>&-); ended=$?; printf %s "$told" >&2; exit $ended'
            self.assertEqual(self.run_shell(shell), (status, told), command)
        for switch in ("", "--progress"):
            self.assertEqual(self.run_shell(f"exec $O ledger verify {switch} {ledger} 2>&-")[0], 0)

    def test_one_line(self) -> None:
        """Whatever a path holds, it is shown in one line and commands no terminal."""
        path = "$(printf 'a\\033[31m\\nb')"
        status, err = self.run_shell(f'exec $O ledger verify "{path}"')
        self.assertEqual((status, err.count("\n")), (2, 1))
        self.assertIn("omnigate: a\\x1b[31m\\nb: there is no ledger", err)

    def test_paths_of_what_is_there(self) -> None:
        """Files that are good, bad or a ledger, in a folder of any name, are shown so, too."""
        odd = Path(f"{self.mktemp()}\x1b[31m\n\udcff")
        odd.mkdir(parents=True)
        (odd / "ledger.jsonl").touch()
        for name, text in (("good", GOOD), ("bad", "[[keys]]\nnam=1\n")):
            (odd / name).write_text(text)
        self.patch(os, "environ", {**os.environ, "F": str(odd)})
        for command in (
            '$O check "$F/good"',
            '$O check "$F/bad"',
            '$O ledger verify "$F"',
            '$O doctor --dir "$F"',
            'OMNIGATE_CONFIG="$F/bad" $O doctor',
        ):
            told = self.run_shell(f"{command} >&2")[1]
            self.assertNotRegex(told, r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", command)
            self.assertIn("\\x1b[31m\\n", told, command)
