"""Quick proofs that a request body is harmless, for the bodies that clients really send.

Each either proves all it claims or returns None (or False) and proves nothing;
the walk then tells. None of them is a heuristic: what they accept, the walk
accepts with the same result. They assume valid UTF-8.
"""

from __future__ import annotations

import msgspec

from omnigate.wire.json_body import (
    ASKS_FOR_USAGE,
    MAX_DEPTH,
    MAX_KEY_BYTES,
    BodyScan,
    StreamOptions,
    asks_for_usage,
)

_ABSENT = msgspec.Raw()
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
# A value longer than this is set aside before a small body is searched.
_BULK_BYTES = 300
# More members than this at the top are not put together again: real bodies have 20.
_MAX_REBUILT = 200
# How many values are looked at, one by one, to prove a body shallow: about 1 µs each.
_MAX_LOOKS = 2000
# A character of a key takes at most 12 bytes in escapes (two surrogates).
_MAX_KEY_CHARACTERS = MAX_KEY_BYTES // 12
_CONTAINERS = (b"[", b"{")
_TOO_DEEP = MAX_DEPTH + 1


class _PlainTop(msgspec.Struct):
    """The members acted on, in the types they mostly have, and the bulk of a body."""

    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    messages: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT


_decode_plain = msgspec.json.Decoder(_PlainTop).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def prove_small(body: bytes) -> BodyScan | None:
    """Scan a body of at most ``MAX_KEY_BYTES`` by searches alone.

    So few brackets that they cannot nest too deep, and so few bytes that no key is
    too long. The bulk of the body is set aside: the text of one whole value, found
    behind its key. The rest must name each member acted on once at most and hold no
    ``\\u``. A name that stands there once, and whose member the parse found, is its
    key.
    """
    # To take out the few there are is quicker than to look each byte up in a table.
    flat = body.replace(b"{", b"", _TOO_DEEP).replace(b"[", b"", _TOO_DEEP)
    if len(body) - len(flat) > MAX_DEPTH:
        return None
    try:
        top = _decode_plain(body)
    except _REFUSED:
        return None
    bulk = top.messages
    size = len(bulk)
    key = b'"messages":'
    if not size:
        bulk = top.input
        size = len(bulk)
        key = b'"input":'
    if size > _BULK_BYTES:
        # Of two such keys the first is found; were it not the one that was parsed,
        # its value would still be a whole one, with no member of the top in it.
        at = body.find(key)
        cut = at + len(key)
        if body.startswith(b" ", cut):
            cut += 1
        if at < 0 or not body.startswith(bulk, cut):
            return None
        rest = body[:cut] + body[cut + size :]
    else:
        size = cut = 0
        rest = body
    at = rest.find(b'"model"')
    start = rest.find(b'"', at + 7)
    end = rest.find(b'"', start + 1) + 1
    if at < 0 or rest.find(b'"model"', at + 7) >= 0 or not top.model:
        return None
    if rest.find(b"\\") >= 0 and (rest.find(b"\\u") >= 0 or rest.find(b"\\", start, end) >= 0):
        return None
    options_start = options_end = -1
    at = rest.find(b'"stream')
    if at >= 0:
        again = rest.find(b'"stream', at + 7)
        if again >= 0 and (rest.count(b'"stream"') > 1 or rest.count(b'"stream_options"') > 1):
            return None
        at = rest.find(b'"stream_options"', at)
        if at >= 0:
            options_start = rest.find(b"{", at)
            if top.stream_options is None or not rest.startswith(ASKS_FOR_USAGE, options_start):
                return None
            options_end = rest.find(b"}", options_start) + 1
            if options_start > cut:
                options_start += size
                options_end += size
    if start > cut:
        start += size
        end += size
    return BodyScan(
        top.model,
        start,
        end,
        top.stream,
        options_start,
        options_end,
        True if options_start >= 0 else None,
        1 if body[0] == 123 else body.index(b"{") + 1,
    )


def prove_rebuilt(body: bytes) -> tuple[BodyScan, list[bytes]] | None:
    """Scan the top of a body by putting it together again; what its values hold is not judged.

    The parse gives each top-level key once and the text of its value. Where these,
    in one of the two usual spacings, are the body again, there is no key given
    twice and none spelled with escapes, and every value has its place.

    :returns: the scan, and the texts of the values.
    :raises ScanError: for what is wrong with ``stream_options``.
    """
    try:
        members = _decode_members(body)
    except _REFUSED:
        return None
    names = list(members)
    if len(names) > _MAX_REBUILT or "model" not in members:
        return None
    if max(map(len, names)) > _MAX_KEY_CHARACTERS:
        return None
    values = [bytes(value) for value in members.values()]
    spaced = body[len(names[0].encode("utf-8", "replace")) + 4 :][:1] == b" "
    frame = _frame(names, spaced)
    if len(frame) != len(values) + 1:
        return None  # a NUL in a key
    pieces = [b""] * (len(frame) + len(values))
    pieces[::2] = frame
    pieces[1::2] = values
    if b"".join(pieces) != body:
        return None
    at = names.index("model")
    model = values[at]
    if model[:1] != b'"':
        return None
    start = sum(map(len, pieces[: 2 * at + 1]))
    options_start = options_end = -1
    include_usage = None
    if "stream_options" in members:
        at = names.index("stream_options")
        options_start = sum(map(len, pieces[: 2 * at + 1]))
        options_end = options_start + len(values[at])
        include_usage = asks_for_usage(values[at])
    stream = "stream" in members and values[names.index("stream")] == b"true"
    scan = BodyScan(
        _decode_string(model),
        start,
        start + len(model),
        stream,
        options_start,
        options_end,
        include_usage,
        1,
    )
    return scan, values


def _frame(names: list[str], spaced: bool) -> list[bytes]:
    """Write what stands between the values of an object: before, between and behind them."""
    if spaced:
        text = '{"' + '": \0, "'.join(names) + '": \0}'
    else:
        text = '{"' + '":\0,"'.join(names) + '":\0}'
    return text.encode("utf-8", "replace").split(b"\0")


def prove_shallow(values: list[bytes]) -> bool:
    """Tell that the members of a body nest in bounds, and that no key in them is too long.

    A value with few opening brackets, strings included, cannot nest deep. Values
    with many are taken apart, a level at a time, as long as that stays cheap.

    :param values: the texts of the values at the top.
    """
    looks = [_MAX_LOOKS]
    return all(_is_shallow(value, MAX_DEPTH - 1, looks) for value in values)


def _is_shallow(text: bytes, room: int, looks: list[int]) -> bool:
    """Prove one value shallow: at most ``room`` levels, and no long key."""
    if text[:1] not in _CONTAINERS:
        return True
    small = len(text) <= MAX_KEY_BYTES
    if small and (len(text) <= 2 * room or len(text.translate(None, _NOT_OPENING)) <= room):
        return True
    if room == 1:
        return False
    if text[:1] == b"[":
        elements = _decode_list(text)
        looks[0] -= len(elements)
        if looks[0] < 0:
            return False
        room -= 1
        for element in elements:
            # A level takes two bytes; so short a value needs no look.
            if len(element) > 2 * room and not _is_shallow(bytes(element), room, looks):
                return False
        return True
    members = _decode_members(text)
    looks[0] -= len(members)
    if looks[0] < 0 or max(map(len, members), default=0) > _MAX_KEY_CHARACTERS:
        return False
    values = [bytes(value) for value in members.values()]
    # Of a key given twice the parse shows one value only. No bracket may be hidden in
    # the other.
    opening = sum([len(value.translate(None, _NOT_OPENING)) for value in values])
    if len(text.translate(None, _NOT_OPENING)) != opening + 1:
        return False
    return all(_is_shallow(value, room - 1, looks) for value in values)
