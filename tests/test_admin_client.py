"""The blocking client of the admin API, against a server in a thread."""

import contextlib
import http.client
import json
import socket
import threading
import time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from twisted.trial.unittest import SynchronousTestCase

from omnigate.admin_client import AdminClient, AdminError, client_from, connection_to
from omnigate.demo_children import free_ports

TOKEN = "t" * 20


class FakeAdmin(BaseHTTPRequestHandler):
    """Answers what the test put into ``answers`` and notes what it was asked."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    asked: ClassVar[list[tuple[str, str, str, bytes]]] = []
    accepted: ClassVar[list[str]] = []
    #: Of the answers, in place of what was asked for; and how many bytes of each never come.
    media_type: ClassVar[str] = ""
    missing: ClassVar[int] = 0

    def answer(self) -> None:
        """One exchange."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        credential = self.headers.get("authorization", "")
        self.asked.append((self.command, self.path, credential, body))
        self.accepted.append(self.headers.get("accept", ""))
        status, content = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("content-type", self.media_type or self.headers.get("accept", ""))
        self.send_header("content-length", str(len(content) + self.missing))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def drip(server: socket.socket, head: bytes) -> None:
    """Take one connection and send it a little, again and again, until it is gone."""
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + head)
        for _ in range(500):
            connection.sendall(b"x:y\r\n")
            time.sleep(0.02)


class AdminServerTestCase(SynchronousTestCase):
    """A test with a server that stands for the control plane, at ``self.url``."""

    def setUp(self) -> None:
        FakeAdmin.answers = {}
        FakeAdmin.asked = []
        FakeAdmin.accepted = []
        FakeAdmin.media_type, FakeAdmin.missing = "", 0
        server = HTTPServer(("127.0.0.1", 0), FakeAdmin)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)


class AdminClientTests(AdminServerTestCase):
    """AdminClient.call."""

    def test_a_call(self) -> None:
        """The token goes along, the body as JSON, and money comes back exact."""
        FakeAdmin.answers["/admin/keys"] = (201, b'{"cost_usd": 0.000012345678901234567}')
        answer = AdminClient(self.url + "/", TOKEN).call("POST", "/admin/keys", {"name": "app"})
        self.assertEqual(answer, {"cost_usd": Decimal("0.000012345678901234567")})
        method, path, credential, body = FakeAdmin.asked[0]
        self.assertEqual((method, path, credential), ("POST", "/admin/keys", f"Bearer {TOKEN}"))
        self.assertEqual(json.loads(body), {"name": "app"})

    def test_money_is_sent_exactly(self) -> None:
        """Every digit of a budget arrives, as a number."""
        FakeAdmin.answers["/x"] = (200, b"")
        AdminClient(self.url, TOKEN).call("POST", "/x", {"usd": Decimal("123456789.123456789")})
        self.assertEqual(b'{"usd":123456789.123456789}', FakeAdmin.asked[0][3])

    def test_an_empty_answer(self) -> None:
        """204 and the like have nothing to decode."""
        FakeAdmin.answers["/x"] = (200, b"")
        self.assertIsNone(AdminClient(self.url, TOKEN).call("DELETE", "/x"))

    def test_refusals_say_what_the_problem_says(self) -> None:
        """Status, code and detail, in one line whatever came."""
        problem = {"title": "Conflict", "detail": "there is\na key app", "code": "already_exists"}
        FakeAdmin.answers["/taken"] = (409, json.dumps(problem).encode())
        FakeAdmin.answers["/token"] = (401, b'{"title": "Unauthorized"}')
        FakeAdmin.answers["/page"] = (502, b"<html>bad gateway</html>")
        client = AdminClient(self.url, TOKEN)
        for path, start in {
            "/taken": "409 already_exists: there is",
            "/token": "401: Unauthorized",
            "/page": "502: <html>bad gateway</html>",
            "/none": "404: no reason given",
        }.items():
            error = self.assertRaises(AdminError, client.call, "GET", path)
            self.assertTrue(str(error).startswith(start), str(error))
            # What no control plane says may come from somebody else.
            foreign = path in ("/page", "/none")
            self.assertEqual(foreign, "OMNIGATE_CONTROL_URL" in str(error))
            self.assertNotIn("\n", str(error))

    def test_passwords_of_an_address(self) -> None:
        """No message repeats one, however the address is written."""
        for url in (
            "http://user:p4ss@127.0.0.1:1",
            "http://user:p4ss@@127.0.0.1:1/",
            "http://user:p4/ss@127.0.0.1:1",
            "ftp://user:p4ss@host",
            "user:p4ss@host:80",
            "http://user:p4ss@host:99999",
            "http://a\n@b:p4ss@127.0.0.1:1",
        ):
            with self.assertRaises(AdminError) as raised:
                AdminClient(url, TOKEN).call("GET", "/x")
            error = raised.exception
            self.assertNotIn("p4", str(error))
            self.assertIn("[redacted]@", str(error))

    def test_something_else_than_json(self) -> None:
        """A page instead of JSON points at the address."""
        FakeAdmin.answers["/x"] = (200, b"<html>")
        error = self.assertRaises(AdminError, AdminClient(self.url, TOKEN).call, "GET", "/x")
        self.assertIn("OMNIGATE_CONTROL_URL", str(error))

    def test_nothing_that_is_no_answer(self) -> None:
        """Neither a page, nor a way elsewhere, nor a part of an answer passes for one."""
        deep = b"[" * 100_000
        client = AdminClient(self.url, TOKEN)
        for status, content, media_type, missing in (
            (200, b"{}", "text/html; charset=utf-8", 0),
            (200, b"{}", "", 1),
            (302, b"{}", "", 0),
            (302, b"", "", 0),
            (304, b"", "", 0),
            (502, deep, "", 0),
        ):
            FakeAdmin.answers["/x"] = (status, content)
            FakeAdmin.media_type, FakeAdmin.missing = media_type, missing
            for accept in ("application/json", "text/csv"):
                error = self.assertRaises(AdminError, client.text, "GET", "/x", accept=accept)
                self.assertIn("OMNIGATE_CONTROL_URL", str(error))
            self.assertRaises(AdminError, client.call, "DELETE", "/x")
        FakeAdmin.media_type, FakeAdmin.missing = "", 0
        FakeAdmin.answers["/x"] = (200, deep)
        self.assertRaises(AdminError, client.call, "GET", "/x")
        FakeAdmin.answers["/x"] = (200, b"")
        error = self.assertRaises(AdminError, client.text, "GET", "/x", accept="text/csv")
        self.assertIn("something else than CSV", str(error))

    def test_an_answer_that_goes_on_for_ever(self) -> None:
        """A byte now and then is no answer: heads, a body of some length, and one that has none."""
        for head in (b"x: y\r\n", b"content-length: 99999\r\n\r\n", b"\r\n"):
            with socket.create_server(("127.0.0.1", 0)) as server:
                thread = threading.Thread(target=drip, args=(server, head))
                thread.start()
                port = server.getsockname()[1]
                client = AdminClient(f"http://127.0.0.1:{port}", TOKEN, 0.05)
                error = self.assertRaises(AdminError, client.text, "GET", "/x")
                self.assertIn("no whole answer within 0.5 seconds", str(error))
                thread.join()

    def test_nobody_there(self) -> None:
        """A port without a listener is told with its address and a remedy."""
        (port,) = free_ports(1)
        client = AdminClient(f"http://127.0.0.1:{port}", TOKEN)
        error = self.assertRaises(AdminError, client.call, "GET", "/x")
        self.assertIn(f"cannot reach the control plane at http://127.0.0.1:{port} (", str(error))

    def test_addresses_that_are_none(self) -> None:
        """Each is refused before anything is sent."""
        for url in ("", "localhost:8081", "ftp://x", "http://", "http://x:0", "http://x:99999"):
            self.assertRaises(AdminError, AdminClient, url, TOKEN)

    def test_addresses_that_cannot_be_written(self) -> None:
        """Names and paths that no request can carry are none either."""
        long = "a" * 64
        for url in ("http://a b", f"http://{long}.x", "http://x..y", "http://127.0.0.1:1/\xfc"):
            error = self.assertRaises(AdminError, AdminClient(url, TOKEN).call, "GET", "/x")
            self.assertIn("is no address", str(error))

    def test_hosts_and_ports(self) -> None:
        """Each form of a host goes where it says, with a port or without one."""
        for url, host, port in (
            ("http://a.example", "a.example", 80),
            ("https://a.example", "a.example", 443),
            ("http://a.example:81", "a.example", 81),
            ("http://[::1]", "::1", 80),
            ("https://[fe80::abcd]/x", "fe80::abcd", 443),
            ("https://[2001:db8::80]:8443", "2001:db8::80", 8443),
        ):
            connection = connection_to(urlsplit(url), 1)
            self.assertEqual((connection.host, connection.port), (host, port), url)
            secure = isinstance(connection, http.client.HTTPSConnection)
            self.assertEqual(secure, url.startswith("https"), url)


class EnvironmentTests(SynchronousTestCase):
    """client_from."""

    def test_no_token(self) -> None:
        """The message names the variable."""
        error = self.assertRaises(AdminError, client_from, {})
        self.assertIn("OMNIGATE_ADMIN_TOKEN is not set", str(error))

    def test_token_from_a_file(self) -> None:
        """The file's content counts; a file that is not there is a fault."""
        path = Path(self.mktemp())
        self.assertRaises(AdminError, client_from, {"OMNIGATE_ADMIN_TOKEN_FILE": str(path)})
        path.write_text(TOKEN + "\n")
        client_from({"OMNIGATE_ADMIN_TOKEN_FILE": str(path)})
