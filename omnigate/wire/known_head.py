"""A request head that has passed, known again without reading it anew.

A client that keeps its connection sends the same header lines with each request; of those seen,
nearly all change ``content-length`` alone. Such a head is known by comparing bytes, and what was
read of the first holds for it. Nothing is judged less strictly: what is not byte for byte the head
that passed, but for the digits of its one length, is read like any other.
"""

from __future__ import annotations

import re

from omnigate.wire.head import RequestHead
from omnigate.wire.target import Target

#: The largest head kept, and its most header lines: real clients were seen with 1.5 KB and 22.
#: Each connection keeps one, its client's key within, for as long as it lasts.
MAX_KEPT_BYTES = 2048
MAX_KEPT_LINES = 32

_LENGTH = b"\r\ncontent-length:"
_blanks = re.compile(rb"[ \t]*+").match
# As the full reading takes them, and more than the bodies have that are sent often.
_digits = re.compile(rb"0|[1-9][0-9]{0,6}").match


class KnownHead:
    """See the module's docstring.

    Made by :func:`keep_head` only, which knows what may be kept.

    :ivar target: its target.
    :ivar end: where the head ends in the buffer in which :meth:`again` found it last.
    """

    __slots__ = ("_after", "_before", "_head", "_start", "end", "target")

    def __init__(self, before: bytes, after: bytes, head: RequestHead, target: Target) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self._head = head
        self.target = target
        self.end = 0

    def again(self, buffer: bytes) -> RequestHead | None:
        """The head at the front of a buffer, if it is this one again.

        :returns: what a full reading would; ``None`` where it takes one to tell.
        """
        if not buffer.startswith(self._before):
            return None
        digits = _digits(buffer, self._start)
        if digits is None or not buffer.startswith(self._after, digits.end()):
            return None
        self.end = digits.end() + len(self._after)
        head = self._head
        length = int(digits[0])
        if length != head.content_length:
            head = self._head = head.with_length(length)
        return head


def keep_head(block: bytes, head: RequestHead, target: Target) -> KnownHead | None:
    """Keep a head, if what was read of it holds whatever length stands in it.

    :param block: the head with its blank line, as it was read.
    :param head: what was read.
    """
    if (
        head.method != b"POST"
        or len(block) > MAX_KEPT_BYTES
        or len(head.headers) > MAX_KEPT_LINES
        # Whether the client waits to be told to go on depends on the length.
        or b"expect" in head.headers
    ):
        return None
    # A line begins behind each CR LF, a head that passed has one length only, and no name has
    # capitals to us: this is its line.
    start = block.lower().find(_LENGTH)
    if start < 0:
        return None
    start = _blanks(block, start + len(_LENGTH)).end()  # type: ignore[union-attr]
    digits = _digits(block, start)
    if digits is None or int(digits[0]) != head.content_length:
        # It has more digits than are looked for here.
        return None
    return KnownHead(block[:start], block[digits.end() :], head, target)
