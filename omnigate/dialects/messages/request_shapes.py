"""The members of a Messages request that are read; all others are passed over.

Blocks have one flat shape, since clients send types that nobody here has heard of, and those are
refused by their name and place. ``null`` means absent throughout.
"""

import msgspec

from omnigate.dialects.request_body import ABSENT


class Source(msgspec.Struct, gc=False):
    """Where a picture or a document comes from."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: "str | list[Block] | None" = None


class Block(msgspec.Struct, gc=False):
    """A content block of any type; ``source`` of a search result is its address."""

    type: str | None = None
    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    # What a server tool answered may be an object.
    content: "str | list[Block] | Block | None" = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = ABSENT
    tool_use_id: str | None = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    cache_control: msgspec.Raw = ABSENT


class Message(msgspec.Struct, gc=False):
    """A message."""

    role: str | None = None
    content: str | list[Block] | None = None


class ToolShape(msgspec.Struct, gc=False):
    """A tool: the client's own where ``type`` is absent or ``custom``."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = ABSENT
    strict: bool | None = None
    cache_control: msgspec.Raw = ABSENT


class Choice(msgspec.Struct, gc=False):
    """Whether tools are called."""

    type: str | None = None
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(msgspec.Struct, gc=False):
    """Whether and how the model thinks."""

    type: str | None = None
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(msgspec.Struct, gc=False):
    """The form an answer is held to."""

    type: str | None = None
    schema: msgspec.Raw = ABSENT


class OutputConfig(msgspec.Struct, gc=False):
    """How much the model does, and in which form it answers."""

    effort: str | None = None
    format: OutputFormat | None = None


class Metadata(msgspec.Struct, gc=False):
    """Who asks."""

    user_id: str | None = None


class Edit(msgspec.Struct, gc=False):
    """A change that the provider makes to the conversation before the model reads it."""

    type: str | None = None


class ContextManagement(msgspec.Struct, gc=False):
    """Such changes."""

    edits: list[Edit] | None = None


class MessagesBody(msgspec.Struct, gc=False):
    """A request; ``output_format`` is where betas had what is now ``output_config.format``."""

    messages: list[Message] | None = None
    system: str | list[Block] | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[ToolShape] | None = None
    tool_choice: Choice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    container: msgspec.Raw = ABSENT
    mcp_servers: msgspec.Raw = ABSENT
    compaction: msgspec.Raw = ABSENT
    thread: msgspec.Raw = ABSENT
    context_management: ContextManagement | None = None
