"""Requests with one thing changed, for tests of the rules that the fake provider keeps."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from omnigate.testing.provider_heard import BrokenRuleError, Heard
from omnigate.testing.provider_request import SeenRequest

#: Takes a member away.
GONE = object()

#: Where, what to put there, and what the refusal has to say.
Change = tuple[tuple[str | int, ...], object, str]


def changed(fields: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """A copy with another value at a place."""
    copied = copy.deepcopy(fields)
    place: Any = copied
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copied


def wrong(
    hear: Callable[[SeenRequest], Heard],
    post: Callable[[dict[str, Any]], SeenRequest],
    fields: dict[str, Any],
    changes: Iterable[Change],
) -> list[str]:
    """The changes that are not refused in the words they should be."""
    faults = []
    for path, value, words in changes:
        try:
            hear(post(changed(fields, path, value)))
        except BrokenRuleError as error:
            if words not in str(error):
                faults.append(f"{path}: {error} does not say {words!r}")
        else:
            faults.append(f"{path}: {value!r} is taken")
    return faults
