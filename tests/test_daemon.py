"""Options, exit statuses and the lines of failed starts."""

from __future__ import annotations

import atexit
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.testing import MemoryReactor
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from omnigate import control_tap, data_tap
from omnigate.daemon import (
    BROKEN,
    CLEAN,
    HURRY_SECONDS,
    START_FAILED,
    DaemonOptions,
    Ending,
    StartError,
    endpoint_of,
    listen_fault,
)


class Sample(DaemonOptions):
    """Options of a daemon that is none."""

    program = "omnigate-sample"
    examples = "  twistd omnigate-sample --listen tcp:1\n"
    optParameters = [["listen", "l", None, "Where to listen."]]


class Reactor:
    """As much of a reactor as an ending touches."""

    def __init__(self) -> None:
        self.running = False
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1

    def callWhenRunning(  # noqa: N802
        self, call: Callable[..., object], *arguments: object
    ) -> None:
        call(*arguments)

    def callFromThread(self, call: Callable[[], object]) -> None:  # noqa: N802
        call()


class Timer:
    """A timer in a thread that is none.

    :cvar refused: whether no thread can be started.
    """

    refused = False

    def __init__(
        self, seconds: float, call: Callable[[], None], mask: Callable[[], set[int]]
    ) -> None:
        self.seconds = seconds
        self.call = call
        self.daemon = False
        self.started = False
        self.blocked: set[int] = set()
        self._mask = mask

    def start(self) -> None:
        """Start, with the signals blocked that whoever starts it has blocked.

        :raises RuntimeError: what Python raises where there may be no more threads.
        """
        if self.refused:
            raise RuntimeError("can't start new thread")
        self.started = True
        self.blocked = set(self._mask())


class StderrCase(SynchronousTestCase):
    """Catches what goes to the real standard error."""

    def setUp(self) -> None:
        self.stderr = io.StringIO()
        self.patch(sys, "__stderr__", self.stderr)


class OptionsTests(StderrCase):
    """What the command line may hold."""

    def test_unknown_option(self) -> None:
        """An unknown option is one line and status 2."""
        for arguments in (["--bogus"], ["--listen"], ["extra"], ["-x"]):
            self.stderr.truncate(0)
            error = self.assertRaises(SystemExit, Sample().parseOptions, arguments)
            self.assertEqual(error.code, 2)
            self.assertEqual(self.stderr.getvalue().count("\n"), 1)
            self.assertIn("omnigate-sample: ", self.stderr.getvalue())

    def test_known_option(self) -> None:
        """A known one is read."""
        options = Sample()
        options.parseOptions(["--listen", "tcp:1"])
        self.assertEqual(options["listen"], "tcp:1")

    def test_help_ends_with_examples(self) -> None:
        """The help shows how to call it."""
        self.assertTrue(str(Sample()).endswith(Sample.examples))

    def test_both_daemons_have_examples(self) -> None:
        """Neither help ends with a headline and nothing under it."""
        for options in (data_tap.Options, control_tap.Options):
            self.assertIn(f" {options.program} --", options.examples)

    def test_foreground(self) -> None:
        """Whether somebody sees stderr is what twistd was told."""
        options = Sample()
        self.assertTrue(options.stays_in_front)
        parent: Any = {"nodaemon": 0}
        options.parent = parent
        self.assertFalse(options.stays_in_front)


class EndingTests(StderrCase):
    """Which status the process ends with."""

    def setUp(self) -> None:
        super().setUp()
        self.reactor = Reactor()
        self.handlers: dict[int, Any] = {}
        self.exits: list[int] = []
        self.patch(signal, "signal", self.handlers.__setitem__)
        self.blocked: set[int] = set()
        self.patch(signal, "pthread_sigmask", self.mask)
        self.at_exit: list[Callable[[], None]] = []
        self.patch(atexit, "register", self.at_exit.append)
        self.patch(os, "_exit", self.exits.append)
        self.timers: list[Timer] = []
        self.patch(threading, "Timer", self.timer)
        self.ending = Ending("omnigate-sample", self.reactor, in_front=True)

    def mask(self, how: int, numbers: Iterable[int]) -> set[int]:
        """Change what is blocked in the calling thread, and in those that it starts from now on."""
        before = self.blocked
        self.blocked = {*numbers, *(before if how == signal.SIG_BLOCK else ())}
        return before

    def timer(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Stand in for a timer in a thread."""
        self.timers.append(Timer(seconds, call, lambda: self.blocked))
        return self.timers[-1]

    def leave(self) -> None:
        for call in self.at_exit:
            call()

    def test_clean(self) -> None:
        """A stop by a signal, in order, leaves the status at 0."""
        self.ending.watch()
        self.reactor.running = True
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        self.assertEqual(self.reactor.stops, 1)
        self.assertEqual(self.blocked, set())
        self.ending.stopped()
        # Whatever comes between the end of the loop and that of the process.
        self.assertEqual(self.blocked, {signal.SIGTERM, signal.SIGINT})
        self.leave()
        self.assertEqual((self.ending.status, self.exits), (CLEAN, []))

    def stop_twice(self) -> list[str]:
        """Have the daemon stopped in a hurry; what it was told."""
        told: list[str] = []
        self.ending.watch()
        self.ending.on_hurry(lambda: told.append("hurry"))
        self.reactor.running = True
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        self.assertEqual((told, self.timers), ([], []))
        self.handlers[signal.SIGINT](signal.SIGINT, None)
        return told

    def test_hurry(self) -> None:
        """The second signal, of either kind, hurries the stop; it may still end in order."""
        self.assertEqual(self.stop_twice(), ["hurry"])
        self.assertEqual((self.reactor.stops, self.exits), (1, []))
        [timer] = self.timers
        self.assertEqual((timer.seconds, timer.daemon), (HURRY_SECONDS, True))
        self.assertTrue(timer.started)
        # The thread outlives the loop, and would be killed by a signal that nobody takes any more.
        self.assertEqual((timer.blocked, self.blocked), ({signal.SIGTERM, signal.SIGINT}, set()))
        self.ending.stopped()
        self.leave()
        self.assertEqual(self.exits, [])

    def test_no_thread_for_the_last_resort(self) -> None:
        """Where no thread can be started the stop is hurried all the same, and signals count."""
        self.patch(Timer, "refused", True)
        with capturedLogs() as logged:
            self.assertEqual(self.stop_twice(), ["hurry"])
        self.assertEqual((self.blocked, self.exits), (set(), []))
        self.assertIn("can't start new thread", [str(one.get("error")) for one in logged])
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        self.assertEqual(self.exits, [BROKEN])

    def test_last_resort(self) -> None:
        """What the hurry does not end in time ends where it stands, and not in order."""
        self.stop_twice()
        self.timers[0].call()
        self.assertEqual(self.exits, [BROKEN])

    def test_last_resort_after_the_end(self) -> None:
        """Where only the process was still to end, all was in order."""
        self.stop_twice()
        self.ending.stopped()
        self.timers[0].call()
        self.assertEqual(self.exits, [CLEAN])

    def test_third_signal(self) -> None:
        """The third signal does not wait for the reactor."""
        self.stop_twice()
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        self.assertEqual(self.exits, [BROKEN])
        self.assertEqual(len(self.timers), 1)

    def test_signal_during_a_failed_start(self) -> None:
        """A start that failed late is stopping by itself; a signal then is one to hurry."""
        told: list[str] = []
        self.ending.watch()
        self.ending.on_hurry(lambda: told.append("hurry"))
        self.reactor.running = True
        self.ending.fail_start("no disk")
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        self.assertEqual(told, ["hurry"])
        self.timers[0].call()
        self.assertEqual(self.exits, [START_FAILED])

    def test_stopped_already(self) -> None:
        """A signal that Twisted's own handlers took has stopped the reactor; that is no fault."""
        self.reactor.running = True
        self.patch(self.reactor, "stop", self.not_running)
        self.ending.stop()
        self.assertTrue(self.ending.stopping)

    def not_running(self) -> None:
        """Refuse as a reactor does that is being stopped."""
        raise ReactorNotRunning("it is being stopped")

    def test_broken(self) -> None:
        """An end that nobody asked for is 70."""
        self.ending.watch()
        self.leave()
        self.assertEqual(self.exits, [BROKEN])

    def test_start_fails_while_running(self) -> None:
        """A start that fails late stops the reactor and is still 1 after an orderly stop."""
        self.ending.watch()
        self.reactor.running = True
        self.ending.fail_start("no disk")
        self.assertEqual(self.stderr.getvalue(), "omnigate-sample: no disk\n")
        self.assertEqual(self.reactor.stops, 1)
        self.ending.stopped()
        self.leave()
        self.assertEqual(self.exits, [1])

    def test_start_fails_early(self) -> None:
        """Before the reactor runs, the foreground ends at once, a daemon tells its parent."""
        error = self.assertRaises(SystemExit, self.ending.fail_start, "no port")
        self.assertEqual((error.code, self.stderr.getvalue()), (1, "omnigate-sample: no port\n"))
        hidden = Ending("omnigate-sample", self.reactor, in_front=False)
        told = self.assertRaises(StartError, hidden.fail_start, "no port")
        self.assertEqual(str(told), "no port")

    def test_hangup(self) -> None:
        """SIGHUP calls what it is for."""
        calls: list[str] = []
        self.ending.on_hangup(lambda: calls.append("reload"))
        self.handlers[signal.SIGHUP](signal.SIGHUP, None)
        self.assertEqual(calls, ["reload"])


class ListenFaultTests(SynchronousTestCase):
    """The line for an address that cannot be had."""

    def test_causes(self) -> None:
        """Each cause names the address, the setting and what to do."""
        for number, words in (
            (errno.EADDRINUSE, "the port is in use"),
            (errno.EACCES, "ports below 1024"),
            (errno.EADDRNOTAVAIL, "no such address"),
            (errno.EMFILE, "many"),
        ):
            error = CannotListenError("", 80, OSError(number, "too many"))
            line = listen_fault("tcp:80", "OMNIGATE_X or --x", error)
            self.assertIn(words, line)
            self.assertIn("tcp:80", line)
            self.assertIn("OMNIGATE_X or --x", line)
        self.assertIn("odd", listen_fault("x:1", "OMNIGATE_X", ValueError("odd")))

    def test_words_of_the_system(self) -> None:
        """What the system says is told without the numbers and names of Twisted's own."""
        for error in (
            OSError(errno.ENOENT, "No such file", "4711", None, b"/no/x.sock.lock"),
            OSError(errno.ENOENT, "No such file"),
        ):
            line = listen_fault("unix:/no/x.sock", "OMNIGATE_X", error)
            self.assertEqual(
                "cannot listen on unix:/no/x.sock: No such file; correct OMNIGATE_X", line
            )


class EndpointTests(SynchronousTestCase):
    """The endpoint of a setting."""

    def test_endpoint(self) -> None:
        """One that can be understood is given."""
        endpoint = endpoint_of("omnigate-sample", MemoryReactor(), "tcp:80", "OMNIGATE_X")
        self.assertIsInstance(endpoint, TCP4ServerEndpoint)

    def test_none(self) -> None:
        """Any other ends the start with a line that names it, the setting and the program."""
        for listen in ("", "tcp", "tcp:x", "nothing:1"):
            stderr = io.StringIO()
            self.patch(sys, "__stderr__", stderr)
            ended = self.assertRaises(
                SystemExit, endpoint_of, "omnigate-sample", MemoryReactor(), listen, "OMNIGATE_X"
            )
            self.assertEqual(ended.code, START_FAILED)
            self.assertIn(f"omnigate-sample: OMNIGATE_X: {listen} is no ", stderr.getvalue())

    def test_reasons(self) -> None:
        """What the parsers could not use is told in words of the setting, not of their code."""
        for listen, words in (
            ("tcp:80:iface=127.0.0.1", "unknown or out of place"),
            ("tcp:80:interface=[::1]", "a colon within a value as \\:"),
            ("systemd:domain=INET:name=public", "no such socket"),
            ("systemd:domain=INET:index=3", "no such socket"),
            ("ssl:443:privateKey=/no/key.pem", "/no/key.pem: No such file"),
            ("nothing:1", "nothing"),
        ):
            stderr = io.StringIO()
            self.patch(sys, "__stderr__", stderr)
            self.assertRaises(
                SystemExit, endpoint_of, "omnigate-sample", MemoryReactor(), listen, "OMNIGATE_X"
            )
            line = stderr.getvalue()
            self.assertIn(words, line)
            for inner in ("_parse", "Errno", "list index"):
                self.assertNotIn(inner, line)
