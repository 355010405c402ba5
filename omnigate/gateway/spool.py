"""The usage spool: events that wait for the control plane, in memory and in a file.

Every event is a line in the file before the last byte of its answer goes out, so it outlives the
process (a power loss may take the newest few, as nothing is synced). Where the reactor sends the
answers of a turn together, the lines of a turn are written together, before those are sent: a
process that ends in between has answered none of them. What was delivered stays at the front of the
file until it is worth removing; so after a crash some events are sent twice, which the ledger
sorts out by their ids, and none is lost.

The file is emptied when nothing waits, and rewritten to what waits once the delivered front is
more than :data:`MAX_DEAD_BYTES` and more than what waits. A rewrite is done by a writer thread
while events keep coming::

    thread   writes what waited into a temporary file and syncs it
    reactor  adds what came meanwhile; from here on every event goes into both files
    thread   renames the temporary file over the old one
    reactor  goes on with the new one alone

Until the rename the old file holds everything that waits, after it the new one does; a crash
between any two of these loses nothing. The order of lines in the file carries no meaning.
"""

import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from omnigate.events import MAX_EVENT_BYTES, is_intact
from omnigate.files import (
    AppendFile,
    append_file,
    close_file,
    file_size,
    lock_file,
    read_lines,
    remove_file,
    rename_file,
    sweep_temporaries,
    sync_directory,
)
from omnigate.writer_thread import IWriter

#: How much may wait: about three hours of a plane with ten requests a second.
MAX_EVENTS = 100_000
MAX_BYTES = 128 * 1024 * 1024

#: How much delivered text the file may hold in front of what waits, before it is rewritten.
MAX_DEAD_BYTES = 1024 * 1024

#: What may be put off until the reactor sends: the lines of some hundred events, more than one turn
#: mostly has between two of its sends. What is more is written at once.
MAX_PUT_OFF_BYTES = 64 * 1024

#: What is written at a time during a rewrite; the interpreter lock is held for one join of it.
_PIECE_BYTES = 256 * 1024

#: What the reactor may add to the new file itself; more goes through the thread once more. A
#: write of this size into the page cache takes well under a millisecond.
_MAX_TAIL_BYTES = 512 * 1024

#: Rounds through the thread before the reactor adds the rest whatever its size. Each round takes
#: as long as a small part of the one before, so a third is seldom needed.
_MAX_ROUNDS = 8

#: After a rewrite or a write that failed (the disk is full), so many events pass before a rewrite
#: is tried: each try may write 128 MiB before it finds out. So many also pass before the file is
#: looked after again, once it was found to be missing.
_EVENTS_BETWEEN_TRIES = 100

#: The longest line: an event of ours is under 1 KiB, and the ledger takes none above 64 KiB.
MAX_LINE_BYTES = MAX_EVENT_BYTES

#: Lines of no use that a start reads through before it discards the rest of the file. They take a
#: second or two; gigabytes of them would take an hour.
_MAX_DAMAGED_LINES = 1_000_000

#: How much may be put aside. An event is put aside only by a fault of ours or of the disk.
MAX_ASIDE_BYTES = 16 * 1024 * 1024

_log = Logger()


#: Has a call made before the reactor sends anything more. False where nothing is put aside to be
#: sent later; the call is not made then.
BeforeSends = Callable[[Callable[[], None]], bool]


def at_once(call: Callable[[], None]) -> bool:
    """Put nothing off: what is written is sent at once, as on Twisted's own reactors."""
    return False


class SpoolInUseError(OSError):
    """Another process has this spool; two of them would take each other's events away."""


class _Timed(msgspec.Struct):
    """When the request of an event ended."""

    ts_ms: int = 0


class _Identified(msgspec.Struct):
    """What must at least be in a line, to tell an event from damage."""

    id: str


_decode = msgspec.json.Decoder(_Identified).decode
_decode_time = msgspec.json.Decoder(_Timed).decode


class Spool:
    """The queue of undelivered events and its file.

    All methods are called on the reactor's thread.

    :ivar path: of the file.
    :ivar bytes: of what waits, line ends counted.
    :ivar dropped: events refused because the queue was full.
    :ivar damaged: lines that :meth:`open` could not read.
    :ivar unwritten: events that could not be written; they wait in memory only.
    """

    def __init__(
        self,
        path: str,
        writer: IWriter,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        before_sends: BeforeSends = at_once,
    ) -> None:
        """Take the parts; nothing is read before :meth:`open`.

        :param writer: the thread that does rewrites.
        :param before_sends: tells until when a line may be put off.
        """
        self.path = path
        self._writer = writer
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._before_sends = before_sends
        # Of lines that are queued and not in the file yet.
        self._put_off: list[bytes] = []
        self._put_off_bytes = 0
        self._queue: deque[bytes] = deque()
        self.bytes = 0
        self.dropped = 0
        self.damaged = 0
        self.unwritten = 0
        self._file: AppendFile | None = None
        self._next: AppendFile | None = None
        self._rewriting = False
        self._stale = False
        self._appended = 0
        self._try_after = 0
        self._tell_at = 1
        self._covered = 0
        self._lock_fd = -1

    @property
    def count(self) -> int:
        """Events that wait."""
        return len(self._queue)

    @property
    def oldest_ms(self) -> int:
        """When the request of the first event that waits ended, since 1970; 0 where none does."""
        if not self._queue:
            return 0
        try:
            return max(0, _decode_time(self._queue[0]).ts_ms)
        except msgspec.DecodeError:
            return 0

    @property
    def rewriting(self) -> bool:
        """Whether the file is being rewritten."""
        return self._rewriting

    def open(self) -> None:
        """Load what an earlier run left, and get ready to take events.

        Called once, at a start: it blocks for the reading, and for a rewrite where the file held
        anything but lines that are whole and fit. Such content is counted and logged, and never
        stops a start.

        :raises SpoolInUseError: another process has it.
        :raises OSError: the file cannot be opened.
        """
        self._lock()
        try:
            folder, name = os.path.split(self.path)
            sweep_temporaries(folder or ".", name)
            clean, end = self._load()
            self._file = AppendFile(self.path)
            if not clean:
                self._repair(end)
        except BaseException:
            self.close()
            raise
        if self._queue:
            _log.info("{count} usage events wait for delivery", count=len(self._queue))

    def _lock(self) -> None:
        # A file of its own: the spool is replaced by rewrites, and a lock would go with it.
        try:
            self._lock_fd = lock_file(self.path + ".lock")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise SpoolInUseError(
                f"{self.path} is in use by another process; give each data plane an"
                " OMNIGATE_STATE_DIR of its own"
            ) from None

    def _unlock(self) -> None:
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            close_file(fd)

    def _load(self) -> tuple[bool, int]:
        """Read the file into the queue.

        :return: whether the file is just what waits, and the end of its last whole line.
        """
        clean, end = True, 0
        for offset, line, complete in read_lines(self.path, MAX_LINE_BYTES):
            if line is not None and _is_event(line):
                if not self._fits(len(line) + 1):
                    self._log_discarded(offset, "holds more than the spool may")
                    clean = False
                    break
                self._queue.append(line)
                self.bytes += len(line) + 1
            else:
                clean = False
                if line != b"":
                    self.damaged += 1
                if self.damaged > _MAX_DAMAGED_LINES:
                    self._log_discarded(offset, "is no spool of usage events")
                    break
            if complete and line is not None:
                end = offset + len(line) + 1
            else:
                clean = False
        if self.damaged:
            _log.error(
                "{path}: {count} damaged lines were dropped", path=self.path, count=self.damaged
            )
        return clean, end

    def _log_discarded(self, offset: int, why: str) -> None:
        _log.error(
            "{path} {why}: {count} events of it were loaded, the last {rest} bytes are discarded",
            path=self.path,
            why=why,
            count=len(self._queue),
            rest=(file_size(self.path) or 0) - offset,
        )

    def _repair(self, end: int) -> None:
        """Make the file hold what waits and nothing else."""
        assert self._file is not None
        try:
            replacement = self._write_lines(None, list(self._queue))
            self._rename(replacement)
        except OSError as error:
            _log.error("{path} cannot be rewritten: {error}", path=self.path, error=error)
            # A torn tail must not swallow the next line; an event in it waits in memory.
            self._stale = True
            if self._file.size > end:
                self._file.cut(end)
            return
        self._file.close()
        self._file = replacement

    def _fits(self, size: int) -> bool:
        return len(self._queue) < self._max_events and self.bytes + size <= self._max_bytes

    def append(self, line: bytes) -> bool:
        """Queue one event.

        :param line: one line of JSON without its end.
        :return: False if the queue is full; the event is then dropped and counted.
        """
        size = len(line) + 1
        if (
            len(self._queue) >= self._max_events
            or self.bytes + size > self._max_bytes
            or size > MAX_LINE_BYTES
        ):
            self._drop(size)
            return False
        assert self._file is not None
        self._queue.append(line)
        self.bytes += size
        self._appended += 1
        put_off = self._put_off
        waits = bool(put_off) or self._before_sends(self._write_out)
        put_off.append(line)
        self._put_off_bytes += size
        if not waits or self._put_off_bytes > MAX_PUT_OFF_BYTES:
            self._write_out()
        return True

    def _write_out(self) -> None:
        """Write the lines that were put off, in one go; every line is in the file after that."""
        lines = self._put_off
        if not lines:
            return
        self._put_off = []
        self._put_off_bytes = 0
        assert self._file is not None
        lines.append(b"")
        ended = b"\n".join(lines)
        try:
            self._file.append(ended)
            if self._next is not None:
                self._next.append(ended)
        except OSError as error:
            self._not_written(error, len(lines) - 1)
        if self._stale:
            self._rewrite()

    def _drop(self, size: int) -> None:
        self.dropped += 1
        if size > MAX_LINE_BYTES:
            _log.error("a usage event of {size} bytes is too long to be kept", size=size)
        elif self.dropped >= self._tell_at:
            # Told at one, two, four and so on: a full spool drops at every request.
            self._tell_at = 2 * self.dropped
            _log.error(
                "the usage spool is full ({count} events, {bytes} bytes) and drops new events,"
                " {dropped} so far; usage is lost until the control plane takes some",
                count=len(self._queue),
                bytes=self.bytes,
                dropped=self.dropped,
            )

    def _not_written(self, error: OSError, count: int) -> None:
        self.unwritten += count
        if not self._stale:
            self._stale = True
            self._try_after = self._appended + _EVENTS_BETWEEN_TRIES
            _log.error(
                "{path} cannot be written, usage waits in memory only: {error}",
                path=self.path,
                error=error,
            )

    def look_after_file(self) -> None:
        """Have the file written anew where it was removed, replaced or cut under us.

        Events would go on into a file that no start finds. Called from time to time; it costs two
        looks at a file.
        """
        self._write_out()
        file = self._file
        if file is None or not self._queue or self._stale or self._rewriting:
            return
        if self._appended >= self._try_after and not file.is_at(self.path):
            self._stale = True
            _log.error(
                "{path} was removed, replaced or cut by somebody; it is written anew with the"
                " {count} usage events that wait",
                path=self.path,
                count=len(self._queue),
            )
            self._rewrite()
            # Not at once again: a file system may have no lasting numbers to know a file by.
            self._try_after = self._appended + _EVENTS_BETWEEN_TRIES

    def peek(self, limit: int = 500) -> list[bytes]:
        """Return the oldest events, at most ``limit``; they stay queued."""
        return list(islice(self._queue, limit))

    def acknowledge(self, count: int) -> None:
        """Forget the oldest ``count`` events: the control plane has them on its disk."""
        queue = self._queue
        if count > len(queue):
            raise ValueError(f"{count} events acknowledged of {len(queue)}")
        self._write_out()
        for _ in range(count):
            self.bytes -= len(queue.popleft()) + 1
        self._shrink()

    def put_aside(self) -> Deferred[str]:
        """Move the oldest event to the end of a file beside the spool, synced.

        :return: fires with that file's path, or fails with OSError.
        """
        line = self._queue[0]
        path = self.path + ".refused"

        def job() -> str:
            if (file_size(path) or 0) > MAX_ASIDE_BYTES:
                raise OSError(errno.EFBIG, "full; move it away", path)
            append_file(path, line + b"\n")
            return path

        def moved(result: str) -> str:
            self.acknowledge(1)
            return result

        return self._writer.submit(job).addCallback(moved)

    def remove(self) -> None:
        """Close the file and remove it, with its lock.

        Nothing may wait in it, and it must not be :attr:`rewriting`.

        :raises OSError: it cannot be removed.
        """
        if self._queue:
            raise ValueError(f"{len(self._queue)} events wait in {self.path}")
        # First the spool, while nobody else can have it.
        remove_file(self.path)
        remove_file(self.path + ".lock")
        self.close()

    def close(self) -> None:
        """Close the file; what waits stays in it."""
        self._write_out()
        for file in (self._file, self._next):
            if file is not None:
                file.close()
        self._file = self._next = None
        self._unlock()

    def _shrink(self) -> None:
        """Remove what was delivered from the file, if it is time."""
        file = self._file
        if file is None:
            return
        if not self._queue:
            try:
                file.cut(0)
                if self._next is not None:
                    self._next.cut(0)
            except OSError as error:
                _log.error("{path} cannot be emptied: {error}", path=self.path, error=error)
            else:
                self._stale = False
            return
        dead = file.size - self.bytes
        if dead > MAX_DEAD_BYTES and dead > self.bytes:
            self._rewrite()

    def _rewrite(self) -> None:
        """Begin a rewrite, unless one is under way or has just failed."""
        if self._rewriting or self._appended < self._try_after:
            return
        self._rewriting = True
        # What is queued now holds every event that could not be written before.
        self._covered = self.unwritten
        Deferred.fromCoroutine(self._replace(list(self._queue), self._appended))

    async def _replace(self, lines: list[bytes], mark: int) -> None:
        """Rewrite the file while events keep coming.

        :param lines: all that waits.
        :param mark: the count of events appended so far; later ones are not in ``lines``.
        """
        file: AppendFile | None = None
        try:
            file = await self._writer.submit(lambda: self._write_lines(None, lines))
            for _ in range(_MAX_ROUNDS):
                tail, mark = self._since(mark), self._appended
                if sum(map(len, tail)) <= _MAX_TAIL_BYTES or self._file is None:
                    break
                file = await self._writer.submit(partial(self._write_lines, file, tail))
                tail = self._since(mark)
            if self._file is None:
                # closed meanwhile; the old file holds everything
                file.close()
                return
            for piece in _pieces(tail):
                file.append(piece)
            self._next = file
            await self._writer.submit(partial(self._rename, file))
        except Exception as error:
            # Stay with the old file, which has had every event all along.
            self._next = None
            if file is not None:
                file.close()
            self._try_after = self._appended + _EVENTS_BETWEEN_TRIES
            _log.error("{path} cannot be rewritten: {error}", path=self.path, error=error)
        else:
            self._swap(file)
        finally:
            self._rewriting = False
        self._shrink()

    def _since(self, mark: int) -> list[bytes]:
        """Return the events appended after ``mark`` that still wait; the old file has them."""
        self._write_out()
        came = min(self._appended - mark, len(self._queue))
        return list(islice(self._queue, len(self._queue) - came, None))

    def _swap(self, file: AppendFile) -> None:
        """Go on with the new file alone."""
        file.path = self.path
        if self._file is None:
            return
        old, self._file, self._next = self._file, file, None
        self._stale = self.unwritten > self._covered
        # Closing the last handle of a large file gives its blocks back, which takes a while.
        self._writer.submit(old.close).addErrback(lambda _: old.close())

    def _write_lines(self, file: AppendFile | None, lines: list[bytes]) -> AppendFile:
        """Write lines behind the temporary file's others and sync it; runs in the thread."""
        if file is None:
            temporary = self.path + ".rewrite.tmp"
            # left by a rewrite that failed; another process cannot be at it
            remove_file(temporary)
            file = AppendFile(temporary)
        try:
            for piece in _pieces(lines):
                file.append(piece)
            file.sync()
        except BaseException:
            file.close()
            raise
        return file

    def _rename(self, file: AppendFile) -> None:
        """Put the temporary file in the place of the spool; runs in the thread."""
        rename_file(file.path, self.path, sync=False)
        # Failing here would say that the old file is still in place, which it is not.
        with contextlib.suppress(OSError):
            sync_directory(os.path.dirname(self.path) or ".")


def _is_event(line: bytes) -> bool:
    """Tell an event from damage: valid UTF-8, a JSON object with an id, and its checksum if any.

    Whether it is right in every member is for the control plane to say, which counts those that
    are not; a line that is no JSON would spoil the batch it stands in.
    """
    try:
        line.decode("utf-8")
        _decode(line)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return False
    return is_intact(line)


def _pieces(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Join lines into pieces of a few hundred KiB, each ending with a line end."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= _PIECE_BYTES:
            held.append(b"")
            yield b"\n".join(held)
            held, size = [], 0
    if held:
        held.append(b"")
        yield b"\n".join(held)
