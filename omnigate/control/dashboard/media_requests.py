"""A media job as its request page shows it: what came of it, and of its attempts, in plain words.

The event of a job is one like any other but for its ``kind``; it has no tokens, and its cost was
reckoned when it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from omnigate.control.dashboard.causes import BAD, GOOD, WARN, Cause
from omnigate.control.dashboard.price_lines import Reckoning
from omnigate.control.dashboard.request_rows import cost_of, number
from omnigate.money import usd

KIND: Final = "media"

_READ_JOB: Final = "The job itself says more, as long as it is kept."

#: What became of an attempt; the codes of a job's errors among them.
ATTEMPTS: Final[Mapping[str, Cause]] = {
    "ok": Cause("delivered", "The provider delivered.", kind=GOOD),
    "canceled": Cause("canceled", "The client, or an operator, canceled the job.", kind=WARN),
    "rate_limited": Cause(
        "429 from the provider",
        "The provider's rate limit was used up, and it took nothing in.",
        "Ask the provider for a higher limit, lower max_running_per_provider of [media], or give "
        "the route another target.",
    ),
    "provider_failed": Cause(
        "failed at the provider",
        "The provider refused the request, could not be reached, or ended the work as failed.",
        "Its message says why: often the input, the model's name or the provider's credential.",
    ),
    "provider_timeout": Cause(
        "no result in time",
        "The provider had no result within the route's timeout_s, or did not answer.",
        "Allow more with timeout_s of the media route, or put a faster target first.",
    ),
    "provider_bad_answer": Cause(
        "not an answer",
        "The provider's answer is not what its interface says.",
        "Check adapter and base_url of the target.",
    ),
    "output_refused": Cause(
        "output refused",
        "The file lies where the gateway does not go: at an address or a URL that is not allowed.",
        "If it is on a network of your own, name that in [outbound] allow.",
    ),
    "output_unavailable": Cause(
        "output not to be had",
        "The provider said that it was done, and its file could not be fetched.",
        "Look whether the control plane reaches the provider's file host, and at its status page.",
    ),
    "output_too_large": Cause(
        "output too large",
        "There were more files, or larger ones, than [media] allows.",
        "Allow more with max_output_bytes, max_job_output_bytes or max_outputs_per_job.",
    ),
    "storage_failed": Cause(
        "could not be stored",
        "The provider delivered, and the gateway's own storage did not take it.",
        "See to the media folder, or the bucket; the log of the control plane says more.",
    ),
}


@attrs.frozen
class Made:
    """What a job is billed by.

    :ivar seconds: of media, as a decimal number.
    """

    outputs: int
    seconds: str
    characters: int


def is_media(event: Mapping[str, Any]) -> bool:
    """Whether an event is that of a media job."""
    return event.get("kind") == KIND


def made_by(event: Mapping[str, Any]) -> Made:
    """Return what a job is billed by."""
    seconds = f"{number(event, 'media_ms') / 1000:.3f}".rstrip("0").rstrip(".")
    return Made(number(event, "outputs"), seconds, number(event, "characters"))


def attempt_cause(outcome: str) -> Cause:
    """Return why an attempt ended."""
    return ATTEMPTS.get(outcome) or Cause(
        outcome.replace("_", " "), "A later version knows this outcome."
    )


def job_cause(event: Mapping[str, Any], failed: int) -> Cause:
    """Return what came of a job.

    :param failed: how many of its attempts came to nothing.
    """
    status, cost = number(event, "status"), cost_of(event)
    if event.get("cached") is True:
        return Cause(
            "shared",
            "An identical job had been done before, so its files were taken: no provider was "
            "asked, and nothing was spent.",
            kind=GOOD,
        )
    paid = " The provider is paid for its work all the same." if cost else ""
    if status == 499:
        return Cause("canceled", f"The client canceled the job.{paid}", kind=WARN)
    if status >= 400:
        meaning = "The attempts below say why." if failed else "It could not be run."
        return Cause("the job failed", meaning + paid, _READ_JOB, BAD)
    if failed:
        tries = "one attempt" if failed == 1 else f"{failed} attempts"
        return Cause("delivered", f"A provider delivered, after {tries} that failed.", kind=WARN)
    return Cause("delivered", "The provider delivered.", kind=GOOD)


def reckoning_of(event: Mapping[str, Any]) -> Reckoning:
    """Return what a job cost, which is not reckoned anew: its factors were its input's."""
    recorded = usd(cost_of(event))
    remark = (
        "Reckoned when the job ended, by the price that its target had when it was submitted; see "
        "docs/jobs.md. If it is $0 and should not be, give the target a price."
    )
    return Reckoning((), usd(0), recorded, "", remark, False)
