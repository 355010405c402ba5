"""Exchanges are freed when they end, not when the collector comes by.

The collector holds the reactor for as long as there are objects to look at; what leaves no
cycles behind leaves it little to do.
"""

import gc
from collections import Counter

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import FakeClient, MemoryDataPlane, get, reply, request
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

#: Our objects of one stream that the collector looks at. With those of Twisted's there are some 35,
#: and two thousand streams hold the reactor for 15 ms when it looks at all.
MOST_OBJECTS = 16

OURS = ("omnigate.gateway", "omnigate.dialects", "omnigate.protocols.re", "omnigate.wire.json")


class FreeingTests(SynchronousTestCase):
    def setUp(self) -> None:
        # What other tests left need not be looked through at each collection.
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        self.plane = two_targets()
        self.client = self.plane.client()

    def check_no_cycles(self) -> None:
        """Play the scene some more times, and look whether the collector has anything to do."""
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                self.scene(self.plane, self.client)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            # Connections and their transports know each other in Twisted, too.
            left = [item for item in gc.garbage if type(item).__module__.startswith(OURS)]
            self.assertEqual({}, Counter(type(item).__name__ for item in left))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    def scene(self, plane: MemoryDataPlane, client: FakeClient) -> None:
        """What happens; each test has its own."""

    def play(self, *pieces: bytes, body: bytes = CHAT, leave: int = -1) -> None:
        def scene(plane: MemoryDataPlane, client: FakeClient) -> None:
            if leave >= 0:
                client = plane.client()
            client.send(request(body))
            for index, piece in enumerate(pieces):
                if index == leave:
                    client.leave()
                for connection in plane.busy:
                    connection.answer(piece)

        self.scene = scene  # type: ignore[method-assign]
        scene(self.plane, self.client)
        self.check_no_cycles()

    def test_whole_answer(self) -> None:
        """A whole answer."""
        self.play(reply(ANSWER))

    def test_long_answer(self) -> None:
        """An answer that is relayed as it comes."""
        self.play(reply(b'{"choices":["' + b"x" * 70000 + b'"]}'))

    def test_stream(self) -> None:
        """A stream."""
        self.play(STREAM_HEAD, chunk(delta(b"Hi")), chunk(CLOSING), END, body=CHAT_STREAM)

    def test_objects_of_a_stream(self) -> None:
        """A stream under way is little work for the collector: thousands are, together."""
        plane = self.plane
        tracked: list[Counter[str]] = []
        for count in (1, 50):
            for _ in range(count):
                plane.client().send(request(CHAT_STREAM))
                plane.last.answer(STREAM_HEAD + chunk(delta(b"a")))
                plane.last.answer(chunk(delta(b"b")))
            gc.collect()  # what holds no containers is no longer looked at
            found = [f"{type(item).__module__}.{type(item).__name__}" for item in gc.get_objects()]
            tracked.append(Counter(name for name in found if name.startswith("omnigate.")))
        more = tracked[1] - tracked[0]
        each = {name: number / 50 for name, number in more.items()}
        self.assertLessEqual(sum(each.values()), MOST_OBJECTS, each)

    def test_next_target(self) -> None:
        """A failed target, and the answer of the next."""
        self.play(reply(b"{}", b"429 Slow"), reply(ANSWER))

    def test_all_failed(self) -> None:
        """Nothing but failures."""
        self.play(reply(b"{}", b"500 No"), reply(b"<html>"))

    def test_refusals(self) -> None:
        """Requests that are refused, and those that start no work."""
        for data in (
            request(CHAT.replace(b"small", b"none")),
            request(b"[]"),
            request(CHAT, secret="og-unknown-key-000000"),
            get(b"/v1/models"),
            get(b"/healthz"),
            get(b"/nothing"),
        ):
            self.setUp()

            def scene(plane: MemoryDataPlane, client: FakeClient, data: bytes = data) -> None:
                client = plane.client()
                client.send(data)
                client.leave()

            self.scene = scene  # type: ignore[method-assign]
            scene(self.plane, self.client)
            self.check_no_cycles()

    def test_refused_bodies(self) -> None:
        """Bodies that are refused, at once and while they arrive: nothing keeps them."""
        for body in (
            CHAT[:-1],
            CHAT[:-1] + b"]",
            b"[" * 100 + b"]" * 100,
            b'{"model":"small",' + CHAT[1:],
            b'{"mod\\u0065l":"small"}',
            b'{"model":' + b"[" * 100 + b"]" * 100 + b"}",
            b'{"model":"small","x":"' + b"\xff" * 20 + b'"}',
            b'{"model":"small","' + b"k" * 10_000 + b'":1}',
            b'{"model":7}',
            b"{}",
        ):
            for filling in (0, 100_000, 600_000):
                self.setUp()
                if filling:
                    long = body.replace(b"{", b'{"a":"' + b"\\n," * (filling // 3) + b'",', 1)
                    data = request(long + b" ")
                else:
                    data = request(body)

                def scene(plane: MemoryDataPlane, client: FakeClient, data: bytes = data) -> None:
                    client = plane.client()
                    for at in range(0, len(data), 50_000):
                        client.send(data[at : at + 50_000])
                    client.leave()

                self.scene = scene  # type: ignore[method-assign]
                scene(self.plane, self.client)
                self.assertEqual(1, len(self.plane.refused))
                self.check_no_cycles()

    def test_client_left(self) -> None:
        """Answers that are read on."""
        self.play(reply(ANSWER), leave=0)
        self.setUp()
        self.play(reply(ANSWER)[:-9], reply(ANSWER)[-9:], leave=1)
        self.setUp()
        self.play(STREAM_HEAD, chunk(delta(b"Hi")), chunk(CLOSING) + END, body=CHAT_STREAM, leave=2)

    def test_cut(self) -> None:
        """Streams that break off, with their connections on both sides."""

        def scene(plane: MemoryDataPlane, client: FakeClient) -> None:
            client = plane.client()
            client.send(request(CHAT_STREAM))
            plane.busy[0].answer(STREAM_HEAD + chunk(delta(b"Hi")))
            plane.busy[0].close(ConnectionLost)
            plane.opened.clear()

        self.scene = scene  # type: ignore[method-assign]
        scene(self.plane, self.client)
        self.check_no_cycles()
