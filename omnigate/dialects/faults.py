"""Errors of upstreams, read in their protocol.

What is read becomes a :class:`Fault`, whose kind every protocol has a status and words for
(:mod:`omnigate.dialects.fault_words`). A whole error is read of its body and status; the error
inside a stream has no status, and is known by its type and code.
"""

import enum
import re

import attrs

from omnigate.dialects.answer import (
    MAX_HELD_BYTES,
    AnswerVerdict,
    ErrorWords,
    error_words,
)
from omnigate.dialects.usage import load_tree


class FaultKind(enum.Enum):
    """What went wrong, in terms that every protocol has a word for."""

    INVALID = "invalid"
    CONTEXT_LENGTH = "context_length"
    CREDENTIAL = "credential"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    TIMEOUT = "timeout"
    OVERLOADED = "overloaded"
    BAD_ANSWER = "bad_answer"
    INTERRUPTED = "interrupted"


@attrs.define
class Fault:
    """One error.

    :ivar message: the provider's words; empty where it gave none, or the fault is the gateway's
        finding. Those of a ``CREDENTIAL`` are for the log only.
    :ivar code: the provider's, where it gave one that may be passed on.
    :ivar param: the field the provider names.
    :ivar status: the upstream's, where it answered with one.
    """

    kind: FaultKind
    message: str = ""
    code: str | None = None
    param: str | None = None
    status: int | None = None


class NotAnAnswer(Exception):  # noqa: N818
    """What came with a good status is no answer.

    :ivar verdict: ``not_json``, ``error_envelope``, or ``wrong_shape`` for what is JSON and yet no
        finished answer of its protocol, which only a translation asks for.
    """

    def __init__(self, verdict: AnswerVerdict) -> None:
        """Say what it is instead."""
        super().__init__(verdict)
        self.verdict = verdict


class FailedAnswer(NotAnAnswer):
    """What came with a good status is an answer that says of itself that it failed.

    :ivar fault: why.
    """

    def __init__(self, fault: Fault) -> None:
        """Say why it failed."""
        super().__init__("error_envelope")
        self.fault = fault


_STATUS_KINDS = {
    401: FaultKind.CREDENTIAL,
    402: FaultKind.QUOTA,
    403: FaultKind.CREDENTIAL,
    404: FaultKind.NOT_FOUND,
    408: FaultKind.TIMEOUT,
    413: FaultKind.TOO_LARGE,
    429: FaultKind.RATE_LIMIT,
    503: FaultKind.OVERLOADED,
    504: FaultKind.TIMEOUT,
    529: FaultKind.OVERLOADED,
}

# What a type or a code says where there is no status; OpenAI's and Anthropic's never clash.
_WORD_KINDS = {
    "invalid_request_error": FaultKind.INVALID,
    "invalid_prompt": FaultKind.INVALID,
    "invalid_value": FaultKind.INVALID,
    "unsupported_parameter": FaultKind.INVALID,
    "unsupported_value": FaultKind.INVALID,
    "string_above_max_length": FaultKind.INVALID,
    "content_policy_violation": FaultKind.INVALID,
    "data_residency_mismatch": FaultKind.INVALID,
    "bio_policy": FaultKind.INVALID,
    "misalignment_policy_violation": FaultKind.INVALID,
    "conflict_error": FaultKind.INVALID,
    "context_length_exceeded": FaultKind.CONTEXT_LENGTH,
    "exceed_context_size_error": FaultKind.CONTEXT_LENGTH,
    "authentication_error": FaultKind.CREDENTIAL,
    "invalid_api_key": FaultKind.CREDENTIAL,
    "permission_error": FaultKind.CREDENTIAL,
    "insufficient_quota": FaultKind.QUOTA,
    "credit_balance_exhausted": FaultKind.QUOTA,
    "billing_error": FaultKind.QUOTA,
    "not_found_error": FaultKind.NOT_FOUND,
    "model_not_found": FaultKind.NOT_FOUND,
    "request_too_large": FaultKind.TOO_LARGE,
    "rate_limit_error": FaultKind.RATE_LIMIT,
    "rate_limit_exceeded": FaultKind.RATE_LIMIT,
    "requests": FaultKind.RATE_LIMIT,
    "tokens": FaultKind.RATE_LIMIT,
    "timeout": FaultKind.TIMEOUT,
    "timeout_error": FaultKind.TIMEOUT,
    "vector_store_timeout": FaultKind.TIMEOUT,
    "overloaded_error": FaultKind.OVERLOADED,
    "service_unavailable_error": FaultKind.OVERLOADED,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
}

# Responses has some fifteen codes for pictures that cannot be taken, all of this form.
_tells_of_image = re.compile(r"image").search

# Anthropic has no code for it, and most compatible servers give none.
_tells_of_context = re.compile(
    r"prompt is too long|context[ _](?:length|window|size|limit)", re.IGNORECASE
).search


def openai_fault(status: int | None, body: bytes) -> Fault:
    """Read an error of an OpenAI-style upstream.

    :param status: that it came with; ``None`` for the data of an event in a stream.
    :param body: the answer or the data, whole.
    """
    words = _words(body)
    if words is None:
        return _unreadable(status)
    return openai_fault_of(words.code, words.message, words.type, words.param, status)


def openai_fault_of(
    code: str | None,
    message: str | None,
    type: str | None = None,
    param: str | None = None,
    status: int | None = None,
) -> Fault:
    """Return the fault that the members of an error object of OpenAI's tell of.

    :param status: as of :func:`openai_fault`.
    """
    status = _error_status(status)
    # Many servers write the status where a code belongs, into the events of their streams too.
    number = int(code) if code is not None and len(code) == 3 and code.isdecimal() else None
    if number is not None:
        code = None
    told = _told_kind(code, type)
    kind = _kind(status or _error_status(number), told)
    if told is FaultKind.QUOTA and kind in (FaultKind.RATE_LIMIT, FaultKind.CREDENTIAL):
        kind = FaultKind.QUOTA
    elif kind is FaultKind.INVALID and (
        told is FaultKind.CONTEXT_LENGTH or _tells_of_context(message or "")
    ):
        kind = FaultKind.CONTEXT_LENGTH
    return Fault(kind, message or "", code, param, status)


def anthropic_fault(status: int | None, body: bytes) -> Fault:
    """Read an error of an Anthropic-style upstream; parameters as of :func:`openai_fault`.

    Its finer codes mean nothing to the clients of others, so they are not kept.
    """
    words = _words(body)
    if words is None:
        return _unreadable(status)
    status = _error_status(status)
    message = words.message or ""
    kind = _kind(status, _told_kind(None, words.type))
    if kind is FaultKind.INVALID and _tells_of_context(message):
        kind = FaultKind.CONTEXT_LENGTH
    return Fault(kind, message, status=status)


def _words(body: bytes) -> ErrorWords | None:
    """Find the words of an error; ``None`` where there are none in a known shape."""
    words = error_words(load_tree(body, MAX_HELD_BYTES))
    return words if words.message or words.type or words.code else None


def _unreadable(status: int | None) -> Fault:
    """Return the fault of an error that is no JSON, or has none of an error's members."""
    if status in (401, 403):
        return Fault(FaultKind.CREDENTIAL, status=status)
    if status is None:
        return Fault(FaultKind.BAD_ANSWER)
    text = f"The upstream answered with status {status}, and with no error of its protocol."
    return Fault(FaultKind.BAD_ANSWER, text, status=status)


def _error_status(status: int | None) -> int | None:
    """Return a status that tells of an error; some servers send theirs with 200."""
    return status if status is not None and 400 <= status < 600 else None


def _kind(status: int | None, told: FaultKind | None) -> FaultKind:
    """Return the kind that a status stands for; where there is none, the one that was told."""
    if status is None:
        return told or FaultKind.SERVER
    return _STATUS_KINDS.get(status, FaultKind.INVALID if status < 500 else FaultKind.SERVER)


def _told_kind(code: str | None, type: str | None) -> FaultKind | None:
    """Return the kind that a code or a type tells of; the code says more."""
    for word in (code, type):
        kind = _WORD_KINDS.get(word or "")
        if kind is not None:
            return kind
    return FaultKind.INVALID if code is not None and _tells_of_image(code) else None
