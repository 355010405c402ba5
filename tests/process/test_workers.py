"""Several workers on one port: served by all, and whole whatever becomes of one of them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from omnigate.workers.seat import WorkerSeat
from tests.process.daemons import (
    SECONDS,
    Answer,
    Daemon,
    Gateway,
    key_of,
    key_table,
    read_answer,
    route_table,
    upstream_table,
    wait_for,
)
from tests.protocols.test_connector import issue

MODELS = {
    "small": "fake-small",
    "paced": "fake-words-40-paced-20",
    "silent": "fake-silent-after-4",
}


WORKER = re.compile(r"worker [0-9]+(?=: )")
NAMES = {"worker 0", "worker 1", "worker 2"}


def config(provider_port: int) -> str:
    """One key, one provider, several models."""
    routes = [route_table(model, ("openai", target)) for model, target in MODELS.items()]
    return key_table("app") + upstream_table("openai", "openai", provider_port) + "".join(routes)


def workers_of(run: Daemon) -> list[int]:
    """The process ids of a parent's workers."""
    path = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def socket_of(port: int, peer: int) -> str:
    """The number of the socket that a connection of loopback ends in; empty if there is none."""
    local, remote = (f"0100007F:{number:04X}" for number in (port, peer))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[1:3] == [local, remote]:
            return f"socket:[{words[9]}]"
    return ""


class Caller:
    """A connection that is kept, and asks again and again."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", gateway.data_port, timeout=SECONDS
        )

    def ask(self, model: str = "small", stream: bool = False) -> Answer:
        """Ask once and read the answer.

        :raises OSError: where no head came.
        """
        return read_answer(self.begin(model, stream))

    def begin(self, model: str, stream: bool = True) -> http.client.HTTPResponse:
        """Ask once and read the head; see :meth:`ask`."""
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        asked = json.dumps({**body, "stream": True} if stream else body)
        headers = {"authorization": f"Bearer {key_of('app')}"}
        try:
            self._connection.request("POST", "/v1/chat/completions", asked, headers)
            return self._connection.getresponse()
        except http.client.HTTPException as error:
            raise OSError(f"no answer: {error!r}") from None

    def worker(self) -> int:
        """The process id of the worker at the other end; 0 if there is none."""
        assert self._gateway.data is not None
        if self._connection.sock is None:
            return 0
        peer = self._connection.sock.getsockname()[1]
        wanted = socket_of(self._gateway.data_port, peer)
        for pid in workers_of(self._gateway.data):
            try:
                links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            except OSError:
                continue
            if wanted in links:
                return pid
        return 0

    def close(self) -> None:
        """Leave."""
        self._connection.close()


class WorkersCase(SynchronousTestCase):
    """With a data plane of three workers."""

    def setUp(self) -> None:
        self.gateway = Gateway(config, {"WORKERS": "3", "SHUTDOWN_GRACE_MS": "20000"})
        self.addCleanup(self.gateway.stop)

    def start(self, **settings: str) -> Daemon:
        """Start everything, and wait until all workers serve."""
        self.gateway.start_provider()
        self.gateway.start_control()
        return self.start_data(**settings)

    def start_data(self, **settings: str) -> Daemon:
        """Start the data plane, and wait until all workers serve."""
        self.gateway.data = run = self.gateway.spawn("data", **settings)
        self.all_serve(run)
        return run

    def all_serve(self, run: Daemon) -> None:
        """Wait for all workers."""

        def told() -> bool:
            if not run.running():
                raise run.failure("ended")
            return "all 3 workers serve" in run.log()

        wait_for("all workers to serve", told)

    def caller(self) -> Caller:
        """A connection of its own."""
        caller = Caller(self.gateway)
        self.addCleanup(caller.close)
        return caller

    def callers_on_all(self) -> dict[int, Caller]:
        """A connection to each of the three workers, that has been used once."""
        found: dict[int, Caller] = {}

        def one_more() -> bool:
            caller = self.caller()
            self.assertEqual(caller.ask().status, 200)
            found.setdefault(caller.worker(), caller)
            return len(found) == 3

        wait_for("a connection to each worker", one_more)
        self.assertNotIn(0, found)
        return found

    def refuses(self) -> bool:
        """Whether nobody listens on the port any more."""
        try:
            socket.create_connection(("127.0.0.1", self.gateway.data_port), SECONDS).close()
        except ConnectionRefusedError:
            return True
        return False

    def one_more_than(self, run: Daemon, words: str, count: int) -> None:
        """Wait until the log says something once more than so often."""
        wait_for(f"{words} in the log", lambda: run.log().count(words) > count)


class ServingTests(WorkersCase):
    """Three workers serve, one of them is lost, files are opened anew, and all stop."""

    def test_life(self) -> None:
        """One run: what is told of it, and its end."""
        path = self.gateway.folder / "access.log"
        run = self.start(ACCESS_LOG=str(path), WORKER="3")
        self.assertEqual(run.log().count("did you mean OMNIGATE_WORKERS?"), 1, run.log())
        callers = self.callers_on_all()
        self.assertEqual(set(callers), set(workers_of(run)))
        self.named_in_the_log(run)
        self.left_alone_by_the_terminal(run, callers)
        self.a_log_is_rotated(run, path, callers)
        stopped_by_hand = self.one_is_stopped_by_hand(run, callers)
        streams = [caller.begin("paced") for caller in callers.values()]
        run.terminate()
        wait_for("the listener to close", self.refuses)
        self.assertTrue(run.running())
        answers = [read_answer(stream) for stream in streams]
        self.assertEqual({answer.whole for answer in answers}, {True})
        self.assertEqual(run.wait(), 0, run.log_tail())
        for answer in (*answers, stopped_by_hand):
            event = self.gateway.event(answer.id)
            self.assertEqual(event["status"], 200)

    def named_in_the_log(self, run: Daemon) -> None:
        """Each line of a worker names it, and there are no others of its."""
        lines = [
            line for line in run.log().splitlines() if "config " in line and "in force" in line
        ]
        self.assertEqual({found[0] for line in lines if (found := WORKER.search(line))}, NAMES)
        self.assertEqual(len(lines), 3, lines)

    def left_alone_by_the_terminal(self, run: Daemon, callers: dict[int, Caller]) -> None:
        """Workers stand in groups of their own, which Ctrl-C does not reach."""
        groups = {os.getpgid(pid) for pid in callers}
        self.assertEqual(groups, set(callers))
        self.assertNotIn(os.getpgid(run.pid), groups)

    def a_log_is_rotated(self, run: Daemon, path: Path, callers: dict[int, Caller]) -> None:
        """SIGHUP to the parent has every worker open its access log anew."""
        old = path.rename(path.with_suffix(".old"))
        run.send(signal.SIGHUP)
        wait_for("a new access log", path.exists)
        place = path.stat()

        def taken() -> bool:
            return all(
                any(
                    os.path.samestat(place, os.stat(entry))
                    for entry in Path(f"/proc/{pid}/fd").iterdir()
                    if entry.exists()
                )
                for pid in callers
            )

        wait_for("all workers to have it open", taken)
        ids = [caller.ask().id for caller in callers.values()]
        wait_for("their lines", lambda: all(found in path.read_text() for found in ids))
        self.assertNotIn(ids[0], old.read_text())

    def one_is_stopped_by_hand(self, run: Daemon, callers: dict[int, Caller]) -> Answer:
        """SIGTERM to one worker drains that one, and another takes its place."""
        pid, caller = callers.popitem()
        stream = caller.begin("paced")
        os.kill(pid, signal.SIGTERM)
        wait_for("another worker", lambda: len(set(workers_of(run)) - {pid}) == 3)
        answer = read_answer(stream)
        self.assertTrue(answer.whole)
        self.assertIn("ended with status 0", run.log())
        self.assertEqual({one.ask().status for one in callers.values()}, {200})
        wait_for("it to serve", lambda: run.log().count("in force: 1 keys") == 4)
        return answer


class LostWorkerTests(WorkersCase):
    """kill -9 of a worker, while all of them work."""

    def test_kill(self) -> None:
        """The others' requests are not touched, another takes its place, the bill is right."""
        run = self.start()
        callers = self.callers_on_all()
        victim, lost = callers.popitem()
        answers: list[Answer] = []
        broken: list[OSError] = []
        over = threading.Event()

        def work(caller: Caller) -> None:
            try:
                while not over.is_set():
                    answers.append(caller.ask("small"))
                answers.append(caller.ask("paced", stream=True))
            except OSError as error:
                broken.append(error)

        threads = [threading.Thread(target=work, args=(one,)) for one in callers.values()]
        streams = [caller.begin("paced") for caller in (self.caller(), lost)]
        for thread in threads:
            thread.start()
        try:
            os.kill(victim, signal.SIGKILL)
            self.one_more_than(run, "in force: 1 keys", 3)
        finally:
            over.set()
            for thread in threads:
                thread.join(SECONDS)
        self.assertEqual(broken, [])
        self.assertEqual({(answer.status, answer.whole) for answer in answers}, {(200, True)})
        self.assertFalse(read_answer(streams[1]).whole)
        self.assertIn(f"(process {victim}) ended by SIGKILL", run.log())
        self.assertNotIn(victim, self.callers_on_all())
        run.terminate()
        self.assertEqual(run.wait(), 0)
        recorded = [event["id"] for event in self.gateway.ledger()]
        self.assertEqual(len(recorded), len(set(recorded)))
        self.assertEqual({answer.id for answer in answers} - set(recorded), set())


class LostParentTests(WorkersCase):
    """kill -9 of the parent."""

    def test_kill(self) -> None:
        """Its workers finish what they have, while a new parent comes up beside them."""
        run = self.start()
        callers = self.callers_on_all()
        old = list(callers)
        busy = callers[old[0]]
        busy.begin("silent").read1()
        run.kill()
        wait_for("the port to be free", self.refuses)
        gone = wait_for("two of them to end", lambda: [pid for pid in old if is_gone(pid)][1:])
        self.assertEqual(len(gone), 1)
        again = self.gateway.data = self.gateway.spawn("data")
        # One of its three finds the spool of one that still has a request.
        wait_for("a worker to say why it waits", lambda: "waits for its files" in again.log())
        self.assertIn("is in use by another process", again.log())
        self.assertEqual(self.gateway.ask("small").status, 200)
        busy.close()
        self.all_serve(again)
        self.assertEqual(set(self.callers_on_all()), set(workers_of(again)))


class StartTests(WorkersCase):
    """Starts that fail: one line and the status of a plane that is alone."""

    def refused(self, status: int = 1, *options: str, **settings: str) -> str:
        """Start a data plane that cannot start; its one line."""
        run = self.gateway.spawn("data", *options, **settings)
        self.assertEqual(run.wait(), status, run.log())
        said = [line for line in run.log().splitlines() if line.startswith("omnigate-data: ")]
        self.assertEqual(len(said), 1, run.log())
        wait_for("its workers to end", lambda: not workers_of(run))
        return said[0]

    def test_refused(self) -> None:
        """What the parent finds, what all workers find, and what one of them finds."""
        with socket.create_server(("127.0.0.1", self.gateway.data_port)):
            said = self.refused()
        self.assertIn("the port is in use", said)
        said = self.refused(1, "--workers=65")
        self.assertIn("--workers", said)
        for descriptor in (0, 9):
            seat = WorkerSeat(0, 3, descriptor, descriptor, descriptor).told()
            self.assertIn("OMNIGATE_WORKER_SEAT: is set by", self.refused(WORKER_SEAT=seat))
        said = self.refused(2, "--bogus")
        self.assertIn("--bogus", said)
        inside_a_file = str(self.gateway.config_path / "state")
        said = self.refused(STATE_DIR=inside_a_file)
        self.assertIn(inside_a_file, said)
        (self.gateway.folder / "data" / "omnigate-usage-2.spool").mkdir(parents=True)
        said = self.refused()
        self.assertIn("omnigate-usage-2.spool: cannot be written", said)


class EndpointTests(WorkersCase):
    """Endpoints that are no plain TCP port."""

    def ask_often(self, connect: Callable[[], socket.socket]) -> None:
        """Ask on so many connections that every worker has some."""
        request = (
            b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            b"authorization: Bearer %b\r\n\r\n" % key_of("app").encode()
        )
        for _ in range(20):
            with connect() as wire:
                wire.settimeout(SECONDS)
                wire.sendall(request)
                answer = b""
                while data := wire.recv(65536):
                    answer += data
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:200])

    def test_unix(self) -> None:
        """A UNIX socket keeps its mode and its name while workers come and go."""
        path = self.gateway.folder / "public.sock"
        run = self.start(DATA_LISTEN=f"unix:{path}:mode=600", WORKERS="3")

        def connect() -> socket.socket:
            wire = socket.socket(socket.AF_UNIX)
            wire.connect(str(path))
            return wire

        self.ask_often(connect)
        os.kill(workers_of(run)[0], signal.SIGTERM)
        self.one_more_than(run, "in force: 1 keys", 3)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.ask_often(connect)
        run.terminate()
        self.assertEqual(run.wait(), 0)
        self.assertFalse(path.exists())

    def test_tls(self) -> None:
        """A port with TLS has it in each worker."""
        identity = issue("localhost")
        key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self.gateway.folder / "server.pem"
        path.write_bytes(identity.pem + key)
        context = ssl.create_default_context(cadata=identity.pem.decode())
        context.check_hostname = False
        port = self.gateway.data_port
        self.start(DATA_LISTEN=f"ssl:{port}:interface=127.0.0.1:privateKey={path}")

        def connect() -> socket.socket:
            return context.wrap_socket(socket.create_connection(("127.0.0.1", port), SECONDS))

        self.ask_often(connect)
