"""What a gateway reads of a stream's events and of answers; everything else is passed over.

Each protocol has one typed shape, which takes well under a microsecond an event and can only find
figures where the protocol puts them: text that quotes ``"usage":`` stays text. An event that does
not fit its shape (a content of parts, a count as a string, a lone surrogate) is not an error:
:func:`read_odd` reads it with less care for time, and leaves out what it cannot believe.
"""

import attrs
import msgspec

from omnigate.dialects.usage import Usage, load_tree, odd_usage

# Up to this size an event may be turned into a tree or a list of choices: hostile content of that
# size holds the reactor for some 6 ms. Events of real streams are 150 bytes to 20 KB long.
LARGE_EVENT_BYTES = 64 * 1024

# The longest name of an event type known today has 48 characters.
MAX_NAME_BYTES = 256

ABSENT = msgspec.Raw(b"")
"""What a raw member holds that was not given."""

# What a server may put into a member ``error`` to say that there is none.
_NO_ERROR = frozenset((b"", b"null", b"false", b"{}", b'""', b"[]", b"0"))

# The members whose strings are generated text, wherever they stand.
TEXT_MEMBERS = frozenset(
    (
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    )
)


class CalledFunction(msgspec.Struct, gc=False):
    """The function of a tool call."""

    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A tool call, or a further piece of one."""

    function: CalledFunction | None = None


class ChatDelta(msgspec.Struct, gc=False):
    """What a chunk adds to a message: the members that hold generated text."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """One choice of a chunk; ``text`` is the old completions' way to say it."""

    delta: ChatDelta | None = None
    text: str | None = None
    finish_reason: str | None = None


class ChatChunk(msgspec.Struct, gc=False):
    """An event of a chat or completions stream.

    ``object`` is ``"error"`` in the errors of some servers that have no ``error`` member.
    """

    choices: list[ChatChoice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = ABSENT
    object: str | None = None


class UsageHolder(msgspec.Struct, gc=False):
    """An object inside an event that has a ``usage``."""

    usage: Usage | None = None


class WholeAnswer(msgspec.Struct, gc=False):
    """An answer that is no stream: its usage, and what gives an error away."""

    usage: Usage | None = None
    error: msgspec.Raw = ABSENT
    type: str | None = None
    object: str | None = None


class ResponsesEvent(msgspec.Struct, gc=False):
    """An event of a Responses stream."""

    type: str = ""
    delta: str | None = None
    response: UsageHolder | None = None
    usage: Usage | None = None
    error: msgspec.Raw = ABSENT


class BlockText(msgspec.Struct, gc=False):
    """A delta, or the first state of a content block, of a Messages stream."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None


class MessagesEvent(msgspec.Struct, gc=False):
    """An event of a Messages stream."""

    type: str = ""
    delta: BlockText | None = None
    content_block: BlockText | None = None
    message: UsageHolder | None = None
    usage: Usage | None = None
    error: msgspec.Raw = ABSENT


decode_answer = msgspec.json.Decoder(WholeAnswer).decode
decode_chat = msgspec.json.Decoder(ChatChunk).decode
decode_responses = msgspec.json.Decoder(ResponsesEvent).decode
decode_messages = msgspec.json.Decoder(MessagesEvent).decode


def tells_error(error: msgspec.Raw | bytes | None) -> bool:
    """Say whether a member ``error`` tells of one: as the SDKs do, by whether it is true."""
    return error is not None and error is not ABSENT and bytes(error).strip() not in _NO_ERROR


def text_length(text: str) -> int:
    """Return the length of ``text`` in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@attrs.define
class OddEvent:
    """What can be believed of an event of any protocol that does not fit its shape.

    :ivar type: the member ``type``; empty where there is none.
    :ivar object: the member ``object``; the same.
    :ivar choices: whether it has any choice.
    :ivar finish_reason: whether one of its choices gives one.
    :ivar usage: the usage at the top level.
    :ivar response_usage: the usage of its ``response``.
    :ivar message_usage: the usage of its ``message``.
    :ivar error: whether its member ``error`` tells of one.
    :ivar text_bytes: the bytes of generated text in it.
    """

    type: str
    object: str
    choices: bool
    finish_reason: bool
    usage: Usage | None
    response_usage: Usage | None
    message_usage: Usage | None
    error: bool
    text_bytes: int


def read_odd(data: bytes) -> OddEvent | None:
    """Read an event that does not fit the shape of its protocol.

    :param data: at most :data:`LARGE_EVENT_BYTES`; of what is longer nothing is read.
    :returns: ``None`` for what is no JSON object.
    """
    tree = load_tree(data, LARGE_EVENT_BYTES)
    if not isinstance(tree, dict):
        return None
    choices = tree.get("choices")
    if not isinstance(choices, list):
        choices = []
    return OddEvent(
        type=_string(tree.get("type")),
        object=_string(tree.get("object")),
        choices=bool(choices),
        finish_reason=any(map(_gives_reason, choices)),
        usage=odd_usage(tree.get("usage")),
        response_usage=_odd_usage_of(tree.get("response")),
        message_usage=_odd_usage_of(tree.get("message")),
        error=bool(tree.get("error")),
        text_bytes=_text_in(
            {name: tree.get(name) for name in ("choices", "delta", "content_block")}
        ),
    )


def _odd_usage_of(holder: object) -> Usage | None:
    return odd_usage(holder.get("usage")) if isinstance(holder, dict) else None


def _gives_reason(choice: object) -> bool:
    return isinstance(choice, dict) and bool(_string(choice.get("finish_reason")))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text_in(tree: object) -> int:
    """Return the bytes of the strings that stand in members for generated text, at any depth."""
    total = 0
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for name, member in value.items():
                if isinstance(member, str):
                    if name in TEXT_MEMBERS:
                        total += text_length(member)
                else:
                    waiting.append(member)
        elif isinstance(value, list):
            waiting.extend(value)
    return total
