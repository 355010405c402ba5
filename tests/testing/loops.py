"""Clients of the fake provider's play of three turns, written by hand: one for each protocol."""

import base64
import json
from typing import Any

from omnigate.testing.provider_loop import (
    CHART,
    CHART_SCHEMA,
    CHART_TOOL,
    FORM,
    INSTRUCTIONS,
    PAPER,
    PICTURE,
    QUESTION,
    TOOLS,
    result_of,
)

#: Where a scenario is played, and what it is called in tests.
PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}


def base64_of(data: bytes) -> str:
    """Base64 as text."""
    return base64.b64encode(data).decode()


def url_of(media_type: str, data: bytes) -> str:
    """A ``data:`` URL."""
    return f"data:{media_type};base64,{base64_of(data)}"


def schemas(chart: bool) -> dict[str, Any]:
    """The tools to offer.

    :param chart: whether the third call is answered with a picture.
    """
    offered = dict(TOOLS)
    if chart:
        del offered["get_forecast"]
        offered[CHART_TOOL] = CHART_SCHEMA
    return offered


def chat_request() -> dict[str, Any]:
    """The opening of a client of Chat."""
    return {
        "messages": [
            {"role": "system", "content": INSTRUCTIONS},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": QUESTION},
                    {"type": "image_url", "image_url": {"url": url_of("image/png", PICTURE)}},
                    {
                        "type": "file",
                        "file": {
                            "filename": "towns.pdf",
                            "file_data": url_of("application/pdf", PAPER),
                        },
                    },
                ],
            },
        ],
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
            for name, schema in schemas(chart=False).items()
        ],
        "reasoning_effort": "high",
        "max_completion_tokens": 9000,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "town", "schema": FORM, "strict": True},
        },
    }


def messages_request(chart: bool = True) -> dict[str, Any]:
    """The opening of a client of Messages."""
    picture = {"type": "base64", "media_type": "image/png", "data": base64_of(PICTURE)}
    paper = {"type": "base64", "media_type": "application/pdf", "data": base64_of(PAPER)}
    return {
        "system": INSTRUCTIONS,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": picture},
                    {"type": "document", "source": paper, "title": "towns.pdf"},
                    {"type": "text", "text": QUESTION},
                ],
            }
        ],
        "tools": [
            {"name": name, "input_schema": schema} for name, schema in schemas(chart).items()
        ],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "max_tokens": 9000,
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": FORM}},
    }


def responses_request(chart: bool = True) -> dict[str, Any]:
    """The opening of a client of Responses."""
    return {
        "instructions": INSTRUCTIONS,
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": QUESTION},
                    {
                        "type": "input_image",
                        "image_url": url_of("image/png", PICTURE),
                        "detail": "auto",
                    },
                    {
                        "type": "input_file",
                        "filename": "towns.pdf",
                        "file_data": url_of("application/pdf", PAPER),
                    },
                ],
            }
        ],
        "tools": [
            {"type": "function", "name": name, "parameters": schema, "strict": True}
            for name, schema in schemas(chart).items()
        ],
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "max_output_tokens": 9000,
        "text": {"format": {"type": "json_schema", "name": "town", "schema": FORM, "strict": True}},
    }


def messages_result(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool, for Messages."""
    content: Any = result_of(name, arguments)
    if name == CHART_TOOL:
        source = {"type": "base64", "media_type": "image/png", "data": base64_of(CHART)}
        content = [{"type": "text", "text": content}, {"type": "image", "source": source}]
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def responses_result(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The output of a function, for Responses."""
    output: Any = result_of(name, arguments)
    if name == CHART_TOOL:
        image = {"type": "input_image", "image_url": url_of("image/png", CHART), "detail": "auto"}
        output = [{"type": "input_text", "text": output}, image]
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def chat_result(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool, for Chat."""
    return {"role": "tool", "tool_call_id": call_id, "content": result_of(name, arguments)}


def plain_message(said: dict[str, Any]) -> dict[str, Any]:
    """A message of the model, of Chat, as it goes back to the hosted API.

    Gone is what the model thought, which servers beside that one tell, and what packages add.
    """
    kept: dict[str, Any] = {name: said[name] for name in ("role", "content") if name in said}
    if said.get("tool_calls"):
        kept["tool_calls"] = [
            {
                "id": call["id"],
                "type": call["type"],
                "function": {name: call["function"][name] for name in ("name", "arguments")},
            }
            for call in said["tool_calls"]
        ]
    return kept


def take_chat(request: dict[str, Any], answer: dict[str, Any]) -> int:
    """Put an answer and the results of its calls behind a request; the number of calls."""
    said = answer["choices"][0]["message"]
    request["messages"].append(plain_message(said))
    for call in said.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        request["messages"].append(chat_result(call["id"], function["name"], arguments))
    return len(said.get("tool_calls", ()))


def take_messages(request: dict[str, Any], answer: dict[str, Any]) -> int:
    """The same of Messages."""
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    request["messages"].append({"role": "assistant", "content": answer["content"]})
    results = [messages_result(call["id"], call["name"], call["input"]) for call in calls]
    if results:
        request["messages"].append({"role": "user", "content": results})
    return len(calls)


def take_responses(request: dict[str, Any], answer: dict[str, Any]) -> int:
    """The same of Responses."""
    request["input"] += answer["output"]
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    for call in calls:
        arguments = json.loads(call["arguments"])
        request["input"].append(responses_result(call["call_id"], call["name"], arguments))
    return len(calls)
