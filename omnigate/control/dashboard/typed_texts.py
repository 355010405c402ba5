"""What is typed into fields, as the admin API's JSON would say it, and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omnigate.control.key_members import BadMembersError
from omnigate.errors import GatewayError
from omnigate.periods import rfc3339

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?P<seconds>:\d\d(?:\.\d{1,9})?)?", re.ASCII)
_BETWEEN = re.compile(r"[\s,]+")


def entries(text: str) -> list[str] | None:
    """Return the entries of a list that are typed one a line, or with commas; ``None`` for none."""
    return [entry for entry in _BETWEEN.split(text) if entry] or None


def is_local(text: str) -> bool:
    """Whether a browser's field for a date and time can show this text."""
    return not text or _LOCAL.fullmatch(text) is not None


def instant(text: str) -> str | None:
    """Return a time as RFC 3339 writes it, where it is one that a browser has written.

    It is meant in UTC. Any other text comes back as it is, for others to judge; nothing at all is
    ``None``.
    """
    found = _LOCAL.fullmatch(text)
    if found is None:
        return text or None
    return f"{text}{'' if found['seconds'] else ':00'}Z"


def local(ms: int) -> str:
    """Return an instant as a browser's field shows it, no finer than it has to be."""
    text = rfc3339(ms).removesuffix("Z").removesuffix(".000")
    return text.removesuffix(":00") if len(text) == len("2027-01-31T00:00:00") else text


def step(text: str) -> str:
    """Return how fine a time the field takes, in seconds: as fine as the one that is in it."""
    if "." in text:
        return "0.001"
    return "1" if text.count(":") > 1 else "60"


def changed_members(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are others, ``None`` for those that say nothing any more.

    A name cannot be changed, and is not among them.
    """
    return {
        name: now.get(name)
        for name in {**was, **now}
        if name != "name" and was.get(name) != now.get(name)
    }


def faults_by_field(refusal: GatewayError | None) -> dict[str, str]:
    """Return what is wrong, by the field that it is wrong with; the first fault of each."""
    if isinstance(refusal, BadMembersError):
        return dict(reversed(refusal.faults))
    if refusal is not None and refusal.kind.code == "already_exists":
        return {"name": refusal.message}
    return {}
