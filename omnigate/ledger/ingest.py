"""What becomes of a batch before it is written: each event valid or not, priced, and as a line.

Whether an event was recorded before is not asked here. Only the writer knows what is on the disk,
and leaves out what is there already (:meth:`omnigate.ledger.store.LedgerStore.append`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import msgspec

from omnigate.events import InvalidEvent, UsageEvent, decode_event, encode_event
from omnigate.ledger.lines import MAX_LINE_BYTES, encode_line
from omnigate.ledger.recorded_ids import id_digest
from omnigate.money import Price, cost_nano
from omnigate.periods import rfc3339

#: Reasons of refused events that are kept for the log; a batch that is all wrong is wrong alike.
REASONS_KEPT = 3


class Priced(msgspec.Struct, frozen=True, gc=False):
    """An event of the control plane's own whose cost is known already: that of a media job.

    What comes from outside is JSON, and never one of these.

    :ivar cost_nano: what it cost, in nano-dollars; None where no price is known, which is recorded
        as nothing and counted as unpriced.
    """

    event: UsageEvent
    cost_nano: int | None


#: One event as it comes to be recorded.
Raw: TypeAlias = bytes | dict[str, Any] | Priced


class Entry(msgspec.Struct, gc=False):
    """One event that is to be recorded, unless it was before.

    :ivar digest: what is remembered of its id.
    :ivar cost_nano: what it cost, in nano-dollars.
    :ivar line: its line of the ledger, newline included.
    :ivar unpriced: whether it costs nothing since no price is known.
    """

    digest: bytes
    event: UsageEvent
    cost_nano: int
    line: bytes
    unpriced: bool


@attrs.define
class Prepared:
    """What a batch comes to.

    :ivar entries: the events to record, in the order they came.
    :ivar invalid: events that cannot be recorded; ``reasons`` says why for the first few.
    """

    entries: list[Entry] = attrs.Factory(list)
    invalid: int = 0
    reasons: list[str] = attrs.Factory(list)


def prepare(
    events: Sequence[Raw],
    *,
    price: Callable[[UsageEvent], Price | None],
    now_ms: int,
) -> Prepared:
    """Judge and price a batch, and write its lines.

    :param events: as they came: each a JSON object, the bytes of one, or one with its cost.
    :param price: the price of an event's target, None where none is known; asked only for events
        that cost something.
    """
    received_at = rfc3339(now_ms)
    prepared = Prepared()
    for raw in events:
        try:
            if isinstance(raw, Priced):
                event, cost = raw.event, raw.cost_nano
            else:
                event = _decode(raw)
                cost = _cost(event, price)
            line = encode_line(event, cost or 0, received_at)
            if len(line) > MAX_LINE_BYTES:
                raise InvalidEvent(f"longer than {MAX_LINE_BYTES} bytes as a line")
        except InvalidEvent as error:
            prepared.invalid += 1
            if len(prepared.reasons) < REASONS_KEPT:
                prepared.reasons.append(str(error))
            continue
        prepared.entries.append(Entry(id_digest(event.id), event, cost or 0, line, cost is None))
    return prepared


def _decode(raw: bytes | dict[str, Any]) -> UsageEvent:
    if not isinstance(raw, bytes | dict):
        raise InvalidEvent("not a JSON object")
    event = decode_event(raw)
    names = f"{event.id}{event.key_sha256}{event.route_model}{event.upstream}"
    # Half a surrogate pair is repaired when the line is written. What is counted must be what is
    # read back from that line, so such an event goes through the repair before it is looked at.
    if not names.isascii():
        event = decode_event(encode_event(event))
    return event


def _cost(event: UsageEvent, price: Callable[[UsageEvent], Price | None]) -> int | None:
    """The cost in nano-dollars: 0 from the cache or from no upstream, None without a price."""
    if event.cached or event.upstream is None:
        return 0
    known = price(event)
    return None if known is None else cost_nano(event.counts(), known)
