"""The scan of a request body: what the gateway acts on, found without a tree.

A body must be one JSON object in valid UTF-8, within bounds on depth, members
and keys. ``model``, ``stream`` and ``stream_options`` may each stand once at the
top, spelled without escapes: the provider parses the body again, and the two
readings must not differ on the fields the gateway acts on.

Two ways lead there. A body of at most ``ONE_SHOT_BYTES``, or a longer one of
little structure, is scanned in one go when it is complete; most are proved
harmless without a walk. Any other is walked as it arrives (:class:`BodyScanner`),
so that nothing but the strict parse of the whole is left for its last byte. The
grammar is msgspec's to judge: a parse into fields of ``Raw`` checks every byte and
builds nothing.
"""

from __future__ import annotations

import codecs

import msgspec

from omnigate.wire.json_body import (
    MAX_DEPTH,
    MAX_KEY_BYTES,
    MAX_MEMBERS,
    MAX_TREE_MEMBERS,
    BodyScan,
    ScanError,
    asks_for_usage,
    value_start,
)
from omnigate.wire.json_proofs import prove_rebuilt, prove_shallow, prove_small
from omnigate.wire.json_walk import PIECE_BYTES, JsonWalk

#: Bodies up to here are scanned in one go, whatever they hold: the worst of this
#: size holds the reactor no longer than one read of a larger one does.
ONE_SHOT_BYTES = 65536
#: And up to here, if they have at most so many quotes, brackets and commas in them.
#: A body of 138 KB, full of tool calls, has about 19,000. The walk, if it should come to it,
#: then takes a few milliseconds.
CALM_BYTES = 262144
CALM_MARKS = 24000
# A walk of less than this is put off until more has come: each walk has a price
# of its own (about 10 µs), and a slow network reads in pieces of 1460 bytes.
_WALK_BYTES = 32768
# Bodies up to here cannot have too many members in an object: the shortest takes five bytes.
_UNCOUNTED_BYTES = 5 * MAX_MEMBERS

_NAMES = (b"model", b"stream", b"stream_options")
_NOT_CALM = bytes(set(range(256)) - set(b'"[{,'))
_ABSENT = msgspec.Raw()
_NESTED = f"The body nests too deep; {MAX_DEPTH} levels are the most."
_MALFORMED = "The body is not valid JSON."
_UNICODE = "The body is not valid UTF-8."
_FAULTS = {
    "depth": ("invalid_json", _NESTED),
    "members": ("invalid_request", f"An object in the body has more than {MAX_MEMBERS} members."),
    "key": ("invalid_request", f"A key in the body is longer than {MAX_KEY_BYTES} bytes."),
    "syntax": ("invalid_json", _MALFORMED),
}


class _Top(msgspec.Struct):
    """The members acted on, as raw text."""

    model: msgspec.Raw = _ABSENT
    stream: msgspec.Raw = _ABSENT
    stream_options: msgspec.Raw = _ABSENT


_decode_top = msgspec.json.Decoder(_Top).decode
_decode_string = msgspec.json.Decoder(str).decode


def scan_body(body: bytes) -> BodyScan:
    """Scan a body that is all there.

    :raises ScanError: for a body that is refused.
    """
    if len(body) <= MAX_KEY_BYTES:
        if not body.isascii():
            _check_utf8(body)
        scan = prove_small(body)
        if scan is not None:
            return scan
    if len(body) <= ONE_SHOT_BYTES:
        return _scan_at_once(body)
    scanner = BodyScanner(len(body))
    scanner.feed(body)
    return scanner.finish(body)


class BodyScanner:
    """Scans a body while it arrives.

    Feed it every byte in order, then call :meth:`finish` with the whole body.
    ``feed`` never raises: a fault found early is kept for ``finish``, and may be
    looked up in ``fault`` to refuse sooner.

    :param declared_length: the body's declared length, which decides the way.
    """

    __slots__ = (
        "_at_once",
        "_cut",
        "_decoder",
        "_fed",
        "_held",
        "_length",
        "_marks",
        "_walk",
        "fault",
    )

    def __init__(self, declared_length: int) -> None:
        self._length = declared_length
        self._at_once = declared_length <= CALM_BYTES  # as far as is known yet
        self._marks = 0  # quotes, brackets and commas so far
        members = MAX_MEMBERS if declared_length > _UNCOUNTED_BYTES else 0
        self._walk = JsonWalk(
            _NAMES, MAX_DEPTH, members, MAX_KEY_BYTES, len(_NAMES), MAX_TREE_MEMBERS
        )
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._cut = False  # a character is cut at the end of what was walked
        self._held = bytearray()  # no list: tiny reads would weigh twenty times their bytes
        self._fed = 0
        self.fault: ScanError | None = None

    def feed(self, data: bytes) -> None:
        """Take one read of the body."""
        self._fed += len(data)
        if self._length <= ONE_SHOT_BYTES or self.fault is not None:
            return
        if not self._at_once and not self._held and len(data) >= _WALK_BYTES:
            self._walk_on(data)
            return
        self._held += data
        if self._at_once:
            self._marks += len(data.translate(None, _NOT_CALM))
            self._at_once = self._marks <= CALM_MARKS
        if not self._at_once and len(self._held) >= _WALK_BYTES:
            self._walk_held()

    def finish(self, body: bytes) -> BodyScan:
        """The body is complete: tell what it says.

        :param body: all that was fed, joined.
        :raises ScanError: for a body that is refused.
        """
        if self._fed != len(body) or self._length < len(body):
            return scan_body(body)
        if self._at_once:
            return _scan_at_once(body)
        self._walk_held()
        if self._cut and self.fault is None:
            self.fault = ScanError("invalid_json", _UNICODE)
        if self.fault is not None:
            raise self.fault.again()
        scan = _settle(body, _parse(body), self._walk)
        if self._length > _UNCOUNTED_BYTES:
            scan.counts = self._walk.counts
        return scan

    def _walk_held(self) -> None:
        """Walk what was put off."""
        text = bytes(self._held)
        self._held.clear()
        self._walk_on(text)

    def _walk_on(self, text: bytes) -> None:
        """Walk over what came next."""
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


def _scan_at_once(body: bytes) -> BodyScan:
    """Scan a body that is small or calm."""
    try:
        return _prove_or_walk(body)
    except RecursionError:
        # The parse went as deep as the stack let it, and a look into what it gave went deeper.
        raise ScanError("invalid_json", _NESTED) from None


def _prove_or_walk(body: bytes) -> BodyScan:
    """Scan by a proof, or else by a walk."""
    if not body.isascii():
        _check_utf8(body)
    proved = prove_rebuilt(body)
    if proved is None:
        top = _parse(body)
        # Members need no count: a walk in one go is of a body too short for too many.
        walk = JsonWalk(_NAMES, MAX_DEPTH, 0, MAX_KEY_BYTES, len(_NAMES))
        walk.feed(body)
        return _settle(body, top, walk)
    scan, values = proved
    if not prove_shallow(values):
        walk = JsonWalk((), MAX_DEPTH, 0, MAX_KEY_BYTES, 0)
        walk.feed(body)
        fault = _walk_fault(walk)
        if fault is not None:
            raise fault.again()
    return scan


def _check_utf8(body: bytes) -> None:
    """Refuse what is not text."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        raise ScanError("invalid_json", _UNICODE) from None


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


def _settle(body: bytes, top: _Top, walk: JsonWalk) -> BodyScan:
    """Put together what the parse and the walk found."""
    fault = _walk_fault(walk)
    if fault is not None:
        raise fault.again()
    places = {hit.name: hit.value for hit in walk.hits}
    model = bytes(top.model)
    if not model or b"model" not in places:
        raise ScanError("invalid_request", "model is required.", "model")
    if model[:1] != b'"':
        raise ScanError("invalid_request", "model must be a string.", "model")
    model_start = value_start(body, places[b"model"])
    options_start = options_end = -1
    include_usage = None
    if b"stream_options" in places:
        options_start = value_start(body, places[b"stream_options"])
        options_end = options_start + len(bytes(top.stream_options))
        include_usage = asks_for_usage(body[options_start:options_end])
    return BodyScan(
        _decode_string(model),
        model_start,
        model_start + len(model),
        bytes(top.stream) == b"true",
        options_start,
        options_end,
        include_usage,
        value_start(body, 0) + 1,
    )
