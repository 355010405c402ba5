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
it comes, whatever it turns out to be, and is only collected for the meter.

However the network cuts a stream, the same bytes come out of it, and the same figures.
"""

from omnigate.dialects.endpoints import ANTHROPIC, OPENAI
from omnigate.dialects.meter import FAILED, FINISHED, USAGE_ONLY, Meter
from omnigate.dialects.strike import PieceStriker, strike
from omnigate.wire.sse import EventSplitter, EventTooLarge, event_data, is_comment

HEARTBEAT: dict[str, bytes] = {
    OPENAI: b": keep-alive\n\n",
    ANTHROPIC: b'event: ping\ndata: {"type": "ping"}\n\n',
}
"""What keeps a silent stream from being cut by what lies between, by protocol."""

# Events of real streams are at most 20 KB long, but for the last of a Responses stream, which may
# repeat all of the answer. Holding more would keep a client waiting for bytes that are there.
HOLD_BYTES = 64 * 1024

# What the meter may need to see of one event: an answer with several pictures in its last event.
MAX_EVENT_BYTES = 32 * 1024 * 1024

# A read is at most 64 KiB long; if more is fed at once, it is taken in parts, so that an event over
# its bound is always one that has begun to pass already.
MAX_PART_BYTES = 1024 * 1024

# Beside the flags of the meter: a block is a comment, or only has fields that are no data.
_NO_DATA = 8


class StreamPassage:
    """What a client is sent of one upstream's stream, and what is known of the stream.

    :ivar started: whether an event has come that is no first error: the client's head may go out.
    :ivar first_error: the data of the first event, if that is an error. Then nothing was returned
        and nothing will be: the attempt has failed.
    :ivar error_seen: whether any event told of an error.
    :ivar finished: whether the protocol said that the answer is finished.
    """

    __slots__ = (
        "_blind",
        "_hide_usage",
        "_meter",
        "_openai",
        "_secret",
        "_sent",
        "_settled",
        "_splitter",
        "_striker",
        "error_seen",
        "finished",
        "first_error",
        "started",
    )

    def __init__(self, kind: str, meter: Meter, hide_usage: bool, secret: bytes) -> None:
        """Make the passage for one stream.

        :param kind: of the endpoint; see :class:`omnigate.dialects.endpoints.Endpoint`.
        :param meter: sees every event, the hidden ones too.
        :param hide_usage: whether the gateway asked for the usage chunk and the client did not.
        :param secret: the upstream's credential; empty for none.
        """
        self.started = False
        self.first_error: bytes | None = None
        self.error_seen = False
        self.finished = False
        self._meter = meter
        self._openai = kind != "messages"
        self._hide_usage = hide_usage
        self._secret = secret
        self._splitter = EventSplitter(MAX_EVENT_BYTES)
        self._sent = 0  # bytes of the unfinished event that have passed already
        self._striker = PieceStriker(secret)  # for what passes in pieces
        self._settled = False  # started, and nothing is held
        self._blind = False  # an event was over the bound: the rest passes unread

    @property
    def between_events(self) -> bool:
        """Whether what was returned so far ends with an event, so that a heartbeat may follow."""
        return not self._sent and not self._blind

    def feed(self, data: bytes) -> bytes:
        """Take what was read from the upstream and return what to send to the client now."""
        if self._settled and len(data) <= HOLD_BYTES and data.endswith(b"\n\n"):
            payloads = _plain_payloads(data)
            if payloads is not None:
                return self._feed_plain(data, payloads)
        return self._feed_any(data)

    def _feed_plain(self, data: bytes, payloads: list[bytes]) -> bytes:
        """Pass whole events, of which ``payloads`` are the data."""
        meter_event = self._meter.event
        hidden = set()
        for index, payload in enumerate(payloads):
            flags = meter_event(payload)
            if flags and not self._passes(flags, payload, payload):
                hidden.add(index)
        if hidden:
            blocks = enumerate(data[:-2].split(b"\n\n"))
            data = b"".join([block + b"\n\n" for index, block in blocks if index not in hidden])
        if self._secret and data.find(self._secret) >= 0:  # twice as fast as ``in``
            data = strike(data, self._secret)
        return data

    def _feed_any(self, data: bytes) -> bytes:
        """Pass any read of any stream."""
        if self._blind:
            return self._striker.feed(data)
        if self.first_error is not None:
            return b""
        if len(data) > MAX_PART_BYTES:
            parts = range(0, len(data), MAX_PART_BYTES)
            return b"".join([self._feed_any(data[at : at + MAX_PART_BYTES]) for at in parts])
        try:
            blocks = self._splitter.feed(data)
        except EventTooLarge:
            self._blind = True
            return self._striker.feed(data)
        out = self._pass_blocks(blocks)
        if out is None:
            return b""
        pending_bytes = self._splitter.pending_bytes
        if pending_bytes > HOLD_BYTES:
            out += self._part_of_long(data)
        self._settled = self.started and not pending_bytes
        return out

    def _pass_blocks(self, blocks: list[bytes]) -> bytes | None:
        """Return what of the blocks passes; ``None`` where the first event is an error."""
        passing = []
        if self._sent and blocks:
            passing.append(self._rest_of_long(blocks.pop(0)))
        meter_event = self._meter.event
        for block in blocks:
            payload = event_data(block)
            flags = _NO_DATA if payload is None else meter_event(payload)
            if not flags or self._passes(flags, block, payload):
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
        if self._sent:
            return self._striker.end() if self._blind else self._rest_of_long(rest)
        payload = event_data(rest)
        flags = _NO_DATA if payload is None else self._meter.event(payload)
        passes = not flags or self._passes(flags, rest, payload)
        return strike(rest, self._secret) if passes and self.started else b""

    def _passes(self, flags: int, block: bytes, payload: bytes | None) -> bool:
        """Note what is special about a block, and decide whether the client is sent it."""
        if flags & FINISHED:
            self.finished = True
        if flags & FAILED:
            self.error_seen = True
        if len(block) > HOLD_BYTES:
            return True
        if payload is None:
            return self.started and (not self._openai or is_comment(block))
        if flags & FAILED:
            if not self.started:
                self.first_error = strike(payload, self._secret)
            return self.started
        if flags & USAGE_ONLY and self._hide_usage:
            self.started = True
            return False
        return True

    def _part_of_long(self, data: bytes) -> bytes:
        """Pass what has come of an event that is too long to be held.

        :param data: what was just fed.
        """
        self.started = True
        fresh = data if self._sent else self._splitter.pending
        self._sent = self._splitter.pending_bytes
        return self._striker.feed(fresh)

    def _rest_of_long(self, block: bytes) -> bytes:
        """Pass the rest of an event of which parts have passed, now that it is whole."""
        payload = event_data(block)
        if payload is not None:
            flags = self._meter.event(payload)
            self.finished |= bool(flags & FINISHED)
            self.error_seen |= bool(flags & FAILED)
        rest = block[self._sent :]
        self._sent = 0
        return self._striker.feed(rest) + self._striker.end()


def _plain_payloads(data: bytes) -> list[bytes] | None:
    """Return the data of each event in a read, if the read is as plain as nearly all are.

    That is: whole events, each of one data line, alone or behind an event line, ended by LF.

    :param data: ends with a blank line.
    :returns: ``None`` for any other read, which the splitter has to take apart.
    """
    if data.find(b"\r") >= 0:
        return None
    if data.startswith(b"data: "):
        payloads = data[6:-2].split(b"\n\ndata: ")
        return payloads if data.count(b"\n") == 2 * len(payloads) else None
    if data.startswith(b"event: "):
        events = data[7:-2].split(b"\n\nevent: ")
        # As many line ends as there must be, and one of them before each data: none is elsewhere.
        parted = [event.partition(b"\ndata: ") for event in events]
        if data.count(b"\n") == 3 * len(events) and all(parts[1] for parts in parted):
            return [parts[2] for parts in parted]
    return None
