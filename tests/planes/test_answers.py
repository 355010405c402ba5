"""Answers that are no event streams: short ones whole, long ones as they come."""

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import MemoryDataPlane, get, reply, request
from tests.planes.scenes import CHAT


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
