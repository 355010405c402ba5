"""The figures of an answer as its client is shown them, in Chat and in Messages."""

import msgspec

from omnigate.dialects.event_shapes import ABSENT
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import AnswerUsage
from omnigate.dialects.usage import read_usage


def take_usage(meter: Meter, raw: msgspec.Raw) -> None:
    """Meter the ``usage`` of a whole answer; an odd one, or none, is no figure."""
    usage = None if raw is ABSENT else read_usage(raw)
    if usage is not None:
        meter.merge_closing(usage)


def answer_usage(meter: Meter) -> AnswerUsage:
    """Return what has been metered, which is what is billed, for the client to see."""
    counts = meter.counts()
    return AnswerUsage(
        uncached=counts.input_tokens,
        cached=counts.cached_input_tokens,
        written=counts.cache_write_input_tokens,
        output=counts.output_tokens,
        thinking=meter.thinking_tokens,
    )


def chat_usage(usage: AnswerUsage) -> bytes:
    """Return the JSON of a ``usage`` of Chat.

    The details of the prompt are always there; those of the answer where they are known.
    """
    thinking = b""
    if usage.thinking is not None:
        thinking = b',"completion_tokens_details":{"reasoning_tokens":%d}' % usage.thinking
    return (
        b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":'
        b'{"cached_tokens":%d,"cache_write_tokens":%d}%b}'
    ) % (
        usage.input,
        usage.output,
        usage.input + usage.output,
        usage.cached,
        usage.written,
        thinking,
    )


def messages_usage(usage: AnswerUsage) -> bytes:
    """Return the JSON of a ``usage`` of Messages; both figures of the cache are always there."""
    thinking = b""
    if usage.thinking is not None:
        thinking = b',"output_tokens_details":{"thinking_tokens":%d}' % usage.thinking
    return (
        b'{"input_tokens":%d,"output_tokens":%d,"cache_creation_input_tokens":%d,'
        b'"cache_read_input_tokens":%d%b}'
    ) % (usage.uncached, usage.output, usage.written, usage.cached, thinking)
