# mypy: allow-untyped-calls
# (twisted's services carry no types)
"""What both planes are as services: listeners, words to the service manager, one end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocolFactory,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.internet.task import LoopingCall

from omnigate import systemd_notify


class Ending(Protocol):
    """What decides over the end of the process."""

    def watch(self) -> None:
        """Take charge."""

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Have ``call`` called at each SIGHUP."""

    def on_hurry(self, call: Callable[[], object]) -> None:
        """Have ``call`` called when a stop under way must not take its time any more."""

    def stopped(self) -> None:
        """Note that everything stopped in order."""

    def fail_start(self, line: str) -> None:
        """End a start that cannot go on."""


class Certificate(Protocol):
    """What a port serves TLS with, as :class:`omnigate.certificate_files.CertificateFiles`.

    :ivar failures: how often there was something new that could not be served.
    """

    failures: int

    @property
    def expires_at(self) -> int:
        """Until when it is valid, in seconds since 1970."""

    def start(self) -> None:
        """Look from now on whether there is a new one."""

    def stop(self) -> None:
        """Look no more."""

    def reread(self) -> None:
        """Put in force what there is now."""


class Listener:
    """One port that is listened on for as long as the daemon runs.

    :param fault: writes the line for an address that cannot be listened on.
    """

    def __init__(
        self,
        endpoint: IStreamServerEndpoint,
        factory: IProtocolFactory,
        fault: Callable[[BaseException | None], str],
    ) -> None:
        self._endpoint = endpoint
        self._factory = factory
        self._fault = fault
        self._port: IListeningPort | None = None
        #: Where it listens, for people; asked for also once it has been closed.
        self.address = "no port yet"
        #: What it serves TLS with, where that can be renewed.
        self.certificate: Certificate | None = getattr(endpoint, "certificate", None)

    def open(self, ending: Ending) -> None:
        """Listen, or end the start with a line that says why not."""
        refused: list[str] = []
        listening = self._endpoint.listen(self._factory)
        listening.addCallbacks(
            self._listening, lambda failure: refused.append(self._fault(failure.value))
        )
        # Most endpoints answer at once. Then the start ends here, outside of the callbacks: a
        # Deferred would keep the SystemExit to itself.
        if refused:
            ending.fail_start(refused[0])
        elif self._port is None:
            listening.addCallback(lambda _: self._refused_late(refused, ending))

    def _refused_late(self, refused: list[str], ending: Ending) -> None:
        if refused:
            ending.fail_start(refused[0])

    def _listening(self, port: IListeningPort) -> None:
        self._port = port
        self.address = _told(port)
        if self.certificate is not None:
            self.certificate.start()

    def reread(self) -> None:
        """Read the certificate again, as SIGHUP asks for; without TLS there is none."""
        if self.certificate is not None:
            self.certificate.reread()

    def lend(self) -> int | None:
        """Accept nothing here, and return the socket's descriptor, for other processes to accept.

        Closing the listener will then leave the socket as it is for them.

        :returns: ``None`` where the endpoint has not one socket by now.
        """
        port: Any = self._port
        if port is None or not hasattr(port, "fileno") or not hasattr(port, "stopReading"):
            return None
        port.stopReading()
        self._look_no_more()
        # Twisted's ports shut down a socket that they have made, which ends it for everybody.
        port._shouldShutdown = False
        descriptor: int = port.fileno()
        return descriptor

    async def close(self) -> None:
        """Take no more connections."""
        self._look_no_more()
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)

    def _look_no_more(self) -> None:
        if self.certificate is not None:
            self.certificate.stop()


def _told(port: IListeningPort) -> str:
    """Return where a port listens, for people."""
    host: Any = port.getHost()
    if hasattr(host, "port"):
        name = f"[{host.host}]" if ":" in host.host else host.host
        return f"{name}:{host.port}"
    name = getattr(host, "name", host)
    return os.fsdecode(name) if isinstance(name, bytes) else str(name)


class DaemonService(Service):
    """Listens while the process may still open low ports, and keeps the service manager told.

    :ivar listener: the port that the plane is there for.
    :ivar manager: takes words to the service manager, systemd where nothing else is set.
    """

    def __init__(
        self,
        listener: Listener,
        clock: IReactorTime,
        environ: Mapping[str, str],
        ending: Ending,
    ) -> None:
        self.listener = listener
        self.clock = clock
        self.ending = ending
        self._environ = environ
        self._watchdog: LoopingCall | None = None
        self.manager: Callable[[str], object] = lambda words: systemd_notify.notify(words, environ)

    def privilegedStartService(self) -> None:
        """Open the listener, or end the start with a line that says why not."""
        super().privilegedStartService()
        self.listener.open(self.ending)

    def notify(self, words: str) -> None:
        """Tell the service manager; under anything but systemd nothing is told."""
        self.manager(words)

    def start_watchdog(self) -> None:
        """Tell the service manager from now on that the reactor turns, if it wants to know."""
        interval = systemd_notify.watchdog_interval(self._environ)
        if interval is not None:
            self._watchdog = LoopingCall(self.notify, systemd_notify.WATCHDOG)
            self._watchdog.clock = self.clock
            self._watchdog.start(interval)

    def stop_watchdog(self) -> None:
        """Tell it no more."""
        if self._watchdog is not None and self._watchdog.running:
            self._watchdog.stop()
