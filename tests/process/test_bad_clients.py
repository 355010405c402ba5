"""Clients that send garbage, half a request, a lie about its length, or nothing at all."""

import contextlib
import json
import socket
import threading

from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.head import MAX_HEAD_BYTES
from tests.process.daemons import (
    SECONDS,
    Answer,
    Gateway,
    key_of,
    key_table,
    route_table,
    shared,
    upstream_table,
)

#: Of the data plane here: what a client may take for a request.
CLIENT_TIMEOUT_MS = 1000

AUTH = b"host: gateway\r\nauthorization: Bearer " + key_of("app").encode() + b"\r\n"
BODY = b'{"model":"small","messages":[{"role":"user","content":"Hello"}]}'
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\n" + AUTH


def config(provider_port: int) -> str:
    """One key, one provider, a short answer and a long one."""
    return (
        key_table("app")
        + upstream_table("openai", "openai", provider_port)
        + route_table("small", ("openai", "fake-small"))
        + route_table("paced", ("openai", "fake-words-100-paced-20"))
    )


def length(size: int, rest: bytes = b"") -> bytes:
    """A request whose head declares a length, whatever comes of it."""
    return CHAT + b"content-length: %d\r\n\r\n" % size + rest


#: What is sent, the status that is answered, and the code beside it.
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "TLS": (bytes.fromhex("160301020001000001fc0303") + bytes(64) + b"\r\n\r\n", 400, ""),
    "words": (b"hello there\r\n\r\n", 400, ""),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, ""),
    "HTTP/3.7": (b"GET / HTTP/3.7\r\nhost: a\r\n\r\n", 505, ""),
    "bare line feeds": (b"GET /healthz HTTP/1.1\nhost: a\n\r\n\r\n", 400, ""),
    "no colon": (b"GET /healthz HTTP/1.1\r\nhost a\r\n\r\n", 400, ""),
    "space before the colon": (b"GET /healthz HTTP/1.1\r\nhost : a\r\n\r\n", 400, ""),
    "folded line": (b"GET /healthz HTTP/1.1\r\nhost: a\r\n b\r\n\r\n", 400, ""),
    "zero byte": (b"GET /healthz HTTP/1.1\r\nhost: a\x00b\r\n\r\n", 400, ""),
    "endless head": (b"GET / HTTP/1.1\r\nx: " + b"a" * (MAX_HEAD_BYTES + 1), 400, ""),
    "odd path": (b"GET /v1/%2e%2e/models HTTP/1.1\r\n" + AUTH + b"\r\n", 400, "invalid_path"),
    "absolute target": (b"GET http://a/v1/models HTTP/1.1\r\n" + AUTH + b"\r\n", 400, ""),
    "no length": (CHAT + b"\r\n", 411, "length_required"),
    "chunked": (CHAT + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n", 411, "length_required"),
    "two lengths": (CHAT + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcde", 400, ""),
    "length and chunked": (
        CHAT + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "",
    ),
    "signed length": (CHAT + b"content-length: +5\r\n\r\nabcde", 400, ""),
    "body of a GET": (
        b"GET /v1/models HTTP/1.1\r\n" + AUTH + b"content-length: 2\r\n\r\n{}",
        400,
        "",
    ),
    "expectation": (CHAT + b"expect: the-moon\r\ncontent-length: 2\r\n\r\n{}", 417, ""),
    "too large": (length(9 * 1024 * 1024, b"{" * 1000), 413, "request_too_large"),
    "no key": (
        b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}",
        401,
        "invalid_api_key",
    ),
}

#: The same where the body has been read: the connection is as good as before.
REFUSED_BODIES: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (length(5, b"hello"), 400, "invalid_json"),
    "no object": (length(2, b"[]"), 400, ""),
    "invalid UTF-8": (length(15, b'{"model":"\xff\xfe"} '), 400, "invalid_json"),
    "model twice": (length(25, b'{"model":"a","model":"b"}'), 400, "invalid_request"),
    "too deep": (length(400, b"[" * 200 + b"]" * 200), 400, ""),
    "no model": (length(2, b"{}"), 400, "invalid_request"),
}

#: What is sent by a client that then waits, or leaves: no answer is owed to half a request.
UNFINISHED: dict[str, bytes] = {
    "nothing": b"",
    "half a line": b"POST /v1/chat",
    "half a head": CHAT,
    "no body": length(len(BODY)),
    "half a body": length(len(BODY), BODY[:20]),
    "a length too large": length(len(BODY) + 100, BODY),
}


class BadClientTests(SynchronousTestCase):
    """Beside well-behaved ones."""

    def setUp(self) -> None:
        settings = {"CLIENT_TIMEOUT_MS": str(CLIENT_TIMEOUT_MS)}
        self.gateway = shared("bad-clients", lambda: Gateway(config, settings).start())
        self.addCleanup(lambda: self.assertEqual(self.gateway.traces(), []))

    def connect(self) -> socket.socket:
        """A connection; it is gone when the test ends."""
        opened = socket.create_connection(("127.0.0.1", self.gateway.data_port), SECONDS)
        self.addCleanup(opened.close)
        return opened

    def rest(self, opened: socket.socket) -> bytes:
        """Everything until the gateway closes the connection."""
        pieces: list[bytes] = []
        with contextlib.suppress(ConnectionResetError):
            while piece := opened.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)

    def in_peace(self) -> Answer:
        """A stream of an undisturbed client."""
        return self.gateway.ask("paced", stream=True)

    def test_refused(self) -> None:
        """Each is told what is wrong, in JSON; its connection is closed if in doubt of framing."""
        undisturbed: list[Answer] = []
        other = threading.Thread(target=lambda: undisturbed.append(self.in_peace()))
        other.start()
        for name, (sent, status, code) in REFUSED.items():
            opened = self.connect()
            opened.sendall(sent)
            head, _, body = self.rest(opened).partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 %d " % status), (name, head))
            self.assertIn(b"\r\nconnection: close", head.lower(), name)
            error = json.loads(body)["error"]
            self.assertTrue(error["message"], name)
            if code:
                self.assertEqual(error["code"], code, name)
        for name, (sent, status, code) in REFUSED_BODIES.items():
            opened = self.connect()
            opened.sendall(sent + length(len(BODY), BODY + b"GET / HTTP/1.0\r\n\r\n"))
            first, second, _ = self.rest(opened).split(b"HTTP/1.1 ")[1:]
            self.assertTrue(first.startswith(b"%d " % status), (name, first))
            error = json.loads(first.partition(b"\r\n\r\n")[2])["error"]
            if code:
                self.assertEqual(error["code"], code, name)
            self.assertTrue(second.startswith(b"200 "), (name, second))
        other.join(SECONDS)
        self.assertEqual([answer.whole for answer in undisturbed], [True])
        self.gateway.event(undisturbed[0].id)

    def test_unfinished(self) -> None:
        """Those that wait are cut off in time, all at once, and those that leave are forgotten."""
        waiting = {name: self.connect() for name in UNFINISHED}
        leaving = {name: self.connect() for name in UNFINISHED}
        for name, sent in UNFINISHED.items():
            waiting[name].sendall(sent)
            leaving[name].sendall(sent)
            leaving[name].shutdown(socket.SHUT_WR)
        for name, opened in (*leaving.items(), *waiting.items()):
            self.assertEqual(self.rest(opened), b"", name)
        self.assertEqual(self.gateway.ask("small").status, 200)

    def test_a_length_too_small(self) -> None:
        """What is sent beyond the declared length is the next request, and is none."""
        opened = self.connect()
        opened.sendall(length(len(BODY), BODY + b'{"more":1}\r\n\r\n'))
        got = self.rest(opened)
        self.assertTrue(got.startswith(b"HTTP/1.1 200 "))
        self.assertEqual(got.count(b"HTTP/1.1 400 "), 1)

    def test_slow(self) -> None:
        """A request that drips in and does not come in time is cut off; drops do not renew it."""
        opened = self.connect()
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < len(CHAT):
                opened.sendall(CHAT[sent : sent + 1])
                sent += 1
                opened.settimeout(CLIENT_TIMEOUT_MS / 1000 / 20)
                with contextlib.suppress(TimeoutError):
                    self.assertEqual(opened.recv(1), b"")
                    break
        self.assertLess(sent, len(CHAT))

    def test_resets(self) -> None:
        """Connections that are reset at any moment leave the others alone."""
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        for cut in range(0, len(CHAT) + len(BODY), 7):
            opened = self.connect()
            opened.sendall(length(len(BODY), BODY)[:cut])
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            opened.close()
        self.assertEqual(self.gateway.ask("small").status, 200)
