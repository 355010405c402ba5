"""Events for a ledger under load, as batches that data planes send and as files that are there."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from omnigate.events import AttemptRecord, UsageEvent, encode_event
from omnigate.ledger.lines import encode_line
from omnigate.periods import rfc3339

#: What a data plane sends at once.
BATCH_EVENTS = 500

DAY_MS = 86_400_000

MODELS = tuple(f"model-{number}" for number in range(8))
UPSTREAMS = ("alpha", "beta", "gamma")

#: What an event costs, for files that are written without a control plane.
COST_NANO = 292_500

#: Lines written to a file in one go.
_CHUNK_LINES = 2_000

#: A control plane seals a segment of this length.
SEGMENT_BYTES = 64 * 1024 * 1024

_HEAD = (
    b"POST /internal/usage/batch HTTP/1.1\r\nhost: control\r\nx-omnigate-internal: %b\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)


@attrs.frozen
class Crowd:
    """Whose events they are.

    :ivar keys: how many keys they are spread over.
    :ivar days: over how many UTC days, today the last of them.
    """

    keys: int = 1_000
    days: int = 4

    def hashes(self) -> list[str]:
        """The SHA-256 of each key."""
        return [key_hash(number) for number in range(self.keys)]


def key_hash(number: int) -> str:
    """The SHA-256 of a key of the benchmark."""
    return hashlib.sha256(b"bench-ledger-%d" % number).hexdigest()


def fabricate(
    crowd: Crowd, first: int, count: int, begin_ms: int, span_ms: int
) -> Iterator[UsageEvent]:
    """Yield events with ids from ``first`` on; one object, filled anew each time.

    :param span_ms: the time from the first to the last, evenly spread.
    """
    hashes = crowd.hashes()
    event = UsageEvent(
        id="",
        key_sha256="",
        route_model="",
        upstream="",
        target_model="large-2026",
        status=200,
        stream=True,
        input_tokens=900,
        cached_input_tokens=100,
        cache_write_input_tokens=0,
        output_tokens=250,
        cached=False,
        estimated=False,
        latency_ms=1234,
        attempts=[AttemptRecord("alpha", "large-2026", "ok", 200, 1230)],
        ts_ms=0,
        endpoint="chat",
    )
    keys, models, upstreams = len(hashes), itertools.cycle(MODELS), itertools.cycle(UPSTREAMS)
    for number in range(count):
        event.id = f"{first + number:032x}"
        # Neighbours are of different keys, and every key has some of every model in time.
        event.key_sha256 = hashes[number * 7919 % keys]
        event.route_model = next(models)
        event.upstream = event.attempts[0].upstream = next(upstreams)
        event.ts_ms = begin_ms + number * span_ms // count
        yield event


def batches(crowd: Crowd, first: int, count: int, token: str) -> list[bytes]:
    """Requests with ``count`` events in batches, as they go over the wire; of this moment."""
    found = []
    now_ms = int(time.time() * 1000)
    lines: list[bytes] = []
    for event in fabricate(crowd, first, count, now_ms - 60_000, 60_000):
        lines.append(encode_event(event))
        if len(lines) == BATCH_EVENTS:
            found.append(request(lines, token))
            lines.clear()
    if lines:
        found.append(request(lines, token))
    return found


def request(lines: list[bytes], token: str) -> bytes:
    """One batch as a request."""
    body = b'{"events":[%b]}' % b",".join(lines)
    return _HEAD % (token.encode("ascii"), len(body)) + body


def write_ledger(path: Path, crowd: Crowd, count: int, now_ms: int) -> int:
    """Write a ledger of ``count`` events up to a moment, in segments as a control plane seals.

    :param path: of the active segment, the last one.
    :returns: the bytes of all of them.
    """
    begin_ms = (now_ms // DAY_MS - crowd.days + 1) * DAY_MS
    events = fabricate(crowd, 0, count, begin_ms, now_ms - begin_ms)
    total = 0
    for number in itertools.count(1):
        size = _write_segment(path, events)
        total += size
        if size < SEGMENT_BYTES:
            return total
        path.rename(path.with_suffix(f".{number:06d}{path.suffix}"))
    raise AssertionError


def _write_segment(path: Path, events: Iterator[UsageEvent]) -> int:
    """Write the next events until the segment is full, or there are none; its bytes."""
    size = 0
    with path.open("wb", buffering=0) as file:
        while size < SEGMENT_BYTES and (
            lines := [
                encode_line(event, COST_NANO, rfc3339(event.ts_ms))
                for event in itertools.islice(events, _CHUNK_LINES)
            ]
        ):
            size += file.write(b"".join(lines))
    return size


def config_text(keys: int, budgets: bool) -> str:
    """A config with the keys of a crowd, and a price for each of its targets.

    :param budgets: whether every key has a monthly budget, which nobody reaches.
    """
    parts = []
    for number in range(keys):
        parts.append(f'[[keys]]\nname = "key-{number}"\nkey_sha256 = "{key_hash(number)}"\n')
        if budgets:
            parts.append('budget_usd = 100000\nbudget_period = "monthly"\n')
    for name in UPSTREAMS:
        parts.append(
            f'[[upstreams]]\nname = "{name}"\nprotocol = "openai"\n'
            'base_url = "http://127.0.0.1:9/v1"\n'
        )
    price = "{ input = 0.15, cached_input = 0.075, cache_write = 0, output = 0.6 }"
    for model in MODELS:
        parts.append(f'[[routes]]\nmodel = "{model}"\n')
        for name in UPSTREAMS:
            parts.append(
                f'  [[routes.targets]]\n  upstream = "{name}"\n'
                f'  model = "large-2026"\n  price = {price}\n'
            )
    return "".join(parts)
