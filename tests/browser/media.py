"""Media jobs of a company that does not exist, in the files of a control plane that starts."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred

from omnigate.jobs.job import Attempt, Billable, Job, JobError, Output, Webhook
from omnigate.jobs.store import JobStore, KeyLimits, NewJob
from omnigate.testing.writer import SynchronousWriter

#: Whose jobs they are: a key of the config file.
KEY: Final = "media-studio"
KEY_SHA256: Final = hashlib.sha256(b"the studio").hexdigest()

CONFIG: Final = f"""
[[keys]]
name = "{KEY}"
key_sha256 = "{KEY_SHA256}"

[media]
[[media.routes]]
model = "picture"
price_multipliers = {{ quality = {{ high = 2 }} }}
  [[media.routes.targets]]
  adapter = "replicate"
  model = "black-forest-labs/flux-schnell"
  price = {{ per_output = 0.003 }}
  [[media.routes.targets]]
  adapter = "fal"
  model = "fal-ai/flux/schnell"
  price = {{ per_output = 0.004 }}

[[media.routes]]
model = "film"
  [[media.routes.targets]]
  adapter = "xai_video"
  model = "grok-imagine-video"
  price = {{ per_second = 0.05 }}

[[media.routes]]
model = "voice"
  [[media.routes.targets]]
  adapter = "elevenlabs"
  model = "eleven_multilingual_v2"
  price = {{ per_million_characters = 100 }}
"""

JOBS: Final = 60
_MINUTE_MS: Final = 60_000

_PROMPTS: Final = (
    "a lighthouse in a storm, oil on canvas",
    "a paper boat on a puddle, macro",
    "two foxes at a night market",
    "an empty platform at dawn, 35 mm",
)

_PROVIDERS: Final = {
    "replicate": ("https://api.replicate.com/v1", "black-forest-labs/flux-schnell"),
    "fal": ("https://queue.fal.run", "fal-ai/flux/schnell"),
    "xai_video": ("https://api.x.ai/v1", "grok-imagine-video"),
    "elevenlabs": ("https://api.elevenlabs.io", "eleven_multilingual_v2"),
}


class Studio:
    """Writes jobs.

    :ivar named: ids of jobs that pages are looked at with: ``done``, ``failed``.
    """

    def __init__(self, state: Path, now_ms: int) -> None:
        self.named: dict[str, str] = {}
        self._now_ms = now_ms
        self._at_ms = now_ms
        self._media = state / "media"
        self._dice = Random("a studio")
        state.mkdir(parents=True, exist_ok=True)
        path = str(state / "jobs.jsonl")
        self._store = JobStore(path, SynchronousWriter(), lambda: self._at_ms)

    def write(self) -> None:
        """Write them all."""
        _wait(self._store.open())
        for number in range(JOBS):
            self._at_ms = self._now_ms - int((JOBS - number) * 4.5 * _MINUTE_MS)
            self._make(number)
        _wait(self._store.close())

    def _make(self, number: int) -> None:
        dice = self._dice
        model = dice.choice(("picture", "picture", "picture", "film", "voice"))
        input: dict[str, Any] = {"prompt": dice.choice(_PROMPTS), "seed": dice.randrange(10**6)}
        if model == "picture":
            input |= {
                "num_outputs": dice.choice((1, 2, 4)),
                "quality": dice.choice(("low", "high")),
            }
        hook = "https://hooks.studio.example/omnigate" if number % 3 else None
        content = msgspec.json.encode(input)
        metadata = {"campaign": "autumn", "shot": number}
        new = NewJob(KEY_SHA256, model, content, metadata, hook, f"shot-{number}")
        job, _ = _wait(self._store.create(new, KeyLimits(0, 0)))
        self._run(job, input, number)

    def _run(self, job: Job, input: dict[str, Any], number: int) -> None:
        begun_ms = self._at_ms + self._dice.randrange(40, 900)
        took_ms = {"film": 48_000, "voice": 2_100}.get(job.model, 5_200)
        ended_ms = begun_ms + int(took_ms * self._dice.lognormvariate(0, 0.4))
        first = {"film": "xai_video", "voice": "elevenlabs"}.get(job.model, "replicate")
        fails = number % 11 == 7
        attempts: list[Attempt] = []
        if job.model == "picture" and number % 4 == 1:
            error = JobError("provider_rate_limited", "429: you have reached your request limit")
            attempts.append(_attempt(0, first, begun_ms, begun_ms + 320, "rate_limited", error))
            first = "fal"
        error = JobError("provider_failed", "422: the prompt was refused by the safety checker")
        attempts.append(
            _attempt(len(attempts), first, begun_ms, ended_ms, "failed", error)
            if fails
            else _attempt(len(attempts), first, begun_ms, ended_ms, "succeeded")
        )
        outputs = () if fails else tuple(self._outputs(job, input))
        billable, cost = None, 0
        if not fails:
            billable, cost = _bill(job.model, input, len(outputs), first)
        fields: dict[str, Any] = {"webhook": _webhook(job, number, ended_ms, self._now_ms)}
        _wait(
            self._store.change(
                job.id,
                status="failed" if fails else "succeeded",
                started_ms=begun_ms,
                finished_ms=ended_ms,
                target=attempts[-1].target,
                attempts=tuple(attempts),
                outputs=outputs,
                error=error if fails else None,
                provider_job_id=f"{self._dice.getrandbits(80):020x}",
                billable=billable,
                cost_nano=cost,
                cost_owed=True,
                **fields,
            )
        )
        if fails:
            self.named["failed"] = job.id
        elif len(outputs) == 4 and len(attempts) == 2:
            self.named["done"] = job.id

    def _outputs(self, job: Job, input: dict[str, Any]) -> Iterator[Output]:
        kind, ending = {"film": ("video/mp4", "mp4"), "voice": ("audio/mpeg", "mp3")}.get(
            job.model, ("image/png", "png")
        )
        for n in range(input.get("num_outputs", 1)):
            content = _picture(self._dice) if ending == "png" else bytes(90_000)
            name = f"{job.id}/{n}.{ending}"
            path = self._media / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            yield Output(kind, len(content), digest, "url", "local", name)


def _attempt(
    target: int,
    adapter: str,
    started_ms: int,
    ended_ms: int,
    outcome: str,
    error: JobError | None = None,
) -> Attempt:
    base_url, model = _PROVIDERS[adapter]
    return Attempt(target, adapter, base_url, model, started_ms, ended_ms, outcome, error)


def _bill(model: str, input: dict[str, Any], outputs: int, adapter: str) -> tuple[Billable, int]:
    if model == "film":
        return Billable(milliseconds=6_000, outputs=outputs), 300_000_000
    if model == "voice":
        characters = len(input["prompt"])
        return Billable(characters=characters, outputs=outputs), characters * 100_000
    each = 3_000_000 if adapter == "replicate" else 4_000_000
    return Billable(outputs=outputs), each * outputs * (2 if input["quality"] == "high" else 1)


def _webhook(job: Job, number: int, ended_ms: int, now_ms: int) -> Webhook | None:
    hook = job.webhook
    if hook is None:
        return None
    if number % 20 == 13:
        return msgspec.structs.replace(
            hook,
            state="given_up",
            attempts=8,
            last_ms=ended_ms + 90 * _MINUTE_MS,
            last_status=503,
            last_error="Service Unavailable",
        )
    if number == JOBS - 2:
        return msgspec.structs.replace(
            hook,
            state="pending",
            attempts=3,
            last_ms=ended_ms + _MINUTE_MS,
            last_error="no answer in time",
            next_ms=now_ms + 40 * _MINUTE_MS,
        )
    return msgspec.structs.replace(
        hook, state="delivered", attempts=1, last_ms=ended_ms + 80, last_status=200
    )


def _picture(dice: Random) -> bytes:
    """Return a PNG of a sky over a sea, of some size (https://www.w3.org/TR/png-3/)."""
    width, height = dice.choice(((192, 128), (128, 192), (160, 160)))
    horizon = int(height * dice.uniform(0.35, 0.7))
    sky = [dice.randrange(90, 250) for _ in range(3)]
    sea = [dice.randrange(20, 140) for _ in range(3)]
    lines = []
    for y in range(height):
        share = y / horizon if y < horizon else (y - horizon) / (height - horizon)
        base = sky if y < horizon else sea
        colour = bytes(min(255, int(part * (0.55 + 0.45 * share))) for part in base)
        lines.append(b"\0" + colour * width)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(lines), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def _wait(work: Any) -> Any:
    """Return what a coroutine comes to, which waits for nothing here."""
    found: list[Any] = []
    Deferred.fromCoroutine(work).addBoth(found.append)
    (result,) = found
    if hasattr(result, "raiseException"):
        result.raiseException()
    return result
