# mypy: allow-untyped-calls
# (twisted's services, options and endpoint strings carry no types)
"""The control plane as a service: listens, opens the stores, is ready, and stops in order.

It listens before the stores are open, so that probes and data planes get an answer (``503``) in
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
from omnigate.config.media import ADAPTERS
from omnigate.control.config_file import SIGNAL, Cause, ConfigFile
from omnigate.control.config_record import ConfigRecord
from omnigate.control.generation import Generation
from omnigate.control.guard import Guard
from omnigate.control.metrics import ControlMetrics
from omnigate.daemon_service import DaemonService, Ending, Listener
from omnigate.reactor_lag import ReactorLag
from omnigate.writer_thread import IWriter


@attrs.define(eq=False)
class ControlParts:
    """What the service starts and stops.

    :ivar writers: threads that no store has.
    :ivar stays: called when much was made that stays in memory: the parts, the loaded ledger.
    :ivar goes: called when that does not stay after all, since the stores are made anew.
    :ivar end_streams: ends the answers that go on; what they tell of is made anew, or stops.
    """

    endpoint: IStreamServerEndpoint
    factory: Factory
    guard: Guard[Generation]
    config_file: ConfigFile
    record: ConfigRecord
    metrics: ControlMetrics
    lag: ReactorLag
    writers: tuple[IWriter, ...]
    release_state: Callable[[], None]
    stays: Callable[[], None] = lambda: None
    goes: Callable[[], None] = lambda: None
    end_streams: Callable[[], None] = lambda: None


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
        parts.metrics.watch_certificate(listener.certificate)
        self._was_ready = False

    # -- start --------------------------------------------------------------------------------

    def startService(self) -> None:
        """Open the stores and watch the config file."""
        super().startService()
        parts = self._parts
        parts.stays()
        self.ending.watch()
        self.ending.on_hangup(self.reload)
        parts.config_file.on_change(lambda _: self._config_changed())
        parts.config_file.was_read = self._tell_state
        self._allow_names()
        parts.config_file.start_watching()
        parts.lag.start()
        parts.guard.came_up = self._stores_up
        parts.guard.went_down = self._stores_down
        parts.guard.start().addErrback(self._cannot_start)

    def _cannot_start(self, failure: Failure) -> None:
        self.ending.fail_start(str(failure.value))

    def _stores_up(self, generation: Generation, seconds: float) -> None:
        """Begin to work with stores that are open, for the first time or anew."""
        self._parts.metrics.ledger_loaded(seconds)
        generation.snapshots.begin()
        ledger = generation.ledger
        if self._was_ready:
            generation.tell_clashes()
            self.log.info(
                "the stores are up again: a ledger of {events} events loaded in {seconds:.2f} s, "
                "{replayed} of them replayed",
                events=ledger.events,
                replayed=ledger.counters.replayed,
                seconds=seconds,
            )
            self._tell_state()
            self._parts.record.catch_up()
        else:
            self.log.info(
                "omnigate-control {version} is ready on {address}: config {path} with {config}; "
                "a ledger of {events} events loaded in {seconds:.2f} s, {replayed} of them "
                "replayed",
                version=omnigate.__version__,
                address=self.listener.address,
                path=self._parts.config_file.path,
                config=self._counts(generation),
                events=ledger.events,
                replayed=ledger.counters.replayed,
                seconds=seconds,
            )
            self.notify(f"{systemd_notify.READY}\nSTATUS=ready: {self._counts(generation)}")
            self.start_watchdog()
            self._record_start()
        self._was_ready = True
        self._parts.stays()

    def _record_start(self) -> None:
        """Write down what config the plane begins with."""
        reading = self._parts.config_file.reading
        if reading is not None:
            Deferred.fromCoroutine(self._parts.record.started(reading))

    def _stores_down(self, words: str) -> None:
        """Tell that the stores are restarted; everything else goes on."""
        self._parts.metrics.ledger_gone()
        self._parts.end_streams()
        self._parts.goes()
        self.notify(f"STATUS=not ready: {words}")

    # -- while it runs ------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the config file and the certificate again, as SIGHUP asks for."""
        self.listener.reread()
        self._parts.config_file.reload(Cause(SIGNAL)).addErrback(
            lambda failure: self.log.error("no reload: {reason}", reason=failure.value)
        )

    def _tell_state(self) -> None:
        """Tell the service manager what config is in force, whoever had it read."""
        if not self.running:
            return  # that it is stopping is its last word
        faults = len(self._parts.config_file.faults)
        generation = self._parts.guard.current
        if faults:
            words = f"config file has {faults} faults, the last good one is in force"
        elif generation is not None:
            words = self._counts(generation)
        else:
            return  # what it is then was told, or will be
        state = "ready" if generation is not None else "not ready"
        self.notify(f"STATUS={state}: {words}")

    def _config_changed(self) -> None:
        """Take a new config into force; stores that are down take it over as they are made."""
        generation = self._parts.guard.latest
        if generation is not None:
            generation.take_config()
            generation.tell_clashes()
        self._allow_names()

    def _allow_names(self) -> None:
        config = self._parts.config_file.config
        self._parts.metrics.allow_names(
            [
                *(route.model for route in config.routes),
                *(route.model for route in config.media.routes),
            ],
            [*(upstream.name for upstream in config.upstreams), *ADAPTERS],
        )

    def _counts(self, generation: Generation) -> str:
        config = self._parts.config_file.config
        media = f", {len(config.media.routes)} media routes" if config.media.routes else ""
        return (
            f"{len(generation.book)} keys, {len(config.upstreams)} upstreams, "
            f"{len(config.routes)} routes{media}"
        )

    # -- stop ---------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """Take no more connections, finish what is to be written, and close the stores."""
        super().stopService()
        self._parts.guard.about_to_stop()
        self.notify(systemd_notify.STOPPING)
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self.stop_watchdog()
        self._parts.lag.stop()
        await self._parts.config_file.stop()
        await self.listener.close()
        self._parts.end_streams()
        await self._parts.guard.stop()
        for writer in self._parts.writers:
            await writer.stop()
        self._parts.release_state()
        self.ending.stopped()
        self.log.info("omnigate-control has stopped")
