"""The fake provider: what it answers, and what it refuses."""

import json

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from bench import messages, traffic
from bench.answers import AnswerReader, ExactPayload, PacedPayload
from bench.provider import Answers, ProviderConnection
from omnigate.wire.json_scan import scan_body
from omnigate.wire.json_splice import splice_request

KEY = "sk-bench-upstream"
CLIENT_KEY = "bench-client"
EVENTS = 3


class ProviderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        sizes = [
            ("whole", 1024),
            ("whole", 100_000),
            ("burst", 1024),
            ("paced", 1024),
            ("slow", 1024),
        ]
        sizes += [("xwhole", 1024), ("xburst", 1024), ("whole1m", 1024), ("secure", 1024)]
        answers = Answers(EVENTS, KEY, CLIENT_KEY, sizes)
        self.connection = ProviderConnection(answers, self.clock)
        self.transport = StringTransport()
        self.connection.makeConnection(self.transport)

    def request(self, kind: str, size: int = 1024) -> bytes:
        """The request of a client."""
        return traffic.request_bytes(kind, size, 80, CLIENT_KEY)

    def relayed(self, kind: str, key: str = KEY, model: str | None = None) -> bytes:
        """The same as a gateway sends it on."""
        body = traffic.request_body(kind, 1024)
        name = b'"%b"' % (model or traffic.UPSTREAM_MODELS[kind]).encode()
        body = b"".join(splice_request(body, scan_body(body), name, kind != "whole"))
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer %b\r\n"
            b"content-length: %d\r\n\r\n%b" % (key.encode(), len(body), body)
        )

    def answer(self, request: bytes) -> bytes:
        """Send a request and return what comes at once."""
        self.transport.clear()
        self.connection.dataReceived(request)
        return bytes(self.transport.value())

    def test_whole(self) -> None:
        """A plain request is answered with the plain answer, again and again."""
        for request in (
            self.request("whole"),
            self.relayed("whole"),
            self.request("whole", 100_000),
        ):
            reader = AnswerReader(ExactPayload(traffic.whole_body()))
            reader.feed(self.answer(request), 0)
            self.assertTrue(reader.ended)

    def test_answers_of_a_size(self) -> None:
        """Each whole answer has its size, through a gateway or not."""
        for kind in ("whole1m", "secure"):
            for request in (self.request(kind), self.relayed(kind)):
                reader = AnswerReader(ExactPayload(traffic.whole_body(kind)))
                reader.feed(self.answer(request), 0)
                self.assertTrue(reader.ended)

    def translated(self, kind: str, key: str = KEY) -> bytes:
        """A request in the other protocol, as a gateway makes it."""
        (_, system), (_, user) = messages.turns_of(kind, 1024)
        told = {
            "model": traffic.UPSTREAM_MODELS[kind],
            "max_tokens": 256,
            "temperature": 0.2,
            "stream": kind in traffic.STREAMS,
            "system": system,
            "messages": [{"role": "user", "content": [{"type": "text", "text": user}]}],
        }
        body = json.dumps(told).encode()
        return b"POST /v1/messages HTTP/1.1\r\nx-api-key: %b\r\ncontent-length: %d\r\n\r\n%b" % (
            key.encode(),
            len(body),
            body,
        )

    def test_translated(self) -> None:
        """A request in the other protocol is answered in it, the second time like the first."""
        for kind, answer in (
            ("xwhole", messages.whole_answer()),
            ("xburst", messages.stream_answer()),
        ):
            for _ in range(2):
                self.assertEqual(self.answer(self.translated(kind)), answer)

    def test_a_request_in_pieces(self) -> None:
        """Nothing is answered before the last byte."""
        request = self.request("whole")
        for at in range(len(request) - 1):
            self.connection.dataReceived(request[at : at + 1])
        self.assertEqual(self.transport.value(), b"")
        self.assertEqual(self.answer(request[-1:]), traffic.whole_answer())

    def test_burst(self) -> None:
        """A stream comes in one write, with usage where it was asked for."""
        for request, with_usage in ((self.request("burst"), False), (self.relayed("burst"), True)):
            reader = AnswerReader(ExactPayload(traffic.burst_payload(with_usage)))
            reader.feed(self.answer(request), 0)
            self.assertTrue(reader.ended)

    def test_paced(self) -> None:
        """An event comes at once and one after each pause, then the end."""
        delays: list[int] = []
        reader = AnswerReader(PacedPayload(EVENTS, delays))
        reader.feed(self.answer(self.request("paced")), 0)
        for event in range(1, EVENTS + 1):
            self.assertEqual((len(delays), reader.ended), (event, False))
            self.transport.clear()
            self.clock.advance(traffic.PACE_SECONDS)
            reader.feed(self.transport.value(), 0)
        self.assertTrue(reader.ended)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_slow(self) -> None:
        """A slow stream has fewer events and lasts as long as a fast one."""
        events = traffic.events_of("slow", EVENTS)
        self.assertTrue(1 <= events < EVENTS)
        reader = AnswerReader(PacedPayload(events, []))
        reader.feed(self.answer(self.request("slow")), 0)
        for _ in range(events):
            self.assertFalse(reader.ended)
            self.transport.clear()
            self.clock.advance(traffic.PACES["slow"])
            reader.feed(self.transport.value(), 0)
        self.assertTrue(reader.ended)

    def test_paced_and_gone(self) -> None:
        """A stream ends with its connection."""
        self.answer(self.request("paced"))
        self.connection.connectionLost()
        self.clock.advance(traffic.PACE_SECONDS)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def refused(self, request: bytes, words: bytes) -> None:
        """Assert that a request is refused, and its connection closed."""
        self.setUp()
        answer = self.answer(request)
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
        self.assertIn(words, answer)
        self.assertTrue(self.transport.disconnecting)

    def test_refusals(self) -> None:
        """A gateway that changes a request is found out."""
        good = self.relayed("whole")
        self.refused(good.replace(b"plain words", b"plane words"), b"not the client's")
        self.refused(good.replace(b"/v1/chat/completions", b"/v1/completions"), b"path")
        self.refused(self.relayed("whole", key="sk-other"), b"credential")
        leaked = good.replace(b"\r\n\r\n", b"\r\nx-api-key: bench-client\r\n\r\n", 1)
        self.refused(leaked, b"credential")
        self.refused(self.relayed("whole", model="gpt-4o"), b"no model")
        translated = self.translated("xwhole")
        self.refused(translated.replace(b"plain words", b"plane words"), b"client's says")
        self.refused(self.translated("xwhole", key="sk-other"), b"credential")
        self.refused(good + b"P", b"before the answer")
        self.refused(b"POST / HTTP/1.1\r\nhost: x\r\n\r\n", b"no length")
        self.refused(b"POST / HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", b"larger")
