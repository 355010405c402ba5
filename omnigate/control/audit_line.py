"""What one line of the audit log says: who did what to what, and what became of it.

A line is JSON on one line, with these members in this order::

    {"ts":"2026-11-30T09:00:00.000Z","seq":17,"action":"key.create","actor":"admin-token",
     "address":"10.0.0.7","target":"app","outcome":"done","request_id":"01J…","detail":{"rpm":600}}

Every text is one line of valid UTF-8 with a bound, whatever an operator or a client sent. Secrets
and hashes of keys never stand in it: whoever makes an entry says names and figures only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import attrs
import msgspec

from omnigate.periods import rfc3339
from omnigate.text import one_line

DONE: Final = "done"
FAILED: Final = "failed"

#: Characters of an action, an actor, an address, a target and a request id: names have 64, and an
#: actor is a name with its kind in front.
NAME_CHARS: Final = 128

#: Characters of a text in ``detail``: a sentence.
DETAIL_CHARS: Final = 300

#: Members of ``detail``, and values of a list in it: a key has fewer members, and of a list the
#: first ones tell what it is about.
DETAIL_MEMBERS: Final = 24
DETAIL_VALUES: Final = 20

#: A line with its end. Ordinary ones are 300 bytes; ``detail`` gives up members for it.
MAX_LINE_BYTES: Final = 8 * 1024

#: No line of ours comes to this number, which every reader of JSON keeps exactly.
MAX_SEQ: Final = 10**15 - 1

#: What a line says in the place of the members of ``detail`` that it had no room for.
CUT: Final = "cut"

#: Whole numbers that every reader of JSON keeps exactly; larger ones are written as text.
_EXACT: Final = 2**53


@attrs.frozen
class AuditEntry:
    """What is to be written down.

    :ivar action: what was done, such as ``"key.create"``.
    :ivar actor: who did it: ``"admin-token"``, ``"admin-key:NAME"``, ``"signal"``, ``"file"``.
    :ivar target: what it was done to: the name of a key, for example.
    :ivar outcome: ``"done"``, or ``"failed"`` for what did not come about.
    :ivar address: where the request came from.
    :ivar detail: more of it: texts, numbers, switches, and lists of those.
    """

    action: str
    actor: str
    target: str = ""
    outcome: str = DONE
    address: str = ""
    request_id: str = ""
    detail: Mapping[str, object] = attrs.Factory(dict)


class AuditLine(msgspec.Struct, frozen=True):
    """One line as it stands in the file, its members in the order of the file.

    :ivar ts: when, as RFC 3339 in UTC with milliseconds.
    :ivar seq: its number; the one after has the next, whatever happens to clocks and files.
    """

    ts: str
    seq: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    action: str
    actor: str
    address: str
    target: str
    outcome: str
    request_id: str
    detail: dict[str, Any]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AuditLine)


def line_of(entry: AuditEntry, seq: int, now_ms: int) -> AuditLine:
    """Return the line for an entry, every text in it safe and within its bound."""
    line = AuditLine(
        ts=rfc3339(now_ms),
        seq=seq,
        action=one_line(entry.action, NAME_CHARS),
        actor=one_line(entry.actor, NAME_CHARS),
        address=one_line(entry.address, NAME_CHARS),
        target=one_line(entry.target, NAME_CHARS),
        outcome=one_line(entry.outcome, NAME_CHARS),
        request_id=one_line(entry.request_id, NAME_CHARS),
        detail=_detail_of(entry.detail),
    )
    while len(_encoder.encode(line)) >= MAX_LINE_BYTES:
        kept = [name for name in line.detail if name != CUT][:-1]
        detail = {name: line.detail[name] for name in kept} | {CUT: True}
        line = msgspec.structs.replace(line, detail=detail)
    return line


def encode_line(line: AuditLine) -> bytes:
    """Return a line as it is written, with its end."""
    return _encoder.encode(line) + b"\n"


def decode_line(data: bytes) -> AuditLine | None:
    """Return what stands in a line of the file, without its end; None where that is no entry."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _detail_of(detail: Mapping[str, object]) -> dict[str, Any]:
    members = list(detail.items())
    safe = {one_line(name, NAME_CHARS): _safe(value) for name, value in members[:DETAIL_MEMBERS]}
    if len(members) > DETAIL_MEMBERS:
        safe[CUT] = True
    return safe


def _safe(value: object) -> Any:
    """Return a value that JSON can hold on one line, and within its bound."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -_EXACT <= value <= _EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        values = [_safe_text(one) for one in value[:DETAIL_VALUES]]
        more = len(value) - DETAIL_VALUES
        return values if more <= 0 else [*values, f"and {more} more"]
    return _safe_text(value)


def _safe_text(value: object) -> str:
    return one_line(value if isinstance(value, str | bytes) else str(value), DETAIL_CHARS)
