"""The rules of the Responses API, as strictly as the hosted API keeps them."""

from typing import Any

from omnigate.testing.provider_heard import (
    IMAGE_TYPES,
    Heard,
    HeardCall,
    HeardResult,
    Media,
    Thought,
    data_url,
    is_seal,
    list_of,
    members,
    need,
    one_of,
    text_of,
    whole_number,
)
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_rules_chat import (
    EFFORTS,
    MAX_USER_CHARACTERS,
    NAME,
    called,
    read_choice,
    read_form,
    read_function,
)

SEALED = "reasoning.encrypted_content"

_OPTIONAL = (
    "input",
    "instructions",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "include",
    "stream",
    "stream_options",
    "store",
    "temperature",
    "top_p",
    "truncation",
    "metadata",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
)
_LEAST_OUTPUT = 16
_MAX_CALL_ID_CHARACTERS = 64
_SUMMARIES = ("auto", "concise", "detailed")
_TOOL_OPTIONAL = ("description", "defer_loading", "output_schema", "allowed_callers")
_INPUTS = ("input_text", "input_image", "input_file")
# What each side may say in a message.
_PARTS = {
    "system": _INPUTS,
    "developer": _INPUTS,
    "user": _INPUTS,
    "assistant": ("output_text", "refusal"),
}
# How the id of an item begins, where it has one.
_PREFIXES = {"message": "msg_", "function_call": "fc_", "reasoning": "rs_"}
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")


def hear_responses(request: SeenRequest) -> Heard:
    """Read a request.

    :raises BrokenRuleError: the hosted API would refuse it.
    """
    fields = members(request.fields, "body", ("model",), _OPTIONAL)
    need("input" in fields, "input", "is missing")
    cap = fields.get("max_output_tokens", _LEAST_OUTPUT)
    whole_number(cap, "max_output_tokens", _LEAST_OUTPUT)
    for name in ("user", "safety_identifier"):
        fits = len(text_of(fields.get(name, ""), name)) <= MAX_USER_CHARACTERS
        need(fits, name, f"is longer than {MAX_USER_CHARACTERS} characters")
    heard = Heard()
    _read_reasoning(fields, heard)
    _read_tools(fields, heard)
    _read_format(fields.get("text", {}), heard)
    if fields.get("instructions") is not None:
        heard.turn("system").texts.append(text_of(fields["instructions"], "instructions"))
    if isinstance(fields["input"], str):
        heard.turn("user").texts.append(text_of(fields["input"], "input", blank=False))
    else:
        _read_items(list_of(fields["input"], "input"), heard)
    return heard


def _read_reasoning(fields: dict[str, Any], heard: Heard) -> None:
    """Whether the model reasons, tells of it, and seals it."""
    wish = members(fields.get("reasoning") or {}, "reasoning", (), ("effort", "summary"))
    one_of(wish.get("effort"), "reasoning.effort", (None, *EFFORTS))
    one_of(wish.get("summary"), "reasoning.summary", (None, *_SUMMARIES))
    include = fields.get("include") or []
    for at, name in enumerate(include):
        one_of(name, f"include[{at}]", (SEALED,))
    heard.thinks = wish.get("effort") != "none"
    heard.shows = wish.get("summary") is not None
    heard.seals = SEALED in include


def _read_tools(fields: dict[str, Any], heard: Heard) -> None:
    """The tools, each saying whether it is strict, and whether they are called."""
    for at, value in enumerate(fields.get("tools") or ()):
        place = f"tools[{at}]"
        required = ("type", "name", "parameters", "strict")
        tool = members(value, place, required, _TOOL_OPTIONAL)
        one_of(tool["type"], f"{place}.type", ("function",))
        one_of(tool["strict"], f"{place}.strict", (True, False, None))
        read_function(tool, place, heard)
    choice = fields.get("tool_choice")
    named = None
    if isinstance(choice, dict):
        named = members(choice, "tool_choice", ("type", "name"))["name"]
    read_choice(choice, fields, named, heard)


def _read_format(value: Any, heard: Heard) -> None:
    """The form that the answer is held to."""
    text = members(value, "text", (), ("format", "verbosity"))
    form = text.get("format") or {"type": "text"}
    need(isinstance(form, dict), "text.format", "an object is expected")
    kind = one_of(form.get("type"), "text.format.type", ("text", "json_object", "json_schema"))
    if kind != "json_schema":
        members(form, "text.format", ("type",))
        return
    members(form, "text.format", ("type", "name", "schema"), ("description", "strict"))
    read_form(form, "text.format", heard)


def _read_items(items: list[Any], heard: Heard) -> None:
    """The conversation: calls and their outputs pair, and reasoning stands before its deed."""
    open_ids: list[str] = []
    for at, value in enumerate(items):
        place = f"input[{at}]"
        need(isinstance(value, dict), place, "an object is expected")
        kind = one_of(value.get("type", "message"), f"{place}.type", _ITEMS)
        number = text_of(value.get("id") or _PREFIXES.get(kind, ""), f"{place}.id")
        fits = number.startswith(_PREFIXES.get(kind, ""))
        need(fits, f"{place}.id", f"{number!r} does not begin with {_PREFIXES.get(kind)!r}")
        if kind == "message":
            _read_message(value, place, heard)
        elif kind == "reasoning":
            heard.turn("assistant").thoughts.append(_thought(value, place))
            _check_followed(items, at)
        elif kind == "function_call":
            call = _call(value, place)
            need(call.id not in open_ids, f"{place}.call_id", "stands twice")
            open_ids.append(call.id)
            heard.turn("assistant").calls.append(call)
        else:
            result = _result(value, place)
            paired = result.call_id in open_ids
            need(paired, place, f"No tool call found for function call output {result.call_id}")
            open_ids.remove(result.call_id)
            heard.turn("tool").results.append(result)
    need(not open_ids, "input", f"No tool output found for function call {open_ids}")


def _check_followed(items: list[Any], at: int) -> None:
    """A reasoning item is followed by what it led to."""
    after = items[at + 1] if at + 1 < len(items) else {}
    kind = after.get("type", "message") if isinstance(after, dict) else None
    assistants = kind == "message" and after.get("role") == "assistant"
    followed = assistants or kind in ("reasoning", "function_call")
    need(followed, f"input[{at}]", "reasoning was provided without its required following item")


def _read_message(value: dict[str, Any], place: str, heard: Heard) -> None:
    """A message of any side."""
    message = members(value, place, ("role", "content"), ("type", "id", "status", "phase"))
    role = one_of(message["role"], f"{place}.role", tuple(_PARTS))
    turn = heard.turn("system" if role == "developer" else role)
    if isinstance(message["content"], str):
        turn.texts.append(message["content"])
        return
    texts, media = _parts(message["content"], f"{place}.content", _PARTS[role])
    turn.texts += texts
    turn.media += media


def _parts(value: Any, place: str, allowed: tuple[str, ...]) -> tuple[list[str], list[Media]]:
    """Parts of a message or of a tool's output."""
    texts: list[str] = []
    media: list[Media] = []
    for at, part in enumerate(list_of(value, place)):
        where = f"{place}[{at}]"
        need(isinstance(part, dict), where, "an object is expected")
        kind = one_of(part.get("type"), f"{where}.type", allowed)
        if kind == "refusal":
            members(part, where, ("type", "refusal"))
            texts.append(text_of(part["refusal"], f"{where}.refusal"))
        elif kind in ("input_text", "output_text"):
            extra = ("annotations", "logprobs") if kind == "output_text" else ()
            members(part, where, ("type", "text"), ("prompt_cache_breakpoint", *extra))
            texts.append(text_of(part["text"], f"{where}.text"))
        elif kind == "input_image":
            required = ("type", "image_url", "detail")
            members(part, where, required, ("prompt_cache_breakpoint",))
            one_of(part["detail"], f"{where}.detail", ("auto", "low", "high", "original"))
            media.append(data_url(part["image_url"], f"{where}.image_url", IMAGE_TYPES))
        else:
            media.append(_file(part, where))
    return texts, media


def _file(part: dict[str, Any], place: str) -> Media:
    """A file: at an address, or named and with its data."""
    if "file_url" in part:
        members(part, place, ("type", "file_url"), ("filename", "prompt_cache_breakpoint"))
        return data_url(part["file_url"], f"{place}.file_url", ())
    members(part, place, ("type", "filename", "file_data"), ("prompt_cache_breakpoint",))
    text_of(part["filename"], f"{place}.filename", blank=False)
    return data_url(part["file_data"], f"{place}.file_data", ("application/pdf",))


def _thought(value: dict[str, Any], place: str) -> Thought:
    """A reasoning item; since nothing is stored, it comes back sealed."""
    required = ("type", "id", "summary", "encrypted_content")
    item = members(value, place, required, ("content", "status"))
    seal = text_of(item["encrypted_content"], f"{place}.encrypted_content", blank=False)
    need(is_seal(seal), f"{place}.encrypted_content", "could not be verified")
    need(isinstance(item["summary"], list), f"{place}.summary", "a list is expected")
    texts = []
    for at, part in enumerate(item["summary"]):
        members(part, f"{place}.summary[{at}]", ("type", "text"))
        one_of(part["type"], f"{place}.summary[{at}].type", ("summary_text",))
        texts.append(text_of(part["text"], f"{place}.summary[{at}].text"))
    return Thought("\n\n".join(texts), seal)


def _call(value: dict[str, Any], place: str) -> HeardCall:
    """A call of a function."""
    required = ("type", "call_id", "name", "arguments")
    item = members(value, place, required, ("id", "status", "namespace"))
    name = text_of(item["name"], f"{place}.name")
    need(NAME.fullmatch(name), f"{place}.name", f"{name!r} is no name of a function")
    return HeardCall(_call_id(item, place), name, called(item["arguments"], f"{place}.arguments"))


def _result(value: dict[str, Any], place: str) -> HeardResult:
    """What a function answered: text, or parts."""
    item = members(value, place, ("type", "call_id", "output"), ("id", "status"))
    if isinstance(item["output"], str):
        return HeardResult(_call_id(item, place), item["output"])
    texts, media = _parts(item["output"], f"{place}.output", _INPUTS)
    return HeardResult(_call_id(item, place), "".join(texts), tuple(media))


def _call_id(item: dict[str, Any], place: str) -> str:
    """The id that pairs a call with its output."""
    number = text_of(item["call_id"], f"{place}.call_id", blank=False)
    fits = len(number) <= _MAX_CALL_ID_CHARACTERS
    need(fits, f"{place}.call_id", f"is longer than {_MAX_CALL_ID_CHARACTERS} characters")
    return number
