"""Events of a stream to be translated that do not fit their shape.

Compatible servers write contents as lists of parts, counts as text, halves of surrogate pairs. Such
an event is read as a tree, with care and some 20 µs; what cannot be read at all ends the stream,
for a client who is sent the rest of it would take it for the answer.
"""

import json
from typing import Any

from omnigate.dialects.event_shapes import LARGE_EVENT_BYTES
from omnigate.dialects.usage import load_tree
from omnigate.text import valid_text

# As for :mod:`omnigate.dialects.meter`: a read full of short odd events would hold the reactor. A
# stream may have a hundred of them, and any number of those that are as long as real ones.
ODD_EVENT_BYTES = 48
MAX_ODD_LEFT = 100 * ODD_EVENT_BYTES

# What an object that is no event has if it is an error in the shape of some server: FastAPI's and
# Cloudflare's, vLLM's and Anthropic's, and those of proxies that write a message alone.
_ERROR_MEMBERS = ("error", "errors", "detail", "message", "msg")


class BrokenStream(Exception):  # noqa: N818
    """A stream cannot be told on; the message says why, for the client to read."""


class OddEvents:
    """Reads the odd events of one stream."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        """Begin with what a stream may have of short ones."""
        self._left = MAX_ODD_LEFT

    def count(self, data: bytes) -> None:
        """Count an odd event.

        :raises BrokenStream: it is one too many.
        """
        if not self._take(data):
            raise BrokenStream("The upstream sent too many events that do not fit its protocol.")

    def read(self, data: bytes) -> object:
        """Return an event as a tree of Python values, ``None`` for one that says nothing.

        :raises BrokenStream: the event is no JSON, is longer than :data:`LARGE_EVENT_BYTES`, or is
            one too many.
        """
        text = data.strip(b" \t\r\n")
        if not text or text == b"null":
            return None
        self.count(data)
        tree: object = load_tree(data, LARGE_EVENT_BYTES)
        if tree is None:
            raise BrokenStream("The upstream sent an event that is no JSON.")
        return tree

    def tells_failure(self, data: bytes) -> bool:
        """Say whether an object that is no event of its protocol tells of an error.

        Where there were too many odd events it is not looked into: a stream that says nothing else
        is told as cut at its end.

        :param data: a JSON object.
        """
        if not self._take(data):
            return False
        tree = odd_object(load_tree(data, LARGE_EVENT_BYTES))
        if "error" in (tree.get("object"), tree.get("type")):
            return True
        return any(tree.get(name) for name in _ERROR_MEMBERS)

    def _take(self, data: bytes) -> bool:
        """Say whether one more may be looked into, and count it."""
        left = self._left + len(data) - ODD_EVENT_BYTES
        if left < 0:
            return False
        self._left = min(left, MAX_ODD_LEFT)
        return True


def odd_text(value: object) -> str | None:
    """Return a text as valid Unicode; ``None`` for what is none."""
    return valid_text(value) if isinstance(value, str) else None


def odd_index(value: object) -> int | None:
    """Return an index that may be written as a float or as text; ``None`` for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 9:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def odd_object(value: object) -> dict[str, Any]:
    """Return an object; an empty one for what is none."""
    return value if isinstance(value, dict) else {}


def odd_json(value: object) -> str | None:
    """Return JSON text that a server may have written as the value itself.

    :param value: of a tree that :func:`omnigate.dialects.usage.load_tree` made.
    """
    if value is None or isinstance(value, str):
        return odd_text(value)
    try:
        return odd_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    except RecursionError:
        return None
