"""Probes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.health import STOPPING
from tests.control.plane import Plane


class ProbeTests(SynchronousTestCase):
    """Alive at once, ready when it can work, and neither needs a credential."""

    def test_alive(self) -> None:
        """The process lives, whatever it waits for."""
        plane = Plane(self.mktemp(), open_ledger=False)
        for target in ("/healthz", "/livez"):
            for method in ("GET", "HEAD"):
                self.assertEqual(plane.talk.ask(method, target).status, 200)

    def test_ready(self) -> None:
        """Before and after, the reason is told in fixed words."""
        plane = Plane(self.mktemp())
        reply = plane.talk.ask("GET", "/readyz")
        self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"))
        self.assertEqual(reply.json()["detail"], "the ledger is being loaded")
        plane.health.unready = None
        self.assertEqual(plane.talk.ask("GET", "/readyz").status, 200)
        plane.health.unready = STOPPING
        self.assertEqual(plane.talk.ask("HEAD", "/readyz").status, 503)
