"""Three kinds of credentials and three kinds of ports: each opens its own, and no other.

Over real sockets of both planes, each credential in each header that any of them is looked for in.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.auth import WRONG_IN_WINDOW
from tests.process.daemons import (
    ADMIN_TOKEN,
    INTERNAL_TOKEN,
    SECONDS,
    Gateway,
    key_of,
    key_table,
    route_table,
    shared,
    upstream_table,
    wait_for,
)
from tests.process.raw import RawAnswer, answers_in, read_rest

#: Where a credential may stand.
PLACES = (
    "authorization: Bearer {}",
    "x-api-key: {}",
    "x-omnigate-internal: {}",
)

#: Paths by the port they are on and whose they are. A path of one plane means nothing on the other.
PUBLIC = ("GET /v1/models", "POST /v1/chat/completions", "POST /v1/messages")
INTERNAL = ("GET /internal/config", "POST /internal/usage/batch", "POST /internal/counters")
ADMIN = ("GET /admin/keys", "POST /admin/keys", "GET /metrics", "POST /admin/nothing")


def config(provider_port: int) -> str:
    """One key and one model."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
    )


class CredentialTests(SynchronousTestCase):
    """Every credential, every place for one, every port."""

    def setUp(self) -> None:
        self.gateway = shared("credentials", lambda: Gateway(config).start())
        self.hosts = iter(range(2, 250))
        self.host = "127.0.0.2"

    def ask(self, port: int, request: str, *headers: str, body: bytes = b"{}") -> RawAnswer:
        """Ask once, from an address of this test's own."""
        lines = [f"{request} HTTP/1.1", "host: x", "connection: close", *headers]
        if request.startswith("POST"):
            lines.append(f"content-length: {len(body)}")
        else:
            body = b""
        with socket.create_connection(("127.0.0.1", port), SECONDS, (self.host, 0)) as opened:
            opened.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            (answer,) = answers_in(read_rest(opened))
        return answer

    def credentials(self) -> Iterator[tuple[str, str]]:
        """Each with the kind of port it is for."""
        yield "public", key_of("app")
        admin = self.gateway.admin()
        managed = str(admin.call("POST", "/admin/keys", {"name": "managed"})["secret"])
        wait_for("the poll", lambda: self.gateway.get("/v1/models", managed).status == 200)
        yield "public", managed
        yield "internal", INTERNAL_TOKEN
        yield "admin", ADMIN_TOKEN
        for scope in ("full", "read_only"):
            made = admin.call("POST", "/admin/admin-keys", {"name": scope, "scope": scope})
            yield ("admin" if scope == "full" else "looker"), str(made["secret"])

    def test_nine_pairs(self) -> None:
        """A credential is let in on its own kind of port, in its own header, and nowhere else."""
        data, control = self.gateway.data_port, self.gateway.control_port
        pairs = set()
        for kind, secret in self.credentials():
            for place in PLACES:
                # Each from a fresh address, so that no lock-out decides.
                self.host = f"127.0.0.{next(self.hosts)}"
                header = place.format(secret)
                own = place != PLACES[2]
                for port, requests, opens in (
                    (data, PUBLIC, kind == "public" and own),
                    (control, INTERNAL, kind == "internal" and place == PLACES[2]),
                    (control, ADMIN, kind in ("admin", "looker") and place == PLACES[0]),
                ):
                    for request in requests:
                        answer = self.ask(port, request, header)
                        told = (kind, place, request, answer.status, answer.body)
                        self.assertEqual(answer.status != 401, opens, told)
                        looks = kind == "looker" and request.startswith("POST") and opens
                        if request != "POST /admin/nothing":
                            self.assertEqual(answer.status == 403, looks, told)
                        pairs.add((kind.replace("looker", "admin"), requests[0]))
        self.assertEqual(len(pairs), 9)

    def test_paths_of_the_other_plane(self) -> None:
        """No credential makes one plane answer for the other."""
        for _, secret in (("", key_of("app")), ("", INTERNAL_TOKEN), ("", ADMIN_TOKEN)):
            headers = [place.format(secret) for place in (PLACES[0], PLACES[2])]
            for request in (*INTERNAL, *ADMIN):
                self.assertIn(
                    self.ask(self.gateway.data_port, request, *headers).status, (401, 404), request
                )
            for request in PUBLIC:
                self.assertEqual(
                    self.ask(self.gateway.control_port, request, *headers).status, 404, request
                )

    def test_a_lockout_counts_on_every_place(self) -> None:
        """Guesses at any path that takes an operator's credential add up, and close all of them."""
        port = self.gateway.control_port
        self.host = "127.0.1.1"
        right, wrong = f"authorization: Bearer {ADMIN_TOKEN}", "authorization: Bearer guess"
        for n in range(WRONG_IN_WINDOW):
            request = ADMIN[n % len(ADMIN)]
            self.assertEqual(self.ask(port, request, wrong).status, 401, request)
        for request in ADMIN:
            answer = self.ask(port, request, right)
            self.assertEqual((answer.status, answer.json["code"]), (429, "too_many_attempts"))
            self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60)
        self.assertEqual(self.ask(port, "GET /readyz").status, 200)
        internal = f"x-omnigate-internal: {INTERNAL_TOKEN}"
        self.assertEqual(self.ask(port, INTERNAL[0], internal).status, 200)
        self.host = "127.0.1.2"
        self.assertEqual(self.ask(port, ADMIN[0], right).status, 200)
        audit = json.dumps(self.gateway.admin().call("GET", "/admin/audit?limit=20"), default=str)
        self.assertIn('"127.0.1.1"', audit)
        self.assertNotIn("guess", audit)
