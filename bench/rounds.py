"""The rounds: every scenario on every subject, over and over, until the time is up."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from bench import counted, in_memory, proc, relative, scenarios, traffic, usage
from bench.load import LoadResult
from bench.place import Gateway, Place, Program, child_environ
from bench.proc import Cores
from bench.relative import Yards
from bench.scenarios import START, Reading, Scenario, Subject
from bench.usage import Usage
from omnigate.demo_children import ChildError, Children

GATEWAY = "omnigate"
NGINX = "nginx"
ALONE = "no gateway"

#: What is measured without sockets: no scenario, but asked for like one.
MEMORY = "memory"
#: How long that takes.
MEMORY_SECONDS = 12.0

#: No round begins that would not end within this, in seconds.
ROUNDS_SECONDS = 235.0

#: How long a gateway is left alone before its idle memory is read.
IDLE_SECONDS = 1.0


@attrs.frozen(kw_only=True)
class Options:
    """What is measured, and for how long.

    :ivar names: of the scenarios.
    :ivar seconds: of each load.
    :ivar workers: processes of the gateway.
    """

    names: Sequence[str]
    rounds: int = 3
    seconds: float = 2.0
    nginx: bool = True
    control: bool = True
    pin: bool = True
    valgrind: bool = True
    workers: int = 1

    @property
    def paced_events(self) -> int:
        """Events of a paced stream: it lasts twice as long as a load, for it costs little."""
        return max(5, round(2 * self.seconds / traffic.PACE_SECONDS))


@attrs.define
class Findings:
    """All that was measured.

    :ivar readings: by scenario and subject, one for each round.
    :ivar starts: seconds from the start of a gateway to its first answer.
    :ivar idle_mb: its memory then.
    :ivar faults: what was wrong; empty when all was well.
    :ivar notes: what to know of this run.
    :ivar control_us: processor time of the control plane for one usage event, by round.
    :ivar booked: what the ledger held at the end.
    :ivar yards: what exchanges in memory take.
    :ivar instructions: and how many instructions, by name.
    """

    readings: dict[tuple[str, str], list[Reading]] = attrs.Factory(dict)
    starts: list[float] = attrs.Factory(list)
    idle_mb: list[float] = attrs.Factory(list)
    faults: list[str] = attrs.Factory(list)
    notes: list[str] = attrs.Factory(list)
    control_us: list[float] = attrs.Factory(list)
    booked: Usage | None = None
    yards: list[Yards] = attrs.Factory(list)
    instructions: dict[str, float] = attrs.Factory(dict)
    cores: Cores = attrs.Factory(lambda: Cores(None, None))


def run(options: Options, tell: Callable[[str], None]) -> Findings:
    """Start everything, measure, and stop everything again.

    :param tell: is told what is being done, a short line at a time.
    :raises ChildError: something does not come up
    :raises omnigate.admin_client.AdminError: the control plane does not say what it recorded
    :raises bench.counted.CountError: valgrind is there and does not count
    :raises bench.in_memory.WrongExchangeError: an exchange in memory did not do what it should
    :raises bench.answers.WrongAnswerError: an answer in memory is not the right one
    """
    findings = Findings()
    usable = os.sched_getaffinity(0)
    pin = options.pin and options.workers == 1
    findings.cores = proc.choose_cores(usable) if pin else Cores(None, None)
    if MEMORY in options.names:
        _measure_memory(options, findings, tell)
    if all(name == MEMORY for name in options.names):
        return findings
    with (
        proc.on_cores(findings.cores.rest),
        tempfile.TemporaryDirectory(prefix="omnigate-bench-") as folder,
        Children() as children,
    ):
        rounds = _Rounds(options, findings, Place(Path(folder), children, findings.cores), tell)
        rounds.start()
        try:
            rounds.run()
        except WrongResultError as error:
            findings.faults.append(str(error))
    return findings


def _measure_memory(options: Options, findings: Findings, tell: Callable[[str], None]) -> None:
    """Measure exchanges without sockets."""
    with proc.on_cores(findings.cores.gateway):
        findings.yards = relative.measure(in_memory.courses(), MEMORY_SECONDS, tell)
    if not options.valgrind:
        return
    if counted.available():
        tell("in memory, instructions")
        findings.instructions = counted.count(child_environ({}))
    else:
        findings.notes.append("there is no valgrind here, so no instructions were counted")


class WrongResultError(Exception):
    """A wrong answer, a lost event or wrong usage: whatever was measured beside it is worthless."""


class _Rounds:
    """See :func:`run`."""

    def __init__(
        self, options: Options, findings: Findings, place: Place, tell: Callable[[str], None]
    ) -> None:
        self._options = options
        self._findings = findings
        self._place = place
        self._tell = tell
        self._owed = Usage()
        self._nginx: tuple[Program, int] | None = None
        self._scenarios = [row for row in scenarios.SCENARIOS if row.name in options.names]

    def start(self) -> None:
        """Start what runs through all rounds."""
        place, options, notes = self._place, self._options, self._findings.notes
        sizes = {("whole", 1024), *((row.kind, row.request_bytes) for row in scenarios.SCENARIOS)}
        place.start_provider(options.paced_events, sorted(sizes))
        if options.control:
            place.start_control()
        else:
            notes.append("no control plane: usage stays in the spool, and is counted there")
        if options.nginx:
            try:
                self._nginx = place.start_nginx()
                if self._nginx is None:
                    notes.append("there is no nginx here, so there are no ratios to it")
            except ChildError as error:
                notes.append(f"no ratios to nginx: {error}")

    def run(self) -> None:
        """Measure round by round."""
        began = time.monotonic()
        for number in range(1, self._options.rounds + 1):
            round_began = time.monotonic()
            self._round(number)
            now = time.monotonic()
            left = self._options.rounds - number
            if left and now - began + (now - round_began) > ROUNDS_SECONDS:
                self._findings.notes.append(
                    f"rounds left out, since there was no time for them: {left}; fewer --scenarios "
                    "or --seconds leave more"
                )
                return

    def _round(self, number: int) -> None:
        """Measure everything once, each scenario with a gateway of its own."""
        place, findings = self._place, self._findings
        control_before = self._control_seconds()
        owed_before = self._owed.requests
        if START in self._options.names:
            self._tell(f"round {number}: {START}")
            with Children() as children:
                gateway = self._gateway(children, False)
                findings.starts.append(gateway.first_answer_seconds)
                time.sleep(IDLE_SECONDS)
                family = proc.family(gateway.program.pid)
                findings.idle_mb.append(sum(proc.memory_mb(pid, "VmRSS") for pid in family))
            place.forget(gateway)
        for scenario in self._scenarios:
            with Children() as children:
                gateway = self._gateway(children, scenario.tls)
                for subject in self._subjects(scenario, gateway):
                    self._tell(f"round {number}: {scenario.name} on {subject.name}")
                    self._measure(scenario, subject, gateway)
            place.forget(gateway)
        booked = self._owed.requests - owed_before
        if place.admin is not None and booked:
            used = self._control_seconds() - control_before
            findings.control_us.append(used * 1e6 / booked)
            findings.booked = self._owed

    def _gateway(self, children: Children, tls: bool) -> Gateway:
        """Start a gateway; its first answer is owed to the books."""
        gateway = self._place.start_gateway(children, tls, self._options.workers)
        if self._place.admin is None:
            self._owed = Usage()
        self._owed.add("whole", 1, self._options.paced_events)
        return gateway

    def _subjects(self, scenario: Scenario, gateway: Gateway) -> list[Subject]:
        trusted = self._place.certificate if scenario.tls else None
        subjects = [Subject(GATEWAY, gateway.port, gateway.program.pid, trusted)]
        if self._nginx is not None and scenario.nginx:
            program, port = self._nginx
            subjects.append(Subject(NGINX, port, program.pid))
        if scenario.alone:
            subjects.append(Subject(ALONE, self._place.provider_port, None))
        return subjects

    def _measure(self, scenario: Scenario, subject: Subject, gateway: Gateway) -> None:
        options, findings, place = self._options, self._findings, self._place
        through_gateway = subject.name == GATEWAY

        def settled(kind: str, result: LoadResult) -> None:
            # What came of a broken request is not known, so the books cannot be judged then.
            if not through_gateway or result.broken:
                return
            self._owed.add(kind, result.answered, options.paced_events)
            self._check_books(gateway)

        ours = [program for program in (place.provider, place.control) if program is not None]
        where = f"{scenario.name} on {subject.name}"
        try:
            reading = scenarios.measure(
                scenario,
                subject,
                place.secrets.client_key,
                options.seconds,
                options.paced_events,
                [program.pid for program in ours],
                settled,
            )
        except usage.UsageLostError as error:
            raise WrongResultError(f"{where}: usage is wrong. {error}") from None
        except OSError as error:
            # A connection that nobody takes, or a process that is gone from /proc.
            raise WrongResultError(f"{where}: {error}\n{gateway.program.log_tail()}") from error
        findings.readings.setdefault((scenario.name, subject.name), []).append(reading)
        if reading.broken:
            lines = "\n".join(f"  {reason}" for reason in reading.reasons)
            raise WrongResultError(
                f"{where}: {reading.broken} wrong answers:\n{lines}\n"
                f"the end of the gateway's log:\n{gateway.program.log_tail()}"
            )

    def _check_books(self, gateway: Gateway) -> None:
        admin = self._place.admin
        if admin is None:
            usage.wait_until_booked(self._owed, lambda: usage.in_spool(gateway.spool))
        else:
            usage.wait_until_booked(self._owed, lambda: usage.in_ledger(admin))

    def _control_seconds(self) -> float:
        control = self._place.control
        return 0.0 if control is None else proc.cpu_seconds(control.pid)
