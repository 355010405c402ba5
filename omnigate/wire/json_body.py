"""What a scan of a request body finds, what it refuses, and the bounds it holds."""

from __future__ import annotations

import re

import attrs
import msgspec

from omnigate.wire.json_walk import JsonWalk, TextCounts

#: How deep a client's JSON may nest; clients with tools were seen at 13.
MAX_DEPTH = 64
#: Members in one object, and bytes in one key as written.
MAX_MEMBERS = 65536
MAX_KEY_BYTES = 8192
#: With more members in one object no tree is made of a body.
MAX_TREE_MEMBERS = 1024
#: The value of ``stream_options``, which is walked apart; in use it has 25 bytes.
MAX_OPTIONS_BYTES = 65536

#: The usual spellings of options that ask for usage.
ASKS_FOR_USAGE = (b'{"include_usage":true}', b'{"include_usage": true}')

_ABSENT = msgspec.Raw()
_gap = re.compile(rb"[ \t\r\n]*+").match


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

    def again(self) -> ScanError:
        """The same to be raised, where this one is kept.

        What is raised knows the frames that it passes; if one of them knows it, too, they stay,
        and the body with them, until the collector comes by.
        """
        return ScanError(self.code, self.message, self.param)


@attrs.define
class BodyScan:
    """What a scan found; offsets count bytes of the body.

    ``model_start`` and ``model_end`` span the string with its quotes;
    ``options_start`` and ``options_end`` span the value of ``stream_options``, -1
    when there is none. ``include_usage`` is what it says, None when it says
    nothing. ``insert_at`` stands behind the opening brace, and before a member,
    since ``model`` is required. ``counts`` are there where a long body was walked
    as it arrived.
    """

    model: str
    model_start: int
    model_end: int
    stream: bool
    options_start: int
    options_end: int
    include_usage: bool | None
    insert_at: int
    counts: TextCounts | None = attrs.field(default=None, eq=False)  # depends on the way


class StreamOptions(msgspec.Struct):
    """The member of ``stream_options`` acted on, as raw text."""

    include_usage: msgspec.Raw = _ABSENT


_decode_options = msgspec.json.Decoder(StreamOptions).decode


def value_start(body: bytes, colon: int) -> int:
    """Return where the value behind a colon starts, given the place behind the colon."""
    blank = _gap(body, colon)
    return blank.end() if blank else colon


def asks_for_usage(options: bytes) -> bool | None:
    """Read ``include_usage`` of a ``stream_options`` value.

    :returns: None where it is not given; anything but true is False.
    :raises ScanError: see :func:`usage_span`.
    """
    if options in ASKS_FOR_USAGE:
        return True
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
    walk = JsonWalk((b"include_usage",), MAX_DEPTH, 0, MAX_KEY_BYTES, 1)
    hits = walk.feed(options)
    if not hits:
        return None
    if len(hits) > 1 or hits[0].escaped:
        raise ScanError(
            "invalid_request",
            "include_usage may be given once in stream_options, and without escapes.",
            "stream_options",
        )
    start = value_start(options, hits[0].value)
    return start, start + len(bytes(_decode_options(options).include_usage))
