"""A conversation in the order that a Messages upstream takes.

Anthropic is stricter than the OpenAI protocols: system texts stand on top, or behind a turn of the
user; turns alternate; text is never blank; thinking stands first; the results of tools come first
in the turn behind their calls, and none may lack. What can be put right is, in one walk over the
turns; what cannot is refused with its place in the client's request. Nothing of the request is
changed, since it may be written for several targets.
"""

from collections.abc import Iterable, Sequence

import attrs

from omnigate.capabilities import Capabilities
from omnigate.dialects.packing import OWN_PREFIX
from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.shapes import (
    Part,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from omnigate.dialects.tool_pairs import check_pairs

#: Put before a conversation that the assistant begins.
OPENING = "[conversation continues]"

_THOUGHTS = (Thinking, RedactedThinking)


@attrs.define
class Message:
    """A message for the upstream.

    :ivar role: ``USER``, ``ASSISTANT`` or ``SYSTEM``.
    :ivar results: of tools, which stand before all else that the user says.
    :ivar plain: whether it was built from one plain string, and so stays one.
    :ivar path: where the last turn it was built from stands in the client's request.
    """

    role: Role
    parts: list[Part] = attrs.Factory(list)
    results: list[ToolResult] = attrs.Factory(list)
    plain: bool = False
    path: str = ""

    @property
    def calls(self) -> list[ToolCall]:
        """The calls in it."""
        return [part for part in self.parts if isinstance(part, ToolCall)]


@attrs.define
class Conversation:
    """What is said on top, and the messages; never without any.

    :ivar prefill: whether the last message is the assistant's, to be continued.
    """

    system: list[Text]
    messages: list[Message]
    prefill: bool = False


def of_responses(turns: Sequence[Turn]) -> bool:
    """Return whether turns were read from a request of Responses, by the names of their places."""
    return any(turn.path.startswith(("input", "instructions")) for turn in turns)


def arrange(turns: Sequence[Turn], caps: Capabilities) -> Conversation:
    """Put a conversation into the order that a Messages upstream takes.

    :raises GatewayError: ``untranslatable_request`` where nothing is said, a call has no result or
        a result no call, or the last message would have to be continued and cannot be.
    """
    leading = 0
    while leading < len(turns) and turns[leading].role is Role.SYSTEM:
        leading += 1
    system = [text for turn in turns[:leading] for text in _system_texts(turn)]
    messages, unplaced = _walk(turns[leading:], caps.mid_system)
    system += unplaced
    if not messages:
        place = "input" if of_responses(turns) else "messages"
        raise untranslatable(place, f"{place} holds nothing that a model could answer: add a text")
    _pair(messages)
    if messages[0].role is Role.ASSISTANT:
        messages.insert(0, Message(Role.USER, [Text(OPENING)], plain=True))
    prefill = messages[-1].role is Role.ASSISTANT
    if prefill:
        _trim_prefill(messages[-1], caps)
    for message in messages:
        if len(message.parts) > 1 and message.role is Role.ASSISTANT:
            message.parts = _thoughts_first(message.parts)
    return Conversation(system, messages, prefill)


def _walk(turns: Iterable[Turn], mid_system: bool) -> tuple[list[Message], list[Text]]:
    """Merge what stands together, and place system texts; return those without a place, too."""
    messages: list[Message] = []
    waiting: list[Text] = []
    plain_waiting = False
    for turn in turns:
        if turn.role is Role.SYSTEM:
            texts = _system_texts(turn)
            plain_waiting = turn.plain if not waiting else plain_waiting and not texts
            waiting += texts
            continue
        role = Role.ASSISTANT if turn.role is Role.ASSISTANT else Role.USER
        parts = [part for part in turn.parts if _stays(part)]
        if not parts:
            continue
        if role is Role.ASSISTANT and waiting and mid_system and _is_user(messages):
            messages.append(Message(Role.SYSTEM, list(waiting), plain=plain_waiting))
            waiting.clear()
        _append(messages, role, parts, turn)
    if waiting and mid_system and _is_user(messages):
        messages.append(Message(Role.SYSTEM, list(waiting), plain=plain_waiting))
        waiting.clear()
    return messages, waiting


def _is_user(messages: list[Message]) -> bool:
    return bool(messages) and messages[-1].role is Role.USER


def _append(messages: list[Message], role: Role, parts: list[Part], turn: Turn) -> None:
    """Add a turn to the last message where that is of its role, else as the next one."""
    last = messages[-1] if messages and messages[-1].role is role else None
    if last is None:
        last = Message(role)
        messages.append(last)
    last.path = turn.path
    if turn.role is Role.TOOL:
        last.plain = False
        last.results += [part for part in parts if isinstance(part, ToolResult)]
        return
    last.plain = turn.plain and len(parts) == 1 and not last.parts and not last.results
    last.parts += parts


def _system_texts(turn: Turn) -> list[Text]:
    texts = [part for part in turn.parts if isinstance(part, Text)]
    if len(texts) < len(turn.parts):
        raise untranslatable(turn.path, f"{turn.path} may hold text only: move the rest")
    return [text for text in texts if _stays(text)]


def _stays(part: Part) -> bool:
    """Whether an upstream takes a part: no blank text, and no thinking it did not sign itself."""
    if isinstance(part, Text):
        return bool(part.text) and not part.text.isspace()
    if isinstance(part, Thinking):
        return bool(part.signature) and not part.signature.startswith(OWN_PREFIX)
    return not isinstance(part, RedactedThinking) or bool(part.data)


def _thoughts_first(parts: list[Part]) -> list[Part]:
    """Put thinking first, where the provider wants it: turns that were merged have it amid."""
    if not any(isinstance(part, _THOUGHTS) for part in parts):
        return parts
    return sorted(parts, key=lambda part: not isinstance(part, _THOUGHTS))


def _pair(messages: Sequence[Message]) -> None:
    """See that each call has its result in the very next turn of the user, and the reverse."""
    calls: list[ToolCall] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            calls = message.calls
        elif message.role is Role.USER:
            check_pairs(calls, message.results)
            calls = []
    check_pairs(calls, ())


def _trim_prefill(last: Message, caps: Capabilities) -> None:
    """Cut the white space off an answer that is to be continued."""
    text = last.parts[-1]
    if not caps.prefill or not isinstance(text, Text):
        message = (
            f"{last.path} is the assistant's and the last, and the model does not continue an"
            " answer: end with a message of the user"
        )
        raise untranslatable(last.path, message)
    last.parts[-1] = attrs.evolve(text, text=text.text.rstrip())
