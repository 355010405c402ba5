"""The data plane without sockets: exchanges as its protocols see them, one after the other.

Everything is there that an exchange goes through but the reactor, the transports and the spool's
file: head, key, limits, scan, pool, relay or translation, usage, its event as bytes, metrics, and
the line of the access log with its encoding. What the provider sends is prepared, and what the
client gets is thrown away, but for one exchange at the beginning, which is judged like any other
answer of the benchmark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import Clock

from bench import messages, traffic
from bench.answers import AnswerReader, ExactPayload, Payload
from omnigate.config.schema import load_config
from omnigate.config.snapshot import SnapshotKey, SnapshotUpstream, build_snapshot
from omnigate.gateway.access_log import AccessLog
from omnigate.gateway.plane import DataPlane, compile_upstream
from omnigate.gateway.settle import Books
from omnigate.gateway.tables import Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.client import ClientFactory
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.watchdog import Watchdog
from omnigate.settings import read_data_settings
from omnigate.testing.writer import SynchronousWriter

#: What a transport hands on at a time.
READ_BYTES: Final = 65536

#: Exchanges between two turns of the clock: about as many as a busy plane does in a sweep.
TURN_EXCHANGES: Final = 100

_TURN_SECONDS = 0.2
_MAX_TURNS = 1000  # the preparation of a megabyte takes about ten
_CLIENT_KEY = "bench-0123456789abcdef0123456789abcdef"
_PROVIDER_KEY = "sk-bench-0123456789abcdef"
_WALL = 1_793_000_000.0


class WrongExchangeError(Exception):
    """An exchange in memory did not do what it should; the text says what."""


class Sink:
    """A transport that takes everything at once.

    :ivar kept: what was written, while it is kept; ``None`` throws it away.
    :ivar size: how many bytes were written.
    """

    def __init__(self) -> None:
        self.kept: list[bytes] | None = None
        self.size = 0
        self.disconnecting = False
        self.ended = False

    def write(self, data: bytes) -> None:
        """Count it."""
        self.size += len(data)
        if self.kept is not None:
            self.kept.append(data)

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Nothing waits here."""

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Nothing is ever paused."""

    def unregisterProducer(self) -> None:
        """Nothing is ever paused."""

    def pauseProducing(self) -> None:
        """What comes is pushed in by hand."""

    def resumeProducing(self) -> None:
        """What comes is pushed in by hand."""

    def loseConnection(self) -> None:
        """Remember that it was to end."""
        self.ended = True

    def abortConnection(self) -> None:
        """Remember that it was to end."""
        self.ended = True


@attrs.frozen(kw_only=True)
class Course:
    """One kind of exchange.

    :ivar request: the client's bytes, read by read.
    :ivar answer: the provider's, read by read.
    :ivar payload: makes what judges the client's answer.
    :ivar units: requests or events in it.
    """

    name: str
    title: str
    unit: str
    request: list[bytes]
    answer: list[bytes]
    payload: Callable[[], Payload]
    units: int


class MemoryGateway:
    """A data plane and the two ends of one connection on either side.

    :ivar events: usage events so far, as a spool would be given them.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.events = 0
        self._refusal = ""
        watchdog = Watchdog(self.clock)
        environ = {"OMNIGATE_INTERNAL_TOKEN": "i" * 24, "BENCH_PROVIDER_KEY": _PROVIDER_KEY}
        settings, _ = read_data_settings(environ)
        log = AccessLog("/dev/null", SynchronousWriter(), self.clock)
        log.start()
        self._log = log
        books = Books(self._append, self._refused)
        self.plane = DataPlane(settings, self.clock, watchdog, books, log, self._wall)
        self._environ = environ
        self._upstreams: list[Any] = []
        watchdog.start()
        config = load_config(
            config_text(_CLIENT_KEY, "http://127.0.0.1:1", "https://127.0.0.1:1", "/none")
        )
        keys = [
            SnapshotKey(
                sha256=key.key_sha256 or "",
                name=key.name,
                rpm=key.rpm,
                models=key.models,
                blocked=False,
                max_concurrent=key.max_concurrent,
            )
            for key in config.keys
        ]
        self.plane.install(build_snapshot(config, keys), self._open_upstream)
        factory = ClientFactory(self.plane, settings.max_connections, lambda: b"")
        self._client_wire = Sink()
        self.client = cast(Any, factory.buildProtocol(None))
        self.client.makeConnection(self._client_wire)

    def close(self) -> None:
        """Close what it opened."""
        self._log.stop()

    def run(self, course: Course, times: int) -> None:
        """Do an exchange so many times."""
        client, request, answer = self.client.dataReceived, course.request, course.answer
        for at in range(times):
            for data in request:
                client(data)
            provider = self._asked().dataReceived
            for data in answer:
                provider(data)
            if at % TURN_EXCHANGES == 0:
                self.clock.advance(_TURN_SECONDS)

    def prove(self, course: Course) -> None:
        """Do it once and judge all that came of it.

        :raises WrongExchangeError: the answer is wrong, or its usage was not told
        :raises bench.answers.WrongAnswerError: the answer is not the right one
        """
        before = self.events
        self._client_wire.kept = []
        self.run(course, 1)
        kept, self._client_wire.kept = self._client_wire.kept, None
        reader = AnswerReader(course.payload())
        for data in kept:
            reader.feed(data, 0)
        if not reader.ended:
            raise WrongExchangeError(f"{course.name}: the answer did not end")
        if self.events != before + 1:
            raise WrongExchangeError(f"{course.name}: no usage event came of it")

    def _asked(self) -> Any:
        """Return the connection that carries the request; a long one may take turns to prepare."""
        for _ in range(_MAX_TURNS):
            for upstream in self._upstreams:
                if upstream.busy:
                    return upstream
            self._turn()
        raise WrongExchangeError(f"no provider was asked{self._refusal}")

    def _turn(self) -> None:
        self.clock.advance(0.0)

    def _wall(self) -> float:
        return _WALL + self.clock.seconds()

    def _append(self, line: bytes) -> bool:
        self.events += 1
        return True

    def _refused(self, name: str, code: str) -> None:
        self._refusal = f", for a request was refused: {code}"

    def _open_upstream(self, config: SnapshotUpstream) -> Upstream:
        def connect(build: Callable[[], IProtocol]) -> Deferred[IProtocol]:
            protocol = build()
            self._upstreams.append(protocol)
            cast(Any, protocol).makeConnection(Sink())
            return succeed(protocol)

        pool = UpstreamPool(connect, self.plane.watchdog)
        return compile_upstream(config, parse_address(config.base_url), pool, self._environ)


def config_text(client_key: str, provider: str, secure: str, ca_file: str) -> str:
    """Return the config of the benchmark: one key with every limit, a provider, two protocols.

    :param provider: scheme, host and port of the provider; ``secure`` the same behind TLS.
    :param ca_file: the authority of the latter.
    """
    digest = hashlib.sha256(client_key.encode("ascii")).hexdigest()
    parts = [
        f'[[keys]]\nname = "bench"\nkey_sha256 = "{digest}"\nrpm = {RPM}\n'
        f'models = ["bench-*"]\nmax_concurrent = {MAX_CONCURRENT}\nbudget_usd = 1000000'
    ]
    for name, protocol, base, more in (
        ("provider", "openai", provider, ""),
        ("secure", "openai", secure, f'\nca_file = "{ca_file}"'),
        ("other", "anthropic", provider, ""),
    ):
        parts.append(
            f'[[upstreams]]\nname = "{name}"\nprotocol = "{protocol}"\n'
            f'base_url = "{base}/v1"\napi_key_env = "{PROVIDER_KEY_VARIABLE}"{more}'
        )
    for kind, model in traffic.CLIENT_MODELS.items():
        name = "other" if kind in traffic.TRANSLATED else "provider"
        name = "secure" if kind in traffic.SECURE else name
        parts.append(
            f'[[routes]]\nmodel = "{model}"\n  [[routes.targets]]\n  upstream = "{name}"\n'
            f'  model = "{traffic.UPSTREAM_MODELS[kind]}"\n'
            "  price = { input = 0.15, output = 0.60 }"
        )
    return "\n\n".join(parts) + "\n"


#: High enough never to refuse, so that the limits are counted like any other.
RPM: Final = 10_000_000
MAX_CONCURRENT: Final = 2_000
PROVIDER_KEY_VARIABLE: Final = "BENCH_PROVIDER_KEY"


def courses() -> list[Course]:
    """Return what is measured, the plainest first."""
    events = traffic.BURST_EVENTS
    burst = traffic.burst_answer(True)
    told = messages.stream_answer()
    return [
        _course("exchange", "one exchange, passed on", "whole", 1024, traffic.whole_answer()),
        _course("event", f"one event of {events} in one write", "burst", 1024, burst, events),
        Course(
            name="paced",
            title="one event by itself",
            unit="event",
            request=_reads(_request("burst", 1024)),
            answer=_event_by_event(burst),
            payload=lambda: ExactPayload(traffic.burst_payload(with_usage=False)),
            units=events,
        ),
        _course("translated", "one exchange, translated", "xwhole", 1024, messages.whole_answer()),
        _course("xevent", "one translated event", "xburst", 1024, told, events),
        _course("large", "a request of 1 MB", "whole", 1 << 20, traffic.whole_answer()),
        _course("answer1m", "an answer of 1 MB", "whole1m", 1024, traffic.whole_answer("whole1m")),
    ]


def _course(name: str, title: str, kind: str, size: int, answer: bytes, units: int = 1) -> Course:
    return Course(
        name=name,
        title=title,
        unit="event" if units > 1 else "request",
        request=_reads(_request(kind, size)),
        answer=_reads(answer),
        payload=payload_of(kind),
        units=units,
    )


def payload_of(kind: str) -> Callable[[], Payload]:
    """Return what makes the judge of one answer of a kind that needs no clock."""
    if kind in traffic.TRANSLATED:
        return lambda: messages.ToldPayload(kind in traffic.STREAMS)
    expected = (
        traffic.burst_payload(with_usage=False) if kind == "burst" else traffic.whole_body(kind)
    )
    return lambda: ExactPayload(expected)


def _request(kind: str, size: int) -> bytes:
    return traffic.request_bytes(kind, size, 8080, _CLIENT_KEY)


def _reads(data: bytes) -> list[bytes]:
    return [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]


def _event_by_event(answer: bytes) -> list[bytes]:
    """Cut a stream where each of its chunks ends; the head comes with the first."""
    head, _, body = answer.partition(b"\r\n\r\n")
    chunks = [part + b"\n\n\r\n" for part in body.split(b"\n\n\r\n")]
    return [head + b"\r\n\r\n" + chunks[0], *chunks[1:-1], chunks[-1][:-4]]
