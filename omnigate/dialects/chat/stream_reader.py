"""A stream of Chat Completions, as an upstream sends it, told to a sink and metered."""

import msgspec

from omnigate.dialects.chat.block_order import MAX_CALLS, REFUSAL, TEXT, THINKING, BlockOrder
from omnigate.dialects.chat.chunk_shapes import (
    CallFunction,
    Chunk,
    ChunkDelta,
    decode_chunk,
    odd_chunk,
)
from omnigate.dialects.event_shapes import ABSENT, tells_error, text_length
from omnigate.dialects.faults import Fault, FaultKind, openai_fault
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import BrokenStream
from omnigate.dialects.shapes import DeltaSink
from omnigate.dialects.stops import chat_stop
from omnigate.dialects.stream_reading import StreamReading


class StreamReader(StreamReading):
    """Reads one stream.

    A reason to finish is remembered, for the usage may follow it: the finish is told at ``[DONE]``,
    or where the stream ends behind it. A stream without such a reason is told as broken.
    """

    __slots__ = ("_order", "_reason", "_refused")

    def __init__(self, sink: DeltaSink, meter: Meter) -> None:
        """Make the reader of one stream."""
        super().__init__(sink, meter)
        self._order = BlockOrder(sink)
        self._reason = ""
        self._refused = False

    def event(self, data: bytes) -> None:
        """Take the data of one event."""
        if self._over:
            return
        try:
            chunk = decode_chunk(data)
        except (msgspec.MsgspecError, RecursionError):
            self._odd_event(data)
            return
        self._meter.event_count += 1
        try:
            self._chunk(chunk, data)
        except BrokenStream as error:
            self._break(error)

    def end(self) -> None:
        """Take the end of the stream, where its framing ended as it should."""
        if self._over:
            return
        if not self._reason:
            self._fail(Fault(FaultKind.INTERRUPTED, ""))
            return
        stop = chat_stop(self._reason, self._order.calls > 0, self._refused)
        if stop is None:
            self._fail(Fault(FaultKind.SERVER, "The upstream broke its answer off."))
            return
        try:
            self._order.finish()
        except BrokenStream as error:
            self._break(error)
            return
        self._finish(stop)

    def _chunk(self, chunk: Chunk, data: bytes) -> None:
        if chunk.usage is not None:
            self._meter.merge_closing(chunk.usage)
        if chunk.error is not ABSENT and tells_error(chunk.error):
            self._fail(openai_fault(None, data))
            return
        choices = chunk.choices
        if choices is None:
            if chunk.usage is None:
                self._no_chunk(data)
                return
            choices = []
        if not self.started:
            self._start()
        self._order.scanned_chars = 0
        told = False
        for choice in choices:
            delta = choice.delta
            if choice.finish_reason:
                self.closed = True
            if choice.index or told:
                # More than one answer is never asked for; it would be billed all the same.
                if delta is not None:
                    self._meter.text_bytes += _text_bytes(delta)
                continue
            told = True
            if delta is not None:
                self._delta(delta)
            if choice.finish_reason:
                self._reason = choice.finish_reason

    def _delta(self, delta: ChunkDelta) -> None:
        """Take what a chunk adds, in the order in which an answer has it."""
        order, meter = self._order, self._meter
        text = delta.reasoning_content or delta.reasoning
        if text:
            meter.text_bytes += text_length(text)
            order.words(THINKING, text)
        text = delta.content
        if text:
            meter.text_bytes += len(text) if text.isascii() else text_length(text)
            if order.plain:
                self._sink.text(text)
            else:
                order.words(TEXT, text)
        text = delta.refusal
        if text:
            meter.text_bytes += text_length(text)
            self._refused = True
            order.words(REFUSAL, text)
        if delta.tool_calls:
            if len(delta.tool_calls) > MAX_CALLS:
                raise BrokenStream("The upstream sent too many tool calls in one answer.")
            for call in delta.tool_calls:
                self._call(call.index, call.id, call.function)
        if delta.function_call is not None:
            self._call(None, None, delta.function_call)

    def _call(self, index: int | None, call_id: str | None, function: CallFunction | None) -> None:
        name = arguments = ""
        if function is not None:
            name, arguments = function.name or "", function.arguments or ""
            self._meter.text_bytes += text_length(arguments)
        self._order.call(index, call_id or "", name, arguments)

    def _odd_event(self, data: bytes) -> None:
        """Take an event that does not fit its shape, or is none of it."""
        if data.lstrip().startswith(b"[DONE]"):
            self.closed = True
            self.end()
            return
        self._meter.event_count += 1
        try:
            tree = self._odd.read(data)
            if isinstance(tree, dict):
                self._chunk(odd_chunk(tree), data)
            elif tree is not None:
                # Google sends an error as the only member of a list.
                self._fail(openai_fault(None, data))
        except BrokenStream as error:
            self._break(error)

    def _no_chunk(self, data: bytes) -> None:
        """Take an object that is no chunk: an error in a shape of its own, or nothing of ours."""
        if self._odd.tells_failure(data):
            self._fail(openai_fault(None, data))


def _text_bytes(delta: ChunkDelta) -> int:
    """Return the bytes of generated text in a delta that is not told."""
    functions = [call.function for call in delta.tool_calls or ()]
    functions.append(delta.function_call)
    texts = [delta.content, delta.reasoning_content or delta.reasoning, delta.refusal]
    texts += [function.arguments for function in functions if function is not None]
    return sum(text_length(text) for text in texts if text)
