"""The real daemons and a fake provider as child processes, for tests to drive and to kill.

A :class:`Gateway` is one control plane, one data plane and one provider on free ports of loopback,
with all their files in one temporary folder. A daemon that is killed is started again on the same
port and the same files. Nothing here sleeps for a fixed time: every wait is for a condition and
has a bound.
"""

import atexit
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
from twisted.trial.unittest import SkipTest

from omnigate.admin_client import AdminClient
from omnigate.demo_children import Child, python_environ, twistd

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent.parent
#: What anything here may take: a start takes one or two seconds, a loaded machine ten times that.
SECONDS = 60.0
_POLL_SECONDS = 0.01

INTERNAL_TOKEN = "internal-token-of-the-tests"
ADMIN_TOKEN = "admin-token-of-the-tests"
PROVIDER_KEY = "sk-provider-key-of-the-tests"

#: US dollars a million tokens; no two sums of these are equal by accident.
PRICES = {"input": "3.1", "cached_input": "0.37", "cache_write": "4.3", "output": "11.7"}
#: Which tokens of an event have which price.
_PRICE_OF = {
    "input_tokens": "input",
    "cached_input_tokens": "cached_input",
    "cache_write_input_tokens": "cache_write",
    "output_tokens": "output",
}

#: What a log holds only where something of ours broke.
_TRACES = ("Traceback (most recent call last)", "Unhandled error", "Unhandled Error")


class NotInTimeError(AssertionError):
    """A condition did not come about in time."""


def wait_for(what: str, condition: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """Wait until a condition holds.

    :param what: names it in the error.
    :param condition: gives something true once it holds.
    :return: what it gave.
    """
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise NotInTimeError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(_POLL_SECONDS)


def files_below(folder: Path) -> list[Path]:
    """All files below a folder that a daemon writes in: what goes while this looks is passed over.

    ``Path.rglob`` fails where a folder goes between being listed and being looked into.
    """
    return [Path(below, name) for below, _, names in os.walk(folder) for name in names]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on, and that the system hands out to nobody.

    Those that it hands out to outgoing connections would be free now and taken when a daemon that
    was killed comes back to its port.
    """
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        lowest = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        lowest = 32768
    candidates = random.SystemRandom().sample(range(10_000, max(lowest, 20_000)), 500)
    held: list[socket.socket] = []
    try:
        for port in candidates:
            if len(held) == count:
                break
            try:
                held.append(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return [opened.getsockname()[1] for opened in held]
    finally:
        for opened in held:
            opened.close()


class Daemon(Child):
    """One run of a program, with its log."""

    def __init__(
        self, name: str, arguments: Sequence[str], environ: Mapping[str, str], folder: Path
    ) -> None:
        super().__init__(name, arguments, environ, folder)
        self.log_path = folder / f"{name}.log"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """``kill -9``; it is gone afterwards."""
        self._process.kill()
        self._process.wait(SECONDS)

    def terminate(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        self._process.terminate()

    def send(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for its end; the exit status."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {seconds:.0f} s") from None

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.log_path.read_text("utf-8", "replace")


@attrs.define
class Answer:
    """What a client got.

    :ivar whole: its framing says that it is complete.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def id(self) -> str:
        """The request id, under which its usage is recorded."""
        return self.headers["x-omnigate-request-id"]

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        code: str = self.json["error"]["code"]
        return code


def key_of(name: str) -> str:
    """The secret of the file key of this name."""
    return f"key-of-the-tests-{name}"


def key_table(name: str, **limits: object) -> str:
    """A ``[[keys]]`` table; limits as the config names them."""
    digest = hashlib.sha256(key_of(name).encode()).hexdigest()
    lines = [f'[[keys]]\nname = "{name}"\nkey_sha256 = "{digest}"']
    lines += [f"{field} = {json.dumps(value)}" for field, value in limits.items()]
    return "\n".join(lines) + "\n"


def upstream_table(name: str, protocol: str, port: int, key_env: str = "PROVIDER_KEY") -> str:
    """An ``[[upstreams]]`` table for a port of loopback, whose targets never rest."""
    return (
        f'[[upstreams]]\nname = "{name}"\nprotocol = "{protocol}"\napi_key_env = "{key_env}"\n'
        f'base_url = "http://127.0.0.1:{port}/v1"\n'
        "cooldown = { failures = 1000, window_s = 1, seconds = 0 }\n"
    )


def events_of(body: bytes) -> list[Any]:
    """The data of each event of a stream, decoded; without ``[DONE]``."""
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def route_table(model: str, *targets: tuple[str, str]) -> str:
    """A ``[[routes]]`` table; targets are pairs of upstream and model, priced as above."""
    price = ", ".join(f"{name} = {usd}" for name, usd in PRICES.items())
    lines = [f'[[routes]]\nmodel = "{model}"']
    for upstream, target in targets:
        lines.append(f'  [[routes.targets]]\n  upstream = "{upstream}"\n  model = "{target}"')
        lines.append(f"  price = {{ {price} }}")
    return "\n".join(lines) + "\n"


def cost_of(event: Mapping[str, Any]) -> Decimal:
    """What an event's tokens cost at :data:`PRICES`, rounded half up to nano-dollars once."""
    nano = sum(
        (
            Fraction(event[tokens]) * Fraction(PRICES[price]) * 1000
            for tokens, price in _PRICE_OF.items()
        ),
        Fraction(0),
    )
    return Decimal((nano + Fraction(1, 2)).__floor__()).scaleb(-9)


@attrs.frozen
class Provider:
    """What stands behind a gateway.

    :ivar command: starts it on a port of loopback.
    :ivar ready_path: answers 200 once it is ready.
    :ivar key: the credential that it takes.
    """

    command: Callable[[int], Sequence[str]]
    ready_path: str
    key: str


def _fake(port: int) -> Sequence[str]:
    module = [sys.executable, "-m", "omnigate.testing.provider"]
    return [*module, "--port", str(port), "--key", PROVIDER_KEY]


FAKE_PROVIDER = Provider(_fake, "/__stats", PROVIDER_KEY)


class Gateway:
    """Both daemons and the provider; :meth:`stop` ends everything that is still there.

    :param config: the text of the config, out of the provider's port.
    :param data: settings of the data plane, names without ``OMNIGATE_``.
    :param behind: the provider.
    """

    def __init__(
        self,
        config: Callable[[int], str],
        data: Mapping[str, str] | None = None,
        behind: Provider = FAKE_PROVIDER,
    ) -> None:
        self._behind = behind
        self._folder = tempfile.TemporaryDirectory(prefix="omnigate-test-process-")
        self.folder = Path(self._folder.name)
        self.data_port, self.control_port, self.provider_port = free_ports(3)
        self.config_path = self.folder / "omnigate.toml"
        self.config_path.write_text(config(self.provider_port))
        self._data = dict(data or {})
        self._numbers = itertools.count(1)
        self._runs: list[Daemon] = []
        self.data: Daemon | None = None
        self.control: Daemon | None = None
        self.provider: Daemon | None = None

    # -- starting and stopping

    def start(self) -> "Gateway":
        """Start all three, and wait until requests are served."""
        try:
            self.start_provider()
            self.start_control()
            self.start_data()
        except BaseException:
            self.stop(orderly=False)
            raise
        return self

    def start_provider(self) -> Daemon:
        """Start the provider and wait until it takes requests."""
        self.provider = self._run("provider", self._behind.command(self.provider_port), {})
        self.provider.wait_ready(self.provider_port, self._behind.ready_path)
        return self.provider

    def start_control(self) -> Daemon:
        """Start the control plane and wait until its ledger is loaded."""
        self.control = self.spawn("control")
        self.control.wait_ready(self.control_port)
        return self.control

    def start_data(self) -> Daemon:
        """Start the data plane and wait until it has a config."""
        self.data = self.spawn("data")
        self.data.wait_ready(self.data_port)
        return self.data

    def spawn(self, plane: str, *options: str, **settings: str) -> Daemon:
        """Start one plane and wait for nothing.

        :param options: of the ``twistd`` subcommand.
        :param settings: names without ``OMNIGATE_``, over those of this gateway.
        """
        return self._run(plane, [*self.command(plane), *options], self.environ(plane, settings))

    def command(self, plane: str) -> Sequence[str]:
        """The command that runs a plane."""
        return twistd(f"omnigate-{plane}")

    def environ(self, plane: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a plane."""
        named = {
            "INTERNAL_TOKEN": INTERNAL_TOKEN,
            "STATE_DIR": str(self.folder / plane),
            **self._own_settings(plane),
            **(settings or {}),
        }
        environ = {f"OMNIGATE_{name}": value for name, value in named.items() if value}
        if plane == "data":
            environ["PROVIDER_KEY"] = self._behind.key
        return environ

    def _own_settings(self, plane: str) -> dict[str, str]:
        if plane == "control":
            return {
                "ADMIN_TOKEN": ADMIN_TOKEN,
                "CONFIG": str(self.config_path),
                "CONTROL_LISTEN": f"tcp:{self.control_port}:interface=127.0.0.1",
                "DATA_URL": f"http://127.0.0.1:{self.data_port}",
            }
        return {
            "DATA_LISTEN": f"tcp:{self.data_port}:interface=127.0.0.1",
            "CONTROL_URL": f"http://127.0.0.1:{self.control_port}",
            "POLL_MS": "50",
            "FLUSH_MS": "20",
            "SHUTDOWN_GRACE_MS": "10000",
            **self._data,
        }

    def _run(self, name: str, arguments: Sequence[str], extra: Mapping[str, str]) -> Daemon:
        environ = python_environ(extra)
        run = Daemon(f"{name}-{next(self._numbers)}", arguments, environ, self.folder)
        self._runs.append(run)
        return run

    def stop(self, orderly: bool = True) -> None:
        """End what runs, the data plane first, and remove the folder.

        :raises AssertionError: where a plane did not end with 0, or logged a traceback.
        """
        atexit.unregister(self.stop)
        faults: list[str] = []
        try:
            for run in (self.data, self.control):
                if run is None or not run.running():
                    continue
                run.terminate()
                status = run.wait()
                if status != 0:
                    faults.append(f"{run.name} ended with {status}:\n{run.log_tail()}")
            faults += self.traces()
        finally:
            for run in reversed(self._runs):
                run.stop()
            self._folder.cleanup()
        if faults and orderly:
            raise AssertionError("\n".join(faults))

    def traces(self) -> list[str]:
        """The ends of the logs that hold a traceback; there is to be none."""
        return [
            f"{run.name} logged a traceback:\n{run.log_tail()}"
            for run in self._runs
            if any(word in run.log() for word in _TRACES)
        ]

    # -- asking

    def ask(self, model: str, stream: bool = False, key: str = "app") -> Answer:
        """Send a chat completion and read the answer to its end.

        :raises OSError: where no head came.
        """
        asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        if stream:
            asked["stream"] = True
        return self.post("/v1/chat/completions", asked, key_of(key))

    def post(self, path: str, body: object, secret: str) -> Answer:
        """Send a request of any kind; see :meth:`ask`."""
        return self._exchange("POST", path, json.dumps(body), secret)

    def get(self, path: str, secret: str = "") -> Answer:
        """Read something; see :meth:`ask`."""
        return self._exchange("GET", path, None, secret)

    def _exchange(self, method: str, path: str, body: str | None, secret: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.data_port, timeout=SECONDS)
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        try:
            connection.request(method, path, body, headers)
            return read_answer(connection.getresponse())
        except http.client.HTTPException as error:
            raise OSError(f"no answer: {error!r}") from None
        finally:
            connection.close()

    def admin(self) -> AdminClient:
        """A client of the admin API."""
        return AdminClient(f"http://127.0.0.1:{self.control_port}", ADMIN_TOKEN)

    def served(self) -> dict[str, Any]:
        """What the provider says of itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.provider_port, timeout=SECONDS)
        try:
            connection.request("GET", "/__stats")
            stats: dict[str, Any] = json.loads(connection.getresponse().read())
            return stats
        finally:
            connection.close()

    # -- the ledger

    @property
    def control_state(self) -> Path:
        """Where the state of the control plane is seen."""
        return self.folder / "control"

    def ledger(self) -> list[dict[str, Any]]:
        """Every event that is recorded, in order; amounts are decimals."""
        folder = self.control_state
        while True:
            sealed = sorted(folder.glob("ledger.[0-9]*.jsonl"))
            lines = []
            for path in [*sealed, folder / "ledger.jsonl"]:
                # There is no active segment before the first event, and between two.
                with contextlib.suppress(FileNotFoundError):
                    lines += path.read_bytes().split(b"\n")[:-1]
            # A segment may have been sealed behind the back of this.
            if sealed == sorted(folder.glob("ledger.[0-9]*.jsonl")):
                return [json.loads(line, parse_float=Decimal, parse_int=int) for line in lines]

    def event(self, request_id: str) -> dict[str, Any]:
        """The one event of a request; waits for it.

        :raises AssertionError: it is recorded more than once.
        """

        def find() -> list[dict[str, Any]]:
            return [event for event in self.ledger() if event["id"] == request_id]

        found = wait_for(f"the event of {request_id}", find)
        if len(found) > 1:
            raise AssertionError(f"{request_id} is recorded {len(found)} times")
        return found[0]

    def waiting(self) -> int:
        """Events in the spool files: those that may not have been acknowledged."""
        found = 0
        for path in (self.folder / "data").glob("omnigate-usage*.spool"):
            # One that an earlier run left may be removed at any moment.
            with contextlib.suppress(FileNotFoundError):
                found += path.read_bytes().count(b"\n")
        return found

    def workers(self) -> list[int]:
        """The process ids of the data plane's workers, in no order."""
        assert self.data is not None
        path = Path(f"/proc/{self.data.pid}/task/{self.data.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


def verify_ledger(
    path: Path, inside: Callable[[Sequence[str]], Sequence[str]] = lambda command: command
) -> None:
    """Hold a ledger's files against each other, as ``omnigate ledger verify`` does.

    :param inside: gives the command that runs another one where the files are seen.
    :raises AssertionError: there is a difference.
    """
    command = [sys.executable, "-m", "omnigate.cli", "ledger", "verify", str(path)]
    run = subprocess.run(
        inside(command), capture_output=True, text=True, env=python_environ({}), timeout=SECONDS
    )
    if run.returncode:
        raise AssertionError(f"the ledger is not in order:\n{run.stdout}\n{run.stderr}")


def read_answer(response: http.client.HTTPResponse) -> Answer:
    """Read an answer, whole or not."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        body, whole = response.read(), True
    except http.client.IncompleteRead as error:
        body, whole = error.partial, False
    except OSError:
        body, whole = b"", False
    return Answer(response.status, headers, body, whole)


def shared_folder(name: str, file: str) -> Path:
    """A folder of things that may lie in ``shared`` beside the checkout.

    :param file: something that is there if the folder is what it should be.
    :raises SkipTest: it is not there.
    """
    place = Path(os.environ.get("OMNIGATE_TEST_SHARED") or ROOT.parent / "shared") / name
    if not (place / file).is_file():
        raise SkipTest(f"there is no {place / file}; OMNIGATE_TEST_SHARED may say where it is")
    return place


_shared: dict[str, Gateway] = {}

G = TypeVar("G", bound="Gateway")


def shared(name: str, build: Callable[[], G]) -> G:
    """A gateway that several test classes drive and none of them breaks.

    It is built at its first use and stopped when another one is asked for, or at exit: trial knows
    no fixture of a class.
    """
    known = _shared.get(name)
    if known is not None:
        return cast(G, known)
    for other in list(_shared):
        _shared.pop(other).stop()
    gateway = _shared[name] = build()
    atexit.register(gateway.stop)
    return gateway
