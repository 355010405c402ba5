"""What is written down of a config that is read, with the files of a whole control plane."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.config_file import FILE, SIGNAL, Cause
from omnigate.control.redaction import redacted
from omnigate.errors import GatewayError
from tests.control.plane import CONFIG, Plane

MORE = CONFIG + '[[keys]]\nname = "web"\nkey_sha256 = "' + "a" * 64 + '"\n'


class RecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = self.mktemp()
        self.start()
        self.addCleanup(lambda: self.plane.close())

    def start(self, config: str = CONFIG) -> None:
        """Start a control plane, as its service does it."""
        self.plane = Plane(self.folder, config)
        self.plane.record_start()

    def lines(self) -> list[dict[str, Any]]:
        """The lines about the config, the oldest first; the whole log holds no hash of a key."""
        with open(os.path.join(self.folder, "audit.jsonl"), encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("a" * 64, text)
        return [json.loads(line) for line in text.splitlines()]

    def reload(self, text: str, actor: str = SIGNAL) -> Deferred[bool]:
        self.plane.write_config(text)
        return self.plane.config_file.reload(Cause(actor))

    def history(self) -> Any:
        reply = self.plane.admin("GET", "/admin/config/history")
        self.assertEqual(reply.status, 200)
        return reply.json()["entries"]

    def test_start(self) -> None:
        """The config of a start has a line, and an entry if it is another one than the last."""
        (line,) = self.lines()
        self.assertEqual((line["action"], line["actor"]), ("config.install", "start"))
        self.assertEqual((line["detail"]["keys"], line["detail"]["routes"]), (1, 1))
        self.assertEqual(len(self.history()), 1)
        self.plane.close()
        self.start()
        self.assertEqual((len(self.lines()), len(self.history())), (2, 1))
        self.plane.close()
        self.start(MORE)
        self.assertEqual((len(self.lines()), len(self.history())), (3, 2))
        self.assertEqual(self.history()[0]["changes"], {})

    def test_install(self) -> None:
        """A config that comes into force has a line with the names that are new."""
        self.assertTrue(self.successResultOf(self.reload(MORE, FILE)))
        line = self.lines()[-1]
        self.assertEqual((line["action"], line["actor"]), ("config.install", "file"))
        self.assertEqual((line["outcome"], line["detail"]["keys_added"]), ("done", ["web"]))
        self.assertEqual(self.history()[0]["changes"], {"keys": {"added": ["web"]}})

    def test_by_an_operator(self) -> None:
        """The line says which operator, from where, and by which request."""
        self.plane.write_config(MORE)
        reply = self.plane.admin("POST", "/admin/reload")
        self.assertEqual(reply.status, 200)
        line = self.lines()[-1]
        self.assertEqual((line["action"], line["actor"]), ("config.install", "admin-token"))
        self.assertEqual(line["request_id"], reply.headers["x-omnigate-request-id"])
        self.assertTrue(line["address"])

    def test_nothing_new(self) -> None:
        """What an operator asked for is written down; a file that was touched is not."""
        for actor in (SIGNAL, FILE):
            self.successResultOf(self.reload(CONFIG + "# a remark\n", actor))
        self.assertEqual(
            [(line["action"], line["actor"], line["detail"]) for line in self.lines()[1:]],
            [("config.reload", "signal", {"changed": False})],
        )
        self.assertEqual(len(self.history()), 1)

    def test_refused(self) -> None:
        """Faults are counted in a line, and what may be a secret in them is not told."""
        secret = "sk-" + "x" * 40
        bad = CONFIG.replace("rpm = 600", f'"{secret}" = 1')
        self.assertFalse(self.successResultOf(self.reload(bad)))
        line = self.lines()[-1]
        self.assertEqual((line["action"], line["outcome"]), ("config.reload", "failed"))
        self.assertEqual(line["detail"], {"faults": 1, "first": "keys[0]"})
        self.assertNotIn(secret, json.dumps(self.lines()))

    def test_without_a_line_no_config(self) -> None:
        """A config whose line cannot be written does not come into force, and is tried again."""
        before = self.plane.config_file.config
        self.plane.audit.abandon()
        failure = self.failureResultOf(self.reload(MORE), GatewayError)
        self.assertEqual(failure.value.kind.status, 503)
        self.assertIs(self.plane.config_file.config, before)
        self.assertEqual(self.plane.admin("POST", "/admin/reload").status, 503)
        self.assertIn("cannot be put in force", str(self.plane.config_file.faults[0]))

    def test_text(self) -> None:
        """One config is shown with its text, without hashes of keys; one that is not there, not."""
        self.successResultOf(self.reload(MORE))
        newest = self.plane.admin("GET", "/admin/config/history/2").json()
        self.assertEqual(newest["text"], redacted(MORE))
        self.assertNotIn("text", self.history()[0])
        for name in ("3", "0", "x", "02"):
            self.assertEqual(self.plane.admin("GET", f"/admin/config/history/{name}").status, 404)
