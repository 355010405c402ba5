"""A client's Messages request, to be asked of an upstream of another protocol.

What another provider cannot do is refused with its place in the request; what changes nothing of
the answer (cache marks for Anthropic's cache, betas, hints) is passed over.
"""

import msgspec

from omnigate.dialects.messages.block_reader import (
    cache_mark,
    read_assistant_blocks,
    read_system_texts,
    read_user_blocks,
)
from omnigate.dialects.messages.request_shapes import (
    Block,
    ContextManagement,
    Message,
    MessagesBody,
    OutputFormat,
    Source,
    ThinkingConfig,
    ToolShape,
)
from omnigate.dialects.messages.request_shapes import Choice as ChoiceShape
from omnigate.dialects.parameters import is_strict_schema, tier_of_messages
from omnigate.dialects.request_body import (
    check_pieces,
    decode_request,
    is_given,
    malformed,
    member_text,
    missing,
    untranslatable,
)
from omnigate.dialects.shapes import (
    Choice,
    Format,
    Part,
    Request,
    Role,
    Text,
    ThinkingWish,
    Tool,
    ToolChoice,
    Turn,
)
from omnigate.errors import GatewayError
from omnigate.text import quoted

_decode = msgspec.json.Decoder(MessagesBody).decode

# What this edit takes out, thinking, is not shown to another provider in the first place, or is
# taken out by that provider itself. Every other edit changes what the model reads.
_NEEDLESS_EDITS = frozenset(("clear_thinking_20251015",))

_CHOICES = {
    "auto": Choice.AUTO,
    "any": Choice.REQUIRED,
    "tool": Choice.NAMED,
    "none": Choice.NONE,
}


def read_request(body: bytes) -> Request:
    """Read a request.

    ``max_tokens`` may be absent here, since a count of tokens has none.

    :param body: a scanned body whose memory is reserved.
    :raises GatewayError: ``untranslatable_request`` for what no other provider can do,
        ``thread_unsupported_request`` for a conversation of which it would have to keep a part,
        ``invalid_request`` or ``invalid_json`` for what is malformed, ``request_too_complex`` for
        too many pieces.
    """
    shape = decode_request(_decode, body)
    check_pieces(_pieces(shape))
    _refuse_bound(shape)
    thinking = _thinking(shape.thinking)
    wants_thinking = thinking is not None and thinking.type in ("enabled", "adaptive")
    shown = wants_thinking and thinking is not None and thinking.display != "omitted"
    choice = shape.tool_choice
    config = shape.output_config
    return Request(
        turns=_turns(shape),
        stream=shape.stream is True,
        max_tokens=shape.max_tokens,
        temperature=shape.temperature,
        top_p=shape.top_p,
        top_k=shape.top_k,
        stop=shape.stop_sequences or [],
        tools=[_tool(tool, f"tools[{index}]") for index, tool in enumerate(shape.tools or ())],
        tool_choice=_tool_choice(choice),
        parallel=False if choice is not None and choice.disable_parallel_tool_use else None,
        effort=config.effort if config is not None else None,
        thinking=thinking,
        summaries="auto" if shown else None,
        format=_format(shape),
        user=(shape.metadata.user_id if shape.metadata is not None else None) or None,
        service_tier=tier_of_messages(shape.service_tier),
        include_usage=True,
        wants_thinking=wants_thinking,
        keeps_reasoning=True,
    )


def _pieces(shape: MessagesBody) -> int:
    """Count what takes a step each to read and write."""
    management = shape.context_management
    edits = management.edits if management is not None else None
    count = len(shape.tools or ()) + len(shape.stop_sequences or ()) + len(edits or ())
    contents = [shape.system, *[message.content for message in shape.messages or ()]]
    return count + len(contents) + sum([_blocks_in(content) for content in contents])


def _blocks_in(content: str | list[Block] | Block | None) -> int:
    """Count blocks, and those within them; a result holds documents, and those hold blocks."""
    if not isinstance(content, list):
        return 0
    count = len(content)
    for block in content:
        if isinstance(block.content, list):
            count += _blocks_in(block.content)
        if isinstance(block.source, Source):
            count += _blocks_in(block.source.content)
    return count


def _refuse_bound(shape: MessagesBody) -> None:
    """Refuse what is bound to the provider, or cannot be asked of a model at all."""
    if shape.max_tokens is not None and shape.max_tokens <= 0:
        if shape.max_tokens < 0:
            raise malformed("max_tokens", "max_tokens has to be at least 1")
        message = "max_tokens is 0, which only warms Anthropic's cache: ask for at least 1 token"
        raise untranslatable("max_tokens", message)
    for name, value in (
        ("container", shape.container),
        ("mcp_servers", shape.mcp_servers),
        ("compaction", shape.compaction),
    ):
        if is_given(value, b"[]"):
            message = f"{name} is run by the protocol's own provider only: leave it out"
            raise untranslatable(name, message)
    if is_given(shape.thread):
        message = (
            "thread is kept by the protocol's own provider only: send the whole conversation"
            " without it"
        )
        raise GatewayError("thread_unsupported_request", message, param="thread")
    _refuse_edits(shape.context_management)


def _refuse_edits(management: ContextManagement | None) -> None:
    """Refuse edits of the conversation that must happen, since nobody here makes them.

    Clearing tool uses and compacting keep a conversation within bounds that the client no longer
    watches itself; clearing thinking is no loss where it does not happen.
    """
    edits = management.edits if management is not None else None
    for index, edit in enumerate(edits or ()):
        if edit.type not in _NEEDLESS_EDITS:
            path = f"context_management.edits[{index}]"
            message = (
                f"{path} of the type {quoted(edit.type or '')} is made by the protocol's own"
                " provider only: leave it out, and shorten the conversation yourself"
            )
            raise untranslatable(path, message)


def _turns(shape: MessagesBody) -> list[Turn]:
    if not shape.messages:
        raise missing("messages")
    turns: list[Turn] = []
    if shape.system:
        texts = read_system_texts(shape.system, "system")
        turns.append(Turn(Role.SYSTEM, texts, isinstance(shape.system, str), "system"))
    for index, message in enumerate(shape.messages):
        turns += _turns_of(message, f"messages[{index}]")
    return turns


def _turns_of(message: Message, path: str) -> list[Turn]:
    """Return the turns of one message; none where no block of it stays."""
    content = message.content
    if content is None:
        raise missing(f"{path}.content")
    match message.role:
        case "user":
            return _user_turns(content, path)
        case "assistant":
            role = Role.ASSISTANT
            parts = _parts_of_assistant(content, path)
        case "system":
            role = Role.SYSTEM
            parts = read_system_texts(content, f"{path}.content")
        case None:
            raise missing(f"{path}.role")
        case _:
            problem = f"{path}.role has to be user, assistant or system"
            raise malformed(f"{path}.role", problem)
    return [Turn(role, parts, isinstance(content, str), path)] if parts else []


def _user_turns(content: str | list[Block], path: str) -> list[Turn]:
    """Return the tools' results first, as a turn of their own, then what the user said."""
    if isinstance(content, str):
        return [Turn(Role.USER, [Text(content)], True, path)]
    results, rest = read_user_blocks(content, f"{path}.content")
    turns = [Turn(Role.TOOL, results, path=path)] if results else []
    if rest:
        turns.append(Turn(Role.USER, rest, path=path))
    return turns


def _parts_of_assistant(content: str | list[Block], path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    return read_assistant_blocks(content, f"{path}.content")


def _tool(shape: ToolShape, path: str) -> Tool:
    if shape.type not in (None, "custom"):
        message = (
            f"{path} is of the type {quoted(shape.type)}, a tool of the protocol's own provider:"
            " leave it out, or describe it as a tool of your own, with an input_schema"
        )
        raise untranslatable(path, message)
    if not shape.name:
        raise missing(f"{path}.name")
    return Tool(
        name=shape.name,
        description=shape.description,
        schema=member_text(shape.input_schema, f"{path}.input_schema"),
        strict=shape.strict,
        cache=cache_mark(shape.cache_control),
        path=path,
    )


def _tool_choice(shape: ChoiceShape | None) -> ToolChoice | None:
    if shape is None:
        return None
    mode = _CHOICES.get(shape.type or "")
    if mode is None:
        message = "tool_choice.type has to be auto, any, tool or none"
        raise malformed("tool_choice.type", message)
    if mode is not Choice.NAMED:
        return ToolChoice(mode)
    if not shape.name:
        raise missing("tool_choice.name")
    return ToolChoice(mode, shape.name)


def _thinking(shape: ThinkingConfig | None) -> ThinkingWish | None:
    """Return the wish; nobody passes it on as it stands, so its own text is left out."""
    if shape is None:
        return None
    if shape.type is None:
        raise missing("thinking.type")
    return ThinkingWish(shape.type, max(shape.budget_tokens or 0, 0), shape.display)


def _format(shape: MessagesBody) -> Format | None:
    config = shape.output_config
    if config is not None and config.format is not None:
        return _format_of(config.format, "output_config.format")
    if shape.output_format is not None:
        return _format_of(shape.output_format, "output_format")
    return None


def _format_of(shape: OutputFormat, path: str) -> Format:
    if shape.type != "json_schema":
        message = f"{path}.type has to be json_schema"
        raise malformed(f"{path}.type", message)
    schema = member_text(shape.schema, f"{path}.schema")
    if not schema:
        raise missing(f"{path}.schema")
    return Format(schema=schema, strict=is_strict_schema(schema))
