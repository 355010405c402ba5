"""What systemd hands to the daemons and hears from them: sockets, credentials, readiness."""

import hashlib
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from omnigate.demo_children import free_ports, python_environ, twistd

KEY = "handover-key-0123456789"
# What a start may take on a loaded machine.
SECONDS = 30

CONFIG = f"""
[[keys]]
name = "app"
key_sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}"
[[upstreams]]
name = "nobody"
protocol = "openai"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "OPENAI_API_KEY"
[[routes]]
model = "fast"
  [[routes.targets]]
  upstream = "nobody"
  model = "gpt-4o-mini"
"""

# Puts the socket where systemd puts it, names itself as the one it is for, and becomes the daemon.
TAKE_SOCKET = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid());"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class HandoverTests(SynchronousTestCase):
    """Both daemons, started the way the units start them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="omnigate-test-units-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.heard: dict[socket.socket, set[bytes]] = {}
        (self.folder / "omnigate.toml").write_text(CONFIG)
        for plane, secrets in {
            "control": {"omnigate_internal_token": "i" * 20, "omnigate_admin_token": "a" * 20},
            "data": {"omnigate_internal_token": "i" * 20, "openai_api_key": "sk-provider"},
        }.items():
            for name in (plane, f"{plane}-credentials"):
                (self.folder / name).mkdir()
            for name, text in secrets.items():
                (self.folder / f"{plane}-credentials" / name).write_text(text + "\n")

    def listener(self, plane: str) -> socket.socket:
        """The socket on which a plane tells systemd how it is."""
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(told.close)
        told.bind(str(self.folder / f"{plane}.notify"))
        told.settimeout(SECONDS)
        return told

    def start(
        self, plane: str, *before: str, passed: tuple[int, ...] = (), **settings: str
    ) -> "subprocess.Popen[bytes]":
        """Start a plane with its credentials; no secret is in its environment."""
        environ = python_environ(
            {
                "CREDENTIALS_DIRECTORY": str(self.folder / f"{plane}-credentials"),
                "STATE_DIRECTORY": str(self.folder / plane),
                "NOTIFY_SOCKET": str(self.folder / f"{plane}.notify"),
                # The first sign of life comes at once. More of them would fill the queue of a
                # socket that is not read meanwhile, and what follows would be lost.
                "WATCHDOG_USEC": "30000000",
                **settings,
            }
        )
        with (self.folder / f"{plane}.log").open("wb") as log:
            process = subprocess.Popen(
                [*before, *twistd(f"omnigate-{plane}")],
                env=environ,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=passed,
            )
        self.addCleanup(process.wait, SECONDS)
        self.addCleanup(process.terminate)
        return process

    def test_the_units_start_them_this_way(self) -> None:
        """The commands here are those of the units, but for the Python that runs them."""
        units = Path(__file__).resolve().parent.parent.parent / "systemd"
        if not units.is_dir():
            self.skipTest("the units are in the checkout only")
        for plane in ("control", "data"):
            unit = (units / f"omnigate-{plane}.service").read_text()
            start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
            self.assertEqual(start.split()[1:], twistd(f"omnigate-{plane}")[3:])

    def told(self, listener: socket.socket, word: bytes) -> None:
        """Wait until a plane has said a word, in whatever order it says them."""
        heard = self.heard.setdefault(listener, set())
        while word not in heard:
            heard.update(listener.recv(4096).split(b"\n"))

    def test_sockets_credentials_and_readiness(self) -> None:
        """The data plane takes the named socket; both say READY and STOPPING, and end with 0."""
        control_said, data_said = self.listener("control"), self.listener("data")
        (control_port,) = free_ports(1)
        control = self.start(
            "control",
            OMNIGATE_CONFIG=str(self.folder / "omnigate.toml"),
            OMNIGATE_CONTROL_LISTEN=f"tcp:{control_port}:interface=127.0.0.1",
        )
        self.told(control_said, b"READY=1")
        with socket.create_server(("127.0.0.1", 0)) as public:
            data = self.start(
                "data",
                *(sys.executable, "-c", TAKE_SOCKET, str(public.fileno())),
                passed=(public.fileno(),),
                LISTEN_FDS="1",
                LISTEN_FDNAMES="public",
                OMNIGATE_DATA_LISTEN="systemd:domain=INET:name=public",
                OMNIGATE_CONTROL_URL=f"http://127.0.0.1:{control_port}",
            )
            self.told(data_said, b"READY=1")
            for said in (data_said, control_said):
                self.told(said, b"WATCHDOG=1")
            request = urllib.request.Request(
                f"http://127.0.0.1:{public.getsockname()[1]}/v1/models",
                headers={"authorization": f"Bearer {KEY}"},
            )
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=SECONDS) as answer:
                self.assertIn(b'"fast"', answer.read())
            for process, said in ((data, data_said), (control, control_said)):
                process.terminate()
                self.told(said, b"STOPPING=1")
                self.assertEqual(process.wait(SECONDS), 0)
        self.assertNotIn("sk-provider", (self.folder / "data.log").read_text())
