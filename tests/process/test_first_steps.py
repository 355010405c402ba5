"""The first steps of an operator: what ``omnigate init`` wrote is started, and looked at."""

import contextlib
import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import Child, python_environ
from tests.process.daemons import SECONDS, free_ports, wait_for

PROVIDER_KEY = "sk-a-key-of-the-$tests"


class FirstStepsTests(SynchronousTestCase):
    """omnigate init, both planes as it says, and omnigate doctor and top beside them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="omnigate-test-first-steps-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.children: list[Child] = []

    def tearDown(self) -> None:
        for child in reversed(self.children):
            child.stop()

    def start(self, name: str, command: list[str], **environ: str) -> Child:
        """Start a program that is stopped when the test ends."""
        child = Child(name, command, python_environ(environ), self.folder, name == "provider")
        self.children.append(child)
        return child

    def omnigate(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line."""
        kept = {name: text for name, text in os.environ.items() if not name.endswith("_API_KEY")}
        self.patch(os, "environ", kept)
        return subprocess.run(
            [sys.executable, "-m", "omnigate.cli", *arguments],
            env=python_environ(environ),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def test_what_init_writes_starts(self) -> None:
        """Both planes run with nothing changed but ports; a model answers; doctor finds faults."""
        provider = self.start("provider", [sys.executable, "-m", "omnigate.testing.provider"])
        upstream = f"http://127.0.0.1:{int(provider.first_line())}/v1"
        data, control, metrics = free_ports(3)
        run = self.omnigate(
            *("init", "--dir", "here"), OPENAI_API_KEY=PROVIDER_KEY, OPENAI_BASE_URL=upstream
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        env = self.folder / "here" / "data.env"
        env.write_text(env.read_text().replace("tcp:9464", f"tcp:{metrics}"))
        ports = {
            "OMNIGATE_DATA_LISTEN": f"tcp:{data}:interface=127.0.0.1",
            "OMNIGATE_CONTROL_LISTEN": f"tcp:{control}:interface=127.0.0.1",
            "OMNIGATE_CONTROL_URL": f"http://127.0.0.1:{control}",
        }
        doctor = ("doctor", "--dir", "here")
        down = self.omnigate(*doctor, **ports)
        self.assertEqual(down.returncode, 1)
        self.assertRegex(down.stdout, r"fault +control plane +cannot be reached at http://127")
        self.assertRegex(down.stdout, r"fault +data plane +cannot be reached at http://127")
        self.assertIn("-> start it", down.stdout)

        for plane, port in (("control", control), ("data", data)):
            line = self.line_with(run.stdout, f"omnigate-{plane} )")
            # Without the parentheses the shell becomes the daemon, which can then be stopped.
            inner = line.removeprefix("( ").removesuffix(" )")
            self.start(plane, ["/bin/sh", "-c", inner], **ports).wait_ready(port)
        ask = self.line_with(run.stdout, "curl ")
        self.assertEqual(self.asked(ask, data), 200)

        found = wait_for("a doctor that finds nothing", lambda: self.well(doctor, ports))
        checks = {row["check"]: row for row in found["findings"]}
        states = {row["state"] for name, row in checks.items() if not name.startswith("disk")}
        self.assertEqual(states, {"ok"}, found)
        self.assertIn("both planes are", checks["versions"]["text"])
        self.assertIn("has all 1", checks["credentials"]["text"])

        (self.folder / "here" / "omnigate.toml").write_text("[[keys]]\nnam = 1\n")
        wait_for("the request in top", lambda: self.in_top("fast ", ports))

        token = "OMNIGATE_INTERNAL_TOKEN="
        env.write_text(env.read_text().replace(token, f"{token}not-"))
        bad = r"fault +config +\S+here/omnigate.toml has \d+ faults"
        text = wait_for("a fault of the config", lambda: self.told(doctor, ports, bad))
        self.assertIn("omnigate check", text.replace("\n", ""))
        self.assertRegex(text, r"fault +internal token +control.env and data.env do not agree")

    def line_with(self, text: str, words: str) -> str:
        """The line of the next steps that holds these words."""
        return next(line.strip() for line in text.splitlines() if words in line)

    def well(self, doctor: tuple[str, ...], ports: dict[str, str]) -> Any:
        """What a doctor tells as JSON, once it finds no fault."""
        run = self.omnigate(*doctor, "--json", **ports)
        told = json.loads(run.stdout)
        self.assertEqual(run.returncode, 0 if told["healthy"] else 1)
        return told if told["healthy"] else None

    def told(self, doctor: tuple[str, ...], ports: dict[str, str], signs: str) -> str | None:
        """What a doctor tells people, once it holds some words."""
        run = self.omnigate(*doctor, **ports)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        return run.stdout if re.search(signs, run.stdout) else None

    def in_top(self, words: str, ports: dict[str, str]) -> bool:
        """Whether the page of top has a line that begins so."""
        text = (self.folder / "here" / "control.env").read_text()
        token = re.search("OMNIGATE_ADMIN_TOKEN=(.*)", text)
        assert token is not None
        run = self.omnigate("top", OMNIGATE_ADMIN_TOKEN=token[1], **ports)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return any(line.startswith(words) for line in run.stdout.splitlines())

    def asked(self, command: str, port: int) -> int:
        """Send what a line of curl would; the status."""
        words = shlex.split(command)
        header, body = words[words.index("-H") + 1], words[words.index("-d") + 1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        with contextlib.closing(connection):
            name, value = header.split(": ")
            connection.request("POST", "/v1/chat/completions", body, {name: value})
            return connection.getresponse().status
