"""A media job as it is kept: a value that changes by whole fields, and the states it goes through.

Every change is a *patch*, the fields that differ, and one line of the log
(:mod:`omnigate.jobs.store`). Times are milliseconds since 1970, 0 for never; money is nano-dollars.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

QUEUED: Final = "queued"
RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELED: Final = "canceled"
STATES: Final = (QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELED)
FINAL: Final = frozenset((SUCCEEDED, FAILED, CANCELED))

#: Which state may follow which; a final one is never left.
NEXT: Final = {
    QUEUED: frozenset((RUNNING, SUCCEEDED, FAILED, CANCELED)),
    RUNNING: frozenset((SUCCEEDED, FAILED, CANCELED)),
    SUCCEEDED: frozenset[str](),
    FAILED: frozenset[str](),
    CANCELED: frozenset[str](),
}

#: Codes of :attr:`JobError.code`.
PROVIDER_FAILED: Final = "provider_failed"
PROVIDER_RATE_LIMITED: Final = "provider_rate_limited"
PROVIDER_TIMEOUT: Final = "provider_timeout"
PROVIDER_BAD_ANSWER: Final = "provider_bad_answer"
OUTPUT_REFUSED: Final = "output_refused"
OUTPUT_UNAVAILABLE: Final = "output_unavailable"
OUTPUT_TOO_LARGE: Final = "output_too_large"
STORAGE_FAILED: Final = "storage_failed"
CANCELED_ERROR: Final = "canceled"

#: Characters of a provider's words that are kept.
MAX_MESSAGE_CHARS: Final = 500


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job is made of; members that are not known any more are passed over."""


class JobError(_Value, frozen=True):
    """Why a job, or one attempt, came to nothing; the message is one line of valid UTF-8."""

    code: str
    message: str = ""


class Attempt(_Value, frozen=True):
    """One target that was tried.

    :ivar target: its place in the route, from 0, when it was tried.
    :ivar outcome: empty while it goes on; ``succeeded``, ``failed``, ``rate_limited``,
        ``canceled``.
    """

    target: int
    adapter: str
    base_url: str
    model: str
    started_ms: int
    ended_ms: int = 0
    outcome: str = ""
    error: JobError | None = None


class Output(_Value, frozen=True):
    """One file that a job made, as it is stored.

    :ivar content_type: of the clear content, one of the short list.
    :ivar size: length of the clear content in bytes; ``sha256`` its hash in hex.
    :ivar source: ``url`` or ``inline``.
    :ivar storage: ``local`` or ``s3``: where it was put then.
    :ivar name: what it is called there, below the folder or the bucket: ``JOB/0.png``.
    :ivar encrypted: whether it is stored for age; then ``stored_size`` and ``stored_sha256`` are
        those of what is stored.
    """

    content_type: str
    size: int
    sha256: str
    source: str
    storage: str
    name: str
    encrypted: bool = False
    stored_size: int = 0
    stored_sha256: str = ""


class Billable(_Value, frozen=True):
    """What was asked of the provider that delivered; seconds in thousandths."""

    characters: int = 0
    milliseconds: int = 0
    outputs: int = 0


PENDING: Final = "pending"
DELIVERED: Final = "delivered"
GIVEN_UP: Final = "given_up"


class Webhook(_Value, frozen=True):
    """The delivery of one job's end.

    :ivar state: empty until the job is final; ``pending``, ``delivered``, ``given_up``.
    :ivar attempts: requests begun, each written down before it was sent.
    :ivar next_ms: when the next one is due.
    :ivar last_status: 0 where no answer came.
    :ivar last_error: what went wrong the last time, in a few words.
    """

    url: str
    state: str = ""
    attempts: int = 0
    next_ms: int = 0
    last_ms: int = 0
    last_status: int = 0
    last_error: str = ""


class Job(_Value, frozen=True):
    """One media job.

    :ivar id: ``job_`` and 26 characters of Crockford's base32 in lower case, which sort by the time
        of creation.
    :ivar key_sha256: the identity of the gateway key.
    :ivar model: the media route.
    :ivar input: None where it lies in a file (``input_file``).
    :ivar request_sha256: of what was asked for, to know a repeat with the same idempotency key.
    :ivar target: the place of the target that is being tried, -1 before the first.
    :ivar provider_job_id: the provider's id of what runs there; empty while there is none.
    :ivar provider_notes: what else the adapter needs to poll, such as a URL of the answer.
    :ivar cancel_ms: when the client asked for it to be canceled.
    :ivar provider_ms: milliseconds of media that the provider says it made; -1: it says nothing.
    :ivar cost_owed: whether the ledger has not got the cost yet.
    :ivar cached_from: the job whose outputs this one shares.
    """

    id: str
    key_sha256: str
    model: str
    created_ms: int
    status: str = QUEUED
    input: dict[str, Any] | None = None
    input_file: bool = False
    metadata: dict[str, Any] | None = None
    idempotency_key: str = ""
    request_sha256: str = ""
    webhook: Webhook | None = None
    started_ms: int = 0
    finished_ms: int = 0
    target: int = -1
    provider_job_id: str = ""
    provider_notes: dict[str, str] = {}
    attempts: tuple[Attempt, ...] = ()
    outputs: tuple[Output, ...] = ()
    error: JobError | None = None
    cancel_ms: int = 0
    billable: Billable | None = None
    provider_ms: int = -1
    cost_nano: int = 0
    cost_owed: bool = False
    cached_from: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing will change about how it ended."""
        return self.status in FINAL
