"""Streams: what goes out, when, and what a break looks like."""

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import request
from tests.planes.scenes import CHAT_STREAM, END, STREAM_HEAD, USAGE, chunk, two_targets


class EmptyStreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = two_targets()
        self.client = self.plane.client()
        self.client.send(request(CHAT_STREAM))

    def test_only_a_hidden_event(self) -> None:
        """A stream of nothing but the usage that the client is not to see is an empty answer."""
        self.plane.last.answer(STREAM_HEAD + chunk(USAGE) + END)
        self.assertEqual(["u1"], self.plane.at)
        answer = self.client.answer
        self.assertEqual((200, b"", True), (answer.status, answer.body, answer.whole))
        self.assertEqual(
            (9, 3), (self.plane.events[0].input_tokens, self.plane.events[0].output_tokens)
        )
