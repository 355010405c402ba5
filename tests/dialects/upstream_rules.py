"""What a provider refuses of a request, beyond the types of its members.

Each check fails with the place. The rules are those that providers were seen to hold, written down
here apart from the product.
"""

import re
from collections.abc import Sequence
from typing import Any

Body = dict[str, Any]

_MARKS_OF_ANTHROPIC = 4


def check_upstream(protocol: str, body: Body) -> None:
    """Fail where a provider would refuse a request.

    :param body: decoded by :func:`tests.dialects.spellings.read_back`.
    """
    {"chat": _chat, "messages": _messages, "responses": _responses}[protocol](body)


def _holds(said: object, what: str) -> None:
    assert said, what


def _parts(content: Any) -> list[Body]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    assert isinstance(content, list) and content, f"content is {content!r}"
    return content


def _object(text: str) -> None:
    _holds(text.startswith("{"), f"{text!r} is no object")


# -- Messages


def _messages(body: Body) -> None:
    _holds(int(body["max_tokens"]) >= 1, "max_tokens")
    _holds(body["messages"], "no messages")
    _holds(body["messages"][0]["role"] == "user", "the first message is not the user's")
    before = ""
    open_ids: list[str] = []
    for index, message in enumerate(body["messages"]):
        where, role, parts = f"messages[{index}]", message["role"], _parts(message["content"])
        kinds = [part["type"] for part in parts]
        _holds(role != before, f"{where} repeats the role {role}")
        _no_blanks(parts, where)
        results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        if role == "system":
            _holds(before == "user", f"{where} of the system follows no turn of the user")
            behind = body["messages"][index + 1 : index + 2]
            _holds(not behind or behind[0]["role"] == "assistant", f"{where} is amid a turn")
            _holds(set(kinds) == {"text"}, where)
        elif role == "user":
            _holds(set(kinds) <= {"text", "image", "document", "tool_result"}, f"{where} {kinds}")
            _first(kinds, ("tool_result",), where)
            _holds(sorted(results) == sorted(open_ids), f"{where}: {results} for {open_ids}")
            open_ids = []
        else:
            thinking = ("thinking", "redacted_thinking")
            _holds(set(kinds) <= {"text", "tool_use", *thinking}, f"{where} {kinds}")
            _first(kinds, thinking, where)
            open_ids = [_call_id(part, where) for part in parts if part["type"] == "tool_use"]
            for part in parts:
                if part["type"] == "thinking":
                    signed = part["signature"] and not part["signature"].startswith("omnigate.")
                    _holds(signed, f"{where} has thinking that no provider signed")
        before = role
    _holds(not open_ids, f"{open_ids} have no results")
    _last(body)
    _messages_members(body)


def _first(kinds: Sequence[str], first: Sequence[str], where: str) -> None:
    late = [kind not in first for kind in kinds]
    _holds(late == sorted(late), f"{where}: {first} do not stand first in {kinds}")


def _no_blanks(parts: Sequence[Body], where: str) -> None:
    for part in parts:
        if part["type"] == "text":
            _holds(part["text"].strip(), f"{where} has a blank text")
        elif part["type"] == "tool_result":
            if "content" in part:
                _no_blanks(_parts(part["content"]), where)
            _id(part["tool_use_id"])


def _call_id(part: Body, where: str) -> str:
    _holds(isinstance(part["input"], dict), f"{where} has an input that is no object")
    _holds(part["name"], f"{where} calls nothing")
    return _id(part["id"])


def _id(text: str) -> str:
    _holds(re.fullmatch(r"[A-Za-z0-9_-]+", text), f"{text!r} is no id of Anthropic")
    return text


def _last(body: Body) -> None:
    last = body["messages"][-1]
    if last["role"] != "assistant":
        return
    text = _parts(last["content"])[-1]["text"]
    _holds(text == text.rstrip(), "the answer that is continued ends in white space")
    _holds(body.get("thinking", {}).get("type", "disabled") == "disabled", "thinking and prefill")
    _holds("format" not in body.get("output_config", {}), "a schema and prefill")


def _messages_members(body: Body) -> None:
    if isinstance(body.get("system", ""), str):
        _holds(body.get("system", "x").strip(), "system is blank")
    else:
        _no_blanks(_parts(body["system"]), "system")
    names = [tool["name"] for tool in body.get("tools", ())]
    for tool in body.get("tools", ()):
        _holds("type" in tool["input_schema"], "a schema has no type")
        _holds(tool.get("strict", True) is True, "strict is not left out")
        _holds(tool.get("description", "x"), "an empty description")
    _holds("tool_choice" not in body or names, "a choice of no tools")
    thinking = body.get("thinking", {})
    if "budget_tokens" in thinking:
        budget = int(thinking["budget_tokens"])
        _holds(1024 <= budget < int(body["max_tokens"]), f"a budget of {budget}")
        forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        _holds(not forced, "a budget and forced tools")
    if "temperature" in body:
        _holds(float(body["temperature"]) <= 1 and "top_p" not in body, "temperature")
        _holds(thinking.get("type", "disabled") == "disabled", "sampling and thinking")
    _holds(all(stop.strip() for stop in body.get("stop_sequences", ())), "a blank stop sequence")
    _holds(_marks(body) <= _MARKS_OF_ANTHROPIC, "more than four cache marks")


def _marks(value: Any) -> int:
    if isinstance(value, dict):
        own = int("cache_control" in value)
        inner = [one for name, one in value.items() if name not in ("input", "input_schema")]
        return own + sum(map(_marks, inner))
    return sum(map(_marks, value)) if isinstance(value, list) else 0


# -- Chat

_CHAT_PARTS = {
    "system": {"text"},
    "user": {"text", "image_url", "file"},
    "tool": {"text"},
    "assistant": {"text"},
}


def _chat(body: Body) -> None:
    _holds(body["messages"], "no messages")
    waiting: list[str] = []
    for index, message in enumerate(body["messages"]):
        where, role = f"messages[{index}]", message["role"]
        if role == "tool":
            _holds(message["tool_call_id"] in waiting, f"{where} answers no call right before")
            waiting.remove(message["tool_call_id"])
        else:
            _holds(not waiting, f"{where} stands where {waiting} have no results")
        calls = message.get("tool_calls", [])
        _holds("tool_calls" not in message or calls, f"{where} has an empty list of calls")
        if message["content"] is None:
            _holds(role == "assistant" and calls, f"{where} says nothing")
        else:
            kinds = {part["type"] for part in _parts(message["content"])}
            _holds(kinds <= _CHAT_PARTS[role], f"{where} of {role} has {kinds}")
        for call in calls:
            _holds(call["type"] == "function" and 1 <= len(call["id"]) <= 40, call)
            _holds(1 <= len(call["function"]["name"]) <= 64, call)
            _holds(call["function"]["arguments"], call)
            waiting.append(call["id"])
    _holds(not waiting, f"{waiting} have no results")
    _openai_members(body, [tool["function"] for tool in body.get("tools", ())])
    _holds(len(body.get("stop", ())) <= 4 and all(body.get("stop", ())), "stop")
    if body.get("stream"):
        _holds(body["stream_options"] == {"include_usage": True}, "no usage is asked for")


def _openai_members(body: Body, tools: Sequence[Body]) -> None:
    for tool in tools:
        _holds(1 <= len(tool["name"]) <= 64, f"{tool['name']!r} is no name of a tool")
        _holds(isinstance(tool.get("parameters", {}), dict), "parameters are no object")
    for name in ("tool_choice", "parallel_tool_calls"):
        _holds(name not in body or tools, f"{name} without tools")
    _holds("tools" not in body or tools, "an empty list of tools")
    _holds(1 <= len(body.get("safety_identifier", "x")) <= 128, "safety_identifier")


# -- Responses


def _responses(body: Body) -> None:
    _holds(body["input"], "no input")
    _holds(body["store"] is False, "the provider would store it")
    called: list[str] = []
    for index, item in enumerate(body["input"]):
        where = f"input[{index}]"
        if item["type"] == "function_call":
            _holds(1 <= len(item["call_id"]) <= 40 and 1 <= len(item["name"]) <= 64, where)
            _holds(item["arguments"], where)
            called.append(item["call_id"])
        elif item["type"] == "function_call_output":
            _holds(item["call_id"] in called, f"{where} answers no call")
            called.remove(item["call_id"])
            _input_parts(item["output"], where)
        elif item["type"] == "message":
            _holds(item["role"] in ("developer", "system", "user", "assistant"), where)
            _holds(item["role"] == "user" or _is_words(item["content"]), where)
            _input_parts(item["content"], where)
        else:
            _holds(item["type"] == "reasoning" and item["encrypted_content"] and item["id"], where)
    _holds(not called, f"{called} have no outputs")
    _openai_members(body, body.get("tools", []))
    _holds(all(isinstance(tool["strict"], bool) for tool in body.get("tools", ())), "strict")
    _holds(int(body.get("max_output_tokens", 16)) >= 16, "max_output_tokens")


def _is_words(content: Any) -> bool:
    return isinstance(content, str) or all(part["type"] == "input_text" for part in content)


def _input_parts(content: Any, where: str) -> None:
    if isinstance(content, str):
        return
    for part in _parts(content):
        _holds(part["type"] in ("input_text", "input_image", "input_file"), f"{where} {part}")
        if part["type"] == "input_file":
            _holds(("file_url" in part) != ("file_data" in part), f"{where} {part}")
            _holds("file_url" in part or part["filename"], f"{where} {part}")
