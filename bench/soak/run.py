"""One soak from start to verdict: warm-up, a look, the load, another look, the books."""

import argparse
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from bench.place import Program
from bench.soak import judge, report, states
from bench.soak.books import Asked, Attempt, Event, read_book, read_log
from bench.soak.check import Check
from bench.soak.place import Place
from bench.soak.states import Course, State
from omnigate.demo_children import ChildError, Children

#: Bounds of what may be asked for.
MAX_MINUTES = 24 * 60.0
MAX_CLIENTS = 2000

#: The main load's first request; those of the warm-up have smaller numbers, and the cached route
#: has the smallest.
FIRST_WARM = 1_000
FIRST_MAIN = 3_000_000

#: One round of disturbances takes this long where there is time for it, in seconds.
ROUND_SECONDS = 60.0
#: The share of a round at which something happens, and for how long the control plane is away.
AWAY_SECONDS = 3.0

#: How long everything may take to come to rest after the clients have ended: an answer is read on
#: for 4 s, a stalled client held for 3, kept connections to providers closed after 50.
SETTLE_SECONDS = 90.0
#: In a soak of less than this, kept connections to providers are counted and not waited for.
LONG_SECONDS = 100.0
#: The clients end their last requests within this time.
LAST_REQUEST_SECONDS = 90.0


@attrs.frozen
class Options:
    """What was asked for."""

    minutes: float
    clients: int
    seed: str
    keep: Path | None

    @property
    def seconds(self) -> float:
        """Of the main load."""
        return self.minutes * 60

    @property
    def warm_seconds(self) -> float:
        """Of the warm-up: a minute where the load lasts longer than that."""
        return min(60.0, self.seconds / 4)


def main(arguments: list[str]) -> int:
    """Run a soak, print what came of it, and return the exit status.

    :returns: 0 when everything held, 1 when something did not, 2 for a wrong option, 130 after
        Ctrl-C.
    """
    options = parse(arguments)
    if not Path("/proc/self/stat").exists():
        print("soak: needs Linux, for it reads /proc", file=sys.stderr)
        return 1
    print(
        f"soak: {options.minutes:g} minutes, {options.clients} clients, --seed {options.seed}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="omnigate-soak-"))
    ok = False
    try:
        with Children() as children:
            ok = Soak(options, folder, children).run()
    except ChildError as error:
        print(f"soak: FAILED: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nsoak: interrupted; everything it started is stopped", file=sys.stderr)
        return 130
    finally:
        if options.keep is not None:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"soak: {'ok' if ok else 'FAILED'}, --seed {options.seed}")
    return 0 if ok else 1


def parse(arguments: list[str]) -> Options:
    """Return what is to be done.

    :raises SystemExit: with status 2 and a line that says what is wrong
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench soak",
        description="Mixed traffic with faults on all sides, and whether anything is left behind.",
    )
    parser.add_argument("--minutes", type=float, default=15.0, help="of the load (15)")
    parser.add_argument("--clients", type=int, default=300, help="at once (300)")
    parser.add_argument("--seed", help="of a run to be repeated; else one is made up and printed")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy logs and books there")
    given = parser.parse_args(arguments)
    if not 0.05 <= given.minutes <= MAX_MINUTES:
        parser.error(f"--minutes must be 0.05 to {MAX_MINUTES:g}")
    if not 1 <= given.clients <= MAX_CLIENTS:
        parser.error(f"--clients must be 1 to {MAX_CLIENTS}")
    seed = given.seed or secrets.token_hex(4)
    return Options(given.minutes, given.clients, seed, given.keep)


class Soak:
    """A soak under way."""

    def __init__(self, options: Options, folder: Path, children: Children) -> None:
        self._options = options
        self._place = Place(folder, children, options.seed)
        self._course = Course()
        self._books: list[Path] = []

    def run(self) -> bool:
        """Do everything; whether all of it held.

        :raises omnigate.demo_children.ChildError: something did not start or did not stay
        """
        place, course, options = self._place, self._course, self._options
        place.start()
        self._load("warm-up", options.warm_seconds, FIRST_WARM, [])
        before = self._settle()
        course.samples.clear()
        began = time.monotonic()
        self._load("load", options.seconds, FIRST_MAIN, self._schedule())
        course.seconds = time.monotonic() - began
        after = self._settle()
        total = place.admin.call("GET", "/admin/usage?by=model")["total"]
        place.stop()
        asked = [line for book in self._books for line in read_book(book, Asked)]
        attempts = read_book(place.attempts_book, Attempt)
        ledger = [event for path in place.ledger() for event in read_book(path, Event)]
        checks = [
            *judge.Judge(asked, attempts, read_log(place.access_logs()), ledger).run(
                after.gauges, str(total["cost_usd"])
            ),
            *states.checks(before, after, course, len(ledger), self._long),
            self._no_traces(),
        ]
        counted = judge.tables(asked, attempts)
        print(report.text(course, (before, after), counted, checks, len(ledger)))
        return all(check.ok for check in checks)

    # -- the load

    def _schedule(self) -> list[tuple[float, Callable[[], None]]]:
        """Return when to disturb the planes, in seconds from the start of the load."""
        rounds = max(1, int(self._options.seconds / ROUND_SECONDS))
        length = self._options.seconds / rounds
        away = min(AWAY_SECONDS, length / 8)
        schedule: list[tuple[float, Callable[[], None]]] = []
        for number in range(rounds):
            start = number * length
            schedule += [
                (start + 0.15 * length, self._hang_up),
                (start + 0.35 * length, self._stop_control),
                (start + 0.35 * length + away, self._start_control),
                (start + 0.55 * length, self._hang_up),
                (start + 0.70 * length, self._kill_control),
                (start + 0.70 * length + away, self._start_control),
            ]
        return schedule

    def _hang_up(self) -> None:
        self._count("SIGHUP to both planes, access log rotated")
        self._place.hang_up()

    def _stop_control(self) -> None:
        self._count("control plane stopped and started again")
        self._place.end_control(signal.SIGTERM)

    def _kill_control(self) -> None:
        self._count("control plane killed and started again")
        self._place.end_control(signal.SIGKILL)

    def _start_control(self) -> None:
        self._place.start_control()

    def _count(self, what: str) -> None:
        self._course.disturbances[what] += 1

    def _load(
        self,
        name: str,
        seconds: float,
        first: int,
        schedule: list[tuple[float, Callable[[], None]]],
    ) -> None:
        """Run the clients for a time, and look now and then."""
        place = self._place
        clients, book = place.clients(name, self._options.clients, seconds, first)
        self._books.append(book)
        began = time.monotonic()
        every = min(10.0, max(1.0, seconds / 12))
        due = list(schedule)
        look_at = every
        told_at = 10.0
        asked = faults = 0
        while clients.running():
            asked, faults = self._read_progress(clients, asked, faults)
            now = time.monotonic() - began
            while due and due[0][0] <= now:
                due.pop(0)[1]()
            if now >= look_at:
                look_at += every
                self._look(began)
            if now >= told_at:
                told_at += 10.0
                self._tell(name, now, seconds, asked, faults)
            self._all_run(clients)
            if now > seconds + LAST_REQUEST_SECONDS:
                raise clients.failure("did not come to an end")
        for _, act in due:
            act()
        if clients.wait(1) != 0:
            raise clients.failure("ended with a fault")

    def _read_progress(self, clients: Program, asked: int, faults: int) -> tuple[int, int]:
        """Wait for the clients' next line, for at most half a second."""
        output = clients.output()
        ready, _, _ = select.select([output], [], [], 0.5)
        if ready:
            lines = os.read(output.fileno(), 65536).split(b"\n")[:-1]
            if lines:
                asked, faults = (int(word) for word in lines[-1].split())
            else:
                time.sleep(0.05)
        return asked, faults

    def _look(self, began: float) -> None:
        state = self._place.state()
        self._course.samples.append((time.monotonic() - began, state.data.rss_mb))
        lag = state.gauges.get("reactor_lag_seconds")
        self._course.worst_lag = max(self._course.worst_lag, lag)

    def _tell(self, name: str, now: float, seconds: float, asked: int, faults: int) -> None:
        state = self._place.state()
        gauges = state.gauges
        print(
            f"{name}: {now:.0f} of {seconds:.0f} s, {asked} requests, {faults} faults; data plane "
            f"{state.data.rss_mb:.1f} MB, {gauges.get('requests_in_flight'):g} in flight, "
            f"{gauges.get('abandoned_answers'):g} read on, {gauges.waiting:g} events wait; "
            f"control plane {state.control.rss_mb:.1f} MB",
            flush=True,
        )

    def _all_run(self, clients: Program) -> None:
        for child in (self._place.provider, self._place.data, self._place.control):
            if child is not None and not child.running():
                raise child.failure("ended in the middle of the soak")

    def _no_traces(self) -> Check:
        check = Check("no log holds a traceback", 1)
        for text in self._place.traces():
            check.fail(text)
        return check

    # -- coming to rest

    def _settle(self) -> State:
        """Wait until the planes are at rest; what they look like then, at rest or not."""
        place = self._place
        assert place.control is not None
        place.control.wait_ready(place.control_port)
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            state = place.state()
            rests = state.at_rest and not (self._long and state.upstreams)
            if rests or time.monotonic() > end:
                return state
            time.sleep(0.2)

    @property
    def _long(self) -> bool:
        """Whether kept connections to providers are waited for."""
        return self._options.seconds >= LONG_SECONDS


def _interrupt(number: int, frame: object) -> None:
    """SIGTERM ends a soak the way Ctrl-C does."""
    raise KeyboardInterrupt
