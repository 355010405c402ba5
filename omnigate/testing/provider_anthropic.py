"""The fake provider's Anthropic side: messages, count_tokens, models and errors."""

import json
from collections.abc import Iterator
from typing import Any

from omnigate.testing.provider_openai import MODEL_IDS
from omnigate.testing.provider_reply import Event, Reply, ToolCall, Usage, cut_text, to_json
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import Scenario

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_CREATED_AT = "2026-01-01T00:00:00Z"

PING: Event = ("ping", b'{"type":"ping"}')


def anthropic_error(status: int, message: str, request_id: str) -> dict[str, Any]:
    """An error body as the hosted API writes one."""
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    kind = _ERROR_TYPES.get(status, fallback)
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def models_page() -> dict[str, Any]:
    """``GET /v1/models``, everything on one page."""
    return {
        "data": [model_page_entry(name) for name in MODEL_IDS],
        "has_more": False,
        "first_id": MODEL_IDS[0],
        "last_id": MODEL_IDS[-1],
    }


def model_page_entry(name: str) -> dict[str, Any]:
    """``GET /v1/models/{id}``."""
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _CREATED_AT,
        "lifecycle": "active",
    }


def messages_whole(request: SeenRequest, scenario: Scenario, reply: Reply) -> dict[str, Any]:
    """A whole message."""
    content: list[dict[str, Any]] = []
    if reply.seal and reply.redacted:
        content.append(_redacted(reply))
    elif reply.seal:
        thinking = {"type": "thinking", "thinking": reply.thought, "signature": reply.seal}
        content.append(thinking)
    if reply.pieces:
        content.append({"type": "text", "text": reply.text, "citations": None})
    content.extend(
        {**_tool_start(request, index, call), "input": json.loads(call.arguments)}
        for index, call in enumerate(reply.calls)
    )
    message = _message(request, content, _STOP_REASONS[reply.finish])
    if scenario.usage != "none":
        message["usage"] = _usage(reply.usage, reply.usage.output)
    return message


def messages_events(request: SeenRequest, scenario: Scenario, reply: Reply) -> list[Event]:
    """A message as events: start, blocks, delta with the cumulative usage, stop."""
    counted = scenario.usage != "none"
    message = _message(request, [], None)
    if counted:
        message["usage"] = _usage(reply.usage, 1)
    events = [_event("message_start", message=message)]
    for place, (start, deltas) in enumerate(_blocks(request, reply)):
        events += _block(place, start, deltas)
    if reply.pieces or reply.seal:
        events.insert(2, PING)
    ending: dict[str, Any] = {
        "delta": {"stop_reason": _STOP_REASONS[reply.finish], "stop_sequence": None}
    }
    if counted:
        ending["usage"] = _ending_usage(reply.usage)
    events.append(_event("message_delta", **ending))
    events.append(_event("message_stop"))
    return events


def messages_error(message: str, request_id: str) -> Event:
    """The event of a stream that failed."""
    return ("error", to_json(anthropic_error(529, message, request_id)))


def _blocks(
    request: SeenRequest, reply: Reply
) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """The blocks of a streamed message as they begin, each with its deltas."""
    if reply.seal and reply.redacted:
        yield _redacted(reply), []
    elif reply.seal:
        start = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": part} for part in cut_text(reply.thought, 3)
        ]
        yield start, [*deltas, {"type": "signature_delta", "signature": reply.seal}]
    if reply.pieces:
        deltas = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        yield {"type": "text", "text": ""}, deltas
    for index, call in enumerate(reply.calls):
        # A call without arguments has no other delta than the empty one.
        parts = ["", *(cut_text(call.arguments, 3) if call.arguments != "{}" else ())]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        yield _tool_start(request, index, call), deltas


def _redacted(reply: Reply) -> dict[str, Any]:
    """A block of thinking that only this provider can read; a stream has it whole at its start."""
    return {"type": "redacted_thinking", "data": reply.seal}


def _block(index: int, start: dict[str, Any], deltas: list[dict[str, str]]) -> list[Event]:
    """The events of one content block."""
    return [
        _event("content_block_start", index=index, content_block=start),
        *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("content_block_stop", index=index),
    ]


def _event(kind: str, **members: object) -> Event:
    """One event, whose name is its type."""
    return (kind, to_json({"type": kind, **members}))


def _tool_start(request: SeenRequest, index: int, call: ToolCall) -> dict[str, Any]:
    """A tool_use block as it begins, its input still empty."""
    tool_id = f"toolu_fake{request.number:08d}{index:03d}"
    return {"type": "tool_use", "id": tool_id, "name": call.name, "input": {}}


def _message(
    request: SeenRequest, content: list[dict[str, Any]], stop_reason: str | None
) -> dict[str, Any]:
    """A message without its usage."""
    return {
        "id": f"msg_fake{request.number:08d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": None,
    }


def _usage(usage: Usage, output: int) -> dict[str, Any]:
    """Usage in full; the input is what was neither read from nor written to the cache."""
    return {
        **_thinking_share(usage),
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": output,
        "service_tier": "standard",
    }


def _ending_usage(usage: Usage) -> dict[str, Any]:
    """The cumulative figures of ``message_delta``."""
    return {
        **_thinking_share(usage),
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def _thinking_share(usage: Usage) -> dict[str, Any]:
    """What of the output was thought, where anything was."""
    share = {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
    return share if usage.reasoning else {}
