"""A stream on its way from an upstream to a client that speaks the same protocol.

Events pass as the bytes they came as, for what the gateway does not understand is not its business.
What is kept from the client is little, and always a whole event:

* what comes before the first event: comments and blocks without data;
* an error as the first event, since the next target may still answer (see
  :attr:`StreamPassage.first_error`);
* the chunk with the usage that the gateway asked for on its own account;
* from clients of OpenAI's protocol, blocks without data (only ``id:``, ``retry:`` and the like),
  since their SDKs take such a block for an event with the data ``""``. Comments pass;
* the upstream's credential, wherever it stands.

So an event is held until it is whole. One longer than :data:`HOLD_BYTES` is not held: it passes as
it comes, whatever it turns out to be, and is read for the meter as it passes. So does any event
where all streams together keep back too much (see :mod:`omnigate.dialects.held`).

However else the network cuts a stream, the same bytes come out of it, and the same figures.
"""

from omnigate.dialects.endpoints import ANTHROPIC, OPENAI
from omnigate.dialects.held import LITTLE_BYTES, HeldBytes, Hold
from omnigate.dialects.long_event import LongEvent
from omnigate.dialects.meter import FAILED, FINISHED, USAGE_ONLY, Meter
from omnigate.dialects.mould import Mould
from omnigate.dialects.strike import PieceStriker, strike
from omnigate.wire.sse import EventSplitter, event_data, is_comment

HEARTBEAT: dict[str, bytes] = {
    OPENAI: b": keep-alive\n\n",
    ANTHROPIC: b'event: ping\ndata: {"type": "ping"}\n\n',
}
"""What keeps a silent stream from being cut by what lies between, by protocol."""

# Events of real streams are at most 20 KB long, but for the last of a Responses stream, which may
# repeat all of the answer. Holding more would keep a client waiting for bytes that are there.
HOLD_BYTES = 64 * 1024


class StreamPassage:
    """What a client is sent of one upstream's stream, and what is known of the stream.

    :ivar started: whether an event has come that is no first error: the client's head may go out.
    :ivar first_error: the data of the first event, if that is an error. Then nothing was returned
        and nothing will be: the attempt has failed.
    :ivar error_seen: whether any event told of an error.
    :ivar finished: whether the protocol said that the answer is finished.
    """

    __slots__ = (
        "_all_held",
        "_clear_bytes",
        "_hide_usage",
        "_hold",
        "_long",
        "_meter",
        "_mould",
        "_openai",
        "_secret",
        "_settled",
        "_splitter",
        "_striker",
        "_taken_mould",
        "error_seen",
        "finished",
        "first_error",
        "started",
    )

    def __init__(
        self,
        kind: str,
        meter: Meter,
        hide_usage: bool,
        secret: bytes,
        held: HeldBytes | None = None,
    ) -> None:
        """Make the passage for one stream.

        :param kind: of the endpoint; see :class:`omnigate.dialects.endpoints.Endpoint`.
        :param meter: sees every event, the hidden ones too.
        :param hide_usage: whether the gateway asked for the usage chunk and the client did not.
        :param secret: the upstream's credential; empty for none.
        :param held: what all streams keep back; where it is left out, this one alone.
        """
        self.started = False
        self.first_error: bytes | None = None
        self.error_seen = False
        self.finished = False
        self._meter = meter
        self._openai = kind != "messages"
        self._hide_usage = hide_usage
        self._secret = secret
        self._splitter = EventSplitter()
        self._all_held = held or HeldBytes()
        self._hold: Hold | None = None  # most streams keep back too little to need one
        self._long: LongEvent | None = None  # the unfinished event, where parts of it have passed
        self._striker: PieceStriker | None = None  # of the same
        self._settled = False  # started, and nothing is held
        self._mould: Mould | None = None  # of a read that is one event
        self._taken_mould: Mould | None = None  # of the meter's, the one it was made of
        # What is shorter cannot hold the credential; one with a quote might also begin or end
        # outside of a text.
        self._clear_bytes = 0 if b'"' in secret else len(secret) or HOLD_BYTES

    @property
    def between_events(self) -> bool:
        """Whether what was returned so far ends with an event, so that a heartbeat may follow."""
        return self._long is None

    @property
    def held_bytes(self) -> int:
        """How much of the stream is kept back: at most :data:`HOLD_BYTES`, between two reads."""
        return self._splitter.pending_bytes

    def feed(self, data: bytes) -> bytes:
        """Take what was read from the upstream and return what to send to the client now."""
        size = len(data)
        if self._settled and size <= HOLD_BYTES:
            mould = self._mould
            if mould is not None:
                text_bytes = mould.text_bytes(data)
                if text_bytes:
                    self._meter.likely_event(text_bytes)
                    if size - mould.around < self._clear_bytes:
                        return data
                    return strike(data, self._secret)
            if data.endswith(b"\n\n"):
                payloads = plain_payloads(data)
                if payloads is not None:
                    return self._feed_plain(data, payloads)
        return self._feed_any(data)

    def _feed_plain(self, data: bytes, payloads: list[bytes]) -> bytes:
        """Pass whole events, of which ``payloads`` are the data."""
        meter_event = self._meter.event
        hidden = set()
        for index, payload in enumerate(payloads):
            flags = meter_event(payload)
            if flags and not self._passes(flags, payload):
                hidden.add(index)
        if self._meter.mould is not self._taken_mould and len(payloads) == 1:
            self._take_mould(data[: -len(payloads[0]) - 2])
        if hidden:
            blocks = enumerate(data[:-2].split(b"\n\n"))
            data = b"".join([block + b"\n\n" for index, block in blocks if index not in hidden])
        if self._secret and data.find(self._secret) >= 0:  # twice as fast as ``in``
            data = strike(data, self._secret)
        return data

    def _take_mould(self, lead: bytes) -> None:
        """Take over the mould that the meter has found.

        :param lead: what stands before the data of an event that is a read of its own.
        """
        mould = self._taken_mould = self._meter.mould
        if mould is not None:
            whole = mould.within(lead, b"\n\n")
            self._mould = None if self._secret and whole.has(self._secret) else whole

    def _feed_any(self, data: bytes) -> bytes:
        """Pass any read of any stream."""
        if self.first_error is not None:
            return b""
        splitter = self._splitter
        blocks = splitter.feed(data)
        if splitter.passing:
            return self._part_of_long(data)
        out = self._pass_blocks(blocks)
        if out is None:
            return b""
        pending_bytes = splitter.pending_bytes
        if (
            pending_bytes > HOLD_BYTES or pending_bytes > LITTLE_BYTES or self._hold is not None
        ) and not self._may_hold(pending_bytes):
            out += self._part_of_long(splitter.pass_on())
        self._settled = self.started and not pending_bytes
        return out

    def _may_hold(self, size: int) -> bool:
        """Hold so much of an event, if that is not too much for one, nor for all streams."""
        hold = self._hold
        if hold is None:
            hold = self._hold = Hold(self._all_held)
        if size > HOLD_BYTES:
            hold.keep(0)
            return False
        return hold.keep(size)

    def _pass_blocks(self, blocks: list[bytes]) -> bytes | None:
        """Return what of the blocks passes; ``None`` where the first event is an error."""
        passing = []
        if self._long is not None and blocks:
            passing.append(self._rest_of_long(blocks.pop(0)))
        meter_event = self._meter.event
        for block in blocks:
            if len(block) > HOLD_BYTES:
                passing.append(self._part_of_long(b"") + self._rest_of_long(block))
                continue
            payload = event_data(block)
            if payload is None:
                if self.started and (not self._openai or is_comment(block)):
                    passing.append(block)
                continue
            flags = meter_event(payload)
            if not flags or self._passes(flags, payload):
                self.started = True
                passing.append(block)
            elif self.first_error is not None:
                return None
        out = passing[0] if len(passing) == 1 else b"".join(passing)
        if self._secret and out.find(self._secret) >= 0:
            out = strike(out, self._secret)
        return out

    def end(self) -> bytes:
        """Take the end of the stream, once, and return what was still held.

        What stands behind the last blank line is no event to a client. It is relayed as it came,
        and the figures in it count, but nothing starts with it.
        """
        if self.first_error is not None:
            return b""
        rest = self._splitter.pending
        if self._long is not None:
            return self._rest_of_long(rest)
        payload = event_data(rest)
        if payload is None:
            passes = not self._openai or is_comment(rest)
        else:
            flags = self._meter.event(payload)
            passes = not flags or self._passes(flags, payload)
        return strike(rest, self._secret) if passes and self.started else b""

    def _passes(self, flags: int, payload: bytes) -> bool:
        """Note what is special about an event, and decide whether the client is sent it."""
        self._note(flags)
        if flags & FAILED:
            if not self.started:
                self.first_error = strike(payload, self._secret)
            return self.started
        if flags & USAGE_ONLY and self._hide_usage:
            self.started = True
            return False
        return True

    def _note(self, flags: int) -> None:
        if flags & FINISHED:
            self.finished = True
        if flags & FAILED:
            self.error_seen = True

    def _part_of_long(self, data: bytes) -> bytes:
        """Pass a part of an event that is too long to be held; the first begins it."""
        self.started = True
        event, striker = self._long, self._striker
        if event is None or striker is None:
            event = self._long = LongEvent()
            striker = self._striker = PieceStriker(self._secret)
        event.feed(data)
        return striker.feed(data)

    def _rest_of_long(self, rest: bytes) -> bytes:
        """Pass the last part of such an event."""
        event, striker = self._long, self._striker
        assert event is not None and striker is not None
        self._long = self._striker = None
        event.feed(rest)
        self._note(self._meter.long_event(event))
        return striker.feed(rest) + striker.end()


def plain_payloads(data: bytes) -> list[bytes] | None:
    """Return the data of each event in a read, if the read is as plain as nearly all are.

    That is: whole events, each of one data line, alone or behind an event line, ended by LF.

    :param data: ends with a blank line.
    :returns: ``None`` for any other read, which the splitter has to take apart.
    """
    if data.find(b"\r") >= 0:
        return None
    if not data.startswith((b"data: ", b"event: ")):
        return None
    line_ends = len(data) - len(data.replace(b"\n", b""))  # five times as fast as ``count``
    if data.startswith(b"data: "):
        payloads = data[6:-2].split(b"\n\ndata: ")
        return payloads if line_ends == 2 * len(payloads) else None
    if data.startswith(b"event: "):
        events = data[7:-2].split(b"\n\nevent: ")
        # As many line ends as there must be, and one of them before each data: none is elsewhere.
        parted = [event.partition(b"\ndata: ") for event in events]
        if line_ends == 3 * len(events) and all(parts[1] for parts in parted):
            return [parts[2] for parts in parted]
    return None
