"""The audit log: who did what, on the disk before it is done.

The rule is that no change is made without its line: whoever makes one awaits
:meth:`AuditLog.record` and goes on only when it returns. A change that fails after that gets a
second line, with the outcome ``failed``. Reading asks the disk nothing: the newest lines are in
memory, and a start reads them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.control.audit_file import MAX_ENTRIES, AuditFile, AuditFileError
from omnigate.control.audit_line import FAILED, AuditEntry, AuditLine
from omnigate.control.sign_in_tallies import SignInTallies, Tally
from omnigate.errors import GatewayError
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

__all__ = ["AuditEntry", "AuditLine", "AuditLog"]

#: The action of a sign-in that failed, and of the summary of more of them.
SIGN_IN_FAILED: Final = "sign_in.failed"


def _unexpected(failure: Failure) -> None:
    failure.raiseException()


class AuditLog:
    """The one writer of the audit log's files.

    :param path: the active file; see :mod:`omnigate.control.audit_file`.
    :param writer: the thread that does all disk work of this log, and of nothing else.
    :param now_ms: the time that lines are stamped with, in milliseconds since 1970.
    :param max_bytes: how long the active file may become.
    :param crashed: told of what this log has no answer for.
    :ivar lines_written: how many lines were written since the start.
    :ivar failed_writes: how many the disk refused, or the writer.
    """

    _log = Logger()
    name = "audit"

    def __init__(
        self,
        path: str,
        clock: IReactorTime,
        writer: IWriter,
        now_ms: Callable[[], int],
        max_bytes: int,
        crashed: Callable[[Failure], None] = _unexpected,
    ) -> None:
        self.path: Final = path
        self.lines_written = 0
        self.failed_writes = 0
        self._clock = clock
        self._writer = writer
        self._now_ms = now_ms
        self._crashed = crashed
        self._file = AuditFile(path, max_bytes)
        self._lines: deque[AuditLine] = deque(maxlen=MAX_ENTRIES)
        self._tallies = SignInTallies()
        self._timer: IDelayedCall | None = None
        self._open = False

    # -- opening and closing ------------------------------------------------------------------

    async def open(self) -> None:
        """Read back the newest lines; from then on lines can be written.

        :raises AuditFileError: what stands there is no audit log, or cannot be used.
        """
        try:
            found = await self._writer.submit(self._file.open)
        except OSError as error:
            raise AuditFileError(
                f"{self.path}: the audit log cannot be opened ({error.strerror or error}); let "
                "this process write it, or name another file in OMNIGATE_AUDIT"
            ) from None
        self._lines.extend(found.lines)
        self._open = True
        if found.torn_bytes:
            self._log.warn(
                "{path}: cut off {count} bytes of a line that was not written whole",
                path=self.path,
                count=found.torn_bytes,
            )
        if found.damaged:
            self._log.warn(
                "{path}: {count} lines cannot be read; they stay where they are",
                path=self.path,
                count=found.damaged,
            )

    async def close(self) -> None:
        """Write the summaries that are still open, and end, with the writer."""
        self._stop_timer()
        if self._open:
            for tally in self._tallies.take():
                await self._summarize(tally)
        self._open = False
        # A writer that has been stopped already has closed the file, too.
        self._writer.submit(self._file.close).addErrback(lambda _: None)
        await self._writer.stop()

    def abandon(self) -> Deferred[None]:
        """Let go of everything without writing anything; fires when the writer has ended."""
        self._open = False
        self._stop_timer()
        self._tallies.take()
        return self._writer.abandon(self._file.close)

    # -- writing ------------------------------------------------------------------------------

    async def record(self, entry: AuditEntry) -> None:
        """Write an entry down; it is on the disk when this returns.

        :raises GatewayError: ``not_ready`` before the log is open; ``storage_unavailable`` where it
            could not be written, and what it is about must not be done.
        """
        self._check_open()
        now_ms = self._now_ms()
        try:
            line = await self._writer.submit(lambda: self._file.append(entry, now_ms))
        except (OSError, AuditFileError, WriterBusyError, WriterStoppedError) as error:
            self.failed_writes += 1
            raise _unwritten(f"{self.path}: {error}") from None
        except Exception:
            self.failed_writes += 1
            failure = Failure()
            self._crashed(failure)
            raise _unwritten(f"{self.path}: {failure.value!r}") from None
        self.lines_written += 1
        self._lines.append(line)

    # -- failed sign-ins ----------------------------------------------------------------------

    def sign_in_failed(self, address: str, reason: str) -> None:
        """Note a sign-in that failed: a line for the first of an address in a minute.

        :param reason: ``"wrong"`` or ``"locked"``, or whatever else the caller tells apart.
        """
        if not self._open:
            return
        if self._tallies.failed(address, reason, self._clock.seconds()):
            entry = AuditEntry(
                SIGN_IN_FAILED, "", outcome=FAILED, address=address, detail={"reason": reason}
            )
            Deferred.fromCoroutine(self._note(entry))
        self._set_timer()

    def _set_timer(self) -> None:
        end = self._tallies.next_end()
        if end is not None and self._timer is None:
            delay = max(0.0, end - self._clock.seconds())
            self._timer = self._clock.callLater(delay, self._minute_over)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _minute_over(self) -> None:
        self._timer = None
        for tally in self._tallies.take(self._clock.seconds()):
            Deferred.fromCoroutine(self._summarize(tally))
        self._set_timer()

    async def _summarize(self, tally: Tally) -> None:
        detail = {"repeats": tally.repeats, **dict(tally.reasons.most_common())}
        await self._note(
            AuditEntry(SIGN_IN_FAILED, "", outcome=FAILED, address=tally.address, detail=detail)
        )

    async def _note(self, entry: AuditEntry) -> None:
        """Record what nobody waits for."""
        try:
            await self.record(entry)
        except GatewayError as error:
            self._log.error(
                "a failed sign-in is not in the audit log: {reason}",
                reason=error.detail or error.message,
            )

    # -- reading ------------------------------------------------------------------------------

    def entries(self, limit: int, before_seq: int | None = None) -> list[AuditLine]:
        """Return the newest lines, newest first, of those with a number below ``before_seq``.

        :raises GatewayError: ``not_ready`` before the log is open.
        """
        self._check_open()
        found: list[AuditLine] = []
        for line in reversed(self._lines):
            if len(found) >= limit:
                break
            if before_seq is None or line.seq < before_seq:
                found.append(line)
        return found

    def _check_open(self) -> None:
        if not self._open:
            raise GatewayError("not_ready", "the audit log is not open", retry_after=1)


def _unwritten(detail: str) -> GatewayError:
    return GatewayError(
        "storage_unavailable",
        "the audit log could not be written, so nothing was changed; look at the control plane's "
        "disk",
        detail=detail,
    )
