"""Several processes that ask for the same limit as fast as they can.

``python -m tests.process.hammering [WORKERS]`` prints by how much they pass it. With more
arguments it is one of those processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from omnigate.errors import GatewayError
from omnigate.gateway.shared_uses import IN_FLIGHT, SharedUses
from tests.gateway.sharing import Place

ROOT = Path(__file__).resolve().parent.parent.parent

#: The key's limits, and for how long each process asks.
LIMIT = 4
SECONDS = 1.0
#: A thousand a second are refilled: as many as a few processes can just keep up with.
RPM = 60_000
#: What is written in turns, and is neither where half of it is seen.
PATTERNS = (0x0000_0001_0000_0001, 0x7FFF_FFFE_7FFF_FFFE)


def enter(shared: SharedUses, end: float) -> list[tuple[int, int]]:
    """Take places and give them back; from when to when, in ns, each was held."""
    place = Place(shared, 1 << 30)
    chance = Random(shared.index)
    held: list[tuple[Any, int]] = []
    spans: list[tuple[int, int]] = []
    while time.monotonic() < end or held:
        if time.monotonic() < end and chance.random() < 0.6:
            try:
                ticket = place.admission.enter(place.use, LIMIT, 10)
            except GatewayError:
                pass
            else:
                held.append((ticket, time.monotonic_ns()))
        elif held:
            ticket, since = held.pop()
            # Until here for sure; so no two spans overlap that did not.
            spans.append((since, time.monotonic_ns()))
            ticket.release()
    return spans


def take(shared: SharedUses, end: float) -> list[float]:
    """Take tokens; at which moments, in seconds."""
    place = Place(shared, 1 << 30)
    bucket = place.limits.bucket(place.use, RPM)
    moments = []
    while (now := time.monotonic()) < end:
        if bucket.take(now) == 0.0:
            moments.append(now)
    return moments


def write(shared: SharedUses, end: float) -> list[int]:
    """Worker 0 writes both patterns in turns, the others look for anything else."""
    slots = Place(shared, 1).use.row.ints(IN_FLIGHT)
    first, second = PATTERNS
    torn = set()
    while time.monotonic() < end:
        for _ in range(100):
            if shared.index == 0:
                slots[0] = first
                slots[0] = second
            elif (seen := slots[0]) not in (0, first, second):
                torn.add(seen)
    return sorted(torn)


TASKS: dict[str, Callable[[SharedUses, float], list[Any]]] = {
    "enter": enter,
    "take": take,
    "write": write,
}


def hammer(parent: SharedUses, task: str) -> list[list[Any]]:
    """Start a process for each worker, let all begin at once; what each of them returns."""
    children = []
    for index in range(parent.workers):
        arguments = [sys.executable, "-m", "tests.process.hammering", task, str(parent.fd)]
        children.append(
            subprocess.Popen(
                [*arguments, str(index)],
                pass_fds=[parent.fd],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
        )
    try:
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != b"ready\n":
                raise AssertionError(f"{task}: a process did not start")
        end = json.dumps(time.monotonic() + SECONDS).encode()
        for child in children:
            assert child.stdin is not None
            child.stdin.write(end + b"\n")
            child.stdin.flush()
        return [json.loads(child.communicate(timeout=60)[0]) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def most_at_once(spans: list[tuple[int, int]]) -> tuple[int, float]:
    """The most places held at any moment, and for what part of the time more than allowed."""
    edges = sorted([(end, -1) for _, end in spans] + [(start, 1) for start, _ in spans])
    held = most = over_ns = 0
    before = edges[0][0]
    for moment, step in edges:
        if held > LIMIT:
            over_ns += moment - before
        before = moment
        held += step
        most = max(most, held)
    return most, over_ns / (edges[-1][0] - edges[0][0])


def tokens_over(moments: list[float]) -> float:
    """By how many tokens the bucket was overdrawn at worst; below 1 for none."""
    interval = 60.0 / RPM
    full_at, worst = 0.0, 0.0
    for moment in sorted(moments):
        full_at = max(full_at, moment) + interval
        worst = max(worst, (full_at - moment - 60.0) / interval)
    return worst


def _show(workers: int) -> None:
    parent = SharedUses.create(workers)
    spans = [span for one in hammer(parent, "enter") for span in one]
    most, part = most_at_once(spans)
    print(f"{workers} processes, at most {LIMIT} in flight: {len(spans)} entered, at most {most} ")
    print(f"at once, more than {LIMIT} for {part:.4%} of the time")
    moments = [moment for one in hammer(SharedUses.create(workers), "take") for moment in one]
    print(f"{RPM} a minute: {len(moments)} taken in {max(moments) - min(moments):.3f} s, ")
    print(f"overdrawn by {tokens_over(moments):.2f} tokens at worst")


if __name__ == "__main__":
    if len(sys.argv) <= 2:
        _show(int((sys.argv[1:] or ["3"])[0]))
    else:
        mine = SharedUses.attach(int(sys.argv[2]), int(sys.argv[3]))
        print("ready", flush=True)
        result = TASKS[sys.argv[1]](mine, float(sys.stdin.readline()))
        os.write(1, json.dumps(result).encode())
