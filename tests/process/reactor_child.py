"""Plays scenes through a data plane on real loopback sockets, on the reactor that is named.

``python -m tests.process.reactor_child [omnigate]`` prints one JSON object: what each scene
came to. It is the same on every reactor, which is the point.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

if sys.argv[1:] == ["omnigate"]:
    from omnigate.protocols import lean_reactor

    lean_reactor.install()

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import ClientFactory as DialingFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import Snapshot, SnapshotUpstream
from omnigate.gateway.plane import DataPlane, compile_upstream
from omnigate.gateway.settle import Books
from omnigate.gateway.tables import Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.client import ClientFactory
from omnigate.protocols.connector import connect
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.upstream import UpstreamConnection
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import read_data_settings
from tests.planes.memory import FULL, SECRET, key, reply, request, route, upstream
from tests.planes.reading import read_answers
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    STREAM_HEAD,
    chunk,
    delta,
)

reactor: Any = the_reactor
#: A stream of several megabytes: more than all buffers between two sockets hold.
BIG = STREAM_HEAD + chunk(delta(b"x" * 60_000)) * 100 + chunk(CLOSING) + END


class Provider(Protocol):
    """An upstream that answers each request with what stands in its model's name."""

    def __init__(self) -> None:
        self._buffer = b""

    def dataReceived(self, data: bytes) -> None:
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
        if not blank or len(rest) < length:
            return
        self._buffer = rest[length:]
        wire: Any = self.transport
        if b"fast" in rest:
            wire.write(reply(ANSWER))
        elif b"big" in rest:
            wire.write(BIG)
        elif b"cut" in rest:
            wire.write(STREAM_HEAD + chunk(delta(b"Hi")))
            reactor.callLater(0.3, wire.abortConnection)
        elif b"slow" in rest:
            wire.write(STREAM_HEAD + chunk(delta(b"Hi")))
            reactor.callLater(0.3, wire.write, chunk(CLOSING) + END)
        elif b"close" in rest:
            wire.loseConnection()


class Client(Protocol):
    """A client that sends what it is given and collects what it gets.

    :ivar pause: seconds for which it reads nothing at first.
    :ivar leave_at: it leaves once it has so many bytes.
    """

    def __init__(self, data: bytes, pause: float, leave_at: int) -> None:
        self._data = data
        self._pause = pause
        self._leave_at = leave_at
        self.received = b""
        self.ended: Deferred[tuple[bytes, str]] = Deferred()

    def connectionMade(self) -> None:
        wire: Any = self.transport
        wire.write(self._data)
        if self._pause:
            wire.pauseProducing()
            reactor.callLater(self._pause, wire.resumeProducing)

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        if len(self.received) >= self._leave_at:
            wire: Any = self.transport
            wire.abortConnection()

    def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]
        how = "closed" if reason.check(ConnectionDone) else "reset"
        self.ended.callback((self.received, how))


class Stage:
    """The plane, its upstream, and the clients of one run."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.refused: list[str] = []
        environ = {
            "OMNIGATE_INTERNAL_TOKEN": "internal-token-0123456789",
            "OMNIGATE_ACCESS_LOG": "off",
            "OMNIGATE_CLIENT_TIMEOUT_MS": "1000",
            "UPSTREAM_KEY": SECRET,
        }
        settings, _ = read_data_settings(environ)
        self.watchdog = Watchdog(reactor)
        self.watchdog.start()
        books = Books(self.append, lambda name, code: self.refused.append(code))

        class NoLog:
            enabled = False

        log: Any = NoLog()
        self.plane = DataPlane(settings, reactor, self.watchdog, books, log, time.time)
        self.factory = ClientFactory(self.plane, 50, lambda: FULL)
        self.port = reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        provider = reactor.listenTCP(0, Factory.forProtocol(Provider), interface="127.0.0.1")
        address = f"http://127.0.0.1:{provider.getHost().port}/v1"
        models = ("fast", "big", "cut", "slow", "close")
        self.plane.install(
            Snapshot(
                version="1",
                keys=(key(),),
                upstreams=(
                    upstream("u1", base_url=address),
                    upstream("nobody", base_url="http://127.0.0.1:1/v1"),
                ),
                capabilities=(Capabilities(),),
                routes=(
                    *[route(model, ("u1", model)) for model in models],
                    route("refused", ("nobody", "x"), ("u1", "fast")),
                ),
                media_models=(),
            ),
            self.open_upstream,
        )
        self._environ = environ

    def append(self, line: bytes) -> bool:
        event = json.loads(line)
        outcomes = [attempt["outcome"] for attempt in event["attempts"]]
        self.events.append(
            {"status": event["status"], "estimated": event["estimated"], "outcomes": outcomes}
        )
        return True

    def open_upstream(self, config: SnapshotUpstream) -> Upstream:
        address = parse_address(config.base_url)
        pool = UpstreamPool(lambda build: connect(reactor, address, build, 2.0), self.watchdog)
        return compile_upstream(config, address, pool, {"UPSTREAM_KEY": SECRET})

    def client(
        self, data: bytes, pause: float = 0.0, leave_at: int = 1 << 40
    ) -> Deferred[tuple[bytes, str]]:
        """Play one client to the end of its connection."""
        client = Client(data, pause, leave_at)
        factory = DialingFactory()
        factory.protocol = lambda: client
        factory.noisy = False
        reactor.connectTCP("127.0.0.1", self.port.getHost().port, factory)
        return client.ended


def ask(model: bytes, *, body: bytes = CHAT_STREAM, last: bool = True) -> bytes:
    """A request for a model; the last one of its connection."""
    headers = b"connection: close\r\n" if last else b""
    return request(body.replace(b"small", model), headers=headers)


async def play(stage: Stage) -> dict[str, Any]:
    """All scenes, one after the other."""
    results: dict[str, Any] = {}

    async def scene(name: str, data: bytes, pause: float = 0.0, leave_at: int = 1 << 40) -> None:
        before, refused = len(stage.events), len(stage.refused)
        received, how = await stage.client(data, pause, leave_at)
        for _ in range(100):
            if stage.plane.admission.in_flight == 0:
                break
            await pass_time(0.02)
        answers = [] if leave_at < 1 << 40 else read_answers(received, how != "closed")
        results[name] = {
            "answers": [[a.status, a.whole, len(a.body)] for a in answers],
            "end": how,
            "events": stage.events[before:],
            "refused": stage.refused[refused:],
            "in flight": stage.plane.admission.in_flight,
        }

    await scene("whole", ask(b"fast", body=CHAT))
    await scene("pipelined", ask(b"fast", body=CHAT, last=False) * 20 + ask(b"fast", body=CHAT))
    await scene("slow reader", ask(b"big"), pause=0.4)
    await scene("stream", ask(b"slow"))
    await scene("cut", ask(b"cut"))
    await scene("client leaves", ask(b"slow"), leave_at=1)
    await scene("client leaves a big one", ask(b"big"), leave_at=200_000)
    await scene("stale and closed", ask(b"fast", body=CHAT, last=False) + ask(b"close", body=CHAT))
    await scene("refused", ask(b"refused", body=CHAT))
    await scene("unread body", request(b"x" * 3_000_000, b"/nowhere"))
    await scene("garbage", b"garbage\r\n\r\n" + b"x" * 500_000)
    await scene("half a head", b"POST /v1/chat")
    idle = [c for c in stage.watchdog._timed if isinstance(c, UpstreamConnection) and c.usable]
    results["watched"] = len(stage.watchdog) - len(idle)
    return results


def pass_time(seconds: float) -> Deferred[None]:
    """Fire after a while."""
    passed: Deferred[None] = Deferred()
    reactor.callLater(seconds, passed.callback, None)
    return passed


def main() -> None:
    """Play, print, end."""

    def tell(results: dict[str, Any]) -> None:
        json.dump({"reactor": type(reactor).__name__, "scenes": results}, sys.stdout)

    def stop(result: object) -> None:
        if isinstance(result, Failure):
            result.printTraceback(sys.stderr)
        reactor.stop()

    begin: Callable[[], object] = lambda: (  # noqa: E731
        Deferred.fromCoroutine(play(Stage())).addCallback(tell).addBoth(stop)
    )
    reactor.callWhenRunning(begin)
    reactor.run()


if __name__ == "__main__":
    main()
