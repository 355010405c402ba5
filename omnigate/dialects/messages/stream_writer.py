"""A streamed answer as events of Messages.

Every event has its ``event:`` line, for the official SDK skips data without one. Blocks stand one
after the other, with a rising index.
"""

import enum

import msgspec

from omnigate.dialects.answer_usage import messages_usage
from omnigate.dialects.fault_words import anthropic_error_object
from omnigate.dialects.faults import Fault
from omnigate.dialects.shapes import AnswerUsage, Frame, Stop
from omnigate.dialects.stops import MESSAGES_WORDS

_encode = msgspec.json.Encoder().encode

_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_END = b"}}\n\n"


class _Open(enum.Enum):
    """The block that has begun and not ended."""

    NONE = "none"
    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"


# What a delta of a block says of itself; its value follows.
_DELTAS = {
    _Open.TEXT: b'"text_delta","text":',
    _Open.THINKING: b'"thinking_delta","thinking":',
    _Open.TOOL: b'"input_json_delta","partial_json":',
}
_TEXT_BLOCK = b'{"type":"text","text":""}'
_THINKING_BLOCK = b'{"type":"thinking","thinking":"","signature":""}'


class StreamWriter:
    """Writes what a stream reader tells; see :class:`omnigate.dialects.shapes.DeltaSink`.

    To a client who did not ask for thinking nothing is told of it.

    :ivar out: whole events, in order; whoever drives the stream takes them out.
    """

    __slots__ = ("_frame", "_index", "_open", "_prefix", "_thinks", "out")

    def __init__(self, frame: Frame) -> None:
        """Make the writer of one answer."""
        self.out: list[bytes] = []
        self._frame = frame
        self._thinks = frame.wants_thinking
        self._open = _Open.NONE
        self._index = -1  # of the block that began last
        self._prefix = b""  # of a delta of the open block

    def start(self) -> None:
        """Begin the message; its figures are not known yet, so they are zeros."""
        frame = self._frame
        self.out.append(
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_%b",'
            b'"type":"message","role":"assistant","model":%b,"content":[],"stop_reason":null,'
            b'"stop_sequence":null,"usage":%b}}\n\n'
            % (_encode(frame.id)[1:-1], _encode(frame.model), messages_usage(AnswerUsage()))
        )

    def thinking_start(self) -> None:
        """Begin a block."""
        if self._thinks:
            self._begin(_Open.THINKING, _THINKING_BLOCK)

    def thinking(self, text: str) -> None:
        """Tell more of the block."""
        if self._thinks:
            self.out.append(b"".join((self._prefix, _encode(text), _END)))

    def thinking_end(self, signature: str) -> None:
        """Tell the signature, where there is one, and end the block."""
        if not self._thinks:
            return
        if signature:
            self.out.append(
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
                b'"delta":{"type":"signature_delta","signature":%b}}\n\n'
                % (self._index, _encode(signature))
            )
        self._end_block()

    def redacted(self, data: str) -> None:
        """Tell the whole block."""
        if self._thinks:
            block = b'{"type":"redacted_thinking","data":%b}' % _encode(data)
            self._begin(_Open.THINKING, block)
            self._end_block()

    def text(self, text: str) -> None:
        """Tell the text, in a block of its own where another kind came before."""
        if self._open is not _Open.TEXT:
            self._begin(_Open.TEXT, _TEXT_BLOCK)
        self.out.append(b"".join((self._prefix, _encode(text), _END)))

    def refusal(self, text: str) -> None:
        """Tell the words of a refusal: text, to a client of Messages."""
        self.text(text)

    def tool_start(self, call_id: str, name: str) -> None:
        """Begin a call."""
        name = self._frame.tool_names.get(name, name)
        block = b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % (
            _encode(call_id),
            _encode(name),
        )
        self._begin(_Open.TOOL, block)

    def tool_arguments(self, fragment: str) -> None:
        """Tell more of its arguments."""
        self.out.append(b"".join((self._prefix, _encode(fragment), _END)))

    def tool_end(self) -> None:
        """End the call."""
        self._end_block()

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """Tell why the answer ends and what it used, all of it, and end the message."""
        self._end_block()
        details = b""
        if refusal is not None:
            details = (
                b',"stop_details":{"type":"refusal","category":null,"explanation":%b}'
            ) % _encode(refusal)
        self.out.append(
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"%b",'
            b'"stop_sequence":null%b},"usage":%b}\n\n'
            % (MESSAGES_WORDS[stop].encode(), details, messages_usage(usage))
        )
        self.out.append(_STOP)

    def fault(self, fault: Fault) -> None:
        """Tell of an error; nothing follows it, no ``message_stop`` either."""
        self.out.append(
            b'event: error\ndata: {"type":"error","error":%b}\n\n' % anthropic_error_object(fault)
        )

    def _begin(self, kind: _Open, block: bytes) -> None:
        """Begin a block behind the one that is open."""
        self._end_block()
        self._open = kind
        self._index = index = self._index + 1
        self.out.append(
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,'
            b'"content_block":%b}\n\n' % (index, block)
        )
        self._prefix = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":%b'
        ) % (index, _DELTAS[kind])

    def _end_block(self) -> None:
        if self._open is _Open.NONE:
            return
        self._open = _Open.NONE
        self.out.append(
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
            % self._index
        )
