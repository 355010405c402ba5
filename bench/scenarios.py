"""The scenarios, and one measurement of one: what was sent, what it cost, what came back."""

import time
from collections.abc import Callable
from contextlib import suppress

import attrs

from bench import load, proc, traffic
from bench.answers import ExactPayload, PacedPayload, Payload
from bench.load import Load, LoadResult


@attrs.frozen(kw_only=True)
class Scenario:
    """One row of the table.

    :ivar kind: of the traffic: ``whole``, ``burst`` or ``paced``.
    :ivar unit: what the processor time is divided by: ``request`` or ``event``.
    :ivar alone: whether the provider is asked without a gateway too, for what the gateway adds.
    :ivar usual: whether it is measured where nothing else is asked for.
    """

    name: str
    title: str
    kind: str
    connections: int
    request_bytes: int
    unit: str
    alone: bool = False
    usual: bool = True


SCENARIOS = (
    Scenario(
        name="chat1",
        title="chat, 1 KB, 1 connection",
        kind="whole",
        connections=1,
        request_bytes=1024,
        unit="request",
        alone=True,
    ),
    Scenario(
        name="chat32",
        title="chat, 1 KB, 32 connections",
        kind="whole",
        connections=32,
        request_bytes=1024,
        unit="request",
    ),
    Scenario(
        name="stream32",
        title=f"streams of {traffic.BURST_EVENTS} events in one write, 32",
        kind="burst",
        connections=32,
        request_bytes=1024,
        unit="event",
    ),
    Scenario(
        name="paced100",
        title=f"streams of an event each {traffic.PACE_SECONDS * 1000:.0f} ms, 100",
        kind="paced",
        connections=100,
        request_bytes=1024,
        unit="event",
        alone=True,
    ),
    Scenario(
        name="large8",
        title="chat, 1 MB, 8 connections",
        kind="whole",
        connections=8,
        request_bytes=1024 * 1024,
        unit="request",
    ),
)

#: The start and the memory of a gateway that nobody asks anything: measured without a load.
START = "start"

#: A load before the measured one, so that connections are open and code is warm.
WARM_SECONDS = 0.3


@attrs.frozen
class Subject:
    """What a scenario is measured on: the gateway, nginx, or the provider alone.

    :ivar pid: whose processor time and memory count; ``None`` for none.
    """

    name: str
    port: int
    pid: int | None


@attrs.define
class Reading:
    """One measurement.

    :ivar units: requests answered, or events that came.
    :ivar requests: answered.
    :ivar cpu_us: microseconds of processor time for a unit; ``None`` where no process is looked at.
    :ivar delays_ms: latency of each request, or of each event of a paced stream, sorted.
    :ivar seconds: how long the load took.
    :ivar rss_peak_mb: the most memory of the process during the load.
    :ivar other_cores: how many cores' worth of work the rest of the machine did meanwhile.
    :ivar broken: wrong answers; ``reasons`` says what was wrong with the first few.
    """

    units: int
    requests: int
    cpu_us: float | None
    delays_ms: list[float]
    seconds: float
    rss_peak_mb: float | None
    other_cores: float
    broken: int
    reasons: list[str]

    @classmethod
    def of_broken(cls, warm: LoadResult) -> "Reading":
        """Return what is to be told of a warm-up that went wrong: nothing was measured then."""
        return cls(0, 0, None, [], warm.seconds, None, 0.0, warm.broken, warm.reasons)


def events_of(scenario: Scenario, paced_events: int) -> int:
    """Return how many events one answer has, or 1 where answers are counted."""
    per_answer = {"whole": 1, "burst": traffic.BURST_EVENTS, "paced": paced_events}
    return per_answer[scenario.kind]


def load_of(
    scenario: Scenario,
    port: int,
    key: str,
    seconds: float,
    paced_events: int,
    delays_ns: list[int],
) -> Load:
    """Return the load of a scenario.

    :param delays_ns: is given the delay of each event of a paced stream.
    """
    exact = {"whole": traffic.whole_body(), "burst": traffic.burst_payload(with_usage=False)}

    def payload() -> Payload:
        if scenario.kind == "paced":
            return PacedPayload(paced_events, delays_ns)
        return ExactPayload(exact[scenario.kind])

    paced = scenario.kind == "paced"
    return Load(
        port=port,
        connections=scenario.connections,
        request=traffic.request_bytes(scenario.kind, scenario.request_bytes, port, key),
        payload=payload,
        seconds=paced_events * traffic.PACE_SECONDS if paced else seconds,
        each=1 if paced else None,
        # Spread over one pause, as streams of strangers are; else all events come at once.
        stagger_seconds=traffic.PACE_SECONDS if paced else 0.0,
    )


def measure(
    scenario: Scenario,
    subject: Subject,
    key: str,
    seconds: float,
    paced_events: int,
    ours: list[int],
    settled: Callable[[str, LoadResult], None],
) -> Reading:
    """Warm up, send the load, and read what it cost.

    :param ours: processes of the benchmark beside the subject and this one.
    :param settled: waits until the subject has done all that it owes for a load of a kind; that
        is part of the cost.
    """
    # A paced stream would warm up for as long as it lasts; one in one write goes the same way.
    warming = scenario if scenario.kind != "paced" else attrs.evolve(scenario, kind="burst")
    warm = load.run(load_of(warming, subject.port, key, WARM_SECONDS, paced_events, []))
    settled(warming.kind, warm)
    if warm.broken:
        return Reading.of_broken(warm)
    delays_ns: list[int] = []
    wanted = load_of(scenario, subject.port, key, seconds, paced_events, delays_ns)
    if subject.pid is not None:
        with suppress(OSError):  # where it is forbidden, the peak is that of the whole run
            proc.reset_peak(subject.pid)
    before = _Clock.read(subject.pid, ours)
    result = load.run(wanted)
    settled(scenario.kind, result)
    after = _Clock.read(subject.pid, ours)
    units = result.answered * events_of(scenario, paced_events)
    if scenario.kind != "paced":
        delays_ns = result.latencies_ns
    return Reading(
        units=units,
        requests=result.answered,
        cpu_us=(after.subject - before.subject) * 1e6 / units if subject.pid and units else None,
        delays_ms=sorted(delay / 1e6 for delay in delays_ns),
        seconds=result.seconds,
        rss_peak_mb=None if subject.pid is None else proc.memory_mb(subject.pid, "VmHWM"),
        other_cores=after.others_since(before),
        broken=result.broken,
        reasons=result.reasons,
    )


@attrs.frozen
class _Clock:
    """Processor time so far, in seconds: of the subject, of all that is ours, of the machine."""

    subject: float
    ours: float
    machine: float
    at: float

    @classmethod
    def read(cls, pid: int | None, ours: list[int]) -> "_Clock":
        subject = 0.0 if pid is None else proc.cpu_seconds(pid)
        own = time.process_time() + sum(proc.cpu_seconds(other) for other in ours)
        return cls(subject, subject + own, proc.busy_seconds(), time.monotonic())

    def others_since(self, before: "_Clock") -> float:
        """Return how many cores' worth of work was not of this benchmark."""
        work = (self.machine - before.machine) - (self.ours - before.ours)
        return max(0.0, work / (self.at - before.at))
