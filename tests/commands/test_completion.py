"""Tests for omnigate completion: scripts that shells really complete with."""

import argparse
import contextlib
import io
import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate import cli
from omnigate.commands.completion_scripts import bash_script, zsh_script
from omnigate.commands.spelling import Command, spelled

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 30


def program() -> Command:
    """Our own command line."""
    return spelled(cli.parser())


class SpellingTests(SynchronousTestCase):
    """The command line as data."""

    def test_everything_is_there(self) -> None:
        """Commands, options with their choices, arguments by their place, and what is a path."""
        commands = {" ".join(command.path): command for command in program().walk()}
        self.assertLessEqual(
            {"", "demo", "keys create", "ledger verify", "completion"}, set(commands)
        )
        options = {name: o for o in commands["usage"].options for name in o.names}
        self.assertEqual(options["--format"].choices, ("table", "json", "csv"))
        self.assertEqual((options["--json"].word, options["--since"].word), ("", "DAY"))
        (path,) = commands["ledger verify"].places
        self.assertEqual((path.word, path.path, path.optional), ("PATH", "file", True))
        (shell,) = commands["completion"].places
        self.assertEqual((shell.choices, shell.optional), (("bash", "zsh"), False))
        for command in commands.values():
            self.assertTrue(command.help or not command.path, command.path)
            for argument in command.arguments:
                self.assertTrue(argument.help, (command.path, argument.names))

    def test_odd_words(self) -> None:
        """What a shell would take for more than words stays words."""
        parser = argparse.ArgumentParser("omnigate")
        commands = parser.add_subparsers()
        odd = commands.add_parser("odd", help="it's [not]: $HOME `x` \\")
        odd.add_argument("--a", help="$(touch broken) 'b' \"c\" [d]: e", metavar="F[o]:o")
        odd.add_argument("b", choices=("x", "y"), help="one")
        for shell, script in (("bash", bash_script), ("zsh", zsh_script)):
            if shutil.which(shell):
                text = script(spelled(parser))
                run = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stderr), (0, ""), text)


class ShellTestCase(SynchronousTestCase):
    """A shell that somebody types in."""

    shell = ""

    def setUp(self) -> None:
        if not shutil.which(self.shell):
            raise SkipTest(f"{self.shell} is not installed")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(cli.main(("completion", self.shell)), 0)
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        (self.folder / "script").write_text(out.getvalue())
        (self.folder / "with space.toml").touch()
        (self.folder / "folder").mkdir()
        self.seen = ""

    def start(self, arguments: list[str], *lines: str) -> None:
        """Start it on a terminal, and have it run some lines."""
        pid, self.terminal = pty.fork()
        if not pid:
            os.chdir(self.folder)
            environ = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(self.folder)}
            os.execvpe(self.shell, [self.shell, *arguments], environ)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, self.terminal)
        for line in (*lines, "omnigate() { printf '<%s>' RAN \"$@\"; echo; }"):
            self.type(f"{line}\n")
        self.type("omnigate ready\n")
        self.ran()

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self.terminal, text.encode())

    def ran(self) -> list[str]:
        """The arguments that the next command was run with."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(r"<RAN>((?:<[^<>\n]*>)*)\r\n", self.seen)):
            self.assertLess(time.monotonic(), end, self.seen[-2000:])
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 65536).decode("utf-8", "replace")
        self.seen = self.seen[found.end() :]
        return re.findall("<([^<>]*)>", found[1])

    def check(self, typed: str, *arguments: str) -> None:
        """What was typed is completed so."""
        self.type(f"omnigate {typed}\n")
        # zsh writes an option and its value as one word.
        ran = [p for w in self.ran() for p in (w.split("=", 1) if w.startswith("--") else [w])]
        # And takes the stroke behind a folder away again.
        ran = [word.removesuffix("/") for word in ran]
        self.assertEqual(ran, list(arguments), typed)

    def check_all(self) -> None:
        """Commands, options, their values, and paths."""
        self.check("doc\t--form\tcs\t", "doctor", "--format", "csv")
        self.check("ledg\tex\t--output scr\t", "ledger", "export", "--output", "script")
        self.check("check wit\t", "check", "with space.toml")
        self.check("init --dir fol\t", "init", "--dir", "folder")
        self.check("completion z\t", "completion", "zsh")
        self.check(
            "usage --by mo\t--sin\t2026-11-01", "usage", "--by", "model", "--since", "2026-11-01"
        )


class BashTests(ShellTestCase):
    """bash."""

    shell = "bash"

    def test_somebody_types(self) -> None:
        """The words are completed as they are typed."""
        self.start(["--norc", "--noprofile", "-i"], "PS1='$ '", ". ./script")
        self.check_all()
        self.check("usage --format=j\t", "usage", "--format", "json")

    def test_every_command(self) -> None:
        """Each group offers its commands, each command its options, each option its values."""
        wanted: dict[str, set[str]] = {}
        for command in program().walk():
            words = " ".join(command.path)
            options = {name for option in command.options for name in option.names}
            wanted[f"{words} -"] = options
            if command.children:
                wanted[f"{words} "] = {child.path[-1] for child in command.children}
            for option in command.options:
                if option.choices:
                    wanted[f"{words} {option.names[0]} "] = set(option.choices)
        lines = [". ./script"]
        for words in wanted:
            typed = words.rstrip().split() if words.endswith("-") else [*words.split(), ""]
            shown = " ".join(f"'{word}'" for word in typed)
            lines.append(f"COMP_WORDS=(omnigate {shown}); COMP_CWORD={len(typed)}; _omnigate")
            lines.append('echo "${COMPREPLY[*]}"')
        run = subprocess.run(
            ["bash", "--norc", "-c", "\n".join(lines)],
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        self.assertEqual(run.stderr, "")
        told = [set(line.split()) for line in run.stdout.splitlines()]
        self.assertEqual(dict(zip(wanted, told, strict=True)), wanted)

    def test_the_file_of_the_package(self) -> None:
        """It asks the program, and completes with what that says."""
        file = ROOT / "completion" / "omnigate"
        if not file.exists():
            raise SkipTest("the file is in the checkout only")
        program = self.folder / "omnigate"
        program.write_text('#!/bin/sh\n[ "$*" = "completion bash" ] && cat script\n')
        program.chmod(0o755)
        lines = f". {file}; COMP_WORDS=(omnigate de); COMP_CWORD=1; _omnigate; echo $COMPREPLY"
        environ = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        run = subprocess.run(
            ["bash", "-c", lines], cwd=self.folder, env=environ, capture_output=True, text=True
        )
        self.assertEqual((run.stdout, run.stderr), ("demo\n", ""))


class ZshTests(ShellTestCase):
    """zsh."""

    shell = "zsh"

    def test_somebody_types(self) -> None:
        """The words are completed as they are typed, by the script alone."""
        setup = ("PS1='$ '", "autoload -Uz compinit", "compinit -D -u")
        self.start(["-f", "-i"], *setup, 'eval "$(cat script)"')
        self.check_all()

    def test_the_file_of_the_package(self) -> None:
        """Found in the path of functions, it asks the program."""
        folder = ROOT / "completion"
        if not folder.exists():
            raise SkipTest("the file is in the checkout only")
        program = self.folder / "omnigate"
        program.write_text('#!/bin/sh\n[ "$*" = "completion zsh" ] && cat script\n')
        program.chmod(0o755)
        setup = ("PS1='$ '", f"fpath=({folder} $fpath)", f"path=({self.folder} $path)")
        self.start(["-f", "-i"], *setup, "autoload -Uz compinit", "compinit -D -u")
        # The function that tells what is run must not answer for the program here.
        self.type('_real() { command omnigate "$@"; }\n')
        self.check("doc\t--form\tcs\t", "doctor", "--format", "csv")
