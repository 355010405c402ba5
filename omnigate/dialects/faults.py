"""Errors of upstreams, in a neutral form between the protocols."""

import enum

import attrs


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

    :ivar message: the provider's words.
    :ivar code: the provider's, where it gave one that may be passed on.
    :ivar param: the field the provider names.
    """

    kind: FaultKind
    message: str
    code: str | None = None
    param: str | None = None
