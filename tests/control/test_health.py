"""Probes."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.control.config_file import SIGNAL, Cause
from omnigate.control.health import REFUSED
from omnigate.ledger.trouble import FULL
from omnigate.testing.disk import FaultyDisk
from tests.control.plane import CONFIG, Plane, event


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
        plane = Plane(self.mktemp(), open_ledger=False)
        reply = plane.talk.ask("GET", "/readyz")
        self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"))
        self.assertEqual(reply.json()["detail"], "the ledger is being loaded")
        plane.open_ledger()
        self.assertEqual(plane.talk.ask("GET", "/readyz").status, 200)
        plane.guard.stop()
        self.assertEqual(plane.talk.ask("HEAD", "/readyz").status, 503)

    def test_refused_config(self) -> None:
        """A file that was refused is told in fixed words, and the plane is ready all the same."""
        plane = Plane(self.mktemp())
        plane.write_config("[[keys]]\nnmae = 1\n")
        plane.config_file.reload(Cause(SIGNAL))
        reply = plane.admin("GET", "/readyz")
        self.assertEqual(
            (reply.status, reply.json()), (200, {"status": "ready", "config": REFUSED})
        )
        self.assertIn(b"omnigate_config_faults 3.0\n", plane.scrape())
        plane.write_config(CONFIG)
        plane.config_file.reload(Cause(SIGNAL))
        self.assertEqual(plane.admin("GET", "/readyz").json(), {"status": "ready"})

    def test_in_trouble(self) -> None:
        """A disk that takes no batch is told, in fixed words, and the plane lives on."""
        folder = self.mktemp()
        plane = Plane(folder)
        disk = FaultyDisk(folder)
        self.patch(files, "os", disk)
        disk.free_bytes = 0
        body = json.dumps({"events": [event()]}).encode()
        self.assertEqual(plane.internal("POST", "/internal/usage/batch", body).status, 503)
        reply = plane.talk.ask("GET", "/readyz")
        self.assertEqual((reply.status, reply.json()["detail"]), (503, FULL))
        self.assertEqual(plane.talk.ask("GET", "/livez").status, 200)
        self.assertEqual(plane.internal("GET", "/internal/config").status, 200)
        self.assertIn(b"omnigate_ledger_trouble 1.0\n", plane.scrape())
        disk.heal()
        plane.clock.pump([1.0] * 4)
        self.assertEqual(plane.talk.ask("GET", "/readyz").status, 200)
