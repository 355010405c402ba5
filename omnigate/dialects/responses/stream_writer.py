"""A streamed answer, told to a client of Responses as the events of its protocol.

Each item of the output is announced, told in pieces, and repeated as a whole when it is done; the
last event repeats all of them. So the text of the answer is held, up to a bound.
"""

import enum
from io import StringIO

import msgspec

from omnigate.dialects.fault_words import responses_error_object
from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.packing import pack_thinking
from omnigate.dialects.responses.response_object import (
    COMPLETED,
    CONTENT_FILTER,
    FAILED,
    IN_PROGRESS,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    Text,
    function_call_item,
    item_id,
    message_item,
    reasoning_item,
    refusal_part,
    response_object,
    summary_part,
    text_json,
    text_part,
    tool_name,
)
from omnigate.dialects.shapes import AnswerUsage, Frame, RedactedThinking, Stop, Thinking

# Half a million tokens, four times what any model of today puts out. To repeat as much four times,
# as the protocol has it, takes some 20 ms.
MAX_COLLECTED_BYTES = 2 * 1024 * 1024
_SUMMARY_PLACE = b',"summary_index":0'
_TOO_LONG = "The answer is longer than the last event of a stream can repeat."

_encode = msgspec.json.Encoder().encode


class _State(enum.Enum):
    """What may come next."""

    NEW = enum.auto()
    """Nothing was told."""
    BETWEEN = enum.auto()
    """No item is open."""
    TEXT = enum.auto()
    """A message is open, and in it a part that is text."""
    REFUSAL = enum.auto()
    """The same with a part in which the model declines."""
    THINKING = enum.auto()
    """A reasoning item is open that has no text."""
    SUMMARY = enum.auto()
    """A reasoning item is open, and its summary has begun."""
    CALL = enum.auto()
    """A call is open."""
    CALLED = enum.auto()
    """A call is whole and still open: the next call of the sink tells whether it was cut."""
    OVER = enum.auto()
    """The last event was told, or never will be."""


_TEXT = _State.TEXT
_CALL = _State.CALL
_SUMMARY = _State.SUMMARY
_MESSAGES = (_State.TEXT, _State.REFUSAL)
_THOUGHTS = (_State.THINKING, _State.SUMMARY)
_CALLS = (_State.CALL, _State.CALLED)


class StreamWriter:
    """Writes one stream.

    :ivar out: what is to be sent, after each call whole events; whoever drives takes it out.
    :ivar fault_told: how the answer broke, if it did; also where nothing was sent of it, since
        there is no response yet that could fail, or where the answer was too long.
    """

    __slots__ = (
        "_call",
        "_frame",
        "_head",
        "_item_id",
        "_output",
        "_parts",
        "_refused",
        "_room",
        "_room_before",
        "_sequence",
        "_state",
        "_tail",
        "_text",
        "fault_told",
        "out",
    )

    def __init__(self, frame: Frame) -> None:
        """Write an answer that says of itself what ``frame`` has."""
        self.out: list[bytes] = []
        self.fault_told: Fault | None = None
        self._frame = frame
        self._state = _State.NEW
        self._sequence = 0  # of the next event
        self._room = self._room_before = MAX_COLLECTED_BYTES
        self._output: list[bytes] = []  # the items that are done
        self._item_id = ""  # of the open item, and what follows
        self._parts: list[bytes] = []
        self._text = StringIO()  # of the open part; a list would take ten times as much
        self._call = ("", "")
        self._refused = False
        # What stands in each delta of the open part before its text, and what behind it.
        self._head = b""
        self._tail = b""

    # -- what a sink takes

    def start(self) -> None:
        """Announce the response."""
        if self._state is not _State.NEW:
            return
        self._state = _State.BETWEEN
        response = response_object(self._frame, IN_PROGRESS, ())
        self._send("response.created", b'"response":', response)
        self._send("response.in_progress", b'"response":', response)

    def text(self, text: str) -> None:
        """Tell more text; it goes into the open message."""
        if self._state is not _TEXT and not self._open_part(_TEXT):
            return
        self._piece(text)

    def refusal(self, text: str) -> None:
        """Tell more words of a refusal; they are a part of the open message."""
        if self._state is not _State.REFUSAL and not self._open_part(_State.REFUSAL):
            return
        self._refused = True
        self._piece(text)

    def thinking_start(self) -> None:
        """Open a reasoning item."""
        self._open_reasoning()

    def thinking(self, text: str) -> None:
        """Tell more of what is thought."""
        if self._state is not _SUMMARY:
            if self._state is not _State.THINKING:
                return
            self._open_summary()
        self._piece(text)

    def thinking_end(self, signature: str) -> None:
        """Close the reasoning item; the client can bring back what its provider signed."""
        if self._state in _THOUGHTS:
            thought = Thinking(self._text.getvalue(), signature)
            self._close_reasoning(COMPLETED, pack_thinking(thought) if signature else "")

    def redacted(self, data: str) -> None:
        """Tell a reasoning item that has no text."""
        if self._open_reasoning():
            self._close_reasoning(COMPLETED, pack_thinking(RedactedThinking(data)))

    def tool_start(self, call_id: str, name: str) -> None:
        """Open a call."""
        if not self._begin_item("fc"):
            return
        self._state = _CALL
        self._call = (call_id, name)
        self._announce(self._call_item(IN_PROGRESS, ""))
        self._set_delta("response.function_call_arguments.delta", b"")

    def tool_arguments(self, fragment: str) -> None:
        """Tell more of its arguments."""
        if self._state is _CALL:
            self._piece(fragment)

    def tool_end(self) -> None:
        """Take the call as whole, unless the answer turns out to be cut here."""
        if self._state is _CALL:
            self._state = _State.CALLED

    def finish(self, stop: Stop, usage: AnswerUsage, refusal: str | None) -> None:
        """Tell the last event.

        Where the model declined in words, the answer is complete: they are the answer.
        """
        del refusal  # the protocol has no place for a reason
        reason = None
        if stop is Stop.LENGTH:
            reason = MAX_OUTPUT_TOKENS
        elif stop is Stop.REFUSAL and not self._refused:
            reason = CONTENT_FILTER
        status = COMPLETED if reason is None else INCOMPLETE
        if self._state in (_State.NEW, _State.OVER):
            return
        self._close_item(status)
        response = response_object(self._frame, status, self._output, usage, incomplete=reason)
        self._send(f"response.{status}", b'"response":', response)
        self._over()

    def fault(self, fault: Fault) -> None:
        """Tell that the response failed; nothing where there is none yet."""
        if self._state is _State.OVER:
            return
        self.fault_told = fault
        if self._state is not _State.NEW:
            response = response_object(
                self._frame, FAILED, self._all_items(), error=responses_error_object(fault)
            )
            self._send("response.failed", b'"response":', response)
        self._over()

    # -- events

    def _piece(self, text: str) -> None:
        """Send a delta of the open part, and keep it."""
        try:
            encoded = _encode(text)
        except UnicodeEncodeError:
            encoded = text_json(text)
        self._room -= len(encoded)
        if self._room < 0:
            self._overflow()
            return
        self._text.write(text)
        sequence = self._sequence
        self._sequence = sequence + 1
        self.out.append(
            b'%b%b%b,"sequence_number":%d}\n\n' % (self._head, encoded, self._tail, sequence)
        )

    def _send(self, name: str, *members: bytes) -> None:
        """Send an event; long texts are the same object wherever they are repeated."""
        kind = name.encode()
        self.out += (
            b'event: %b\ndata: {"type":"%b",' % (kind, kind),
            *members,
            b',"sequence_number":%d}\n\n' % self._sequence,
        )
        self._sequence += 1

    def _set_delta(self, name: str, place: bytes, tail: bytes = b"") -> None:
        """Lay down what the deltas of a part look like.

        :param place: where in its item it stands, with a comma before.
        """
        kind = name.encode()
        self._head = b'event: %b\ndata: {"type":"%b",%b%b,"delta":' % (
            kind,
            kind,
            self._where(),
            place,
        )
        self._tail = tail

    def _where(self) -> bytes:
        """Return the members that say of which item an event is."""
        return b'"item_id":"%b","output_index":%d' % (self._item_id.encode(), len(self._output))

    # -- items

    def _begin_item(self, kind: str) -> bool:
        """Close the open item and make way for another.

        :param kind: what the ids of such items begin with.
        :returns: whether there may be one.
        """
        if self._state in (_State.NEW, _State.OVER):
            return False
        self._close_item(COMPLETED)
        if self._room < 0:
            self._overflow()
            return False
        self._room_before = self._room
        self._item_id = item_id(kind, self._frame, len(self._output))
        self._parts = []
        self._text = StringIO()
        return True

    def _announce(self, item: bytes) -> None:
        self._send(
            "response.output_item.added",
            b'"output_index":%d,"item":' % len(self._output),
            item,
        )

    def _item_done(self, item: bytes) -> None:
        self._send(
            "response.output_item.done",
            b'"output_index":%d,"item":' % len(self._output),
            item,
        )
        self._output.append(item)
        self._room = self._room_before - len(item)
        self._state = _State.BETWEEN

    def _close_item(self, status: str) -> None:
        """Close the open item, if there is one."""
        if self._state in _MESSAGES:
            self._close_part()
            self._item_done(message_item(self._item_id, status, self._parts))
        elif self._state in _THOUGHTS:
            self._close_reasoning(status, "")
        elif self._state in _CALLS:
            arguments = text_json(self._text.getvalue())
            self._send(
                "response.function_call_arguments.done",
                self._where(),
                b',"arguments":',
                arguments,
            )
            self._item_done(self._call_item(status, arguments))

    def _open_part(self, state: _State) -> bool:
        """Begin a part of a message, and the message where none is open."""
        if self._state in _MESSAGES:
            self._close_part()
        elif self._begin_item("msg"):
            self._announce(message_item(self._item_id, IN_PROGRESS, ()))
        else:
            return False
        self._state = state
        place = b',"content_index":%d' % len(self._parts)
        self._send(
            "response.content_part.added",
            self._where(),
            place,
            b',"part":',
            self._part(""),
        )
        if state is _TEXT:
            self._set_delta("response.output_text.delta", place, b',"logprobs":[]')
        else:
            self._set_delta("response.refusal.delta", place)
        return True

    def _close_part(self) -> None:
        text = text_json(self._text.getvalue())
        self._text = StringIO()
        place = b'%b,"content_index":%d' % (self._where(), len(self._parts))
        if self._state is _TEXT:
            self._send("response.output_text.done", place, b',"text":', text, b',"logprobs":[]')
        else:
            self._send("response.refusal.done", place, b',"refusal":', text)
        part = self._part(text)
        self._send("response.content_part.done", place, b',"part":', part)
        self._parts.append(part)

    def _part(self, text: Text) -> bytes:
        return text_part(text) if self._state is _TEXT else refusal_part(text)

    def _open_reasoning(self) -> bool:
        if not self._frame.wants_thinking or not self._begin_item("rs"):
            return False
        self._state = _State.THINKING
        self._announce(reasoning_item(self._item_id, IN_PROGRESS, "", ""))
        return True

    def _open_summary(self) -> None:
        self._state = _SUMMARY
        self._send(
            "response.reasoning_summary_part.added",
            self._where(),
            _SUMMARY_PLACE,
            b',"part":',
            summary_part(""),
        )
        self._set_delta("response.reasoning_summary_text.delta", _SUMMARY_PLACE)

    def _close_reasoning(self, status: str, packed: str) -> None:
        said = self._text.getvalue()
        text = text_json(said) if said else b""
        if self._state is _SUMMARY:
            place = self._where() + _SUMMARY_PLACE
            self._send("response.reasoning_summary_text.done", place, b',"text":', text)
            self._send(
                "response.reasoning_summary_part.done",
                place,
                b',"part":',
                summary_part(text),
            )
        self._item_done(reasoning_item(self._item_id, status, text, packed))

    def _call_item(self, status: str, arguments: Text) -> bytes:
        call_id, name = self._call
        named = tool_name(self._frame, name)
        return function_call_item(self._item_id, status, call_id, named, arguments)

    # -- the end

    def _all_items(self) -> list[bytes]:
        """Return what there is of the output, the open item with it."""
        text = self._text.getvalue()
        if self._state in _MESSAGES:
            item = message_item(self._item_id, INCOMPLETE, [*self._parts, self._part(text)])
        elif self._state in _THOUGHTS:
            item = reasoning_item(self._item_id, INCOMPLETE, text, "")
        elif self._state in _CALLS:
            item = self._call_item(INCOMPLETE, text)
        else:
            return self._output
        return [*self._output, item]

    def _overflow(self) -> None:
        self.fault(Fault(FaultKind.BAD_ANSWER, _TOO_LONG))

    def _over(self) -> None:
        """Let go of what was held for the last event."""
        self._state = _State.OVER
        self._output = []
        self._parts = []
        self._text = StringIO()
