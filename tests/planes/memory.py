"""A data plane in memory: no sockets, no files, and a clock that tests turn.

Clients and upstreams are string transports, so a test plays both ends byte by byte and
reads what the plane said to either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotTarget,
    SnapshotUpstream,
)
from omnigate.events import UsageEvent, decode_event
from omnigate.gateway.access_log import AccessLine
from omnigate.gateway.plane import DataPlane, compile_upstream
from omnigate.gateway.settle import Books
from omnigate.gateway.tables import Upstream
from omnigate.protocols.client import ClientConnection, ClientFactory
from omnigate.protocols.connector import parse_address
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import read_data_settings

#: The gateway key that the data plane of a test knows, and its provider's credential.
KEY = "og-test-key-0123456789"
SECRET = "sk-upstream-credential-42"


class WireTransport(StringTransport):
    """A string transport that can be half closed, aborted and asked what state it is in.

    :ivar aborted: :meth:`abortConnection` was called.
    :ivar half_closed: the write side was closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False
        self.half_closed = False
        self.protocol: Any = None

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Nothing to do without a socket."""

    def loseWriteConnection(self) -> None:  # noqa: N802
        """Remember it."""
        self.half_closed = True

    def abortConnection(self) -> None:
        """Lose the connection at once, as a reset does; told on the next call of the test."""
        self.aborted = True
        self.disconnecting = True


class FakeConnection:
    """One connection that the plane opened to an upstream."""

    def __init__(self, upstream: str, protocol: Any) -> None:
        self.upstream = upstream
        self.protocol = protocol
        self.transport = WireTransport()
        protocol.makeConnection(self.transport)

    def requests(self) -> bytes:
        """All bytes the plane wrote here so far."""
        return bytes(self.transport.value())

    def answer(self, data: bytes) -> None:
        """The upstream sends ``data``."""
        self.protocol.dataReceived(data)

    def close(self, reason: type[Exception] = ConnectionDone) -> None:
        """The upstream ends the connection."""
        self.protocol.connectionLost(Failure(reason()))


class FakeClient:
    """One client's connection."""

    def __init__(self, factory: ClientFactory) -> None:
        self.protocol = cast(ClientConnection, factory.buildProtocol(None))
        self.transport = WireTransport()
        self.protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        """The client sends ``data``."""
        self.protocol.dataReceived(data)

    def received(self) -> bytes:
        """All bytes the client got so far."""
        return bytes(self.transport.value())

    def leave(self) -> None:
        """The client closes its end."""
        self.protocol.connectionLost(Failure(ConnectionDone()))


class MemoryDataPlane:
    """A whole data plane on fakes.

    :ivar events: usage events, oldest first.
    :ivar refused: refusals as (key name, code), oldest first.
    :ivar lines: access log entries.
    :ivar opened: connections to upstreams, oldest first.
    :ivar refusing: names of upstreams that refuse connections.
    """

    def __init__(
        self,
        routes: Sequence[SnapshotRoute] | None = None,
        upstreams: Sequence[SnapshotUpstream] | None = None,
        keys: Sequence[SnapshotKey] | None = None,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.clock = Clock()
        self.clock.advance(1_790_000_000.0)
        self.watchdog = Watchdog(self.clock)
        self.events: list[UsageEvent] = []
        self.refused: list[tuple[str, str]] = []
        self.lines: list[AccessLine] = []
        self.opened: list[FakeConnection] = []
        self.refusing: set[str] = set()
        self._environ = {
            "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
            "UPSTREAM_KEY": SECRET,
            **(environ or {}),
        }
        settings, _ = read_data_settings(self._environ)
        books = Books(self._append, self._refuse)
        self.plane = DataPlane(settings, self.clock, self.watchdog, books, cast(Any, self))
        self.factory = ClientFactory(self.plane, settings.max_connections, lambda: b"full")
        self.enabled = True
        self.watchdog.start()
        self.install(
            routes if routes is not None else [route("small", ("u1", "vendor-1"))],
            upstreams if upstreams is not None else [upstream("u1")],
            keys if keys is not None else [key()],
        )

    def install(
        self,
        routes: Sequence[SnapshotRoute],
        upstreams: Sequence[SnapshotUpstream],
        keys: Sequence[SnapshotKey],
        version: str = "1",
    ) -> None:
        """Put a snapshot in force."""
        snapshot = Snapshot(
            version=version,
            keys=tuple(keys),
            upstreams=tuple(upstreams),
            routes=tuple(routes),
            media_models=(),
        )
        self.plane.install(snapshot, self._open_upstream)

    def client(self) -> FakeClient:
        """A new client's connection."""
        return FakeClient(self.factory)

    def advance(self, seconds: float, step: float = 0.1) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    @property
    def last(self) -> FakeConnection:
        """The newest connection to an upstream."""
        return self.opened[-1]

    def line(self, entry: AccessLine) -> None:
        """Take a line of the access log."""
        self.lines.append(entry)

    def _append(self, line: bytes) -> bool:
        self.events.append(decode_event(line))
        return True

    def _refuse(self, name: str, code: str) -> None:
        self.refused.append((name, code))

    def _open_upstream(self, config: SnapshotUpstream) -> Upstream:
        def connect(build: Callable[[], IProtocol]) -> Deferred[IProtocol]:
            if config.name in self.refusing:
                return fail(ConnectionRefusedError())
            connection = FakeConnection(config.name, build())
            self.opened.append(connection)
            return succeed(connection.protocol)

        pool = UpstreamPool(connect, self.watchdog)
        return compile_upstream(config, parse_address(config.base_url), pool, self._environ)


def key(name: str = "k1", secret: str = KEY, **changes: Any) -> SnapshotKey:
    """A key of the snapshot."""
    facts: dict[str, Any] = {
        "sha256": hashlib.sha256(secret.encode()).hexdigest(),
        "name": name,
        "rpm": 0,
        "models": None,
        "blocked": False,
        "max_concurrent": 0,
    }
    return SnapshotKey(**{**facts, **changes})


def upstream(name: str, protocol: str = "openai", **changes: Any) -> SnapshotUpstream:
    """An upstream of the snapshot."""
    facts: dict[str, Any] = {
        "name": name,
        "protocol": protocol,
        "base_url": f"http://{name}.test/v1",
        "api_key_env": "UPSTREAM_KEY",
        "connect_timeout_ms": 1000,
        "head_timeout_ms": 5000,
        "cooldown_failures": 3,
        "cooldown_window_s": 30,
        "cooldown_seconds": 30,
        "anthropic_version": None,
        "drop_betas": (),
        "abandon": "read_on",
        "proxy": None,
        "ca_file": None,
    }
    return SnapshotUpstream(**{**facts, **changes})


def route(
    model: str, *targets: tuple[str, str], strategy: str = "failover", weight: int = 1
) -> SnapshotRoute:
    """A route whose targets are pairs of upstream and model."""
    return SnapshotRoute(
        model=model,
        strategy=cast(Any, strategy),
        targets=tuple(
            SnapshotTarget(upstream=name, model=sent, weight=weight) for name, sent in targets
        ),
    )


def request(
    body: bytes,
    path: bytes = b"/v1/chat/completions",
    headers: bytes = b"",
    secret: str = KEY,
) -> bytes:
    """A request as a client writes it."""
    return (
        b"POST %b HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
        % (path, secret.encode(), headers, len(body), body)
    )


def reply(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    """A JSON answer as an upstream writes it."""
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b" % (
        status,
        headers,
        len(body),
        body,
    )
