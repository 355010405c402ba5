"""Replicate: predictions of public models, of pinned versions and of one's own deployments.

The input goes out as it is. https://replicate.com/docs/reference/http; a prediction's files are
kept there for an hour.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from omnigate.jobs.adapters import asking, fields, judging, sources
from omnigate.jobs.adapters.base import (
    Accepted,
    Adapter,
    CancelOutcome,
    Done,
    Failed,
    Handle,
    InputFault,
    NotCanceled,
    PollOutcome,
    Source,
    Steps,
    Stopped,
    SubmitOutcome,
    Task,
    Transient,
    Unclear,
)
from omnigate.jobs.adapters.reading import BadAnswer, id_at, text_at
from omnigate.jobs.job import PROVIDER_BAD_ANSWER, Billable, JobError
from omnigate.outbound.messages import Answer, Request

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?"
_HASH: Final = r"[0-9a-f]{64}"
_MODEL = re.compile(f"(?!deployments/){_NAME}/{_NAME}")
_VERSION = re.compile(f"(?:{_NAME}/{_NAME}:)?({_HASH})")
_DEPLOYMENT = re.compile(f"deployments/({_NAME}/{_NAME})")

#: How deep URLs are looked for in ``output``.
OUTPUT_DEPTH: Final = 4
#: What a run may take beyond the route's time, before the provider stops it by itself.
GRACE_SECONDS: Final = 60

_STOPPED: Final = frozenset(("canceled", "aborted"))
_ENDED: Final = frozenset(("succeeded", "failed"))


class Replicate(Adapter):
    """``model`` is ``owner/name``, ``owner/name:version``, a version, or ``deployments/…``."""

    name: ClassVar[str] = "replicate"
    default_base_url: ClassVar[str] = "https://api.replicate.com"
    can_cancel: ClassVar[bool] = True

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse a target's model that no path can be made of; the input is the model's to judge.

        :raises InputFault: see above.
        """
        if _path(model) is None:
            raise InputFault(
                "",
                "a target of replicate needs a model like owner/name, owner/name:version or "
                "deployments/owner/name",
            )

    def billable(self, task: Task) -> Billable:
        """Return what the input asks for, in whichever of the usual fields."""
        return asking.billable_input(task.input)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Create a prediction; it may be done at once."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        body: dict[str, Any] = {"input": task.input}
        version = _VERSION.fullmatch(task.model)
        if version is not None:
            body["version"] = version[1]
        # Stops a run there that was lost sight of here.
        limit = ("cancel-after", f"{task.timeout_s + GRACE_SECONDS}s")
        answer = yield asking.post_json(
            f"{task.base_url}/v1/{_path(task.model)}",
            (*asking.bearer(task.credential), limit),
            body,
        )
        prediction = judging.read_submit(answer, task.credential)
        if isinstance(prediction, Failed):
            return prediction
        try:
            handle = Handle(id_at(prediction, "id"))
        except BadAnswer as odd:
            return judging.bad_answer(str(odd))
        outcome = _outcome(task, handle, prediction, answer)
        if isinstance(outcome, Stopped):
            outcome = judging.failed("the prediction was canceled at the provider", task.credential)
        if isinstance(outcome, Failed):
            return attrs.evolve(outcome, provider_job_id=handle.provider_job_id)
        return outcome if isinstance(outcome, Done) else Accepted(handle)

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask for the prediction; its outputs stand in it."""
        answer = yield asking.get(_url(task, handle), asking.bearer(task.credential))
        prediction = judging.read_poll(answer, task.credential)
        if isinstance(prediction, Failed | Transient):
            return prediction
        return _outcome(task, handle, prediction, answer)

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Ask for a stop; the answer is the prediction as it then is."""
        answer = yield Request(
            "POST", f"{_url(task, handle)}/cancel", asking.bearer(task.credential)
        )
        prediction = judging.read_poll(answer, task.credential)
        if isinstance(prediction, Failed | Transient):
            return Unclear()
        status = text_at(prediction, "status")
        if status in _STOPPED:
            return Stopped()
        return NotCanceled() if status in _ENDED else Unclear()


def _path(model: str) -> str | None:
    """Return the path below ``/v1`` that predictions of a model are created at."""
    if _VERSION.fullmatch(model):
        return "predictions"
    deployment = _DEPLOYMENT.fullmatch(model)
    if deployment is not None:
        return f"deployments/{deployment[1]}/predictions"
    return f"models/{model}/predictions" if _MODEL.fullmatch(model) else None


def _url(task: Task, handle: Handle) -> str:
    # The answer's own ``urls`` are the same, or of another host.
    return f"{task.base_url}/v1/predictions/{asking.segment(handle.provider_job_id)}"


def _outcome(
    task: Task, handle: Handle, prediction: Mapping[str, Any], answer: Answer
) -> PollOutcome:
    status = text_at(prediction, "status")
    if status == "succeeded":
        found = _sources(task, prediction, answer)
        if not found:
            return judging.bad_answer("the prediction succeeded without a file")
        return Done(found, provider_job_id=handle.provider_job_id)
    if status == "failed":
        return judging.failed(judging.told_error(prediction), task.credential)
    if status == "aborted":
        told = judging.told_error(prediction)
        return judging.failed(told or "the run was not begun in time", task.credential)
    if status == "canceled":
        return Stopped()
    if not status:
        return Transient(JobError(PROVIDER_BAD_ANSWER, "the answer has no status"))
    return judging.running(answer)


def _sources(task: Task, prediction: Mapping[str, Any], answer: Answer) -> list[Source]:
    strings = sources.strings_in(prediction.get("output"), OUTPUT_DEPTH)
    found = (sources.source(text, answer, task.base_url) for text in strings)
    return list(itertools.islice(filter(None, found), sources.MAX_SOURCES))
