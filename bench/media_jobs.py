"""``python -m bench media-jobs``: a thousand media jobs at once, over sockets and on a disk.

The runner, the job store, the outputs and the client are the true ones; the provider is
:mod:`omnigate.testing.media.provider` in a process of its own, the ledger one in memory. Told is
how long it took, and how long the reactor was held: the processor time of this thread between two
looks at its sockets, so that other load does little to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.task import deferLater

from omnigate.collector import set_apart
from omnigate.config.schema import load_config
from omnigate.control.keys import KeyBook
from omnigate.control.media_jobs import MediaJobs
from omnigate.control.media_views import Surroundings
from omnigate.jobs.job import Job
from omnigate.jobs.new_job import KeyLimits, NewJob
from omnigate.jobs.store import JobStore
from omnigate.ledger.counters import IngestResult
from omnigate.outbound.client import Outbound
from omnigate.writer_thread import WriterThread

#: What one turn of the reactor may take, in milliseconds.
BAR_MS = 20.0
#: Jobs that are made in one step, as requests would come.
STEP = 50
MAX_SECONDS = 300.0

_CONFIG = """
[outbound]
allow = ["127.0.0.0/8"]
[media]
max_running_per_provider = 1000
[[media.routes]]
model = "flux"
  [[media.routes.targets]]
  adapter = "replicate"
  base_url = "http://127.0.0.1:{port}/replicate"
  model = "acme/flux"
  api_key_env = "KEY"
  price = {{ per_job = 0.003 }}
"""


class _NoKeys:
    def owner(self, sha256: str) -> None:
        """Know nobody."""


class _Books:
    def __init__(self) -> None:
        self.events = 0

    def record_priced(self, events: Any) -> Deferred[IngestResult]:
        """Count them."""
        self.events += len(events)
        return succeed(IngestResult(len(events), 0, 0, 0))


class _Turns:
    """Measures each turn of a reactor: what it does between two looks at its sockets."""

    def __init__(self, reactor: Any) -> None:
        self.ms: list[float] = []
        self._poller = reactor._poller
        self._since = time.thread_time()
        reactor._poller = self

    def poll(self, *arguments: Any) -> Any:
        """Look at the sockets."""
        self.ms.append((time.thread_time() - self._since) * 1000)
        found = self._poller.poll(*arguments)
        self._since = time.thread_time()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)


@contextmanager
def _provider() -> Iterator[int]:
    child = subprocess.Popen(
        [sys.executable, "-m", "omnigate.testing.media.provider"], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline())["port"]
    finally:
        child.terminate()
        child.wait()


async def _measure(reactor: Any, folder: str, port: int, jobs: int) -> None:
    writers: list[WriterThread] = []

    def writer(name: str) -> WriterThread:
        writers.append(WriterThread(name, reactor.callFromThread))
        return writers[-1]

    config, books = load_config(_CONFIG.format(port=port)), _Books()
    store = JobStore(f"{folder}/jobs.jsonl", writer("jobs"), _now_ms)
    media = MediaJobs(
        store,
        Surroundings(
            config=lambda: config,
            credential=lambda name: "test-replicate",
            book=cast(KeyBook, _NoKeys()),
            books=books,
            state_folder=folder,
            media_folder=f"{folder}/media",
            writer=writer("media"),
            worker=writer("work"),
            reader=writer("reader"),
            clock=reactor,
            now_ms=_now_ms,
            steady=time.monotonic,
            connect=lambda guard: Outbound(reactor, guard),
            pause=lambda: deferLater(reactor, 0),
        ),
    )
    await store.open()
    await media.open()
    set_apart()  # as the control plane does once it is up
    finished: Deferred[None] = Deferred()
    states: dict[str, int] = {}

    def changed(before: Job | None, after: Job) -> None:
        if after.is_final and (before is None or not before.is_final):
            states[after.status] = states.get(after.status, 0) + 1
            if sum(states.values()) == jobs and not finished.called:
                reactor.callLater(0.5, finished.callback, None)

    store.watchers.append(changed)
    turns = _Turns(reactor)
    began, used = time.monotonic(), time.process_time()
    for start in range(0, jobs, STEP):
        made = [_made(store, media, n) for n in range(start, min(jobs, start + STEP))]
        await gatherResults(made)
    created = time.monotonic() - began
    timer = reactor.callLater(MAX_SECONDS, finished.callback, None)
    await finished
    if timer.active():
        timer.cancel()
    took, used = time.monotonic() - began - 0.5, time.process_time() - used
    await media.close()
    await store.close()
    for each in writers:
        await each.stop()
    ms = sorted(turns.ms)
    sys.stdout.write(
        f"{jobs} jobs: {states}, {books.events} events; made in {created:.1f} s, done in "
        f"{took:.1f} s with {used:.1f} s of processor\n"
        f"turns of the reactor: {len(ms)}, median {statistics.median(ms):.2f} ms, 99% "
        f"{ms[int(len(ms) * 0.99)]:.1f} ms, longest {ms[-1]:.1f} ms (bar {BAR_MS:.0f})\n"
    )


def _made(store: JobStore, media: MediaJobs, number: int) -> Deferred[Any]:
    async def make() -> None:
        input = {"prompt": f"a fox, number {number}"}
        job, _ = await store.create(
            NewJob(
                key_sha256=f"{number % 20:064x}",
                model="flux",
                input_json=json.dumps(input).encode(),
                request_sha256="00",
            ),
            KeyLimits(0, 0),
        )
        media.runner.run(job)

    return Deferred.fromCoroutine(make())


def _now_ms() -> int:
    return int(time.time() * 1000)


def main(words: list[str]) -> int:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench media-jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    options = parser.parse_args(words)
    from twisted.internet import reactor

    faults: list[Any] = []

    def run() -> None:
        with_errors = Deferred.fromCoroutine(_measure(reactor, folder, port, options.jobs))
        with_errors.addErrback(faults.append)
        with_errors.addBoth(lambda _: cast(Any, reactor).stop())

    with _provider() as port, tempfile.TemporaryDirectory() as folder:
        cast(Any, reactor).callWhenRunning(run)
        cast(Any, reactor).run()
    for fault in faults:
        fault.printTraceback()
    return 1 if faults else 0
