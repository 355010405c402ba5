"""A stream of Messages, as an upstream sends it, told to a sink and metered."""

import enum

import msgspec

from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.event_shapes import ABSENT, tells_error, text_length
from omnigate.dialects.faults import Fault, FaultKind, anthropic_fault
from omnigate.dialects.messages.stream_shapes import (
    BlockDelta,
    BlockStart,
    StreamEvent,
    decode_event,
    odd_event,
)
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import BrokenStream
from omnigate.dialects.shapes import DeltaSink, Stop
from omnigate.dialects.stops import messages_stop
from omnigate.dialects.stream_reading import StreamReading
from omnigate.dialects.tool_ids import made_up_id


class _Block(enum.Enum):
    """The block that has begun and not ended."""

    NONE = "none"
    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    #: What clients of other protocols know nothing of, like the tools of a provider's own.
    IGNORED = "ignored"


_TEXT, _TOOL, _THINKING = _Block.TEXT, _Block.TOOL, _Block.THINKING
_NONE, _IGNORED = _Block.NONE, _Block.IGNORED

# The deltas that are told on; one without a type is judged by what it has.
_DELTAS = frozenset(("text_delta", "input_json_delta", "thinking_delta", "signature_delta", ""))


class StreamReader(StreamReading):
    """Reads one stream, whose blocks come one after the other."""

    __slots__ = (
        "_any",
        "_block",
        "_calls",
        "_explanation",
        "_index",
        "_input",
        "_reason",
        "_signature",
    )

    def __init__(self, sink: DeltaSink, meter: Meter) -> None:
        """Make the reader of one stream."""
        super().__init__(sink, meter)
        self._block = _NONE
        self._index: int | None = None  # of the block
        self._signature = ""  # of a block of thinking
        self._input = ABSENT  # of a call, as it began
        self._any = False  # whether arguments of a call have come
        self._calls = False
        self._reason: str | None = None
        self._explanation: str | None = None

    def event(self, data: bytes) -> None:
        """Take the data of one event."""
        if self._over:
            return
        try:
            event = decode_event(data)
        except (msgspec.MsgspecError, RecursionError):
            self._odd_event(data)
            return
        self._meter.event_count += 1
        try:
            self._event(event, data)
        except BrokenStream as error:
            self._break(error)

    def end(self) -> None:
        """Take the end of the stream, where its framing ended as it should."""
        if not self._over:
            self._fail(Fault(FaultKind.INTERRUPTED, ""))

    def _event(self, event: StreamEvent, data: bytes) -> None:
        name = event.type
        if event.usage is not None:
            self._meter.merge_closing(event.usage)
        if event.message is not None and event.message.usage is not None:
            self._meter.merge_opening(event.message.usage)
        if name == "content_block_delta":
            delta = event.delta
            if delta is not None:
                self._delta(event.index, delta)
        elif name == "error" or (event.error is not ABSENT and tells_error(event.error)):
            self._fail(anthropic_fault(None, data))
        else:
            self._other_event(name, event, data)

    def _other_event(self, name: str, event: StreamEvent, data: bytes) -> None:
        """Take an event that is no delta and no error; those of unknown types say nothing."""
        if name == "content_block_start":
            if event.content_block is not None:
                self._block_start(event.index, event.content_block)
        elif name == "content_block_stop":
            if event.index is None or event.index == self._index:
                self._end_block()
        elif name == "message_start":
            self._start()
        elif name == "message_delta":
            self._message_delta(event)
        elif name == "message_stop":
            self._message_stop()
        elif not name and self._odd.tells_failure(data):
            self._fail(anthropic_fault(None, data))

    def _delta(self, index: int | None, delta: BlockDelta) -> None:
        block = self._block
        if index != self._index and block is not _NONE and None not in (index, self._index):
            raise BrokenStream("The upstream sent content blocks that overlap.")
        text = delta.text
        if text and block is _TEXT and delta.type in _DELTAS:
            self._meter.text_bytes += len(text) if text.isascii() else text_length(text)
            self._sink.text(text)
        elif block is _IGNORED:
            self._meter.text_bytes += text_length(
                text or delta.partial_json or delta.thinking or ""
            )
        elif delta.type in _DELTAS:
            self._other_delta(index, delta)

    def _other_delta(self, index: int | None, delta: BlockDelta) -> None:
        """Take a delta that is not more text of a block of text."""
        if delta.partial_json:
            self._arguments(delta.partial_json)
        elif delta.thinking:
            if self._block is not _THINKING:
                self._begin(_THINKING, index)
                self._sink.thinking_start()
            self._meter.text_bytes += text_length(delta.thinking)
            self._sink.thinking(delta.thinking)
        elif delta.signature:
            self._signature = delta.signature
        elif delta.text:
            self._begin(_TEXT, index)
            self._meter.text_bytes += text_length(delta.text)
            self._sink.text(delta.text)

    def _arguments(self, fragment: str) -> None:
        if self._block is not _TOOL:
            raise BrokenStream("The upstream sent arguments of a tool call that is not open.")
        if self._any or not fragment.isspace():
            self._any = True
            self._meter.text_bytes += text_length(fragment)
            self._sink.tool_arguments(fragment)

    def _block_start(self, index: int | None, block: BlockStart) -> None:
        kind = block.type
        if kind == "text":
            self._begin(_TEXT, index)
            if block.text:
                self._meter.text_bytes += text_length(block.text)
                self._sink.text(block.text)
        elif kind == "thinking":
            self._begin(_THINKING, index)
            self._signature = block.signature or ""
            self._sink.thinking_start()
            if block.thinking:
                self._meter.text_bytes += text_length(block.thinking)
                self._sink.thinking(block.thinking)
        elif kind == "tool_use":
            self._begin(_TOOL, index)
            if not block.name:
                raise BrokenStream("The upstream sent a tool call without a name.")
            self._input = block.input
            self._any = False
            self._calls = True
            self._sink.tool_start(block.id or made_up_id(), block.name)
        else:
            self._begin(_IGNORED, index)
            if kind == "redacted_thinking":
                self._sink.redacted(block.data or "")

    def _begin(self, block: _Block, index: int | None) -> None:
        """Begin a block behind the one that is open, which some servers forget to end."""
        self._end_block()
        self._start()
        self._block = block
        self._index = index

    def _end_block(self) -> None:
        block, self._block, self._index = self._block, _NONE, None
        if block is _THINKING:
            signature, self._signature = self._signature, ""
            self._sink.thinking_end(signature)
        elif block is _TOOL:
            if not self._any:
                arguments = arguments_of(self._input)
                if arguments != "{}":
                    self._meter.text_bytes += text_length(arguments)
                self._sink.tool_arguments(arguments)
            self._input = ABSENT
            self._sink.tool_end()

    def _message_delta(self, event: StreamEvent) -> None:
        delta = event.delta
        if delta is None:
            return
        self._reason = delta.stop_reason or self._reason
        if delta.stop_details is not None:
            self._explanation = delta.stop_details.explanation

    def _message_stop(self) -> None:
        self.closed = True
        if not self.started:
            raise BrokenStream("The upstream ended an answer that had not begun.")
        self._end_block()
        stop = messages_stop(self._reason, self._calls)
        self._finish(stop, self._explanation if stop is Stop.REFUSAL else None)

    def _odd_event(self, data: bytes) -> None:
        """Take an event that does not fit its shape, or is none of it."""
        if data.lstrip().startswith(b"[DONE]"):
            return  # of servers that speak Chat elsewhere
        self._meter.event_count += 1
        try:
            tree = self._odd.read(data)
            if isinstance(tree, dict):
                self._event(odd_event(tree), data)
            elif tree is not None:
                self._fail(anthropic_fault(None, data))
        except BrokenStream as error:
            self._break(error)
