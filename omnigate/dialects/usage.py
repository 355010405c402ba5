"""The token figures of a provider: where they stand, which are believed, and how they are merged.

All protocols put them into an object named ``usage``; what the members are called differs:

* chat, completions, embeddings: ``prompt_tokens``, ``completion_tokens``,
  ``prompt_tokens_details.cached_tokens`` and ``.cache_write_tokens``;
* responses: ``input_tokens``, ``output_tokens``, ``input_tokens_details`` with the same two;
* messages: ``input_tokens``, ``output_tokens``, ``cache_read_input_tokens``,
  ``cache_creation_input_tokens``.

The share of the output that was thought stands in ``completion_tokens_details`` or
``output_tokens_details``; it is part of the output and on no bill of its own.

The names never contradict each other, so one shape reads them all; what an input figure *means* is
decided by the protocol, in :meth:`Figures.normalised`.
"""

import json
from typing import Annotated, Any, Never

import msgspec

from omnigate.dialects.endpoints import ANTHROPIC
from omnigate.events import MAX_COUNT, TokenCounts

# What an event may carry: a larger figure would make the control plane refuse the event, and the
# request would be on no bill. No provider sells a context anywhere near it.
MAX_TOKENS = MAX_COUNT

# A usage object takes 150 to 600 bytes. What is odd about a larger one is not looked into, since an
# untyped tree of it could hold the reactor; of a long text no larger one is kept.
MAX_ODD_USAGE_BYTES = 16 * 1024

# More digits than any number that means something has; Python refuses to parse above 4,300.
MAX_DIGITS = 40

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]


class Details(msgspec.Struct, gc=False):
    """What of the input went through the provider's prompt cache (OpenAI style)."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """What of the output was thought: OpenAI's word, and Anthropic's."""

    reasoning_tokens: Count | None = None
    thinking_tokens: Count | None = None


class Usage(msgspec.Struct, gc=False):
    """A usage object of any of the protocols; ``None`` is a figure that was not given."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    completion_tokens_details: OutputDetails | None = None
    output_tokens_details: OutputDetails | None = None


_decode_usage = msgspec.json.Decoder(Usage | None).decode


def read_usage(raw: bytes | msgspec.Raw) -> Usage | None:
    """Read the JSON value of a ``usage`` member; odd figures in it count as not given.

    :returns: ``None`` where the value is no object.
    """
    try:
        return _decode_usage(raw)
    except (msgspec.MsgspecError, RecursionError):
        return odd_usage(load_tree(bytes(raw), MAX_ODD_USAGE_BYTES))


def odd_usage(value: object) -> Usage | None:
    """Take what can be believed out of a usage object that is not as the protocols have it.

    :param value: the object as the standard library's parser gives it.
    :returns: ``None`` where the value is no object.
    """
    if not isinstance(value, dict):
        return None
    return Usage(
        prompt_tokens=_count(value.get("prompt_tokens")),
        completion_tokens=_count(value.get("completion_tokens")),
        input_tokens=_count(value.get("input_tokens")),
        output_tokens=_count(value.get("output_tokens")),
        cache_read_input_tokens=_count(value.get("cache_read_input_tokens")),
        cache_creation_input_tokens=_count(value.get("cache_creation_input_tokens")),
        prompt_tokens_details=_odd_details(value.get("prompt_tokens_details")),
        input_tokens_details=_odd_details(value.get("input_tokens_details")),
        completion_tokens_details=_odd_output(value.get("completion_tokens_details")),
        output_tokens_details=_odd_output(value.get("output_tokens_details")),
    )


def load_tree(data: bytes, limit: int, *, strict: bool = False) -> Any:
    """Parse JSON the forgiving way: lone surrogates, control bytes in strings, NaN, a mark first.

    Servers are known to send all of these, clients to take some of them, and msgspec takes none.

    :param limit: the most bytes to parse; see the constants of the callers.
    :param strict: take only what RFC 8259 does, lone surrogates being escapes like others.
    :returns: ``None`` for what is no JSON even so, or is longer than ``limit``.
    """
    if len(data) > limit:
        return None
    try:
        if strict:
            text = data.decode("utf-8")
            return json.loads(text, parse_int=_believable_int, parse_constant=_no_number)
        return json.loads(
            data.decode("utf-8-sig", "replace"), strict=False, parse_int=_believable_int
        )
    except (ValueError, RecursionError):
        return None


def _no_number(word: str) -> Never:
    """Refuse ``NaN`` and ``Infinity``, which Python's parser knows and JSON does not."""
    raise ValueError(word)


def _believable_int(digits: str) -> int | None:
    """Parse an integer, unless it is so long that Python refuses or takes long to."""
    return int(digits) if len(digits) <= MAX_DIGITS else None


def _odd_details(value: object) -> Details | None:
    if not isinstance(value, dict):
        return None
    return Details(
        cached_tokens=_count(value.get("cached_tokens")),
        cache_write_tokens=_count(value.get("cache_write_tokens")),
    )


def _odd_output(value: object) -> OutputDetails | None:
    if not isinstance(value, dict):
        return None
    return OutputDetails(
        reasoning_tokens=_count(value.get("reasoning_tokens")),
        thinking_tokens=_count(value.get("thinking_tokens")),
    )


def _count(value: object) -> int | None:
    """Return a figure that can be believed; ``12.0`` can, ``true`` and ``"12"`` cannot."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    return None


class Figures(msgspec.Struct, gc=False):
    """The provider's own figures for one answer, each the largest seen so far.

    The largest, because every protocol that repeats a figure repeats it as a running total. The
    collector need not look at it: it holds numbers, and there is one for each answer.

    :ivar input: as the protocol counts it; see :meth:`normalised`.
    :ivar input_seen: whether an input figure of any kind was given at all.
    :ivar thinking: the share of the output that was thought; ``None`` where it was not told.
    """

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    input_seen: bool = False
    thinking: int | None = None

    def merge(self, usage: Usage) -> bool:
        """Take the figures of one usage object in.

        :returns: whether it gave an output figure.
        """
        # Written out and not in loops: it is done for every answer, and once for every chunk of a
        # stream that repeats its figures.
        details = usage.prompt_tokens_details
        if details is not None:
            self._merge_cache(details.cached_tokens, details.cache_write_tokens)
        details = usage.input_tokens_details
        if details is not None:
            self._merge_cache(details.cached_tokens, details.cache_write_tokens)
        cached, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        if cached is not None or written is not None:
            self._merge_cache(cached, written)
        tokens = usage.prompt_tokens
        if tokens is not None:
            self.input_seen = True
            if tokens > self.input:
                self.input = tokens
        tokens = usage.input_tokens
        if tokens is not None:
            self.input_seen = True
            if tokens > self.input:
                self.input = tokens
        thought = usage.completion_tokens_details
        if thought is not None:
            self._merge_thinking(thought)
        thought = usage.output_tokens_details
        if thought is not None:
            self._merge_thinking(thought)
        output_given = False
        tokens = usage.completion_tokens
        if tokens is not None:
            output_given = True
            if tokens > self.output:
                self.output = tokens
        tokens = usage.output_tokens
        if tokens is not None:
            output_given = True
            if tokens > self.output:
                self.output = tokens
        return output_given

    def normalised(self, protocol: str) -> TokenCounts:
        """Return the four counts of the bill, in which ``input_tokens`` means uncached input.

        An OpenAI-style input figure holds the cached and the written tokens, so they are taken
        off; an Anthropic-style one does not.
        """
        uncached = self.input
        if protocol != ANTHROPIC:
            uncached -= self.cached + self.written
            if uncached < 0:
                uncached = 0
        return TokenCounts(uncached, self.cached, self.written, self.output)

    def _merge_thinking(self, details: OutputDetails) -> None:
        for thinking in (details.reasoning_tokens, details.thinking_tokens):
            if thinking is not None and (self.thinking is None or thinking > self.thinking):
                self.thinking = thinking

    def _merge_cache(self, cached: int | None, written: int | None) -> None:
        if cached is not None:
            self.input_seen = True
            if cached > self.cached:
                self.cached = cached
        if written is not None:
            self.input_seen = True
            if written > self.written:
                self.written = written
