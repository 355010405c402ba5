"""A conversation spelled as Chat, Messages and Responses have it, by hand and without the product.

See :class:`tests.dialects.conversations.Talk`.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from omnigate.dialects.packing import pack_thinking
from omnigate.dialects.shapes import Thinking
from tests.dialects.conversations import Called, Picture, Round, Shown, Talk, Words

Body = dict[str, Any]

SIGNATURE = "signed by a provider"


def spelled(protocol: str, talk: Talk, other: str) -> Body:
    """Spell a conversation, which came from another protocol or goes there."""
    return _SPELLED[protocol](talk, other)


def encoded(body: Body) -> bytes:
    """Return a body as bytes; the JSON texts in it stay what they are."""
    return msgspec.json.encode(body)


class Number(str):
    """A number as it is spelled."""


def read_back(text: bytes | str) -> Any:
    """Return a JSON text as a tree in which numbers are as they are spelled."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _given(members: Body) -> Body:
    return {name: value for name, value in members.items() if value not in (None, "", [])}


def _only(parts: list[Body]) -> str | list[Body]:
    """Spell one plain text as a string."""
    if len(parts) == 1 and parts[0].keys() <= {"type", "text"}:
        text: str = parts[0]["text"]
        return text
    return parts


_BREAKPOINT = {"mode": "explicit", "ttl": "30m"}


def _marked(part: Body, marked: bool) -> Body:
    return part | {"prompt_cache_breakpoint": _BREAKPOINT} if marked else part


def _address(picture: Picture) -> str:
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def _chat_part(part: Shown) -> Body:
    if isinstance(part, Words):
        return _marked({"type": "text", "text": part.text}, part.marked)
    if isinstance(part, Picture):
        address = _given({"url": _address(part), "detail": part.detail})
        return _marked({"type": "image_url", "image_url": address}, part.marked)
    data = f"data:application/pdf;base64,{part.data}"
    return _marked(
        {"type": "file", "file": {"filename": part.title, "file_data": data}}, part.marked
    )


def _chat(talk: Talk, other: str) -> Body:
    messages: list[Body] = []

    def add(role: str, content: str | list[Body] | None, **more: Any) -> None:
        messages.append({"role": role, "content": content} | _given(more))

    if talk.system:
        add("system", talk.system)
    for turn in talk.rounds:
        if turn.shown:
            add("user", _only([_chat_part(part) for part in turn.shown]))
        if turn.system:
            add("system", turn.system)
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]
        blocks: list[Body] = []
        if turn.thought:
            blocks = [{"type": "thinking", "thinking": turn.thought, "signature": SIGNATURE}]
        add("assistant", turn.said or None, tool_calls=calls, thinking_blocks=blocks)
        for call in turn.calls:
            content: str | list[Body] | None
            if isinstance(call.answer, str):
                content = call.answer
            else:
                content = _only([_chat_part(part) for part in call.answer])
            add("tool", content, tool_call_id=call.id)
    if talk.last:
        add("user", _only([_chat_part(part) for part in talk.last]))
    body = {
        "model": "m",
        "messages": messages,
        "max_completion_tokens": talk.max_tokens,
        "stream": talk.stream or None,
        "stream_options": {"include_usage": True} if talk.stream else None,
        "temperature": talk.temperature,
        "top_p": talk.top_p,
        "stop": talk.stop if other == "messages" else None,
        "tools": [
            {
                "type": "function",
                "function": _given(
                    {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": msgspec.Raw(tool.schema.encode()),
                        "strict": tool.strict or None,
                    }
                ),
            }
            for tool in talk.tools
        ],
        "reasoning_effort": talk.effort,
        "safety_identifier": talk.user,
        "service_tier": talk.tier,
    }
    if talk.tools:
        body["tool_choice"] = _choice(talk, lambda name: {"function": {"name": name}})
        body["parallel_tool_calls"] = False if talk.one_at_a_time else None
    if talk.schema is not None:
        form = _format(talk.schema)
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return _given(body)


def _choice(talk: Talk, named: Callable[[str], Body]) -> Any:
    if talk.choice.startswith("="):
        return {"type": "function"} | named(talk.choice[1:])
    return talk.choice or None


def _format(schema: tuple[str, bool]) -> Body:
    return {
        "name": "response",
        "schema": msgspec.Raw(schema[0].encode()),
        "strict": schema[1],
    }


def _block(part: Shown) -> Body:
    block: Body
    if isinstance(part, Words):
        block = {"type": "text", "text": part.text}
    elif isinstance(part, Picture):
        source = {"type": "url", "url": part.url}
        if not part.url:
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        block = {"type": "image", "source": source}
    else:
        source = {"type": "url", "url": part.url}
        if not part.url:
            source = {"type": "base64", "media_type": "application/pdf", "data": part.data}
        block = _given({"type": "document", "source": source, "title": part.title})
    return block


def _result(call: Called) -> Body:
    content: Any = call.answer
    if not isinstance(content, str):
        content = [_block(part) for part in content]
    return _given({"type": "tool_result", "tool_use_id": call.id, "content": content})


def _messages(talk: Talk, other: str) -> Body:
    messages: list[Body] = []
    results: list[Body] = []
    for turn in (*talk.rounds, Round(talk.last)):
        shown = [_block(part) for part in turn.shown]
        if results or shown:
            content = [*results, *shown] if results else _only(shown)
            messages.append({"role": "user", "content": content})
        if turn.system:
            messages.append({"role": "system", "content": turn.system})
        blocks: list[Body] = []
        if turn.thought:
            blocks.append({"type": "thinking", "thinking": turn.thought, "signature": SIGNATURE})
        if turn.said:
            blocks.append({"type": "text", "text": turn.said})
        for call in turn.calls:
            input_ = msgspec.Raw(call.arguments.encode())
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": input_})
        if blocks:
            messages.append({"role": "assistant", "content": _only(blocks)})
        results = [_result(call) for call in turn.calls]
    body: Body = {
        "model": "m",
        "max_tokens": talk.max_tokens,
        "stream": talk.stream or None,
        "system": talk.system,
        "messages": messages,
        "temperature": talk.temperature,
        "top_p": talk.top_p,
        "stop_sequences": talk.stop if other == "chat" else None,
        "tools": [
            _given(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": msgspec.Raw(tool.schema.encode()),
                    "strict": tool.strict or None,
                }
            )
            for tool in talk.tools
        ],
        "metadata": {"user_id": talk.user} if talk.user else None,
        "service_tier": {"auto": "auto", "default": "standard_only"}.get(talk.tier or ""),
    }
    if talk.tools and talk.choice:
        mode = {"auto": "auto", "none": "none", "required": "any"}.get(talk.choice, "tool")
        body["tool_choice"] = {"type": mode} | _given(
            {
                "name": talk.choice[1:] if mode == "tool" else None,
                "disable_parallel_tool_use": talk.one_at_a_time or None,
            }
        )
    config: Body = {}
    if talk.effort is not None:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        config["effort"] = talk.effort
    if talk.schema is not None:
        config["format"] = {
            "type": "json_schema",
            "schema": msgspec.Raw(talk.schema[0].encode()),
        }
    return _given(body | {"output_config": config or None})


def _input_part(part: Shown) -> Body:
    written: Body
    if isinstance(part, Words):
        written = {"type": "input_text", "text": part.text}
    elif isinstance(part, Picture):
        detail = part.detail or "auto"
        written = {"type": "input_image", "image_url": _address(part), "detail": detail}
    elif part.url:
        written = {"type": "input_file", "file_url": part.url}
    else:
        data = f"data:application/pdf;base64,{part.data}"
        written = {"type": "input_file", "filename": part.title, "file_data": data}
    return _marked(written, part.marked)


def _responses(talk: Talk, other: str) -> Body:
    items: list[Body] = []

    def say(role: str, content: str | list[Body]) -> None:
        if content:
            items.append({"type": "message", "role": role, "content": content})

    say("system", talk.system)
    for turn in talk.rounds:
        say("user", _only([_input_part(part) for part in turn.shown]))
        say("system", turn.system)
        if turn.thought:
            packed = pack_thinking(Thinking(turn.thought, SIGNATURE))
            items.append({"type": "reasoning", "summary": [], "encrypted_content": packed})
        say("assistant", turn.said)
        items += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for call in turn.calls
        ]
        for call in turn.calls:
            output: Any = call.answer
            if not isinstance(output, str):
                output = _only([_input_part(part) for part in output])
            items.append({"type": "function_call_output", "call_id": call.id, "output": output})
    say("user", _only([_input_part(part) for part in talk.last]))
    body: Body = {
        "model": "m",
        "store": False,
        "stream": talk.stream or None,
        "input": items,
        "max_output_tokens": talk.max_tokens,
        "temperature": talk.temperature,
        "top_p": talk.top_p,
        "tools": [
            _given(
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": msgspec.Raw(tool.schema.encode()),
                }
            )
            | {"strict": tool.strict}
            for tool in talk.tools
        ],
        "safety_identifier": talk.user,
        "service_tier": talk.tier,
    }
    if other == "messages":
        body["include"] = ["reasoning.encrypted_content"]
    if talk.tools:
        body["tool_choice"] = _choice(talk, lambda name: {"name": name})
        body["parallel_tool_calls"] = False if talk.one_at_a_time else None
    if talk.effort is not None:
        # Whoever speaks Messages and thinks has said whether it is to be shown.
        shown = {"summary": "auto"} if other == "messages" else {}
        body["reasoning"] = {"effort": talk.effort} | shown
    if talk.schema is not None:
        body["text"] = {"format": {"type": "json_schema"} | _format(talk.schema)}
    return _given(body)


_SPELLED: dict[str, Callable[[Talk, str], Body]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}
