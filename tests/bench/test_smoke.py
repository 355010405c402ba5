"""The benchmark for real: a short load through a real gateway, and servers that answer wrongly."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from bench import load
from bench.answers import ExactPayload
from bench.load import Load, LoadResult

ROOT = Path(__file__).resolve().parents[2]

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


def listen() -> socket.socket:
    """Return a listening socket on loopback, or skip the test where there is none."""
    if not sys.platform.startswith("linux"):
        raise SkipTest("the benchmark needs Linux")
    try:
        return socket.create_server(("127.0.0.1", 0))
    except OSError as error:
        raise SkipTest(f"loopback cannot be bound here: {error}") from None


class LoadTests(SynchronousTestCase):
    def run_load(self, serve: Callable[[socket.socket], None], connections: int = 2) -> LoadResult:
        """Send a load of two requests a connection to a server, and return what came of it."""
        server = listen()
        self.addCleanup(server.close)

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        self.patch(load, "LAST_ANSWERS_SECONDS", 0.2)
        result = load.run(
            Load(
                port=server.getsockname()[1],
                connections=connections,
                request=b"POST / HTTP/1.1\r\n\r\n" + b"x" * 300_000,
                payload=lambda: ExactPayload(b"hello"),
                seconds=0.3,
                each=2,
            )
        )
        server.shutdown(socket.SHUT_RDWR)
        return result

    def answering(self, answer: bytes) -> Callable[[socket.socket], None]:
        """A server that answers each request with some bytes, and closes after too few of them."""

        def serve(connection: socket.socket) -> None:
            with connection:
                left = 0
                while data := connection.recv(65536):
                    left += len(data)
                    if left % 300_019 == 0:
                        connection.sendall(answer)
                        if answer != HELLO:
                            return

        return serve

    def test_right_answers(self) -> None:
        """Every connection asks as often as it may, and every latency is taken."""
        result = self.run_load(self.answering(HELLO), connections=3)
        self.assertEqual((result.answered, result.broken), (6, 0))
        self.assertEqual(len(result.latencies_ns), 6)

    def test_wrong_answers(self) -> None:
        """A wrong, a short and a refused answer are each counted and told."""
        for answer, words in (
            (HELLO.replace(b"hello", b"hallo"), "differs from byte 1"),
            (HELLO[:-1], "closed after"),
            (HELLO.replace(b"200 OK", b"500 Oh"), "no 200"),
            (HELLO + HELLO, "more comes behind"),
            (b"", "closed after 0 bytes"),
        ):
            result = self.run_load(self.answering(answer))
            self.assertEqual((result.answered, result.broken), (0, 4), words)
            self.assertIn(words, result.reasons[0])

    def test_no_answer(self) -> None:
        """A server that is silent does not hold the load up, and nothing of it is missed."""
        began = time.monotonic()
        result = self.run_load(lambda connection: time.sleep(60))
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual((result.answered, result.broken), (0, 2))
        self.assertIn("no answer came", result.reasons[0])


class SmokeTests(SynchronousTestCase):
    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start the benchmark as a user does; it is ended with the test."""
        listen().close()
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        program = subprocess.Popen(
            [sys.executable, "-m", "bench", *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(program.wait)
        self.addCleanup(program.terminate)
        return program

    def test_one_scenario(self) -> None:
        """A second of chat through a real gateway: right answers, right usage, and figures."""
        figures = Path("figures.json").absolute()
        words = ["--scenarios=chat32", "--rounds=1", "--seconds=0.5", "--no-nginx"]
        out, err = self.start(*words, f"--json={figures}").communicate(timeout=90)
        self.assertEqual(err, "")
        self.assertIn("chat, 1 KB, 32 connections", out)
        gateway = json.loads(figures.read_text())["scenarios"]["chat32"]["subjects"]["omnigate"]
        self.assertEqual(gateway["broken"], 0)
        self.assertGreater(gateway["rounds"][0]["units"], 32)
        self.assertGreater(gateway["cpu_us"], 1)
        self.assertGreater(gateway["rss_peak_mb"], 10)

    def test_other_protocols(self) -> None:
        """Translated and over TLS: right answers and right usage in both, by two workers."""
        figures = Path("figures.json").absolute()
        words = ["--scenarios=xlate32,xstream32,tls32", "--rounds=1", "--seconds=0.3"]
        program = self.start(*words, "--no-nginx", "--workers=2", f"--json={figures}")
        out, err = program.communicate(timeout=120)
        self.assertEqual(err, "")
        self.assertIn("TLS on both sides", out)
        scenarios = json.loads(figures.read_text())["scenarios"]
        for name in ("xlate32", "xstream32", "tls32"):
            gateway = scenarios[name]["subjects"]["omnigate"]
            self.assertEqual(gateway["broken"], 0)
            self.assertGreater(gateway["cpu_us"], 1)

    def test_interrupted(self) -> None:
        """Ctrl-C ends it at once, with everything it had started, and its folder."""
        program = self.start("--scenarios=chat1", "--seconds=30", "--no-nginx", "--no-control")
        end = time.monotonic() + 60
        while len(children := _children(program.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.5)  # into the load
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 130, err)
        self.assertIn("interrupted", err)
        self.assertEqual(len(children), 2)
        self.assertEqual([pid for pid in children if Path(f"/proc/{pid}").exists()], [])
        self.assertEqual(list(self.folder.iterdir()), [])


def _children(pid: int) -> set[int]:
    """Return the processes that one has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return {int(word) for word in text.split()}
