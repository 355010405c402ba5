"""A talk with an adapter, answer by answer, and answers as providers give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from omnigate.jobs.adapters.base import Adapter, InputFault, Steps, Task
from omnigate.outbound.messages import Answer, KeptMedia, Request

T = TypeVar("T")

CREDENTIAL = "secret-0123456789"


def talk(steps: Steps[T], *answers: Answer) -> tuple[list[Request], T]:
    """Answer an adapter's requests in their order.

    :returns: what it asked, and what it came to.
    """
    asked: list[Request] = []
    left = list(answers)
    try:
        request = next(steps)
        while True:
            asked.append(request)
            request = steps.send(left.pop(0))
    except StopIteration as stop:
        assert not left, f"nobody asked for {left}"
        outcome: T = stop.value
        return asked, outcome


def told(body: object, status: int = 200, **headers: str) -> Answer:
    """Return an answer in JSON."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, given, json.dumps(body).encode())


def task_of(adapter: Adapter, model: str, input: Mapping[str, Any], **more: Any) -> Task:
    """Return a task at the provider's own address."""
    return Task(
        **{
            "job_id": "job_1",
            "target": 0,
            "base_url": adapter.default_base_url,
            "model": model,
            "input": input,
            "credential": CREDENTIAL,
            **more,
        }
    )


def fault_in(adapter: Adapter, model: str, input: Mapping[str, Any]) -> InputFault | None:
    """Return what an adapter finds wrong with an input."""
    try:
        adapter.check(model, input)
    except InputFault as fault:
        return fault
    return None


def kept(head: bytes, size: int, prefix: str = "") -> KeptMedia:
    """Return media that lie in a file."""
    return KeptMedia("/nowhere/0", size, "0" * 64, head, prefix)
