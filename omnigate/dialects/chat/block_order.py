"""What the chunks of a Chat stream bring mixed up, told one block after the other.

Chunks may bring the arguments of several calls in turns, and text in between; the blocks of other
protocols never overlap. So what comes while the arguments of the open call are not whole is held
back until they are, or until the finish.
"""

from collections import deque
from io import StringIO

from omnigate.dialects.json_end import JsonEnd
from omnigate.dialects.odd_events import BrokenStream
from omnigate.dialects.shapes import DeltaSink
from omnigate.dialects.tool_ids import made_up_id

MAX_HELD_CHARS = 256 * 1024
"""What is held back of one stream. A call that writes a whole file has some 50,000 characters; a
few of these at once, and no more, are told by turns by any model."""

MAX_CALLS = 300
"""Tool calls of one answer, all of which are known until its end; models make a few dozen."""

MAX_SCANNED_CHARS = 128 * 1024
"""What is looked through of one event for where a call ends: at the worst, all quotes, 4 ms. Behind
a call of which more comes at once, what waits for its end waits for the finish."""

# Beside its text, what an item that is held back takes.
_ITEM_CHARS = 200

TEXT = "text"
THINKING = "thinking"
REFUSAL = "refusal"


class _Call:
    """A tool call.

    :ivar end: tells whether its arguments are whole.
    :ivar any: whether arguments have come.
    :ivar held: what has not been told of them.
    :ivar waits: whether it has not been told at all.
    """

    __slots__ = ("any", "end", "held", "id", "name", "waits")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.end = JsonEnd()
        self.any = False
        self.held = StringIO()
        self.waits = True


class _Words:
    """Text, thinking or a refusal that came amid a call."""

    __slots__ = ("held", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held = StringIO()


class BlockOrder:
    """Tells a sink what comes, in an order that it takes.

    :ivar plain: whether text may go to the sink at once: no block is open that has to end first.
    :ivar calls: how many calls have come.
    :ivar scanned_chars: how much was looked through; whoever takes an event begins anew.
    """

    __slots__ = (
        "_by_index",
        "_held_chars",
        "_last",
        "_open",
        "_sink",
        "_thinking",
        "_waiting",
        "calls",
        "plain",
        "scanned_chars",
    )

    def __init__(self, sink: DeltaSink) -> None:
        """Begin an answer."""
        self.plain = True
        self.calls = 0
        self.scanned_chars = 0
        self._sink = sink
        self._thinking = False
        self._open: _Call | None = None
        self._waiting: deque[_Call | _Words] = deque()
        self._by_index: dict[int, _Call] = {}
        self._last: _Call | None = None
        self._held_chars = 0

    def words(self, kind: str, text: str) -> None:
        """Take a piece of text.

        :param kind: :data:`TEXT`, :data:`THINKING` or :data:`REFUSAL`.
        :param text: not empty.
        :raises BrokenStream: too much is held back.
        """
        if not self._waiting and (self._open is None or self._open.end.reached):
            self._tell(kind, text)
            return
        last = self._waiting[-1] if self._waiting else None
        if not isinstance(last, _Words) or last.kind != kind:
            last = _Words(kind)
            self._waiting.append(last)
            self._hold(_ITEM_CHARS)
        last.held.write(text)
        self._hold(len(text))

    def call(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        """Take a tool call, or more of one; what is not told of it is empty.

        :param index: ``None`` where the server does not number its calls.
        :raises BrokenStream: too much is held back, or more comes of a call that has ended.
        """
        self.plain = False
        call = self._call_of(index, call_id, name)
        call.id = call.id or call_id
        call.name = call.name or name
        if arguments and (call.any or not arguments.isspace()):
            self._arguments(call, arguments)
        if self._waiting:
            self._advance()

    def finish(self) -> None:
        """Tell what was held back, and end what is open.

        :raises BrokenStream: a call has no name.
        """
        waiting = self._waiting
        while waiting:
            item = waiting.popleft()
            if isinstance(item, _Call) and not item.name:
                if item.id or item.any:
                    raise BrokenStream("The upstream sent a tool call without a name.")
                self.calls -= 1  # it said nothing at all
                continue
            self._begin(item)
        self._end_open()

    def _call_of(self, index: int | None, call_id: str, name: str) -> _Call:
        """Return the call that a delta belongs to."""
        call = self._last if index is None else self._by_index.get(index)
        if call is None or self._is_other(call, index, call_id, name):
            call = _Call()
            self.calls += 1
            if self.calls > MAX_CALLS:
                raise BrokenStream("The upstream sent too many tool calls in one answer.")
            if index is not None:
                self._by_index[index] = call
            self._waiting.append(call)
            self._hold(_ITEM_CHARS + len(call_id) + len(name))
        self._last = call
        return call

    @staticmethod
    def _is_other(call: _Call, index: int | None, call_id: str, name: str) -> bool:
        """Say whether a delta with the number of a call, or none, begins another.

        Gemini gives all calls of an answer the same index, others none. Some servers repeat the
        name with each delta, vLLM of old made up a new id for each: neither begins a call alone.
        """
        if not name or call_id == call.id != "":
            return False
        whole = call.end.reached or not call.any
        if call_id and call.id:
            return whole
        return index is None and call.end.reached

    def _arguments(self, call: _Call, arguments: str) -> None:
        if call is self._open:
            self._scan(call, arguments)
            self._sink.tool_arguments(arguments)
        elif call.waits:
            self._scan(call, arguments)
            call.held.write(arguments)
            self._hold(len(arguments))
        elif not arguments.isspace():
            raise BrokenStream("The upstream sent more of a tool call that had ended.")

    def _scan(self, call: _Call, arguments: str) -> None:
        call.any = True
        self.scanned_chars += len(arguments)
        if self.scanned_chars > MAX_SCANNED_CHARS:
            call.end.give_up()
        else:
            call.end.feed(arguments)

    def _advance(self) -> None:
        """Tell of what waits as much as can be told."""
        waiting = self._waiting
        while waiting and (self._open is None or self._open.end.reached):
            item = waiting[0]
            if isinstance(item, _Call) and not (item.id and item.name):
                return
            self._begin(waiting.popleft())

    def _begin(self, item: _Call | _Words) -> None:
        """Tell what waited, behind all that came before it."""
        held = item.held.getvalue()
        self._held_chars -= len(held) + _ITEM_CHARS
        if isinstance(item, _Words):
            self._tell(item.kind, held)
            return
        self._end_open()
        self._open = item
        self.plain = item.waits = False
        item.held = StringIO()
        self._sink.tool_start(item.id or made_up_id(), item.name)
        if held:
            self._sink.tool_arguments(held)

    def _tell(self, kind: str, text: str) -> None:
        sink = self._sink
        if kind == THINKING:
            if not self._thinking:
                self._end_open()
                self._thinking = True
                self.plain = False
                sink.thinking_start()
            sink.thinking(text)
            return
        self._end_open()
        if kind == TEXT:
            sink.text(text)
        else:
            sink.refusal(text)

    def _end_open(self) -> None:
        """End the open block."""
        if self._thinking:
            self._thinking = False
            self._sink.thinking_end("")
        call, self._open = self._open, None
        if call is not None:
            if not call.any:
                self._sink.tool_arguments("{}")
            self._sink.tool_end()
        self.plain = not self._waiting

    def _hold(self, chars: int) -> None:
        self._held_chars += chars
        if self._held_chars > MAX_HELD_CHARS:
            raise BrokenStream("The upstream sent tool calls too mixed up to be told in order.")
