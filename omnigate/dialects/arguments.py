"""The arguments of a tool call: text in OpenAI's protocols, an object in Anthropic's.

A model may write anything for arguments. What is no JSON object becomes one for Anthropic's sake,
``{"__raw_arguments": "…"}``, and comes back as the text it was.
"""

import msgspec

from omnigate.dialects.answer import nests_too_deep
from omnigate.dialects.event_shapes import ABSENT
from omnigate.dialects.lenient import MISFITS, text_in
from omnigate.text import valid_text

NO_ARGUMENTS = "{}"
"""The arguments of a call that has none."""

_RAW_MEMBER = "__raw_arguments"
# It is the only member, so it stands at the very beginning, behind blanks at the most.
_WRAPPED_WITHIN = 256


class _AnyObject(msgspec.Struct):
    """Any JSON object; it is checked, and nothing of it is kept."""


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    text: str = msgspec.field(name=_RAW_MEMBER)


_check_object = msgspec.json.Decoder(_AnyObject).decode
_decode_wrapped = msgspec.json.Decoder(_Wrapped).decode
_encode = msgspec.json.Encoder().encode


def input_of(arguments: str) -> bytes:
    """Return arguments as the JSON object that Anthropic has to be given.

    An object that nests deeper than any client should have to read is wrapped, too.
    """
    text = valid_text(arguments).strip()
    if not text:
        return NO_ARGUMENTS.encode()
    data = text.encode()
    try:
        _check_object(data)
    except MISFITS:
        fits = False
    else:
        fits = not nests_too_deep(data)
    return data if fits else _encode({_RAW_MEMBER: valid_text(arguments)})


def arguments_of(raw: msgspec.Raw | bytes) -> str:
    """Return the arguments that a JSON value stands for; numbers keep their spelling.

    :param raw: an object, or the text of one, as servers of either kind write; none are ``{}``.
    """
    data = bytes(raw)
    if raw is ABSENT or data in (b"", b"null"):
        return NO_ARGUMENTS
    if data.startswith(b'"'):
        text = text_in(data)
        return text if text.strip() else NO_ARGUMENTS
    if _RAW_MEMBER.encode() in data[:_WRAPPED_WITHIN]:
        try:
            return _decode_wrapped(data).text or NO_ARGUMENTS
        except MISFITS:
            pass  # it is the tool's own member, beside others
    try:
        return msgspec.json.format(data, indent=-1).decode("utf-8", "replace")
    except MISFITS:
        return data.decode("utf-8", "replace")
