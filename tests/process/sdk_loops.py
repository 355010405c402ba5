"""The play of three turns, out of each official package: the way their users write a loop of tools.

What the model said goes back as the package gave it, object by object, and nothing is put right on
the way. The provider refuses a turn that lost anything (:mod:`omnigate.testing.provider_loop`).
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from tests.process.sdk import done
from tests.testing import loops


@attrs.frozen
class Said:
    """What one turn came to, in no protocol's words.

    :ivar tokens: input, cached input, written to the cache, output.
    :ivar thinking: the share of the output that was thought; ``None`` where it is not told.
    """

    thought: str
    text: str
    calls: list[str]
    stop: str
    tokens: tuple[int, int, int, int]
    thinking: int | None


async def final(client: Any, manager: Any, name: str) -> Any:
    """What a package's own reader of streams makes of a stream.

    :param name: of the method that gives it.
    """
    if hasattr(manager, "__aenter__"):
        async with manager as stream:
            return await getattr(stream, name)()
    with manager as stream:
        return getattr(stream, name)()


async def chat_turn(client: Any, model: str, request: dict[str, Any], streamed: bool) -> Said:
    """One turn of Chat Completions; the request grows by what was said and answered."""
    if streamed:
        options = {"include_usage": True}
        manager = client.chat.completions.stream(model=model, stream_options=options, **request)
        answer = await final(client, manager, "get_final_completion")
    else:
        answer = await done(client.chat.completions.create(model=model, **request))
    choice = answer.choices[0]
    message, usage = choice.message, answer.usage
    request["messages"].append(message)
    for call in message.tool_calls or ():
        arguments = json.loads(call.function.arguments)
        request["messages"].append(loops.chat_result(call.id, call.function.name, arguments))
    given = usage.prompt_tokens_details
    spent = usage.completion_tokens_details
    cached, written = given.cached_tokens or 0, given.model_dump().get("cache_write_tokens") or 0
    return Said(
        thought=getattr(message, "reasoning_content", ""),
        text=message.content or "",
        calls=[call.function.name for call in message.tool_calls or ()],
        stop=choice.finish_reason,
        tokens=(
            usage.prompt_tokens - cached - written,
            cached,
            written,
            usage.completion_tokens,
        ),
        thinking=spent.reasoning_tokens if spent else None,
    )


async def plain_chat_turn(client: Any, model: str, request: dict[str, Any], streamed: bool) -> Said:
    """The same, where what was said goes back without what the package and the server added."""
    said = await chat_turn(client, model, request, streamed)
    request["messages"] = [
        message if isinstance(message, dict) else loops.plain_message(message.to_dict())
        for message in request["messages"]
    ]
    return said


async def messages_turn(client: Any, model: str, request: dict[str, Any], streamed: bool) -> Said:
    """One turn of Messages."""
    if streamed:
        manager = client.messages.stream(model=model, **request)
        answer = await final(client, manager, "get_final_message")
    else:
        answer = await done(client.messages.create(model=model, **request))
    request["messages"].append({"role": "assistant", "content": answer.content})
    calls = [block for block in answer.content if block.type == "tool_use"]
    results = [loops.messages_result(call.id, call.name, call.input) for call in calls]
    if results:
        request["messages"].append({"role": "user", "content": results})
    usage = answer.usage
    return Said(
        thought="".join(b.thinking for b in answer.content if b.type == "thinking"),
        text="".join(block.text for block in answer.content if block.type == "text"),
        calls=[call.name for call in calls],
        stop=answer.stop_reason,
        tokens=(
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
        ),
        thinking=(usage.model_dump().get("output_tokens_details") or {}).get("thinking_tokens"),
    )


async def responses_turn(client: Any, model: str, request: dict[str, Any], streamed: bool) -> Said:
    """One turn of Responses."""
    if streamed:
        manager = client.responses.stream(model=model, **request)
        answer = await final(client, manager, "get_final_response")
    else:
        answer = await done(client.responses.create(model=model, **request))
    request["input"] += answer.output
    calls = [item for item in answer.output if item.type == "function_call"]
    for call in calls:
        arguments = json.loads(call.arguments)
        request["input"].append(loops.responses_result(call.call_id, call.name, arguments))
    usage = answer.usage
    cached = usage.input_tokens_details.cached_tokens
    written = usage.input_tokens_details.cache_write_tokens
    summaries = [item.summary for item in answer.output if item.type == "reasoning"]
    return Said(
        thought="\n\n".join(part.text for summary in summaries for part in summary),
        text=answer.output_text,
        calls=[call.name for call in calls],
        stop=answer.status,
        tokens=(usage.input_tokens - cached - written, cached, written, usage.output_tokens),
        thinking=usage.output_tokens_details.reasoning_tokens,
    )


Turn = Callable[[Any, str, dict[str, Any], bool], Awaitable[Said]]

#: How each protocol opens the play, takes a turn, and says that it stopped: for calls, for good.
PLAYS: dict[str, tuple[Callable[[], dict[str, Any]], Turn, tuple[str, str]]] = {
    "chat": (loops.chat_request, chat_turn, ("tool_calls", "stop")),
    "messages": (loops.messages_request, messages_turn, ("tool_use", "end_turn")),
    "responses": (loops.responses_request, responses_turn, ("completed", "completed")),
}
