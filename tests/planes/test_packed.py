"""Answers that come packed although nobody asked for it."""

import gzip
import zlib
from collections.abc import Callable

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.content_coding import SLICE_BYTES
from tests.planes.memory import SECRET, MemoryDataPlane, reply, request, upstream
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

GZIP = b"content-encoding: gzip\r\n"
PACKED_HEAD = STREAM_HEAD[:-2] + GZIP + b"\r\n"
LONG = ANSWER[:-1] + b',"x":"' + b"".join(b"%d " % n for n in range(40_000)) + b'"}'
WIDE = ANSWER[:-1] + b',"x":"' + b"y" * 2_000_000 + b'"}'
#: Its figures come last.
LAST = (
    b'{"choices":[],"x":"'
    + b"y" * 2_000_000
    + b'","usage":{"prompt_tokens":9,"completion_tokens":3}}'
)


def packings(body: bytes) -> list[tuple[bytes, bytes]]:
    """A body packed in every way that is unpacked, with its header line."""
    raw = zlib.compressobj(6, zlib.DEFLATED, -15)
    half = len(body) // 2
    return [
        (b"gzip", gzip.compress(body)),
        (b"x-gzip", gzip.compress(body[:half]) + gzip.compress(body[half:])),
        (b"deflate", zlib.compress(body)),
        (b"Deflate", raw.compress(body) + raw.flush()),
    ]


def packed(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A JSON answer in gzip."""
    return reply(gzip.compress(body), status, GZIP)


class PackedTests(SynchronousTestCase):
    def figures(self, plane: MemoryDataPlane) -> tuple[object, ...]:
        event = plane.events[-1]
        return (event.status, event.input_tokens, event.output_tokens, event.estimated)

    def test_answers(self) -> None:
        """Short or long, in any coding, an answer is passed on plain and billed as if it were."""
        for body in (ANSWER, LONG, WIDE):
            for name, data in packings(body):
                plane = MemoryDataPlane()
                client = plane.client()
                client.send(request(CHAT))
                plane.last.answer(reply(data, headers=b"content-encoding: %b\r\n" % name))
                plane.advance(2)
                answer = client.answer
                self.assertEqual((200, True), (answer.status, answer.whole), name)
                self.assertEqual(body, answer.body, name)
                self.assertNotIn(b"content-encoding", answer.headers)
                self.assertEqual((200, 9, 3, False), self.figures(plane), name)

    def test_the_connection_stays(self) -> None:
        """The connection carries the next request, packed or not; bytes left over end it."""
        plane = MemoryDataPlane()
        client = plane.client()
        for say in (packed(ANSWER), reply(ANSWER), packed(WIDE), packed(ANSWER), reply(ANSWER)):
            client.send(request(CHAT))
            plane.last.answer(say)
            plane.advance(2)
        self.assertEqual([200] * 5, [answer.status for answer in client.answers()])
        self.assertEqual(1, len(plane.opened))
        client.send(request(CHAT))
        plane.last.answer(packed(WIDE) + b"more")
        plane.advance(2)
        self.assertEqual(WIDE, client.answer.body)
        self.assertFalse(plane.last.open)

    def test_errors(self) -> None:
        """An error is judged and relayed as if it had come plain."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(packed(b'{"error":"no %b"}' % SECRET.encode(), b"400 Bad"))
        answer = client.answer
        self.assertEqual((400, "no [redacted]"), (answer.status, answer.json["error"]["message"]))
        client.send(request(CHAT))
        plane.last.answer(packed(ERROR, b"422 No"))
        self.assertEqual((422, ERROR), (client.answer.status, client.answer.body))
        for status in (b"429 Slow", b"503 Busy", b"401 Who"):
            client.send(request(CHAT))
            plane.busy[0].answer(packed(ERROR, status))
            plane.busy[0].answer(reply(ANSWER))
            self.assertEqual(200, client.answer.status)

    def test_event_by_event(self) -> None:
        """Each event of a packed stream goes out in the turn behind that in which it came."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        plane.last.answer(PACKED_HEAD)
        for number in range(20):
            event = delta(b"word%d" % number)
            piece = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
            plane.last.answer(chunk(piece))
            self.assertTrue(client.received().endswith(chunk(event)))
        plane.last.answer(chunk(packer.compress(CLOSING) + packer.flush()) + END)
        self.assertTrue(client.answer.whole)
        self.assertEqual((200, 9, 3, False), self.figures(plane))

    def test_cut_stream(self) -> None:
        """A packed stream that breaks, or whose sum is wrong, breaks for the client, too."""
        stream = delta(b"Hi") + CLOSING
        whole = gzip.compress(stream)
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        begun = packer.compress(delta(b"Hi")) + packer.flush(zlib.Z_SYNC_FLUSH)
        rest = packer.compress(CLOSING) + packer.flush()
        for end, outcome in (
            (chunk(rest[:-3]) + END, "truncated"),
            (chunk(rest[:-1] + b"\x55") + END, "bad_framing"),
            (chunk(rest + b"0123456789") + END, "bad_framing"),
        ):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT_STREAM))
            plane.last.answer(PACKED_HEAD + chunk(begun))
            plane.last.answer(end)
            self.assertFalse(client.answer.whole)
            self.assertNotIn(END, client.received())
            self.assertEqual(["u1"], plane.at)
            self.assertEqual([outcome], plane.outcomes)
            self.assertEqual(499, plane.events[-1].status)
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(PACKED_HEAD + chunk(whole[:-1]))
        plane.last.close(ConnectionLost)
        self.assertFalse(client.answer.whole)
        # What came before the break is billed by the provider's own figures.
        self.assertEqual((499, 9, 3, False), self.figures(plane))

    def test_damaged_before_anything_was_sent(self) -> None:
        """A short answer that cannot be unpacked whole leads to the next target."""
        good = gzip.compress(ANSWER)
        for body, name, outcome in (
            (good[:-1] + b"\x55", b"gzip", "bad_framing"),
            (good[:-1], b"gzip", "truncated"),
            (good[:30], b"gzip", "truncated"),
            (good + b"0123456789", b"gzip", "bad_framing"),
            (ANSWER, b"gzip", "bad_framing"),
            (ANSWER, b"deflate", "bad_framing"),
            (b"", b"gzip", "not_json"),
            (gzip.compress(b""), b"gzip", "not_json"),
            (gzip.compress(bytes(5_000_000)), b"gzip", "not_json"),
            (gzip.compress(ERROR), b"gzip", "error_envelope"),
            (good, b"br", "unknown_coding"),
            (good, b"zstd", "unknown_coding"),
            (gzip.compress(good), b"gzip, gzip", "unknown_coding"),
        ):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(reply(body, headers=b"content-encoding: %b\r\n" % name))
            self.assertEqual(["u1", "u2"], plane.at, outcome)
            plane.last.answer(packed(ANSWER))
            self.assertEqual((200, ANSWER), (client.answer.status, client.answer.body))
            self.assertEqual([outcome, "ok"], plane.outcomes)
            self.assertEqual((200, 9, 3, False), self.figures(plane))

    def test_no_body(self) -> None:
        """Nothing is waited for where there is no body to unpack."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(b"HTTP/1.1 204 None\r\n" + GZIP + b"\r\n")
        plane.last.answer(reply(ANSWER))
        self.assertEqual(["not_json", "ok"], plane.outcomes)
        self.assertEqual(200, client.answer.status)


class TurnTests(SynchronousTestCase):
    """What packs a thousand to one takes as many turns as it would have taken reads."""

    def test_turns(self) -> None:
        """One turn sends a slice; nothing is read from the upstream in the meantime."""
        plane = MemoryDataPlane()
        turns: list[Callable[[], None]] = []
        self.patch(plane.watchdog, "call_soon", turns.append)
        client = plane.client()
        client.send(request(CHAT))
        wire = plane.last.transport
        wire.peer_sends(packed(WIDE))
        count, before = 0, len(client.received())
        while turns:
            self.assertFalse(wire.reading)
            turns.pop()()
            self.assertLess(len(turns), 2)
            self.assertLess(len(client.received()) - before, 3 * SLICE_BYTES)
            before = len(client.received())
            count += 1
        self.assertEqual(1 + len(WIDE) // SLICE_BYTES, count)
        self.assertEqual(WIDE, client.answer.body)
        self.assertTrue(wire.reading)

    def test_many_at_once(self) -> None:
        """Of what comes together nothing is unpacked on the spot; each has its turn in order."""
        plane = MemoryDataPlane()
        turns: list[Callable[[], None]] = []
        self.patch(plane.watchdog, "call_soon", turns.append)
        clients = [plane.client() for _ in range(20)]
        for client in clients:
            client.send(request(CHAT))
        for connection in plane.opened:
            head, begun, rest = packed(WIDE).partition(b"\r\n\r\n")
            # The head alone, with the beginning of the body, and the rest.
            connection.transport.peer_sends(head + begun + rest[:20])
            connection.transport.peer_sends(rest[20:])
        self.assertEqual(20, len(turns))
        self.assertEqual(0, plane.plane.held.bytes)
        self.assertEqual({b""}, {client.received() for client in clients})
        while turns:
            turns.pop(0)()
            plane.turn()
            self.assertLessEqual(len(turns), 20)
        self.assertEqual({WIDE}, {client.answer.body for client in clients})

    def test_turn_is_asked_for_once(self) -> None:
        """However often a client stops and goes on before it comes."""
        plane = MemoryDataPlane()
        turns: list[Callable[[], None]] = []
        self.patch(plane.watchdog, "call_soon", turns.append)
        client = plane.client()
        client.send(request(CHAT))
        plane.last.transport.peer_sends(packed(WIDE))
        connection = plane.last.protocol
        while turns:
            for _ in range(3):
                connection.pause()
                connection.resume()
            self.assertEqual(1, len(turns))
            turns.pop()()
        self.assertEqual(WIDE, client.answer.body)

    def test_close_in_the_meantime(self) -> None:
        """A connection that ends while there is more to unpack ends after that."""
        until_close = reply(gzip.compress(WIDE), headers=GZIP).replace(b"content-length", b"x-len")
        for say, whole in ((packed(WIDE), True), (until_close, True), (until_close[:-4], False)):
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(request(CHAT))
            wire = plane.last.transport
            wire.peer_sends(say)
            # As behind TLS, whose close may be read although reading is paused.
            wire._end_soon(ConnectionDone())
            plane.advance(5)
            self.assertEqual(whole, client.answer.whole)
            self.assertEqual(1, len(plane.events))
            self.assertEqual(200 if whole else 499, plane.events[0].status)
            self.assertEqual(0, plane.in_flight)

    def test_slow_client(self) -> None:
        """A client that takes nothing holds the unpacking up, and goes on with it."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.stall(1000)
        client.send(request(CHAT))
        plane.last.answer(packed(WIDE))
        plane.advance(1)
        waiting = len(client.transport.dataBuffer)
        self.assertLess(waiting, 3 * SLICE_BYTES)
        plane.advance(1)
        self.assertEqual(waiting, len(client.transport.dataBuffer))
        while not plane.events:
            client.take(100_000)
            plane.advance(0.2)
        client.take()
        self.assertEqual(WIDE, client.answer.body)

    def test_stalled_and_leaving_clients(self) -> None:
        """One that leaves in the middle leaves the rest to be unpacked for its figures."""
        for leave in (True, False):
            plane = MemoryDataPlane(environ={"OMNIGATE_CLIENT_STALL_TIMEOUT_MS": "2000"})
            client = plane.client()
            client.stall(1000)
            client.send(request(CHAT))
            plane.last.answer(packed(LAST))
            plane.advance(0.5)
            if leave:
                client.leave()
            plane.advance(10)
            [event] = plane.events
            self.assertEqual(
                (499, 9, 3, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )
            self.assertEqual(0, plane.in_flight)
            self.assertTrue(plane.last.open)

    def test_canceled(self) -> None:
        """Where reading on is not wanted, nothing is unpacked after the client left."""
        plane = MemoryDataPlane(upstreams=[upstream("u1", abandon="cancel")])
        client = plane.client()
        client.send(request(CHAT))
        plane.last.transport.peer_sends(packed(WIDE))
        client.leave()
        plane.advance(1)
        self.assertEqual([499], [event.status for event in plane.events])
        self.assertFalse(plane.last.open)
        self.assertEqual(0, plane.in_flight)
