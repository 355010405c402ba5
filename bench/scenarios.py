"""The scenarios, and one measurement of one: what was sent, what it cost, what came back."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs

from bench import load, proc, traffic
from bench.answers import PacedPayload, Payload
from bench.in_memory import payload_of
from bench.load import Load, LoadResult

_EVENTS = traffic.BURST_EVENTS
_PACE_MS, _SLOW_PACE_MS = (round(1000 * seconds) for seconds in traffic.PACES.values())
_MEGABYTE = 1024 * 1024


@attrs.frozen
class Scenario:
    """One row of the table.

    :ivar kind: of the traffic: one of :data:`~bench.traffic.CLIENT_MODELS`.
    :ivar alone: whether the provider is asked without a gateway too, for what the gateway adds.
    :ivar usual: whether it is measured where nothing else is asked for.
    :ivar nginx: whether nginx can do the same.
    :ivar tls: whether clients come over TLS.
    """

    name: str
    title: str
    kind: str
    connections: int
    request_bytes: int = attrs.field(default=1024, kw_only=True)
    alone: bool = attrs.field(default=False, kw_only=True)
    usual: bool = attrs.field(default=True, kw_only=True)
    nginx: bool = attrs.field(default=True, kw_only=True)
    tls: bool = attrs.field(default=False, kw_only=True)

    @property
    def unit(self) -> str:
        """What the processor time is divided by."""
        return "event" if self.kind in traffic.STREAMS else "request"


SCENARIOS = (
    Scenario("chat1", "chat, 1 KB, 1 connection", "whole", 1, alone=True),
    Scenario("chat32", "chat, 1 KB, 32 connections", "whole", 32),
    Scenario("xlate32", "the same, translated to Anthropic's", "xwhole", 32, nginx=False),
    Scenario("tls32", "the same, TLS on both sides", "secure", 32, nginx=False, tls=True),
    Scenario("stream32", f"streams of {_EVENTS} events in one write, 32", "burst", 32),
    Scenario("xstream32", "the same, translated", "xburst", 32, nginx=False),
    Scenario("paced100", f"streams of an event each {_PACE_MS} ms, 100", "paced", 100, usual=False),
    Scenario("paced500", f"streams of an event each {_PACE_MS} ms, 500", "paced", 500, alone=True),
    Scenario(
        "paced2000",
        f"streams of an event each {_SLOW_PACE_MS} ms, 2,000",
        "slow",
        2000,
        alone=True,
        usual=False,
    ),
    Scenario("large8", "chat, 1 MB, 8 connections", "whole", 8, request_bytes=_MEGABYTE),
    Scenario(
        "huge2",
        "chat, 8 MB, 2 connections",
        "whole",
        2,
        request_bytes=8 * _MEGABYTE - 4096,
        usual=False,
    ),
    Scenario("down8", "answers of 1 MB, 8 connections", "whole1m", 8),
    Scenario("hugedown2", "answers of 8 MB, 2 connections", "whole8m", 2, usual=False),
)

#: The start and the memory of a gateway that nobody asks anything: measured without a load.
START = "start"

# Of the first requests of paced streams: many pauses, so that two thousand do not begin at once.
_STAGGER_SECONDS = 0.5

#: A load before the measured one, so that connections are open and code is warm.
WARM_SECONDS = 0.3


@attrs.frozen
class Subject:
    """What a scenario is measured on: the gateway, nginx, or the provider alone.

    :ivar pid: whose processor time and memory count, with its children's; ``None`` for none.
    :ivar trusted: its certificate, where it is behind TLS.
    """

    name: str
    port: int
    pid: int | None
    trusted: Path | None = None


@attrs.define
class Reading:
    """One measurement.

    :ivar units: requests answered, or events that came.
    :ivar requests: answered.
    :ivar cpu_us: microseconds of processor time for a unit; ``None`` where no process is looked at.
    :ivar delays_ms: latency of each request, or of each event of a paced stream, sorted.
    :ivar seconds: how long the load took.
    :ivar rss_peak_mb: the most memory of the process during the load; of several, the sum.
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
    return traffic.events_of(scenario.kind, paced_events)


def load_of(
    scenario: Scenario,
    port: int,
    key: str,
    seconds: float,
    paced_events: int,
    delays_ns: list[int],
    trusted: Path | None,
) -> Load:
    """Return the load of a scenario.

    :param delays_ns: is given the delay of each event of a paced stream.
    :param trusted: the certificate of a gateway behind TLS.
    """
    pace = traffic.PACES.get(scenario.kind)
    paced = pace is not None
    events = events_of(scenario, paced_events)
    payload: Callable[[], Payload]
    if paced:
        payload = partial(PacedPayload, events, delays_ns)
    else:
        payload = payload_of(scenario.kind)
    return Load(
        port=port,
        connections=scenario.connections,
        request=traffic.request_bytes(scenario.kind, scenario.request_bytes, port, key),
        payload=payload,
        seconds=seconds if pace is None else events * pace,
        each=1 if paced else None,
        # Spread over some pauses, as streams of strangers are; else all events come at once.
        stagger_seconds=min(_STAGGER_SECONDS, seconds / 4) if paced else 0.0,
        trusted=trusted,
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
    trusted, family = subject.trusted, proc.family(subject.pid)
    # A paced stream would warm up for as long as it lasts; one in one write goes the same way.
    warming = (
        scenario if scenario.kind not in traffic.PACES else attrs.evolve(scenario, kind="burst")
    )
    warm = load.run(load_of(warming, subject.port, key, WARM_SECONDS, paced_events, [], trusted))
    settled(warming.kind, warm)
    if warm.broken:
        return Reading.of_broken(warm)
    delays_ns: list[int] = []
    wanted = load_of(scenario, subject.port, key, seconds, paced_events, delays_ns, trusted)
    for pid in family:
        with suppress(OSError):  # where it is forbidden, the peak is that of the whole run
            proc.reset_peak(pid)
    before = _Clock.read(family, ours)
    result = load.run(wanted)
    settled(scenario.kind, result)
    after = _Clock.read(family, ours)
    units = result.answered * events_of(scenario, paced_events)
    if scenario.kind not in traffic.PACES:
        delays_ns = result.latencies_ns
    return Reading(
        units=units,
        requests=result.answered,
        cpu_us=(after.subject - before.subject) * 1e6 / units if family and units else None,
        delays_ms=sorted(delay / 1e6 for delay in delays_ns),
        seconds=result.seconds,
        rss_peak_mb=sum(proc.memory_mb(pid, "VmHWM") for pid in family) if family else None,
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
    def read(cls, family: list[int], ours: list[int]) -> "_Clock":
        subject = sum(map(proc.cpu_seconds, family))
        own = time.process_time() + sum(proc.cpu_seconds(other) for other in ours)
        return cls(subject, subject + own, proc.busy_seconds(), time.monotonic())

    def others_since(self, before: "_Clock") -> float:
        """Return how many cores' worth of work was not of this benchmark."""
        work = (self.machine - before.machine) - (self.ours - before.ours)
        return max(0.0, work / (self.at - before.at))
