"""Token counts out of a passing answer, and the estimate where it ended before its closing figures.

The figures become the bill, so they are taken only from where the protocols put them (see
:mod:`omnigate.dialects.usage`), and what is odd about them is left out. A figure above 10^12 is not
believed; one given twice counts as its larger value, since the protocols repeat running totals.

An answer has given its *closing figures* when a usage object of the whole answer named its output:
one at the top level of an event or answer, or that of ``response``; the one in Anthropic's
``message_start`` opens the answer and closes nothing.
"""

from collections.abc import Callable

import msgspec

from omnigate.dialects.answer import AnswerVerdict, read_answer
from omnigate.dialects.endpoints import ANTHROPIC, OPENAI
from omnigate.dialects.event_shapes import (
    ABSENT,
    ChatDelta,
    OddEvent,
    decode_chat,
    decode_messages,
    decode_responses,
    read_odd,
    tells_error,
    text_length,
)
from omnigate.dialects.long_event import LongEvent
from omnigate.dialects.mould import Mould, mould_of
from omnigate.dialects.usage import (
    MAX_ODD_USAGE_BYTES,
    Figures,
    Usage,
    read_usage,
)
from omnigate.events import TokenCounts
from omnigate.wire.json_members import MemberReader, media_parts

FINISHED = 1
"""The event says that the answer is finished as far as the protocol is concerned."""
FAILED = 2
"""The event tells of an error."""
USAGE_ONLY = 4
"""The event is the chunk that only carries usage, which OpenAI sends to those who ask for it."""

# Rules of thumb of the estimate: a token is about four bytes of English text, and providers bill a
# picture or a page at up to about 1,600 tokens.
BYTES_PER_TOKEN = 4
TOKENS_PER_MEDIA_PART = 1600

# An event that fits no shape takes some 8 µs to read. Real ones are at least so long, and a stream
# may have any number of these; of shorter ones it may have a hundred, and those beyond are not
# looked into, for a read full of them would hold the reactor for 50 ms.
ODD_EVENT_BYTES = 48
MAX_ODD_LEFT = 100 * ODD_EVENT_BYTES

# A stream has one mould, or a few one after the other, as for thinking and for text. To look for
# one takes as long as to read an event five times; where they keep changing, the last one stays.
MAX_MOULDS_LOOKED_FOR = 16

# An answer of this kind tells how many tokens a request would have; it uses none.
_UNMETERED = "count_tokens"

_RESPONSES_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))


class Meter:
    """What one answer used, as far as it has been seen.

    :ivar event_count: the events of the stream, ``[DONE]`` not among them.
    :ivar text_bytes: the generated text of the stream, in bytes of UTF-8.
    :ivar body_bytes: the length of an answer that is no stream, as far as it came.
    :ivar closing_seen: whether the provider's closing figures have come.
    :ivar mould: of the events of the stream, as far as it is known.
    """

    __slots__ = (
        "_figures",
        "_members",
        "_moulds_left",
        "_odd_left",
        "_read",
        "_usage_seen",
        "body_bytes",
        "closing_seen",
        "event_count",
        "kind",
        "mould",
        "stream",
        "text_bytes",
    )

    def __init__(self, kind: str, stream: bool) -> None:
        """Make a meter for one answer.

        :param kind: of the endpoint that was asked at the upstream; see
            :class:`omnigate.dialects.endpoints.Endpoint`.
        :param stream: whether the answer is an event stream.
        """
        self.kind = kind
        self.stream = stream
        self.event_count = 0
        self.text_bytes = 0
        self.body_bytes = 0
        self.closing_seen = kind == _UNMETERED
        self._figures = Figures()
        self._read = _READERS.get(kind, _read_chat)
        self._members: MemberReader | None = None
        self._odd_left = MAX_ODD_LEFT
        self.mould: Mould | None = None
        self._moulds_left = MAX_MOULDS_LOOKED_FOR
        self._usage_seen: bytes | None = None

    def event(self, data: bytes) -> int:
        """See the data of one event of the stream.

        :returns: what it means for the stream: any of :data:`FINISHED`, :data:`FAILED` and
            :data:`USAGE_ONLY`, added up; 0 for nearly all events. Never raises.
        """
        self.event_count += 1
        mould = self.mould
        if mould is not None:
            text_bytes = mould.text_bytes(data)
            if text_bytes:
                self.text_bytes += text_bytes
                return 0
        if not data:
            return 0  # at once: a read may be full of these
        before = self.text_bytes
        try:
            flags = self._read(self, data)
        except (msgspec.MsgspecError, RecursionError):
            return self._odd_event(data)
        if not flags and self._moulds_left and self.text_bytes > before:
            self._moulds_left -= 1
            self.mould = mould_of(data, self.text_bytes - before, self._read_again) or mould
        return flags

    def likely_event(self, text_bytes: int) -> None:
        """See an event that was found to fit the mould."""
        self.event_count += 1
        self.text_bytes += text_bytes

    def _read_again(self, data: bytes) -> int:
        """Read an event as if it had not come; see :func:`~omnigate.dialects.mould.mould_of`.

        Figures in it are those of the event that came, and count as often as they are given once.
        """
        before = self.text_bytes
        try:
            flags = self._read(self, data)
            return -1 if flags else self.text_bytes - before
        except (msgspec.MsgspecError, RecursionError):
            return -1
        finally:
            self.text_bytes = before

    def long_event(self, event: LongEvent) -> int:
        """See an event that was too long to be held, once it has passed.

        :returns: as :meth:`event`, but never :data:`USAGE_ONLY`.
        """
        read = event.read()
        if read is None:
            return 0
        self.event_count += 1
        return self._believe(read)

    def whole(self, body: bytes) -> AnswerVerdict:
        """See a complete answer that is no stream, and say whether it is one."""
        self.body_bytes += len(body)
        verdict, usage = read_answer(self.kind, body)
        if usage is not None:
            self.merge_closing(usage)
        return verdict

    def piece(self, data: bytes) -> None:
        """See the next bytes of an answer that is no stream and too long to be held."""
        self.body_bytes += len(data)
        if self._members is None:
            self._members = MemberReader((b"usage",), MAX_ODD_USAGE_BYTES)
        self._members.feed(data)
        raw = self._members.values.get(b"usage")
        if raw is not None and raw is not self._usage_seen:
            self._usage_seen = raw
            usage = read_usage(raw)
            if usage is not None:
                self.merge_closing(usage)

    def unfinished(self) -> None:
        """Take the end of an answer that its protocol never called finished.

        What figures it gave were running totals, or such as were never confirmed.
        """
        self.closing_seen = self.kind == _UNMETERED

    def counts(self) -> TokenCounts:
        """Return what has been metered so far."""
        if self.kind == _UNMETERED:
            return TokenCounts()
        return self._figures.normalised(ANTHROPIC if self.kind == "messages" else OPENAI)

    @property
    def thinking_tokens(self) -> int | None:
        """The share of the output that was thought; ``None`` where it was not told."""
        return self._figures.thinking

    def settle(self, request_body: bytes) -> tuple[TokenCounts, bool]:
        """Return the counts to bill, and whether they are an estimate.

        They are one only where the closing figures have not come, and never less than was metered.

        :param request_body: the request, whose bytes and media parts make the estimate.
        """
        counts = self.counts()
        if self.closing_seen:
            return counts, False
        if not self._figures.input_seen:
            media_tokens = TOKENS_PER_MEDIA_PART * media_parts(request_body)
            counts.input_tokens = len(request_body) // BYTES_PER_TOKEN + media_tokens
        if self.stream:
            output = max(self.event_count, self.text_bytes // BYTES_PER_TOKEN)
        elif self.kind == "embeddings":
            # Vectors are not generated text: no provider bills output for them.
            output = 0
        else:
            output = self.body_bytes // BYTES_PER_TOKEN
        counts.output_tokens = max(counts.output_tokens, output)
        return counts, True

    def merge_opening(self, usage: Usage) -> None:
        """Take in figures that open an answer, as those of Anthropic's ``message_start``."""
        self._figures.merge(usage)

    def merge_closing(self, usage: Usage) -> None:
        """Take in a usage object of the whole answer."""
        if self._figures.merge(usage) or (self.kind == "embeddings" and self._figures.input_seen):
            self.closing_seen = True

    def _odd_event(self, data: bytes) -> int:
        """See an event that does not fit its shape."""
        if data.startswith(b"[DONE]"):
            self.event_count -= 1
            return FINISHED if self.kind in ("chat", "completions") else 0
        if not data.startswith(b"{") and not data.lstrip(b" \t\r\n").startswith(b"{"):
            return 0  # at once: to fail at parsing takes ten times as long
        left = self._odd_left + len(data) - ODD_EVENT_BYTES
        if left < 0:
            return 0
        self._odd_left = min(left, MAX_ODD_LEFT)
        odd = read_odd(data)
        return 0 if odd is None else self._believe(odd)

    def _believe(self, odd: OddEvent) -> int:
        """Take in what was read of an event with care."""
        self.text_bytes += odd.text_bytes
        if odd.usage is not None:
            self.merge_closing(odd.usage)
        if self.kind == "messages":
            if odd.message_usage is not None:
                self._figures.merge(odd.message_usage)
            return _messages_flags(odd.type, odd.error)
        if self.kind == "responses":
            if odd.response_usage is not None:
                self.merge_closing(odd.response_usage)
            return _responses_flags(odd.type, odd.error)
        flags = FINISHED if odd.finish_reason else 0
        if odd.usage is not None and not odd.choices:
            flags |= USAGE_ONLY
        return flags | _chat_failure(odd.error, odd.object)


def _read_chat(meter: Meter, data: bytes) -> int:
    chunk = decode_chat(data)
    choices = chunk.choices
    flags = 0
    if choices:
        for choice in choices:
            delta = choice.delta
            if delta is not None:
                text = delta.content
                if text:
                    meter.text_bytes += len(text) if text.isascii() else text_length(text)
                else:
                    meter.text_bytes += _other_text(delta)
            elif choice.text:
                meter.text_bytes += text_length(choice.text)
            if choice.finish_reason:
                flags = FINISHED
    if chunk.usage is not None:
        meter.merge_closing(chunk.usage)
        if not choices:
            flags |= USAGE_ONLY
    if chunk.error is not ABSENT or not choices:
        flags |= _chat_failure(tells_error(chunk.error), chunk.object)
    return flags


def _read_responses(meter: Meter, data: bytes) -> int:
    event = decode_responses(data)
    if event.delta:
        meter.text_bytes += text_length(event.delta)
        return 0
    for holder in (event, event.response):
        if holder is not None and holder.usage is not None:
            meter.merge_closing(holder.usage)
    return _responses_flags(event.type, tells_error(event.error))


def _read_messages(meter: Meter, data: bytes) -> int:
    event = decode_messages(data)
    for block in (event.delta, event.content_block):
        if block is not None:
            text = block.text or block.partial_json or block.thinking
            if text:
                meter.text_bytes += text_length(text)
    if event.usage is not None:
        meter.merge_closing(event.usage)
    if event.message is not None and event.message.usage is not None:
        meter._figures.merge(event.message.usage)
    return _messages_flags(event.type, tells_error(event.error))


def _other_text(delta: ChatDelta) -> int:
    """Return the bytes of generated text in a delta that has no content."""
    total = 0
    for text in (delta.reasoning_content or delta.reasoning, delta.refusal):
        if text:
            total += text_length(text)
    functions = [call.function for call in delta.tool_calls or ()]
    functions.append(delta.function_call)
    for function in functions:
        if function is not None and function.arguments:
            total += text_length(function.arguments)
    return total


def _chat_failure(error: bool, name: str | None) -> int:
    return FAILED if error or name == "error" else 0


def _responses_flags(name: str, error: bool) -> int:
    flags = FINISHED if name in _RESPONSES_ENDS else 0
    return flags | FAILED if error or name in ("error", "response.failed") else flags


def _messages_flags(name: str, error: bool) -> int:
    flags = FINISHED if name == "message_stop" else 0
    return flags | FAILED if error or name == "error" else flags


_READERS: dict[str, Callable[[Meter, bytes], int]] = {
    "chat": _read_chat,
    "completions": _read_chat,
    "responses": _read_responses,
    "messages": _read_messages,
}
