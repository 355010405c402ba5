# mypy: allow-untyped-calls
# (twisted's services carry no types)
"""What both planes are as services: one listener, words to the service manager, one end."""

from __future__ import annotations

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

    def stopped(self) -> None:
        """Note that everything stopped in order."""

    def fail_start(self, line: str) -> None:
        """End a start that cannot go on."""


class DaemonService(Service):
    """Listens while the process may still open low ports, and keeps the service manager told.

    :param listen_fault: writes the line for an address that cannot be listened on.
    """

    def __init__(
        self,
        endpoint: IStreamServerEndpoint,
        factory: IProtocolFactory,
        clock: IReactorTime,
        environ: Mapping[str, str],
        ending: Ending,
        listen_fault: Callable[[BaseException | None], str],
    ) -> None:
        self.clock = clock
        self.ending = ending
        self._endpoint = endpoint
        self._factory = factory
        self._environ = environ
        self._listen_fault = listen_fault
        self._port: IListeningPort | None = None
        self._watchdog: LoopingCall | None = None

    def privilegedStartService(self) -> None:
        """Open the listener, or end the start with a line that says why not."""
        super().privilegedStartService()
        refused: list[str] = []
        listening = self._endpoint.listen(self._factory)
        listening.addCallbacks(
            self._listening, lambda failure: refused.append(self._listen_fault(failure.value))
        )
        # Most endpoints answer at once. Then the start ends here, outside of the callbacks: a
        # Deferred would keep the SystemExit to itself.
        if refused:
            self.ending.fail_start(refused[0])
        elif self._port is None:
            listening.addCallback(lambda _: self._refused_late(refused))

    def _refused_late(self, refused: list[str]) -> None:
        if refused:
            self.ending.fail_start(refused[0])

    def _listening(self, port: IListeningPort) -> None:
        self._port = port

    def notify(self, words: str) -> None:
        """Tell the service manager; under anything but systemd nothing is told."""
        systemd_notify.notify(words, self._environ)

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

    async def stop_listening(self) -> None:
        """Take no more connections."""
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)

    @property
    def address(self) -> str:
        """Where it listens, for people."""
        if self._port is None:
            return "no port yet"
        host: Any = self._port.getHost()
        if hasattr(host, "port"):
            name = f"[{host.host}]" if ":" in host.host else host.host
            return f"{name}:{host.port}"
        return str(getattr(host, "name", host))
