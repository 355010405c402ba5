"""What becomes of a batch before it is written: each event valid or not, new or not, priced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from omnigate.events import InvalidEvent, UsageEvent, decode_event, encode_event
from omnigate.ledger.id_days import id_digest
from omnigate.ledger.lines import MAX_LINE_BYTES, encode_line
from omnigate.money import Price, cost_nano
from omnigate.periods import rfc3339, utc_day

#: Reasons of refused events that are kept for the log; a batch that is all wrong is wrong alike.
REASONS_KEPT = 3


@attrs.frozen
class Entry:
    """One event that is to be recorded: its line, and what is to be counted once that is synced."""

    digest: int
    event: UsageEvent
    cost_nano: int
    line: bytes


@attrs.define
class Prepared:
    """What a batch comes to.

    :ivar entries: the events to record, in the order they came.
    :ivar received_day: the UTC day of recording, as ``YYYY-MM-DD``.
    :ivar duplicates: events whose id was recorded before, is being recorded now, or stands twice
        in this batch.
    :ivar waits: whether one of them is being recorded now, so that this batch may only be
        acknowledged once that is done.
    :ivar invalid: events that cannot be recorded; ``reasons`` says why for the first few.
    :ivar unpriced: how many of the entries no price was known for; ``unpriced_targets`` names
        each such route, upstream and model once.
    """

    received_day: str
    entries: list[Entry] = attrs.Factory(list)
    duplicates: int = 0
    waits: bool = False
    invalid: int = 0
    reasons: list[str] = attrs.Factory(list)
    unpriced: int = 0
    unpriced_targets: set[tuple[str, str | None, str | None]] = attrs.Factory(set)


def prepare(
    events: Sequence[bytes | dict[str, Any]],
    *,
    recorded: Callable[[int], bool],
    pending: Callable[[int], bool],
    price: Callable[[UsageEvent], Price | None],
    now_ms: int,
) -> Prepared:
    """Judge and price a batch, and write its lines.

    :param events: as they came: each a JSON object, or the bytes of one.
    :param recorded: whether the id with this digest is recorded.
    :param pending: whether it is being recorded.
    :param price: the price of an event's target, None where none is known; asked only for events
        that cost something.
    """
    received_at = rfc3339(now_ms)
    prepared = Prepared(received_day=utc_day(now_ms))
    in_batch: set[int] = set()
    for raw in events:
        try:
            event = _decode(raw)
            digest = id_digest(event.id)
            if digest in in_batch or recorded(digest):
                prepared.duplicates += 1
                continue
            if pending(digest):
                prepared.duplicates += 1
                prepared.waits = True
                continue
            cost = _cost(event, price)
            line = encode_line(event, cost or 0, received_at)
            if len(line) > MAX_LINE_BYTES:
                raise InvalidEvent(f"longer than {MAX_LINE_BYTES} bytes as a line")
        except InvalidEvent as error:
            prepared.invalid += 1
            if len(prepared.reasons) < REASONS_KEPT:
                prepared.reasons.append(str(error))
            continue
        in_batch.add(digest)
        if cost is None:
            prepared.unpriced += 1
            prepared.unpriced_targets.add((event.route_model, event.upstream, event.target_model))
        prepared.entries.append(Entry(digest, event, cost or 0, line))
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
