"""The fake provider's connections, on a transport and a clock in memory."""

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from omnigate.testing import provider as provider_module
from omnigate.testing.provider import MAX_COUNTED_MODELS, OTHER_MODELS, FakeProvider
from omnigate.testing.provider_plan import Plan, Send
from omnigate.testing.provider_scenario import Scenario


def chat_bytes(model: str, key: str = "sk-1", **fields: Any) -> bytes:
    """A chat completion on the wire."""
    body = json.dumps({"model": model, "messages": [], **fields}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


class ProviderTests(SynchronousTestCase):
    """FakeProvider and its connections."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.provider = FakeProvider(self.clock)

    def connect(self) -> StringTransportWithDisconnection:
        """A new connection."""
        protocol = self.provider.buildProtocol(None)
        transport = StringTransportWithDisconnection()
        transport.protocol = protocol
        protocol.makeConnection(transport)
        self.protocol = protocol
        return transport

    def test_answers_one_after_the_other(self) -> None:
        """A connection is kept, and pipelined requests wait their turn."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-small") * 2)
        self.assertEqual(transport.value().count(b"HTTP/1.1 200 OK"), 2)
        self.assertEqual([seen.ordinal for seen in self.provider.seen], [1, 2])
        self.assertEqual([seen.number for seen in self.provider.seen], [1, 2])
        self.assertTrue(transport.connected)

    def test_pauses_follow_the_clock(self) -> None:
        """Nothing before the pause is over; the next request waits behind it."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-slow-first-byte-500") + chat_bytes("fake-500"))
        self.clock.advance(0.49)
        self.assertEqual(transport.value(), b"")
        self.clock.advance(0.01)
        self.assertIn(b" 200 ", transport.value())
        self.assertIn(b" 500 ", transport.value())

    def test_a_full_transport_holds_the_play(self) -> None:
        """While the client does not read nothing more is written."""
        transport = self.connect()
        verifyObject(IPushProducer, self.protocol)
        producer = transport.producer
        assert producer is not None
        self.protocol.dataReceived(chat_bytes("fake-paced-20", stream=True))
        producer.pauseProducing()
        self.clock.advance(1)
        before = len(transport.value())
        self.clock.advance(1)
        self.assertEqual(len(transport.value()), before)
        producer.resumeProducing()
        self.clock.pump([0.02] * 30)
        self.assertIn(b"[DONE]", transport.value())

    def test_cut_closes(self) -> None:
        """The connection ends after the third event."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-cut-after-3", stream=True))
        self.assertEqual(transport.value().count(b"chat.completion.chunk"), 3)
        self.assertFalse(transport.connected)
        self.assertEqual((self.provider.open_connections, self.provider.left), (0, 0))

    def test_leaving_is_counted(self) -> None:
        """A client that goes during an answer has left; its timer is gone too."""
        self.connect()
        self.protocol.dataReceived(chat_bytes("fake-paced-20", stream=True))
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.provider.left, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.provider.served["fake-paced-20"].output_tokens, 0)

    def test_silence_is_for_ever(self) -> None:
        """No answer, and no second one either."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-silent") + chat_bytes("fake-small"))
        self.clock.advance(1000)
        self.assertEqual(transport.value(), b"")

    def test_garbage_is_refused(self) -> None:
        """What is no request gets 400 and the end of the connection."""
        transport = self.connect()
        self.protocol.dataReceived(b"hello\r\n\r\n")
        self.assertTrue(transport.value().startswith(b"HTTP/1.1 400 "))
        self.assertFalse(transport.connected)

    def test_expect_continue(self) -> None:
        """A client that waits for it is told to go on."""
        transport = self.connect()
        whole = chat_bytes("fake-small").replace(b"host: x", b"expect: 100-continue")
        head, _, body = whole.partition(b"\r\n\r\n")
        self.protocol.dataReceived(head + b"\r\n\r\n")
        self.assertEqual(transport.value(), b"HTTP/1.1 100 Continue\r\n\r\n")
        self.protocol.dataReceived(body)
        self.assertIn(b"HTTP/1.1 200 OK", transport.value())

    def test_a_scenario_for_the_first_requests_only(self) -> None:
        """After so many requests of one name the answers are ordinary."""
        transport = self.connect()
        for _ in range(3):
            self.protocol.dataReceived(chat_bytes("fake-500-times-2"))
        self.assertEqual(transport.value().count(b"HTTP/1.1 500"), 2)
        self.assertEqual(transport.value().count(b"HTTP/1.1 200"), 1)

    def test_key(self) -> None:
        """A provider with a key takes no other."""
        self.provider = FakeProvider(self.clock, key="sk-right")
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-small", key="sk-wrong"))
        self.protocol.dataReceived(chat_bytes("fake-small", key="sk-right"))
        self.assertTrue(transport.value().startswith(b"HTTP/1.1 401"))
        self.assertIn(b"HTTP/1.1 200", transport.value())

    def test_script(self) -> None:
        """A script answers with a plan or a scenario, or leaves it to the model's name."""
        answers = iter([Plan((Send(b"raw"),)), Scenario(status=418), None])
        self.provider = FakeProvider(self.clock, script=lambda request: next(answers))
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-small") * 3)
        self.assertTrue(transport.value().startswith(b"rawHTTP/1.1 418 "))
        self.assertIn(b"HTTP/1.1 200", transport.value())

    def test_unknown_scenario(self) -> None:
        """It is a model this provider does not have."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-nonsense"))
        self.assertTrue(transport.value().startswith(b"HTTP/1.1 404"))

    def test_stats_and_reset(self) -> None:
        """The counters tell what a provider would bill, until they are reset."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-words-3-cached-2", stream=True))
        transport.clear()
        self.protocol.dataReceived(b"GET /__stats HTTP/1.1\r\n\r\n")
        stats = json.loads(transport.value().partition(b"\r\n\r\n")[2])
        row = stats["models"]["fake-words-3-cached-2"]
        self.assertEqual(
            (row["input_tokens"], row["cached_input_tokens"], row["output_tokens"]), (1, 2, 3)
        )
        self.assertEqual((stats["requests"], stats["connections"]), (1, 1))
        self.protocol.dataReceived(b"POST /__reset HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        self.assertEqual((self.provider.requests, self.provider.served), (0, {}))

    def test_counted_models_are_bounded(self) -> None:
        """Ever new names do not fill the table."""
        for number in range(MAX_COUNTED_MODELS + 5):
            self.provider.served_of(f"model-{number}")
        self.assertEqual(len(self.provider.served), MAX_COUNTED_MODELS + 1)
        self.assertIn(OTHER_MODELS, self.provider.served)

    def test_pipelined_flood_ends(self) -> None:
        """A client cannot fill the buffer behind an answer that waits."""
        transport = self.connect()
        self.protocol.dataReceived(chat_bytes("fake-silent"))
        for _ in range(17):
            self.protocol.dataReceived(b"x" * 65_536)
        self.assertTrue(transport.disconnecting or not transport.connected)


class ProcessTests(SynchronousTestCase):
    """The provider as a program."""

    def start(self) -> int:
        """Start it; the port it printed."""
        folder = os.path.dirname(os.path.dirname(os.path.dirname(provider_module.__file__)))
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigate.testing.provider", "--port", "0"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": folder},
        )
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.send_signal, signal.SIGTERM)
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        return int(process.stdout.readline())

    def test_a_reset_on_a_real_socket(self) -> None:
        """The client reads what was sent, and then meets a reset and not an end."""
        with socket.create_connection(("127.0.0.1", self.start()), timeout=10) as client:
            client.sendall(chat_bytes("fake-reset-after-3", stream=True))
            received: list[bytes] = []

            def read_to_the_end() -> None:
                while received[-1:] != [b""]:
                    received.append(client.recv(65_536))

            self.assertRaises(ConnectionResetError, read_to_the_end)
        self.assertEqual(b"".join(received).count(b"chat.completion.chunk"), 3)
