"""The parts of the soak that are pure: notes, answers, faults, the mix, and what is looked at."""

import json
import random
import zlib
from collections import Counter

from twisted.trial.unittest import SynchronousTestCase

from bench.answers import WrongAnswerError
from bench.soak import faults, mix, replies, scene
from bench.soak.note import Note, OddNoteError, read_note
from bench.soak.reader import Answer
from bench.soak.run import parse
from bench.soak.watch import read_metrics, slope, socket_table
from omnigate.config.schema import load_config
from omnigate.testing.provider_plan import Hang, Reset, Send

KINDS = tuple(replies.PATHS)
STREAMED = ("chat", "completions", "responses", "messages")


class NoteTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """A note is read out of every kind of body, also where the gateway changed the front."""
        note = Note(1234, 500, 7, 20, True)
        for kind in KINDS:
            for stream in (False, kind in STREAMED):
                body = mix.body_of(kind, "soak-first", stream, note, 3000)
                json.loads(body)
                self.assertEqual(read_note(body), note)
                changed = b'{"stream_options":{},' + body[1:].replace(b"soak-first", b"other", 1)
                self.assertEqual(read_note(changed), note)

    def test_changed_text(self) -> None:
        """A byte that is changed, lost or added behind the note is noticed."""
        body = mix.body_of("chat", "soak-first", False, Note(1), 200)
        for odd in (body[:-9] + b"x" + body[-8:], body[:-9] + body[-8:], body + b" ", b"{}"):
            self.assertRaises(OddNoteError, read_note, odd)


class ReplyTests(SynchronousTestCase):
    def test_figures_lead_back(self) -> None:
        """The figures of no two attempts have the same input, and it names the attempt."""
        for kind in KINDS:
            for serial in (1, 2, 96, 97, 5000):
                figures = replies.figures_of(serial, kind)
                self.assertEqual(replies.serial_of(figures.input), serial)

    def test_whole(self) -> None:
        """Each is a JSON object, with usage where it is to be."""
        for kind in KINDS:
            for usage in (True, False):
                reply = replies.whole(kind, "m", 7, 300, usage)
                self.assertEqual(
                    "usage" in json.loads(reply.pieces[0]), usage and kind in KINDS[:5]
                )

    def test_streamed(self) -> None:
        """Each event is one, and the closing figures stand where the reply says."""
        for kind in STREAMED:
            reply = replies.streamed(kind, "m", 7, 5)
            for piece in reply.pieces:
                self.assertTrue(piece.endswith(b"\n\n") and piece.count(b"\n\n") == 1)
            said = reply.pieces[reply.usage_at]
            self.assertIn(b"%d" % replies.figures_of(7, kind).output, said)
            bare = replies.streamed(kind, "m", 7, 5, with_usage=False)
            self.assertEqual((bare.usage_at, bare.hidden_at), (-1, -1))


class FaultTests(SynchronousTestCase):
    def play(self, fault: str, kind: str, stream: bool, gap_ms: int) -> faults.Script:
        note = Note(5, 400, 6, gap_ms)
        return faults.script(fault, random.Random(1), kind, stream, "m", 9, note)

    def test_all(self) -> None:
        """Every fault of every kind has a script, whose account of itself adds up."""
        for kind in KINDS:
            for stream in {False, kind in STREAMED}:
                for fault in faults.STREAM if stream else faults.WHOLE:
                    for gap_ms in (0, 5):
                        self.check(self.play(fault, kind, stream, gap_ms))

    def check(self, script: faults.Script) -> None:
        self.assertEqual(len(script.steps), len(script.handed), script.fault)
        self.assertEqual(sorted(script.handed), list(script.handed))
        reply = script.reply
        if reply is None:
            self.assertEqual(script.says, "no")
            return
        self.assertLessEqual(script.handed[-1], len(reply.pieces))
        if script.says != "no":
            self.assertGreater(script.handed[-1], reply.usage_at, script.fault)
        if script.fault == "none":
            sent = b"".join(step.data for step in script.steps if isinstance(step, Send))
            answer = Answer()
            answer.feed(sent)
            self.assertTrue(answer.whole)
            self.assertEqual(answer.crc(), reply.crc(False))

    def test_ends(self) -> None:
        """Those that are to go silent or to break do so at their end."""
        self.assertIsInstance(self.play("silent-stream", "chat", True, 5).steps[-1], Hang)
        self.assertIsInstance(self.play("reset-body", "chat", False, 0).steps[-1], Reset)

    def test_drawn_by_seed(self) -> None:
        """The same seed draws the same faults, and in time all of them."""
        drawn = [
            [faults.draw_fault(random.Random(f"x/{n}"), "chat", True) for n in range(5000)]
            for _ in range(2)
        ]
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(set(drawn[0]), set(faults.STREAM))


class MixTests(SynchronousTestCase):
    def test_drawn(self) -> None:
        """Everything is asked in time; what is ordinary is what it says it is."""
        rng = random.Random(1)
        kinds: Counter[str] = Counter()
        manners: Counter[str] = Counter()
        for mark in range(1000, 9000):
            request = mix.draw(rng, mark)
            kinds[request.kind] += 1
            manners[request.manner] += 1
            if request.kind in mix.ORDINARY:
                tree = json.loads(request.body)
                self.assertEqual(tree["model"], request.model)
                self.assertEqual(tree.get("stream", False), request.stream)
                self.assertIn(b"content-length: %d\r\n" % len(request.body), request.head)
        self.assertEqual((set(kinds), set(manners)), (set(mix.ASKED), set(mix.MANNERS)))

    def test_cached_requests_repeat(self) -> None:
        """Requests to the cached route are the same to the byte where their marks are."""
        rng = random.Random(2)
        bodies: dict[int, bytes] = {}
        for mark in range(1000, 4000):
            request = mix.draw(rng, mark)
            if request.kind == "cached":
                self.assertEqual(bodies.setdefault(request.mark, request.body), request.body)
        self.assertGreater(len(bodies), 20)


class SceneTests(SynchronousTestCase):
    def test_config_is_good(self) -> None:
        """The control plane takes it; every model that clients ask for has a route."""
        ports = {upstream.name: 20_000 for upstream in scene.UPSTREAMS}
        config = load_config(scene.config_text(ports))
        models = {route.model for route in config.routes}
        asked = {*sum(scene.MODELS.values(), ()), *scene.CACHED_MODELS.values()}
        self.assertEqual(asked - models, set())
        self.assertEqual({key.name for key in config.keys}, set(scene.KEYS))
        for _, _, _, targets in scene.ROUTES:
            self.assertEqual(1, len({scene.BY_NAME[name].protocol for name in targets}))

    def test_cost(self) -> None:
        """Rounded half up, once."""
        self.assertEqual(scene.cost_nano("alpha", (1, 0, 0, 0)), 150)  # 150.3
        self.assertEqual(scene.cost_nano("alpha", (5, 0, 0, 0)), 752)  # 751.5
        self.assertEqual(scene.cost_nano("alpha", (1, 1, 1, 1)), 1037)  # 1037.2
        self.assertEqual(scene.cost_nano(None, (1, 1, 1, 1)), 0)


class ReaderTests(SynchronousTestCase):
    def test_chunked_with_heartbeats(self) -> None:
        """Comments and pings are nobody's content, wherever the chunks are cut."""
        content = b"event: x\ndata: {}\n\n"
        body = content + b": keep-alive\n\n" + b'event: ping\ndata: {"type": "ping"}\n\n' + content
        for size in (1, 7, 1000):
            answer = Answer()
            answer.feed(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
            )
            for at in range(0, len(body), size):
                answer.feed(b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size]))
            self.assertFalse(answer.whole)
            answer.feed(b"0\r\n\r\n")
            self.assertTrue(answer.whole and answer.keeps)
            self.assertEqual(answer.content(), content * 2)
            self.assertEqual(answer.crc(), zlib.crc32(content * 2))

    def test_error(self) -> None:
        """The code of an error; none of what is no error."""
        body = b'{"error":{"code":"invalid_json"}}'
        answer = Answer()
        answer.feed(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer.feed(b"HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-length: 33\r\n\r\n" + body)
        self.assertEqual((answer.status, answer.code(), answer.keeps), (400, "invalid_json", False))
        answer = Answer()
        answer.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")
        self.assertEqual(answer.code(), "")

    def test_wrong(self) -> None:
        """What is no answer, or more than one, is told."""
        for data in (
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        ):
            self.assertRaises(WrongAnswerError, Answer().feed, data)


class WatchTests(SynchronousTestCase):
    def test_sockets(self) -> None:
        """Inode, remote port and state, as the kernel writes them."""
        text = (
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
            "  timeout inode\n"
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000"
            "        0 111 1 0000\n"
            "   1: 0100007F:1F90 0203017F:C001 08 00000000:00000000 00:00000000 00000000  1000"
            "        0 222 1 0000\n"
        )
        self.assertEqual(
            socket_table(text), {"111": (0, "listening"), "222": (49153, "close_wait")}
        )

    def test_slope(self) -> None:
        """Of a line, of noise around none, of nothing."""
        self.assertAlmostEqual(slope([(0.0, 5.0), (10.0, 25.0), (20.0, 45.0)]), 2.0)
        self.assertAlmostEqual(slope([(0.0, 1.0), (1.0, 2.0), (2.0, 2.0), (3.0, 1.0)]), 0.0)
        self.assertEqual((slope([]), slope([(1.0, 1.0)])), (0.0, 0.0))

    def test_metrics(self) -> None:
        """Names, labels and values of a scrape."""
        text = '# HELP a b\nomnigate_a 3.0\nomnigate_b{reason="x"} 1e+06\n'
        self.assertEqual(
            read_metrics(text), {"omnigate_a": 3.0, 'omnigate_b{reason="x"}': 1_000_000.0}
        )


class OptionTests(SynchronousTestCase):
    def test_parse(self) -> None:
        """Bounds, defaults, and a seed of its own for each run."""
        options = parse([])
        self.assertEqual((options.minutes, options.clients), (15.0, 300))
        self.assertNotEqual(options.seed, parse([]).seed)
        self.assertEqual(parse(["--minutes", "2", "--seed", "x"]).seed, "x")
        for words in (["--minutes", "0"], ["--clients", "0"], ["--clients", "100000"]):
            self.patch(__import__("sys"), "stderr", __import__("io").StringIO())
            self.assertEqual(self.assertRaises(SystemExit, parse, words).code, 2)
