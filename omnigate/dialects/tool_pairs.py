"""Calls of tools and their results, each of which needs the other.

No provider takes a conversation in which a call has no result or a result no call. It would say so
of a place in the request as it was sent on; here it is the place in the client's own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.shapes import Role, ToolCall, ToolResult, Turn
from omnigate.errors import GatewayError

ERROR_MARK = "[tool error] "
"""Stands before what a tool said that failed: OpenAI's protocols have no other word for it."""


def check_pairs(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
    """See that each call of a turn has its result in the turn behind it, and the reverse.

    :raises GatewayError: ``untranslatable_request`` where one has not.
    """
    if not calls and not results:
        return
    if len(calls) == len(results) == 1 and calls[0].id == results[0].call_id:
        return  # as nearly always
    waiting = Counter([call.id for call in calls])
    for result in results:
        if not waiting[result.call_id]:
            raise _without_call(result)
        waiting[result.call_id] -= 1
    for call in calls:
        if waiting[call.id]:
            raise _without_result(call)


def check_turns(turns: Iterable[Turn]) -> None:
    """See the same of a whole conversation, in which turns of the assistant that touch are one.

    :raises GatewayError: as :func:`check_pairs`.
    """
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    spoken = True
    for turn in turns:
        assistant = turn.role is Role.ASSISTANT
        if assistant and not spoken:
            check_pairs(calls, results)
            calls, results = [], []
        spoken = assistant
        if assistant:
            calls += [part for part in turn.parts if isinstance(part, ToolCall)]
        else:
            results += [part for part in turn.parts if isinstance(part, ToolResult)]
    check_pairs(calls, results)


def _without_call(result: ToolResult) -> GatewayError:
    message = (
        f"{result.path} names no call of the assistant's turn right before: each result has to"
        " follow its call, and to bear its id"
    )
    return untranslatable(result.path, message)


def _without_result(call: ToolCall) -> GatewayError:
    message = (
        f"{call.path} has no result in the turn behind it: send the result of every call, under"
        " the call's id"
    )
    return untranslatable(call.path, message)
