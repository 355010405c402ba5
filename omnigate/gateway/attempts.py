"""The walk over the targets of one request: outcomes in; try, next or stop out.

Pure: it decides what an outcome means and what the end of the walk is, and sends
nothing.  The rules:

* connection error: once more on a fresh connection, then the next target;
* timeout, 429, 5xx (529 is one), an answer that cannot be framed or is none: next
  target, and a failure for the cooldown;
* an upstream that may be at work on the request is not asked a second time, under another
  model either;
* 401 and 403 are about our own credential: next target, no failure of the upstream;
* anything else is the answer.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Generic, Protocol, TypeVar

from omnigate.errors import GatewayError
from omnigate.events import AttemptRecord

#: The ``retry-after`` of a 429 where no provider named one: Codex fails at once without any, and
#: the Anthropic SDKs sleep out whatever is said.
USUAL_RETRY_AFTER_SECONDS = 5
#: Believed at most: a year; anything longer is the same to everybody.
_MAX_HINT_SECONDS = 31_536_000

#: Outcomes of a request that an upstream has got: it may be at work on it still.
PERHAPS_AT_WORK = frozenset(("timeout", "connection_lost", "truncated", "stream_idle_timeout"))
#: Outcomes of what turned out to be no answer, whatever its status said: nobody sells those.
NO_ANSWERS = frozenset(
    ("not_json", "error_envelope", "wrong_shape", "empty_stream", "error_event", "unknown_coding")
)
#: How we end the reading of an answer that nobody waits for: no failure of the upstream.
OWN_ENDINGS = frozenset(("canceled", "timeout"))


class Verdict(enum.Enum):
    """What a status means for the walk."""

    ANSWER = "answer"
    NEXT = "next"
    CREDENTIAL = "credential"


def judge_status(status: int) -> Verdict:
    """What to do with an upstream's answer of this status."""
    if status == 429 or status >= 500:
        return Verdict.NEXT
    if status in (401, 403):
        return Verdict.CREDENTIAL
    return Verdict.ANSWER


def retry_after_seconds(value: bytes | None, now: float) -> int | None:
    """The seconds that a ``retry-after`` header asks for (RFC 9110 §10.2.3).

    :param value: seconds or an HTTP date; anything else is ``None``.
    :param now: seconds since 1970.
    """
    if not value:
        return None
    text = value.strip()
    if text.isdigit() and len(text) <= 10:
        return min(int(text), _MAX_HINT_SECONDS)
    try:
        when = parsedate_to_datetime(text.decode("ascii"))
        if when.tzinfo is None:
            # All dates of HTTP are in GMT, also the old form that does not say so.
            when = when.replace(tzinfo=UTC)
        seconds = when.timestamp() - now
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    # Rounded up: a client that waits for it must not come back too early.
    return min(max(0, -int(-seconds // 1)), _MAX_HINT_SECONDS)


class Named(Protocol):
    """A target as the list of attempts names it."""

    @property
    def upstream_name(self) -> str:
        """The upstream's name in the config."""

    @property
    def model(self) -> str:
        """The model id that the upstream is sent."""


T = TypeVar("T", bound=Named)


class Walk(Generic[T]):
    """One request's way over its targets.

    :ivar target: the target being tried.
    :ivar records: every attempt so far.
    :ivar fresh_only: the next try at this target must use a fresh connection.
    """

    __slots__ = (
        "_doubtful",
        "_hint",
        "_index",
        "_retried",
        "_targets",
        "fresh_only",
        "records",
        "target",
    )

    def __init__(self, targets: Sequence[T]) -> None:
        self._targets = targets
        self._index = 0
        self._retried = False
        self._hint: int | None = None
        self._doubtful: frozenset[str] = frozenset()
        self.fresh_only = False
        self.target: T | None = None
        self.records: list[AttemptRecord] = []

    def advance(self) -> T | None:
        """The next target, or ``None`` at the end."""
        self.fresh_only = False
        self._retried = False
        targets = self._targets
        while self._index < len(targets):
            target = self.target = targets[self._index]
            self._index += 1
            if target.upstream_name not in self._doubtful:
                return target
        self.target = None
        return None

    def doubt(self) -> None:
        """The target's upstream may have taken the request: pass over its other models."""
        assert self.target is not None
        self._doubtful |= {self.target.upstream_name}

    def may_retry(self) -> bool:
        """Whether a connection error at this target allows one more try; asking uses it up."""
        if self._retried:
            return False
        self._retried = self.fresh_only = True
        return True

    def record(self, outcome: str, status: int | None, duration_ms: int) -> None:
        """Write down how the attempt at the target ended."""
        target = self.target
        assert target is not None
        self.records.append(
            AttemptRecord(target.upstream_name, target.model, outcome, status, duration_ms)
        )

    def hint(self, seconds: int | None) -> None:
        """Keep the longest wait that a provider asked for with a 429."""
        if seconds is not None and (self._hint is None or seconds > self._hint):
            self._hint = seconds

    def end(self) -> GatewayError:
        """The error for a client whose request no target answered."""
        records = self.records
        told = ", ".join(
            f"{record.upstream}/{record.model}: {record.outcome.replace('_', ' ')}"
            for record in records
        )
        if any(record.status == 429 for record in records):
            hint = self._hint
            return GatewayError(
                "upstream_rate_limited",
                f"every target of this model failed, at least one by its rate limit ({told}); "
                "wait and try again",
                retry_after=USUAL_RETRY_AFTER_SECONDS if hint is None else hint,
            )
        if records and records[-1].outcome == "upstream_auth":
            return GatewayError(
                "upstream_authentication_failed",
                f"the provider refused the gateway's own credential ({told}); "
                "the operator has to mend it",
            )
        return GatewayError(
            "all_upstreams_failed",
            f"every target of this model failed ({told}); try again later",
        )
