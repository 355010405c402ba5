"""The benchmark of the ledger: what it sends, how it judges, and all of it once in small."""

import contextlib
import io
import json
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from bench.ledger import events
from bench.ledger.events import COST_NANO, Crowd
from bench.ledger.figures import Figure, document, table
from bench.ledger.run import parse
from bench.ledger.senders import Connection, WrongAcknowledgementError, send
from bench.ledger.turns import TimedPoll, Turns
from omnigate.config.schema import load_config
from omnigate.events import UsageEvent, decode_event
from omnigate.ledger.lines import decode_line

ROOT = Path(__file__).resolve().parents[2]


class EventsTests(SynchronousTestCase):
    def test_batches(self) -> None:
        """Every event is good and new, each batch is full but the last, every key has some."""
        requests = events.batches(Crowd(keys=7), 3, 1_203, "token")
        found: list[UsageEvent] = []
        sizes = []
        for request in requests:
            head, _, body = request.partition(b"\r\n\r\n")
            self.assertIn(b"\r\ncontent-length: %d" % len(body), head)
            raw = msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])["events"]
            sizes.append(len(raw))
            found += [decode_event(bytes(one)) for one in raw]
        self.assertEqual(sizes, [500, 500, 203])
        self.assertEqual(len({event.id for event in found}), 1_203)
        self.assertEqual(found[0].id, f"{3:032x}")
        self.assertEqual({event.key_sha256 for event in found}, set(Crowd(keys=7).hashes()))

    def test_ledger(self) -> None:
        """A ledger that is written is one: its lines in order of time, over all the days."""
        folder = Path(self.mktemp())
        folder.mkdir()
        self.patch(events, "SEGMENT_BYTES", 180_000)
        self.patch(events, "_CHUNK_LINES", 50)
        noon_ms = 1_795_953_600_000
        size = events.write_ledger(folder / "ledger.jsonl", Crowd(keys=5, days=4), 1_000, noon_ms)
        names = ["ledger.000001.jsonl", "ledger.000002.jsonl", "ledger.000003.jsonl"]
        self.assertEqual(sorted(path.name for path in folder.iterdir()), [*names, "ledger.jsonl"])
        data = b"".join((folder / name).read_bytes() for name in [*names, "ledger.jsonl"])
        self.assertEqual(size, len(data))
        read = [decode_line(line) for line in data.splitlines()]
        self.assertEqual(len(read), 1_000)
        self.assertEqual({cost for _, cost in read}, {COST_NANO})
        times = [event.received_at for event, _ in read]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len({at[:10] for at in times}), 4)
        self.assertGreater(size / 1_000, 550)

    def test_config(self) -> None:
        """The config is good, and every target of an event has a price."""
        config = load_config(events.config_text(20, budgets=True))
        self.assertEqual([key.key_sha256 for key in config.keys], Crowd(keys=20).hashes())
        self.assertTrue(all(key.budget_nano for key in config.keys))
        self.assertTrue(all(target.price for one in config.routes for target in one.targets))


class TurnsTests(SynchronousTestCase):
    def test_longest(self) -> None:
        """A turn that computes and one that sleeps are each seen, and forgotten on demand."""
        turns = Turns(Path(self.mktemp()).absolute())
        try:
            poll = TimedPoll(select.epoll(), turns)
        except (AttributeError, OSError) as error:
            raise SkipTest(f"there is no epoll here: {error}") from None
        try:
            poll.poll(0)
        except OSError as error:
            raise SkipTest(f"there are no scheduler statistics here: {error}") from None
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            pass
        poll.poll(0)
        time.sleep(0.05)
        poll.poll(0)
        longest = turns.longest()
        self.assertGreaterEqual(longest.cpu, 30)
        self.assertGreaterEqual(longest.held, 49)
        self.assertGreaterEqual(longest.wall, longest.held)
        self.assertEqual((longest.turns, longest.long), (2, 2))
        turns.forget()
        self.assertEqual(turns.longest().held, 0)
        poll.close()


class SendersTests(SynchronousTestCase):
    def served(self, answer: bytes) -> int:
        """A port where each read gets this answer, in two pieces."""
        try:
            server = socket.create_server(("127.0.0.1", 0))
        except OSError as error:
            raise SkipTest(f"loopback cannot be bound here: {error}") from None
        self.addCleanup(server.close)

        def serve(connection: socket.socket) -> None:
            with connection:
                while connection.recv(65536):
                    connection.sendall(answer[:20])
                    time.sleep(0.002)
                    connection.sendall(answer[20:])

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        port: int = server.getsockname()[1]
        return port

    def answer(self, status: str, body: bytes) -> bytes:
        return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)

    def test_send(self) -> None:
        """All batches are sent, and what the answers say is added up."""
        port = self.served(self.answer("200 OK", b'{"recorded":3,"duplicates":1,"invalid":0}'))
        sent = send(port, [b"x"] * 10)
        self.assertEqual((sent.recorded, sent.duplicates, len(sent.latencies)), (30, 10, 10))
        self.assertGreater(min(sent.latencies), 0.001)

    def test_refused(self) -> None:
        """A batch that is refused ends the load with what was said."""
        port = self.served(self.answer("503 No", b"disk full"))
        error = self.assertRaises(WrongAcknowledgementError, send, port, [b"x"] * 10)
        self.assertIn("503: b'disk full'", str(error))

    def test_exchange(self) -> None:
        """An answer without a body is one, too."""
        connection = Connection(self.served(b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'))
        self.addCleanup(connection.close)
        for _ in range(2):
            status, head, body = connection.exchange(b"GET")
            self.assertEqual((status, body), (304, b""))
            self.assertIn(b'etag: "a"', head)


class FiguresTests(SynchronousTestCase):
    def test_table(self) -> None:
        """Each figure with its bar; what misses it is marked, at most and at least."""
        figures = [
            Figure("a", "fast", 19_000, "/s", 20_000, least=True, quiet=True),
            Figure("a", "slow", 21.04, "ms", 20.0),
            Figure("b", "fine", 0.5, "s", 0.75),
            Figure("b", "plain", 300, "MB"),
        ]
        lines = table(figures).splitlines()[1:]
        self.assertEqual(
            [line.split() for line in lines],
            [
                ["a", "fast", "19,000", "/s", "≥", "20,000", "MISSED", "(quiet)"],
                ["slow", "21.0", "ms", "≤", "20.0", "MISSED"],
                ["b", "fine", "0.50", "s", "≤", "0.75"],
                ["plain", "300", "MB"],
            ],
        )
        self.assertEqual([one["over"] for one in document(figures)], [True, True, False, False])


class ParseTests(SynchronousTestCase):
    def test_faults(self) -> None:
        """What cannot be is refused with status 2, and the words say what can."""
        for words, said in (
            ("--parts nothing", "there are ingest, start, memory, wide"),
            ("--parts ,", "no part given"),
            ("--events 0", "--events must be 1 to"),
            ("--ids 5,5", "--ids must grow"),
            ("--ids many", "takes numbers"),
            ("--rounds 99", "--rounds must be 1 to 20"),
        ):
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                ended = self.assertRaises(SystemExit, parse, words.split())
            self.assertEqual(ended.code, 2)
            self.assertIn(said, err.getvalue())


class SmokeTests(SynchronousTestCase):
    def test_in_small(self) -> None:
        """Every part runs with real processes and gives figures; nothing is left behind."""
        if not sys.platform.startswith("linux"):
            raise SkipTest("the benchmark reads /proc, which needs Linux")
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        figures = Path("ledger.json").absolute()
        words = ["--events=3000", "--load=1500", "--unsaved=1000", "--ids=2000", "--rounds=1"]
        words += [f"--folder={folder}", f"--json={figures}"]
        run = subprocess.run(
            [sys.executable, "-m", "bench", "ledger", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(list(folder.iterdir()), [])
        read = {(one["part"], one["name"]): one["value"] for one in json.loads(figures.read_text())}
        for name in (
            ("ingest", "events a second"),
            ("ingest", "reactor held, at most"),
            ("start", "empty: to READY, beyond that"),
            ("start", "3,000 events, no snapshot: to READY, beyond that"),
            ("memory", "before"),
            ("snapshot", "a batch waited, at most"),
            ("polls", "events were recorded"),
        ):
            self.assertGreater(read[name], 0, name)
