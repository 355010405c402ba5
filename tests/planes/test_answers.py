"""Answers that are no event streams: short ones whole, long ones as they come."""

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import MemoryDataPlane, get, reply, request
from tests.planes.scenes import ANSWER, CHAT, ERROR, two_targets


class RedirectTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()
        self.client = self.plane.client()
        self.client.send(request(CHAT))

    def test_returned_and_not_followed(self) -> None:
        """A redirect is the answer: as it came, not followed, and without its address."""
        self.plane.last.answer(
            reply(b"moved", b"307 Temporary Redirect", b"location: http://elsewhere.test/\r\n")
        )
        answer = self.client.answer
        self.assertEqual((307, b"moved"), (answer.status, answer.body))
        self.assertNotIn(b"location", answer.headers)
        self.assertEqual(1, len(self.plane.opened))
        self.assertEqual(307, self.plane.events[0].status)

    def test_not_modified(self) -> None:
        """An answer that can have no body gets none, or the client would lose its place."""
        self.plane.last.answer(b"HTTP/1.1 304 Not Modified\r\n\r\n")
        self.client.send(get(b"/v1/models"))
        self.assertEqual([304, 200], [answer.status for answer in self.client.answers()])


class SilenceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = two_targets({"OMNIGATE_STREAM_IDLE_TIMEOUT_MS": "10000"})
        self.client = self.plane.client()
        self.client.send(request(CHAT))

    def test_silent(self) -> None:
        """A short answer that stands still is given up on, and the next target asked."""
        self.plane.last.answer(reply(ANSWER)[:-10])
        self.plane.advance(9.5)
        self.assertEqual(["u1"], self.plane.at)
        self.plane.advance(1)
        self.assertEqual(["u1", "u2"], self.plane.at)
        self.assertFalse(self.plane.opened[0].open)
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual(["stream_idle_timeout", "ok"], self.plane.outcomes)

    def test_slow(self) -> None:
        """One that comes drop by drop is waited for."""
        answer = reply(b"    " + ANSWER)
        self.plane.last.answer(answer[: -len(ANSWER) - 4])
        for byte in b"    ":
            self.plane.advance(9)
            self.plane.last.answer(bytes([byte]))
        self.plane.advance(9)
        self.plane.last.answer(ANSWER)
        self.assertEqual(200, self.client.answer.status)


class ByteOrderMarkTests(SynchronousTestCase):
    def test_long_and_short(self) -> None:
        """An answer behind a byte order mark is passed on and billed, however long it is."""
        for size in (10, 80_000):
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(request(CHAT))
            body = b"\xef\xbb\xbf" + ANSWER.replace(b"Hello", b"y" * size)
            plane.last.answer(reply(body))
            self.assertEqual((200, body), (client.answer.status, client.answer.body))
            [event] = plane.events
            self.assertEqual((9, 3), (event.input_tokens, event.output_tokens), size)
            self.assertFalse(event.estimated)


class OrderTests(SynchronousTestCase):
    def test_event_before_the_answer(self) -> None:
        """Nobody holds an answer whose usage is not yet in the spool."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        seen: list[bytes] = []

        def append(line: bytes) -> bool:
            seen.append(client.received())
            return True

        plane.plane.books._append = append
        plane.last.answer(reply(ANSWER))
        self.assertEqual([b""], seen)
        self.assertEqual(200, client.answer.status)


class RetryHintTests(SynchronousTestCase):
    def test_long_wait(self) -> None:
        """A wait that no call should sleep through is passed on with the advice not to retry."""
        for asked, advice in (
            (b"120", None),
            (b"121", b"false"),
            (b"Fri, 01 Jan 2100 00:00:00 GMT", b"false"),
            (b"soon", None),
        ):
            plane = MemoryDataPlane()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(reply(ERROR, b"409 Conflict", b"retry-after: %b\r\n" % asked))
            self.assertEqual(asked, client.answer.headers[b"retry-after"])
            self.assertEqual(advice, client.answer.headers.get(b"x-should-retry"), asked)

    def test_advice_of_its_own(self) -> None:
        """A provider's own advice stands."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        hints = b"retry-after: 500\r\nx-should-retry: true\r\n"
        plane.last.answer(reply(ERROR, b"409 Conflict", hints))
        self.assertEqual(b"true", client.answer.headers[b"x-should-retry"])


class EarlyAnswerTests(SynchronousTestCase):
    def test_connection_with_a_request_under_way_is_not_kept(self) -> None:
        """An answer that comes before the whole request went leaves nothing to queue behind."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(ANSWER))
        plane.last.transport.window = 1000
        client.send(request(CHAT[:-1] + b',"user":"' + b"x" * 200_000 + b'"}'))
        plane.last.answer(reply(ANSWER))
        client.send(request(CHAT))
        self.assertEqual(2, len(plane.opened))
        plane.last.answer(reply(ANSWER))
        self.assertEqual([200, 200, 200], [answer.status for answer in client.answers()])
