"""The items of a Responses stream, told to a sink one after the other.

Blocks of a sink never overlap. Where items do, the first is told as it comes, and what comes of the
others is held back until it is done.
"""

import enum

from omnigate.dialects.arguments import NO_ARGUMENTS
from omnigate.dialects.event_shapes import text_length
from omnigate.dialects.odd_events import BrokenStream
from omnigate.dialects.shapes import DeltaSink
from omnigate.dialects.tool_ids import made_up_id

# What is held back of items that overlap. Calls made at the same time are short, a call that writes
# a file has some 100 KB; a server that calls no message done has all of an answer's calls held.
MAX_HELD_BYTES = 1024 * 1024
# What a held piece takes beside its text: a tuple, a string's head, and its place in a list.
PIECE_BYTES = 128

# Items that are open at the same time: more calls than any model makes at once.
MAX_OPEN_ITEMS = 128

PART_BREAK = "\n\n"
"""What stands between the parts of a summary."""


class Kind(enum.Enum):
    """Kinds of items; those of hosted tools are none of them."""

    MESSAGE = "message"
    REASONING = "reasoning"
    CALL = "function_call"


class Source(enum.Enum):
    """What a piece of text is of."""

    TEXT = enum.auto()
    REFUSAL = enum.auto()
    ARGUMENTS = enum.auto()
    SUMMARY = enum.auto()
    THOUGHT = enum.auto()  # open models show what they think itself


class OpenItem:
    """An item that has begun and is not told to its end.

    :ivar index: its ``output_index``; ``None`` where the server gives none.
    :ivar id: empty where the server gives none; so are ``call_id`` and ``name`` until they come.
    :ivar signature: what its thinking ends with.
    :ivar whole_arguments: those given at once; they count where none were streamed.
    :ivar told: whether any text of it came.
    :ivar done: whether it is whole.
    :ivar source: which of summary and thought is told of it, as the first that came.
    :ivar part: the part that the last piece of that belonged to.
    """

    __slots__ = (
        "call_id",
        "done",
        "held_bytes",
        "id",
        "index",
        "kind",
        "name",
        "part",
        "pieces",
        "signature",
        "source",
        "told",
        "whole_arguments",
    )

    def __init__(self, kind: Kind, index: int | None, item_id: str) -> None:
        """Open an item of which nothing has come."""
        self.kind = kind
        self.index = index
        self.id = item_id
        self.call_id = ""
        self.name = ""
        self.signature = ""
        self.whole_arguments = ""
        self.told = False
        self.done = False
        self.source: Source | None = None
        self.part: int | None = None
        self.pieces: list[tuple[Source, int | None, str]] = []  # held back
        self.held_bytes = 0


class ItemQueue:
    """Tells a sink of the items of one stream.

    :ivar live: the item that is being told: what comes of it may go to the sink at once.
    :ivar told: the kinds of which anything was told; a message counts once it has text.
    :ivar refused: whether the model declined in words.
    """

    __slots__ = ("_held_bytes", "_items", "_sink", "live", "refused", "told")

    def __init__(self, sink: DeltaSink) -> None:
        """Make an empty queue."""
        self._sink = sink
        self._items: list[OpenItem] = []
        self._held_bytes = 0
        self.live: OpenItem | None = None
        self.told: set[Kind] = set()
        self.refused = False

    @property
    def unfinished(self) -> list[OpenItem]:
        """The items that are not whole."""
        return [item for item in self._items if not item.done]

    def find(self, kind: Kind, index: int | None, item_id: str) -> OpenItem | None:
        """Find an open item by its place, for some servers give it another id in each event.

        :param index: where there is none, the id tells, and failing that the item is the last.
        """
        for item in reversed(self._items):
            if item.kind is kind and not item.done and _same_place(item, index, item_id):
                return item
        return None

    def replaced(self, kind: Kind, index: int | None, item_id: str) -> OpenItem | None:
        """Find the open item that is over when another begins in its place."""
        if index is None:
            return self.find(kind, index, item_id)
        for item in self._items:
            if item.index == index and not item.done:
                return item
        return None

    def begin(self, kind: Kind, index: int | None, item_id: str) -> OpenItem:
        """Open an item.

        :raises BrokenStream: where too many are open.
        """
        if len(self._items) >= MAX_OPEN_ITEMS:
            raise BrokenStream("The upstream makes more of its answer at once than is held.")
        item = OpenItem(kind, index, item_id)
        self._items.append(item)
        self._go_on()
        return item

    def identify(self, item: OpenItem, call_id: str, name: str) -> None:
        """Take what a call is named; its beginning may have waited for that."""
        item.call_id = item.call_id or call_id
        item.name = item.name or name
        self._go_on()

    def keep_arguments(self, item: OpenItem, arguments: str) -> None:
        """Take the arguments of a call as a whole, for when none of them are streamed.

        :raises BrokenStream: where too much is held back.
        """
        if arguments != NO_ARGUMENTS and not item.told:
            self._hold(item, len(arguments.encode("utf-8", "replace")))
            item.whole_arguments = arguments

    def take(self, item: OpenItem, source: Source, part: int | None, text: str) -> None:
        """Take a piece of an item's text: tell it now, or hold it back.

        :param part: of the summary or thought.
        :param text: nothing happens where it is empty.
        :raises BrokenStream: where too much is held back.
        """
        if not text:
            return
        item.told = True
        if item is self.live:
            self._tell(item, source, part, text)
            return
        self._hold(item, text_length(text) + PIECE_BYTES)
        item.pieces.append((source, part, text))

    def close(self, item: OpenItem) -> None:
        """Take an item as whole.

        :raises BrokenStream: for a call without a name.
        """
        item.done = True
        if item.told or item.kind is not Kind.MESSAGE:
            self.told.add(item.kind)
        self._go_on()

    def _hold(self, item: OpenItem, size: int) -> None:
        item.held_bytes += size
        self._held_bytes += size
        if self._held_bytes > MAX_HELD_BYTES:
            raise BrokenStream("The upstream makes more of its answer at once than is held.")

    def _go_on(self) -> None:
        """Tell of the first items what can be told now."""
        while self._items:
            item = self._items[0]
            if item is not self.live:
                if item.kind is Kind.CALL and not _can_begin(item):
                    return
                self._tell_beginning(item)
                self.live = item
                for source, part, text in item.pieces:
                    self._tell(item, source, part, text)
                item.pieces.clear()
            if not item.done:
                return
            self._tell_end(item)
            self.live = None
            self._held_bytes -= item.held_bytes
            del self._items[0]

    def _tell_beginning(self, item: OpenItem) -> None:
        if item.kind is Kind.REASONING:
            self._sink.thinking_start()
        elif item.kind is Kind.CALL:
            self._sink.tool_start(item.call_id or item.id or made_up_id(), item.name)

    def _tell(self, item: OpenItem, source: Source, part: int | None, text: str) -> None:
        sink = self._sink
        if source is Source.TEXT:
            sink.text(text)
        elif source is Source.REFUSAL:
            self.refused = True
            sink.refusal(text)
        elif source is Source.ARGUMENTS:
            sink.tool_arguments(text)
        elif item.source is None or item.source is source:
            if item.source is not None and item.part != part:
                sink.thinking(PART_BREAK)
            item.source = source
            item.part = part
            sink.thinking(text)

    def _tell_end(self, item: OpenItem) -> None:
        if item.kind is Kind.REASONING:
            self._sink.thinking_end(item.signature)
        elif item.kind is Kind.CALL:
            if not item.told:
                self._sink.tool_arguments(item.whole_arguments or NO_ARGUMENTS)
            self._sink.tool_end()


def _same_place(item: OpenItem, index: int | None, item_id: str) -> bool:
    if index is not None or item.index is not None:
        return item.index == index
    return not item_id or not item.id or item.id == item_id


def _can_begin(item: OpenItem) -> bool:
    """Say whether a call can begin: an id may be made up once it is known that none comes.

    :raises BrokenStream: for one that is over and has no name.
    """
    if item.done and not item.name:
        raise BrokenStream("The upstream called a function without naming it.")
    return bool(item.name) and (bool(item.call_id) or item.done)
