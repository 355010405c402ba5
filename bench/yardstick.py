"""A fixed piece of work to measure other work by: what it takes tells how fast the machine is now.

Machines drift by 15 % within minutes and differ by more, so a time alone cannot be compared with
one of last week. The work here is of the gateway's own kind (a head matched and split, a dict
filled, records made and passed from method to method, bytes found, sliced and joined), uses the
interpreter alone, and never changes: how many times as long something else takes can be compared.

Whoever changes a line of :func:`yard` changes the measure: raise :data:`VERSION`, and all kept
figures are void.
"""

from __future__ import annotations

import re
from typing import Final

#: Of the work below; figures by another one mean nothing.
VERSION: Final = 1

_HEAD: Final = (
    b"POST /v1/chat/completions HTTP/1.1\r\n"
    b"Host: gateway.example:8080\r\nAccept: application/json\r\n"
    b"Accept-Encoding: identity\r\nConnection: keep-alive\r\n"
    b"Content-Type: application/json\r\nUser-Agent: Yardstick/1.0\r\n"
    b"X-Measure-Language: python\r\nX-Measure-Release: 1.2.3\r\n"
    b"Authorization: Bearer yardstick-0123456789abcdef\r\nContent-Length: 64\r\n\r\n"
)
_BODY: Final = b'{"model":"yardstick","messages":[{"role":"user","content":"one"}]}'
_EVENTS: Final = b"".join(b'data: {"index":%d,"text":"word-%04d"}\n\n' % (i, i) for i in range(12))

_head_lines = re.compile(
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[ \t]*[\x21-\x7e \t]*\r\n)+\r\n"
).fullmatch
_member = re.compile(rb'"([a-z]+)":"([^"\\]*)"')


class _Head:
    """A request's head, as far as the work asks for it."""

    __slots__ = ("fields", "length", "method", "path")

    def __init__(self, method: bytes, path: bytes, fields: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
        self.fields = fields
        self.length = int(fields[b"content-length"])

    def lines(self) -> bytes:
        """The lines that are written on."""
        kept = [
            b"%b: %b\r\n" % (name, value)
            for name, value in self.fields.items()
            if name != b"authorization"
        ]
        return b"".join(kept)


class _Account:
    """What is counted of one piece of work."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.counts: dict[str, int] = {}
        self.done = False

    def piece(self, data: bytes) -> None:
        """Take a piece in."""
        self.pieces.append(data)
        self.size += len(data)
        self._count("piece")

    def end(self) -> bytes:
        """Return the pieces as one."""
        self.done = True
        self._count("end")
        return b"".join(self.pieces)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def _read_head(data: bytes) -> _Head:
    end = data.find(b"\r\n") + 2
    method, path, _ = data[: end - 2].split(b" ")
    if _head_lines(data, end) is None:
        raise AssertionError("the head of the yardstick is sound")
    fields = {}
    for line in data[end:-4].split(b"\r\n"):
        name, _, value = line.partition(b":")
        fields[name.lower()] = value.strip()
    return _Head(method, path, fields)


def _pass_events(data: bytes, account: _Account) -> int:
    at = 0
    seen = 0
    while (end := data.find(b"\n\n", at)) >= 0:
        event = data[at : end + 2]
        at = end + 2
        found = _member.search(event)
        if found is not None and found[2].startswith(b"word"):
            seen += 1
        account.piece(b"%x\r\n%b\r\n" % (len(event), event))
    return seen


def yard(times: int) -> int:
    """Do the work so many times over; returns what came of it, which is always the same."""
    total = 0
    for _ in range(times):
        head = _read_head(_HEAD)
        account = _Account()
        account.piece(head.lines())
        model = _member.search(_BODY)
        if model is not None:
            account.piece(_BODY[: model.start(2)] + b"measured" + _BODY[model.end(2) :])
        seen = _pass_events(_EVENTS, account)
        total += len(account.end()) + seen + head.length + account.counts["piece"]
    return total
