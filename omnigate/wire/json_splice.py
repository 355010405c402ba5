"""Changes to a scanned body, made in its text: the client's bytes but for the named places."""

from __future__ import annotations

from omnigate.wire.json_body import BodyScan, usage_span

_USAGE = b'"include_usage":true'
_OPTIONS = b'"stream_options":{' + _USAGE + b"},"

#: From this size on, what stays of a body is not copied before it is put together.
_VIEW_BYTES = 16384


def splice_request(
    body: bytes, scan: BodyScan, model: bytes, add_usage: bool
) -> list[bytes | memoryview]:
    """Put the target's model into a body, and ask for usage where that is wanted.

    :returns: the pieces of the new body, in order, to be joined with the head before them: a
        body of megabytes is then copied once.
    :param scan: what the scan of this body found.
    :param model: the model's name as a JSON string, with its quotes.
    :param add_usage: make ``stream_options.include_usage`` true. Its other
        members stay; a value that is neither an object nor null is left to the
        upstream to refuse.
    """
    text_of: bytes | memoryview = body if len(body) < _VIEW_BYTES else memoryview(body)
    if not add_usage or scan.include_usage is True:
        return [text_of[: scan.model_start], model, text_of[scan.model_end :]]
    edits = [(scan.model_start, scan.model_end, model)]
    if scan.options_start < 0:
        edits.append((scan.insert_at, scan.insert_at, _OPTIONS))
    else:
        options = body[scan.options_start : scan.options_end]
        edits.append((scan.options_start, scan.options_end, _asking_for_usage(options)))
    edits.sort()
    pieces: list[bytes | memoryview] = []
    place = 0
    for start, end, text in edits:
        pieces += (text_of[place:start], text)
        place = end
    pieces.append(text_of[place:])
    return pieces


def _asking_for_usage(options: bytes) -> bytes:
    """Make ``include_usage`` true in the text of a ``stream_options`` value."""
    if options == b"null":
        return b"{" + _USAGE + b"}"
    if options[:1] != b"{":
        return options
    span = usage_span(options)
    if span is not None:
        return options[: span[0]] + b"true" + options[span[1] :]
    others = options[1:]
    comma = b"" if others.lstrip(b" \t\r\n") == b"}" else b","
    return b"{" + _USAGE + comma + others
