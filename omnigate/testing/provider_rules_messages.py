"""The rules of Anthropic Messages, as strictly as the hosted API keeps them."""

import re
from typing import Any

from omnigate.testing.provider_heard import (
    IMAGE_TYPES,
    Heard,
    HeardCall,
    HeardResult,
    Media,
    Thought,
    decoded,
    is_seal,
    list_of,
    members,
    need,
    one_of,
    schema_of,
    seal_of,
    text_of,
    whole_number,
)
from omnigate.testing.provider_request import SeenRequest

_REQUIRED = ("model", "messages", "max_tokens")
_OPTIONAL = (
    "system",
    "metadata",
    "stop_sequences",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "service_tier",
    "cache_control",
    "inference_geo",
    "container",
    "speed",
)
_SAMPLING = ("temperature", "top_p", "top_k")
# The version under which sampling parameters are gone.
_NO_SAMPLING_VERSION = "2026-10-21"
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_LEAST_BUDGET = 1024
_MAX_CACHE_MARKS = 4
_TOOL_ID = re.compile(r"[A-Za-z0-9_-]+")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TOOL_OPTIONAL = (
    "type",
    "description",
    "strict",
    "cache_control",
    "input_examples",
    "allowed_callers",
    "defer_loading",
    "eager_input_streaming",
)
# The blocks that each side may say.
_BLOCKS = {
    "system": ("text",),
    "user": ("text", "image", "document", "tool_result"),
    "assistant": ("thinking", "redacted_thinking", "text", "tool_use"),
}


def hear_messages(request: SeenRequest) -> Heard:
    """Read a request.

    :raises BrokenRuleError: the hosted API would refuse it.
    """
    fields = members(request.fields, "body", _REQUIRED, _OPTIONAL)
    version = request.headers.get("anthropic-version")
    need(version, "anthropic-version", "header is required")
    cap = whole_number(fields["max_tokens"], "max_tokens", 1)
    for name in _SAMPLING:
        gone = version == _NO_SAMPLING_VERSION and name in fields
        need(not gone, name, f"is not supported by version {version}")
    for at, stop in enumerate(fields.get("stop_sequences") or ()):
        text_of(stop, f"stop_sequences[{at}]", blank=False)
    one_of(fields.get("service_tier", "auto"), "service_tier", ("auto", "standard_only"))
    user = members(fields.get("metadata", {}), "metadata", (), ("user_id",))
    text_of(user.get("user_id") or "", "metadata.user_id")
    marks = _cache_marks([fields.get(name) for name in ("system", "tools", "messages")])
    need(marks <= _MAX_CACHE_MARKS, "cache_control", f"{marks} blocks, at most 4 are allowed")
    heard = Heard()
    _read_tools(fields, heard)
    _read_thinking(fields, cap, heard)
    _read_output_config(fields.get("output_config", {}), heard)
    if "system" in fields:
        for at, block in enumerate(_blocks(fields["system"], "system")):
            _read_block(block, f"system[{at}]", "system", heard)
    _read_turns(list_of(fields["messages"], "messages"), fields, heard)
    return heard


def _read_tools(fields: dict[str, Any], heard: Heard) -> None:
    """The tools, and whether they are called."""
    for at, value in enumerate(fields.get("tools") or ()):
        place = f"tools[{at}]"
        tool = members(value, place, ("name", "input_schema"), _TOOL_OPTIONAL)
        one_of(tool.get("type", "custom"), f"{place}.type", ("custom",))
        name = text_of(tool["name"], f"{place}.name")
        need(_TOOL_NAME.fullmatch(name), f"{place}.name", f"{name!r} is no name of a tool")
        need(name not in heard.tools, place, "tool names must be unique")
        heard.tools[name] = schema_of(tool["input_schema"], f"{place}.input_schema")
    if "tool_choice" not in fields:
        return
    need(heard.tools, "tool_choice", "may only be given with tools")
    choice = members(
        fields["tool_choice"], "tool_choice", ("type",), ("name", "disable_parallel_tool_use")
    )
    kind = one_of(choice["type"], "tool_choice.type", ("auto", "any", "tool", "none"))
    need((kind == "tool") == ("name" in choice), "tool_choice.name", "goes with type tool")
    if kind == "tool":
        one_of(choice["name"], "tool_choice.name", list(heard.tools))
    alone = kind == "none" and "disable_parallel_tool_use" in choice
    need(not alone, "tool_choice.disable_parallel_tool_use", "unknown parameter")


def _read_thinking(fields: dict[str, Any], cap: int, heard: Heard) -> None:
    """Whether the model thinks, and what may not go with it."""
    if "thinking" not in fields:
        return
    wish = members(fields["thinking"], "thinking", ("type",), ("budget_tokens", "display"))
    kind = one_of(wish["type"], "thinking.type", ("enabled", "adaptive", "disabled"))
    display = wish.get("display")
    one_of(display, "thinking.display", (None, "summarized", "omitted"))
    with_budget = "budget_tokens" in wish
    need(with_budget == (kind == "enabled"), "thinking.budget_tokens", "goes with type enabled")
    if kind == "disabled":
        return
    if with_budget:
        budget = whole_number(wish["budget_tokens"], "thinking.budget_tokens", _LEAST_BUDGET)
        need(cap > budget, "max_tokens", "must be greater than thinking.budget_tokens")
    one_of(fields.get("temperature", 1), "temperature", (1,))
    need("top_k" not in fields, "top_k", "may not be set when thinking is enabled")
    forced = (fields.get("tool_choice") or {}).get("type") in ("any", "tool")
    need(not forced, "thinking", "may not be enabled when tool_choice forces tool use")
    heard.thinks = heard.seals = True
    heard.shows = display == "summarized" or (display is None and kind == "enabled")


def _read_output_config(value: Any, heard: Heard) -> None:
    """The effort, and the form that the answer is held to."""
    config = members(value, "output_config", (), ("effort", "format"))
    one_of(config.get("effort", "high"), "output_config.effort", _EFFORTS)
    if "format" in config:
        form = members(config["format"], "output_config.format", ("type", "schema"))
        one_of(form["type"], "output_config.format.type", ("json_schema",))
        heard.schema = schema_of(form["schema"], "output_config.format.schema")


def _read_turns(turns: list[Any], fields: dict[str, Any], heard: Heard) -> None:
    """The conversation: who may follow whom, and that every call is answered at once."""
    before = ""
    open_ids: list[str] = []
    for at, value in enumerate(turns):
        place = f"messages[{at}]"
        turn = members(value, place, ("role", "content"))
        role = one_of(turn["role"], f"{place}.role", tuple(_BLOCKS))
        blocks = _blocks(turn["content"], f"{place}.content")
        kinds = [block.get("type") if isinstance(block, dict) else None for block in blocks]
        need(role != before, place, f"roles must alternate, and {role} stands twice in a row")
        need(at or role == "user", place, "the first message must be the user's")
        if role == "system":
            need(before == "user", place, "a system message must follow one of the user")
            last = at + 1 == len(turns) or turns[at + 1].get("role") == "assistant"
            need(last, place, "a system message must be the last, or stand before the assistant's")
        else:
            results = [block for block in blocks if block.get("type") == "tool_result"]
            first = kinds[: len(results)] == ["tool_result"] * len(results)
            need(first, place, "tool_result blocks must stand first")
            ids = [block.get("tool_use_id") for block in results]
            answered = sorted(map(str, ids)) == sorted(open_ids)
            need(answered, place, f"the results {ids} do not answer the calls {open_ids}")
            open_ids = [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
            need(len(set(open_ids)) == len(open_ids), place, "tool_use ids must be unique")
        thinking = [kind in ("thinking", "redacted_thinking") for kind in kinds]
        need(thinking == sorted(thinking, reverse=True), place, "thinking blocks must stand first")
        for number, block in enumerate(blocks):
            _read_block(block, f"{place}.content[{number}]", role, heard)
        before = role
    need(not open_ids, "messages", f"the calls {open_ids} are not answered")
    _check_end(turns, fields, heard)


def _check_end(turns: list[Any], fields: dict[str, Any], heard: Heard) -> None:
    """What a conversation may end with, thinking or not."""
    kind = (fields.get("thinking") or {}).get("type")
    if turns[-1]["role"] == "assistant":
        said = turns[-1]["content"]
        text = said if isinstance(said, str) else (said[-1].get("text") or "")
        need(text == text.rstrip(), "messages", "a last text may not end with white space")
        need(not heard.thinks, "messages", "may not end with the assistant's where it thinks")
    elif kind == "enabled":
        said_turns = [turn for turn in heard.turns if turn.role == "assistant"]
        in_loop = heard.turns[-1].role == "tool" and said_turns
        signed = not in_loop or said_turns[-1].thoughts
        need(signed, "messages", "the last turn of the assistant must begin with thinking")


def _blocks(value: Any, place: str) -> list[Any]:
    """Content as blocks."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    blocks = list_of(value, place)
    for at, block in enumerate(blocks):
        need(isinstance(block, dict), f"{place}[{at}]", "an object is expected")
    return blocks


def _read_block(block: dict[str, Any], place: str, role: str, heard: Heard) -> None:
    """One block of a turn."""
    kind = one_of(block.get("type"), f"{place}.type", _BLOCKS[role])
    if kind == "tool_result":
        heard.turn("tool").results.append(_result(block, place))
        return
    turn = heard.turn(role)  # type: ignore[arg-type]
    if kind == "text":
        turn.texts.append(_text(block, place))
    elif kind in ("image", "document"):
        turn.media.append(_media(block, place))
    elif kind == "thinking":
        members(block, place, ("type", "thinking", "signature"))
        thought = text_of(block["thinking"], f"{place}.thinking")
        seal = text_of(block["signature"], f"{place}.signature", blank=False)
        genuine = is_seal(seal) and (not thought or seal == seal_of(thought))
        need(genuine, f"{place}.signature", "invalid `signature` in `thinking` block")
        turn.thoughts.append(Thought(thought, seal))
    elif kind == "redacted_thinking":
        members(block, place, ("type", "data"))
        seal = text_of(block["data"], f"{place}.data", blank=False)
        need(is_seal(seal), f"{place}.data", "invalid `data` in `redacted_thinking` block")
        turn.thoughts.append(Thought("", seal))
    else:
        turn.calls.append(_call(block, place))


def _text(block: dict[str, Any], place: str) -> str:
    """A text block; what an answer's own blocks have besides may come back."""
    members(block, place, ("type", "text"), ("cache_control", "citations"))
    return text_of(block["text"], f"{place}.text", blank=False)


def _call(block: dict[str, Any], place: str) -> HeardCall:
    """A call of a tool."""
    members(block, place, ("type", "id", "name", "input"), ("cache_control", "caller"))
    number = text_of(block["id"], f"{place}.id")
    need(_TOOL_ID.fullmatch(number), f"{place}.id", "does not match ^[a-zA-Z0-9_-]+$")
    name = text_of(block["name"], f"{place}.name")
    need(_TOOL_NAME.fullmatch(name), f"{place}.name", f"{name!r} is no name of a tool")
    need(isinstance(block["input"], dict), f"{place}.input", "an object is expected")
    return HeardCall(number, name, block["input"])


def _result(block: dict[str, Any], place: str) -> HeardResult:
    """What a tool answered; nothing at all is allowed."""
    members(block, place, ("type", "tool_use_id"), ("content", "is_error", "cache_control"))
    number = text_of(block["tool_use_id"], f"{place}.tool_use_id")
    need(_TOOL_ID.fullmatch(number), f"{place}.tool_use_id", "does not match ^[a-zA-Z0-9_-]+$")
    texts: list[str] = []
    media: list[Media] = []
    blocks = _blocks(block["content"], f"{place}.content") if "content" in block else []
    for at, inner in enumerate(blocks):
        where = f"{place}.content[{at}]"
        kind = one_of(inner.get("type"), f"{where}.type", ("text", "image", "document"))
        if kind == "text":
            texts.append(_text(inner, where))
        else:
            media.append(_media(inner, where))
    return HeardResult(number, "".join(texts), tuple(media))


def _media(block: dict[str, Any], place: str) -> Media:
    """An image or a document."""
    image = block["type"] == "image"
    extra = ("cache_control",) if image else ("cache_control", "title", "context", "citations")
    members(block, place, ("type", "source"), extra)
    place = f"{place}.source"
    need(isinstance(block["source"], dict), place, "an object is expected")
    kind = one_of(block["source"].get("type"), f"{place}.type", ("base64", "url", "text"))
    if kind == "url":
        source = members(block["source"], place, ("type", "url"))
        web = text_of(source["url"], f"{place}.url").startswith(("http://", "https://"))
        need(web, f"{place}.url", "only addresses of the web are supported")
        return Media("", b"")
    source = members(block["source"], place, ("type", "media_type", "data"))
    if kind == "text":
        need(not image, f"{place}.type", "an image is no text")
        one_of(source["media_type"], f"{place}.media_type", ("text/plain",))
        return Media("text/plain", text_of(source["data"], f"{place}.data", blank=False).encode())
    allowed = IMAGE_TYPES if image else ("application/pdf",)
    media_type = one_of(source["media_type"], f"{place}.media_type", allowed)
    return Media(media_type, decoded(source["data"], f"{place}.data"))


def _cache_marks(value: Any) -> int:
    """How many blocks a request wants cached."""
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            if item.get("cache_control") is not None:
                members(item["cache_control"], "cache_control", ("type",), ("ttl",))
                count += 1
            waiting.extend(item[name] for name in ("content",) if name in item)
    return count
