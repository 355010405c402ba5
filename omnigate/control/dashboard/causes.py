"""Why a request or one of its attempts ended as it did, and what to do about it, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import attrs

GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"


@attrs.frozen
class Cause:
    """One end in words.

    :ivar title: in a few words.
    :ivar meaning: what happened, in one sentence.
    :ivar remedy: what to do about it; empty where there is nothing to do.
    :ivar kind: ``good``, ``warn`` or ``bad``.
    """

    title: str
    meaning: str
    remedy: str = ""
    kind: str = BAD


_LOOK_AT_PROVIDER: Final = "Look at the provider's status page if it goes on."
_BASE_URL: Final = (
    "Check base_url and protocol of the upstream: a web page or another service answers like this."
)

#: What became of an attempt, by its outcome; those of the form ``status_503`` stand below.
ATTEMPTS: Final[Mapping[str, Cause]] = {
    "ok": Cause("answered", "The provider answered.", kind=GOOD),
    "connect_error": Cause(
        "not reached",
        "No connection to the provider could be made.",
        "Check base_url of the upstream, DNS, the firewall and TLS from the data plane's host.",
    ),
    "connection_lost": Cause(
        "connection lost",
        "The provider closed the connection before it began to answer.",
        _LOOK_AT_PROVIDER,
    ),
    "timeout": Cause(
        "no answer in time",
        "The provider did not begin to answer within the time that the upstream allows.",
        "Allow more with head_timeout_ms of the upstream, or put a faster target first.",
    ),
    "stream_idle_timeout": Cause(
        "stream fell silent",
        "The provider began a stream and then sent nothing for too long.",
        "Allow longer silences with OMNIGATE_STREAM_IDLE_TIMEOUT_MS if its model thinks for long.",
    ),
    "bad_framing": Cause(
        "broken HTTP",
        "What the provider sent is no HTTP answer that can be read safely.",
        _BASE_URL,
    ),
    "unknown_coding": Cause(
        "unknown compression",
        "The provider compressed its answer in a way that was not asked for.",
        "Look for a proxy between the gateway and the provider that does this.",
    ),
    "truncated": Cause(
        "cut off",
        "The provider's answer ended before it was whole.",
        _LOOK_AT_PROVIDER,
    ),
    "not_json": Cause("no JSON", "The provider's answer is no JSON.", _BASE_URL),
    "error_envelope": Cause(
        "error as an answer",
        "The provider said that all is well, and sent an error.",
        "Send the request to this provider alone to read its message.",
    ),
    "wrong_shape": Cause(
        "not an answer",
        "The provider's answer lacks what an answer of this endpoint has.",
        "Check protocol and base_url of the upstream, and that the model serves this endpoint.",
    ),
    "empty_stream": Cause(
        "empty stream",
        "The provider's stream ended before its first event.",
        _LOOK_AT_PROVIDER,
    ),
    "error_event": Cause(
        "error in the stream",
        "The provider reported an error within its stream.",
        _LOOK_AT_PROVIDER,
    ),
    "upstream_auth": Cause(
        "credential refused",
        "The provider did not accept the gateway's own credential, or the gateway has none for it.",
        "Give the data plane a valid key in the variable that api_key_env of the upstream names.",
    ),
    "canceled": Cause(
        "client left",
        "The client closed its connection while this was under way.",
        "If it happens often, raise the time-out of the application.",
        kind=WARN,
    ),
    "unasked_stream": Cause(
        "unasked stream",
        "The provider sent a stream, and the request asked for none.",
        "Look for a proxy in between, or a provider that always streams.",
    ),
    "answer_too_large": Cause(
        "answer too large",
        "The answer had to be translated and is larger than what is held for that.",
        "Ask for fewer tokens or for a stream, or use a target that speaks the client's protocol.",
    ),
    "answer_too_complex": Cause(
        "answer too complex",
        "The answer had to be translated and would take too much memory to read.",
        "Use a target that speaks the client's protocol.",
    ),
    "no_room": Cause(
        "no room",
        "The gateway holds answers back to translate them, and had no room left for this one.",
        "Give the data plane more memory or more workers, or use targets that need no translation.",
    ),
    "event_too_large": Cause(
        "event too large",
        "An event of the stream had to be translated and is larger than what is held for that.",
        "Use a target that speaks the client's protocol.",
    ),
    "event_too_complex": Cause(
        "event too complex",
        "An event of the stream had to be translated and would take too much memory to read.",
        "Use a target that speaks the client's protocol.",
    ),
    "bad_event": Cause(
        "broken event",
        "An event of the provider's stream is not what its protocol says.",
        "Check protocol of the upstream; a provider that is only similar may need another one.",
    ),
    "unfinished": Cause(
        "unfinished stream",
        "The provider's stream ended without its closing event.",
        _LOOK_AT_PROVIDER,
    ),
}

_ATTEMPT_STATUS: Final[Mapping[int, Cause]] = {
    402: Cause(
        "402 from the provider",
        "The account at the provider has no credit.",
        "Pay the provider's bill, or give the model another target.",
    ),
    404: Cause(
        "404 from the provider",
        "The provider does not know this model or path.",
        "Check model of the target and base_url of the upstream.",
    ),
    408: Cause("408 from the provider", "The provider gave up waiting.", _LOOK_AT_PROVIDER),
    429: Cause(
        "429 from the provider",
        "The provider's rate limit or quota was used up.",
        "Ask the provider for a higher limit, or spread the load over more targets.",
    ),
    529: Cause("529 from the provider", "The provider is overloaded.", _LOOK_AT_PROVIDER),
}

#: What the client was told, by its status, where no attempt answered.
_REQUEST_STATUS: Final[Mapping[int, Cause]] = {
    429: Cause(
        "every target failed, one by its rate limit",
        "No target of the model could answer, and at least one had no rate left for us.",
        "Ask that provider for a higher limit, or give the model another target.",
    ),
    502: Cause(
        "every target failed",
        "No target of the model could answer; the attempts below say why.",
        "Mend what the last attempts say, or give the model a target at another provider.",
    ),
}


def attempt_cause(outcome: str, status: int | None = None) -> Cause:
    """Return why an attempt ended; for a word that is not known, that word.

    :param status: the upstream's. An answer that was passed on may be a refusal.
    """
    if outcome == "ok" and status is not None and status >= 400:
        return attrs.evolve(_status_from_provider(status), kind=WARN)
    found = ATTEMPTS.get(outcome)
    if found is not None:
        return found
    digits = outcome.removeprefix("status_")
    if digits != outcome and digits.isascii() and digits.isdigit() and len(digits) == 3:
        return _status_from_provider(int(digits))
    return Cause(outcome.replace("_", " "), "A later version of the data plane knows this outcome.")


def _status_from_provider(status: int) -> Cause:
    found = _ATTEMPT_STATUS.get(status)
    if found is not None:
        return found
    title = f"{status} from the provider"
    if status >= 500:
        return Cause(title, "The provider could not serve the request.", _LOOK_AT_PROVIDER)
    return Cause(title, "The provider refused the request.", "Read its message in the answer.")


def request_cause(
    status: int,
    *,
    answered: bool,
    cached: bool,
    estimated: bool,
    outcomes: Sequence[str],
    provider_status: int | None = None,
) -> Cause:
    """Return why a request ended as it did.

    :param status: what the client was sent; 499 for an answer that broke off.
    :param answered: whether an upstream answered.
    :param outcomes: those of the attempts, the first one first.
    :param provider_status: the upstream's status in the last attempt.
    """
    last = outcomes[-1] if outcomes else ""
    if is_broken_off(status, provider_status):
        return _broken_off(last)
    if cached:
        return Cause(
            "answered from the cache",
            "The response cache had the answer: no provider was asked, and nothing was spent.",
            kind=GOOD,
        )
    if status < 400:
        failed = sum(outcome != "ok" for outcome in outcomes)
        meaning = "The provider answered."
        if failed:
            tries = "one attempt" if failed == 1 else f"{failed} attempts"
            meaning = f"A provider answered, after {tries} that failed."
        if estimated:
            meaning += (
                " It did not say how many tokens it used, so the counts are an estimate. A stream "
                "that ended early, or with an error in it, does not say so either."
            )
        return Cause("answered", meaning, kind=WARN if failed else GOOD)
    if last == "no_room":
        return ATTEMPTS[last]
    if answered:
        return Cause(
            f"{status_name(status, provider_status)}, by the provider",
            "The provider refused the request, and its answer was passed on as it is.",
            "The application's team finds the reason in the message of the answer."
            if status < 500
            else _LOOK_AT_PROVIDER,
        )
    if status == 502 and last == "upstream_auth":
        refused = ATTEMPTS["upstream_auth"]
        return attrs.evolve(refused, title="the provider refused our credential")
    return _REQUEST_STATUS.get(
        status,
        Cause(
            status_name(status),
            "No target of the model answered; the attempts below say why.",
            "Mend what the last attempts say.",
        ),
    )


def _broken_off(last: str) -> Cause:
    """Return why an answer broke off, by the last attempt."""
    if last in ("", "ok", "canceled"):
        return Cause(
            "the client left",
            "The client closed its connection before the answer was whole. What was used by then "
            "is counted.",
            "If it happens often, raise the time-out of the application.",
            kind=WARN,
        )
    cause = attempt_cause(last)
    return Cause(
        "the answer broke off",
        f"The provider's answer broke off and the client saw it break: {cause.title}.",
        cause.remedy,
    )


def is_broken_off(status: int, provider_status: int | None) -> bool:
    """Whether an answer broke off, and the 499 is not one that a provider itself has sent."""
    return status == 499 and provider_status != 499


def status_name(status: int, provider_status: int | None = None) -> str:
    """Return a status with its name: ``429 Too Many Requests``."""
    if is_broken_off(status, provider_status):
        return "499 broken off"
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def status_kind(status: int) -> str:
    """Return how bad a status is, for its badge."""
    if status < 400:
        return GOOD
    return WARN if status in (429, 499) else BAD
