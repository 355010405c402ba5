"""``python -m bench jobs``: a thousand media jobs at once, through both planes.

Clients make jobs through the data plane as fast as they are taken, with keys of their own and a
webhook each; the fake provider's work takes two polls. Every job has to end well, be submitted
once, be told once and be in the ledger once. What is measured is how many end in a second, how long
the control plane's reactor was held, its memory, its processor time and its syncs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs

from bench.jobs_place import Options, Place, start
from bench.proc import cpu_seconds, memory_mb
from omnigate.demo_children import ChildError, Children

#: How long all jobs may take.
END_SECONDS: Final = 300.0

#: What a turn of the reactor may take, in milliseconds.
BAR_MS: Final = 20.0

#: The longest hold of the last minute, as the control plane tells it.
GAUGE: Final = r"^omnigate_reactor_lag_seconds (\S+)$"

#: A call that took longer is told of.
TOLD_MS: Final = 2.0


class WrongJobError(Exception):
    """A job did not come to its right end; the text says which and how."""


@attrs.frozen
class Figures:
    """What was measured.

    :ivar create_seconds: until the last job was taken.
    :ivar seconds: until the last one had ended and been told.
    :ivar lag_ms: the longest hold by the gauge, waits for the processor included.
    :ivar turns: what :mod:`bench.watched_turns` tells.
    """

    create_seconds: float
    seconds: float
    lag_ms: float
    cpu_seconds: float
    data_cpu_seconds: float
    memory_before_mb: float
    memory_mb: float
    log_bytes: int
    turns: dict[str, Any]


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit status: 0 where every job came to its right end."""
    options = parse(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="omnigate-bench-") as name, Children() as children:
            figures = run(options, children, Path(name))
    except (WrongJobError, ChildError) as error:
        print(f"bench jobs: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(report(options, figures))
    if options.keep is not None:
        options.keep.write_text(json.dumps(attrs.asdict(figures), indent=1) + "\n")
    return 0


def parse(arguments: list[str]) -> Options:
    """Return what is asked for.

    :raises SystemExit: with status 2 and a line that says what is wrong.
    """
    usual = Options()
    parser = argparse.ArgumentParser(prog="python -m bench jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="(1000)")
    parser.add_argument("--keys", type=int, default=usual.keys, help="each a client (20)")
    parser.add_argument("--running", type=int, default=usual.running, help="at the provider (64)")
    parser.add_argument("--poll-ms", type=int, default=usual.poll_ms, help="between polls (100)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go, too")
    given = parser.parse_args(arguments)
    if not (1 <= given.jobs <= 20_000 and 1 <= given.keys <= 200):
        parser.error("--jobs must be 1 to 20000, and --keys 1 to 200")
    return Options(given.jobs, given.keys, given.running, given.poll_ms, given.json)


# -- the run


def run(options: Options, children: Children, folder: Path) -> Figures:
    """Start everything, make the jobs, wait for their ends, and check them.

    :raises WrongJobError: one is not what it should be.
    """
    place, control, data = start(options, children, folder)
    before_mb = memory_mb(control.pid, "VmRSS")
    cpu, data_cpu = cpu_seconds(control.pid), cpu_seconds(data.pid)
    began = time.monotonic()
    clients = [_Client(place, options, number) for number in range(options.keys)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
        if client.fault:
            time.sleep(2)
            tails = "\n".join(each.log_tail() for each in (control, data))
            raise WrongJobError(
                f"{client.fault}\n{tails}\n{control._process.poll()} {data._process.poll()}"
            )
    created = time.monotonic() - began
    lag = wait_for_ends(options, place, began)
    seconds = time.monotonic() - began
    check(options, place)
    told_of = (
        cpu_seconds(control.pid) - cpu,
        cpu_seconds(data.pid) - data_cpu,
        before_mb,
        memory_mb(control.pid, "VmHWM"),
        (folder / "control" / "jobs.jsonl").stat().st_size,
    )
    control.send(signal.SIGTERM)
    control.wait(END_SECONDS)
    turns = json.loads((folder / "figures.json").read_text())
    return Figures(created, seconds, lag, *told_of, turns)


class _Client(threading.Thread):
    """Makes the jobs of one key, one after the other, on one connection."""

    def __init__(self, place: Place, options: Options, number: int) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._number = number
        self._count = len(range(number, options.jobs, options.keys))
        self.fault = ""

    def run(self) -> None:
        """Make them."""
        connection = http.client.HTTPConnection("127.0.0.1", self._place.data_port, timeout=60)
        headers = {"authorization": f"Bearer {self._place.keys[self._number]}"}
        hook = f"http://127.0.0.1:{self._place.port}/hook/{self._number}"
        try:
            for number in range(self._count):
                given = {"prompt": f"{self._number} {number}", "output_format": "webp"}
                body = {"model": "picture", "input": given, "webhook_url": hook}
                connection.request("POST", "/v1/jobs", json.dumps(body), headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 202:
                    self.fault = f"a job was answered {answer.status}: {text[:300]!r}"
                    return
        except (OSError, http.client.HTTPException) as error:
            self.fault = f"a job was not answered: {error!r}"
        finally:
            connection.close()


def wait_for_ends(options: Options, place: Place, began: float) -> float:
    """Wait until all have ended and been told; returns the longest hold by the gauge, in ms."""
    lag = 0.0
    while time.monotonic() - began < END_SECONDS:
        text = get(place.control_port, "/metrics", place.admin_token).decode()
        found = re.search(GAUGE, text, re.MULTILINE)
        lag = max(lag, float(found[1]) * 1000 if found else 0.0)
        if len(told(place)) >= options.jobs:
            return lag
        time.sleep(0.5)
    raise WrongJobError(f"not all jobs had ended after {END_SECONDS:.0f} s")


def told(place: Place) -> list[Any]:
    """Return the webhooks that came."""
    found: list[Any] = json.loads(get(place.port, "/_/hook-ids"))
    return found


def get(port: int, path: str, token: str = "") -> bytes:
    """Read something.

    :raises WrongJobError: it is refused.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise WrongJobError(f"{path} was answered {answer.status}: {body[:300]!r}")
        return body
    finally:
        connection.close()


def check(options: Options, place: Place) -> None:
    """Hold all jobs to one submit, one event and one webhook each.

    :raises WrongJobError: one is not what it should be.
    """
    works = json.loads(get(place.port, "/_/jobs"))
    if works["submits"] != {"replicate": options.jobs}:
        raise WrongJobError(f"{works['submits']} were submitted of {options.jobs}")
    ids = told(place)
    if len(set(ids)) != len(ids) or len(ids) != options.jobs:
        raise WrongJobError(f"{len(ids)} webhooks came for {options.jobs} jobs")
    lines = (place.folder / "control" / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    events = Counter(json.loads(line)["id"] for line in lines)
    if len(events) != options.jobs or set(events.values()) != {1}:
        raise WrongJobError(f"the ledger has {len(lines)} events of {len(events)} jobs")
    for number, key in enumerate(place.keys):
        page = json.loads(get(place.data_port, "/v1/jobs?limit=100", key))
        for job in page["data"]:
            if job["status"] != "succeeded" or len(job["outputs"]) != 1:
                raise WrongJobError(f"a job of key {number}: {job['status']} {job['error']}")


def report(options: Options, figures: Figures) -> str:
    """Return the table."""
    turns, count = figures.turns, options.jobs
    longest = max(turns["longest_ms"], default=0.0)
    jobs = f"{count} media jobs of {options.keys} keys, {options.running} at the provider at once"
    rows = [
        ("taken", count / figures.create_seconds, "a second"),
        ("ended and told", count / figures.seconds, "a second"),
        ("a turn of the reactor", longest, f"ms of its thread at the longest; {BAR_MS:g} may be"),
        ("the reactor's gauge", figures.lag_ms, "ms, and waits for the processor with it"),
        ("processor", figures.cpu_seconds / count * 1000, "ms a job"),
        ("the data plane's", figures.data_cpu_seconds / count * 1000, "ms a job"),
        ("memory", figures.memory_mb, f"MB at most, {figures.memory_before_mb:.1f} before"),
        ("syncs", turns["syncs"] / count, "a job"),
        ("log of jobs", figures.log_bytes / count, "bytes a job"),
    ]
    lines = [jobs, *[f"  {name:24}{value:8.1f} {unit}" for name, value, unit in rows]]
    lines.append("what was in the longest turn, and what took longest by itself, in ms:")
    lines += [f"  {took:8.1f}  {name}" for name, took in turns["longest"].items()]
    calls = [(name, row) for name, row in turns["calls"].items() if row["longest_ms"] > TOLD_MS]
    lines += [f"  {row['longest_ms']:8.1f}  {name}, of {row['count']}" for name, row in calls]
    return "\n".join(lines)
