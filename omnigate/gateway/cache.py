"""The response cache: whole answers kept for a route that asks for it, in memory, per key.

What makes two requests the same is their canonical form: the JSON with its members sorted and
its spelling made one, together with the route, the path and the gateway key, so that no tenant
ever sees another's answer and no parameter is left out.  A body that is costly to bring into
that form, that names a member twice, or for which there is no room at the moment, is served and
not cached.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from typing import Any

import attrs

from omnigate.wire.json_tree import TreeError, tree_cost
from omnigate.wire.json_walk import TextCounts

#: What all answers together may take.  A thousand answers of the longest kind, and tens of
#: thousands of usual ones.
MAX_CACHE_BYTES = 64 * 1024 * 1024
#: What an entry takes beside its body: the record, its key and the table's place for it.
ENTRY_BYTES = 512
#: Longest body that is brought into its canonical form, in bytes; 1 MiB of text takes 6 to 10 ms.
#: Less than any other tree may have, since of this one a text is made as well, in the same turn of
#: the reactor as the scan's end.
MAX_CANONICAL_BYTES = 1024 * 1024
#: Most values in it, counted by the marks between them; so many members of one object take 9 ms.
MAX_CANONICAL_MARKS = 10_000

# What it takes beside the tree, from above: the new text, with what is not ASCII spelled out, and
# for each value its spelling as a number, two copies of its object's members, and its pieces.
_TEXT_TIMES = 4
_MARK_BYTES = 320

_NOT_MARKS = bytes(set(range(256)) - set(b",[{"))


class _RepeatedMemberError(Exception):
    """An object names a member twice, so what it says depends on its reader."""


def canonical_bytes(body: bytes, counts: TextCounts | None) -> int | None:
    """How much memory :func:`request_digest` takes, or ``None`` for a body that is not cached.

    :param body: a scanned body, so one JSON object.
    :param counts: what the scan counted, if it did.
    """
    if len(body) > MAX_CANONICAL_BYTES:
        return None
    marks = len(body.translate(None, _NOT_MARKS))
    if marks > MAX_CANONICAL_MARKS:
        return None
    try:
        size = tree_cost(body, counts).size
    except TreeError:
        return None
    return size + _TEXT_TIMES * len(body) + _MARK_BYTES * marks


def request_digest(body: bytes, *beside: str) -> bytes | None:
    """What a request is found by, or ``None`` for one that is not cached.

    :param body: one whose :func:`canonical_bytes` are reserved.
    :param beside: whatever else can change the answer, or says whose it is.
    """
    try:
        tree = json.loads(body, object_pairs_hook=_object, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError, _RepeatedMemberError):
        return None
    text = json.dumps([*beside, tree], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()


#: What no string of a client's can be: it marks the numbers.
_MARK = os.urandom(16).hex()


def _number(text: str) -> list[str]:
    """A number as it is spelled: exact, and without the cost of reading a long one."""
    return [_MARK, text]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedMemberError
    return members


@attrs.frozen
class CachedAnswer:
    """A whole answer of status 200.

    :ivar expires_at: seconds on the clock.
    """

    content_type: bytes
    body: bytes
    expires_at: float


class ResponseCache:
    """Answers by the digest of their requests; the one used longest ago leaves first.

    :ivar bytes: what they take.
    :ivar hits: how often an answer was found.
    :ivar misses: how often none was.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._answers: OrderedDict[bytes, CachedAnswer] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, digest: bytes, now: float) -> CachedAnswer | None:
        """The answer to the same request, if it is fresh."""
        answer = self._answers.get(digest)
        if answer is not None and answer.expires_at <= now:
            self._drop(digest)
            answer = None
        if answer is None:
            self.misses += 1
            return None
        self.hits += 1
        self._answers.move_to_end(digest)
        return answer

    def keep(self, digest: bytes, answer: CachedAnswer) -> None:
        """Keep an answer; others make room for it."""
        if digest in self._answers:
            self._drop(digest)
        self._answers[digest] = answer
        self.bytes += _size(answer)
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, digest: bytes) -> None:
        self.bytes -= _size(self._answers.pop(digest))


def _size(answer: CachedAnswer) -> int:
    return len(answer.body) + len(answer.content_type) + ENTRY_BYTES
