"""What holds for every command: exit statuses, words for what does not work, and its examples."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import omnigate
from omnigate import cli
from omnigate.commands.spelling import Command, spelled
from omnigate.commands.top_view import NEWEST
from omnigate.demo_children import free_ports, python_environ
from tests.test_admin_client import TOKEN, AdminServerTestCase, FakeAdmin

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))

#: Commands that ask the admin API, each as it is called well, with the path that is asked.
ASKING = {
    "keys list": ((), ""),
    "keys show": (("a",), "/admin/keys/a"),
    "keys create": (("a",), "/admin/keys"),
    "keys change": (("a", "--rpm", "5"), "/admin/keys/a"),
    "keys rotate": (("a",), "/admin/keys/a/rotate"),
    "keys webhook-secret": (("a",), "/admin/keys/a/webhook-secret"),
    "keys disable": (("a",), "/admin/keys/a"),
    "keys enable": (("a",), "/admin/keys/a"),
    "keys delete": (("a",), "/admin/keys/a"),
    "admin-keys list": ((), "/admin/admin-keys"),
    "admin-keys create": (("a", "--scope", "full"), "/admin/admin-keys"),
    "admin-keys change": (("a", "--scope", "full"), "/admin/admin-keys/a"),
    "admin-keys rotate": (("a",), "/admin/admin-keys/a/rotate"),
    "admin-keys delete": (("a",), "/admin/admin-keys/a"),
    "jobs list": ((), "/admin/jobs?limit=20"),
    "jobs show": (("a",), "/admin/jobs/a"),
    "jobs cancel": (("a",), "/admin/jobs/a/cancel"),
    "jobs webhook": (("a",), "/admin/jobs/a/webhook"),
    "usage": ((), "/admin/usage?by=key"),
    "audit": ((), "/admin/audit?limit=20"),
    "top": ((), f"/admin/requests?limit={NEWEST}"),
}
#: Those that do not, with arguments that do not work, and the status of that.
FAILING = {
    "check": (("/no/such.toml",), 2),
    "init": (("--dir", "/proc/no-such/folder"), 1),
    "doctor": (("--dir", "/no/such", "--data-url", "http://127.0.0.1:1"), 1),
    "ledger verify": (("/no/such",), 2),
    "ledger export": (("/no/such",), 2),
}
#: Nothing of what they are given can fail.
SAFE = {"completion", "demo"}
REFUSALS = {
    "invalid_token": (401, "OMNIGATE_ADMIN_TOKEN"),
    "not_ready": (503, "omnigate doctor"),
    "storage_unavailable": (503, "disk"),
}


#: What a control plane never says: escapes of a terminal, halves of characters, numbers beyond all
#: bounds, members of other types, and a chunk of less than no length.
CHUNKED = "\r\ntransfer-encoding: chunked"
CONTROLS = r"[\x00-\x09\x0b-\x1f\x7f-\x9f]"
_ODD = "=1+1\x1b[2J\x9b31m\n\r\u202e'\"$(id)"
_ROW = dict.fromkeys(
    ("name", "models", "rpm", "spent_usd", "detail", "ts", "code", "key", "cost_usd", "scope"), _ODD
)
_ROWS = {name: [_ROW, {}] for name in ("keys", "entries", "requests", "refusals", "rows", "jobs")}
HOSTILE = (
    json.dumps({**_ROWS, **_ROW, "secret": _ODD, "title": _ODD}).encode(),
    json.dumps({**_ROWS, "next": _ODD, "total": _ROW}, ensure_ascii=False).encode(),
    json.dumps(_ODD, ensure_ascii=False).replace("\\u001b", "\x1b").encode(),
    json.dumps({**_ROWS, **_ROW, "secret": "\ud800", "keys": [{"name": "\udfff"}]}).encode(),
    b'{"keys": [{"rpm": NaN}], "entries": [{"seq": -Infinity}], "rows": [{"cost_usd": NaN}]}',
    b'{"keys": [{"spent_usd": 1e999999999}], "requests": [{"cost_usd": 1e99999999999999999999}]}',
    b'{"keys": [{"rpm": ' + b"9" * 5000 + b"}]}",
    b"<html>\x1b[31m\xff",
    b"5",
)

#: The program, and what stands before it where it is run: a sign, or the setting of a variable.
_OMNIGATE = re.compile(r"(\S*/)?omnigate")
_BEFORE = re.compile(r"[|&;()<>]|\w+=")


class Everywhere(dict[str, tuple[int, bytes]]):
    """One answer to whatever is asked."""

    def __init__(self, status: int, content: bytes) -> None:
        super().__init__()
        self._answer = (status, content)

    def get(self, path: str, default: object = None) -> tuple[int, bytes]:
        """The answer."""
        return self._answer


def leaves() -> dict[str, Command]:
    """Every command that can be run, by its words."""
    program = spelled(cli.parser())
    return {" ".join(c.path): c for c in program.walk() if not c.children}


def shown(text: str) -> Iterator[list[str]]:
    """The arguments of each omnigate that a text has somebody type."""
    # What stands in "$(…)" is typed, too.
    text = text.replace("\\\n", " ").replace('"$(', "(").replace(')"', ")")
    for line in text.split("\n"):
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        found: list[str] | None = None
        before = ";"
        # A text that is no line of a shell may have an apostrophe.
        with contextlib.suppress(ValueError):
            for word in words:
                if set(word) <= set("|&;()<>"):
                    if found:
                        yield found
                    found = None
                elif found is not None:
                    found.append(word)
                elif _OMNIGATE.fullmatch(word) and _BEFORE.match(before):
                    found = []
                before = word
        if found:
            yield found


class EveryCommandTests(AdminServerTestCase):
    """Every command."""

    def setUp(self) -> None:
        super().setUp()
        self.parser = cli.parser()

    def run_cli(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """Run one; its status and both outputs."""
        base = {"OMNIGATE_CONTROL_URL": self.url, "OMNIGATE_ADMIN_TOKEN": TOKEN}
        self.patch(os, "environ", {**base, **environ})
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(arguments)
            except SystemExit as ending:
                assert isinstance(ending.code, int)
                status = ending.code
        return status, out.getvalue(), err.getvalue()

    def fails(self, words: str, *arguments: str, status: int = 1, **environ: str) -> None:
        """A call does not work, and that is told in one line, with some words of what to do."""
        ended, out, err = self.run_cli(*arguments, **environ)
        self.assertEqual((ended, out), (status, ""), arguments)
        self.assertTrue(err.startswith("omnigate: ") and err.count("\n") == 1, err)
        self.assertIn(words, err)

    def test_all_are_known_here(self) -> None:
        """Nobody adds a command without saying how it fails."""
        self.assertEqual(set(leaves()), set(ASKING) | set(FAILING) | SAFE)

    def test_help(self) -> None:
        """Each command has help with examples, that the command line takes."""
        for words, command in leaves().items():
            status, out, err = self.run_cli(*command.path, "--help")
            self.assertEqual((status, err), (0, ""), words)
            self.assertIn("\nexamples:\n", out)
            examples = list(shown(out.partition("\nexamples:\n")[2]))
            self.assertTrue(examples, words)
            for arguments in examples:
                self.assertEqual(tuple(arguments[: len(command.path)]), command.path)

    def test_examples(self) -> None:
        """What help and pages have somebody type is what the command line takes."""
        if not (ROOT / "docs").is_dir():
            raise SkipTest("the pages are in the checkout only, not in the installed package")
        texts = {f"--help of {c.path}": c.epilog for c in spelled(cli.parser()).walk()}
        for name in PAGES:
            text = (ROOT / name).read_text(encoding="utf-8")
            texts[name] = "\n".join(re.findall(r"(?m)^    (.*)$", text))
        count = 0
        for name, text in texts.items():
            for arguments in shown(text):
                count += 1
                typed = [word for word in arguments if word not in ("CONFIG", "…", "...")]
                # Columns of words behind an example are told apart by two spaces, not by a sign.
                with contextlib.redirect_stderr(io.StringIO()) as err:
                    self.assertTrue(self.takes(typed), f"{name}: {arguments}: {err.getvalue()}")
        self.assertGreater(count, 40)

    def takes(self, arguments: list[str]) -> bool:
        """Whether the command line takes some arguments, or a beginning of them."""
        for length in range(len(arguments), 0, -1):
            try:
                self.parser.parse_args(arguments[:length])
            except SystemExit as ending:
                if not ending.code:
                    return True
            else:
                return length == len(arguments) or not arguments[length].startswith("-")
        return False

    def test_wrong_arguments(self) -> None:
        """Status 2 with the usage, and nothing is asked of anybody."""
        for words, command in leaves().items():
            good = ASKING.get(words, FAILING.get(words, ((),)))[0]
            for wrong in ((*good, "--no-such-option"), (*good, "more", "than", "it", "takes")):
                status, out, err = self.run_cli(*command.path, *wrong)
                self.assertEqual((status, out), (2, ""), (words, wrong))
                self.assertIn("usage: omnigate", err)
            if any(not place.optional for place in command.places):
                self.assertEqual(self.run_cli(*command.path)[0], 2, words)
        self.assertEqual(FakeAdmin.asked, [])

    def test_no_control_plane(self) -> None:
        """One line that says whom it asked and what to look at, without the password."""
        (port,) = free_ports(1)
        away = f"http://user:secret@127.0.0.1:{port}"
        for words, (arguments, _) in ASKING.items():
            call = (*words.split(), *arguments)
            self.fails("is it running", *call, OMNIGATE_CONTROL_URL=away)
            self.fails(f"[redacted]@127.0.0.1:{port}", *call, OMNIGATE_CONTROL_URL=away)
            self.fails("write it like http://", *call, OMNIGATE_CONTROL_URL="localhost")
            self.fails("OMNIGATE_ADMIN_TOKEN_FILE", *call, OMNIGATE_ADMIN_TOKEN="")

    def test_hostile_answers(self) -> None:
        """Whatever stands in the place of the control plane: one status, and a quiet terminal."""
        answers = [(200, "", content) for content in HOSTILE]
        answers += [(500, "", HOSTILE[0]), (200, f"application/json{CHUNKED}", b"-5\r\n{}\r\n")]
        for status, media_type, content in answers:
            FakeAdmin.answers, FakeAdmin.media_type = Everywhere(status, content), media_type
            for words, (arguments, _) in ASKING.items():
                listing = status == 200 and words.endswith(("list", "usage", "audit"))
                for shape in ("", "json", "csv") if listing else ("",):
                    call = (*words.split(), *arguments, *(("--format", shape) if shape else ()))
                    ended, out, err = self.run_cli(*call)
                    self.assertIn(ended, (0, 1), (call, content))
                    told = (out + err).replace("\r\n", "\n")
                    self.assertNotRegex(told, CONTROLS, (call, content))
                    told.encode()

    def test_arguments_that_are_no_text(self) -> None:
        """Bytes that are no UTF-8 are told in one line."""
        for words, (arguments, _) in ASKING.items():
            if arguments[:1] == ("a",):
                self.fails("", *words.split(), "\udcff", *arguments[1:])

    def test_refusals(self) -> None:
        """Status, code and words of the control plane, and what to do about it."""
        for words, (arguments, path) in ASKING.items():
            for code, (status, remedy) in REFUSALS.items():
                problem = json.dumps({"detail": "it said", "code": code}).encode()
                paths = [path] if path else [f"/admin/keys{query}" for query in ("", "?limit=500")]
                FakeAdmin.answers = dict.fromkeys(paths, (status, problem))
                asked = len(FakeAdmin.asked)
                status_, out, err = self.run_cli(*words.split(), *arguments)
                self.assertIn(FakeAdmin.asked[asked][1], paths, words)
                self.assertEqual((status_, out), (1, ""), words)
                self.assertTrue(err.startswith(f"omnigate: {status} {code}: it said; "), err)
                self.assertIn(remedy, err)

    def test_other_failures(self) -> None:
        """Those that ask nobody end with their status, and say of what."""
        for words, (arguments, status) in FAILING.items():
            ended, out, err = self.run_cli(*words.split(), *arguments)
            self.assertEqual(ended, status, (words, out, err))
            self.assertIn(arguments[-1] if words == "doctor" else arguments[0], out + err + "--dir")

    def test_version(self) -> None:
        """It needs none of the commands, so that it answers at once."""
        code = (
            "import sys; from omnigate.cli import main; main(['--version']); "
            "print(*sorted(n for n in sys.modules if n.split('.')[0] in "
            "('twisted', 'msgspec', 'attr', 'http', 'ssl') or n.startswith('omnigate.c')))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], env=python_environ({}), capture_output=True, text=True
        )
        self.assertEqual(run.stdout, f"omnigate {omnigate.__version__}\nomnigate.cli\n", run.stderr)
        self.assertEqual(self.run_cli("--version")[:2], (0, f"omnigate {omnigate.__version__}\n"))


class ShownTests(SynchronousTestCase):
    """What is taken for a command of ours."""

    def test_shown(self) -> None:
        """The program by any path, behind settings of variables, up to the end of the command."""
        for text, told in {
            "omnigate keys list": [["keys", "list"]],
            "A=b /opt/x/bin/omnigate usage | head; omnigate top": [["usage"], ["top"]],
            "twistd --reactor=omnigate omnigate-data": [],
            "adduser omnigate": [],
            "ln -s /opt/omnigate/bin/omnigate /usr/bin/omnigate": [],
            'eval "$(omnigate completion zsh)"': [["completion", "zsh"]],
            "omnigate keys create a \\\n  --rpm 5   # so": [["keys", "create", "a", "--rpm", "5"]],
        }.items():
            self.assertEqual(list(shown(text)), told, text)
