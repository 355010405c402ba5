"""The walk over the targets: what leads on, what is the answer, and what the end is."""

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import request
from tests.planes.scenes import CHAT, two_targets


class CutFailureTests(SynchronousTestCase):
    def test_its_head_counts(self) -> None:
        """A failure whose body is cut is what its head says, not a broken answer."""
        for status, outcome in ((429, "status_429"), (503, "status_503"), (401, "upstream_auth")):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(
                b"HTTP/1.1 %d No\r\nretry-after: 7\r\ncontent-length: 40\r\n\r\nab" % status
            )
            plane.last.close()
            self.assertEqual(["u1", "u2"], plane.at)
            plane.last.close()
            self.assertEqual([outcome, "connection_lost"], plane.outcomes)
            self.assertEqual(status, plane.events[0].attempts[0].status)
            self.assertEqual(429 if status == 429 else 502, client.answer.status)
