"""Shapes → a request for a Responses upstream.

The gateway keeps no state with a provider: ``store`` is always false, and the whole conversation
goes along. What Responses has no member for (stop sequences, ``top_k``) is left out.
"""

from typing import Any

import msgspec

from omnigate.capabilities import Capabilities
from omnigate.dialects.parameters import (
    openai_effort,
    openai_max_tokens,
    openai_sampling,
    openai_user,
)
from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.responses.item_writer import write_items
from omnigate.dialects.shapes import Choice, Format, Quirk, Request, Tool, Written
from omnigate.dialects.tool_ids import openai_name
from omnigate.dialects.tool_pairs import check_turns

MIN_OUTPUT_TOKENS = 16
"""The least that the API takes; clients are known to probe with 1."""

_NO_PARAMETERS = b'{"type":"object","properties":{}}'


def write_request(
    request: Request, model: str, caps: Capabilities, quirks: Quirk = Quirk.NONE
) -> Written:
    """Return the request for an upstream.

    :param model: the upstream's name of it.
    :raises GatewayError: ``untranslatable_request`` where nothing is said, or a call of a tool has
        no result, or a result no call.
    """
    check_turns(request.turns)
    items = write_items(request.turns, caps.reasoning)
    if not items:
        place = request.turns[0].path if request.turns else "messages"
        raise untranslatable(place, f"{place}: the conversation is empty; say something in it")
    names = _shortened(request)
    body: dict[str, Any] = {"model": model, "store": False}
    if request.keeps_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if request.stream:
        body["stream"] = True
    body["input"] = items
    bound = openai_max_tokens(request, caps, MIN_OUTPUT_TOKENS)
    if bound is not None:
        body["max_output_tokens"] = bound
    reasoning = _reasoning(request, caps)
    if reasoning:
        body["reasoning"] = reasoning
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body |= _choice(request)
    if request.format is not None:
        body["text"] = {"format": _format(request.format)}
    body |= openai_sampling(request, caps, quirks)
    body |= openai_user(request, caps)
    if request.service_tier is not None:
        body["service_tier"] = request.service_tier
    return Written(msgspec.json.encode(body), names)


def _shortened(request: Request) -> dict[str, str]:
    """Return the names that had to be shortened, by what they became."""
    names = {openai_name(tool.name): tool.name for tool in request.tools}
    return {short: name for short, name in names.items() if short != name}


def _reasoning(request: Request, caps: Capabilities) -> dict[str, str]:
    if not caps.reasoning:
        return {}
    told = {"effort": openai_effort(request, caps), "summary": request.summaries}
    return {name: value for name, value in told.items() if value is not None}


def _tool(tool: Tool) -> dict[str, Any]:
    """Return a function; where nothing is said of it, the API would take it for a strict one."""
    written: dict[str, Any] = {"type": "function", "name": openai_name(tool.name)}
    if tool.description is not None:
        written["description"] = tool.description
    written["parameters"] = msgspec.Raw(tool.schema or _NO_PARAMETERS)
    written["strict"] = tool.strict or False
    return written


def _choice(request: Request) -> dict[str, Any]:
    written: dict[str, Any] = {}
    choice = request.tool_choice
    if choice is not None:
        named = choice.mode is Choice.NAMED
        written["tool_choice"] = (
            {"type": "function", "name": openai_name(choice.name)} if named else choice.mode.value
        )
    if request.parallel is False:
        written["parallel_tool_calls"] = False
    return written


def _format(form: Format) -> dict[str, Any]:
    if not form.schema:
        return {"type": "json_object"}
    written: dict[str, Any] = {"type": "json_schema", "name": form.name}
    if form.description is not None:
        written["description"] = form.description
    written["schema"] = msgspec.Raw(form.schema)
    if form.strict is not None:
        written["strict"] = form.strict
    return written
