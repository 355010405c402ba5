"""A streamed answer as chunks of Chat Completions.

So exact because the official accumulator appends strings (an id or a name told twice is doubled),
merges list entries by their ``index``, and takes the usage of the last chunk it sees.
"""

from io import StringIO

import msgspec

from omnigate.dialects.answer_usage import chat_usage
from omnigate.dialects.fault_words import openai_error_object
from omnigate.dialects.faults import Fault
from omnigate.dialects.packing import OWN_PREFIX
from omnigate.dialects.shapes import AnswerUsage, Frame, Stop
from omnigate.dialects.stops import CHAT_WORDS

MAX_BLOCK_CHARS = 1024 * 1024
"""The longest block of thinking that is held, to be told once more as a whole with its signature;
a quarter of a million tokens. Of a longer one the client gets the text and no block."""

_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class StreamWriter:
    """Writes what a stream reader tells; see :class:`omnigate.dialects.shapes.DeltaSink`.

    To a client who is not to be shown thinking nothing is told of it.

    :ivar out: whole events, in order; whoever drives the stream takes them out.
    """

    __slots__ = (
        "_arguments",
        "_block",
        "_content",
        "_end",
        "_frame",
        "_head",
        "_reasoning",
        "_refused",
        "_shows",
        "_think_index",
        "_tool_index",
        "out",
    )

    def __init__(self, frame: Frame) -> None:
        """Make the writer of one answer."""
        self.out: list[bytes] = []
        self._frame = frame
        self._tool_index = -1
        self._think_index = -1
        self._refused = False
        self._shows = frame.wants_thinking
        self._block: StringIO | None = None
        # A chunk is a head, a delta and an end, of which only the delta is new.
        self._head = b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%d,' % (
            _encode(frame.id)[1:-1],
            frame.created,
        ) + b'"model":%b,"choices":[' % _encode(frame.model)
        usage = b',"usage":null' if frame.include_usage else b""
        self._end = b'},"finish_reason":null}]%b}\n\n' % usage
        delta = self._head + b'{"index":0,"delta":{'
        self._content = delta + b'"content":'
        self._reasoning = delta + b'"reasoning_content":'
        self._arguments = b""

    def start(self) -> None:
        """Tell the role."""
        self._delta(b'"role":"assistant"')

    def thinking_start(self) -> None:
        """Begin to hold a block."""
        if self._shows:
            self._think_index += 1
            self._block = StringIO()

    def thinking(self, text: str) -> None:
        """Tell the text, and hold it for the whole block."""
        if not self._shows:
            return
        self.out.append(b"".join((self._reasoning, _encode(text), self._end)))
        block = self._block
        if block is not None:
            block.write(text)
            if block.tell() > MAX_BLOCK_CHARS:
                self._block = None

    def thinking_end(self, signature: str) -> None:
        """Tell the whole block, which the client brings back.

        Not one that no provider signed, for none would take it back: the text was told.
        """
        if not self._shows:
            return
        block, self._block = self._block, None
        if block is None or not signature or signature.startswith(OWN_PREFIX):
            self._think_index -= 1
            return
        self._delta(
            b'"thinking_blocks":[{"index":%d,"type":"thinking","thinking":%b,"signature":%b}]'
            % (self._think_index, _encode(block.getvalue()), _encode(signature))
        )

    def redacted(self, data: str) -> None:
        """Tell the whole block."""
        if not self._shows:
            return
        self._think_index += 1
        self._delta(
            b'"thinking_blocks":[{"index":%d,"type":"redacted_thinking","data":%b}]'
            % (self._think_index, _encode(data))
        )

    def text(self, text: str) -> None:
        """Tell the text."""
        self.out.append(b"".join((self._content, _encode(text), self._end)))

    def refusal(self, text: str) -> None:
        """Tell the words of a refusal."""
        self._refused = True
        self._delta(b'"refusal":%b' % _encode(text))

    def tool_start(self, call_id: str, name: str) -> None:
        """Tell id and name of a call, once."""
        self._tool_index += 1
        index = self._tool_index
        self._delta(
            b'"tool_calls":[{"index":%d,"id":%b,"type":"function","function":'
            b'{"name":%b,"arguments":""}}]'
            % (index, _encode(call_id), _encode(self._frame.tool_names.get(name, name)))
        )
        self._arguments = (
            b'%b{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":'
        ) % (self._head, index)

    def tool_arguments(self, fragment: str) -> None:
        """Tell more of the arguments."""
        self.out.append(b"".join((self._arguments, _encode(fragment), b"}}]", self._end)))

    def tool_end(self) -> None:
        """Tell nothing: the next index, or the finish, ends the call."""

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """Tell the end: words of a refusal, the reason, the usage where it is wished for.

        Where the model itself declined the reason is ``stop``, as OpenAI has it.
        """
        if stop is Stop.REFUSAL and self._refused:
            stop = Stop.END
        elif refusal:
            self.refusal(refusal)
        include_usage = self._frame.include_usage
        self.out.append(
            b'%b{"index":0,"delta":{},"finish_reason":"%b"}]%b}\n\n'
            % (
                self._head,
                CHAT_WORDS[stop].encode(),
                b',"usage":null' if include_usage else b"",
            )
        )
        if include_usage:
            self.out.append(b'%b],"usage":%b}\n\n' % (self._head, chat_usage(usage)))
        self.out.append(_DONE)

    def fault(self, fault: Fault) -> None:
        """Tell of an error; nothing follows it, no ``[DONE]`` either."""
        self.out.append(b'data: {"error":%b}\n\n' % openai_error_object(fault))

    def _delta(self, delta: bytes) -> None:
        self.out.append(b'%b{"index":0,"delta":{%b%b' % (self._head, delta, self._end))
