"""A data plane in memory: no sockets, no files, and a clock that tests turn.

Clients and upstreams are played byte by byte, so a scene reads as the trace of its wires:
``client.send(…)``, ``plane.last.answer(…)``, ``client.received()``. Whoever does something
lets the reactor turn once afterwards, so that ends are told before the next line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotTarget,
    SnapshotUpstream,
)
from omnigate.events import UsageEvent, decode_event
from omnigate.gateway.access_log import AccessLine
from omnigate.gateway.exchange import Exchange
from omnigate.gateway.plane import DataPlane, compile_upstream
from omnigate.gateway.settle import Books
from omnigate.gateway.shared_limits import SharedClientFactory
from omnigate.gateway.shared_uses import SharedUses
from omnigate.gateway.tables import Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.client import ClientConnection, ClientFactory
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.response import Response
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import read_data_settings
from omnigate.wire.head import HeadError, RequestHead
from omnigate.wire.target import Target, TargetError
from tests.planes.reading import Answer, read_answers
from tests.planes.transport import WireTransport

#: The gateway key that the data plane of a test knows, and its provider's credential.
KEY = "og-test-key-0123456789"
SECRET = "sk-upstream-credential-42"

#: What a connection beyond the cap is told in these tests.
FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfull"


class FakeConnection:
    """One connection that the plane opened to an upstream."""

    def __init__(self, clock: Clock, upstream: str, protocol: Any) -> None:
        self._clock = clock
        self.upstream = upstream
        self.protocol = protocol
        self.transport = WireTransport(clock)
        self.transport.connect(protocol)

    def requests(self) -> bytes:
        """All bytes the plane wrote here so far."""
        return self.transport.value()

    def answer(self, data: bytes) -> None:
        """The upstream sends ``data``."""
        self.transport.peer_sends(data)
        self._clock.advance(0)

    def close(self, reason: type[Exception] = ConnectionDone) -> None:
        """The upstream ends the connection."""
        self.transport.peer_closes(reason())
        self._clock.advance(0)

    @property
    def open(self) -> bool:
        """Whether the plane still has it."""
        return self.transport.connected


class FakeClient:
    """One client's connection."""

    def __init__(self, clock: Clock, factory: ClientFactory, address: str | None = None) -> None:
        self._clock = clock
        self.transport = WireTransport(clock)
        peer = None if address is None else IPv4Address("TCP", address, 4711)
        self.protocol = cast(ClientConnection, factory.buildProtocol(peer))
        self.transport.connect(self.protocol)

    def send(self, data: bytes) -> None:
        """The client sends ``data``."""
        self.transport.peer_sends(data)
        self._clock.advance(0)

    def received(self) -> bytes:
        """All bytes the client got so far."""
        return self.transport.value()

    def answers(self, *methods: bytes) -> list[Answer]:
        """What the client got, read strictly as the answers to requests of these methods."""
        in_order = self.transport.disconnecting and not self.transport.aborted
        return read_answers(self.received(), not in_order, methods)

    @property
    def answer(self) -> Answer:
        """The newest answer."""
        return self.answers()[-1]

    def leave(self, reason: type[Exception] = ConnectionDone) -> None:
        """The client closes its end."""
        self.transport.peer_closes(reason())
        self._clock.advance(0)

    def stall(self, after: int = 0) -> None:
        """The client takes ``after`` bytes more and then nothing."""
        self.transport.window = after

    def take(self, size: float = float("inf")) -> None:
        """The client takes ``size`` bytes of what waits for it."""
        self.transport.peer_takes(size)
        self._clock.advance(0)

    @property
    def open(self) -> bool:
        """Whether the plane has left the connection open."""
        return self.transport.connected and not self.transport.half_closed


class Connecting:
    """An attempt of the plane to connect that the test decides over."""

    def __init__(self, plane: MemoryDataPlane, upstream: str, build: Callable[[], Any]) -> None:
        self._plane = plane
        self._build = build
        self.upstream = upstream
        self.canceled = False
        self.deferred: Deferred[IProtocol] = Deferred(self._cancel)

    def _cancel(self, _: Deferred[IProtocol]) -> None:
        self.canceled = True

    def succeed(self) -> FakeConnection:
        """The connection comes about."""
        connection = self._plane.connected(self.upstream, self._build)
        self.deferred.callback(connection.protocol)
        self._plane.turn()
        return connection

    def fail(self, error: Exception | None = None) -> None:
        """It does not."""
        self.deferred.errback(error or ConnectionRefusedError())
        self._plane.turn()


class InOrder(dict[Any, None]):
    """A set that remembers the order, so that what a seed brings about is always the same."""

    def add(self, item: Any) -> None:
        """Take an item in."""
        self[item] = None

    def discard(self, item: Any) -> None:
        """Take it out, if it is there."""
        self.pop(item, None)


class WatchedPlane(DataPlane):
    """A data plane that remembers its exchanges.

    :ivar malformed: heads that never became one.
    :ivar off_target: the ids given to those of them whose target alone was at fault.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.exchanges: list[Exchange] = []
        self.malformed = 0
        self.off_target: list[str] = []

    def head_refusal(self, first: bytes, error: HeadError) -> tuple[int, bytes, bytes]:
        """Answer a malformed head, and count it."""
        self.malformed += 1
        return super().head_refusal(first, error)

    def target_refusal(
        self, head: RequestHead, error: TargetError, peer: str
    ) -> tuple[int, bytes, bytes]:
        """Answer a target that is none, and count it."""
        self.malformed += 1
        answer = super().target_refusal(head, error, peer)
        self.off_target.append(cast(Any, self.access_log).lines[-1].request_id)
        return answer

    def exchange(
        self, head: RequestHead, target: Target, response: Response, peer: str
    ) -> Exchange:
        """Make one, and remember it."""
        exchange = super().exchange(head, target, response, peer)
        self.exchanges.append(exchange)
        return exchange


class MemoryDataPlane:
    """A whole data plane on fakes.

    :ivar events: usage events, oldest first.
    :ivar refused: refusals as (key name, code), oldest first.
    :ivar lines: access log entries.
    :ivar opened: connections to upstreams, oldest first.
    :ivar refusing: names of upstreams that refuse connections.
    :ivar slow: whether connecting waits for the test; see :attr:`connecting`.
    :ivar connecting: attempts to connect that wait or have waited, oldest first.
    """

    def __init__(
        self,
        routes: Sequence[SnapshotRoute] | None = None,
        upstreams: Sequence[SnapshotUpstream] | None = None,
        keys: Sequence[SnapshotKey] | None = None,
        environ: dict[str, str] | None = None,
        *,
        capabilities: Sequence[Capabilities] = (Capabilities(),),
        configured: bool = True,
        shared: SharedUses | None = None,
    ) -> None:
        # What lasts and what is dated go by two clocks, and are not to be mixed up.
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.watchdog = Watchdog(self.clock)
        self.watchdog._timed = cast(Any, InOrder())
        self.events: list[UsageEvent] = []
        self.refused: list[tuple[str, str]] = []
        self.lines: list[AccessLine] = []
        self.opened: list[FakeConnection] = []
        self.connecting: list[Connecting] = []
        self.refusing: set[str] = set()
        self.slow = False
        self._environ = {
            "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
            "UPSTREAM_KEY": SECRET,
            **(environ or {}),
        }
        settings, _ = read_data_settings(self._environ)
        books = Books(self._append, self._refuse)
        self.plane = WatchedPlane(
            settings, self.clock, self.watchdog, books, cast(Any, self), self.wall, shared
        )
        most = settings.max_connections
        if shared is None:
            self.factory = ClientFactory(self.plane, most, lambda: FULL)
        else:
            self.factory = SharedClientFactory(self.plane, most, lambda: FULL, shared)
        self.enabled = True
        self.watchdog.start()
        if configured:
            self.install(
                routes if routes is not None else [route("small", ("u1", "vendor-1"))],
                upstreams if upstreams is not None else [upstream("u1")],
                keys if keys is not None else [key()],
                capabilities=capabilities,
            )

    def install(
        self,
        routes: Sequence[SnapshotRoute],
        upstreams: Sequence[SnapshotUpstream],
        keys: Sequence[SnapshotKey],
        version: str = "1",
        capabilities: Sequence[Capabilities] = (Capabilities(),),
        media_models: Sequence[str] = (),
    ) -> None:
        """Put a snapshot in force."""
        snapshot = Snapshot(
            version=version,
            keys=tuple(keys),
            upstreams=tuple(upstreams),
            capabilities=tuple(capabilities),
            routes=tuple(routes),
            media_models=tuple(media_models),
        )
        self.plane.install(snapshot, self._open_upstream)

    def client(self, address: str | None = None) -> FakeClient:
        """A new client's connection, without an address if none is given."""
        return FakeClient(self.clock, self.factory, address)

    def advance(self, seconds: float, step: float = 0.1) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    def turn(self) -> None:
        """Let the reactor turn once, in no time."""
        self.clock.advance(0)

    @property
    def last(self) -> FakeConnection:
        """The newest connection to an upstream."""
        return self.opened[-1]

    @property
    def busy(self) -> list[FakeConnection]:
        """The connections to upstreams that carry a request."""
        return [c for c in self.opened if c.open and c.protocol.busy]

    @property
    def at(self) -> list[str]:
        """The upstreams that were connected to, in order."""
        return [connection.upstream for connection in self.opened]

    @property
    def outcomes(self) -> list[str]:
        """How the attempts of the newest usage event ended."""
        return [attempt.outcome for attempt in self.events[-1].attempts]

    @property
    def in_flight(self) -> int:
        """Requests that hold a place."""
        return self.plane.admission.in_flight

    def wall(self) -> float:
        """Seconds since 1970."""
        return 1_790_000_000.0 + self.clock.seconds()

    def line(self, entry: AccessLine) -> None:
        """Take a line of the access log."""
        self.lines.append(entry)

    def connected(self, name: str, build: Callable[[], Any]) -> FakeConnection:
        """A connection to an upstream that has just come about."""
        connection = FakeConnection(self.clock, name, build())
        self.opened.append(connection)
        return connection

    def _append(self, line: bytes) -> bool:
        self.events.append(decode_event(line))
        return True

    def _refuse(self, name: str, code: str) -> None:
        self.refused.append((name, code))

    def _open_upstream(self, config: SnapshotUpstream) -> Upstream:
        def connect(build: Callable[[], IProtocol]) -> Deferred[IProtocol]:
            if self.slow:
                waiting = Connecting(self, config.name, build)
                self.connecting.append(waiting)
                return waiting.deferred
            if config.name in self.refusing:
                return fail(ConnectionRefusedError())
            return succeed(self.connected(config.name, build).protocol)

        pool = UpstreamPool(connect, self.watchdog)
        return compile_upstream(config, parse_address(config.base_url), pool, self._environ)


def digest_of(secret: str) -> str:
    """The SHA-256 of a key, as a snapshot has it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key(name: str = "k1", secret: str = KEY, **changes: Any) -> SnapshotKey:
    """A key of the snapshot."""
    facts: dict[str, Any] = {
        "sha256": digest_of(secret),
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
    model: str,
    *targets: tuple[str, str],
    strategy: str = "failover",
    weight: int = 1,
    cache_ttl_s: int = 0,
    caps: int = 0,
) -> SnapshotRoute:
    """A route whose targets are pairs of upstream and model.

    :param caps: the place of the capabilities of them all.
    """
    return SnapshotRoute(
        model=model,
        strategy=cast(Any, strategy),
        cache_ttl_s=cache_ttl_s,
        targets=tuple(
            SnapshotTarget(upstream=name, model=sent, weight=weight, caps=caps)
            for name, sent in targets
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


def get(path: bytes, headers: bytes = b"", method: bytes = b"GET", secret: str = KEY) -> bytes:
    """A request without a body as a client writes it; an empty ``secret`` sends no key."""
    bearer = b"authorization: Bearer %b\r\n" % secret.encode() if secret else b""
    return b"%b %b HTTP/1.1\r\nhost: gateway\r\n%b%b\r\n" % (method, path, bearer, headers)


def reply(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    """A JSON answer as an upstream writes it."""
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b" % (
        status,
        headers,
        len(body),
        body,
    )
