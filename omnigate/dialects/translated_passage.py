"""A stream on its way from an upstream to a client that speaks another protocol.

Each event is read as soon as it is whole, and what it says goes out with the call that brought it.
An error as the first event is kept from the client, since the next target may still answer. An
error behind that is translated, and ends the stream; so does an event too large or too intricate
to be read, and an end without a finish: there the error is ours.
"""

from omnigate.dialects.faults import Fault, FaultKind
from omnigate.dialects.held import LITTLE_BYTES, HeldBytes, Hold
from omnigate.dialects.passage import HOLD_BYTES, plain_payloads
from omnigate.dialects.strike import strike
from omnigate.dialects.translate import Translator
from omnigate.wire.json_cost import WALKED_FROM_BYTES, PieceCounter, answer_cost
from omnigate.wire.json_tree import TreeError
from omnigate.wire.sse import DataLines, EventSplitter, event_data

# An event that is translated has to be whole. The longest are the last ones of Responses streams,
# which repeat the answer, pictures and all.
MAX_EVENT_BYTES = 32 * 1024 * 1024


class TranslatedPassage:
    """What a client is sent of one upstream's stream, in the client's protocol.

    :ivar started: whether there was anything to send: the client's head may go out.
    :ivar first_error: the data of the first event, if that is an error. Then nothing was returned
        and nothing will be: the attempt has failed.
    :ivar broken: why the stream is over although its answer is not: ``error_event`` (the
        upstream's own), ``event_too_large``, ``event_too_complex``, ``bad_event`` or
        ``unfinished``; else empty.
    """

    __slots__ = (
        "_counter",
        "_hold",
        "_lines",
        "_reader",
        "_secret",
        "_settled",
        "_splitter",
        "_writer",
        "broken",
        "first_error",
        "started",
    )

    #: All that goes out are whole events, so something of our own may always follow.
    between_events = True

    def __init__(
        self, translator: Translator, secret: bytes, held: HeldBytes | None = None
    ) -> None:
        """Make the passage for one stream.

        :param secret: the upstream's credential; empty for none.
        :param held: what all streams keep back; where it is left out, this one alone.
        """
        self.started = False
        self.first_error: bytes | None = None
        self.broken = ""
        self._reader, self._writer = translator.stream(secret)
        self._secret = secret
        self._splitter = EventSplitter()
        self._hold = Hold(held or HeldBytes())
        self._counter: PieceCounter | None = None  # of an unfinished event that is long
        self._lines: DataLines | None = None  # take its data out
        self._settled = False  # started, and nothing is held

    @property
    def finished(self) -> bool:
        """Whether the protocol said that the answer is finished."""
        return self._reader.finished

    @property
    def closed(self) -> bool:
        """Whether the protocol's own end has come, also that of an answer which broke with it."""
        return self._reader.closed

    @property
    def over(self) -> bool:
        """Whether nothing that comes will be read."""
        return bool(self.broken)

    def feed(self, data: bytes) -> bytes:
        """Take what was read from the upstream and return what to send to the client now."""
        if self._settled and len(data) <= HOLD_BYTES and data.endswith(b"\n\n"):
            if self._secret and data.find(self._secret) >= 0:
                data = strike(data, self._secret)
            payloads = plain_payloads(data)
            if payloads is not None:
                reader = self._reader
                event = reader.event
                for payload in payloads:
                    event(payload)
                    if reader.failed:
                        self.broken = reader.finding or "error_event"
                        break
                return self._take()
        return self._feed_any(data)

    def end(self) -> bytes:
        """Take the end of the stream, once, and return what is left to send."""
        if self.over:
            return b""
        # Some servers leave the last blank line out, and their last event is the one that counts.
        payload = event_data(self._splitter.pending)
        if payload is not None and not self._read(payload, self._counter):
            return self._take()
        silent = not self.started and not self._writer.out
        self._reader.end()
        if self._reader.failed:
            self.broken = "unfinished"
            if silent:
                # Nothing has been said: the attempt has failed, and the next may do better.
                self._writer.out.clear()
        return self._take()

    def interrupt(self) -> bytes:
        """Tell of a stream that broke off, and return the last thing to send.

        :returns: nothing where the answer was finished, or an error was told.
        """
        if self.over or self._reader.finished:
            return b""
        self.broken = "unfinished"
        self._writer.fault(Fault(FaultKind.INTERRUPTED))
        return self._take()

    def _feed_any(self, data: bytes) -> bytes:
        """Take any read of any stream."""
        if self.over:
            return b""
        splitter = self._splitter
        begun = splitter.pending_bytes
        blocks = splitter.feed(data)
        counter = None
        if blocks and self._counter is not None:
            self._count(blocks[0][begun:])
            counter, self._counter = self._counter, None
        for block in blocks:
            payload = event_data(block)
            if payload is not None and not self._read(payload, counter):
                return self._take()
            counter = None
        pending_bytes = splitter.pending_bytes
        hold = self._hold
        if (pending_bytes > LITTLE_BYTES or hold.bytes) and (
            pending_bytes > MAX_EVENT_BYTES or not hold.keep(pending_bytes)
        ):
            self._fault("event_too_large")
            return self._take()
        if self._counter is not None:
            self._count(data)
        elif pending_bytes > WALKED_FROM_BYTES:
            self._counter = PieceCounter()
            self._lines = DataLines()
            self._count(splitter.pending)
        self._settled = self.started and not pending_bytes
        return self._take()

    def _read(self, payload: bytes, counter: PieceCounter | None) -> bool:
        """Read one event; ``False`` where the stream is over with it.

        :param counter: what counted it as it came, where it is long.
        """
        if len(payload) > WALKED_FROM_BYTES:
            try:
                answer_cost(payload, counter)
            except TreeError:
                self._fault("event_too_complex")
                return False
        if self._secret:
            # Before it is read: what is packed for the client cannot be searched any more.
            payload = strike(payload, self._secret)
        reader, out = self._reader, self._writer.out
        first = not self.started and not out
        reader.event(payload)
        if not reader.failed:
            return True
        self.broken = reader.finding or "error_event"
        if first:
            self.first_error = payload
            out.clear()
        return False

    def _count(self, text: bytes) -> None:
        assert self._counter is not None and self._lines is not None
        self._counter.feed(self._lines.feed(text))

    def _fault(self, why: str) -> None:
        """Tell of a fault that we found."""
        self.broken = why
        if self.started or self._writer.out:
            self._writer.fault(Fault(FaultKind.BAD_ANSWER))
        else:
            self.first_error = b""

    def _take(self) -> bytes:
        """Take out what was written."""
        out = self._writer.out
        if not out:
            return b""
        self.started = True
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if self._secret and data.find(self._secret) >= 0:
            data = strike(data, self._secret)
        return data
