# mypy: allow-untyped-calls
# (twisted's services carry no types)
"""The data plane as a Twisted service: starts its parts in order, drains them at the end.

Start: spool read back, background work begun, the last snapshot taken from the cache file,
listener opened.  Stop: no new connections, idle ones closed, requests in flight given their grace,
abandoned answers ended, usage delivered once more.  In a hurry, the grace is over at once and
nothing is delivered: what was used is in the spool, for the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamServerEndpoint
from twisted.logger import Logger

import omnigate
from omnigate import systemd_notify
from omnigate.config.snapshot import Snapshot, SnapshotUpstream
from omnigate.daemon_service import Certificate, DaemonService, Ending, Listener
from omnigate.errors import GatewayError, openai_envelope
from omnigate.gateway.access_log import AccessLog
from omnigate.gateway.attesting import Attesting
from omnigate.gateway.config_pull import ConfigPull
from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.delivery import Delivery
from omnigate.gateway.figure_teller import FigureTeller
from omnigate.gateway.outage import Outage, told_connect
from omnigate.gateway.plane import DataPlane, compile_upstream
from omnigate.gateway.shared_limits import SharedClientFactory
from omnigate.gateway.spool import Spool
from omnigate.gateway.tables import Upstream
from omnigate.gateway.worker_spools import LeftSpools
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.client import ClientFactory
from omnigate.protocols.connector import forget_tls_contexts
from omnigate.protocols.pool import Connect, UpstreamPool
from omnigate.protocols.response import status_line
from omnigate.protocols.upstream import UpstreamConnection
from omnigate.settings import DataSettings
from omnigate.writer_thread import IWriter

#: How often a drain looks whether all requests have ended, in seconds.
_DRAIN_LOOK_SECONDS = 0.05
#: What a stop may take after the grace: the last delivery and the closing of files.
_AFTER_GRACE_SECONDS = 15


@attrs.define(eq=False)
class DataParts:
    """What the service starts and stops.

    :ivar connect: opens connections to an upstream, as
        :func:`omnigate.protocols.connector.connect` does, reactor and address already given.
    :ivar teller: tells the parent of a worker what was counted.
    :ivar left: delivers what a run with more workers left.
    :ivar pull: brings the config; it needs :meth:`DataService.install`, so it is given last.
    """

    plane: DataPlane
    spool: Spool
    delivery: Delivery
    client: ControlClient
    access_log: AccessLog
    endpoint: IStreamServerEndpoint
    connect: Callable[[SnapshotUpstream], Connect]
    writers: tuple[IWriter, ...]
    attesting: Attesting
    left: LeftSpools | None = None
    teller: FigureTeller | None = None
    pull: ConfigPull | None = None

    @property
    def certificate(self) -> Certificate | None:
        """What the port serves TLS with, where that can be renewed."""
        return getattr(self.endpoint, "certificate", None)


class DataService(DaemonService):
    """Owns everything of a data plane that lives as long as the process.

    :param listen_fault: writes the line for an address that cannot be listened on.
    """

    log = Logger()

    def __init__(
        self,
        parts: DataParts,
        settings: DataSettings,
        clock: IReactorTime,
        environ: Mapping[str, str],
        ending: Ending,
        listen_fault: Callable[[BaseException | None], str],
    ) -> None:
        plane, most = parts.plane, settings.max_connections
        if plane.shared is None:
            self.factory = ClientFactory(plane, most, self._turn_away)
        else:
            self.factory = SharedClientFactory(plane, most, self._turn_away, plane.shared)
        listener = Listener(parts.endpoint, self.factory, listen_fault)
        super().__init__(listener, clock, environ, ending)
        self.parts = parts
        self.metrics: Listener | None = None
        self._scrapers: ClientFactory | None = None
        self._settings = settings
        self._hurried = False

    def _turn_away(self) -> bytes:
        """Count a connection beyond the cap, and say what it is told."""
        self.parts.plane.books.refusal("", "overloaded", 503)
        return full_answer()

    # -- start

    def serve_metrics(
        self,
        endpoint: IStreamServerEndpoint,
        factory: ClientFactory,
        listen_fault: Callable[[BaseException | None], str],
    ) -> None:
        """Have a second listener, for metrics; said before the start."""
        self._scrapers = factory
        self.metrics = Listener(endpoint, factory, listen_fault)

    def privilegedStartService(self) -> None:
        """Open the listeners, or end the start with a line that says why not."""
        super().privilegedStartService()
        if self.metrics is not None:
            self.metrics.open(self.ending)

    def startService(self) -> None:
        """Start what works in the background; the config comes from the cache file, or soon."""
        super().startService()
        parts = self.parts
        self.ending.watch()
        self.ending.on_hangup(self.reopen)
        self.ending.on_hurry(self.hurry)
        parts.plane.watchdog.start()
        parts.plane.lag.start()
        try:
            parts.access_log.start()
        except OSError as error:
            self.ending.fail_start(
                f"{self._settings.access_log}: the access log cannot be opened "
                f"({error.strerror or error}); name a file that this user may write in "
                "OMNIGATE_ACCESS_LOG, or - for standard output"
            )
        parts.delivery.start()
        if parts.left is not None:
            parts.left.start()
        if parts.teller is not None:
            parts.teller.start()
        if self.metrics is not None:
            self.log.info("metrics at {address}/metrics", address=self.metrics.address)
        self.log.info(
            "omnigate-data {version} listens on {address}; control plane at {control}; "
            "{waiting} usage events wait in {spool}",
            version=omnigate.__version__,
            address=self.listener.address,
            control=self._settings.control_url,
            waiting=parts.spool.count,
            spool=parts.spool.path,
        )
        self.start_watchdog()
        if parts.pull is not None:
            parts.pull.start()
            parts.pull.first_snapshot().addCallback(lambda _: self.notify(systemd_notify.READY))

    # -- while it runs

    def reopen(self) -> None:
        """Take up files that were replaced, as SIGHUP asks for: log, certificate, authorities."""
        self.parts.access_log.reopen()
        self.listener.reread()
        forget_tls_contexts()

    def install(self, snapshot: Snapshot) -> Generator[None, None, None]:
        """Put a snapshot in force in slices, and say what it brings and what it lacks."""
        yield from self.parts.plane.installing(snapshot, self._open_upstream)
        tables = self.parts.plane.tables
        assert tables is not None
        self.log.info(
            "config {version} in force: {keys} keys, {upstreams} upstreams, {routes} models",
            version=tables.version[:12],
            keys=len(tables.identities),
            upstreams=len(tables.upstreams),
            routes=len(tables.routes),
        )
        for name, upstream in tables.upstreams.items():
            if upstream.missing is not None:
                self.log.error(
                    "upstream {name}: the variable {variable} is not set here, so its requests "
                    "would be refused; set it in the data plane's environment and restart",
                    name=name,
                    variable=upstream.missing,
                )
        self.notify(f"STATUS={len(tables.identities)} keys, {len(tables.routes)} models in force")

    def _open_upstream(self, config: SnapshotUpstream) -> Upstream:
        address = parse_address(config.base_url, config.proxy, config.ca_file)
        outage = Outage(self.log, f"upstream {config.name} cannot be reached", self.clock)
        attesting = self.parts.attesting
        pool = UpstreamPool(
            told_connect(self.parts.connect(config), outage),
            self.parts.plane.watchdog,
            attesting.connection if config.attestation else UpstreamConnection,
        )
        return compile_upstream(config, address, pool, self._environ)

    # -- stop

    def stopService(self) -> Deferred[None]:
        """Drain, deliver, close."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    def hurry(self) -> None:
        """Give nothing any more time: neither requests in flight nor the last delivery."""
        self._hurried = True
        self.parts.delivery.give_up()

    async def _stop(self) -> None:
        parts = self.parts
        grace = self._settings.shutdown_grace_ms / 1000
        self.notify(
            f"{systemd_notify.STOPPING}\n"
            f"EXTEND_TIMEOUT_USEC={int((grace + _AFTER_GRACE_SECONDS) * 1_000_000)}"
        )
        parts.plane.draining = True
        await self.listener.close()
        if parts.pull is not None:
            await parts.pull.stop()
        await self._drain(grace)
        parts.plane.abandoned.stop()
        parts.attesting.stop()
        if parts.left is not None:
            await parts.left.stop()
        await parts.delivery.stop()
        parts.spool.close()
        await parts.access_log.stop()
        await parts.client.close()
        await self._stop_metrics()
        if parts.teller is not None:
            await parts.teller.stop()
        for writer in parts.writers:
            await writer.stop()
        parts.plane.close()
        parts.plane.watchdog.stop()
        parts.plane.lag.stop()
        self.stop_watchdog()
        self.ending.stopped()
        self.log.info("omnigate-data has stopped")

    async def _stop_metrics(self) -> None:
        """Late, since how a drain gets on is worth a scrape."""
        if self.metrics is not None and self._scrapers is not None:
            await self.metrics.close()
            for connection in list(self._scrapers.connections):
                connection.cut()

    async def _drain(self, grace_seconds: float) -> None:
        """Let requests in flight end; cut those that do not."""
        for connection in list(self.factory.connections):
            connection.stop_after_answer()
        waiting = self.factory.busy()
        if waiting and not self._hurried:
            self.log.info(
                "omnigate-data stops: requests in flight ({count}) may take up to {grace:g} s to "
                "end; another signal ends them at once",
                count=waiting,
                grace=grace_seconds,
            )
        give_up_at = self.clock.seconds() + grace_seconds
        while self.factory.busy() and self.clock.seconds() < give_up_at and not self._hurried:
            await self._pause(_DRAIN_LOOK_SECONDS)
        cut = self.factory.busy()
        if cut:
            self.log.warn("{count} requests did not end in time; they are cut", count=cut)
        for connection in list(self.factory.connections):
            connection.cut()
        # One turn, in which the cut connections tell their exchanges.
        await self._pause(0.0)

    def _pause(self, seconds: float) -> Deferred[None]:
        paused: Deferred[None] = Deferred()
        self.clock.callLater(seconds, paused.callback, None)
        return paused


def full_answer() -> bytes:
    """The answer to a connection beyond the cap; without a request id, since nothing was read."""
    error = GatewayError("overloaded", "the gateway has no room for more connections; try again")
    body = openai_envelope(error.kind, error.message)
    return (
        b"%bcontent-type: application/json\r\ncontent-length: %d\r\nretry-after: 1\r\n"
        b"connection: close\r\n\r\n%b" % (status_line(error.kind.status), len(body), body)
    )
