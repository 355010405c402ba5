"""The scan of a request body: what the gateway acts on, found without a tree.

A body must be one JSON object in valid UTF-8, within bounds on depth, members
and keys. ``model``, ``stream`` and ``stream_options`` may each stand once at the
top, spelled without escapes: the provider parses the body again, and the two
readings must not differ on the fields the gateway acts on.

Two ways lead there. A body of at most ``ONE_SHOT_BYTES`` is scanned in one go;
most of them are proved harmless by a few searches. A larger one is walked as it
arrives (:class:`BodyScanner`), so that nothing but the strict parse of the whole
is left for its last byte. The grammar is msgspec's to judge: a parse into fields
of ``Raw`` checks every byte and builds nothing.
"""

from __future__ import annotations

import codecs
import re

import attrs
import msgspec

from omnigate.wire.json_walk import PIECE_BYTES, JsonWalk, KeyHit

#: How deep a client's JSON may nest; agents were seen at 13.
MAX_DEPTH = 64
#: Members in one object, and bytes in one key as written.
MAX_MEMBERS = 65536
MAX_KEY_BYTES = 8192
#: The value of ``stream_options``, which is walked apart; in use it has 25 bytes.
MAX_OPTIONS_BYTES = 65536
#: How deep an upstream's JSON may nest.
MAX_ANSWER_DEPTH = 128
#: Bodies up to here are scanned in one go: the worst of this size holds the
#: reactor no longer than one read of a larger one does.
ONE_SHOT_BYTES = 65536
# A walk of less than this is put off until more has come: each walk has a price
# of its own (about 10 µs), and a slow network reads in pieces of 1460 bytes.
_WALK_BYTES = 32768

_NAMES = (b"model", b"stream", b"stream_options")
_ABSENT = msgspec.Raw()
_NESTED = "The body nests too deep; 64 levels are the most."
_MALFORMED = "The body is not valid JSON."
_UNICODE = "The body is not valid UTF-8."
_FAULTS = {
    "depth": ("invalid_json", _NESTED),
    "members": ("invalid_request", "An object in the body has more than 65536 members."),
    "key": ("invalid_request", "A key in the body is longer than 8192 bytes."),
    "syntax": ("invalid_json", _MALFORMED),
}


class ScanError(Exception):
    """A body that is refused with status 400.

    :param code: ``invalid_json`` or ``invalid_request``.
    :param message: one sentence for the client; holds nothing the client sent.
    :param param: the member at fault, when it is one.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


@attrs.define
class BodyScan:
    """What a scan found; offsets count bytes of the body.

    ``model_start`` and ``model_end`` span the string with its quotes;
    ``options_start`` and ``options_end`` span the value of ``stream_options``, -1
    when there is none. ``include_usage`` is what it says, None when it says
    nothing. ``insert_at`` stands behind the opening brace. ``empty_object`` is
    never true of a scan that succeeded, since ``model`` is required.
    """

    model: str
    model_start: int
    model_end: int
    stream: bool
    options_start: int
    options_end: int
    include_usage: bool | None
    insert_at: int
    empty_object: bool


class _Top(msgspec.Struct):
    """The members acted on, as raw text; and the one that is mostly the bulk of a body."""

    model: msgspec.Raw = _ABSENT
    stream: msgspec.Raw = _ABSENT
    stream_options: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT


class _Options(msgspec.Struct):
    """The member of ``stream_options`` acted on."""

    include_usage: msgspec.Raw = _ABSENT


_decode_top = msgspec.json.Decoder(_Top).decode
_decode_options = msgspec.json.Decoder(_Options).decode
_decode_string = msgspec.json.Decoder(str).decode
_ASKS_FOR_USAGE = (b'{"include_usage":true}', b'{"include_usage": true}')
# A value longer than this is set aside before a small body is searched.
_BULK_BYTES = 300
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_gap = re.compile(rb"[ \t\r\n]*+").match
_colon = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+").match


def scan_body(body: bytes) -> BodyScan:
    """Scan a body that is all there.

    :raises ScanError: for a body that is refused.
    """
    if len(body) > ONE_SHOT_BYTES:
        scanner = BodyScanner(len(body))
        scanner.feed(body)
        return scanner.finish(body)
    if not body.isascii() and not _is_utf8(body):
        raise ScanError("invalid_json", _UNICODE)
    top = _parse(body)
    if len(body) <= MAX_KEY_BYTES and len(body.translate(None, _NOT_OPENING)) <= MAX_DEPTH:
        scan = _scan_plain(body, top)
        if scan is not None:
            return scan
    walk = _request_walk()
    walk.feed(body)
    return _settle(body, top, walk)


class BodyScanner:
    """Scans a body while it arrives.

    Feed it every byte in order, then call :meth:`finish` with the whole body.
    ``feed`` never raises: a fault found early is kept for ``finish``, and may be
    looked up in ``fault`` to refuse sooner.

    :param declared_length: the body's declared length, which decides the way.
    """

    __slots__ = ("_cut", "_decoder", "_fed", "_held", "_held_bytes", "_one_shot", "_walk", "fault")

    def __init__(self, declared_length: int) -> None:
        self._one_shot = declared_length <= ONE_SHOT_BYTES
        self._walk = _request_walk()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._cut = False  # a character is cut at the end of what was walked
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._fed = 0
        self.fault: ScanError | None = None

    def feed(self, data: bytes) -> None:
        """Take one read of the body."""
        self._fed += len(data)
        if self._one_shot or self.fault is not None:
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= _WALK_BYTES:
            self._walk_held()

    def finish(self, body: bytes) -> BodyScan:
        """The body is complete: tell what it says.

        :param body: all that was fed, joined.
        :raises ScanError: for a body that is refused.
        """
        if self._one_shot or self._fed != len(body):
            return scan_body(body)
        self._walk_held()
        if self._cut and self.fault is None:
            self.fault = ScanError("invalid_json", _UNICODE)
        if self.fault is not None:
            raise self.fault
        return _settle(body, _parse(body), self._walk)

    def _walk_held(self) -> None:
        """Walk what was put off."""
        text = b"".join(self._held)
        self._held = []
        self._held_bytes = 0
        for start in range(0, len(text), PIECE_BYTES):
            piece = text[start : start + PIECE_BYTES]
            if self._cut or not piece.isascii():
                try:
                    self._decoder.decode(piece)
                except UnicodeDecodeError:
                    self.fault = ScanError("invalid_json", _UNICODE)
                    return
                self._cut = bool(self._decoder.getstate()[0])
            self._walk.feed(piece)
            self.fault = _walk_fault(self._walk)
            if self.fault is not None:
                return


def _request_walk() -> JsonWalk:
    """Make the walk over a client's body."""
    return JsonWalk(_NAMES, MAX_DEPTH, MAX_MEMBERS, MAX_KEY_BYTES, len(_NAMES))


def _walk_fault(walk: JsonWalk) -> ScanError | None:
    """Tell what is wrong with what a walk has seen so far."""
    seen = set()
    for hit in walk.hits:
        name = hit.name.decode("ascii")
        if hit.escaped:
            return ScanError("invalid_request", f"{name} must be spelled without escapes.", name)
        if name in seen:
            return ScanError("invalid_request", f"{name} may be given once only.", name)
        seen.add(name)
    return ScanError(*_FAULTS[walk.fault]) if walk.fault is not None else None


def _is_utf8(body: bytes) -> bool:
    """Tell whether a body is valid UTF-8."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _parse(body: bytes) -> _Top:
    """Check the grammar of the whole body and pick the members acted on."""
    try:
        return _decode_top(body)
    except msgspec.ValidationError:
        raise ScanError("invalid_request", "The body must be one JSON object.") from None
    except RecursionError:
        raise ScanError("invalid_json", _NESTED) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ScanError("invalid_json", _MALFORMED) from None


def _scan_plain(body: bytes, top: _Top) -> BodyScan | None:
    """Settle a small body by searches alone, or return None when they prove nothing.

    The bulk of the body is set aside: the text of one whole value, found at its
    key. What is left must name each member once at most and hold no ``\\u``; a
    name that stands there once, and that the parse found at the top, is the
    member itself.
    """
    rest = body
    cut = len(body)
    bulk = bytes(top.messages)
    if len(bulk) > _BULK_BYTES:
        key = body.find(b'"messages":')
        cut = key + 12 if body[key + 11 : key + 12] == b" " else key + 11
        if key < 0 or not body.startswith(bulk, cut):
            return None
        rest = body[:cut] + body[cut + len(bulk) :]
    if rest.find(b"\\u") >= 0:
        return None
    at = rest.find(b'"model"')
    raw = bytes(top.model)
    if at < 0 or raw[:1] != b'"' or rest.find(b'"model"', at + 7) >= 0:
        return None
    model_start = rest.find(b'"', at + 7)
    if model_start > cut:
        model_start += len(bulk)
    stream = False
    options_start = options_end = -1
    include_usage = None
    at = rest.find(b'"stream')
    if at >= 0:
        at = rest.find(b'"stream"', at)
        value = bytes(top.stream)
        if value and rest.find(b'"stream"', at + 8) >= 0:
            return None
        stream = value == b"true"
        options = bytes(top.stream_options)
        if options:
            at = rest.find(b'"stream_options"')
            if rest.find(b'"stream_options"', at + 16) >= 0:
                return None
            colon = _colon(rest, at + 16)
            options_start = colon.end() if colon else 0
            if options_start > cut:
                options_start += len(bulk)
            options_end = options_start + len(options)
            include_usage = options in _ASKS_FOR_USAGE or _include_usage(options)
    return BodyScan(
        raw[1:-1].decode() if raw.find(b"\\") < 0 else _decode_string(raw),
        model_start,
        model_start + len(raw),
        stream,
        options_start,
        options_end,
        include_usage,
        1 if body[0] == 123 else body.index(b"{") + 1,
        False,
    )


def _settle(body: bytes, top: _Top, walk: JsonWalk) -> BodyScan:
    """Put together what the parse and the walk found."""
    fault = _walk_fault(walk)
    if fault is not None:
        raise fault
    places = {hit.name: hit.value for hit in walk.hits}
    model, model_start = _model(body, top, places.get(b"model", -1))
    options_start = options_end = -1
    include_usage = None
    if b"stream_options" in places:
        options_start = _value_start(body, places[b"stream_options"])
        options_end = options_start + len(bytes(top.stream_options))
        include_usage = _include_usage(body[options_start:options_end])
    opening = _gap(body)
    return BodyScan(
        model,
        model_start,
        model_start + len(bytes(top.model)),
        bytes(top.stream) == b"true",
        options_start,
        options_end,
        include_usage,
        (opening.end() if opening else 0) + 1,
        False,
    )


def _value_start(body: bytes, colon: int) -> int:
    """Return where the value behind a colon starts."""
    blank = _gap(body, colon)
    return blank.end() if blank else colon


def _model(body: bytes, top: _Top, colon: int) -> tuple[str, int]:
    """Read the model and tell where it stands."""
    raw = bytes(top.model)
    if not raw or colon < 0:
        raise ScanError("invalid_request", "model is required.", "model")
    if raw[:1] != b'"':
        raise ScanError("invalid_request", "model must be a string.", "model")
    return _decode_string(raw), _value_start(body, colon)


def _include_usage(options: bytes) -> bool | None:
    """Read ``include_usage`` of a ``stream_options`` value; anything but true is False."""
    span = usage_span(options)
    return None if span is None else options[span[0] : span[1]] == b"true"


def usage_span(options: bytes) -> tuple[int, int] | None:
    """Tell where the value of ``include_usage`` stands in the text of ``stream_options``.

    :returns: start and end; None where it is not given.
    :raises ScanError: it is given twice or with escapes, or the text is too large.
    """
    if options[:1] != b"{":
        return None
    if len(options) > MAX_OPTIONS_BYTES:
        raise ScanError("invalid_request", "stream_options is too large.", "stream_options")
    walk = JsonWalk((b"include_usage",), MAX_DEPTH, MAX_MEMBERS, MAX_KEY_BYTES, 1)
    hits = walk.feed(options)
    if not hits:
        return None
    if len(hits) > 1 or hits[0].escaped:
        raise ScanError(
            "invalid_request",
            "include_usage may be given once in stream_options, and without escapes.",
            "stream_options",
        )
    start = _value_start(options, hits[0].value)
    return start, start + len(bytes(_decode_options(options).include_usage))


# Above so many quotes, seven searches are quicker than one pattern that stops at each.
_MANY_QUOTES = 1_000_000
_PART_TYPES = (
    b'"image"',
    b'"image_url"',
    b'"input_image"',
    b'"document"',
    b'"file"',
    b'"input_file"',
    b'"input_audio"',
)
_part_types = re.compile(rb'"(?:image(?:_url)?|input_(?:image|file|audio)|document|file)"')


def media_parts(body: bytes, start: int = 0, end: int | None = None) -> int:
    """Count the part type strings of images, documents, files and audio in a body.

    For estimates only: an OpenAI-style ``image_url`` part counts twice, since its
    type is also the name of its member. A body of 8 MiB takes 6 ms, a hostile one
    up to 35; a caller that minds can count it window by window.

    :param start: count those that begin at this offset or later,
    :param end: and before this one.
    """
    if end is None:
        end = len(body)
    if body.count(b'"', start, end) < _MANY_QUOTES:
        matches = _part_types.finditer(body, start, min(len(body), end + _LONGEST_TYPE - 1))
        return sum([1 for match in matches if match.start() < end])
    return sum([body.count(word, start, end + len(word) - 1) for word in _PART_TYPES])


_LONGEST_TYPE = max(map(len, _PART_TYPES))


class MemberReader:
    """Reads named members of a top-level object out of a large text as it passes.

    ``values`` holds the raw JSON of each named member seen so far, the last one
    of a name winning. Junk never raises; it sets ``broken``.

    :param names: the members looked for.
    :param max_value_bytes: the largest value kept; a larger one is left out.
    """

    __slots__ = (
        "_begun",
        "_max_value_bytes",
        "_name",
        "_offset",
        "_taken",
        "_walk",
        "broken",
        "values",
    )

    def __init__(self, names: tuple[bytes, ...], max_value_bytes: int) -> None:
        self._walk = JsonWalk(names, MAX_ANSWER_DEPTH, 1 << 40, 1 << 40, 1 << 40)
        self._max_value_bytes = max_value_bytes
        self._begun = False  # something other than blanks has come
        self._offset = 0
        self._name = b""  # of the value being taken
        self._taken: _ValueText | None = None
        self.values: dict[bytes, bytes] = {}
        self.broken = False

    def feed(self, data: bytes) -> None:
        """Take the next part of the text."""
        if self.broken:
            return
        if not self._begun:
            first = data.lstrip(b" \t\r\n")[:1]
            self._begun = first != b""
            if first not in (b"{", b""):
                self.broken = True
                return
        hits = self._walk.feed(data)
        if self._walk.fault is not None:
            self.broken = True
        self._take(data, hits)
        del self._walk.hits[:]
        self._offset += len(data)

    def _take(self, data: bytes, hits: list[KeyHit]) -> None:
        """Take the text of values: of one that goes on, and of those found in this part."""
        start = 0
        for hit in hits:
            end = max(hit.value - self._offset, 0)
            self._go_on(data[start:end])
            self._name = hit.name
            self._taken = _ValueText(self._max_value_bytes)
            start = end
        self._go_on(data[start:])

    def _go_on(self, data: bytes) -> None:
        """Go on with the value being taken, if there is one."""
        taken = self._taken
        if taken is None or not taken.feed(data):
            return
        self._taken = None
        if taken.text is None:
            self.values.pop(self._name, None)
        else:
            self.values[self._name] = taken.text


class _ValueText:
    """Takes the text of one JSON value off the front of what is fed."""

    _token = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL).search

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._place = 0
        self._depth = 0
        self.text: bytes | None = None

    def feed(self, data: bytes) -> bool:
        """Take more text; True when the value has ended (``text`` is None if too large)."""
        self._buffer += data[: self._max_bytes + 2]
        buffer = self._buffer
        while True:
            match = self._token(buffer, self._place)
            token = match[0] if match else b""
            if match is None or token == b'"':
                # A string that is cut is looked at again when more has come.
                self._place = match.start() if match else len(buffer)
                return len(buffer) > self._max_bytes
            if token in (b"[", b"{"):
                self._depth += 1
            elif len(token) == 1:
                if self._depth == 0:
                    return self._end(match.start())
                if token != b",":
                    self._depth -= 1
            self._place = match.end()
            if self._depth == 0:
                return self._end(self._place)

    def _end(self, end: int) -> bool:
        """The value ends here."""
        text = bytes(self._buffer[:end]).strip(b" \t\r\n")
        if 0 < len(text) <= self._max_bytes:
            self.text = text
        return True
