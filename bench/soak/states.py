"""What the planes must look like after a soak, held against what they looked like before; pure."""

from collections import Counter
from collections.abc import Sequence

import attrs

from bench.soak.check import Check
from bench.soak.watch import Sight, slope

# Allowances for resident memory.
#: Of the data plane, in megabytes: what an allocator keeps free after the largest peak, which may
#: come after the warm-up: bodies and answers of a megabyte each, several at a time.
DATA_ALLOWANCE_MB = 16.0
#: Of the control plane, in megabytes: the same, with the rows of a snapshot as they are written.
CONTROL_ALLOWANCE_MB = 24.0
#: And for each event its id, which is remembered for three days, in a table that has just grown.
CONTROL_EVENT_BYTES = 64
#: What the data plane may grow by in the last two thirds of a load, in KB a minute: half of what
#: losing a hundred bytes at each of 300 requests a second would make.
DATA_SLOPE_KB = 900.0
#: A load must last so long for a trend to mean anything: the level of samples moves by megabytes
#: with what happens to be under way.
SLOPE_SECONDS = 200.0
#: Timers of the data plane's own work come and go: a poll, a delivery, a flush of the access log;
#: so do the deadlines of its two connections to the control plane.
TIMERS_MORE = 2

#: What is nothing at rest.
NOTHING = (
    "requests_in_flight",
    "request_memory_bytes",
    "parse_memory_bytes",
    "abandoned_answers",
    "client_connections",
)


@attrs.frozen
class Gauges:
    """What the data plane tells of itself at its listener for metrics."""

    figures: dict[str, float]

    def get(self, name: str) -> float:
        """Return one figure by its name without ``omnigate_data_``.

        :raises KeyError: there is none of this name
        """
        return self.figures[f"omnigate_data_{name}"]

    def labelled(self, name: str) -> dict[str, float]:
        """Return the samples of a metric by their labels, as they are written."""
        front = f"omnigate_data_{name}{{"
        return {
            sample[len(front) : -1]: value
            for sample, value in self.figures.items()
            if sample.startswith(front)
        }

    def pool(self, state: str) -> float:
        """Return the connections to upstreams, ``idle`` or ``busy``."""
        samples = self.labelled("upstream_connections").items()
        return sum(value for labels, value in samples if f'state="{state}"' in labels)

    @property
    def waiting(self) -> float:
        """Events that are not in the ledger yet."""
        return self.figures["omnigate_spool_events"]


@attrs.frozen
class State:
    """Both planes at one moment.

    :ivar data: the data plane from outside, like ``control``.
    """

    gauges: Gauges
    data: Sight
    control: Sight

    @property
    def at_rest(self) -> bool:
        """Whether nothing is under way."""
        gauges = self.gauges
        busy = [gauges.get(name) for name in NOTHING]
        return not (any(busy) or gauges.waiting or gauges.pool("busy") or self.data.count("client"))

    @property
    def upstreams(self) -> int:
        """Sockets to providers, as the kernel counts them."""
        places = {place for place, _ in self.data.sockets if place.startswith("upstream ")}
        return sum(self.data.count(place) for place in places)


@attrs.define
class Course:
    """What was seen while a soak ran.

    :ivar samples: of the data plane's resident memory, as ``(seconds, MB)``.
    :ivar worst_lag: the longest hold of the data plane's reactor that it told of, in seconds.
    :ivar disturbances: what was done to the planes, by name.
    :ivar seconds: how long the load lasted.
    """

    samples: list[tuple[float, float]] = attrs.Factory(list)
    worst_lag: float = 0.0
    disturbances: Counter[str] = attrs.Factory(Counter)
    seconds: float = 0.0

    def trend_kb(self) -> float:
        """The slope of the data plane's memory over the last two thirds, in KB a minute."""
        return trend_kb(self.samples)


def trend_kb(samples: Sequence[tuple[float, float]]) -> float:
    """Return the slope over the last two thirds of samples, in KB a minute."""
    return slope(samples[len(samples) // 3 :]) * 60 * 1000


def checks(
    before: State, after: State, course: Course, events: int, without_pool: bool
) -> list[Check]:
    """Compare the planes after a load with what they were before.

    :param events: in the ledger.
    :param without_pool: whether kept connections to providers had the time to be closed.
    """
    return [
        _nothing_left(after),
        _timers(before, after),
        _descriptors("data", before.data, after.data, 0),
        _descriptors("control", before.control, after.control, after.data.count("control")),
        _pool(after, without_pool),
        _grown("data", before.data, after.data, DATA_ALLOWANCE_MB),
        _grown(
            "control",
            before.control,
            after.control,
            CONTROL_ALLOWANCE_MB + events * CONTROL_EVENT_BYTES / 1e6,
        ),
        *_trend(course),
    ]


def _nothing_left(after: State) -> Check:
    check = Check("nothing is in flight, reserved, read on, or open to a client", len(NOTHING))
    for name in NOTHING:
        if after.gauges.get(name):
            check.fail(f"{name} is {after.gauges.get(name):g}")
    if after.gauges.waiting:
        check.fail(f"{after.gauges.waiting:g} events wait in the spool")
    return check


def _timers(before: State, after: State) -> Check:
    check = Check("as many deadlines and timers as before, kept connections left aside", 2)
    # Each kept connection has a deadline of its own.
    deadlines = [
        state.gauges.get("deadlines") - state.gauges.pool("idle") for state in (before, after)
    ]
    if deadlines[1] > deadlines[0] + TIMERS_MORE:
        check.fail(f"{deadlines[1]:g} deadlines after, {deadlines[0]:g} before")
    timers = [state.gauges.get("timers") for state in (before, after)]
    if timers[1] > timers[0] + TIMERS_MORE:
        check.fail(f"{timers[1]:g} timers after, {timers[0]:g} before")
    return check


def _descriptors(name: str, before: Sight, after: Sight, clients: int) -> Check:
    check = Check(f"the {name} plane has as many descriptors as before, sockets aside", 1)
    if after.files > before.files:
        check.fail(f"{after.files} files and pipes after, {before.files} before")
    if after.count("client") > clients:
        check.fail(f"{after.count('client')} connections of clients are open, {clients} are known")
    for (place, state), count in after.sockets.items():
        if state not in ("established", "listening"):
            check.fail(f"{count} connections to {place} are {state}")
    return check


def _pool(after: State, without_pool: bool) -> Check:
    check = Check("connections to providers are those that are kept, and in the end none", 1)
    idle = after.gauges.pool("idle")
    if after.gauges.pool("busy"):
        check.fail(f"{after.gauges.pool('busy'):g} are busy")
    if after.upstreams != idle:
        check.fail(f"{idle:g} are kept, {after.upstreams} are open")
    if without_pool and idle:
        check.fail(f"{idle:g} are still kept")
    return check


def _grown(name: str, before: Sight, after: Sight, allowed_mb: float) -> Check:
    check = Check(f"the {name} plane has grown by {allowed_mb:.0f} MB at the most", 1)
    if after.rss_mb - before.rss_mb > allowed_mb:
        check.fail(f"{after.rss_mb:.1f} MB after, {before.rss_mb:.1f} before")
    return check


def _trend(course: Course) -> list[Check]:
    if course.seconds < SLOPE_SECONDS:
        return []
    check = Check(f"the data plane grows by less than {DATA_SLOPE_KB:g} KB a minute", 1)
    if course.trend_kb() > DATA_SLOPE_KB:
        check.fail(f"it grows by {course.trend_kb():.0f} KB a minute")
    return [check]
