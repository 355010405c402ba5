"""The recorded events of some days, out of the segments, for other programs to read.

Two forms. ``jsonl`` is the ledger's own lines, byte for byte: each still carries its checksum, and
a file of them is itself a ledger. ``csv`` is RFC 4180 with a line of names, for spreadsheets:
:data:`COLUMNS`, of the attempts only how many there were. A spreadsheet takes text that begins with
``=`` for a formula, and a model name is whatever a client made it, so such text has an apostrophe
before it there; what must be exact is read from ``jsonl``.

An event is there once, as the ledger counts it: a line whose id was recorded before is left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import attrs

from omnigate.files import file_size
from omnigate.ledger.family import Family
from omnigate.ledger.lines import DamagedLineError, decode_object
from omnigate.ledger.reading import Run, SeenIds, gaps_in, read_runs, segments_of
from omnigate.text import for_spreadsheets, repair_utf8

#: The columns of the CSV form. New ones are added behind these.
COLUMNS = (
    "id",
    "ts",
    "received_at",
    "key_sha256",
    "route_model",
    "upstream",
    "target_model",
    "endpoint",
    "status",
    "stream",
    "cached",
    "estimated",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "cost_usd",
    "latency_ms",
    "attempts",
    "kind",
    "characters",
    "media_ms",
    "outputs",
)

#: What is put together before it is written: large enough that writes do not matter.
PIECE_BYTES = 128 * 1024


@attrs.define
class Export:
    """One reading of the events whose own time lies within some days.

    :param first_ms: the first instant that belongs to it.
    :param end_ms: the first instant after it.
    :param ids_days: for how many days the ledger remembers ids; 0 for ever.
    :param tell: told of each fault, with the file and the place.
    :param progress: told how many bytes are read so far.
    :ivar events: how many were exported.
    :ivar duplicates: lines left out since their id was recorded before, those of other days too.
    :ivar faults: how many faults were told: damaged lines, and segments that are missing.
    """

    family: Family
    first_ms: int
    end_ms: int
    ids_days: int
    tell: Callable[[str], None]
    progress: Callable[[int], None] = lambda done: None
    events: int = 0
    duplicates: int = 0
    faults: int = 0

    def lines(self) -> Iterator[bytes]:
        """Read all that is recorded by now, in the order of recording.

        :return: the lines, without their ends, that :func:`~omnigate.ledger.lines.decode_line`
            can read.
        :raises OSError: a file cannot be read.
        """
        segments = segments_of(self.family)
        for first, last in gaps_in(segments):
            which = f"{first}" if first == last else f"{first} to {last}"
            self._fault(f"{self.family.sealed(first)}: segment {which} is missing")
        seen, done = SeenIds(self.ids_days), 0
        for segment in segments:
            path = segment.path
            size = file_size(path)
            damage = partial(self._damage, path)
            end = 0
            for run in read_runs(segment, seen, damage):
                end = run.end
                yield from self._wanted(run)
                self.progress(done + end)
            gone = file_size(path) is None and not segment.active
            if gone and (size is None or end < size):
                self._fault(f"{path}: was deleted before it was read")
            done += end

    def objects(self) -> Iterator[dict[str, Any]]:
        """Read the same as objects; ``cost_usd`` is the exact decimal string.

        A line of version 1, which has no checksum, may have lost text that no sum needs: such text
        is repaired.
        """
        for line in self.lines():
            try:
                yield decode_object(line)
            except DamagedLineError:
                try:
                    yield decode_object(repair_utf8(line))
                except DamagedLineError as error:
                    self.events -= 1
                    self._fault(f"a line cannot be read whole: {error}")

    def _wanted(self, run: Run) -> Iterator[bytes]:
        """Choose the lines of these days, each event once."""
        for line, event, new in zip(run.lines, run.events, run.new, strict=True):
            if not new:
                self.duplicates += 1
            elif self.first_ms <= event.ts_ms < self.end_ms:
                self.events += 1
                yield line

    def _damage(self, path: str, offset: int, reason: str) -> None:
        self._fault(f"{path}: the line at offset {offset} cannot be read: {reason}")

    def _fault(self, text: str) -> None:
        self.faults += 1
        self.tell(text)


def as_jsonl(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Write lines as they stand in the ledger, in pieces of some size."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= PIECE_BYTES:
            yield b"\n".join(held) + b"\n"
            held, size = [], 0
    if held:
        yield b"\n".join(held) + b"\n"


def as_csv(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Write events as RFC 4180 has it, a line of names first, in pieces of some size."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for event in events:
        writer.writerow(_row(event))
        if text.tell() >= PIECE_BYTES:
            yield text.getvalue().encode("utf-8")
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode("utf-8")


def _row(event: dict[str, Any]) -> list[str]:
    """The cells of one event."""
    attempts = event.get("attempts")
    event["attempts"] = len(attempts) if isinstance(attempts, list) else None
    return [_cell(event.get(name)) for name in COLUMNS]


def _cell(value: object) -> str:
    """One value: nothing for null and for what an older line does not have."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return for_spreadsheets(value) if isinstance(value, str) else str(value)
