"""The body of a webhook: what happened, when, and the job as its client sees it.

It is the same for each attempt as far as the job is: only what is known of the delivery itself
changes. The standard wants it under 20 kB, so of a job that is longer some members are left out;
who needs them asks for the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from omnigate.jobs.job import Job
from omnigate.jobs.job_json import job_json
from omnigate.periods import rfc3339

#: Bytes that a body is kept under where that can be done.
MAX_BODY_BYTES: Final = 20_000

#: What may be left out of a job that would be longer, the longest first. Its outputs never are.
_LEFT_OUT: Final = ("metadata", "attempts")

#: Makes the JSON of a job, with its URLs and without its input.
Shown = Callable[[Job], dict[str, Any]]


def payload(job: Job, shown: Shown = job_json) -> bytes:
    """Return the body for a job that has come to its end.

    ``metadata`` or ``attempts``, or both, are left out of ``data`` where it would be too long; with
    very many outputs it is longer all the same.
    """
    # Metadata may be megabytes, and making JSON of them only to see that would hold everybody up.
    fits = is_shorter(job.metadata, MAX_BODY_BYTES)
    data = shown(job if fits else msgspec.structs.replace(job, metadata=None))
    if not fits:
        del data["metadata"]
    event = {
        "type": f"job.{job.status}",
        "timestamp": rfc3339(job.finished_ms),
        "data": data,
    }
    body = msgspec.json.encode(event)
    lengths = {name: len(msgspec.json.encode(data[name])) for name in _LEFT_OUT if name in data}
    while len(body) >= MAX_BODY_BYTES and lengths:
        longest = max(lengths, key=lambda name: lengths[name])
        del lengths[longest], data[longest]
        body = msgspec.json.encode(event)
    return body


def is_shorter(value: Any, room: int) -> bool:
    """Return whether a JSON value may be shorter than so many bytes.

    Where the answer is no it is longer for certain; a yes may still be too long, up to six times,
    as characters can take more bytes than one. The work is bounded by ``room``, not by the value.
    """
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            room -= len(found)
        elif isinstance(found, dict):
            if len(found) > room:
                return False
            waiting.extend(found)
            waiting.extend(found.values())
        elif isinstance(found, list):
            if len(found) > room:
                return False
            waiting.extend(found)
        room -= 1
        if room <= 0:
            return False
    return True
