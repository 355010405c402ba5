""":class:`Request` → Chat Completions request, for an OpenAI upstream or one that is like it."""

from typing import Any

import msgspec

from omnigate.capabilities import Capabilities
from omnigate.dialects.chat.turns_writer import ShortNames, write_turns
from omnigate.dialects.parameters import (
    openai_effort,
    openai_max_tokens,
    openai_sampling,
    openai_stop,
    openai_user,
)
from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.shapes import Choice, Format, Quirk, Request, Tool, ToolChoice, Written
from omnigate.dialects.tool_pairs import check_turns

_encode = msgspec.json.Encoder().encode

_MODES = {Choice.AUTO: "auto", Choice.NONE: "none", Choice.REQUIRED: "required"}


def write_request(request: Request, model: str, caps: Capabilities, quirks: Quirk) -> Written:
    """Write the request as a Chat upstream takes it.

    :param model: the upstream's name of it.
    :raises GatewayError: it holds what Chat cannot take, or a call of a tool has no result behind
        it, or a result no call.
    """
    check_turns(request.turns)
    names = ShortNames()
    messages = write_turns(request.turns, names, Quirk.THOUGHT_SIGNATURE in quirks)
    if not messages:
        place = request.turns[0].path if request.turns else "messages"
        raise untranslatable(place, f"{place}: the conversation is empty; say something in it")
    body: dict[str, Any] = {"model": model, "messages": messages}
    bound = openai_max_tokens(request, caps)
    if bound is not None:
        body[caps.max_tokens_field] = bound
    if request.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    body |= openai_sampling(request, caps, quirks)
    stop = openai_stop(request, caps)
    if stop:
        body["stop"] = stop
    if request.tools:
        body |= _tools(request, names)
    effort = openai_effort(request, caps)
    if effort is not None:
        body["reasoning_effort"] = effort
    if request.format is not None:
        body["response_format"] = _format(request.format)
    if request.service_tier is not None:
        body["service_tier"] = request.service_tier
    body |= openai_user(request, caps)
    return Written(_encode(body), names.shortened)


def _tools(request: Request, names: ShortNames) -> dict[str, Any]:
    members: dict[str, Any] = {"tools": [_tool(tool, names) for tool in request.tools]}
    if request.tool_choice is not None:
        members["tool_choice"] = _choice(request.tool_choice, names)
    if request.parallel is False:
        members["parallel_tool_calls"] = False
    return members


def _tool(tool: Tool, names: ShortNames) -> dict[str, Any]:
    function: dict[str, Any] = {"name": names.spell(tool.name)}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.schema:
        function["parameters"] = msgspec.Raw(tool.schema)
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice, names: ShortNames) -> str | dict[str, Any]:
    if choice.mode is Choice.NAMED:
        return {"type": "function", "function": {"name": names.spell(choice.name)}}
    return _MODES[choice.mode]


def _format(form: Format) -> dict[str, Any]:
    if not form.schema:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": form.name, "schema": msgspec.Raw(form.schema)}
    if form.description is not None:
        schema["description"] = form.description
    if form.strict is not None:
        schema["strict"] = form.strict
    return {"type": "json_schema", "json_schema": schema}
