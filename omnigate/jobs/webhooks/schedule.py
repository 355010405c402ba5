"""When a webhook is sent, what its receiver's answer means, and when it is tried again.

Only the status of an answer counts. A 2xx has delivered it; a redirect is a failure like any other,
and is not followed; 410 says that nobody wants it any more.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import attrs
import msgspec

from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Webhook
from omnigate.outbound.messages import REFUSED, TIMEOUT, Answer
from omnigate.text import one_line

_HOUR_MS: Final = 3_600_000

#: Milliseconds before each attempt, counted from the one before: the example of the standard.
DELAYS_MS: Final = (
    0,
    5_000,
    5 * 60_000,
    30 * 60_000,
    2 * _HOUR_MS,
    5 * _HOUR_MS,
    10 * _HOUR_MS,
    14 * _HOUR_MS,
    20 * _HOUR_MS,
    24 * _HOUR_MS,
)

#: A delay is made longer or shorter by up to so much of itself, so that deliveries that failed
#: together do not come back together.
JITTER: Final = 0.2

#: A receiver may put off the next attempt by so much.
MAX_RETRY_AFTER_MS: Final = 24 * _HOUR_MS

#: Characters of :attr:`~omnigate.jobs.job.Webhook.last_error`.
MAX_ERROR_CHARS: Final = 200

#: What :attr:`Verdict.kind` may be.
Kind = Literal["delivered", "failed", "gone"]


@attrs.frozen
class Verdict:
    """What came of one attempt.

    :ivar kind: ``delivered``; ``failed``; ``gone``, which asks for no more.
    :ivar status: of the answer; 0 where none came.
    :ivar error: what went wrong, on one line; empty where it was delivered.
    :ivar retry_after_ms: how long the receiver wants to be left alone; 0: it says nothing.
    :ivar refused: whether nothing was sent, as the URL or its address is not for us.
    """

    kind: Kind
    status: int = 0
    error: str = ""
    retry_after_ms: int = 0
    refused: bool = False


def armed(webhook: Webhook, now_ms: int) -> Webhook:
    """Return the webhook of a job that has come to its end: due at once."""
    return msgspec.structs.replace(webhook, state=PENDING, next_ms=now_ms)


def is_clock_behind(webhook: Webhook, now_ms: int) -> bool:
    """Whether the clock has been set back behind what was written down last."""
    return now_ms < (webhook.last_ms if webhook.attempts else webhook.next_ms)


def due_ms(webhook: Webhook, now_ms: int) -> int:
    """Return when a pending webhook is due.

    Where the clock has been set back, as one is that was a day ahead, it is due as long after now
    as it was to be after the last attempt.
    """
    if not is_clock_behind(webhook, now_ms):
        return webhook.next_ms
    return now_ms + (webhook.next_ms - webhook.last_ms if webhook.attempts else 0)


def delay_ms(attempts: int, fraction: float) -> int:
    """Return the milliseconds from one attempt to the next.

    :param attempts: how many there have been.
    :param fraction: from 0 to 1, at random.
    """
    delay = DELAYS_MS[min(attempts, len(DELAYS_MS) - 1)]
    return round(delay * (1 - JITTER + 2 * JITTER * fraction))


def retry_after_ms(value: str | None, now_ms: int) -> int:
    """Return how long a ``retry-after`` asks to wait (RFC 9110 §10.2.3), a day at most.

    :param value: seconds, or an HTTP date; anything else counts for nothing.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        # More than ten digits are more than a day, and not worth reading.
        seconds = int(text) if len(text) <= 10 else MAX_RETRY_AFTER_MS
        return min(seconds * 1_000, MAX_RETRY_AFTER_MS)
    try:
        # A date is 29 characters long, its oldest form some more.
        when = parsedate_to_datetime(text[:64])
        if when.tzinfo is None:
            # All dates of HTTP are in GMT, also the old form that does not say so.
            when = when.replace(tzinfo=UTC)
        wait = when.timestamp() * 1_000 - now_ms
    except (ValueError, TypeError, OverflowError, OSError):
        return 0
    return max(0, min(round(wait), MAX_RETRY_AFTER_MS))


def judge(answer: Answer, now_ms: int) -> Verdict:
    """Say what an answer means.

    Whatever became of its body: a receiver that said 2xx has taken the delivery, also where it
    said much more than is read.
    """
    status = answer.status
    if 200 <= status < 300:
        return Verdict("delivered", status)
    if status == 0:
        detail = answer.detail or _WITHOUT_DETAIL.get(answer.fault, answer.fault)
        error = one_line(detail or "no answer", MAX_ERROR_CHARS)
        return Verdict("failed", 0, error, refused=answer.fault == REFUSED)
    if status == 410:
        return Verdict("gone", status, "the receiver answered 410: it wants no more attempts")
    if 300 <= status < 400:
        error = f"the receiver answered {status}; a redirect is not followed"
    else:
        # Its own words are left out: they may be those of a server on a network that the operator
        # opened to webhooks, and are no business of whoever named the URL.
        error = f"the receiver answered {status}"
    wait_ms = retry_after_ms(answer.headers.get("retry-after"), now_ms)
    return Verdict("failed", status, error, wait_ms)


_WITHOUT_DETAIL: Final = {
    TIMEOUT: "no answer within 15 s",
    REFUSED: "the URL leads to where webhooks may not go",
}


def begun(
    webhook: Webhook, now_ms: int, max_attempts: int, fraction: float, *, by_hand: bool = False
) -> Webhook | None:
    """Return what is written down before an attempt is sent; None: it must not be sent any more.

    It says what would be known if the attempt came to nothing with this process, such as when the
    next one is due.

    :param by_hand: a person wants this one, so it is sent also as one more than ``max_attempts``.
    """
    if not by_hand and (webhook.state != PENDING or webhook.attempts >= max_attempts):
        return None
    attempts = webhook.attempts + 1
    return msgspec.structs.replace(
        webhook,
        attempts=attempts,
        next_ms=now_ms + delay_ms(attempts, fraction) if webhook.state == PENDING else 0,
        last_ms=now_ms,
        last_status=0,
        last_error="no answer is known: it is under way, or was cut off",
    )


def ended(
    webhook: Webhook, verdict: Verdict, now_ms: int, max_attempts: int, fraction: float
) -> Webhook:
    """Return what is known after an attempt.

    :param webhook: as :func:`begun` left it. One that was given up before stays so unless it was
        delivered now.
    """
    change = msgspec.structs.replace(
        webhook, last_status=verdict.status, last_error=verdict.error, next_ms=0
    )
    if verdict.kind == "delivered":
        return msgspec.structs.replace(change, state=DELIVERED)
    if verdict.kind == "gone" or webhook.state != PENDING or webhook.attempts >= max_attempts:
        return msgspec.structs.replace(change, state=GIVEN_UP)
    wait_ms = max(delay_ms(webhook.attempts, fraction), verdict.retry_after_ms)
    return msgspec.structs.replace(change, next_ms=now_ms + wait_ms)


def given_up(webhook: Webhook) -> Webhook:
    """Return a webhook that has had all its attempts."""
    return msgspec.structs.replace(webhook, state=GIVEN_UP, next_ms=0)
