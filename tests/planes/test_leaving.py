"""Clients that leave, at every step of a request."""

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import MemoryDataPlane, request
from tests.planes.scenes import CHAT


class LeavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.plane = MemoryDataPlane()
        self.client = self.plane.client()

    def test_while_connecting(self) -> None:
        """The attempt to connect is called off, no other takes its place, nothing is billed."""
        self.plane.slow = True
        self.client.send(request(CHAT))
        self.client.leave()
        [connecting] = self.plane.connecting
        self.assertTrue(connecting.canceled)
        [event] = self.plane.events
        self.assertEqual((499, 0, None), (event.status, event.input_tokens, event.upstream))
        self.assertEqual(["canceled"], self.plane.outcomes)
        self.assertEqual(0, self.plane.in_flight)
