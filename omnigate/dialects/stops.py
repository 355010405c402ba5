"""Why an answer ended, in the words of Chat and of Messages.

Responses has no such word: its clients are told by the status of the response.
"""

from omnigate.dialects.shapes import Stop

# Beside OpenAI's own five, what compatible servers are known to write.
_CHAT_STOPS = {
    "stop": Stop.END,
    "length": Stop.LENGTH,
    "max_tokens": Stop.LENGTH,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "tool_use": Stop.TOOLS,
    "content_filter": Stop.REFUSAL,
    "refusal": Stop.REFUSAL,
    "safety": Stop.REFUSAL,
}

# The answer did not end but broke: an error of OpenRouter's, vLLM's word for a request that was
# called off, DeepSeek's for a machine that had no room.
_CHAT_FAILURES = frozenset(("error", "abort", "insufficient_system_resource"))

_MESSAGES_STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "pause_turn": Stop.END,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "tool_use": Stop.TOOLS,
    "refusal": Stop.REFUSAL,
}

CHAT_WORDS = {
    Stop.END: "stop",
    Stop.LENGTH: "length",
    Stop.TOOLS: "tool_calls",
    Stop.REFUSAL: "content_filter",
}
"""What a client of Chat is told as ``finish_reason``."""

MESSAGES_WORDS = {
    Stop.END: "end_turn",
    Stop.LENGTH: "max_tokens",
    Stop.TOOLS: "tool_use",
    Stop.REFUSAL: "refusal",
}
"""What a client of Messages is told as ``stop_reason``."""


def chat_stop(reason: str, calls: bool, refused: bool) -> Stop | None:
    """Read a ``finish_reason``.

    :param reason: not empty; a word that nobody knows is an end like ``stop``.
    :param calls: whether the answer calls tools: a call that was forced ends with ``stop``.
    :param refused: whether it has words of a refusal: such an answer ends with ``stop``, too.
    :returns: ``None`` where the reason tells of a failure.
    """
    if reason in _CHAT_FAILURES:
        return None
    stop = _CHAT_STOPS.get(reason.lower(), Stop.END)
    if stop is not Stop.END:
        return stop
    if refused:
        return Stop.REFUSAL
    return Stop.TOOLS if calls else Stop.END


def messages_stop(reason: str | None, calls: bool) -> Stop:
    """Read a ``stop_reason``.

    :param reason: a word that nobody knows, and none at all, is an end.
    :param calls: whether the answer calls tools, which tells what such an end means.
    """
    stop = _MESSAGES_STOPS.get(reason or "")
    if stop is None:
        stop = Stop.TOOLS if calls else Stop.END
    return stop
