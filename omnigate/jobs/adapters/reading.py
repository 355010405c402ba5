"""Reading what a provider answers: JSON within bounds, and what stands in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from omnigate.outbound.messages import Answer
from omnigate.text import valid_text
from omnigate.wire.json_values import BoundsError, check_bounds, decode_values

#: Up to here an answer that the strict reader refuses is read again by a lenient one.
MAX_LENIENT_BYTES: Final = 1_048_576

# Ids seen are of letters, digits, "-" and "_".
_ID = re.compile(r"[A-Za-z0-9_.:~=+-]{1,256}")


class BadAnswer(Exception):  # noqa: N818
    """An answer that is not what the provider documents; the message says what is wrong."""


def read_object(answer: Answer) -> dict[str, Any]:
    """Return the JSON object that an answer's body is.

    :raises BadAnswer: it is none, or one beyond the bounds of :mod:`omnigate.wire.json_values`.
        Real answers stay below a tenth of these; the long part of one, a log or an image, is one
        string.
    """
    body = answer.body
    try:
        check_bounds(body)
        value = decode_values(body)
    except BoundsError as fault:
        raise BadAnswer(f"the answer {fault}") from None
    except RecursionError:
        raise BadAnswer("the answer nests too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _read_leniently(body)
    if not isinstance(value, dict):
        raise BadAnswer("the answer is not a JSON object")
    return value


def _read_leniently(body: bytes) -> object:
    """Read what Python's own writer makes of odd values: ``NaN``, and halves of characters."""
    if len(body) > MAX_LENIENT_BYTES:
        raise BadAnswer("the answer is not valid JSON")
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadAnswer("the answer is not valid JSON") from None


def member(value: object, *path: str) -> Any:
    """Return what stands at a path of nested objects; None where there is no such thing."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def few(value: object, most: int) -> list[Any]:
    """Return the first items of a list, ``most`` of them; none of anything else."""
    return value[:most] if isinstance(value, list) else []


def text_at(value: object, *path: str) -> str:
    """Return the text that stands at a path, as valid Unicode; empty where there is none."""
    found = member(value, *path)
    return valid_text(found) if isinstance(found, str) else ""


def id_at(value: object, *path: str) -> str:
    """Return a provider's id of its work, which can be one segment of a path.

    :raises BadAnswer: there is none, or one that would lead elsewhere.
    """
    found = text_at(value, *path)
    if not found:
        raise BadAnswer(f"the answer has no {'.'.join(path)}")
    if _ID.fullmatch(found) is None or not found.strip("."):
        raise BadAnswer(f"the answer's {'.'.join(path)} is no id")
    return found
