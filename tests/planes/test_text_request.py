"""A text request on its way through the data plane, played as bytes on both sides."""

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import (
    SECRET,
    MemoryDataPlane,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import ANSWER, CHAT, DONE, FINISH, STREAM_HEAD, USAGE, chunk, delta


class WholeAnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()

    def test_answer_and_event(self) -> None:
        """A short answer comes back whole, and its usage becomes one event."""
        client = self.plane.client()
        client.send(request(CHAT))
        sent = self.plane.last.requests()
        self.assertTrue(sent.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n"))
        self.assertIn(b"authorization: Bearer " + SECRET.encode(), sent)
        self.assertTrue(sent.endswith(CHAT.replace(b"small", b"vendor-1")))
        self.plane.last.answer(reply(ANSWER))
        got = client.received()
        self.assertTrue(got.startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertTrue(got.endswith(ANSWER))
        [event] = self.plane.events
        self.assertEqual((9, 3), (event.input_tokens, event.output_tokens))
        self.assertEqual("ok", event.attempts[0].outcome)
        self.assertEqual(0, self.plane.plane.admission.in_flight)

    def test_connection_is_kept_on_both_sides(self) -> None:
        """A second request uses the client's and the upstream's connection again."""
        client = self.plane.client()
        for _ in range(2):
            client.send(request(CHAT))
            self.plane.last.answer(reply(ANSWER))
        self.assertEqual(1, len(self.plane.opened))
        self.assertEqual(2, len(self.plane.events))

    def test_any_cut_of_both_sides(self) -> None:
        """However both sides are cut into reads, the result is the same."""
        client = self.plane.client()
        for byte in request(CHAT):
            client.send(bytes([byte]))
        for byte in reply(ANSWER):
            self.plane.last.answer(bytes([byte]))
        self.assertTrue(client.received().endswith(ANSWER))
        self.assertEqual(1, len(self.plane.events))


class StreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()
        self.client = self.plane.client()
        self.client.send(request(CHAT[:-1] + b',"stream":true}'))

    def test_events_pass_as_they_come(self) -> None:
        """Each event goes out in the turn it came in; the usage chunk stays hidden."""
        upstream = self.plane.last
        self.assertIn(b'"stream_options":{"include_usage":true}', upstream.requests())
        upstream.answer(STREAM_HEAD)
        self.assertEqual(b"", self.client.received())
        upstream.answer(chunk(delta(b"Hel")))
        self.assertIn(b"Hel", self.client.received())
        upstream.answer(chunk(delta(b"lo")) + chunk(FINISH) + chunk(USAGE) + chunk(DONE))
        upstream.answer(b"0\r\n\r\n")
        got = self.client.received()
        self.assertIn(b"transfer-encoding: chunked", got)
        self.assertTrue(got.endswith(b"0\r\n\r\n"))
        self.assertNotIn(b'"usage"', got)
        [event] = self.plane.events
        self.assertEqual((9, 3, False), (event.input_tokens, event.output_tokens, event.estimated))

    def test_cut_stream_is_shown_as_cut(self) -> None:
        """A stream that breaks off ends without the closing chunk and is billed as 499."""
        upstream = self.plane.last
        upstream.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        upstream.close(ConnectionLost)
        self.assertFalse(self.client.received().endswith(b"0\r\n\r\n"))
        self.assertTrue(self.client.transport.disconnecting)
        [event] = self.plane.events
        self.assertEqual((499, True), (event.status, event.estimated))

    def test_client_leaves(self) -> None:
        """After the client has left the answer is read on for its figures."""
        upstream = self.plane.last
        upstream.answer(STREAM_HEAD + chunk(delta(b"Hel")))
        self.client.leave()
        self.assertEqual([], self.plane.events)
        self.assertEqual(1, self.plane.plane.admission.in_flight)
        upstream.answer(chunk(FINISH) + chunk(USAGE) + chunk(DONE) + b"0\r\n\r\n")
        [event] = self.plane.events
        self.assertEqual((499, 9, False), (event.status, event.input_tokens, event.estimated))
        self.assertEqual(0, self.plane.plane.admission.in_flight)


class FailoverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane(
            routes=[route("small", ("u1", "vendor-1"), ("u2", "vendor-2"))],
            upstreams=[upstream("u1"), upstream("u2")],
        )

    def test_next_target(self) -> None:
        """A 503 leads to the next target; the client sees only its answer."""
        client = self.plane.client()
        client.send(request(CHAT))
        self.plane.last.answer(reply(b"{}", b"503 Busy"))
        self.assertEqual("u2", self.plane.last.upstream)
        self.plane.last.answer(reply(ANSWER))
        self.assertIn(b"x-omnigate-attempts: 2", client.received())
        [event] = self.plane.events
        self.assertEqual(["status_503", "ok"], [a.outcome for a in event.attempts])

    def test_all_fail(self) -> None:
        """With no target left the client gets the list of attempts, and one event is written."""
        self.plane.refusing = {"u1", "u2"}
        client = self.plane.client()
        client.send(request(CHAT))
        self.assertIn(b"all_upstreams_failed", client.received())
        [event] = self.plane.events
        self.assertEqual((502, None), (event.status, event.upstream))
