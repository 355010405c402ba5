"""Event streams (``text/event-stream``): cut the bytes into events and read them.

The grammar is the one of the HTML standard, 9.2: lines end with LF, CR or CR LF,
and a blank line ends an event. However the network cuts the bytes, the same
events come out.
"""

from __future__ import annotations

import re

_LINE_ENDS = (b"", b"\n", b"\r")
_BOM = b"\xef\xbb\xbf"
# A line end followed by a line end. ``\r\n`` is one, never two.
_blank_line = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)").search
_line_ends = re.compile(rb"[\r\n]*+").match
# An event of up to this size is read whatever it holds.
_SHORT_EVENT_BYTES = 64 * 1024
# Lines of a longer one. Providers write one line of data; to take millions of lines apart would
# hold the caller for seconds.
_MAX_EVENT_LINES = 8192
# How many bytes of a cut event can be the beginning of its blank line.
_TAIL_BYTES = 3


class EventTooLarge(Exception):  # noqa: N818
    """One event is larger than its bound; the stream cannot be read on.

    ``events`` holds the complete events that stood before it in the same read.
    """

    def __init__(self, events: list[bytes]) -> None:
        super().__init__("an event of the stream is too large")
        self.events = events


class EventSplitter:
    """Cuts a stream into raw events, each with its blank line.

    The bytes of an event are those of the stream. Dropped are a byte order mark
    at the very start and blank lines that end no event. A blank line that ends
    in a lone CR is returned as CR LF: at the end of a read nobody can tell
    whether the LF is still on its way, and an event must not wait for that.

    :param max_event_bytes: the largest event borne, its blank line included.
    """

    __slots__ = ("_held", "_mark", "_started", "max_event_bytes")

    def __init__(self, max_event_bytes: int) -> None:
        self.max_event_bytes = max_event_bytes
        self._held = bytearray()  # the unfinished event
        self._started = False
        self._mark = b""  # the beginning of what may be a byte order mark

    @property
    def pending(self) -> bytes:
        """The bytes of the unfinished event."""
        return bytes(self._held)

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished event are held."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Take one read and return the events that it completes.

        :raises EventTooLarge: an event is over the bound; call no more.
        """
        if not self._started:
            data = self._strip_bom(data)
        if self._held:
            return self._continue(data)
        return self._split(data)

    def _continue(self, data: bytes) -> list[bytes]:
        """Take a read into the unfinished event; only its seam is searched for an end."""
        held = self._held
        tail = bytes(held[-_TAIL_BYTES:])
        end = _first_end(tail + data) - len(tail)
        if end <= 0:
            self._hold(data)
            return []
        held += data[:end]
        event = bytes(held)
        held.clear()
        if event[-1] == 13:
            event += b"\n"
        self._judge([event])
        if end == len(data):
            return [event]
        try:
            return [event, *self._split(data[end:])]
        except EventTooLarge as error:
            raise EventTooLarge([event, *error.events]) from None

    def _split(self, data: bytes) -> list[bytes]:
        """Cut what begins with an event, or with line ends before one."""
        if data[:1] in _LINE_ENDS:
            return self._split_any(data)
        if data.find(b"\r") < 0:
            blank = b"\n\n"
        elif data.count(b"\r\n") == data.count(b"\r") == data.count(b"\n"):
            blank = b"\r\n\r\n"
        else:
            return self._split_any(data)
        # One kind of line end, as every known provider sends: cutting is one call.
        first = data.find(blank)
        if first == len(data) - len(blank) and first > 0 and len(data) <= self.max_event_bytes:
            return [data]
        if blank + blank[len(blank) // 2 :] in data:
            return self._split_any(data)
        events = [part + blank for part in data.split(blank)]
        last = events.pop()[: -len(blank)]
        if len(data) > self.max_event_bytes:
            self._judge(events)
        return self._keep_rest(events, last)

    def _split_any(self, data: bytes) -> list[bytes]:
        """Cut with any line ends, and blank lines that end nothing."""
        events = []
        pos = _skip_line_ends(data, 0)
        while True:
            match = _blank_line(data, pos)
            if match is None:
                break
            event = data[pos : match.end()]
            events.append(event + b"\n" if event[-1] == 13 else event)
            pos = _skip_line_ends(data, match.end())
        self._judge(events)
        return self._keep_rest(events, data[pos:])

    def _keep_rest(self, events: list[bytes], rest: bytes) -> list[bytes]:
        """Hold what stands behind the last complete event."""
        if len(rest) > self.max_event_bytes:
            raise EventTooLarge(events)
        self._held += rest
        return events

    def _judge(self, events: list[bytes]) -> None:
        """Raise at the first event that is over the bound."""
        for index, event in enumerate(events):
            if len(event) > self.max_event_bytes:
                raise EventTooLarge(events[:index])

    def _hold(self, data: bytes) -> None:
        """Keep the bytes of an unfinished event."""
        self._held += data
        if len(self._held) > self.max_event_bytes:
            raise EventTooLarge([])

    def _strip_bom(self, data: bytes) -> bytes:
        """Drop a byte order mark, which may come in pieces."""
        data = self._mark + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._mark = data
            return b""
        self._started = True
        return data.removeprefix(_BOM)


def _first_end(data: bytes) -> int:
    """Return where the first event ends, behind its blank line; -1 where none does."""
    if data.find(b"\r") < 0:
        found = data.find(b"\n\n")
        return -1 if found < 0 else found + 2
    match = _blank_line(data)
    return -1 if match is None else match.end()


def _skip_line_ends(data: bytes, pos: int) -> int:
    """Return where the first byte stands that is no line end."""
    match = _line_ends(data, pos)
    return match.end() if match else pos


def event_data(event: bytes) -> bytes | None:
    """Return an event's data, its lines joined with LF; None when it has no data line.

    None, too, for a long event of more lines than anybody writes.
    """
    if event.find(b"\r") < 0:
        # One data line, alone or behind an ``event`` line, as every provider writes.
        start = event.find(b"\n") + 1 if event.startswith(b"event:") else 0
        if event.startswith(b"data: ", start) and event.find(b"\n", start) == len(event) - 2:
            return event[start + 6 : -2]
    if len(event) > _SHORT_EVENT_BYTES and _has_many_lines(event):
        return None
    lines = []
    for line in event.splitlines():
        if line.startswith(b"data:"):
            lines.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            lines.append(b"")
    return b"\n".join(lines) if lines else None


def _has_many_lines(event: bytes) -> bool:
    """Tell whether an event has more than so many lines of one kind, without cutting it."""
    for end in (b"\n", b"\r"):
        pos = -1
        for _ in range(_MAX_EVENT_LINES):
            pos = event.find(end, pos + 1)
            if pos < 0:
                break
        else:
            return True
    return False


def is_comment(event: bytes) -> bool:
    """Tell whether an event is made of comment lines only (a keep-alive)."""
    if event[:1] != b":":
        return False
    return all(line[:1] in (b":", b"") for line in event.splitlines())
