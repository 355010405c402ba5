"""How much a model at a Messages upstream is asked to think, by what an OpenAI client wished.

Models of two kinds: the adaptive ones take an effort by name, the older ones a budget of tokens,
which goes together neither with forced tools nor with an answer that is to be continued, nor with a
last turn of calls that the model did not think about in the open.
"""

from typing import Any

import attrs
import msgspec

from omnigate.capabilities import EFFORTS, Capabilities
from omnigate.dialects.messages.turns import Conversation, of_responses
from omnigate.dialects.request_body import untranslatable
from omnigate.dialects.shapes import (
    RedactedThinking,
    Request,
    Role,
    Thinking,
    ThinkingWish,
    ToolCall,
)
from omnigate.text import quoted

#: Tokens by effort. The provider takes no less than the least of them.
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 32768,
}
_MIN_BUDGET = 1024

# The weakest and the strongest effort that all adaptive models take.
_LEAST = "low"
_MOST = "xhigh"


@attrs.frozen
class ThinkingPlan:
    """What is asked for.

    :ivar thinking: the member of that name, JSON-ready; ``None`` to leave it out.
    :ivar effort: of ``output_config``; ``None`` to leave it out.
    :ivar thinks: whether the model is told to think, which no sampling goes with.
    """

    thinking: Any = None
    effort: str | None = None
    thinks: bool = False


def plan_thinking(
    request: Request, caps: Capabilities, said: Conversation, max_tokens: int, forced: bool
) -> ThinkingPlan:
    """Decide what is asked for; a wish by the extension ``thinking`` wins over the effort.

    :param max_tokens: of the output, as it is sent.
    :param forced: whether the model has to call a tool.
    :raises GatewayError: the effort is one that no budget is known for.
    """
    if request.thinking is not None:
        return _as_wished(request.thinking, said, forced)
    if request.effort is None:
        return ThinkingPlan()
    if caps.thinking == "adaptive":
        return _adaptive(request.effort, caps, said)
    budget = _budget(request, max_tokens)
    if budget < _MIN_BUDGET or _excluded(said, forced):
        return ThinkingPlan()
    return ThinkingPlan({"type": "enabled", "budget_tokens": budget}, thinks=True)


def _as_wished(wish: ThinkingWish, said: Conversation, forced: bool) -> ThinkingPlan:
    thinks = wish.type != "disabled"
    if (thinks and said.prefill) or (wish.type == "enabled" and _excluded(said, forced)):
        return ThinkingPlan()
    if wish.raw:
        return ThinkingPlan(msgspec.Raw(wish.raw), thinks=thinks)
    told = {"type": wish.type, "budget_tokens": wish.budget or None, "display": wish.display}
    return ThinkingPlan({name: value for name, value in told.items() if value}, thinks=thinks)


def _adaptive(effort: str, caps: Capabilities, said: Conversation) -> ThinkingPlan:
    if effort == "none":
        if caps.thinking_off:
            return ThinkingPlan({"type": "disabled"})
        return ThinkingPlan(effort=_had(_LEAST, caps))
    had = _had(effort, caps)
    if said.prefill:
        return ThinkingPlan(effort=had)
    # Without the display newer models do not tell what they thought.
    return ThinkingPlan({"type": "adaptive", "display": "summarized"}, had, thinks=True)


def _had(effort: str, caps: Capabilities) -> str:
    """Return the effort nearest to one that the model has; of two the weaker, which costs less."""
    if effort not in EFFORTS:
        # The provider may know a word that is newer than the table; if not, it says so itself.
        return effort
    rank = EFFORTS.index(effort)
    lowest = EFFORTS.index(_LEAST)
    there = [EFFORTS.index(known) for known in caps.efforts if known in EFFORTS]
    there = [known for known in there if known >= lowest]
    if not there:
        return EFFORTS[min(max(rank, lowest), EFFORTS.index(_MOST))]
    return EFFORTS[min(there, key=lambda known: (abs(known - rank), known))]


def _budget(request: Request, max_tokens: int) -> int:
    effort = request.effort or "none"
    if effort == "none":
        return 0
    if effort not in _BUDGETS:
        path = "reasoning.effort" if of_responses(request.turns) else "reasoning_effort"
        message = (
            f"{path} is {quoted(effort)}, which no budget is known for: ask for one of"
            f" {', '.join(EFFORTS)}"
        )
        raise untranslatable(path, message)
    return min(_BUDGETS[effort], max_tokens // 2)


def _excluded(said: Conversation, forced: bool) -> bool:
    """Whether a budget would be refused: there is more in the request that it does not go with."""
    return forced or said.prefill or _calls_unthought(said)


def _calls_unthought(said: Conversation) -> bool:
    """Whether the assistant's last turn has calls, and no signed thinking that led to them."""
    for message in reversed(said.messages):
        if message.role is Role.ASSISTANT:
            kinds = {type(part) for part in message.parts}
            return ToolCall in kinds and not kinds & {Thinking, RedactedThinking}
    return False
