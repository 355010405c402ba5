"""One recorded event as a line of the ledger: written once, read back without pricing again."""

from __future__ import annotations

from datetime import date
from typing import Any, NoReturn

import msgspec

from omnigate.events import MAX_EVENT_BYTES, MAX_TS_MS, UsageEvent, encode_event
from omnigate.money import NANO_PER_USD, InvalidMoney, parse_usd, usd
from omnigate.periods import rfc3339

#: The version of the line format that is written. A line without ``"v"`` is of version 1; a later
#: version adds members freely, and counts up only when an older reader would misread the sums.
LINE_VERSION = 1

#: The longest line: the longest event, and room for what is added to it.
MAX_LINE_BYTES = MAX_EVENT_BYTES + 256


class DamagedLineError(ValueError):
    """A line of the ledger cannot be read; the text says why."""


class NewerLineError(Exception):
    """A line was written by a later version of the program and must not be guessed at."""


class RecordedEvent(msgspec.Struct, gc=False):
    """What is needed of a line to count it: its event without the attempts, cost and recording.

    ``cost_usd`` is left as the digits that stand in the line.
    """

    id: str
    key_sha256: str
    route_model: str
    ts_ms: int
    cost_usd: msgspec.Raw
    received_at: str
    upstream: str | None = None
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    v: int = 1


_decode = msgspec.json.Decoder(RecordedEvent).decode
_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


def encode_line(event: UsageEvent, cost_nano: int, received_at: str) -> bytes:
    """Write an event as a line of the ledger, its newline included.

    :param cost_nano: what it cost, in nano-dollars.
    :param received_at: when it was recorded, from :func:`omnigate.periods.rfc3339`.
    """
    return b'%b,"cost_usd":%b,"ts":"%b","received_at":"%b"}\n' % (
        encode_event(event)[:-1],
        usd(cost_nano).encode("ascii"),
        rfc3339(event.ts_ms).encode("ascii"),
        received_at.encode("ascii"),
    )


def decode_line(line: bytes) -> tuple[RecordedEvent, int]:
    """Read a line of the ledger back.

    :param line: the line, with or without its newline.
    :return: the event, and its cost in nano-dollars, exactly as it stands in the line.
    :raises DamagedLineError: it is no such line.
    :raises NewerLineError: it is one of a version that this program does not know.
    """
    try:
        event = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(line, str(error))
    if event.v > LINE_VERSION:
        raise NewerLineError(_newer(event.v))
    counts = (
        event.input_tokens,
        event.cached_input_tokens,
        event.cache_write_input_tokens,
        event.output_tokens,
    )
    if min(counts) < 0 or not 0 <= event.ts_ms <= MAX_TS_MS:
        raise DamagedLineError("a number is out of its range")
    try:
        date.fromisoformat(event.received_at[:10])
    except ValueError:
        raise DamagedLineError("received_at is no time") from None
    return event, _nano(bytes(event.cost_usd))


def decode_object(line: bytes) -> dict[str, Any]:
    """Read a whole line as an object for people, its ``cost_usd`` as the exact decimal string.

    :raises DamagedLineError: some member of it cannot be read.
    """
    try:
        value = _decode_object(line)
        value["cost_usd"] = str(value["cost_usd"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise DamagedLineError(str(error)) from None
    return value


def _nano(digits: bytes) -> int:
    """The nano-dollars of a JSON number, exactly."""
    whole, _, fraction = digits.partition(b".")
    # What this program writes; anything else that is a number takes the long way.
    if whole.isdigit() and len(fraction) <= 9 and (not fraction or fraction.isdigit()):
        return int(whole) * NANO_PER_USD + int(fraction.ljust(9, b"0"))
    try:
        return parse_usd(digits.decode("ascii"))
    except (InvalidMoney, UnicodeDecodeError) as error:
        raise DamagedLineError(f"cost_usd: {error}") from None


def _refuse(line: bytes, reason: str) -> NoReturn:
    """Tell a damaged line from one that a later version wrote with other members."""
    try:
        version = msgspec.json.decode(line, type=_Version).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DamagedLineError(reason) from None
    if version > LINE_VERSION:
        raise NewerLineError(
            f"line of version {version}; this program reads {LINE_VERSION}"
        ) from None
    raise DamagedLineError(reason) from None


def _newer(version: int) -> str:
    return f"line of version {version}; this program reads {LINE_VERSION}"


class _Version(msgspec.Struct):
    v: int = 1
