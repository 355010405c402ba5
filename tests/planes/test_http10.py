"""HTTP/1.0 clients in every kind of answer: no chunks, no second request, an end that is one."""

from collections.abc import Callable

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import (
    KEY,
    FakeClient,
    MemoryDataPlane,
    get,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.reading import Answer
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
)

LONG = b'{"choices":["' + b"x" * 100_000 + b'"]}'
STREAM = STREAM_HEAD + chunk(delta(b"Hi")) + chunk(CLOSING) + END


@attrs.frozen
class Scene:
    """A request, and what the provider says to it, where it is asked."""

    sent: bytes
    status: int
    told: bytes = b""


SCENES = (
    Scene(request(CHAT), 200, reply(ANSWER)),
    Scene(request(CHAT), 200, reply(LONG)),
    Scene(request(CHAT_STREAM), 200, STREAM),
    Scene(request(CHAT), 400, reply(ERROR, b"400 Bad Request")),
    Scene(request(CHAT), 502, reply(b"{}", b"503 Busy")),
    Scene(request(CHAT.replace(b"small", b"cached")), 200),
    Scene(request(b"{}"), 400),
    Scene(request(CHAT, b"/v1/nothing"), 404),
    Scene(request(CHAT).replace(KEY.encode(), b"og-unknown-key-0123456789"), 401),
    Scene(request(b"x")[:-1].replace(b"content-length: 1", b"content-length: 99999999"), 413),
    Scene(get(b"/v1/models"), 200),
    Scene(get(b"/healthz", secret=""), 200),
    Scene(get(b"//v1/models"), 404),
    Scene(get(b"/v1/models", b"no colon\r\n"), 400),
)


def plane_with_a_full_cache() -> MemoryDataPlane:
    """A plane that answers the model ``cached`` without asking."""
    plane = MemoryDataPlane(
        routes=[
            route("small", ("u1", "vendor-1")),
            route("cached", ("u1", "vendor-1"), cache_ttl_s=60),
        ],
        upstreams=[upstream("u1")],
        keys=[key()],
    )
    client = plane.client()
    client.send(request(CHAT.replace(b"small", b"cached")))
    plane.last.answer(reply(ANSWER))
    client.leave()
    return plane


def old(sent: bytes) -> bytes:
    """The same as an HTTP/1.0 client writes it."""
    return sent.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n")


class AnswerTests(SynchronousTestCase):
    def play(self, scene: Scene, writes: Callable[[bytes], bytes]) -> tuple[FakeClient, Answer]:
        """Play a scene on a plane of its own."""
        plane = plane_with_a_full_cache()
        client = plane.client()
        client.send(writes(scene.sent))
        for connection in plane.busy:
            connection.answer(scene.told)
        self.assertEqual((0, 0), (plane.in_flight, plane.plane.admission.memory_bytes))
        [answer] = client.answers()
        self.assertEqual((scene.status, True), (answer.status, answer.whole), scene.sent)
        return client, answer

    def test_every_kind(self) -> None:
        """What an HTTP/1.1 client would read, and then the end of the connection."""
        for scene in SCENES:
            _, modern = self.play(scene, bytes)
            client, answer = self.play(scene, old)
            self.assertNotIn(b"transfer-encoding", answer.headers)
            self.assertEqual(b"close", answer.headers[b"connection"])
            self.assertFalse(client.open, scene.sent)
            self.assertFalse(client.transport.aborted)
            # Two planes give two request ids, which are as long.
            self.assertEqual(len(modern.body), len(answer.body))
            if scene.told or scene.status == 200:
                self.assertEqual(modern.body, answer.body)

    def test_not_kept(self) -> None:
        """A second request on the connection is not answered, even if it asks to be kept."""
        plane = plane_with_a_full_cache()
        client = plane.client()
        client.send(old(get(b"/v1/models", b"connection: keep-alive\r\n") * 2))
        self.assertEqual([200], [answer.status for answer in client.answers()])

    def test_cut(self) -> None:
        """An answer that breaks off is seen to: the connection is reset and not closed."""
        for sent, told in (
            (request(CHAT_STREAM), STREAM_HEAD + chunk(delta(b"Hi"))),
            (request(CHAT), reply(LONG)[:-10]),
        ):
            plane = plane_with_a_full_cache()
            client = plane.client()
            client.send(old(sent))
            plane.last.answer(told)
            plane.last.close()
            self.assertTrue(client.transport.aborted)
            self.assertEqual(499, plane.events[-1].status)
