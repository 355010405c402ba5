"""The fake provider's Responses API: whole answers, and the events in their order."""

from typing import Any

from omnigate.testing.provider_reply import Event, Reply, ToolCall, Usage, cut_text, to_json
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import Scenario


def responses_whole(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> dict[str, Any]:
    """A finished response object."""
    usage = None if scenario.usage == "none" else responses_usage(reply.usage)
    return _response(request, created, _final_status(reply), _items(request, reply), usage)


def responses_events(
    request: SeenRequest, scenario: Scenario, reply: Reply, created: int
) -> list[Event]:
    """The lifecycle of a response as events, numbered from 0."""
    writer = _EventWriter()
    opening = _response(request, created, "in_progress", [], None)
    writer.add("response.created", response=opening)
    writer.add("response.in_progress", response=opening)
    items = _items(request, reply)
    for place, item in enumerate(items):
        if item["type"] == "reasoning":
            _reasoning_events(writer, place, item)
        elif item["type"] == "message":
            _message_events(writer, place, item, reply)
        else:
            _call_events(writer, place, item)
    usage = None if scenario.usage == "none" else responses_usage(reply.usage)
    status = _final_status(reply)
    final = _response(request, created, status, items, usage)
    writer.add(f"response.{status}", response=final)
    return writer.events


def responses_error(message: str, sequence_number: int) -> Event:
    """The event of a stream that failed."""
    data = {
        "type": "error",
        "code": "server_error",
        "message": message,
        "param": None,
        "sequence_number": sequence_number,
    }
    return ("error", to_json(data))


def responses_usage(usage: Usage) -> dict[str, Any]:
    """Usage in the words of the Responses API."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }


class _EventWriter:
    """Numbers events as they are added."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, kind: str, **members: object) -> None:
        """Append one event of this type."""
        data = {"type": kind, **members, "sequence_number": len(self.events)}
        self.events.append((kind, to_json(data)))


def _reasoning_events(writer: _EventWriter, place: int, item: dict[str, Any]) -> None:
    """Item added, each part of its summary from added to done, item done."""
    begun = {**item, "summary": [], "encrypted_content": None}
    writer.add("response.output_item.added", output_index=place, item=begun)
    for index, part in enumerate(item["summary"]):
        where: dict[str, Any] = {
            "item_id": item["id"],
            "output_index": place,
            "summary_index": index,
        }
        empty = {"type": "summary_text", "text": ""}
        writer.add("response.reasoning_summary_part.added", **where, part=empty)
        for piece in cut_text(part["text"], 3):
            writer.add("response.reasoning_summary_text.delta", **where, delta=piece)
        writer.add("response.reasoning_summary_text.done", **where, text=part["text"])
        writer.add("response.reasoning_summary_part.done", **where, part=part)
    writer.add("response.output_item.done", output_index=place, item=item)


def _message_events(writer: _EventWriter, place: int, item: dict[str, Any], reply: Reply) -> None:
    """Item added, part added, the text's deltas, part done, item done."""
    where: dict[str, Any] = {"item_id": item["id"], "output_index": place, "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    writer.add("response.output_item.added", output_index=place, item=begun)
    writer.add("response.content_part.added", **where, part=empty)
    for piece in reply.pieces:
        writer.add("response.output_text.delta", **where, delta=piece, logprobs=[])
    writer.add("response.output_text.done", **where, text=reply.text, logprobs=[])
    writer.add("response.content_part.done", **where, part=item["content"][0])
    writer.add("response.output_item.done", output_index=place, item=item)


def _call_events(writer: _EventWriter, place: int, item: dict[str, Any]) -> None:
    """Item added, the arguments' deltas, arguments done, item done."""
    where: dict[str, Any] = {"item_id": item["id"], "output_index": place}
    begun = {**item, "status": "in_progress", "arguments": ""}
    writer.add("response.output_item.added", output_index=place, item=begun)
    for part in cut_text(item["arguments"], 3):
        writer.add("response.function_call_arguments.delta", **where, delta=part)
    writer.add(
        "response.function_call_arguments.done",
        **where,
        name=item["name"],
        arguments=item["arguments"],
    )
    writer.add("response.output_item.done", output_index=place, item=item)


def _items(request: SeenRequest, reply: Reply) -> list[dict[str, Any]]:
    """The output items of the finished response."""
    items: list[dict[str, Any]] = []
    if reply.thought or reply.seal:
        # Each paragraph is a part of the summary.
        told = reply.thought.split("\n\n") if reply.thought else []
        items.append(
            {
                "id": f"rs_fake{request.number:08d}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text} for text in told],
                "encrypted_content": reply.seal or None,
            }
        )
    if reply.pieces:
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_fake{request.number:08d}",
                "type": "message",
                "status": "incomplete" if reply.finish == "length" else "completed",
                "role": "assistant",
                "content": [text],
            }
        )
    items.extend(_call_item(request, index, call) for index, call in enumerate(reply.calls))
    return items


def _call_item(request: SeenRequest, index: int, call: ToolCall) -> dict[str, Any]:
    """A function call as an output item."""
    return {
        "id": f"fc_fake{request.number:08d}{index:03d}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_fake{request.number:08d}{index:03d}",
        "name": call.name,
        "arguments": call.arguments,
    }


def _final_status(reply: Reply) -> str:
    """How the response ends."""
    return "incomplete" if reply.finish == "length" else "completed"


def _response(
    request: SeenRequest,
    created: int,
    status: str,
    output: list[dict[str, Any]],
    usage: dict[str, Any] | None,
) -> dict[str, Any]:
    """A response object, with the echo of what was asked."""
    fields = request.fields
    incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": f"resp_fake{request.number:08d}",
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": incomplete,
        "instructions": fields.get("instructions"),
        "max_output_tokens": fields.get("max_output_tokens"),
        "metadata": fields.get("metadata") or {},
        "model": request.model,
        "output": output,
        "parallel_tool_calls": fields.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": fields.get("store", True),
        "temperature": 1.0,
        "text": fields.get("text") or {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": fields.get("tool_choice", "auto"),
        "tools": fields.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
    }
