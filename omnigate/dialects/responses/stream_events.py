"""What is read of the events of a Responses stream, in whatever state a server sends them.

Nearly all events are small deltas, so the shape of an event is typed and flat. What is large or
rare (items, the response, texts that repeat what was streamed) stays JSON text until it is asked
for. An event that does not fit its shape is read once more, member by member: what cannot be
believed counts as not given.
"""

import msgspec

from omnigate.dialects.event_shapes import ABSENT, LARGE_EVENT_BYTES
from omnigate.dialects.lenient import MAX_MENDED_BYTES, MISFITS, mended, text_of
from omnigate.dialects.odd_events import BrokenStream, odd_index
from omnigate.dialects.usage import load_tree

# Where an answer was not streamed but told as a whole, so much of it is read. It is 250,000 tokens
# of text, more than any model puts out; a megabyte of empty objects takes 20 ms.
MAX_WHOLE_BYTES = 1024 * 1024
# The longest list in it that is gone through: more items than any answer has.
MAX_WHOLE_ITEMS = 4096


class Event(msgspec.Struct, gc=False):
    """An event: of deltas all, of the others what they are about, as text."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    summary_index: int | None = None
    content_index: int | None = None
    item_id: str | None = None
    item: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    arguments: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class Item(msgspec.Struct, gc=False):
    """An item of the output; its members are read by the functions below."""

    type: msgspec.Raw = ABSENT
    id: msgspec.Raw = ABSENT
    call_id: msgspec.Raw = ABSENT
    name: msgspec.Raw = ABSENT
    arguments: msgspec.Raw = ABSENT
    encrypted_content: msgspec.Raw = ABSENT
    summary: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT


class Part(msgspec.Struct, gc=False):
    """A part of a message, of a summary, or of what was thought."""

    text: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT


class Response(msgspec.Struct, gc=False):
    """The response object; of the last event, where the figures and the outcome stand."""

    status: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    incomplete_details: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT


class _Reason(msgspec.Struct, gc=False):
    reason: msgspec.Raw = ABSENT


class _OddEvent(msgspec.Struct, gc=False):
    type: msgspec.Raw = ABSENT
    delta: msgspec.Raw = ABSENT
    output_index: msgspec.Raw = ABSENT
    summary_index: msgspec.Raw = ABSENT
    content_index: msgspec.Raw = ABSENT
    item_id: msgspec.Raw = ABSENT
    item: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    arguments: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


decode_event = msgspec.json.Decoder(Event).decode
_decode_odd = msgspec.json.Decoder(_OddEvent).decode
_decode_item = msgspec.json.Decoder(Item).decode
_decode_items = msgspec.json.Decoder(list[Item]).decode
_decode_parts = msgspec.json.Decoder(list[Part]).decode
_decode_response = msgspec.json.Decoder(Response).decode
_decode_reason = msgspec.json.Decoder(_Reason).decode

# The longest spelling of an index that is one.
_NUMBER_BYTES = 32


def read_odd_event(data: bytes) -> Event | None:
    """Read an event that does not fit its shape.

    :returns: ``None`` for JSON that is no object.
    :raises BrokenStream: for what is no JSON, or longer than can be mended.
    """
    if len(data) > MAX_MENDED_BYTES:
        raise BrokenStream("The upstream sent a long event that does not fit its protocol.")
    odd = _odd_or_none(data)
    if odd is None:
        data = mended(data)
        odd = _odd_or_none(data)
    if odd is None:
        # What is left are words like ``NaN`` and control bytes, which Python's parser takes.
        tree = load_tree(data, LARGE_EVENT_BYTES)
        if tree is not None and not isinstance(tree, dict):
            return None
        odd = None if tree is None else _written(tree)
    if odd is None:
        raise BrokenStream("The upstream sent an event that is no JSON.")
    return Event(
        type=text_of(odd.type),
        delta=text_of(odd.delta),
        output_index=_number_of(odd.output_index),
        summary_index=_number_of(odd.summary_index),
        content_index=_number_of(odd.content_index),
        item_id=text_of(odd.item_id),
        item=odd.item,
        response=odd.response,
        arguments=odd.arguments,
        usage=odd.usage,
        error=odd.error,
    )


def item_of(raw: msgspec.Raw) -> Item | None:
    """Return an item; ``None`` where it is none."""
    try:
        return _decode_item(raw)
    except MISFITS:
        return None


def items_of(raw: msgspec.Raw) -> list[Item]:
    """Return the items of an output; none where it is no list of objects.

    :raises BrokenStream: for a list that is too long to be read.
    """
    _check_length(len(raw), MAX_WHOLE_BYTES)
    try:
        items = _decode_items(raw)
    except MISFITS:
        return []
    _check_length(len(items), MAX_WHOLE_ITEMS)
    return items


def parts_of(raw: msgspec.Raw) -> list[Part]:
    """Return the parts of a message, or of what was thought; of a plain string the one it is.

    :raises BrokenStream: for a list that is too long to be read.
    """
    _check_length(len(raw), MAX_WHOLE_BYTES)
    try:
        parts = _decode_parts(raw)
    except MISFITS:
        return [Part(text=raw)] if bytes(raw).startswith(b'"') else []
    _check_length(len(parts), MAX_WHOLE_ITEMS)
    return parts


def response_of(raw: msgspec.Raw) -> Response:
    """Return a response; an empty one where there is none."""
    try:
        return _decode_response(raw)
    except MISFITS:
        return Response()


def reason_of(raw: msgspec.Raw) -> str:
    """Return the reason in ``incomplete_details``; an empty text where there is none."""
    try:
        return text_of(_decode_reason(raw).reason)
    except MISFITS:
        return ""


def _check_length(length: int, limit: int) -> None:
    if length > limit:
        raise BrokenStream(
            "The upstream did not stream its answer, and told more at once than is read."
        )


def _odd_or_none(data: bytes) -> _OddEvent | None:
    try:
        return _decode_odd(data)
    except MISFITS:
        return None


def _written(tree: dict[str, object]) -> _OddEvent | None:
    """Return the event that a tree is of; msgspec writes ``null`` for what is no number."""
    try:
        return _odd_or_none(msgspec.json.encode(tree))
    except (ValueError, OverflowError, RecursionError):
        return None


def _number_of(raw: msgspec.Raw) -> int | None:
    if len(raw) > _NUMBER_BYTES:
        return None
    try:
        return odd_index(msgspec.json.decode(raw))
    except MISFITS:
        return None
