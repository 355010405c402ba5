"""What each refusal means and what to do about it, in a sentence each, for people.

The codes are those of :data:`omnigate.errors.ERRORS`, which is what refusals are counted by; the
clients themselves are told more (``docs/api.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from omnigate.control.reports import OTHER_CODE
from omnigate.errors import CLIENT_GONE


@attrs.frozen
class RefusalWords:
    """One code in words.

    :ivar meaning: why requests were refused.
    :ivar remedy: what to do about it, and who.
    """

    meaning: str
    remedy: str


_BUG_OF_CLIENT: Final = "Show the application's team the message of the answer; it names the fault."

WORDS: Final[Mapping[str, RefusalWords]] = {
    "invalid_request": RefusalWords(
        "The head, the body or a member of it is not as it must be.",
        _BUG_OF_CLIENT,
    ),
    "invalid_json": RefusalWords(
        "The body is no JSON in UTF-8, or nested too deeply.",
        "The application must send JSON; look at how it makes the body.",
    ),
    "invalid_path": RefusalWords(
        "The path or the query is not in its plain spelling, or too long.",
        "Check the base URL in the application: no doubled slashes, no encoded characters.",
    ),
    "request_too_complex": RefusalWords(
        "The body had to be translated and would take too much memory or time to read.",
        "Send smaller requests, or give the model a target that speaks the client's protocol.",
    ),
    "untranslatable_request": RefusalWords(
        "Something in the request cannot be said to any target of the model.",
        "The message names the field: leave it out, or add a target that takes it.",
    ),
    "thread_unsupported_request": RefusalWords(
        "The request goes on with a conversation that no target of the model keeps.",
        "Nothing as a rule: the application's package sends the whole conversation next.",
    ),
    "invalid_api_key": RefusalWords(
        "The request had no key, or one that is unknown, has expired or was replaced.",
        "Give the application a key that is valid, or extend or rotate the one it has.",
    ),
    "budget_exceeded": RefusalWords(
        "The key has spent its budget for this period.",
        "Raise its budget, or wait until the period ends.",
    ),
    "model_not_allowed": RefusalWords(
        "The key is limited to other models.",
        "Add the model to the key, or have the application ask for one that it may use.",
    ),
    "address_not_allowed": RefusalWords(
        "The key may not be used from the client's address.",
        "Add the address to the key if it belongs to the application. If it does not, the key "
        "may have leaked: rotate it.",
    ),
    "endpoint_not_allowed": RefusalWords(
        "The key is limited to other endpoints.",
        "Add the endpoint to the key, or have the application use one that it may.",
    ),
    "invalid_signature": RefusalWords(
        "The signed URL of a job's file is no longer valid, or was changed on its way.",
        "Ask for the job again: it comes with new URLs. media.signed_url_ttl_s says how long they "
        "work.",
    ),
    "not_found": RefusalWords(
        "Nothing is at the path that was asked for.",
        "Check the base URL in the application; it ends in /v1 for most packages.",
    ),
    "model_not_found": RefusalWords(
        "No route has the model that was asked for.",
        "Add a route for it to the config, or correct the name in the application.",
    ),
    "endpoint_not_supported": RefusalWords(
        "No target of the model speaks the protocol of the path, and it is not translated.",
        "Add a target that speaks it, or have the application use another endpoint.",
    ),
    "method_not_allowed": RefusalWords(
        "The path takes another method.",
        "Check how the application makes the request; most paths take POST.",
    ),
    "length_required": RefusalWords(
        "The body came without its length.",
        "Have the application send Content-Length instead of a chunked body.",
    ),
    "request_too_large": RefusalWords(
        "The body is over the limit.",
        "Have the application send less at once, such as smaller images.",
    ),
    "expectation_failed": RefusalWords(
        "The request expected something of the gateway that it does not do.",
        "Remove the Expect header in the application or in the proxy before it.",
    ),
    "rate_limit_exceeded": RefusalWords(
        "The key made more requests, or used more tokens, than it may within a minute.",
        "Raise the key's requests or tokens a minute, or spread the requests out.",
    ),
    "concurrency_limit_exceeded": RefusalWords(
        "The key had too many requests in flight at once.",
        "Let the key have more requests at once, or have the application wait for answers.",
    ),
    "request_memory_exceeded": RefusalWords(
        "The bodies that the key had in flight were too large together.",
        "Send fewer large requests at once, or use more keys.",
    ),
    "upstream_rate_limited": RefusalWords(
        "Every target failed, one of them by the provider's own rate limit.",
        "Ask the provider for a higher limit, or add a target at another one.",
    ),
    "too_many_open_jobs": RefusalWords(
        "The key has too many jobs that are not done yet.",
        "Wait for some to end, or raise the key's number of jobs.",
    ),
    "too_many_jobs_today": RefusalWords(
        "The key has begun as many jobs today as it may.",
        "Wait for the next day, or raise the key's number of jobs.",
    ),
    "internal_error": RefusalWords(
        "A fault of the gateway itself.",
        "Look for the request id in the data plane's log, and report what stands there.",
    ),
    "all_upstreams_failed": RefusalWords(
        "Every target of the model failed.",
        "Look at the attempts of such a request, then at the provider's status.",
    ),
    "control_plane_unavailable": RefusalWords(
        "A client asked what its key has spent, and this plane did not answer.",
        "Check that the data plane reaches this plane's port.",
    ),
    "upstream_authentication_failed": RefusalWords(
        "The provider refused the gateway's own credential.",
        "Renew the provider's API key in the data plane's environment and restart it.",
    ),
    "overloaded": RefusalWords(
        "The data plane had no room for the connection or the body.",
        "Add workers or another data plane, or raise its limits if the machine has room.",
    ),
    "gateway_not_ready": RefusalWords(
        "The data plane had no config yet.",
        "Nothing after a start. If it lasts, check that it reaches this plane.",
    ),
    "not_ready": RefusalWords(
        "This plane was loading its ledger or opening its stores anew.",
        "Nothing after a start. If it lasts, look at this plane's log.",
    ),
    "storage_unavailable": RefusalWords(
        "This plane's disk refused to write.",
        "Make room on the disk, or mend it; nothing that was acknowledged is lost.",
    ),
    CLIENT_GONE: RefusalWords(
        "The client left before any provider was asked.",
        "Nothing, if it is seldom. If not, the application's timeout may be too short.",
    ),
    OTHER_CODE: RefusalWords(
        "A reason that this version does not know; the data plane is of another one.",
        "Run the same version on both planes.",
    ),
}


def words_of(code: str) -> RefusalWords:
    """Return the words for a code; those for ``other`` where there are none."""
    return WORDS.get(code, WORDS[OTHER_CODE])
