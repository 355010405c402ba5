"""Bad input to every path and method of the admin API, over real sockets.

Whatever comes, the answer is a refusal with a known code in a problem document, never a server
error; the connection ends where what follows could not be told apart; and nothing on the disk is
changed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import ADMIN_ERRORS, ERRORS
from tests.process.admin_sweep import (
    BEHIND,
    Bad,
    bad_bodies,
    bad_credentials,
    bad_heads,
    bad_targets,
    body_of_none,
    head,
    with_body,
)
from tests.process.daemons import SECONDS, Gateway, key_table, route_table, shared, upstream_table
from tests.process.raw import RawAnswer, answers_in, exchange, read_rest

CODES = frozenset((*ERRORS, *ADMIN_ERRORS))

#: Faults of heads that each path is asked with, out of all; one path meets every one.
EACH = 8

SEED = 7


def config(provider_port: int) -> str:
    """One key and one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class SweepCase(SynchronousTestCase):
    """A control plane that all these tests ask."""

    def setUp(self) -> None:
        self.gateway = shared("sweep", self.build)
        self.port = self.gateway.control_port
        self.document = json.loads(self.ask(head("GET", "/admin/openapi.json")).body)

    def build(self) -> Gateway:
        gateway = Gateway(config)
        gateway.start_control()
        admin = gateway.admin()
        admin.call("POST", "/admin/keys", {"name": "k1"})
        admin.call("POST", "/admin/admin-keys", {"name": "a1", "scope": "full"})
        return gateway

    def ask(self, sent: bytes) -> RawAnswer:
        closing = sent.replace(b"\r\nhost: x", b"\r\nconnection: close\r\nhost: x", 1)
        (answer,) = answers_in(exchange(self.port, closing))
        return answer

    def paths(self) -> Iterator[tuple[str, str, bool]]:
        """Every method and path of operators, and whether it takes a body."""
        for template, methods in self.document["paths"].items():
            name = "a1" if "admin-keys" in template else "k1"
            path = template.replace("{name}", name).replace("{id}", "1")
            for method, operation in methods.items():
                yield method.upper(), path, "requestBody" in operation

    def on_disk(self) -> dict[str, bytes]:
        """What a change would change."""
        folder = Path(self.gateway.folder) / "control"
        names = ("keys.json", "admin_keys.json", "audit.jsonl", "config_history.json")
        return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


class SweepTests(SweepCase):
    """Every fault there is, at every path."""

    def test_bad_input(self) -> None:
        """Seeded: each path meets some faults of heads, and all of targets and bodies."""
        dice = Random(SEED)
        # Lines of failed sign-ins come when the disk lets them, and all before the one of this.
        self.gateway.admin().call("PATCH", "/admin/keys/k1", {"rpm": 60})
        before = self.on_disk()
        self.assertIn("audit.jsonl", before)
        asked = 0
        for method, path, takes_body in self.paths():
            chosen = dice.sample([*bad_heads(method, path)], EACH)
            chosen += bad_targets(method, path)
            chosen += bad_bodies(method, path, dice) if takes_body else body_of_none(method, path)
            for bad in chosen:
                self.check(method, path, bad)
                asked += 1
        for bad in bad_heads("POST", "/admin/keys"):
            self.check("GET", "/admin/keys", bad)
        self.assertEqual(self.on_disk(), before)
        self.assertEqual(self.gateway.traces(), [])
        self.assertGreater(asked, 1000)

    def check(self, method: str, path: str, bad: Bad) -> None:
        """Send one, and hold its answer to what it must be."""
        told = f"{method} {path}: {bad.what}"
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as opened:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                opened.sendall(bad.sent)
                if bad.statuses:
                    opened.sendall(BEHIND)
                else:
                    opened.shutdown(socket.SHUT_WR)
            answers = answers_in(read_rest(opened))
        if not bad.statuses:
            self.assertEqual(answers, [], told)
            return
        self.assertEqual(len(answers), 1, (told, answers))
        self.check_refusal(answers[0], bad.statuses, told)
        self.assertTrue(answers[0].closes, told)

    def check_refusal(self, answer: RawAnswer, statuses: tuple[int, ...], told: str) -> None:
        self.assertIn(answer.status, statuses, (told, answer.body))
        self.assertTrue(answer.whole, told)
        self.assertEqual(answer.headers["content-type"], "application/problem+json", told)
        self.assertEqual(answer.headers["cache-control"], "no-store", told)
        self.assertRegex(answer.headers["x-omnigate-request-id"], "^[0-9a-f]{32}$")
        problem = answer.json
        self.assertEqual(problem["status"], answer.status, told)
        self.assertIn(problem["code"], CODES, told)
        self.assertEqual("allow" in answer.headers, answer.status == 405, told)

    def test_bad_credentials(self) -> None:
        """They are looked at before the path, the method and the body; from an address each."""
        before = self.on_disk()
        hosts = iter(range(10, 250))
        for method, path, _ in self.paths():
            if not path.startswith(("/admin", "/metrics")):
                continue
            host = f"127.0.2.{next(hosts)}"
            for bad in bad_credentials(method, path):
                with socket.create_connection(("127.0.0.1", self.port), SECONDS, (host, 0)) as on:
                    on.sendall(bad.sent + BEHIND)
                    (answer,) = answers_in(read_rest(on))
                self.check_refusal(answer, bad.statuses, f"{method} {path}: {bad.what}")
        after = self.on_disk()
        self.assertEqual(
            after.pop("audit.jsonl")[: len(before["audit.jsonl"])], before.pop("audit.jsonl")
        )
        self.assertEqual(after, before)


class WireTests(SweepCase):
    """What comes at once, and what comes slowly."""

    def test_pipelined(self) -> None:
        """Good and bad ones are answered in order; one whose body was not read is the last."""
        good, unknown = head("GET", "/admin/keys"), head("GET", "/admin/none")
        bad_body = with_body("POST", "/admin/keys", b"[]")
        with_get = with_body("GET", "/admin/keys", b"{}")
        sent = [good, unknown, bad_body, head("HEAD", "/admin/keys"), good, with_get, good, good]
        answers = answers_in(
            exchange(self.port, b"".join(sent)), ("GET", "GET", "POST", "HEAD", "GET", "GET")
        )
        self.assertEqual([answer.status for answer in answers], [200, 404, 400, 200, 200, 400])
        self.assertTrue(answers[-1].closes)
        self.assertFalse(any(answer.closes for answer in answers[:-1]))

    def test_slow_bodies(self) -> None:
        """One that trickles is read; one that stops is dropped, with nothing changed."""
        before = self.on_disk()
        body = b'{"rpm": "no number"}'
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as opened:
            opened.sendall(head("PATCH", "/admin/keys/k1", b"content-length: %d" % len(body)))
            for byte in body:
                opened.sendall(bytes([byte]))
                time.sleep(0.002)
            opened.sendall(BEHIND)
            first, second = answers_in(read_rest(opened))
        self.assertEqual((first.status, second.status), (400, 200))
        waiting = [socket.create_connection(("127.0.0.1", self.port), SECONDS) for _ in range(20)]
        for opened in waiting:
            opened.sendall(head("DELETE", "/admin/keys/k1")[:-2])
        self.assertEqual(self.ask(head("GET", "/admin/keys/k1")).status, 200)
        for opened in waiting:
            opened.close()
        self.assertEqual(self.on_disk(), before)

    def test_head_is_get_without_its_body(self) -> None:
        """At every path that has GET: the same status and headers, no body; 405 names it."""
        for method, path, _ in self.paths():
            if method != "GET":
                continue
            get = self.ask(head("GET", path))
            sent = head("HEAD", path, b"connection: close")
            data = exchange(self.port, sent)
            (answer,) = answers_in(data, ("HEAD",))
            self.assertEqual(answer.status, get.status, path)
            self.assertTrue(data.endswith(b"\r\n\r\n"), path)
            self.assertEqual(answer.headers["content-type"], get.headers["content-type"])
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertEqual(get.headers["cache-control"], "no-store")
            refused = self.ask(head("PUT", path))
            self.assertEqual(refused.status, 405, path)
            self.assertIn("GET, HEAD", refused.headers["allow"])
            self.assertEqual(refused.headers["cache-control"], "no-store")
