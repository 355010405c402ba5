"""Starts that fail, each with one clear line and the right exit status, and stops that do not."""

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import python_environ
from tests.process.daemons import (
    SECONDS,
    Gateway,
    key_table,
    route_table,
    upstream_table,
    wait_for,
)


def config(provider_port: int) -> str:
    """One key, one provider, one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


#: Seven faults in as many places.
SEVEN_FAULTS = """
[[keys]]
name = "app"
key_sha256 = "0123"
rmp = 600
budget_usd = -1
[[upstreams]]
name = "openai"
protocol = "opnai"
base_url = "ftp://127.0.0.1/v1"
[[routes]]
model = "small"
strategy = "at_random"
  [[routes.targets]]
  upstream = "nobody"
  model = "fake-small"
"""
FAULTY_PLACES = (
    "keys[0].key_sha256",
    "keys[0].rmp",
    "keys[0].budget_usd",
    "upstreams[0].protocol",
    "upstreams[0].base_url",
    "routes[0].strategy",
    "routes[0].targets[0].upstream",
)


class StartCase(SynchronousTestCase):
    """With a gateway of which only parts are started."""

    def setUp(self) -> None:
        self.gateway = Gateway(config)
        self.addCleanup(self.gateway.stop)

    def refused(
        self,
        plane: str,
        *options: str,
        status: int = 1,
        lines: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> str:
        """Start a plane that cannot start; what it says for itself, without its name."""
        run = self.gateway.spawn(plane, *options, **(settings or {}))
        self.assertEqual(run.wait(), status, run.log())
        said = [line for line in run.log().splitlines() if line.startswith(f"omnigate-{plane}: ")]
        self.assertEqual(len(said), lines, run.log())
        return "\n".join(line.removeprefix(f"omnigate-{plane}: ") for line in said)

    def assert_words(self, text: str, words: Sequence[str]) -> None:
        """All these words stand there."""
        for word in words:
            self.assertIn(word, text)


class RefusedStartTests(StartCase):
    """What is wrong before anything runs."""

    def test_unknown_option(self) -> None:
        """An option that is none: status 2."""
        for plane in ("data", "control"):
            said = self.refused(plane, "--bogus", status=2)
            self.assert_words(said, ["--bogus", f"twistd omnigate-{plane} --help"])

    def test_no_token(self) -> None:
        """A token that is missing, and one that is too short to be one."""
        for plane in ("data", "control"):
            said = self.refused(plane, settings={"INTERNAL_TOKEN": ""})
            self.assertIn("OMNIGATE_INTERNAL_TOKEN", said)
        said = self.refused("control", settings={"ADMIN_TOKEN": "tiny-one"})
        self.assertIn("OMNIGATE_ADMIN_TOKEN", said)
        self.assertNotIn("tiny-one", said)

    def test_malformed_settings(self) -> None:
        """Settings that say nothing, all of them at once."""
        settings = {"POLL_MS": "soon", "CONTROL_URL": "nonsense"}
        said = self.refused("data", lines=2, settings=settings)
        self.assert_words(said, ["OMNIGATE_POLL_MS", "OMNIGATE_CONTROL_URL"])

    def test_state_folder(self) -> None:
        """A state folder that cannot be had."""
        inside_a_file = str(self.gateway.config_path / "state")
        for plane in ("data", "control"):
            said = self.refused(plane, settings={"STATE_DIR": inside_a_file})
            self.assert_words(said, [inside_a_file, "OMNIGATE_STATE_DIR", "--state-dir"])

    def test_access_log(self) -> None:
        """An access log that cannot be opened."""
        path = str(self.gateway.config_path / "access.log")
        said = self.refused("data", settings={"ACCESS_LOG": path})
        self.assert_words(said, [path, "OMNIGATE_ACCESS_LOG"])

    def test_no_config(self) -> None:
        """A config file that is not there."""
        self.gateway.config_path.unlink()
        said = self.refused("control")
        self.assert_words(said, [str(self.gateway.config_path), "OMNIGATE_CONFIG"])

    def test_seven_faults(self) -> None:
        """A config with seven faults has seven lines below its own, here and from ``check``."""
        path = self.gateway.config_path
        path.write_text(SEVEN_FAULTS)
        said = self.refused("control", lines=8)
        self.assertIn(f"{path} has 7 faults", said)
        self.assert_words(said, [f"{place} (" for place in FAULTY_PLACES])
        checked = subprocess.run(
            [sys.executable, "-m", "omnigate.cli", "check", str(path)],
            env=python_environ({}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.assertEqual(checked.returncode, 1)
        self.assert_words(
            checked.stdout + checked.stderr, [f"{place} (" for place in FAULTY_PLACES]
        )

    def test_port_in_use(self) -> None:
        """A port on which something else listens."""
        for plane, port in (
            ("data", self.gateway.data_port),
            ("control", self.gateway.control_port),
        ):
            with socket.create_server(("127.0.0.1", port)):
                said = self.refused(plane)
            variable = f"OMNIGATE_{plane.upper()}_LISTEN"
            self.assert_words(said, [f"tcp:{port}", "in use", variable, "--listen"])


class SecondInstanceTests(StartCase):
    """A second one beside the first, which it does not disturb."""

    def setUp(self) -> None:
        super().setUp()
        self.gateway.start()

    def test_same_port(self) -> None:
        """With the port of the first and a folder of its own."""
        for plane in ("data", "control"):
            folder = str(self.gateway.folder / f"second-{plane}")
            said = self.refused(plane, settings={"STATE_DIR": folder})
            self.assertIn("in use", said)
        self.assertEqual(self.gateway.ask("small").status, 200)

    def test_same_folder(self) -> None:
        """With a port of its own and the folder of the first."""
        for plane in ("data", "control"):
            said = self.refused(plane, "--listen", "tcp:0:interface=127.0.0.1")
            self.assert_words(said, [str(self.gateway.folder / plane), "OMNIGATE_STATE_DIR"])
            self.assertNotIn("cannot be written", said)
        answer = self.gateway.ask("small")
        self.gateway.event(answer.id)

    def test_folder_of_one_that_was_killed(self) -> None:
        """A crash leaves no lock behind."""
        assert self.gateway.data is not None and self.gateway.control is not None
        self.gateway.data.kill()
        self.gateway.control.kill()
        self.gateway.start_control()
        self.gateway.start_data()
        self.gateway.event(self.gateway.ask("small").id)


class WrongTokenTests(StartCase):
    """Two planes whose tokens do not agree."""

    def test_wrong_token(self) -> None:
        """The data plane says so, once, serves nothing, and stops in order all the same."""
        self.gateway.start_provider()
        self.gateway.start_control()
        self.gateway.data = run = self.gateway.spawn("data", INTERNAL_TOKEN="quite-another-token")
        wait_for("the data plane to say so", lambda: "OMNIGATE_INTERNAL_TOKEN" in run.log())
        # Its poll comes every 50 ms: by the third, a line for each would be there.
        polled = wait_for("further polls", lambda: self.refused_polls() >= 3)
        self.assertTrue(polled)
        self.assertEqual(run.log().count("OMNIGATE_INTERNAL_TOKEN"), 1, run.log())
        answer = self.gateway.ask("small")
        self.assertEqual((answer.status, answer.code), (503, "gateway_not_ready"))
        self.assertEqual(self.gateway.get("/readyz").status, 503)
        self.assertEqual(self.gateway.get("/healthz").status, 200)

    def refused_polls(self) -> int:
        """Polls that the control plane has turned away."""
        text = self.gateway.admin().text("GET", "/metrics", accept="text/plain")
        lines = [line for line in text.splitlines() if line.startswith("omnigate_auth_failures")]
        return int(sum(float(line.rpartition(" ")[2]) for line in lines))
