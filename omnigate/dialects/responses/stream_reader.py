"""A Responses stream of an upstream, told to a sink piece by piece.

The output has items, each with its events between ``output_item.added`` and ``.done``. Servers
differ in what they leave out, so an item begins with whatever of it comes first. What was streamed
is taken from the deltas only; what never was, from ``output_item.done``, and failing that from the
last event, which repeats all.
"""

from omnigate.dialects.answer_usage import take_usage
from omnigate.dialects.arguments import arguments_of
from omnigate.dialects.event_shapes import ABSENT, tells_error, text_length
from omnigate.dialects.faults import Fault, FaultKind, openai_fault
from omnigate.dialects.lenient import MISFITS, text_of
from omnigate.dialects.meter import Meter
from omnigate.dialects.odd_events import BrokenStream
from omnigate.dialects.packing import pack_reasoning
from omnigate.dialects.responses.item_queue import ItemQueue, Kind, OpenItem, Source
from omnigate.dialects.responses.stream_events import (
    Event,
    Item,
    Response,
    decode_event,
    item_of,
    items_of,
    parts_of,
    read_odd_event,
    reason_of,
    response_of,
)
from omnigate.dialects.shapes import DeltaSink, Stop
from omnigate.dialects.stream_reading import StreamReading

# Items that are remembered as told, so that a late or repeated ``done`` does not tell them again.
MAX_PAST_ITEMS = 128

_TEXT = Source.TEXT
_ARGUMENTS = Source.ARGUMENTS
_SUMMARY = Source.SUMMARY
_KINDS = {kind.value: kind for kind in Kind}
_DELTAS = {
    "response.output_text.delta": (Kind.MESSAGE, Source.TEXT),
    "response.refusal.delta": (Kind.MESSAGE, Source.REFUSAL),
    "response.function_call_arguments.delta": (Kind.CALL, Source.ARGUMENTS),
    "response.reasoning_summary_text.delta": (Kind.REASONING, Source.SUMMARY),
    "response.reasoning_text.delta": (Kind.REASONING, Source.THOUGHT),
}
_BEGINNINGS = frozenset(("response.created", "response.queued", "response.in_progress"))

_NO_RESPONSE = Response()

_INCOMPLETE = "incomplete"
#: How an answer may end, from good to bad: of what the last event says twice, the worse counts.
_OUTCOMES = ("completed", _INCOMPLETE, "cancelled", "failed")
_ENDS = {f"response.{outcome}": outcome for outcome in _OUTCOMES}


class StreamReader(StreamReading):
    """Reads one stream."""

    __slots__ = ("_past", "_queue")

    def __init__(self, sink: DeltaSink, meter: Meter) -> None:
        """Make the reader of one stream."""
        super().__init__(sink, meter)
        self._queue = ItemQueue(sink)
        self._past: dict[tuple[Kind, int | None, str], None] = {}

    def event(self, data: bytes) -> None:
        """Take the data of one event. Never raises."""
        if self._over:
            return
        try:
            event = decode_event(data)
        except MISFITS:
            self._odd_event(data)
            return
        meter = self._meter
        meter.event_count += 1
        delta = event.delta
        if not delta:
            self._guarded(event, data)
            return
        meter.text_bytes += len(delta) if delta.isascii() else text_length(delta)
        known = _DELTAS.get(event.type)
        if known is None:
            return
        live = self._queue.live
        if live is not None and live.index == event.output_index and live.kind is known[0]:
            source = known[1]
            if source is _TEXT:
                live.told = True
                self._sink.text(delta)
                return
            if source is _ARGUMENTS:
                live.told = True
                self._sink.tool_arguments(delta)
                return
            if live.source is source and live.part == _part(event, source):
                self._sink.thinking(delta)
                return
        self._guarded(event, data)

    def end(self) -> None:
        """Take the end of the stream: one that did not call the answer finished is cut."""
        if not self._over:
            self._fail(Fault(FaultKind.INTERRUPTED))

    def _odd_event(self, data: bytes) -> None:
        """Take an event that does not fit its shape."""
        text = data.strip()
        if text.startswith(b"[DONE]"):
            return  # as some servers end all of their streams
        self._meter.event_count += 1
        if text in (b"", b"null"):
            return
        try:
            self._odd.count(data)
            event = read_odd_event(data)
        except BrokenStream as error:
            self._break(error)
            return
        if event is None:
            # Google sends an error as the only member of a list.
            self._fail(openai_fault(None, data))
            return
        if event.delta:
            self._meter.text_bytes += text_length(event.delta)
            self._response_of(event)
        self._guarded(event, data)

    def _guarded(self, event: Event, data: bytes) -> None:
        """Take an event that is more than another piece of the same."""
        try:
            if event.delta:
                self._delta(event)
            else:
                self._other(event, data)
        except BrokenStream as error:
            self._break(error)

    def _delta(self, event: Event) -> None:
        known = _DELTAS.get(event.type)
        if known is None:
            return
        kind, source = known
        item_id = event.item_id or ""
        item = self._queue.find(kind, event.output_index, item_id)
        if item is None:
            item = self._begin(kind, event.output_index, item_id)
        self._queue.take(item, source, _part(event, source), event.delta or "")

    def _other(self, event: Event, data: bytes) -> None:
        """Take an event that brings no piece of text."""
        name = event.type
        response = self._response_of(event)
        if name in _ENDS:
            self.closed = True
            self._last_event(response, _ENDS[name])
        elif name == "error" or (event.error is not ABSENT and tells_error(event.error)):
            self._fail(_fault_of(data))
        elif name in _BEGINNINGS:
            self._start()
        elif name == "response.output_item.added":
            self._added(event)
        elif name == "response.output_item.done":
            self._done(event)
        elif name == "response.function_call_arguments.done":
            call = self._queue.find(Kind.CALL, event.output_index, event.item_id or "")
            if call is not None:
                self._queue.keep_arguments(call, arguments_of(event.arguments))
        elif not name and self._odd.tells_failure(data):
            self._fail(_fault_of(data))

    # -- items

    def _added(self, event: Event) -> None:
        item = item_of(event.item)
        kind = None if item is None else _KINDS.get(text_of(item.type))
        if item is None or kind is None:
            return
        item_id = text_of(item.id)
        opened = self._queue.find(kind, event.output_index, item_id)
        if opened is None or not item_id or opened.id != item_id:
            opened = self._begin(kind, event.output_index, item_id)
        if kind is Kind.CALL:
            self._queue.keep_arguments(opened, arguments_of(item.arguments))
            self._queue.identify(opened, text_of(item.call_id), text_of(item.name))

    def _done(self, event: Event) -> None:
        item = item_of(event.item)
        kind = None if item is None else _KINDS.get(text_of(item.type))
        if item is None or kind is None:
            return
        item_id = text_of(item.id)
        done = self._queue.find(kind, event.output_index, item_id)
        if done is None:
            if (kind, event.output_index, item_id or text_of(item.call_id)) in self._past:
                return
            if (kind, event.output_index, "") in self._past:  # it was over before
                del self._past[kind, event.output_index, ""]
                return
            if _is_blank(kind, item):
                return
            done = self._begin(kind, event.output_index, item_id)
        self._complete(done, item)
        self._queue.close(done)
        if item_id or done.call_id:
            self._remember(kind, event.output_index, item_id or done.call_id)

    def _begin(self, kind: Kind, index: int | None, item_id: str) -> OpenItem:
        """Open an item; what is open in its place is over."""
        self._start()
        over = self._queue.replaced(kind, index, item_id)
        if over is not None:
            self._remember(over.kind, index, "")
            self._queue.close(over)
        return self._queue.begin(kind, index, item_id)

    def _complete(self, item: OpenItem, whole: Item) -> None:
        """Take an item as a whole; its text only where none of it was streamed."""
        queue = self._queue
        if item.kind is Kind.CALL:
            queue.keep_arguments(item, arguments_of(whole.arguments))
            queue.identify(item, text_of(whole.call_id), text_of(whole.name))
            return
        if item.kind is Kind.REASONING:
            secret = text_of(whole.encrypted_content)
            item.signature = pack_reasoning(text_of(whole.id), secret) if secret else ""
        if item.told:
            return
        if item.kind is Kind.MESSAGE:
            for part in parts_of(whole.content):
                queue.take(item, _TEXT, None, text_of(part.text))
                queue.take(item, Source.REFUSAL, None, text_of(part.refusal))
            return
        for source, parts in ((_SUMMARY, whole.summary), (Source.THOUGHT, whole.content)):
            for index, part in enumerate(parts_of(parts)):
                queue.take(item, source, index, text_of(part.text))

    def _remember(self, kind: Kind, index: int | None, item_id: str) -> None:
        """Keep in mind that an item was told."""
        if len(self._past) >= MAX_PAST_ITEMS:
            del self._past[next(iter(self._past))]
        self._past[kind, index, item_id] = None

    # -- the end

    def _response_of(self, event: Event) -> Response:
        """Return the response of an event, its figures and those of the event metered."""
        response = _NO_RESPONSE if event.response is ABSENT else response_of(event.response)
        take_usage(self._meter, event.usage)
        take_usage(self._meter, response.usage)
        return response

    def _last_event(self, response: Response, outcome: str) -> None:
        status = text_of(response.status)
        if status in _OUTCOMES:
            outcome = max(outcome, status, key=_OUTCOMES.index)
        if outcome not in _OUTCOMES[:2] or tells_error(response.error):
            self._fail(_failure(response, outcome))
            return
        self._start()
        self._finish_items(response)
        self._tell_output(response)
        self._finish(self._stop(response, outcome))

    def _finish_items(self, response: Response) -> None:
        """Close the items that the server never called done."""
        unfinished = self._queue.unfinished
        if not unfinished:
            return
        output = []
        if any(not item.told or item.kind is Kind.REASONING for item in unfinished):
            output = items_of(response.output)
        by_id = {text_of(whole.id): whole for whole in output}
        by_index = dict(enumerate(output))
        for item in unfinished:
            found = by_id.get(item.id) if item.id else None
            whole = found or by_index.get(-1 if item.index is None else item.index)
            if whole is not None and text_of(whole.type) == item.kind.value:
                self._complete(item, whole)
            self._queue.close(item)

    def _tell_output(self, response: Response) -> None:
        """Tell of the output the kinds of items of which nothing was streamed."""
        told = self._queue.told
        missing = [kind for kind in Kind if kind not in told]
        if told and Kind.REASONING in missing:
            missing.remove(Kind.REASONING)  # thought comes ahead of what it led to, or not at all
        # In the text of an answer a backslash stands before each quote.
        output = bytes(response.output)
        if not any(b'"%b"' % kind.value.encode() in output for kind in missing):
            return
        for whole in items_of(response.output):
            kind = _KINDS.get(text_of(whole.type))
            if kind is not None and kind in missing and not _is_blank(kind, whole):
                item = self._queue.begin(kind, None, text_of(whole.id))
                self._complete(item, whole)
                self._queue.close(item)

    def _stop(self, response: Response, outcome: str) -> Stop:
        if outcome == _INCOMPLETE:
            filtered = reason_of(response.incomplete_details) == "content_filter"
            return Stop.REFUSAL if filtered else Stop.LENGTH
        if self._queue.refused:
            return Stop.REFUSAL
        return Stop.TOOLS if Kind.CALL in self._queue.told else Stop.END


def _is_blank(kind: Kind, item: Item) -> bool:
    """Say whether an item is a thought of which nothing is told, not even under seal."""
    if kind is not Kind.REASONING or text_of(item.encrypted_content):
        return False
    return not any(text_of(part.text) for part in parts_of(item.summary) + parts_of(item.content))


def _part(event: Event, source: Source) -> int | None:
    """Return which part of the summary or thought a piece belongs to."""
    return event.summary_index if source is _SUMMARY else event.content_index


def _fault_of(data: bytes) -> Fault:
    """Read the error of an event, where it is in its ``error`` or at the top of it."""
    fault = openai_fault(None, data)
    return Fault(FaultKind.SERVER) if fault.kind is FaultKind.BAD_ANSWER else fault


def _failure(response: Response, outcome: str) -> Fault:
    """Return why a response failed."""
    if tells_error(response.error):
        return _fault_of(b'{"error":%b}' % bytes(response.error))
    return Fault(FaultKind.SERVER, f"The upstream says that its response is {outcome}.")
