"""Events too long to be held: what the meter must know of one, read while it passes.

The last event of a Responses stream may repeat the whole answer, pictures and all. Of such an event
only the few members that tell something are looked for, and at most
:data:`omnigate.dialects.usage.MAX_ODD_USAGE_BYTES` of each are kept, however long it is.

Two things differ from how shorter events are read. The grammar is not checked, so that members of
what is no JSON in the end are believed. And generated text is counted as it is written, an escape
as two to six bytes: the count is what the text has or more, never less.
"""

from __future__ import annotations

import re

from omnigate.dialects.event_shapes import (
    MAX_NAME_BYTES,
    TEXT_MEMBERS,
    OddEvent,
    tells_error,
)
from omnigate.dialects.usage import MAX_ODD_USAGE_BYTES, Usage, load_tree, read_usage
from omnigate.wire.json_members import EscapeEraser, MemberReader, ValueEnd
from omnigate.wire.sse import DataLines

_KEPT = (b"type", b"object", b"usage", b"error")
_WITH_USAGE = (b"response", b"message")
_WITH_TEXT = (b"choices", b"delta", b"content_block")

# A member that holds generated text, or says why it ended, up to the first byte of its string.
_string_begins = re.compile(
    rb'"(?:(finish_reason)|%s)"[ \t\r\n]{0,8}:[ \t\r\n]{0,8}"'
    % "|".join(sorted(TEXT_MEMBERS)).encode()
).search
# The longest of these less one byte: what a cut may leave of one.
_SEAM_BYTES = len('"reasoning_content":"') + 16 - 1


class LongEvent:
    """One event, fed as it passes."""

    __slots__ = ("_holders", "_lines", "_members", "_texts")

    def __init__(self) -> None:
        self._lines = DataLines()
        self._holders = {name: _UsageInside() for name in _WITH_USAGE}
        self._texts = _Texts()
        takers = {name: holder.again for name, holder in self._holders.items()}
        self._members = MemberReader(
            (*_KEPT, *_WITH_USAGE, *_WITH_TEXT),
            MAX_ODD_USAGE_BYTES,
            takers | dict.fromkeys(_WITH_TEXT, self._texts.again),
        )

    def feed(self, text: bytes) -> None:
        """Take the next part of the event, field names and line ends included."""
        data = self._lines.feed(text)
        if data:
            self._members.feed(data)

    def read(self) -> OddEvent | None:
        """Tell what is known of the event, once it has passed.

        Whether it has choices is not looked at, since the event has gone out whatever it is.

        :returns: ``None`` for an event without data.
        """
        if not self._lines.any:
            return None
        values = self._members.values
        usage = values.get(b"usage")
        return OddEvent(
            type=self._name(b"type"),
            object=self._name(b"object"),
            choices=True,
            finish_reason=self._texts.finish_reason,
            usage=None if usage is None else read_usage(usage),
            response_usage=self._holders[b"response"].usage(),
            message_usage=self._holders[b"message"].usage(),
            error=b"error" in self._members.left_out or tells_error(values.get(b"error")),
            text_bytes=self._texts.total,
        )

    def _name(self, member: bytes) -> str:
        name = load_tree(self._members.values.get(member, b""), MAX_NAME_BYTES)
        return name if isinstance(name, str) else ""


class _UsageInside:
    """Takes the value of a member that may have a usage in it."""

    __slots__ = ("_end", "_members")

    def __init__(self) -> None:
        self.again()

    def again(self) -> _UsageInside:
        """Begin with the member's value, and forget an earlier one."""
        self._end = ValueEnd()
        self._members = MemberReader((b"usage",), MAX_ODD_USAGE_BYTES)
        return self

    def feed(self, text: bytes) -> bool:
        """Take more of the value; True when it has ended."""
        end = self._end.feed(text)
        self._members.feed(text if end < 0 else text[:end])
        return end >= 0

    def usage(self) -> Usage | None:
        """Return the usage of the last value."""
        raw = self._members.values.get(b"usage")
        return None if raw is None else read_usage(raw)


class _Texts:
    """Takes values that have generated text in them, or are text.

    :ivar total: the bytes of all the text, as it is written.
    :ivar finish_reason: whether anything in them gives one.
    """

    __slots__ = (
        "_begun",
        "_end",
        "_eraser",
        "_in_reason",
        "_in_text",
        "_seam",
        "finish_reason",
        "total",
    )

    def __init__(self) -> None:
        self.total = 0
        self.finish_reason = False
        self.again()

    def again(self) -> _Texts:
        """Begin with a value."""
        self._end = ValueEnd()
        self._eraser = EscapeEraser()
        self._begun = False
        self._in_text = False
        self._in_reason = False
        self._seam = b""  # what may be the beginning of a member
        return self

    def feed(self, text: bytes) -> bool:
        """Take more of the value; True when it has ended."""
        end = self._end.feed(text)
        text = self._eraser.feed(text if end < 0 else text[:end])
        if not self._begun:
            text = text.lstrip(b" \t\r\n")
            self._begun = bool(text)
            if text[:1] == b'"':
                self._in_text = True
                text = text[1:]
        self._count(self._seam + text)
        return end >= 0

    def _count(self, text: bytes) -> None:
        at = 0
        while True:
            if self._in_text or self._in_reason:
                stop = text.find(b'"', at)
                size = (len(text) if stop < 0 else stop) - at
                if self._in_text:
                    self.total += size
                elif size:
                    self.finish_reason = True
                if stop < 0:
                    self._seam = b""
                    return
                self._in_text = self._in_reason = False
                at = stop + 1
            match = _string_begins(text, at)
            if match is None:
                self._seam = text[max(at, len(text) - _SEAM_BYTES) :]
                return
            self._in_reason = match[1] is not None
            self._in_text = not self._in_reason
            at = match.end()
