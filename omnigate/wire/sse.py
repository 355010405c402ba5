"""Event streams (``text/event-stream``): cut the bytes into events and read them.

The grammar is the one of the HTML standard, 9.2: lines end with LF, CR or CR LF,
and a blank line ends an event. However the network cuts the bytes, the same
events come out.
"""

from __future__ import annotations

import re

import msgspec

_LINE_ENDS = (b"", b"\n", b"\r")
_BOM = b"\xef\xbb\xbf"
# A line end followed by a line end. ``\r\n`` is one, never two.
_blank_line = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)").search
_line_ends = re.compile(rb"[\r\n]*+").match
# How many bytes of a cut event can be the beginning of its blank line.
_TAIL_BYTES = 3
_DATA_FIELD = b"data: "


class EventSplitter(msgspec.Struct, eq=False, gc=False):
    """Cuts a stream into raw events, each with its blank line.

    The bytes of an event are those of the stream. Dropped are a byte order mark
    at the very start and blank lines that end no event. A blank line that ends
    in a lone CR is returned as CR LF: at the end of a read nobody can tell
    whether the LF is still on its way, and an event must not wait for that.

    What is held of an unfinished event has no bound here; :meth:`pass_on` takes it out.

    The collector need not look at it: it holds no containers, and there is one for each stream.

    :ivar passing: the unfinished event has been taken out: its rest comes alone.
    """

    _held: bytearray = msgspec.field(default_factory=bytearray)  # the unfinished event
    _tail: bytes = b""  # the last bytes of one that was taken out
    _started: bool = False
    _mark: bytes = b""  # the beginning of what may be a byte order mark
    passing: bool = False

    @property
    def pending(self) -> bytes:
        """The bytes of the unfinished event."""
        return bytes(self._held)

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished event are held."""
        return len(self._held)

    def pass_on(self) -> bytes:
        """Take out what is held of the unfinished event.

        From now on a feed that returns nothing was a part of it as a whole, and the
        first that is returned is its rest.
        """
        held = bytes(self._held)
        self._held.clear()
        self._tail = held[-_TAIL_BYTES:]
        self.passing = True
        return held

    def feed(self, data: bytes) -> list[bytes]:
        """Take one read and return the events that it completes."""
        if not self._started:
            data = self._strip_bom(data)
        if self._held or self.passing:
            return self._continue(data)
        return self._split(data)

    def _continue(self, data: bytes) -> list[bytes]:
        """Take a read into the unfinished event; only its seam is searched for an end."""
        held = self._held
        tail = self._tail if self.passing else bytes(held[-_TAIL_BYTES:])
        end = _first_end(tail + data) - len(tail)
        if end <= 0:
            if self.passing:
                self._tail = (tail + data)[-_TAIL_BYTES:]
            else:
                held += data
            return []
        self.passing = False
        held += data[:end]
        event = bytes(held)
        held.clear()
        if event[-1] == 13:
            event += b"\n"
        if end == len(data):
            return [event]
        return [event, *self._split(data[end:])]

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
        if first == len(data) - len(blank) and first > 0:
            return [data]
        if blank + blank[len(blank) // 2 :] in data:
            return self._split_any(data)
        events = [part + blank for part in data.split(blank)]
        self._held += events.pop()[: -len(blank)]
        return events

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
        self._held += data[pos:]
        return events

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
    """Return an event's data, its lines joined with LF; None when it has no data line."""
    if event.find(b"\r") < 0:
        # One data line, alone or behind an ``event`` line, as every provider writes.
        start = event.find(b"\n") + 1 if event.startswith(b"event:") else 0
        if event.find(b"\n", start) == len(event) - 2:
            if event.startswith(b"data: ", start):
                return event[start + 6 : -2]
            if event.startswith(b"data:", start):
                return event[start + 5 : -2]
    if event.find(b"data") < 0:
        return None  # without taking it apart
    lines = []
    for line in event.splitlines():
        if line.startswith(b"data:"):
            lines.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            lines.append(b"")
    return b"\n".join(lines) if lines else None


class DataLines:
    """Takes the data out of one event as it passes, cut anywhere: as :func:`event_data` of it all.

    :ivar any: whether a data line has begun.
    """

    __slots__ = ("_after_cr", "_begin", "_in_data", "any")

    def __init__(self) -> None:
        self.any = False
        self._begin: bytes | None = b""  # of a line, while its field is not known
        self._in_data = False  # inside the value of a data line
        self._after_cr = False

    def feed(self, text: bytes) -> bytes:
        """Return the data in the next part of the event."""
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix(b"\n")
        if text.find(b"\r") >= 0:
            self._after_cr = text.endswith(b"\r")
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = text.split(b"\n")
        data = [self._go_on(first, not lines)]
        for line in lines[:-1]:
            if line.startswith(b"data:"):
                data += (self._join(), line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"data":
                data.append(self._join())
        if lines:
            self._begin = b""
            data.append(self._go_on(lines[-1], True))
        return b"".join(data)

    def _go_on(self, text: bytes, cut: bool) -> bytes:
        """Go on with a line.

        :param cut: whether more of it is to come.
        """
        if self._begin is None:
            return text if self._in_data else b""
        line = self._begin + text
        if cut and _DATA_FIELD.startswith(line):
            self._begin = line
            return b""
        self._begin = None
        self._in_data = line.startswith(b"data:") or line == b"data"
        if not self._in_data:
            return b""
        return self._join() + line[6 if line.startswith(_DATA_FIELD) else 5 :]

    def _join(self) -> bytes:
        """Return what stands before a further line of data."""
        joint = b"\n" if self.any else b""
        self.any = True
        return joint


def is_comment(event: bytes) -> bool:
    """Tell whether an event is made of comment lines only (a keep-alive)."""
    if event[:1] != b":":
        return False
    if event.find(b"\r") < 0 and event.find(b"\n") == len(event) - 2:
        return True
    return all(line[:1] in (b":", b"") for line in event.splitlines())
