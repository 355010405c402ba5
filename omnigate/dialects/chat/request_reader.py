"""Chat Completions request → :class:`Request`.

What the other protocols have no word for, and what an answer could not keep, is refused; what only
tunes (penalties, a seed, a cache key, metadata) is left out in silence.
"""

import msgspec

from omnigate.dialects.chat import request_shapes as chat
from omnigate.dialects.chat.turns_reader import read_turns
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
    CacheMark,
    Choice,
    Format,
    Request,
    ThinkingWish,
    Tool,
    ToolChoice,
)
from omnigate.errors import GatewayError
from omnigate.text import quoted

_decode = msgspec.json.Decoder(chat.ChatRequest).decode

_MODES = {"none": Choice.NONE, "auto": Choice.AUTO, "required": Choice.REQUIRED}


class _Thinking(msgspec.Struct, gc=False):
    type: str | None = None
    budget_tokens: int | None = None
    display: str | None = None


_decode_thinking = msgspec.json.Decoder(_Thinking).decode


def read_request(body: bytes) -> Request:
    """Read what a client of Chat asks.

    :raises GatewayError: ``untranslatable_request`` for what no other protocol can do,
        ``invalid_request`` or ``invalid_json`` for what is malformed.
    """
    wanted = decode_request(_decode, body)
    if wanted.messages is None:
        raise missing("messages")
    check_pieces(_pieces(wanted))
    _refuse_untranslatable(wanted)
    tools = _tools(wanted)
    tools, choice = _choice(wanted, tools)
    return Request(
        turns=read_turns(wanted.messages),
        stream=bool(wanted.stream),
        max_tokens=_max_tokens(wanted),
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        stop=[wanted.stop] if isinstance(wanted.stop, str) else wanted.stop or [],
        tools=tools,
        tool_choice=choice,
        parallel=wanted.parallel_tool_calls,
        effort=wanted.reasoning_effort,
        thinking=_thinking(wanted),
        format=_format(wanted),
        user=wanted.safety_identifier or wanted.user,
        service_tier=wanted.service_tier,
        include_usage=bool(wanted.stream_options and wanted.stream_options.include_usage),
    )


def _pieces(wanted: chat.ChatRequest) -> int:
    count = len(wanted.tools or ()) + len(wanted.functions or ())
    count += len(wanted.stop or ()) if isinstance(wanted.stop, list) else 0
    for message in wanted.messages or ():
        count += 1 + len(message.tool_calls or ()) + len(message.thinking_blocks or ())
        count += message.tool_call_id is not None
        if isinstance(message.content, list):
            count += len(message.content)
    return count


def _refuse_untranslatable(wanted: chat.ChatRequest) -> None:
    if wanted.n is not None and wanted.n != 1:
        raise untranslatable("n", "n has to be 1: the routed model gives one choice")
    if wanted.logprobs:
        raise _without("logprobs")
    if wanted.top_logprobs:
        raise _without("top_logprobs")
    if is_given(wanted.logit_bias, b"{}"):
        raise _without("logit_bias")
    if is_given(wanted.audio) or any(kind != "text" for kind in wanted.modalities or ()):
        raise untranslatable(
            "modalities", "modalities and audio: the routed model answers with text only"
        )
    if is_given(wanted.web_search_options):
        raise _without("web_search_options")
    if is_given(wanted.moderation):
        raise _without("moderation")


def _without(name: str) -> GatewayError:
    return untranslatable(name, f"{name} has no counterpart at the routed model: leave it out")


def _max_tokens(wanted: chat.ChatRequest) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        bound: int | None = getattr(wanted, name)
        if bound is None:
            continue
        if bound < 1:
            raise malformed(name, f"{name} has to be at least 1")
        return bound
    return None


def _thinking(wanted: chat.ChatRequest) -> ThinkingWish | None:
    raw = member_text(wanted.thinking, "thinking")
    if not raw:
        return None
    wish = decode_request(_decode_thinking, raw, "thinking")
    if wish.type is None:
        raise missing("thinking.type")
    return ThinkingWish(wish.type, wish.budget_tokens or 0, wish.display, raw)


def _format(wanted: chat.ChatRequest) -> Format | None:
    given = wanted.response_format
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return Format()
    if given.type is None:
        raise missing("response_format.type")
    if given.type != "json_schema":
        raise untranslatable(
            "response_format",
            f"response_format is of the type {quoted(given.type)}: use text, json_object or"
            " json_schema",
        )
    form = given.json_schema
    if form is None:
        raise missing("response_format.json_schema")
    schema = member_text(form.schema, "response_format.json_schema.schema")
    return Format(schema, form.name or "response", form.description, form.strict)


# -- tools


def _tools(wanted: chat.ChatRequest) -> list[Tool]:
    tools = [_tool(spec, f"tools[{at}]") for at, spec in enumerate(wanted.tools or ())]
    for at, function in enumerate(wanted.functions or ()):
        path = f"functions[{at}]"
        tools.append(_function_tool(function, path, path))
    return tools


def _tool(spec: chat.ToolSpec, path: str) -> Tool:
    if spec.type not in (None, "function"):
        raise untranslatable(
            path,
            f"{path} is of the type {quoted(spec.type)}, which has no counterpart at the routed"
            " model: use a function",
        )
    if spec.function is None:
        raise missing(f"{path}.function")
    tool = _function_tool(spec.function, path, f"{path}.function")
    mark = member_text(spec.cache_control, f"{path}.cache_control")
    tool.cache = CacheMark(mark, openai=False) if mark else None
    return tool


def _function_tool(function: chat.FunctionTool, path: str, place: str) -> Tool:
    if not function.name:
        raise missing(f"{place}.name")
    schema = member_text(function.parameters, f"{place}.parameters")
    return Tool(function.name, function.description, schema, function.strict, path=path)


def _choice(wanted: chat.ChatRequest, tools: list[Tool]) -> tuple[list[Tool], ToolChoice | None]:
    """Return the tools that may be called, and whether they are to be."""
    place, given = "tool_choice", wanted.tool_choice
    if given is None:
        place, old = "function_call", wanted.function_call
        given = chat.Choice("function", old) if isinstance(old, chat.Named) else old
    if given is None:
        return tools, None
    if isinstance(given, str):
        choice = ToolChoice(_mode(given, place))
    elif given.type == "allowed_tools":
        tools, choice = _allowed(given, tools)
    elif given.type in (None, "function"):
        if given.function is None or not given.function.name:
            raise missing(f"{place}.function.name")
        choice = ToolChoice(Choice.NAMED, given.function.name)
    else:
        raise untranslatable(
            place, f"{place} is of the type {quoted(given.type)}: only functions can be chosen"
        )
    if tools:
        return tools, choice
    if choice.mode in (Choice.REQUIRED, Choice.NAMED):
        message = f"{place} demands a call, and there are no tools: send some"
        raise malformed(place, message)
    return tools, None


def _mode(word: str, place: str) -> Choice:
    mode = _MODES.get(word)
    if mode is None:
        message = f"{place} is {quoted(word)}: use none, auto, required or a function"
        raise malformed(place, message)
    return mode


def _allowed(given: chat.Choice, tools: list[Tool]) -> tuple[list[Tool], ToolChoice]:
    """Cut the tools to those that are allowed; their order stays."""
    place = "tool_choice.allowed_tools"
    allowed = given.allowed_tools
    if allowed is None:
        raise missing(place)
    names = set()
    for at, tool in enumerate(allowed.tools or ()):
        if tool.type not in (None, "function"):
            raise untranslatable(
                "tool_choice", f"{place}.tools[{at}] is no function: only functions can be chosen"
            )
        if tool.function is None or not tool.function.name:
            raise missing(f"{place}.tools[{at}].function.name")
        names.add(tool.function.name)
    unknown = names - {tool.name for tool in tools}
    if unknown:
        message = f"{place} names {quoted(min(unknown))}, which is not among the tools"
        raise malformed("tool_choice", message)
    mode = _mode(allowed.mode or "auto", f"{place}.mode")
    return [tool for tool in tools if tool.name in names], ToolChoice(mode)
