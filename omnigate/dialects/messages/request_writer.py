"""A request of an OpenAI client, written for a Messages upstream."""

from typing import Any

import msgspec

from omnigate.capabilities import Capabilities
from omnigate.dialects.messages.block_writer import Block, BlockWriter
from omnigate.dialects.messages.thinking import ThinkingPlan, plan_thinking
from omnigate.dialects.messages.turns import Conversation, Message, arrange, of_responses
from omnigate.dialects.parameters import tier_for_messages
from omnigate.dialects.request_body import ABSENT, malformed, untranslatable
from omnigate.dialects.shapes import (
    Choice,
    Document,
    Image,
    Quirk,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Written,
)

#: What asks for JSON of no particular form, which the protocol has no member for.
JSON_SENTENCE = "Respond only with a single valid JSON object and nothing else."

_CHOICES = {Choice.AUTO: "auto", Choice.NONE: "none", Choice.REQUIRED: "any", Choice.NAMED: "tool"}
# What a message of each role is made of; the results of tools stand apart.
_OF_USER = (Text, Image, Document)
_OF_ASSISTANT = (Text, Thinking, RedactedThinking, ToolCall)
_OF_SYSTEM = (Text,)
_FORCED = (Choice.REQUIRED, Choice.NAMED)

_encode = msgspec.json.Encoder().encode


class _Typed(msgspec.Struct, gc=False):
    """Whether a schema says what it is of."""

    type: msgspec.Raw = ABSENT


_decode_typed = msgspec.json.Decoder(_Typed).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write_request(request: Request, model: str, caps: Capabilities, quirks: Quirk) -> Written:
    """Write a request.

    :param model: the upstream's id of it.
    :raises GatewayError: ``untranslatable_request`` for what this model cannot do, with the place
        in the client's request.
    """
    said = arrange(request.turns, caps)
    max_tokens = _max_tokens(request, caps)
    choice = _tool_choice(request, caps)
    forced = request.tool_choice is not None and request.tool_choice.mode in _FORCED
    plan = plan_thinking(request, caps, said, max_tokens, forced)
    blocks = BlockWriter()
    members = {
        "model": model,
        "max_tokens": max_tokens,
        "stream": request.stream or None,
        # In prompt order, in which the marks are counted: tools, system, messages.
        "tools": [_tool(tool, blocks) for tool in request.tools] or None,
        "system": _system(request, said, blocks),
        "messages": [_message(message, blocks) for message in said.messages],
        "tool_choice": choice,
        "thinking": plan.thinking,
        "output_config": _output_config(request, caps, said, plan),
        "stop_sequences": [stop for stop in request.stop if stop.strip()] or None,
        "metadata": {"user_id": request.user} if request.user else None,
        "service_tier": tier_for_messages(request.service_tier),
        **_sampling(request, caps, quirks, plan),
    }
    blocks.place_marks()
    body = {name: value for name, value in members.items() if value is not None}
    return Written(_encode(body))


def _max_tokens(request: Request, caps: Capabilities) -> int:
    """Return the bound that the protocol demands, lowered to what the model puts out."""
    wished = request.max_tokens if request.max_tokens is not None else caps.default_max_tokens
    return min(wished, caps.max_output or wished)


def _system(request: Request, said: Conversation, blocks: BlockWriter) -> Any:
    texts = list(said.system)
    if request.format is not None and not request.format.schema:
        texts.append(Text(JSON_SENTENCE))
    if len(texts) == 1 and texts[0].cache is None:
        return texts[0].text
    return [blocks.block(text) for text in texts] or None


def _message(message: Message, blocks: BlockWriter) -> Block:
    role, allowed = _role(message.role)
    parts = message.parts
    if message.plain:
        text = parts[0]
        if isinstance(text, Text) and text.cache is None:
            return {"role": role, "content": text.text}
    for part in parts:
        if not isinstance(part, allowed):
            path = getattr(part, "path", "") or message.path
            raise untranslatable(path, f"{path} cannot stand in a message of the {role}: move it")
    block = blocks.block
    content = [block(part) for part in message.results]
    content += [block(part) for part in parts]
    return {"role": role, "content": content}


def _role(role: Role) -> tuple[str, tuple[type, ...]]:
    """Return the name of a role, and what its messages are made of; a hash of it takes longer."""
    if role is Role.USER:
        return "user", _OF_USER
    return ("assistant", _OF_ASSISTANT) if role is Role.ASSISTANT else ("system", _OF_SYSTEM)


def _tool(tool: Tool, blocks: BlockWriter) -> Block:
    block: Block = {"name": tool.name}
    if tool.description:
        block["description"] = tool.description
    block["input_schema"] = _schema(tool)
    if tool.strict:
        block["strict"] = True
    return blocks.mark(block, tool.cache)


def _schema(tool: Tool) -> Any:
    """Return the schema of a tool's arguments, which has to be one of an object."""
    if not tool.schema:
        return {"type": "object", "properties": {}}
    if bytes(_decode_typed(tool.schema).type) in (b"", b"null"):
        return _decode_members(tool.schema) | {"type": "object"}
    return msgspec.Raw(tool.schema)


def _tool_choice(request: Request, caps: Capabilities) -> Block | None:
    choice = request.tool_choice
    if choice is not None and choice.mode in _FORCED and not caps.forced_tools:
        message = (
            "tool_choice forces a call, which the model does not take: use auto, and say in the"
            " prompt that the tool has to be called"
        )
        raise untranslatable("tool_choice", message)
    if not request.tools:
        if choice is not None and choice.mode in _FORCED:
            message = "tool_choice forces a call, and there are no tools: add them"
            raise malformed("tool_choice", message)
        return None
    one_at_a_time = request.parallel is False
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if one_at_a_time else None
    block: Block = {"type": _CHOICES[choice.mode]}
    if choice.mode is Choice.NAMED:
        block["name"] = choice.name
    if one_at_a_time and choice.mode is not Choice.NONE:
        block["disable_parallel_tool_use"] = True
    return block


def _output_config(
    request: Request, caps: Capabilities, said: Conversation, plan: ThinkingPlan
) -> Block | None:
    config: Block = {}
    if plan.effort is not None:
        config["effort"] = plan.effort
    form = request.format
    if form is not None and form.schema:
        path = "text.format" if of_responses(request.turns) else "response_format"
        if not caps.structured_outputs:
            message = (
                f"{path} is a schema, which the model cannot be held to: describe the form in the"
                " prompt, or ask another model"
            )
            raise untranslatable(path, message)
        if said.prefill:
            message = (
                f"{said.messages[-1].path} is the assistant's and the last, and an answer that is"
                f" continued cannot be held to a schema: leave one of them out, or {path}"
            )
            raise untranslatable(said.messages[-1].path, message)
        config["format"] = {"type": "json_schema", "schema": msgspec.Raw(form.schema)}
    return config or None


def _sampling(
    request: Request, caps: Capabilities, quirks: Quirk, plan: ThinkingPlan
) -> dict[str, float]:
    """Return how the model picks its words, where it lets itself be told."""
    if not caps.sampling or plan.thinks or Quirk.NO_SAMPLING in quirks:
        return {}
    sampling: dict[str, float] = {}
    if request.temperature is not None:
        sampling["temperature"] = min(request.temperature, 1)
    elif request.top_p is not None:
        sampling["top_p"] = request.top_p
    if request.top_k is not None:
        sampling["top_k"] = request.top_k
    return sampling
