"""What a provider's answer means: the error that it tells of, and what becomes of the attempt.

Nothing here raises, whatever a provider sends.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from omnigate.dialects.strike import PieceStriker
from omnigate.jobs.adapters.base import Failed, Running, Transient
from omnigate.jobs.adapters.reading import BadAnswer, few, member, read_object, text_at
from omnigate.jobs.job import (
    MAX_MESSAGE_CHARS,
    PROVIDER_BAD_ANSWER,
    PROVIDER_FAILED,
    PROVIDER_RATE_LIMITED,
    PROVIDER_TIMEOUT,
    JobError,
)
from omnigate.outbound import messages
from omnigate.outbound.messages import Answer
from omnigate.text import MIN_SECRET_CHARS, one_line, valid_text

#: A provider that wants to be left alone for longer is asked again after this.
MAX_WAIT_SECONDS: Final = 60.0

#: Refusals of a poll that tell nothing about the job; after any other one (401, 403, 410 and the
#: like) no answer will.
_TRANSIENT: Final = frozenset((404, 408, 425, 429))

# Characters of a provider's text that are looked at: folded and escaped, they fill a message.
_WINDOW_CHARS: Final = 4_096
_MAX_DETAILS: Final = 8
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?")

_FAULT_CODES: Final = {
    messages.TIMEOUT: PROVIDER_TIMEOUT,
    messages.BAD_FRAMING: PROVIDER_BAD_ANSWER,
    messages.TRUNCATED: PROVIDER_BAD_ANSWER,
    messages.TOO_LARGE: PROVIDER_BAD_ANSWER,
}


def told_error(body: object) -> str:
    """Return what a provider says of a failure, as it says it; empty where it says nothing.

    Looked for in the order ``error.message``, ``error``, ``detail``, ``detail.message``,
    ``detail[].msg`` with the last part of its ``loc``, ``message``, ``title``,
    ``errors[].message``.
    """
    if not isinstance(body, Mapping):
        return ""
    detail = body.get("detail")
    errors = body.get("errors")
    candidates = (
        text_at(body, "error", "message"),
        text_at(body, "error"),
        text_at(body, "detail"),
        text_at(detail, "message"),
        "; ".join(_located(part) for part in few(detail, _MAX_DETAILS) if text_at(part, "msg")),
        text_at(body, "message"),
        text_at(body, "title"),
        next(
            (found for part in few(errors, _MAX_DETAILS) if (found := text_at(part, "message"))), ""
        ),
    )
    return next((found for found in candidates if found.strip()), "")


def _located(part: object) -> str:
    message = text_at(part, "msg")
    places = member(part, "loc")
    last = places[-1] if isinstance(places, list) and places else None
    if isinstance(last, str | int) and not isinstance(last, bool):
        # A number of thousands of digits would take long to be written out.
        name = valid_text(last) if isinstance(last, str) else _short_number(last)
        return f"{name}: {message}"
    return message


def _short_number(value: int) -> str:
    return str(value) if abs(value) < 10**9 else "…"


def plain_text(text: str, credential: str) -> str:
    """Return a provider's text as one line of valid UTF-8 for a job, the credential struck out.

    :returns: at most :data:`~omnigate.jobs.job.MAX_MESSAGE_CHARS` characters.
    """
    cut = valid_text(text[:_WINDOW_CHARS])
    for secret in secrets_in(credential):
        striker = PieceStriker(secret.encode("utf-8", "replace"))
        # What is held back at the end may be the credential's beginning, cut by the window.
        passed = striker.feed(cut.encode())
        cut = (passed if len(text) > _WINDOW_CHARS else passed + striker.end()).decode(
            "utf-8", "replace"
        )
    return one_line(" ".join(cut.split()), MAX_MESSAGE_CHARS)


def secrets_in(credential: str) -> tuple[str, ...]:
    """Return what must not be repeated: the credential, and the secret half of ``id:secret``."""
    half = credential.partition(":")[2]
    return tuple(secret for secret in (credential, half) if len(secret) >= MIN_SECRET_CHARS)


def error_of(answer: Answer, body: object, credential: str) -> JobError:
    """Return the error that an answer stands for which is no success."""
    if answer.fault:
        code = _FAULT_CODES.get(answer.fault, PROVIDER_FAILED)
        detail = answer.detail or answer.fault.replace("_", " ")
        return JobError(code, plain_text(detail, credential))
    code = PROVIDER_RATE_LIMITED if answer.status == 429 else PROVIDER_FAILED
    message = plain_text(told_error(body), credential)
    return JobError(code, message or f"HTTP {answer.status}")


def failed(message: str, credential: str) -> Failed:
    """Return the failure of work that the provider took in and ended so."""
    return Failed(JobError(PROVIDER_FAILED, plain_text(message, credential) or "no reason given"))


def bad_answer(message: str) -> Failed:
    """Return the failure of an answer that is not what the provider documents.

    :param message: our own words.
    """
    return Failed(JobError(PROVIDER_BAD_ANSWER, message))


def read_submit(
    answer: Answer, credential: str, quota_codes: Container[str] = ()
) -> dict[str, Any] | Failed:
    """Return the object that an accepted submit was answered with, else the failure.

    :param quota_codes: what ``error.code`` or ``error.type`` of a 429 says where not the rate, but
        the account is at its end.
    """
    if not answer.ok:
        return refused(answer, credential, quota_codes)
    try:
        return read_object(answer)
    except BadAnswer as fault:
        return bad_answer(str(fault))


def refused(answer: Answer, credential: str, quota_codes: Container[str] = ()) -> Failed:
    """Return the failure of a submit whose answer is no success."""
    body = error_body(answer)
    error = error_of(answer, body, credential)
    limited = not answer.fault and answer.status == 429
    if limited and any(text_at(body, "error", name) in quota_codes for name in ("code", "type")):
        return Failed(JobError(PROVIDER_FAILED, error.message))
    return Failed(error, rate_limited=limited)


def read_poll(answer: Answer, credential: str) -> dict[str, Any] | Failed | Transient:
    """Return the object that a poll was answered with, else what the answer comes to."""
    if answer.ok:
        try:
            return read_object(answer)
        except BadAnswer as fault:
            return Transient(JobError(PROVIDER_BAD_ANSWER, str(fault)))
    body = error_body(answer)
    error = error_of(answer, body, credential)
    status = answer.status
    if answer.fault or status in _TRANSIENT or status >= 500 or status < 400:
        return Transient(error, wait_seconds(answer, body))
    return Failed(error)


def running(answer: Answer) -> Running:
    """Return that work goes on, and how long the provider wants to be left alone."""
    return Running(wait_seconds(answer))


def error_body(answer: Answer) -> dict[str, Any] | None:
    """Return the object that a failure was answered with; None where it is none."""
    if answer.fault:
        return None
    try:
        return read_object(answer)
    except BadAnswer:
        return None


def wait_seconds(answer: Answer, body: object = None) -> float:
    """Return how long a provider wants to be left alone, at most :data:`MAX_WAIT_SECONDS`.

    ``retry-after`` (RFC 9110 §10.2.3) in seconds or as a date, which is taken against the answer's
    own ``date``; else Google's ``error.details[].retryDelay``. 0 where it says nothing.
    """
    asked = answer.headers.get("retry-after", "").strip()
    if asked:
        seconds = _seconds(asked)
        return _until(asked, answer.headers.get("date", "")) if seconds is None else seconds
    for detail in few(member(body, "error", "details"), _MAX_DETAILS):
        seconds = _seconds(text_at(detail, "retryDelay").removesuffix("s"))
        if seconds is not None:
            return seconds
    return 0.0


def _seconds(text: str) -> float | None:
    return min(float(text), MAX_WAIT_SECONDS) if _SECONDS.fullmatch(text) else None


def _until(when: str, now: str) -> float:
    try:
        wait = parsedate_to_datetime(when[:64]) - parsedate_to_datetime(now[:64])
    except (ValueError, TypeError, OverflowError):  # no date, or only one of them says its zone
        return 0.0
    return min(max(0.0, wait.total_seconds()), MAX_WAIT_SECONDS)
