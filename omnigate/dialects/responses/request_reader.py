"""A request of a Responses client → shapes."""

import msgspec

from omnigate.dialects.request_body import (
    decode_request,
    malformed,
    member_text,
    missing,
    untranslatable,
)
from omnigate.dialects.responses.function_tools import (
    FunctionTools,
    read_tool_choice,
    read_tools,
)
from omnigate.dialects.responses.input_items import Item, read_items
from omnigate.dialects.responses.response_object import ECHOED
from omnigate.dialects.shapes import Format, Request, Role, Text, Turn
from omnigate.text import quoted

MAX_ECHO_BYTES = 128 * 1024
"""What an answer repeats of its request, all together. A stream has it three times, and a client
that takes nothing leaves it in our memory: two hundred of them 75 MB. The instructions and tools of
coding agents have 30 to 100 KB."""

_NULL = msgspec.Raw(b"null")


class _Body(msgspec.Struct, gc=False):
    """The request; what its answer repeats is kept as text."""

    input: str | list[Item] | None = None
    stream: bool | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None

    instructions: msgspec.Raw = _NULL
    max_output_tokens: msgspec.Raw = _NULL
    metadata: msgspec.Raw = _NULL
    parallel_tool_calls: msgspec.Raw = _NULL
    reasoning: msgspec.Raw = _NULL
    temperature: msgspec.Raw = _NULL
    text: msgspec.Raw = _NULL
    tool_choice: msgspec.Raw = _NULL
    tools: msgspec.Raw = _NULL
    top_p: msgspec.Raw = _NULL
    truncation: msgspec.Raw = _NULL
    user: msgspec.Raw = _NULL

    background: bool | None = None
    context_management: msgspec.Raw = _NULL
    conversation: msgspec.Raw = _NULL
    moderation: msgspec.Raw = _NULL
    previous_response_id: msgspec.Raw = _NULL
    prompt: msgspec.Raw = _NULL
    top_logprobs: int | None = None


class _Reasoning(msgspec.Struct, gc=False):
    """How the model is to reason; ``generate_summary`` is the old name of ``summary``."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class _Format(msgspec.Struct, gc=False):
    type: str
    name: str | None = None
    schema: msgspec.Raw = _NULL
    description: str | None = None
    strict: bool | None = None


class _TextConfig(msgspec.Struct, gc=False):
    format: _Format | None = None


_body = msgspec.json.Decoder(_Body)
_string = msgspec.json.Decoder(str | None)
_number = msgspec.json.Decoder(float | None)
_integer = msgspec.json.Decoder(int | None)
_flag = msgspec.json.Decoder(bool | None)
_reasoning = msgspec.json.Decoder(_Reasoning | None)
_text_config = msgspec.json.Decoder(_TextConfig | None)

# Members that need what a provider has stored, or what only OpenAI has, and the remedy.
_REFUSED = {
    "previous_response_id": "refers to a stored response: send the whole conversation in input",
    "conversation": "refers to a stored conversation: send the whole conversation in input",
    "prompt": "refers to a stored prompt: send its text in instructions or input",
    "moderation": "has no counterpart at the model's provider: leave it out",
    "context_management": "has no counterpart at the model's provider: leave it out",
}
_EMPTY = (b"null", b"[]", b'""', b"{}")


def read_request(body: bytes) -> Request:
    """Read a request body.

    :raises GatewayError: ``untranslatable_request`` for what no other protocol can say,
        ``invalid_request`` for what is malformed; ``param`` names the member.
    """
    told = decode_request(_body.decode, body)
    _refuse_stored(told)
    functions = read_tools(told.tools)
    tool_choice = read_tool_choice(told.tool_choice, functions)
    reasoning = decode_request(_reasoning.decode, told.reasoning, "reasoning") or _Reasoning()
    user = decode_request(_string.decode, told.user, "user")
    member_text(told.metadata, "metadata")
    decode_request(_string.decode, told.truncation, "truncation")
    return Request(
        turns=_read_turns(told, functions),
        stream=bool(told.stream),
        max_tokens=_read_max_tokens(told),
        temperature=decode_request(_number.decode, told.temperature, "temperature"),
        top_p=decode_request(_number.decode, told.top_p, "top_p"),
        tools=functions.tools,
        tool_choice=tool_choice,
        parallel=decode_request(_flag.decode, told.parallel_tool_calls, "parallel_tool_calls"),
        effort=reasoning.effort or None,
        summaries=reasoning.summary or reasoning.generate_summary or None,
        format=_read_format(told),
        user=told.safety_identifier or user or None,
        service_tier=told.service_tier,
        echo=_read_echo(told),
        namespaces=functions.namespaces,
    )


def _refuse_stored(told: _Body) -> None:
    for name, what in _REFUSED.items():
        if bytes(getattr(told, name)) not in _EMPTY:
            raise untranslatable(name, f"{name} {what}")
    if told.background:
        raise untranslatable(
            "background", "background needs a stored response: leave it out, or stream"
        )
    if told.top_logprobs:
        raise untranslatable(
            "top_logprobs", "top_logprobs has no counterpart at the model's provider"
        )


def _read_turns(told: _Body, functions: FunctionTools) -> list[Turn]:
    turns = []
    instructions = decode_request(_string.decode, told.instructions, "instructions")
    if instructions:
        turns.append(Turn(Role.SYSTEM, [Text(instructions)], plain=True, path="instructions"))
    if functions.notes:
        notes = "\n\n".join(functions.notes)
        turns.append(Turn(Role.SYSTEM, [Text(notes)], plain=True, path="tools"))
    if isinstance(told.input, str):
        turns.append(Turn(Role.USER, [Text(told.input)], plain=True, path="input"))
        return turns
    if not told.input:
        raise missing("input")
    turns += read_items(told.input, functions.name_of, len(functions.tools))
    if not turns:
        raise untranslatable("input", "input holds nothing that a model could answer: add a text")
    return turns


def _read_max_tokens(told: _Body) -> int | None:
    bound = decode_request(_integer.decode, told.max_output_tokens, "max_output_tokens")
    if bound is not None and bound < 1:
        raise malformed("max_output_tokens", "max_output_tokens must be at least 1")
    return bound


def _read_format(told: _Body) -> Format | None:
    config = decode_request(_text_config.decode, told.text, "text")
    form = None if config is None else config.format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return Format()
    if form.type != "json_schema":
        raise untranslatable(
            "text.format",
            f"text.format is of the type {quoted(form.type)}: use text, json_object, json_schema",
        )
    schema = bytes(form.schema)
    if not schema.startswith(b"{"):
        raise missing("text.format.schema")
    return Format(schema, form.name or "response", form.description, form.strict)


def _read_echo(told: _Body) -> dict[str, bytes]:
    """Return what the answer repeats, on one line, since it stands in events, too.

    Beyond :data:`MAX_ECHO_BYTES` the longest are left out, as if they had not been given.
    """
    echo = {}
    room = MAX_ECHO_BYTES
    for name in sorted(ECHOED, key=lambda name: len(getattr(told, name))):
        value = bytes(getattr(told, name))
        room -= len(value)
        if room < 0:
            break
        if value != b"null":
            echo[name] = msgspec.json.format(value, indent=-1)
    return echo
