"""The fake provider's OpenAI side: chat, completions, embeddings, models and errors."""

from collections.abc import Iterator
from typing import Any

from omnigate.testing.provider_reply import (
    Event,
    Reply,
    ToolCall,
    Usage,
    count_input,
    cut_text,
    embeddings,
    to_json,
)
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import Scenario

DONE: Event = ("", b"[DONE]")
MODEL_IDS = ("fake-small", "fake-large", "fake-tools", "fake-paced-20")

# status → (type, code) as the hosted API writes them.
_ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", None),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("service_unavailable_error", "server_is_overloaded"),
}


def openai_error(status: int, message: str) -> dict[str, Any]:
    """An error body as the hosted API writes one."""
    fallback = ("server_error" if status >= 500 else "invalid_request_error", None)
    kind, code = _ERRORS.get(status, fallback)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def context_length_error() -> dict[str, Any]:
    """The error body for a prompt that is longer than the model's window."""
    message = (
        "This model's maximum context length is 200000 tokens."
        " However, your messages resulted in 200001 tokens."
    )
    kind, code = "invalid_request_error", "context_length_exceeded"
    return {"error": {"message": message, "type": kind, "param": "messages", "code": code}}


def no_credit_error(message: str) -> dict[str, Any]:
    """The error body for an account that has run dry, which waiting does not help."""
    kind = "insufficient_quota"
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def models_list(created: int) -> dict[str, Any]:
    """``GET /v1/models``."""
    return {"object": "list", "data": [model_entry(name, created) for name in MODEL_IDS]}


def model_entry(name: str, created: int) -> dict[str, Any]:
    """``GET /v1/models/{id}``."""
    return {"id": name, "object": "model", "created": created, "owned_by": "omnigate-fake"}


def embeddings_whole(request: SeenRequest, scenario: Scenario) -> dict[str, Any]:
    """The answer of ``/v1/embeddings``."""
    tokens = scenario.input_tokens or count_input(request)
    answer: dict[str, Any] = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(embeddings(request))
        ],
        "model": request.model,
    }
    if scenario.usage != "none":
        answer["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return answer


def chat_whole(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> dict[str, Any]:
    """A whole chat completion."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": None,
        "annotations": [],
    }
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        message["tool_calls"] = [
            {"id": _call_id(request, index), "type": "function", "function": _function(call)}
            for index, call in enumerate(reply.calls)
        ]
    answer = _frame(request, created, "chat.completion")
    answer["choices"] = [
        {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    ]
    if scenario.usage != "none":
        answer["usage"] = chat_usage(reply.usage)
    return answer


def chat_events(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> list[Event]:
    """A chat completion as events: role, reasoning, text, calls, finish, usage, done."""
    frame = _frame(request, created, "chat.completion.chunk")
    choices = [
        [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        for delta, finish in _chat_deltas(request, reply)
    ]
    return _chunks(request, scenario, reply.usage, frame, choices)


def completion_whole(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> dict[str, Any]:
    """A whole answer of ``/v1/completions``."""
    answer = _frame(request, created, "text_completion")
    answer["choices"] = [_text_choice(reply.text, _text_finish(reply))]
    if scenario.usage != "none":
        answer["usage"] = chat_usage(reply.usage)
    return answer


def completion_events(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> list[Event]:
    """An answer of ``/v1/completions`` as events."""
    frame = _frame(request, created, "text_completion")
    choices = [[_text_choice(piece, None)] for piece in reply.pieces]
    choices.append([_text_choice("", _text_finish(reply))])
    return _chunks(request, scenario, reply.usage, frame, choices)


def chat_usage(usage: Usage) -> dict[str, Any]:
    """Usage in the words of chat completions."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _chunks(
    request: SeenRequest,
    scenario: Scenario,
    usage: Usage,
    frame: dict[str, Any],
    choices: list[list[dict[str, Any]]],
) -> list[Event]:
    """Chunks of one shape, with usage where the request and the scenario want it."""
    wanted = request.include_usage and scenario.usage == "normal"
    events: list[Event] = []
    for place, choice in enumerate(choices):
        chunk = {**frame, "choices": choice}
        if wanted:
            chunk["usage"] = None
        elif scenario.usage == "every":
            said = Usage(usage.input, usage.cached, usage.cache_write, place, 0)
            chunk["usage"] = chat_usage(said if place < len(choices) - 1 else usage)
        events.append(("", to_json(chunk)))
    if wanted:
        events.append(("", to_json({**frame, "choices": [], "usage": chat_usage(usage)})))
    if not scenario.no_done:
        events.append(DONE)
    return events


def _chat_deltas(request: SeenRequest, reply: Reply) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The deltas of a chat stream, each with the finish reason beside it."""
    yield {"role": "assistant", "content": "", "refusal": None}, None
    for part in cut_text(reply.thought, 3):
        yield {"reasoning_content": part}, None
    for piece in reply.pieces:
        yield {"content": piece}, None
    for index, call in enumerate(reply.calls):
        start = {
            "index": index,
            "id": _call_id(request, index),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield {"tool_calls": [start]}, None
        for part in cut_text(call.arguments, 3):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, None
    yield {}, reply.finish


def _frame(request: SeenRequest, created: int, kind: str) -> dict[str, Any]:
    """The members that every chunk and every whole answer begins with."""
    prefix = "cmpl" if kind == "text_completion" else "chatcmpl"
    return {
        "id": f"{prefix}-fake{request.number:08d}",
        "object": kind,
        "created": created,
        "model": request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _text_choice(text: str, finish: str | None) -> dict[str, Any]:
    """The one choice of a completion."""
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}


def _text_finish(reply: Reply) -> str:
    """The finish reason of a completion, which knows no tools."""
    return "length" if reply.finish == "length" else "stop"


def _function(call: ToolCall) -> dict[str, str]:
    """The function part of a tool call."""
    return {"name": call.name, "arguments": call.arguments}


def _call_id(request: SeenRequest, index: int) -> str:
    """The id of a tool call; at most 40 characters, as the API demands."""
    return f"call_fake{request.number:08d}{index:03d}"
