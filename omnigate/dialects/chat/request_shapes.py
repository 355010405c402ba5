"""What a Chat Completions request looks like, as far as a translation reads it.

Every member is optional: clients leave out what has a default, and write ``null`` for it.
"""

import msgspec

from omnigate.dialects.request_body import ABSENT


class ImageUrl(msgspec.Struct, gc=False):
    """Where a picture is."""

    url: str | None = None
    detail: str | None = None


class File(msgspec.Struct, gc=False):
    """A file: its content, or the id that a provider gave it."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Part(msgspec.Struct):
    """A part of a message. Some clients write a picture's address without the object around it."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None
    file: File | None = None
    prompt_cache_breakpoint: msgspec.Raw = ABSENT
    cache_control: msgspec.Raw = ABSENT


class Function(msgspec.Struct, gc=False):
    """The call of a function."""

    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct):
    """The call of a tool."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None


class ThinkingBlock(msgspec.Struct, gc=False):
    """A block of thinking as the gateway gave it to the client; its ``index`` is not needed."""

    type: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class Message(msgspec.Struct):
    """A message of any role."""

    role: str | None = None
    content: str | list[Part] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None
    thinking_blocks: list[ThinkingBlock] | None = None
    audio: msgspec.Raw = ABSENT


class FunctionTool(msgspec.Struct):
    """A function that may be called."""

    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None


class ToolSpec(msgspec.Struct):
    """A tool that may be called."""

    type: str | None = None
    function: FunctionTool | None = None
    cache_control: msgspec.Raw = ABSENT


class Named(msgspec.Struct, gc=False):
    """Something by its name."""

    name: str | None = None


class NamedTool(msgspec.Struct):
    """A tool by its type and name."""

    type: str | None = None
    function: Named | None = None


class AllowedTools(msgspec.Struct):
    """Those of the tools that may be called now."""

    mode: str | None = None
    tools: list[NamedTool] | None = None


class Choice(msgspec.Struct):
    """Which tool is to be called; ``allowed_tools`` where some may be."""

    type: str | None = None
    function: Named | None = None
    allowed_tools: AllowedTools | None = None


class JsonSchema(msgspec.Struct):
    """The schema an answer is held to."""

    name: str | None = None
    description: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    """The form an answer is held to."""

    type: str | None = None
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct, gc=False):
    """How to stream."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """The body of ``POST /v1/chat/completions``."""

    messages: list[Message] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[ToolSpec] | None = None
    functions: list[FunctionTool] | None = None
    tool_choice: str | Choice | None = None
    function_call: str | Named | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    thinking: msgspec.Raw = ABSENT
    response_format: ResponseFormat | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: msgspec.Raw = ABSENT
    modalities: list[str] | None = None
    audio: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT
    moderation: msgspec.Raw = ABSENT
