"""The rules of Chat Completions, as strictly as the hosted API keeps them."""

import json
import re
from typing import Any

from omnigate.testing.provider_heard import (
    IMAGE_TYPES,
    BrokenRuleError,
    Heard,
    HeardCall,
    HeardResult,
    Media,
    check_strict,
    data_url,
    list_of,
    members,
    need,
    one_of,
    schema_of,
    text_of,
    whole_number,
)
from omnigate.testing.provider_request import SeenRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_USER_CHARACTERS = 128

_REQUIRED = ("model", "messages")
_OPTIONAL = (
    "max_completion_tokens",
    "max_tokens",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "user",
    "safety_identifier",
    "service_tier",
    "n",
    "seed",
    "store",
    "metadata",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "verbosity",
    "prompt_cache_key",
    "prompt_cache_retention",
)
_MAX_ID_CHARACTERS = 40
_MAX_STOPS = 4
# What each side's message has besides its role and content.
_EXTRA = {
    "system": ("name",),
    "developer": ("name",),
    "user": ("name",),
    "assistant": ("name", "refusal", "tool_calls", "audio", "annotations"),
    "tool": (),
}
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}


def hear_chat(request: SeenRequest) -> Heard:
    """Read a request.

    :raises BrokenRuleError: the hosted API would refuse it.
    """
    fields = members(request.fields, "body", _REQUIRED, _OPTIONAL)
    both = "max_tokens" in fields and "max_completion_tokens" in fields
    need(not both, "max_tokens", "may not be set together with max_completion_tokens")
    for name in ("max_tokens", "max_completion_tokens"):
        whole_number(fields.get(name, 1), name, 1)
    alone = "stream_options" in fields and fields.get("stream") is not True
    need(not alone, "stream_options", "is only allowed when stream is enabled")
    stops = fields.get("stop") or []
    for at, stop in enumerate([stops] if isinstance(stops, str) else stops):
        need(at < _MAX_STOPS, "stop", "at most 4 are allowed")
        text_of(stop, f"stop[{at}]")
    for name in ("user", "safety_identifier"):
        fits = len(text_of(fields.get(name, ""), name)) <= MAX_USER_CHARACTERS
        need(fits, name, f"is longer than {MAX_USER_CHARACTERS} characters")
    one_of(fields.get("reasoning_effort", "low"), "reasoning_effort", EFFORTS)
    heard = Heard(thinks=fields.get("reasoning_effort") != "none", shows=True)
    _read_tools(fields, heard)
    _read_format(fields.get("response_format", {"type": "text"}), heard)
    _read_messages(list_of(fields["messages"], "messages"), heard)
    return heard


def read_choice(choice: Any, fields: dict[str, Any], named: Any, heard: Heard) -> None:
    """Whether tools are called, in Chat or Responses.

    :param named: the name, where the choice is an object with one.
    """
    if "parallel_tool_calls" in fields:
        need(heard.tools, "parallel_tool_calls", "is only allowed when 'tools' are specified")
    if choice is None:
        return
    need(heard.tools, "tool_choice", "is only allowed when 'tools' are specified")
    if isinstance(choice, str):
        one_of(choice, "tool_choice", ("none", "auto", "required"))
    else:
        one_of(named, "tool_choice", list(heard.tools))


def read_form(form: dict[str, Any], place: str, heard: Heard) -> None:
    """The schema that an answer is held to, in Chat or Responses."""
    name = text_of(form["name"], f"{place}.name")
    need(NAME.fullmatch(name), f"{place}.name", f"{name!r} is no name of a format")
    heard.schema = schema_of(form["schema"], f"{place}.schema")
    if form.get("strict"):
        check_strict(heard.schema, f"{place}.schema")


def read_function(tool: dict[str, Any], place: str, heard: Heard) -> None:
    """A function that the model may call, in Chat or Responses."""
    name = text_of(tool["name"], f"{place}.name")
    need(NAME.fullmatch(name), f"{place}.name", f"{name!r} is no name of a function")
    need(name not in heard.tools, f"{place}.name", "names of functions must be unique")
    text_of(tool.get("description") or "", f"{place}.description")
    schema = tool.get("parameters")
    heard.tools[name] = {} if schema is None else schema_of(schema, f"{place}.parameters")
    if tool.get("strict"):
        check_strict(schema, f"{place}.parameters")


def called(value: Any, place: str) -> dict[str, Any]:
    """The arguments of a call that came back."""
    text = text_of(value, place)
    try:
        arguments = json.loads(text)
    except ValueError:
        raise BrokenRuleError(f"{place}: is no JSON") from None
    need(isinstance(arguments, dict), place, "an object is expected")
    found: dict[str, Any] = arguments
    return found


def _read_tools(fields: dict[str, Any], heard: Heard) -> None:
    """The tools, and whether they are called."""
    for at, value in enumerate(fields.get("tools") or ()):
        tool = members(value, f"tools[{at}]", ("type", "function"))
        one_of(tool["type"], f"tools[{at}].type", ("function",))
        place = f"tools[{at}].function"
        inner = members(tool["function"], place, ("name",), ("description", "parameters", "strict"))
        read_function(inner, place, heard)
    choice = fields.get("tool_choice")
    named = None
    if isinstance(choice, dict):
        members(choice, "tool_choice", ("type", "function"))
        named = members(choice["function"], "tool_choice.function", ("name",))["name"]
    read_choice(choice, fields, named, heard)


def _read_format(value: Any, heard: Heard) -> None:
    """The form that the answer is held to."""
    form = members(value, "response_format", ("type",), ("json_schema",))
    kind = one_of(form["type"], "response_format.type", ("text", "json_object", "json_schema"))
    need((kind == "json_schema") == ("json_schema" in form), "response_format", "has no schema")
    if kind == "json_schema":
        place = "response_format.json_schema"
        inner = members(form["json_schema"], place, ("name", "schema"), ("description", "strict"))
        read_form(inner, place, heard)


def _read_messages(messages: list[Any], heard: Heard) -> None:
    """The conversation: every call is answered by the tool messages right behind it."""
    open_ids: list[str] = []
    for at, value in enumerate(messages):
        place = f"messages[{at}]"
        need(isinstance(value, dict), place, "an object is expected")
        role = one_of(value.get("role"), f"{place}.role", tuple(_EXTRA))
        if role == "tool":
            message = members(value, place, ("role", "content", "tool_call_id"))
            number = _call_id(message["tool_call_id"], f"{place}.tool_call_id")
            need(number in open_ids, place, f"{number!r} answers none of the calls {open_ids}")
            open_ids.remove(number)
            text = _content(message["content"], f"{place}.content", role, Heard())
            heard.turn("tool").results.append(HeardResult(number, text))
            continue
        need(not open_ids, place, f"the calls {open_ids} are not answered by tool messages")
        message = members(value, place, ("role",), ("content", *_EXTRA[role]))
        if role == "assistant":
            open_ids = _read_assistant(message, place, heard)
        else:
            need(message.get("content") is not None, f"{place}.content", "is missing")
            _content(message["content"], f"{place}.content", role, heard)
    need(not open_ids, "messages", f"the calls {open_ids} are not answered by tool messages")


def _read_assistant(message: dict[str, Any], place: str, heard: Heard) -> list[str]:
    """A message of the model; the ids of its calls."""
    calls = message.get("tool_calls")
    content = message.get("content")
    refusal = message.get("refusal")
    said = content is not None or calls is not None or refusal is not None
    need(said, place, "content is required unless there are tool_calls")
    if content is not None:
        _content(content, f"{place}.content", "assistant", heard)
    ids: list[str] = []
    for at, value in enumerate(list_of(calls, f"{place}.tool_calls") if calls is not None else ()):
        where = f"{place}.tool_calls[{at}]"
        call = members(value, where, ("id", "type", "function"))
        one_of(call["type"], f"{where}.type", ("function",))
        function = members(call["function"], f"{where}.function", ("name", "arguments"))
        name = text_of(function["name"], f"{where}.function.name")
        need(NAME.fullmatch(name), f"{where}.function.name", f"{name!r} is no name")
        arguments = called(function["arguments"], f"{where}.function.arguments")
        ids.append(_call_id(call["id"], f"{where}.id"))
        heard.turn("assistant").calls.append(HeardCall(ids[-1], name, arguments))
    need(len(set(ids)) == len(ids), place, "ids of calls must be unique")
    return ids


def _call_id(value: Any, place: str) -> str:
    """The id of a call."""
    number = text_of(value, place, blank=False)
    fits = len(number) <= _MAX_ID_CHARACTERS
    need(fits, place, f"is longer than {_MAX_ID_CHARACTERS} characters")
    return number


def _content(value: Any, place: str, role: str, heard: Heard) -> str:
    """Content of a message, a string or parts; its text."""
    if isinstance(value, str):
        if role != "tool":
            _turn(role, heard).texts.append(value)
        return value
    texts: list[str] = []
    for at, item in enumerate(list_of(value, place)):
        where = f"{place}[{at}]"
        need(isinstance(item, dict), where, "an object is expected")
        kind = one_of(item.get("type"), f"{where}.type", _PARTS[role])
        members(item, where, ("type", kind), ("prompt_cache_breakpoint",))
        if kind in ("text", "refusal"):
            texts.append(text_of(item[kind], f"{where}.{kind}"))
        else:
            _turn(role, heard).media.append(_media(kind, item[kind], f"{where}.{kind}"))
    if role != "tool":
        _turn(role, heard).texts += texts
    return "".join(texts)


def _turn(role: str, heard: Heard) -> Any:
    """The turn of this side; a developer is the system."""
    return heard.turn("system" if role == "developer" else role)  # type: ignore[arg-type]


def _media(kind: str, value: Any, place: str) -> Media:
    """An image or a file."""
    if kind == "image_url":
        image = members(value, place, ("url",), ("detail",))
        one_of(image.get("detail", "auto"), f"{place}.detail", ("auto", "low", "high", "original"))
        return data_url(image["url"], f"{place}.url", IMAGE_TYPES)
    file = members(value, place, ("filename", "file_data"))
    text_of(file["filename"], f"{place}.filename", blank=False)
    return data_url(file["file_data"], f"{place}.file_data", ("application/pdf",))
