"""Receipts in memory, and their file, which says the same about a second later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.attested import Exchanged, Told
from omnigate.files import read_lines, remove_leftovers, replace_file
from omnigate.periods import DAY_MS
from omnigate.receipts.judging import judge
from omnigate.receipts.receipt import FAILED, PENDING, Receipt
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

#: Receipts that are kept; 2 KB each.
MAX_RECEIPTS: Final = 10_000

#: A line of one is some 2 KB, with the longest names 10.
MAX_LINE_BYTES: Final = 32 * 1024

#: After a change, before the file is written; and for how many times as long as the last writing
#: took nothing is written.
WRITE_SECONDS: Final = 1.0
REST_FACTOR: Final = 10.0

_BEGIN: Final = b'{"version": 1, "receipts": [\n'
_END: Final = b"\n]}\n"

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Receipt)


def _unexpected(failure: Failure) -> None:
    failure.raiseException()


class ReceiptStore:
    """See the module's docstring.

    :param writer: the thread that judges and writes.
    :param days: how long receipts are kept; 0 for ever.
    :ivar judged: called with the verdict of each receipt that has come to its end.
    :ivar failed_writes: how often the file could not be written.
    """

    _log = Logger()
    name = "receipts"

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        writer: IWriter,
        now_ms: Callable[[], int],
        days: Callable[[], int],
        crashed: Callable[[Failure], None] = _unexpected,
    ) -> None:
        self._path = path
        self._clock = clock
        self._writer = writer
        self._now_ms = now_ms
        self._days = days
        self._crashed = crashed
        self._receipts: dict[str, Receipt] = {}
        # Each as it is written, so that a writing of ten thousand joins bytes and encodes nothing.
        self._lines: dict[str, bytes] = {}
        self._timer: IDelayedCall | None = None
        self._writing = DeferredLock()
        self._took = 0.0
        self._dirty = False
        self._closed = False
        self.judged: Callable[[str], None] = lambda verdict: None
        self.failed_writes = 0

    # -- a store of the control plane

    async def open(self) -> None:
        """Read the file; a line that is no receipt is passed over and told."""
        found, bad = await self._writer.submit(self._read)
        for receipt, line in found:
            self._receipts[receipt.id] = receipt
            self._lines[receipt.id] = line
        if bad:
            self._log.error(
                "{path}: {bad} lines are no receipts and are left out", path=self._path, bad=bad
            )
        self._forget()

    async def close(self) -> None:
        """Write what has changed."""
        self._closed = True
        self._stop_timer()
        if self._dirty:
            await self._write()

    def abandon(self) -> None:
        """Let go of everything."""
        self._closed = True
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _read(self) -> tuple[list[tuple[Receipt, bytes]], int]:
        remove_leftovers(self._path)
        found: list[tuple[Receipt, bytes]] = []
        bad = 0
        for line in _receipt_lines(self._path):
            try:
                found.append((_decoder.decode(line), line))
            except (msgspec.MsgspecError, RecursionError, UnicodeError):
                bad += 1
        return found[-MAX_RECEIPTS:], bad

    # -- receipts

    def __len__(self) -> int:
        return len(self._receipts)

    def get(self, receipt_id: str) -> Receipt | None:
        """Return the receipt of a request."""
        return self._receipts.get(receipt_id)

    async def take(self, told: Sequence[Told]) -> None:
        """Judge what a data plane tells, in the thread, and keep it.

        What was judged is not judged again: a batch may come twice, or late. But of a request that
        was sent to another target after an answer of no use, the answer that came last counts.
        What cannot be judged is logged and passed over.
        """
        for one in told:
            known = self._receipts.get(one.exchanged.id)
            if known is not None and not _may_replace(one.exchanged, known):
                continue
            try:
                receipt = await self._writer.submit(partial(judge, one, self._now_ms()))
            except (WriterBusyError, WriterStoppedError):
                raise
            except Exception:
                # What others sent must stop no store; a batch that was not taken would come again.
                self._log.failure("receipt {id} cannot be judged", id=one.exchanged.id)
                continue
            known = self._receipts.get(receipt.id)
            if known is not None and not _may_replace(receipt, known):
                continue
            self._keep(receipt)

    def _keep(self, receipt: Receipt) -> None:
        self._receipts.pop(receipt.id, None)
        self._receipts[receipt.id] = receipt
        self._lines[receipt.id] = _encode(receipt)
        if receipt.verdict != PENDING:
            self.judged(receipt.verdict)
        if receipt.verdict == FAILED:
            self._log.error(
                "receipt {id} failed: {reason}; {upstream} signed something else than it answered",
                id=receipt.id,
                reason=receipt.reason,
                upstream=receipt.upstream,
            )
        self._forget()
        self._changed()

    def _forget(self) -> None:
        """Drop what is too old, or too much: the oldest stand first."""
        days = self._days()
        before = self._now_ms() - days * DAY_MS if days else -1
        while self._receipts:
            first = next(iter(self._receipts.values()))
            if len(self._receipts) <= MAX_RECEIPTS and first.ts_ms >= before:
                return
            del self._receipts[first.id]
            del self._lines[first.id]
            self._dirty = True

    # -- the file

    def _changed(self) -> None:
        self._dirty = True
        if self._timer is None and not self._closed:
            pause = max(WRITE_SECONDS, self._took * REST_FACTOR)
            self._timer = self._clock.callLater(pause, self._due)

    def _due(self) -> None:
        self._timer = None
        Deferred.fromCoroutine(self._write()).addErrback(self._crashed)

    async def _write(self) -> None:
        await self._writing.acquire()
        try:
            self._dirty = False
            lines = [self._lines[receipt_id] for receipt_id in self._receipts]
            try:
                self._took = await self._writer.submit(lambda: _replace(self._path, lines))
            except OSError as error:
                self.failed_writes += 1
                self._log.error(
                    "{path} cannot be written ({reason}); receipts are in memory only until it can",
                    path=self._path,
                    reason=error.strerror,
                )
                self._changed()
            except (WriterBusyError, WriterStoppedError):
                self._changed()
        finally:
            self._writing.release()


def _may_replace(told: Exchanged | Receipt, known: Receipt) -> bool:
    if _attempt(told) != _attempt(known):
        return told.ts_ms >= known.ts_ms
    return known.verdict == PENDING and getattr(told, "verdict", "") != PENDING


def _attempt(one: Exchanged | Receipt) -> tuple[str, ...]:
    return one.upstream, one.target_model, one.request_sha256, one.response_sha256


def _replace(path: str, lines: list[bytes]) -> float:
    """Write the file, and return how many seconds that took."""
    began = time.monotonic()

    def pieces() -> Iterator[bytes]:
        yield _BEGIN
        for start in range(0, len(lines), 128):
            yield (b",\n" if start else b"") + b",\n".join(lines[start : start + 128])
        yield _END

    replace_file(path, pieces())
    return time.monotonic() - began


def _receipt_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of receipts, without what stands around them; one too long is none."""
    for _, line, _ in read_lines(path, MAX_LINE_BYTES):
        text = b"?" if line is None else line.strip().removesuffix(b",")
        if text and text not in (_BEGIN.strip(), _END.strip()):
            yield text
