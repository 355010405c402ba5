"""What an answer that is read on for a client that left is worth, and when its reading ends."""

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.abandoned import END_SECONDS
from tests.planes.memory import MemoryDataPlane, reply, request
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    FINISH,
    STREAM_HEAD,
    USAGE,
    chunk,
    delta,
    two_targets,
)

#: What turns out to be no answer: the outcome, the request, and what the upstream says.
NO_ANSWERS = (
    ("not_json", CHAT, reply(b"<html>sign in</html>")),
    ("not_json", CHAT, reply(b"")),
    ("error_envelope", CHAT, reply(ERROR)),
    ("unknown_coding", CHAT, reply(ANSWER, headers=b"content-encoding: zstd\r\n")),
    ("empty_stream", CHAT_STREAM, STREAM_HEAD + chunk(b": one\n\n") + END),
    (
        "error_event",
        CHAT_STREAM,
        STREAM_HEAD + chunk(b'data: {"error":{"message":"no"}}\n\n') + END,
    ),
)


class WorthTests(SynchronousTestCase):
    def test_no_answer(self) -> None:
        """What would not have been billed to a client that stayed is not to one that left."""
        for outcome, body, answer in NO_ANSWERS:
            for size in (0, 30, answer.index(b"\r\n\r\n") + 4, len(answer) - 1):
                plane = two_targets()
                client = plane.client()
                client.send(request(body))
                if size:
                    plane.last.answer(answer[:size])
                left = not client.received() and plane.at == ["u1"]
                client.leave()
                if not left:
                    continue
                plane.last.answer(answer[size:])
                [event] = plane.events
                self.assertEqual([outcome], plane.outcomes, (outcome, size))
                self.assertEqual(
                    (499, 0, 0, False),
                    (event.status, event.input_tokens, event.output_tokens, event.estimated),
                    (outcome, size),
                )
                self.assertEqual(["u1"], plane.at)

    def test_failures_count_against_the_target(self) -> None:
        """An upstream that breaks off or answers nothing has failed, whether anybody waits."""
        for answer, fails in (
            (reply(ANSWER)[:-5], True),
            (b"garbage\r\n\r\n", True),
            (reply(b"<html>"), True),
            (reply(ANSWER), False),
            (reply(ERROR, b"400 Bad"), False),
            (reply(ERROR, b"401 Who"), False),
        ):
            plane = two_targets()
            for _ in range(3):
                client = plane.client()
                client.send(request(CHAT))
                client.leave()
                for connection in plane.busy:
                    connection.answer(answer)
                for connection in plane.busy:
                    connection.close(ConnectionLost)
            plane.client().send(request(CHAT))
            self.assertEqual("u2" if fails else "u1", plane.busy[0].upstream, answer)

    def test_success_counts_for_the_target(self) -> None:
        """A whole answer forgets failures, whether anybody waits for it."""
        plane = two_targets()
        for answer in (b"500 No", b"500 No", b"200 OK", b"500 No"):
            client = plane.client()
            client.send(request(CHAT))
            client.leave()
            plane.busy[0].answer(reply(ANSWER, answer))
        plane.client().send(request(CHAT))
        self.assertEqual("u1", plane.busy[0].upstream)

    def test_our_own_endings_are_no_failures(self) -> None:
        """That we read no longer says nothing about the upstream."""
        plane = two_targets({"OMNIGATE_ABORT_DRAIN_MS": "1000"})
        for _ in range(3):
            client = plane.client()
            client.send(request(CHAT_STREAM))
            client.leave()
            plane.advance(1.5)
            self.assertEqual(["timeout"], plane.outcomes)
        plane.client().send(request(CHAT))
        self.assertEqual("u1", plane.busy[0].upstream)

    def test_what_was_collected(self) -> None:
        """Of a short answer that is not read on, what came of it counts."""
        for environ in ({"OMNIGATE_ABORT_DRAIN_MS": "0"}, {"OMNIGATE_ABORT_DRAIN_MAX_MB": "0"}):
            plane = MemoryDataPlane(environ=environ)
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(reply(ANSWER)[:-10])
            client.leave()
            if not plane.events:
                plane.last.answer(b" ")
            [event] = plane.events
            wanted = len(ANSWER) - 10 + (b"MAX" in str(environ).encode())
            self.assertEqual((wanted // 4, True), (event.output_tokens, event.estimated))

    def test_last_event_without_its_blank_line(self) -> None:
        """The figures of a last event count, also if the stream ends right behind them."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi") + FINISH))
        client.leave()
        plane.last.answer(chunk(USAGE[:-1]) + END)
        [event] = plane.events
        self.assertEqual((9, 3, False), (event.input_tokens, event.output_tokens, event.estimated))

    def test_unfinished(self) -> None:
        """Running totals of an answer that was never called finished are an estimate here, too."""
        said = b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":7}}\n\n'
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(STREAM_HEAD + chunk(said))
        client.leave()
        plane.last.answer(END)
        [event] = plane.events
        self.assertEqual((7, True), (event.output_tokens, event.estimated))

    def test_latency(self) -> None:
        """The time told is from the begin of the walk to the end of the reading."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.advance(1)
        plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi")))
        client.leave()
        plane.advance(2)
        plane.last.answer(chunk(CLOSING) + END)
        [event] = plane.events
        self.assertAlmostEqual(3000, event.latency_ms, delta=2)
        self.assertAlmostEqual(plane.wall() * 1000, event.ts_ms, delta=2)


class EndTests(SynchronousTestCase):
    def begin(self, *events: bytes) -> MemoryDataPlane:
        """A stream that said this before its client left."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(STREAM_HEAD + chunk(b"".join((delta(b"Hi"), *events))))
        client.leave()
        self.assertEqual(1, len(plane.plane.abandoned))
        return plane

    def test_all_is_there(self) -> None:
        """With the closing figures of a finished stream there its end is not waited for long."""
        for before, after in ((CLOSING, b""), (b"", CLOSING), (FINISH, USAGE), (USAGE, FINISH)):
            plane = self.begin(before)
            if after:
                plane.last.answer(chunk(after))
            plane.advance(END_SECONDS - 0.5)
            self.assertEqual([], plane.events)
            # What still comes changes nothing of it.
            plane.last.answer(chunk(b": late\n\n"))
            plane.advance(0.8)
            [event] = plane.events
            self.assertEqual(
                (499, 9, 3, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )
            self.assertEqual(["ok"], plane.outcomes)
            self.assertFalse(plane.last.open)
            self.assertEqual((0, 0), (plane.in_flight, len(plane.plane.abandoned)))

    def test_kept_connection(self) -> None:
        """If the end does come, the connection is used again."""
        plane = self.begin(CLOSING)
        plane.advance(1)
        plane.last.answer(END)
        self.assertEqual(1, len(plane.events))
        self.assertTrue(plane.last.protocol.usable)

    def test_not_all_is_there(self) -> None:
        """Figures alone, or the word that it is finished alone, are no end."""
        for event in (USAGE, FINISH, delta(b"Ho")):
            plane = self.begin(event)
            plane.advance(END_SECONDS * 10)
            self.assertEqual([], plane.events)
