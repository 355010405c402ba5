"""What all exchanges of a data plane share: tables, limits, books, clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from omnigate.config.snapshot import Snapshot, SnapshotUpstream
from omnigate.dialects.endpoints import ANTHROPIC, protocol_at
from omnigate.dialects.held import HeldBytes
from omnigate.errors import GatewayError, envelope
from omnigate.gateway.abandoned import Abandoned
from omnigate.gateway.access_log import AccessLine, AccessLog, level_of, time_text
from omnigate.gateway.admission import Admission
from omnigate.gateway.cache import ResponseCache
from omnigate.gateway.compiling import compile_tables
from omnigate.gateway.exchange import Exchange
from omnigate.gateway.forwards import Forwards
from omnigate.gateway.headers import id_lines
from omnigate.gateway.own_usage import OwnUsage
from omnigate.gateway.parse_memory import ParseMemory
from omnigate.gateway.quirks import QuirkTable
from omnigate.gateway.request_ids import RequestIds
from omnigate.gateway.routing import order
from omnigate.gateway.settle import Books
from omnigate.gateway.shared_limits import SharedAdmission, SharedKeyLimits, SharedParseMemory
from omnigate.gateway.shared_uses import SharedUses
from omnigate.gateway.tables import (
    KeyLimits,
    OpenUpstream,
    Tables,
    Upstream,
    retired_upstreams,
)
from omnigate.gateway.tables import (
    Target as RouteTarget,
)
from omnigate.gateway.trouble import Troubles
from omnigate.protocols.addresses import UpstreamAddress
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.response import Response
from omnigate.protocols.watchdog import Watchdog
from omnigate.reactor_lag import ReactorLag
from omnigate.settings import DataSettings, provider_key
from omnigate.wire.head import HeadError, RequestHead
from omnigate.wire.target import Target, TargetError

MEBIBYTE = 1024 * 1024
USER_AGENT = b"omnigate"


class DataPlane:
    """The data plane without its listener and its background work.

    :param shared: the counters of all workers, where there are several.
    :ivar tables: the config in force, ``None`` before the first snapshot.
    :ivar clock: for everything that lasts; it may count from anywhere.
    :ivar wall: seconds since 1970, for everything that is dated.
    :ivar lag: how long the reactor was held.
    :ivar new_id: gives a request id.
    :ivar installed_at: when the config in force was installed, in seconds since 1970.
    :ivar forwards: sends the jobs API to the control plane; ``None`` where there is none.
    :ivar own_usage: asks what a key has spent; ``None`` where nobody can be asked.
    :ivar draining: a stop was asked for; ``/readyz`` says so.
    """

    log = Logger()

    # By name, since an object with more than thirty attributes is slower to read without.
    __slots__ = (
        "_limits",
        "_proxies",
        "_random",
        "abandoned",
        "access_log",
        "admission",
        "books",
        "cache",
        "client_timeout_seconds",
        "clock",
        "date",
        "debug_headers",
        "draining",
        "forwards",
        "heartbeat_seconds",
        "held",
        "installed_at",
        "lag",
        "max_body_bytes",
        "missing_credentials",
        "new_id",
        "own_usage",
        "parse_memory",
        "quirks",
        "shared",
        "stall_timeout_seconds",
        "started_seconds",
        "stream_idle_seconds",
        "tables",
        "troubles",
        "wall",
        "watchdog",
    )

    def __init__(
        self,
        settings: DataSettings,
        clock: IReactorTime,
        watchdog: Watchdog,
        books: Books,
        access_log: AccessLog,
        wall: Callable[[], float],
        shared: SharedUses | None = None,
    ) -> None:
        self.clock = clock
        self.wall = wall
        self.watchdog = watchdog
        self.date = HttpDate(watchdog, wall)
        self.books = books
        self.access_log = access_log
        self.shared = shared
        bodies, trees = settings.request_memory_mb * MEBIBYTE, settings.parse_memory_mb * MEBIBYTE
        in_flight = settings.max_concurrent_per_key
        if shared is None:
            self.admission = Admission(bodies, in_flight)
            self.parse_memory = ParseMemory(trees)
            self._limits = KeyLimits()
        else:
            self.admission = SharedAdmission(bodies, in_flight, shared)
            self.parse_memory = SharedParseMemory(trees, shared)
            self._limits = SharedKeyLimits(shared)
        self.held = HeldBytes()
        self.abandoned = Abandoned(
            watchdog,
            settings.abort_drain_ms / 1000,
            settings.abort_drain_max_mb * MEBIBYTE,
            self.held,
        )
        self.client_timeout_seconds = settings.client_timeout_ms / 1000
        self.stall_timeout_seconds = settings.client_stall_timeout_ms / 1000
        self.stream_idle_seconds = settings.stream_idle_timeout_ms / 1000
        self.heartbeat_seconds = settings.heartbeat_ms / 1000
        self.max_body_bytes = settings.max_request_mb * MEBIBYTE
        self.debug_headers = settings.debug_headers
        self.started_seconds = int(wall())
        self.cache = ResponseCache()
        self.quirks = QuirkTable()
        self.lag = ReactorLag(clock)
        self.troubles = Troubles(clock)
        self.tables: Tables | None = None
        self.installed_at: float | None = None
        self.missing_credentials = 0
        self.draining = False
        self.forwards: Forwards | None = None
        self.own_usage: OwnUsage | None = None
        self.new_id = RequestIds().take
        # Nobody's word is asked for where nobody is trusted.
        self._proxies = settings.trusted_proxies or None
        self._random = random.Random(random.SystemRandom().getrandbits(256))

    def exchange(
        self, head: RequestHead, target: Target, response: Response, peer: str
    ) -> Exchange:
        """An exchange for a well-formed head."""
        if self._proxies is not None:
            peer = self._client_of(head, peer)
        return Exchange(self, head, target, response, peer)

    def _client_of(self, head: RequestHead, peer: str) -> str:
        """The address of a request's client, which may not be who opened the connection."""
        told = head.headers.get(b"x-forwarded-for")
        assert self._proxies is not None
        return self._proxies.client(peer, () if told is None else (told,))

    def head_refusal(self, first: bytes, error: HeadError) -> tuple[int, bytes, bytes]:
        """The answer to a head that cannot be trusted; it has no request id."""
        path = first.partition(b" ")[2].decode("latin-1")
        refusal = GatewayError(error.code, error.message, status=error.status)
        self.books.refusal("", error.code, refusal.kind.status)
        return (
            refusal.kind.status,
            b"content-type: application/json\r\n",
            envelope(protocol_at(path, ()), refusal, ""),
        )

    def target_refusal(
        self, head: RequestHead, error: TargetError, peer: str
    ) -> tuple[int, bytes, bytes]:
        """The answer to a sound head with a target that is none; with an id and a log line.

        It is what an application with a wrong base URL meets first.
        """
        refusal = GatewayError(error.code, error.message, status=error.status)
        if self._proxies is not None:
            peer = self._client_of(head, peer)
        request_id = self.new_id()
        status = refusal.kind.status
        # Without the query: whatever is in it is not for a log.
        path = head.target.partition(b"?")[0].decode("latin-1")
        body = envelope(protocol_at(path, head.headers), refusal, request_id)
        self.books.refusal("", error.code, status)
        if self.access_log.enabled:
            self.access_log.line(
                AccessLine(
                    ts=time_text(self.wall()),
                    level=level_of(status, error.code),
                    request_id=request_id,
                    key=None,
                    method=head.method.decode("latin-1"),
                    path=path,
                    route=None,
                    model=None,
                    upstream=None,
                    status=status,
                    error_code=error.code,
                    stream=False,
                    input_tokens=0,
                    output_tokens=0,
                    cached_input_tokens=0,
                    first_byte_ms=None,
                    duration_ms=0,
                    attempts=0,
                    bytes_in=head.content_length,
                    bytes_out=0 if head.method == b"HEAD" else len(body),
                    client=peer,
                    estimated=False,
                )
            )
        lines = b"content-type: application/json\r\n%b" % id_lines(request_id.encode("ascii"))
        return status, lines, body

    def ordered(
        self, strategy: str, targets: Sequence[RouteTarget], turn: int
    ) -> list[RouteTarget]:
        """The targets in the order to try them."""
        return order(strategy, targets, turn, self.clock.seconds(), self._random.random)

    def unready(self) -> str | None:
        """Why requests cannot be served, or ``None``."""
        if self.draining:
            return "draining"
        if self.tables is None:
            return "no configuration yet"
        return None

    def install(self, snapshot: Snapshot, open_upstream: OpenUpstream) -> None:
        """Put a snapshot in force, all at once."""
        for _ in self.installing(snapshot, open_upstream):
            pass

    def installing(
        self, snapshot: Snapshot, open_upstream: OpenUpstream
    ) -> Generator[None, None, None]:
        """Put a snapshot in force in slices: it is once the generator is at its end, not before.

        Requests under way keep the tables they began with.
        """
        before = self.tables
        now = self.clock.seconds()
        tables = yield from compile_tables(snapshot, before, open_upstream, now, self._limits)
        self.tables = tables
        self._limits.keep(tables.identities)
        self.installed_at = self.wall()
        self.troubles.keep(tables)
        self.missing_credentials = sum(
            upstream.missing is not None for upstream in tables.upstreams.values()
        )
        for upstream in retired_upstreams(before, tables):
            upstream.pool.close()

    def figures(self) -> dict[str, float]:
        """What the data plane tells of itself; the control plane shows it in a scrape."""
        return {
            "requests_in_flight": self.admission.in_flight,
            "request_memory_bytes": self.admission.memory_bytes,
            "parse_memory_bytes": self.parse_memory.bytes,
            "held_answer_bytes": self.held.bytes,
            "abandoned_answers": len(self.abandoned),
            "cache_answers": len(self.cache),
            "cache_bytes": self.cache.bytes,
            "missing_credentials": self.missing_credentials,
            "reactor_lag_seconds": round(self.lag.worst_seconds(), 6),
        }

    def close(self) -> None:
        """Close the connections that are kept."""
        if self.tables is not None:
            for upstream in self.tables.upstreams.values():
                upstream.pool.close()


def compile_upstream(
    config: SnapshotUpstream,
    address: UpstreamAddress,
    pool: UpstreamPool,
    environ: Mapping[str, str],
) -> Upstream:
    """An upstream as requests use it, with its credential out of the environment.

    :param address: where ``config.base_url`` leads.
    """
    secret = ""
    missing = None
    if config.api_key_env is not None:
        secret = provider_key(environ, config.api_key_env) or ""
        missing = None if secret else config.api_key_env
    lines = (
        b"host: %b\r\nuser-agent: %b\r\naccept-encoding: identity\r\n"
        b"content-type: application/json\r\n" % (address.authority, USER_AGENT)
    )
    key = secret.encode("latin-1")
    if key:
        if config.protocol == ANTHROPIC:
            lines += b"x-api-key: %b\r\n" % key
        else:
            lines += b"authorization: Bearer %b\r\n" % key
    return Upstream(
        config=config,
        pool=pool,
        secret=key,
        missing=missing,
        lines=lines,
        path=address.base_path.encode("ascii"),
        drop_betas=frozenset(beta.encode("ascii") for beta in config.drop_betas),
        head_timeout_seconds=config.head_timeout_ms / 1000,
    )
