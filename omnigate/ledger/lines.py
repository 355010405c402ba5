"""One recorded event as a line of the ledger: written once, read back without pricing again.

A line of version 2, which is what is written, carries its own checksum::

    {"v":2,"id":...,...,"received_at":"2026-11-29T20:32:01.000Z","crc32":"1a2b3c4d"}

The checksum is the CRC-32 of zlib over all bytes before ``,"crc32":``, as eight small hex digits.
So one byte that a disk turned, or a piece that it lost or brought in twice, makes a damaged line
and not another sum of money. A line of version 1 has neither ``v`` nor ``crc32``; it is read for
ever, and has nothing but its grammar to be judged by. A line that ends in a checksum is held to
it whatever version it claims, so that damage to the ``v`` itself is damage and no other version.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import Any, NoReturn
from zlib import crc32

import msgspec

from omnigate.events import MAX_EVENT_BYTES, MAX_TS_MS, UsageEvent, encode_event
from omnigate.money import NANO_PER_USD, InvalidMoney, parse_usd, usd
from omnigate.periods import rfc3339

#: The version of the line format that is written. A line without ``"v"`` is of version 1; a later
#: version adds members freely, and counts up only when an older reader would misread the sums.
LINE_VERSION = 2

# What a checked line ends with, and how much of it comes before the eight digits.
_TAIL = b',"crc32":"%08x"}'
_TAIL_BYTES = len(_TAIL % 0)
_TAIL_BEGIN = _TAIL[: _TAIL.index(b"%")]

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
    crc32: str | None = None


_decode = msgspec.json.Decoder(RecordedEvent).decode
_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


def encode_line(event: UsageEvent, cost_nano: int, received_at: str) -> bytes:
    """Write an event as a line of the ledger, its newline included.

    :param cost_nano: what it cost, in nano-dollars.
    :param received_at: when it was recorded, from :func:`omnigate.periods.rfc3339`.
    """
    checked = b'{"v":2,%b,"cost_usd":%b,"ts":"%b","received_at":"%b"' % (
        encode_event(event)[1:-1],
        usd(cost_nano).encode("ascii"),
        rfc3339(event.ts_ms).encode("ascii"),
        received_at.encode("ascii"),
    )
    return b'%b,"crc32":"%08x"}\n' % (checked, crc32(checked))


def decode_line(line: bytes) -> tuple[RecordedEvent, int]:
    """Read a line of the ledger back.

    :param line: the line, with or without its newline.
    :return: the event, and its cost in nano-dollars, exactly as it stands in the line.
    :raises DamagedLineError: it is no such line.
    :raises NewerLineError: it is one of a version that this program does not know.
    """
    if line[-1:] == b"\n":
        line = line[:-1]
    try:
        event = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(line, str(error))
    if event.v != 1 or event.crc32 is not None:
        _check(line, event.v)
    # Of numbers joined by "or", the sign is negative where one of theirs is.
    signs = (
        event.input_tokens
        | event.cached_input_tokens
        | event.cache_write_input_tokens
        | event.output_tokens
    )
    if signs < 0 or not 0 <= event.ts_ms <= MAX_TS_MS:
        raise DamagedLineError("a number is out of its range")
    if not _is_day(event.received_at[:10]):
        raise DamagedLineError("received_at is no time")
    return event, _nano(bytes(event.cost_usd))


def decode_object(line: bytes) -> dict[str, Any]:
    """Read a whole line as an object for people, its ``cost_usd`` as the exact decimal string.

    ``v`` and ``crc32``, which are the line's and not the event's, are left out and not looked at:
    the line has been through :func:`decode_line`.

    :raises DamagedLineError: some member of it cannot be read.
    """
    try:
        value = _decode_object(line)
        value["cost_usd"] = str(value["cost_usd"])
        value.pop("v", None)
        value.pop("crc32", None)
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


def _check(line: bytes, version: int) -> None:
    """Hold a line to its checksum, and to a version that this program knows.

    :param line: the line without its newline.
    :param version: its ``v``.
    """
    checked = line[:-_TAIL_BYTES]
    if line[-_TAIL_BYTES:] == _TAIL % crc32(checked):
        if version == LINE_VERSION:
            return
    elif version <= LINE_VERSION or _has_tail(line):
        raise DamagedLineError("its checksum is missing or wrong")
    if version > LINE_VERSION:
        raise NewerLineError(f"line of version {version}; this program reads {LINE_VERSION}")
    raise DamagedLineError(f"version {version} has no checksum")


def _refuse(line: bytes, reason: str) -> NoReturn:
    """Tell a damaged line from one that a later version wrote with other members."""
    try:
        version = msgspec.json.decode(line, type=_Version).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DamagedLineError(reason) from None
    if version > LINE_VERSION:
        _check(line, version)
    raise DamagedLineError(reason) from None


def _has_tail(line: bytes) -> bool:
    """Whether a line ends like one with a checksum, be the checksum right or not."""
    return line[-_TAIL_BYTES:].startswith(_TAIL_BEGIN)


# Lines come nearly in order: those of one recording day follow each other.
@lru_cache(maxsize=64)
def _is_day(text: str) -> bool:
    """Whether a text is a date such as ``2026-11-29``."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class _Version(msgspec.Struct):
    v: int = 1
