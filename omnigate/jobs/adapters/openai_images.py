"""OpenAI's images, and other servers with the same interface: one call, and the images in it.

https://platform.openai.com/docs/api-reference/images/create
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from omnigate.jobs import media_types
from omnigate.jobs.adapters import asking, fields, inline, judging, sources
from omnigate.jobs.adapters.base import (
    Adapter,
    Done,
    Failed,
    InputFault,
    Source,
    Steps,
    SubmitOutcome,
    Task,
)
from omnigate.jobs.adapters.reading import few, member, text_at
from omnigate.jobs.job import Billable
from omnigate.outbound.messages import Answer, Cap

#: A good image takes minutes, and the head of the answer comes with it.
HEAD_SECONDS: Final = 300.0

#: The account is at its end, which waiting does not mend.
QUOTA_CODES: Final = frozenset(
    ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
)

#: With these the answer is a stream of events.
REFUSED: Final = ("stream", "partial_images")


class OpenaiImages(Adapter):
    """The input goes out as it is, with the target's ``model``."""

    name: ClassVar[str] = "openai_images"
    default_base_url: ClassVar[str] = "https://api.openai.com/v1"

    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Refuse an input without a prompt, and one that asks for a stream.

        :raises InputFault: see above.
        """
        for field in REFUSED:
            if field in input:
                raise InputFault(field, "is not offered for jobs; leave it out")
        prompt = input.get("prompt")
        if not isinstance(prompt, str) or not prompt:
            raise InputFault("prompt", "must be a text, and not an empty one")

    def billable(self, task: Task) -> Billable:
        """Return the characters of the prompt, and what else a server may take of an input."""
        prompt = task.input.get("prompt")
        asked = asking.billable_input(task.input)
        characters = len(prompt) if isinstance(prompt, str) else 0
        return Billable(characters=characters, milliseconds=asked.milliseconds)

    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have the images made, and wait for them."""
        fault = fields.fault_of(self, task)
        if fault is not None:
            return fault
        answer = yield asking.post_json(
            f"{task.base_url}/images/generations",
            asking.bearer(task.credential),
            {**task.input, "model": task.model},
            cap=Cap.INLINE,
            head_seconds=max(HEAD_SECONDS, task.timeout_s),
        )
        body = judging.read_submit(answer, task.credential, QUOTA_CODES)
        if isinstance(body, Failed):
            return body
        found = _sources(task, body, answer)
        return Done(found) if found else judging.bad_answer("the answer holds no image")


def _sources(task: Task, body: Mapping[str, Any], answer: Answer) -> list[Source]:
    named = _type_named(task, body)
    found: list[Source | None] = []
    for entry in few(member(body, "data"), sources.MAX_SOURCES):
        text = text_at(entry, "b64_json")
        if text:
            found.append(inline.checked(inline.media(text, answer, named)))
        else:
            found.append(sources.source(text_at(entry, "url"), answer, task.base_url, named))
    return [made for made in found if made is not None]


def _type_named(task: Task, body: Mapping[str, Any]) -> str:
    """Return the type that the answer says, else the request; empty where neither does."""
    for told in (body, task.input):
        name = text_at(told, "output_format").lower()
        if name:
            known = f"image/{name}" in media_types.EXTENSIONS
            return f"image/{name}" if known else media_types.OCTETS
    return ""
