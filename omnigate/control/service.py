# mypy: allow-untyped-calls
# (twisted's services, options and endpoint strings carry no types)
"""The control plane as a service: listens, loads the ledger, is ready, and stops in order.

It listens before the ledger is loaded, so that probes and data planes get an answer (``503``) in
the meantime. *Ready* is both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamServerEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

import omnigate
from omnigate import systemd_notify
from omnigate.control.audit import AuditLog
from omnigate.control.config_file import SIGNAL, Cause, ConfigFile
from omnigate.control.health import STOPPING, Health
from omnigate.control.keys import KeyBook
from omnigate.control.metrics import ControlMetrics
from omnigate.control.snapshots import Snapshots
from omnigate.daemon_service import DaemonService, Ending, Listener
from omnigate.files import IWriter
from omnigate.ledger.service import Ledger
from omnigate.reactor_lag import ReactorLag


@attrs.define(eq=False)
class ControlParts:
    """What the service starts and stops.

    :ivar stays: called when much was made that stays in memory: the parts, the loaded ledger.
    """

    endpoint: IStreamServerEndpoint
    factory: Factory
    health: Health
    audit: AuditLog
    ledger: Ledger
    config_file: ConfigFile
    book: KeyBook
    metrics: ControlMetrics
    snapshots: Snapshots
    lag: ReactorLag
    writers: tuple[IWriter, ...]
    release_state: Callable[[], None]
    stays: Callable[[], None] = lambda: None


class ControlService(DaemonService):
    """The control plane.

    :param listen_fault: writes the line for an address that cannot be listened on.
    """

    log = Logger()

    def __init__(
        self,
        parts: ControlParts,
        clock: IReactorTime,
        environ: Mapping[str, str],
        ending: Ending,
        listen_fault: Callable[[BaseException | None], str],
    ) -> None:
        listener = Listener(parts.endpoint, parts.factory, listen_fault)
        super().__init__(listener, clock, environ, ending)
        self._parts = parts
        self._stopping = False

    # -- start --------------------------------------------------------------------------------

    def startService(self) -> None:
        """Load the ledger and watch the config file."""
        super().startService()
        self._parts.stays()
        self.ending.watch()
        self.ending.on_hangup(self.reload)
        self._parts.config_file.on_change(lambda _: self._config_changed())
        self._config_changed()
        self._parts.config_file.start_watching()
        self._parts.lag.start()
        began = self.clock.seconds()
        opened = Deferred.fromCoroutine(self._parts.audit.open())
        opened.addCallback(lambda _: None if self._stopping else self._parts.ledger.open())
        opened.addCallbacks(
            lambda _: self._ledger_loaded(self.clock.seconds() - began), self._cannot_load
        )

    def _cannot_load(self, failure: Failure) -> None:
        self.ending.fail_start(str(failure.value))

    def _ledger_loaded(self, seconds: float) -> None:
        self._parts.metrics.ledger_loaded(seconds)
        if self._stopping:
            return
        self._parts.snapshots.begin()
        self._parts.health.unready = None
        self.log.info(
            "omnigate-control {version} is ready on {address}: config {path} with {config}; "
            "a ledger of {events} events loaded in {seconds:.2f} s, {replayed} of them replayed",
            version=omnigate.__version__,
            address=self.listener.address,
            path=self._parts.config_file.path,
            config=self._counts(),
            events=self._parts.ledger.events,
            replayed=self._parts.ledger.counters.replayed,
            seconds=seconds,
        )
        self.notify(f"{systemd_notify.READY}\nSTATUS=ready: {self._counts()}")
        self._parts.stays()
        self.start_watchdog()

    # -- while it runs ------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the config file and the certificate again, as SIGHUP asks for."""
        self.listener.reread()
        self._parts.config_file.reload(Cause(SIGNAL)).addCallbacks(
            lambda _: self._tell_config(),
            lambda failure: self.log.error("no reload: {reason}", reason=failure.value),
        )

    def _tell_config(self) -> None:
        """Tell the service manager what config is in force."""
        faults = len(self._parts.config_file.faults)
        words = f"config file has {faults} faults, the last good one is in force" if faults else ""
        self.notify(f"STATUS=ready: {words or self._counts()}")

    def _config_changed(self) -> None:
        """Take a new config into force."""
        config = self._parts.config_file.config
        self._parts.ledger.keep(
            ids_days=config.retention.ledger_ids_days, ledger_days=config.retention.ledger_days
        )
        self._parts.book.install(self._parts.config_file.file_keys)
        for clash in self._parts.book.clashes():
            self.log.error("config {clash}", clash=str(clash))
        self._parts.metrics.allow_names(
            [route.model for route in config.routes],
            [upstream.name for upstream in config.upstreams],
        )

    def _counts(self) -> str:
        config = self._parts.config_file.config
        return (
            f"{len(self._parts.book)} keys, {len(config.upstreams)} upstreams, "
            f"{len(config.routes)} routes"
        )

    # -- stop ---------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """Take no more connections, finish what is to be written, and close the ledger."""
        super().stopService()
        self._stopping = True
        self._parts.health.unready = STOPPING
        self.notify(systemd_notify.STOPPING)
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self.stop_watchdog()
        self._parts.lag.stop()
        await self._parts.config_file.stop()
        await self.listener.close()
        await self._parts.ledger.close()
        await self._parts.audit.close()
        for writer in self._parts.writers:
            await writer.stop()
        self._parts.release_state()
        self.ending.stopped()
        self.log.info("omnigate-control has stopped")
