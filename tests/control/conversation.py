"""Speaks HTTP to the control plane's listener in memory, and reads the answers."""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection

from omnigate.control.auth import Credentials
from omnigate.control.request import Gate
from omnigate.control.routes import Endpoint, Finder, Routes
from omnigate.control.visits import Door
from omnigate.control.web import ControlFactory

INTERNAL_TOKEN = "internal-token-0123456789"
ADMIN_TOKEN = "admin-token-0123456789"

ADMIN = ((b"authorization", b"Bearer " + ADMIN_TOKEN.encode()),)
INTERNAL = ((b"x-omnigate-internal", INTERNAL_TOKEN.encode()),)

Headers = tuple[tuple[bytes, bytes], ...]


@attrs.define
class Reply:
    """One answer off the wire."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request_bytes(
    method: str, target: str, headers: Headers = (), body: bytes | None = None
) -> bytes:
    """Write a request as a client would."""
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1"), b"host: control"]
    lines += [name + b": " + value for name, value in headers]
    if body is not None:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def read_reply(data: bytes) -> tuple[Reply, bytes]:
    """Take one answer with a content-length off the front of ``data``."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    _, status, reason = lines[0].split(" ", 2)
    return Reply(int(status), reason, headers, rest[:length]), rest[length:]


class Wire(StringTransportWithDisconnection):
    """A transport that says that it is closing, as a real one does."""

    def loseConnection(self) -> None:
        self.disconnecting = True
        super().loseConnection()


class Conversation:
    """A listener with its gate, and connections to it."""

    def __init__(
        self,
        *endpoints: Endpoint,
        routes: Finder | None = None,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
        door: Door | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.refusals: list[tuple[str, str]] = []
        self.credentials = credentials or Credentials(
            INTERNAL_TOKEN,
            ADMIN_TOKEN,
            self.clock.seconds,
            lambda audience, reason: self.refusals.append((audience, reason)),
        )
        self.routes = routes or Routes(*endpoints)
        gate = Gate(self.routes, self.credentials, self.clock, self.clock.seconds, door=door)
        self.factory = ControlFactory(gate)

    def connect(self) -> tuple[Any, Wire]:
        """Open a connection: its protocol, and what it writes to."""
        channel: Any = self.factory.buildProtocol(None)
        transport = Wire()
        transport.protocol = channel
        channel.makeConnection(transport)
        return channel, transport

    def ask(
        self, method: str, target: str, headers: Headers = (), body: bytes | None = None
    ) -> Reply:
        """Ask once, over a connection of its own."""
        channel, transport = self.connect()
        channel.dataReceived(request_bytes(method, target, headers, body))
        reply, rest = read_reply(transport.value())
        if rest and method != "HEAD":
            raise AssertionError(f"bytes behind the answer: {rest!r}")
        if transport.connected:
            transport.loseConnection()
        return reply
