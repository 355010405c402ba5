"""The parts of the ledger's benchmark, each with planes and a folder of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench.ledger import events
from bench.ledger.events import Crowd
from bench.ledger.figures import Figure, median
from bench.ledger.plane import Cpu, Plane, Ready, run_python
from bench.ledger.polls import polls
from bench.ledger.senders import Probe, Sent, record, send
from omnigate.demo_children import Children

#: What a control plane that starts has to read before anything of the ledger.
IMPORTS = (
    "import twisted.scripts.twistd, omnigate.protocols.lean_reactor, "
    "twisted.plugins.omnigate_plugin, omnigate.control_tap"
)

#: The bars.
EVENTS_A_SECOND = 20_000
HELD_MS = 20.0
START_SECONDS = 0.75
REPLAY_SECONDS = 12.0
MB_A_MILLION_IDS = 61 * 1.048576

#: How long the first snapshot may take after a start.
SNAPSHOT_SECONDS = 30.0

#: Keys of the widest ledger.
WIDE_KEYS = 10_000


@attrs.frozen
class Options:
    """What was asked for.

    :ivar events: in a ledger that is there at a start.
    :ivar load: events that are sent for one figure.
    :ivar unsaved: events since the last snapshot when the control plane is killed.
    :ivar ids: the counts of ids at which memory is looked at, in order.
    :ivar folder: on the disk that is measured.
    """

    events: int
    load: int
    unsaved: int
    ids: tuple[int, ...]
    rounds: int
    folder: Path


class Bench:
    """What the parts share: the options, and where planes come from."""

    def __init__(self, options: Options, tell: Callable[[str], None]) -> None:
        self.options = options
        self.tell = tell

    @contextmanager
    def plane(self, name: str, keys: int = 1_000, budgets: bool = False) -> Iterator[Plane]:
        """A plane that is not started yet; it and its files are gone at the end."""
        folder = self.options.folder / name
        folder.mkdir()
        try:
            with Children() as children:
                yield Plane(folder, children, events.config_text(keys, budgets))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# -- recording


def ingest(bench: Bench) -> Iterator[Figure]:
    """Yield what recording costs: four batches of 500 events in flight, each one synced."""
    options = bench.options
    rates: list[float] = []
    cpus: list[Cpu] = []
    acks: list[float] = []
    held: list[float] = []
    long = 0
    probes: list[float] = []
    crowd = Crowd()
    with bench.plane("ingest") as plane:
        for turn in range(2 * options.rounds):
            bench.tell(f"ingest: load {turn + 1} of {2 * options.rounds}")
            # Times and processor time come from plain processes, holds from watched ones.
            timed = turn >= options.rounds
            if turn in (0, options.rounds):
                if timed:
                    plane.stop()
                plane.start(timed)
                first = turn * 10_000_000 + 5_000_000
                send(plane.port, events.batches(crowd, first, 5_000, plane.token))
            requests = events.batches(crowd, turn * 10_000_000, options.load, plane.token)
            plane.turns.forget()
            before = plane.cpu()
            if timed:
                with Probe(plane.port) as probe:
                    send(plane.port, requests)
                probes.append(max(probe.latencies, default=0.0))
                held.append(plane.turns.longest().held)
                long += plane.turns.longest().long
            else:
                sent = send(plane.port, requests)
                cpus.append(plane.cpu().since(before))
                rates.append(sent.recorded / sent.seconds)
                acks.append(_percentile(sent.latencies, 0.99) * 1e3)
        plane.stop()
    part = "ingest"
    yield Figure(
        part, "events a second", median(rates), "/s", EVENTS_A_SECOND, least=True, quiet=True
    )
    each = 1e6 / options.load
    yield Figure(part, "processor time an event", median(c.total for c in cpus) * each, "µs")
    yield Figure(part, "  of that, in the kernel", median(c.system for c in cpus) * each, "µs")
    yield Figure(part, "acknowledged within (p99)", median(acks), "ms", quiet=True)
    yield Figure(part, "reactor held, at most", median(held), "ms", HELD_MS)
    yield Figure(part, f"  20 ms or more, in {options.rounds} loads", long, "times")
    yield Figure(part, "/healthz meanwhile, at most", median(probes) * 1e3, "ms", quiet=True)


# -- starting


def start(bench: Bench) -> Iterator[Figure]:
    """Yield how long starts take: empty, replaying all, behind a snapshot, after ``kill -9``."""
    options, part = bench.options, "start"
    rounds = options.rounds
    million = f"{options.events:,} events"
    with bench.plane("start") as plane:
        bench.tell("start: interpreter and imports")
        python = run_python("pass", plane.folder, 2 * rounds + 1)
        imports = run_python(IMPORTS, plane.folder, 2 * rounds + 1) - python
        yield Figure(part, "the interpreter alone", python, "s", quiet=True)
        yield Figure(part, "imports, beyond that", imports, "s", quiet=True)

        def figures(name: str, starts: list[Ready], bar: float | None) -> Iterator[Figure]:
            wall = median(ready.seconds for ready in starts) - python
            cpu = median(ready.cpu_seconds for ready in starts)
            yield Figure(part, f"{name}: to READY, beyond that", wall, "s", bar, quiet=True)
            yield Figure(part, f"{name}: processor time", cpu, "s")

        starts = [_restarted(plane) for _ in range(rounds)]
        yield from figures("empty", starts, START_SECONDS)
        plane.forget_snapshots()
        bench.tell("start: writing the ledger")
        events.write_ledger(plane.ledger, Crowd(), options.events, int(time.time() * 1000))
        starts = []
        for turn in range(rounds):
            bench.tell(f"start: replay {turn + 1} of {rounds}")
            plane.forget_snapshots()
            starts.append(plane.start())
            if turn == rounds - 1:
                there = plane.wait_snapshot(SNAPSHOT_SECONDS)
            plane.stop()
        yield from figures(f"{million}, no snapshot", starts, REPLAY_SECONDS)
        if not there:
            return
        bench.tell("start: behind a snapshot")
        starts = [_restarted(plane) for _ in range(rounds)]
        yield from figures(f"{million} behind a snapshot", starts, START_SECONDS)
        starts = []
        for turn in range(rounds):
            bench.tell(f"start: after kill -9, {turn + 1} of {rounds}")
            plane.start()
            first = (turn + 1) * 10_000_000
            requests = events.batches(Crowd(), first, options.unsaved, plane.token)
            sent = send(plane.port, requests)
            plane.kill()
            starts.append(plane.start())
            again = send(plane.port, requests[:10])
            assert (sent.recorded, again.recorded) == (options.unsaved, 0), (sent, again)
            plane.stop()
        yield from figures(f"kill -9 with {options.unsaved:,} since", starts, None)


def _restarted(plane: Plane) -> Ready:
    ready = plane.start()
    plane.stop()
    return ready


# -- memory


def memory(bench: Bench) -> Iterator[Figure]:
    """Yield what remembered ids take of memory, and what they do to a start."""
    options, part = bench.options, "memory"
    crowd = Crowd(days=1)
    with bench.plane("memory") as plane:
        plane.start()
        record(plane.port, plane.token, crowd, 90_000_000, 60_000)
        base = plane.rss_mb()
        yield Figure(part, "before", base, "MB")
        done = 0
        for count in options.ids:
            bench.tell(f"memory: recording up to {count:,} ids")
            record(plane.port, plane.token, crowd, done, count - done)
            done = count
            grown = plane.rss_mb() - base
            each = grown * 1e6 / count
            bar = MB_A_MILLION_IDS * count / 1e6
            yield Figure(part, f"{count:,} ids recorded: grown by", grown, "MB", bar)
            yield Figure(part, f"{count:,} ids recorded: an id", each, "bytes")
        yield Figure(part, "the most there was", plane.peak_mb(), "MB")
        plane.stop()
        if not plane.snapshot.exists():
            return
        bench.tell("memory: starts with all ids")
        python = run_python("pass", plane.folder, 2 * options.rounds + 1)
        starts = [_restarted(plane) for _ in range(options.rounds)]
        took = median(ready.seconds for ready in starts) - python
        yield Figure(
            part, f"start with {done:,} ids, as above", took, "s", START_SECONDS, quiet=True
        )
        plane.start()
        idle = plane.rss_mb()
        yield Figure(part, "after that start", idle, "MB")
        first = send(plane.port, events.batches(crowd, done, 1, plane.token))
        yield Figure(part, "the first batch waits for the ids", first.seconds, "s", quiet=True)
        record(plane.port, plane.token, crowd, 91_000_000, 20_000)
        grown = plane.rss_mb() - base
        bar = MB_A_MILLION_IDS * done / 1e6
        yield Figure(part, f"{done:,} ids read back: more than before", grown, "MB", bar)
        plane.stop()


# -- snapshots and polls with many keys


def wide(bench: Bench) -> Iterator[Figure]:
    """Yield what a snapshot and a poll do with a million ids and ten thousand keys."""
    options = bench.options
    crowd = Crowd(keys=WIDE_KEYS)
    with bench.plane("wide", WIDE_KEYS, budgets=True) as plane:
        bench.tell("wide: writing the ledger")
        events.write_ledger(plane.ledger, crowd, options.events, int(time.time() * 1000))
        bench.tell("wide: replay")
        plane.start(timed=True)
        there = plane.wait_snapshot(SNAPSHOT_SECONDS)
        part = "snapshot"
        longest = plane.turns.longest()
        yield Figure(part, "reactor held in a replay and its snapshot", longest.held, "ms", HELD_MS)
        if there:
            yield Figure(part, "size", plane.snapshot.stat().st_size / 1e6, "MB")
        record(plane.port, plane.token, crowd, 80_000_000, 5_000)
        held, waited, usual, snapshots = [], [], [], 0
        for turn in range(options.rounds):
            bench.tell(f"wide: load {turn + 1} of {options.rounds}")
            plane.turns.forget()
            sent, written = _loaded(plane, crowd, 100_000_000 * (turn + 1), options.load)
            held.append(plane.turns.longest().held)
            waited.append(max(sent.latencies) * 1e3)
            usual.append(median(sent.latencies) * 1e3)
            snapshots += written
        yield Figure(part, f"written during {options.rounds} loads", snapshots, "times")
        yield Figure(part, "reactor held in a load, at most", median(held), "ms", HELD_MS)
        yield Figure(part, "a batch waited, at most", median(waited), "ms", quiet=True)
        yield Figure(part, "a batch waited, the median", median(usual), "ms", quiet=True)
        plane.stop()
        bench.tell("wide: polls")
        plane.start()
        yield from polls(plane, crowd)
        plane.stop()


def _loaded(plane: Plane, crowd: Crowd, first: int, count: int) -> tuple[Sent, int]:
    """Send a load; what came of it, and how many snapshots were written meanwhile."""
    known, written = _stamp(plane.snapshot), 0
    total = Sent()
    for at in range(0, count, 10_000):
        requests = events.batches(crowd, first + at, min(10_000, count - at), plane.token)
        sent = send(plane.port, requests)
        total.latencies += sent.latencies
        total.recorded += sent.recorded
        now = _stamp(plane.snapshot)
        written += now != known
        known = now
    return total, written


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return 0, 0
    return stat.st_ino, stat.st_mtime_ns


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
