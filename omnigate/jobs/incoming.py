"""Where the bodies of outputs go as they arrive: files that nobody knows yet, one folder for a job.

Below ``<media folder>/.incoming/<job id>/``. A piece is taken on the reactor's thread and written
and hashed in the writer's; a source that is faster than the disk is paused. What lies here is of no
use after a crash, so the folder of a job is removed however an attempt ends
(:meth:`Incoming.clear`), and all of it at a start (:meth:`Incoming.sweep`).
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.files import NewFile, list_names, make_folder, remove_file, remove_folder
from omnigate.outbound.messages import KeptMedia, Pausable
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

#: The folder in the media folder; no job is called so.
INCOMING: Final = ".incoming"

#: What of one file may wait for the disk: a few reads of a fast connection. A source that has
#: given more is paused until half of it is written.
MAX_WAITING_BYTES: Final = 256 * 1024

#: What a piece takes beside its bytes: a peer may send them one by one.
PIECE_OVERHEAD: Final = 64

#: The beginning of a file that is kept to tell what it is; the longest sign known is 40 bytes.
HEAD_BYTES: Final = 64

_log = Logger()


class _Content:
    """One file as the writer's thread knows it; made there by the first piece."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: NewFile | None = None
        self._hash = hashlib.sha256()

    def write(self, pieces: Sequence[bytes]) -> None:
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._opened().write(data)
        self._hash.update(data)

    def finish(self) -> str:
        """Sync and close the file.

        :returns: the hash in hex.
        """
        file = self._opened()
        file.sync()
        file.close()
        return self._hash.hexdigest()

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()

    def _opened(self) -> NewFile:
        if self._file is None:
            incoming = os.path.dirname(self._folder)
            # The media folder is there, unless its disk has come back. Of the others neither has to
            # survive anything; a crash takes both.
            make_folder(os.path.dirname(incoming))
            make_folder(incoming, sync=False)
            make_folder(self._folder, sync=False)
            self._file = NewFile(os.path.join(self._folder, self._name))
        return self._file


class IncomingFile:
    """A :class:`~omnigate.outbound.messages.Sink` that writes to a file of its own.

    :ivar kept: what was kept; None before :meth:`finish` has fired.
    :ivar failure: why it takes no more: the disk (ENOSPC where it is full), or EFBIG where there
        was more than the most that was allowed.
    """

    def __init__(self, folder: str, name: str, max_bytes: int, writer: IWriter) -> None:
        self._path = os.path.join(folder, name)
        self._max_bytes = max_bytes
        self._writer = writer
        self._content = _Content(folder, name)
        self._source: Pausable | None = None
        self._paused = False
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._in_hand = 0
        self._busy = False
        self._head = b""
        self._size = 0
        self._ended = False
        self._done: Deferred[None] | None = None
        self.kept: KeptMedia | None = None
        self.failure: OSError | None = None

    def begin(self, source: Pausable) -> None:
        """Get ready for what ``source`` sends."""
        self._source = source

    def write(self, data: bytes) -> None:
        """Take a piece.

        :raises OSError: it takes no more (:attr:`failure`); whoever sends need not go on.
        """
        if self._ended or not data:
            return
        self._size += len(data)
        if self._size > self._max_bytes and self.failure is None:
            self._fail(OSError(errno.EFBIG, f"it is longer than {self._max_bytes} bytes"))
        if self.failure is not None:
            raise self.failure
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._waiting.append(data)
        self._waiting_bytes += len(data) + PIECE_OVERHEAD
        if self._waiting_bytes + self._in_hand > MAX_WAITING_BYTES:
            self._pause()
        self._push()

    def finish(self) -> Deferred[None]:
        """Keep what came; there is no more.

        :returns: fires when all of it is written and synced, and :attr:`kept` is there; fails with
            an OSError, and then nothing is kept.
        """
        if self._ended:
            return fail(OSError(errno.EBADF, "the file has been finished or abandoned"))
        self._ended = True
        if self.failure is not None:
            return fail(self.failure)
        self._done = done = Deferred[None]()
        if not self._busy:
            self._close()
        return done

    def abandon(self) -> None:
        """Throw away what came; also after :meth:`finish`, whose Deferred then fails."""
        self._ended = True
        if self.failure is None:
            self._fail(OSError(errno.ECANCELED, "the file has been abandoned"))

    # -- the writer's answers -----------------------------------------------------------------

    def _push(self) -> None:
        """Have the writer write what waits; one job at a time."""
        if self._busy or not self._waiting:
            return
        pieces, self._waiting = self._waiting, []
        self._in_hand, self._waiting_bytes = self._waiting_bytes, 0
        self._busy = True
        submitted = self._writer.submit(partial(self._content.write, pieces))
        submitted.addCallbacks(self._written, self._refused)

    def _written(self, _: None) -> None:
        self._busy = False
        self._in_hand = 0
        if self.failure is not None:
            return
        self._push()
        if self._paused and self._waiting_bytes + self._in_hand <= MAX_WAITING_BYTES // 2:
            self._resume()
        if self._done is not None and not self._busy:
            self._close()

    def _close(self) -> None:
        self._busy = True
        self._writer.submit(self._content.finish).addCallbacks(self._closed, self._refused)

    def _closed(self, digest: str) -> None:
        self._busy = False
        if self.failure is not None:
            return
        self.kept = KeptMedia(self._path, self._size, digest, self._head)
        done, self._done = self._done, None
        if done is not None:
            done.callback(None)

    def _refused(self, failure: Failure) -> None:
        self._busy = False
        if self.failure is None:
            self._fail(as_os_error(failure))

    def _fail(self, error: OSError) -> None:
        """Take no more, and let go of what is there."""
        self.failure = error
        self.kept = None
        self._waiting, self._waiting_bytes = [], 0
        # What is left of a file whose writer has ended is swept at the next start.
        self._writer.submit(self._content.discard).addErrback(lambda _: None)
        self._resume()
        done, self._done = self._done, None
        if done is not None:
            done.errback(error)

    def _pause(self) -> None:
        if self._source is not None and not self._paused:
            self._paused = True
            self._source.pause()

    def _resume(self) -> None:
        if self._source is not None and self._paused:
            self._paused = False
            self._source.resume()


class Incoming:
    """The folder of what arrives.

    :param folder: the media folder.
    :param writer: whose thread writes there.
    """

    def __init__(self, folder: str, writer: IWriter) -> None:
        self._folder = os.path.join(folder, INCOMING)
        self._writer = writer
        self._made = 0

    def sink(self, job_id: str, n: int, max_bytes: int) -> IncomingFile:
        """Return where the body of output ``n`` of a job may go; several may be asked for.

        :param max_bytes: what it may have at most.
        """
        self._made += 1
        return IncomingFile(self._folder_of(job_id), f"{n}-{self._made}", max_bytes, self._writer)

    def new_path(self, job_id: str, n: int) -> str:
        """Return a path for a file of that output that is made by other means, in the writer."""
        self._made += 1
        return os.path.join(self._folder_of(job_id), f"{n}-{self._made}")

    def clear(self, job_id: str) -> Deferred[None]:
        """Remove all files of a job, after what was handed to the writer before.

        :returns: fires when they are gone, or cannot be removed, which is logged.
        """
        removed = self._writer.submit(partial(remove_folder, self._folder_of(job_id)))
        return removed.addCallbacks(lambda _: None, lambda failure: self._left(job_id, failure))

    def _left(self, job_id: str, failure: Failure) -> None:
        if not failure.check(WriterStoppedError):
            _log.warn(
                "what came in for {job} could not be removed ({reason}); it is at the next start",
                job=job_id,
                reason=failure.getErrorMessage(),
            )

    def sweep(self) -> Deferred[int]:
        """Remove what an end of the process left, before anything arrives.

        :returns: of how many jobs.
        """
        return self._writer.submit(partial(_sweep, self._folder))

    def _folder_of(self, job_id: str) -> str:
        return os.path.join(self._folder, job_id)


def _sweep(folder: str) -> int:
    names = list_names(folder)
    for name in names:
        path = os.path.join(folder, name)
        try:
            remove_folder(path)
        except NotADirectoryError:
            remove_file(path)
    return len(names)


def words_of(error: OSError) -> str:
    """Return what is wrong with the disk, without the path of a file."""
    return (error.strerror or str(error) or type(error).__name__).lower()


def as_os_error(failure: Failure) -> OSError:
    """Return what a writer has failed with as an OSError."""
    error = failure.value
    if isinstance(error, OSError):
        return error
    if isinstance(error, WriterBusyError):
        return OSError(errno.EAGAIN, str(error))
    if isinstance(error, WriterStoppedError):
        return OSError(errno.ECANCELED, str(error))
    _log.failure("a file that comes in could not be written", failure)
    return OSError(errno.EIO, failure.getErrorMessage())
