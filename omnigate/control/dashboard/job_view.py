"""One media job as its page shows it: pure, out of the job, the config in force and the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from omnigate.config.media import MediaConfig
from omnigate.control.dashboard.causes import Cause
from omnigate.control.dashboard.job_bill import Bill, bill_of
from omnigate.control.dashboard.job_causes import WEBHOOK_KINDS, attempt_cause, ended_cause
from omnigate.control.dashboard.job_rows import JobRow, row_of, webhook_words
from omnigate.control.dashboard.paths import job_file_path
from omnigate.jobs.job import CANCELED, GIVEN_UP, PENDING, Attempt, Job, Output
from omnigate.jobs.storage import LOCAL, S3
from omnigate.jobs.stored_files import MAX_SHOWN_BYTES
from omnigate.text import valid_text

#: Types that a browser shows and runs nothing of.
PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/webp", "image/gif", "image/avif"))

#: Pictures that are shown on one page; the others are named, each with its link.
MAX_PICTURES: Final = 16

#: Outputs and attempts that are listed.
MAX_OUTPUTS: Final = 256
MAX_ATTEMPTS: Final = 64

#: JSON of the client that is shown: two screens.
MAX_JSON_CHARS: Final = 4_000

#: JSON up to here is read to be written in lines; what is longer is shown as it was sent.
MAX_READ_BYTES: Final = 16 * 1024

#: Members inside each other: with each the lines begin further to the right.
_MAX_DEPTH: Final = 24


@attrs.frozen
class Shown:
    """Some JSON of a client, as far as it is shown.

    :ivar text: in lines; as it was sent where it is long.
    :ivar size: its length in bytes; 0 for nothing at all.
    :ivar is_cut: whether there is more of it.
    """

    text: str
    size: int
    is_cut: bool


@attrs.frozen
class AttemptView:
    """One try at one target.

    :ivar number: from 1 on.
    :ivar place: of its target in the route, from 1 on.
    :ivar took_ms: until it ended, or until now.
    """

    number: int
    place: int
    adapter: str
    base_url: str
    model: str
    cause: Cause
    code: str
    message: str
    started_ms: int
    took_ms: int
    is_open: bool


@attrs.frozen
class OutputView:
    """One stored file.

    :ivar path: where it is to be had here; empty for one that is encrypted.
    :ivar is_picture: whether it is shown on the page.
    """

    n: int
    name: str
    content_type: str
    size: int
    sha256: str
    where: str
    path: str
    is_picture: bool
    is_encrypted: bool


@attrs.frozen
class WebhookView:
    """What became of telling of the end."""

    url: str
    words: str
    kind: str
    attempts: int
    last_ms: int
    last_status: int
    last_error: str
    next_ms: int
    can_retry: bool


@attrs.frozen
class JobView:
    """One job.

    :ivar waited_ms: until it began; ``None`` before.
    :ivar ran_ms: from then to its end, or to now.
    :ivar can_cancel: whether somebody may still ask for it.
    :ivar is_recorded: whether the ledger has an event of it.
    """

    row: JobRow
    job: Job
    cause: Cause | None
    waited_ms: int | None
    ran_ms: int | None
    can_cancel: bool
    is_recorded: bool
    input: Shown | None
    metadata: Shown
    attempts: tuple[AttemptView, ...]
    outputs: tuple[OutputView, ...]
    more_outputs: int
    bill: Bill
    webhook: WebhookView | None


def view_of(
    job: Job,
    input_json: bytes | None,
    names: Mapping[str, str],
    media: MediaConfig,
    now_ms: int,
) -> JobView:
    """Return what is shown of a job.

    :param input_json: its input as JSON; ``None`` where it cannot be had.
    :param names: the name of every key, by its hashes.
    """
    metadata = msgspec.json.encode(job.metadata) if job.metadata else b""
    started, ended = job.started_ms, job.finished_ms if job.is_final else now_ms
    return JobView(
        row=row_of(job, names, now_ms),
        job=job,
        cause=ended_cause(job),
        waited_ms=max(0, started - job.created_ms) if started else None,
        ran_ms=max(0, ended - started) if started else None,
        can_cancel=not job.is_final and not job.cancel_ms,
        is_recorded=job.is_final
        and not job.cost_owed
        and (bool(job.attempts) or job.status != CANCELED),
        input=None if input_json is None else shown(input_json),
        metadata=shown(metadata),
        attempts=tuple(
            _attempt(number, attempt, now_ms)
            for number, attempt in enumerate(job.attempts[-MAX_ATTEMPTS:], 1)
        ),
        outputs=_outputs(job),
        more_outputs=max(0, len(job.outputs) - MAX_OUTPUTS),
        bill=bill_of(job, media, _read(input_json)),
        webhook=_webhook(job),
    )


def shown(content: bytes) -> Shown:
    """Return JSON for people to read; whatever it is, what is done for it is bounded."""
    lines = content
    if len(content) <= MAX_READ_BYTES and _depth(content) <= _MAX_DEPTH:
        try:
            lines = msgspec.json.format(content, indent=2)
        except msgspec.DecodeError:
            lines = content
    # A character has four bytes at most; one that is cut in two is not shown.
    text = valid_text(lines[: 4 * MAX_JSON_CHARS].decode("utf-8", "ignore"))
    is_cut = len(text) > MAX_JSON_CHARS or len(lines) > 4 * MAX_JSON_CHARS
    return Shown(text[:MAX_JSON_CHARS], len(content), is_cut)


def _read(content: bytes | None) -> Mapping[str, Any] | None:
    """Return an input as a value, where that is short."""
    if content is None or len(content) > MAX_READ_BYTES:
        return None
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


def _depth(content: bytes) -> int:
    """Return how deep JSON is at most: brackets within strings count, too."""
    deepest = depth = 0
    for found in _BRACKETS.finditer(content):
        depth += 1 if found.group() in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_BRACKETS: Final = re.compile(rb"[][{}]")


def _attempt(number: int, attempt: Attempt, now_ms: int) -> AttemptView:
    error = attempt.error
    return AttemptView(
        number=number,
        place=attempt.target + 1,
        adapter=attempt.adapter,
        base_url=attempt.base_url,
        model=attempt.model,
        cause=attempt_cause(attempt),
        code="" if error is None else error.code,
        message="" if error is None else error.message,
        started_ms=attempt.started_ms,
        took_ms=max(0, (attempt.ended_ms or now_ms) - attempt.started_ms),
        is_open=not attempt.outcome,
    )


def _outputs(job: Job) -> tuple[OutputView, ...]:
    views: list[OutputView] = []
    pictures = 0
    for n, output in enumerate(job.outputs[:MAX_OUTPUTS]):
        is_picture = pictures < MAX_PICTURES and is_shown(output)
        pictures += is_picture
        views.append(
            OutputView(
                n=n,
                name=output.name.rpartition("/")[2],
                content_type=output.content_type,
                size=output.size,
                sha256=output.sha256,
                where="in the bucket" if output.storage == S3 else "in the media folder",
                path="" if output.encrypted else job_file_path(job.id, n),
                is_picture=is_picture,
                is_encrypted=output.encrypted,
            )
        )
    return tuple(views)


def is_shown(output: Output) -> bool:
    """Whether an output may be shown on a page, as far as its record says.

    One in a bucket is of another origin, which our pages load nothing from.
    """
    return (
        not output.encrypted
        and output.storage == LOCAL
        and output.content_type in PICTURES
        and output.size <= MAX_SHOWN_BYTES
    )


def _webhook(job: Job) -> WebhookView | None:
    hook = job.webhook
    if hook is None:
        return None
    return WebhookView(
        url=hook.url,
        words=webhook_words(hook.state),
        kind=WEBHOOK_KINDS.get(hook.state, "quiet"),
        attempts=hook.attempts,
        last_ms=hook.last_ms,
        last_status=hook.last_status,
        last_error=hook.last_error,
        next_ms=hook.next_ms if hook.state == PENDING else 0,
        can_retry=hook.state in (PENDING, GIVEN_UP),
    )
