"""``python -m bench holds``: the longest that one call of the data plane can hold its reactor.

Everything the reactor does waits for the call it is in, so each call has a bar: 20 ms, and 30 ms
for what a body of the largest default size asks for at once. Inputs that mean harm are in
:mod:`bench.hostile`, :mod:`bench.hostile_translated`, :mod:`bench.hostile_requests` and
:mod:`bench.scan_bodies`; here is also what grows with the config and with the connections.
Processor time of the thread is measured, so other load does little to it.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Generator, Iterator
from hashlib import sha256

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from bench import hostile_requests, hostile_translated, scan_bodies, scrape_rows
from bench.hostile import READ_BYTES, ROWS, Call, Row
from omnigate.capabilities import Capabilities
from omnigate.config.snapshot import (
    Snapshot,
    SnapshotKey,
    SnapshotRoute,
    SnapshotSecret,
    SnapshotTarget,
    SnapshotUpstream,
)
from omnigate.gateway.compiling import compile_tables
from omnigate.gateway.plane import compile_upstream
from omnigate.gateway.routing import order
from omnigate.gateway.tables import KeyLimits, Tables, Upstream
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.translated_relay import WHOLE_BYTES
from omnigate.protocols.watchdog import NEVER, Watchdog
from omnigate.wire.json_body import ScanError
from omnigate.wire.json_members import media_parts
from omnigate.wire.json_scan import BodyScanner

#: What one call may take, in milliseconds.
BAR_MS = 20.0
#: What the end of the largest body may take.
BODY_BAR_MS = 30.0
BODY_END = "body, at its end"
#: The groups of rows that have this second bar.
OF_LARGEST_BODY = (BODY_END, hostile_requests.GROUP, hostile_requests.ANSWER_GROUP)
#: The default of ``OMNIGATE_MAX_REQUEST_MB``.
BODY_BYTES = 8 << 20

#: The most that a config may have, and the most connections at which the plane is measured.
KEYS, ROUTES, UPSTREAMS, TARGETS = 10_000, 5_000, 500, 64
CONNECTIONS = 10_000


# -- request bodies


def body_rows(size: int) -> Iterator[Row]:
    """Yield, for each hostile body, its dearest read, its end, and the estimate's look at it."""
    for name, build in scan_bodies.ROWS.items():
        body = build(size)
        yield Row("body, a read", name, _dearest_read(body))
        yield Row(BODY_END, name, _end_of(body))
        yield Row("media parts", name, _media_of(body))


def _dearest_read(body: bytes) -> Callable[[], Call]:
    """Scan a body up to the read that costs most, and return that one."""
    reads = [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]
    scanner = BodyScanner(len(body))
    costs = []
    for read in reads:
        began = time.thread_time()
        scanner.feed(read)
        costs.append(time.thread_time() - began)
    dearest = costs.index(max(costs))

    def make() -> Call:
        scanner = BodyScanner(len(body))
        for read in reads[:dearest]:
            scanner.feed(read)
        return lambda: scanner.feed(reads[dearest])

    return make


def _end_of(body: bytes) -> Callable[[], Call]:
    def make() -> Call:
        scanner = BodyScanner(len(body))
        for at in range(0, len(body), READ_BYTES):
            scanner.feed(body[at : at + READ_BYTES])
        return lambda: _finish(scanner, body)

    return make


def _finish(scanner: BodyScanner, body: bytes) -> None:
    try:
        scanner.finish(body)
    except ScanError:
        pass


def _media_of(body: bytes) -> Callable[[], Call]:
    return lambda: lambda: media_parts(body)


# -- what grows with the config and the connections


def largest_snapshot(blocked: int = -1) -> Snapshot:
    """Return a snapshot of as much as a config may have.

    :param blocked: the number of a key that is blocked.
    """
    return Snapshot(
        version=str(blocked),
        keys=tuple(
            SnapshotKey(
                sha256=sha256(b"%d" % number).hexdigest(),
                name=f"key-{number}",
                rpm=60,
                models=None if number % 2 else ("model-1", "model-*"),
                blocked=number == blocked,
                max_concurrent=8,
            )
            for number in range(KEYS)
        ),
        upstreams=tuple(
            SnapshotUpstream(
                name=f"u{number}",
                protocol="openai" if number % 2 else "anthropic",
                base_url="http://127.0.0.1:9/v1",
                api_key_env=None,
                connect_timeout_ms=1000,
                head_timeout_ms=1000,
                cooldown_failures=3,
                cooldown_window_s=30,
                cooldown_seconds=30,
                anthropic_version=None,
                drop_betas=(),
                abandon="read_on",
                proxy=None,
                ca_file=None,
            )
            for number in range(UPSTREAMS)
        ),
        capabilities=(Capabilities(),),
        routes=tuple(
            SnapshotRoute(
                model=f"model-{number}",
                strategy="weighted",
                cache_ttl_s=0,
                targets=tuple(
                    SnapshotTarget(upstream=f"u{target}", model="m", weight=1, caps=0)
                    for target in range(TARGETS if number == 0 else 2)
                ),
            )
            for number in range(ROUTES)
        ),
        media_models=(),
    )


def with_every_rule(snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot, whose keys have every limit and as many secrets as there may be."""
    end = 2_000_000_000_000
    keys = []
    for key in snapshot.keys:
        hashes = [sha256(f"{key.sha256}{n}".encode()).hexdigest() for n in range(8)]
        secrets = (SnapshotSecret(key.sha256), *(SnapshotSecret(each, end) for each in hashes))
        rules = {"tpm": 1000, "endpoints": ("chat",), "allowed_ips": ("192.0.2.7",)}
        keys.append(msgspec.structs.replace(key, secrets=secrets, expires_ms=end, **rules))
    return attrs.evolve(snapshot, keys=tuple(keys))


def _compiling(snapshot: Snapshot, before: Tables | None) -> Generator[None, None, Tables]:
    watchdog = Watchdog(Clock())

    def open_upstream(config: SnapshotUpstream) -> Upstream:
        pool = UpstreamPool(lambda build: Deferred(), watchdog)
        return compile_upstream(config, parse_address(config.base_url), pool, {})

    return compile_tables(snapshot, before, open_upstream, 0.0, KeyLimits())


def _compiled(snapshot: Snapshot) -> Tables:
    compiling = _compiling(snapshot, None)
    while True:
        try:
            next(compiling)
        except StopIteration as ended:
            tables: Tables = ended.value
            return tables


def _step(compiling: Generator[None, None, Tables], made: list[Tables]) -> None:
    """Compile one slice on; the tables are put in ``made`` when they are whole."""
    try:
        next(compiling)
    except StopIteration as ended:
        made.append(ended.value)


def _dearest_slice(snapshot: Snapshot, before: Tables | None) -> Callable[[], Call]:
    """Compile a snapshot up to the slice that costs most, and return that one."""
    costs = []
    compiling = _compiling(snapshot, before)
    # What comes of it is kept, as a plane keeps it: to free so many keys is another matter.
    made: list[Tables] = []
    while not made:
        began = time.thread_time()
        _step(compiling, made)
        costs.append(time.thread_time() - began)
    dearest = costs.index(max(costs))

    def make() -> Call:
        compiling = _compiling(snapshot, before)
        for _ in range(dearest):
            next(compiling)
        return lambda: _step(compiling, made)

    return make


def plane_rows() -> Iterator[Row]:
    """Yield what a plane of the largest config does."""
    before = _compiled(largest_snapshot())
    unbound = next(key for key in before.keys.values() if key.exact is None)

    def model_list(protocol: str) -> Callable[[], Call]:
        def make() -> Call:
            before.model_lists.clear()
            return lambda: before.model_list(unbound, protocol, 0)

        return make

    def ordering(strategy: str) -> Callable[[], Call]:
        targets = before.routes["model-0"].targets
        return lambda: lambda: order(strategy, targets, 7, 0.0, lambda: 0.5)

    after = largest_snapshot(blocked=7)
    yield Row("config", "one key of the most is blocked, a slice", _dearest_slice(after, before))
    ruled = with_every_rule(after)
    yield Row("config", "the most keys with every rule, a slice", _dearest_slice(ruled, None))
    for protocol in ("openai", "anthropic"):
        yield Row("model list", protocol, model_list(protocol))
    for strategy in ("failover", "round_robin", "weighted"):
        yield Row("order of targets", strategy, ordering(strategy))
    yield Row("deadlines", f"{CONNECTIONS} connections, none due", lambda: _sweep(NEVER))
    yield Row("deadlines", f"{CONNECTIONS} connections, all due", lambda: _sweep(0.0))


@attrs.define(eq=False)
class _Waiting:
    """Something with a deadline, that only waits anew."""

    deadline: float

    def deadline_passed(self, now: float) -> None:
        self.deadline = NEVER


def _sweep(deadline: float) -> Call:
    clock = Clock()
    watchdog = Watchdog(clock)
    for _ in range(CONNECTIONS):
        watchdog.add(_Waiting(deadline))
    watchdog.start()
    return lambda: clock.advance(1.0)


# -- measuring

# What took no longer is not measured again.
_QUICK_MS = 2.0


def bar_ms(row: Row) -> float:
    """Return what a row's call may take, in milliseconds."""
    return BODY_BAR_MS if row.group in OF_LARGEST_BODY else BAR_MS


def measure(row: Row, runs: int) -> float:
    """Return the processor time of a row's call in milliseconds, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        call = row.make()
        began = time.thread_time()
        call()
        best = min(best, (time.thread_time() - began) * 1e3)
        if best < _QUICK_MS:
            break
    return best


def main(arguments: list[str]) -> int:
    """Measure, print each group's dearest rows, and return the exit status.

    :returns: 1 when a call is over its bar.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench holds",
        description="Measures the longest that one call of the data plane can hold its reactor.",
    )
    parser.add_argument("--runs", type=int, default=3, help="of each, the best counts (3)")
    parser.add_argument("--size", type=int, default=BODY_BYTES, help="bytes of a request body")
    parser.add_argument("--rows", type=int, default=3, help="shown of each group (3)")
    options = parser.parse_args(arguments)
    groups: dict[str, list[tuple[float, float, str]]] = {}
    gc.disable()  # a collection is nobody's call
    for row in (
        *ROWS,
        *hostile_translated.ROWS,
        *plane_rows(),
        *scrape_rows.scrape_rows(),
    ):
        groups.setdefault(row.group, []).append((measure(row, options.runs), bar_ms(row), row.name))
    size = options.size
    for row in (
        *body_rows(size),
        *hostile_requests.body_rows(size),
        *hostile_requests.answer_rows(min(2 * size, WHOLE_BYTES - 1024)),
    ):
        groups.setdefault(row.group, []).append((measure(row, options.runs), bar_ms(row), row.name))
    gc.enable()
    over = 0
    print(f"{'ms':>6} {'bar':>4}  {'group':20} the dearest {options.rows} of it")
    for group, measured in groups.items():
        measured.sort(reverse=True)
        for place, (took, bar, name) in enumerate(measured):
            over += took > bar
            if took > bar or place < options.rows:
                mark = "  OVER" if took > bar else ""
                print(f"{took:6.1f} {bar:4.0f}  {group:20} {name}{mark}")
    print(f"{sum(map(len, groups.values()))} calls measured, {over} over their bars")
    return 1 if over else 0
