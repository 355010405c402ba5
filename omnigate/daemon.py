# mypy: allow-untyped-calls
# (twisted's services, options and endpoint strings carry no types)
"""What both daemons are as processes: options, the line of a failed start, exit statuses, signals.

``twistd`` knows two statuses, 0 and 1, ends with a signal where one was sent, and shows a traceback
for whatever goes wrong after the options are read. The daemons promise more: 0 for a clean stop,
1 with one clear line for a start that failed, 2 for an unknown option, 70 where the daemon itself
broke.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.logger import Logger
from twisted.python import usage

import omnigate
from omnigate.tls_endpoint import CertificateError

CLEAN: Final = 0
START_FAILED: Final = 1
USAGE: Final = 2
BROKEN: Final = 70
#: A worker's alone: another process holds its files, which may soon be over (``EX_TEMPFAIL``).
HELD: Final = 75

#: What is waited for after a second signal, in seconds: closing connections and files takes a few
#: hundredths, so what takes longer (a disk that stands still, a name server) is left behind.
HURRY_SECONDS: Final = 1.0

#: Signals that are taken in order; the next one ends the process where it stands.
_MOST_SIGNALS: Final = 2

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = Logger(namespace="omnigate")


class StartError(Exception):
    """The start of a daemon has failed; the text is the line that says why."""


class DaemonOptions(usage.Options):
    """Options of a ``twistd`` subcommand; what is wrong with them is one line and status 2."""

    program = ""
    examples = ""

    def parseOptions(self, options: Sequence[str] | None = None) -> None:  # noqa: N802
        """Read the options."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            reason = str(error).rstrip(".")
            say(f"{self.program}: {reason}; twistd {self.program} --help tells the options")
            raise SystemExit(USAGE) from None

    def parseArgs(self, *arguments: str) -> None:  # noqa: N802
        """Refuse what is no option."""
        if arguments:
            raise usage.UsageError(f'"{arguments[0]}" is no option, and nothing else is taken')

    def getUsage(self, width: int | None = None) -> str:  # noqa: N802
        """Return the help, with examples at its end."""
        return f"{super().getUsage(width)}\nExamples:\n{self.examples}"

    def opt_version(self) -> NoReturn:
        """Print the version and end."""
        sys.stdout.write(f"{self.program} {omnigate.__version__}\n")
        raise SystemExit(CLEAN)

    @property
    def stays_in_front(self) -> bool:
        """Whether ``twistd`` was told to stay in the foreground, where somebody sees stderr."""
        return self.parent is None or bool(self.parent.get("nodaemon"))


def say(line: str) -> None:
    """Write one line to the real standard error, which ``twistd`` replaces by the log."""
    stream = sys.__stderr__
    if stream is not None:
        # A worker whose parent is gone has nobody to say it to.
        with contextlib.suppress(BrokenPipeError):
            stream.write(line + "\n")
            stream.flush()


def refuse_start(program: str, lines: Sequence[str], status: int = START_FAILED) -> NoReturn:
    """End a start that cannot go on, while ``twistd`` still runs in the foreground.

    :param lines: what is wrong, most often one line; each names the place and the remedy.
    """
    for line in lines:
        say(f"{program}: {line}")
    raise SystemExit(status)


def endpoint_of(program: str, reactor: Any, listen: str, where: str) -> IStreamServerEndpoint:
    """Return the endpoint of a setting, or end the start with a line that says why not.

    :param listen: the endpoint string.
    :param where: the setting, and the option where there is one.
    """
    try:
        endpoint: IStreamServerEndpoint = serverFromString(reactor, listen)
    except CertificateError as error:
        refuse_start(program, [f"{where}: {error}"])
    except Exception as error:
        # The parsers of endpoint strings raise whatever their plugins do.
        reason = _endpoint_fault(listen, error)
        refuse_start(program, [f"{where}: {listen} is no endpoint: {reason}"])
    return endpoint


def _endpoint_fault(listen: str, error: Exception) -> str:
    """Put into words what the parser of an endpoint string could not use."""
    if listen.startswith(("systemd:", "https:systemd:")) and isinstance(error, LookupError):
        return (
            "systemd has handed over no such socket; start the .socket unit, or give a port, "
            "such as tcp:8080"
        )
    if isinstance(error, TypeError):
        # What does not fit the parser's own parameters.
        return (
            "it has a part that is unknown or out of place; write it like "
            "tcp:8080:interface=127.0.0.1, and a colon within a value as \\:"
        )
    return _os_reason(error)


def _os_reason(error: BaseException | None) -> str:
    """What an error says, of the system's without number and file objects of its own."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    named = isinstance(error.filename, str) and error.filename2 is None
    return f"{error.filename}: {error.strerror}" if named else error.strerror


class Ending:
    """Which status the process ends with, and how it gets to its end.

    The first SIGTERM or SIGINT stops in order. The second one stops in order too, but nothing is
    waited for any more that may take its time; what has not ended after
    :data:`HURRY_SECONDS`, or at the third signal, ends where it stands.

    A process that was watched and ends without having stopped in order is broken: status 70.

    :ivar stopping: whether the end has begun.

    :param program: the name in front of each line.
    :param reactor: the reactor that runs the daemon.
    :param in_front: whether standard error is seen; otherwise the line goes to the log.
    :param hurry_seconds: what a hurried stop may take.
    """

    def __init__(
        self, program: str, reactor: Any, in_front: bool, hurry_seconds: float = HURRY_SECONDS
    ) -> None:
        self.status = BROKEN
        self._hurry_seconds = hurry_seconds
        self._program = program
        self._reactor = reactor
        self._in_front = in_front
        self.stopping = False
        self._signals = 0
        self._takes_signals = False
        self._hurried = False
        self._hurry: Callable[[], object] | None = None

    def watch(self) -> None:
        """Take charge of the process's status, and of SIGTERM and SIGINT.

        Called once by the daemon that is being started, before the reactor runs.
        """
        atexit.register(self._leave)
        # Twisted installs its own handlers when it begins to run; those make the process end by
        # the signal, where a stop that was asked for is to be status 0.
        self._reactor.callWhenRunning(self._take_signals)

    def _take_signals(self) -> None:
        self._takes_signals = True
        for number in _STOP_SIGNALS:
            signal.signal(number, self._signalled)

    def _signalled(self, *_: object) -> None:
        """Take a signal; between any two steps of the program, so the reactor does the rest."""
        self._signals += 1
        if self._signals > _MOST_SIGNALS:
            self._end_now()
        self._reactor.callFromThread(self._asked_to_stop)

    def _asked_to_stop(self) -> None:
        if not self.stopping:
            self.stop()
        else:
            self.hurry()

    def hurry(self) -> None:
        """Have a stop under way wait for nothing any more, once."""
        if self._hurried:
            return
        self._hurried = True
        _log.warn(
            "{program} was asked to stop once more: it waits for nothing now",
            program=self._program,
        )
        # A thread, since it must also end a process that waits for another thread. It takes no
        # signals: at the very end it is the only one left that could, see stopped().
        last_resort = threading.Timer(self._hurry_seconds, self._end_now)
        last_resort.daemon = True
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        try:
            last_resort.start()
        except RuntimeError as error:
            # At the limit of threads or of memory; the third signal still ends the process.
            _log.error(
                "{program} cannot limit the time that its end takes: {error}; should it hang, one "
                "more signal ends it where it stands",
                program=self._program,
                error=error,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self._hurry is not None:
            self._hurry()

    def _end_now(self) -> None:
        """End where it stands: neither plane has anything in memory that the next start misses."""
        os._exit(self.status)

    def on_hurry(self, call: Callable[[], object]) -> None:
        """Call ``call`` in the reactor when a stop under way must not take its time any more."""
        self._hurry = call

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Call ``call`` in the reactor at each SIGHUP."""
        self._reactor.callWhenRunning(
            signal.signal, signal.SIGHUP, lambda *_: self._reactor.callFromThread(call)
        )

    def stop(self) -> None:
        """Stop the reactor, once; services stop in order before it ends."""
        if not self.stopping and self._reactor.running:
            self.stopping = True
            # A signal that came before the handlers were ours has stopped it already.
            with contextlib.suppress(ReactorNotRunning):
                self._reactor.stop()

    def stopped(self) -> None:
        """Note that everything stopped in order."""
        if self.status == BROKEN:
            self.status = CLEAN
        if self._takes_signals:
            # Twisted gives the signals back when its loop ends, while the interpreter still has to:
            # one more that comes then must not make a clean stop look like a killed process.
            signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)

    def fail_start(self, line: str, status: int = START_FAILED) -> None:
        """End a start that cannot go on, whether the reactor runs by now or not.

        :raises SystemExit: while it does not, in the foreground.
        :raises StartError: while it does not, in a daemon.
        """
        self.status = status
        if self._in_front:
            say(f"{self._program}: {line}")
        else:
            _log.critical("{program}: {line}", program=self._program, line=line)
        if self._reactor.running:
            self.stop()
        elif self._in_front:
            raise SystemExit(status)
        else:
            # twistd's parent waits for word from the daemon, which it gets for an Exception only.
            raise StartError(line)

    def _leave(self) -> None:
        """Set the status of a process that would otherwise end with 0."""
        if self.status != CLEAN:
            for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                try:
                    if stream is not None:
                        stream.flush()
                except (OSError, ValueError):
                    pass
            os._exit(self.status)


def listen_fault(listen: str, where: str, error: BaseException | None) -> str:
    """Return the line for an address that cannot be listened on.

    :param listen: the endpoint string.
    :param where: the setting and the option it came from, which is where the remedy lies.
    """
    cause = error.socketError if isinstance(error, CannotListenError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.EADDRINUSE:
        return (
            f"cannot listen on {listen}: the port is in use; stop what listens there, or give "
            f"another in {where}"
        )
    if number in (errno.EACCES, errno.EPERM):
        return (
            f"cannot listen on {listen}: this user may not (ports below 1024 need "
            f"CAP_NET_BIND_SERVICE); give a higher port in {where}"
        )
    if number == errno.EADDRNOTAVAIL:
        return (
            f"cannot listen on {listen}: this machine has no such address; correct interface= in "
            f"{where}"
        )
    return f"cannot listen on {listen}: {_os_reason(cause)}; correct {where}"
