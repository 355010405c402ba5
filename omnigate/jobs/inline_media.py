"""A sink for answers that hold media in their JSON: the media go into files, the rest is kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.python.failure import Failure

from omnigate.jobs.inline_splitter import InlineSplitter
from omnigate.outbound.messages import BodyRefused, KeptMedia, Pausable, Sink


class KeepingSink(Sink, Protocol):
    """A file that is written as its content comes.

    :ivar kept: what it is, once it is finished.
    """

    kept: KeptMedia | None


class _Valve:
    """Pauses a source while one of several files is behind."""

    def __init__(self, source: Pausable) -> None:
        self._source = source
        self._closed_by: set[object] = set()

    def close(self, who: object) -> None:
        if not self._closed_by:
            self._source.pause()
        self._closed_by.add(who)

    def open(self, who: object) -> None:
        if who in self._closed_by:
            self._closed_by.discard(who)
            if not self._closed_by:
                self._source.resume()


class _Handle:
    """What one of the files has of the valve."""

    def __init__(self, valve: _Valve) -> None:
        self._valve = valve

    def pause(self) -> None:
        self._valve.close(self)

    def resume(self) -> None:
        self._valve.open(self)


class InlineSink:
    """Takes one JSON answer (:class:`~omnigate.outbound.messages.Sink`).

    Where it ends well, :attr:`body` and :attr:`media` are what
    :class:`~omnigate.outbound.messages.Answer` has under these names.

    :param open_file: makes the sink for the file of a number, from 0; a number may be asked for
        again where a file was none.
    :param max_file_bytes: of one file.
    :param max_total_bytes: of all together.
    """

    def __init__(
        self,
        open_file: Callable[[int], KeepingSink],
        *,
        max_file_bytes: int,
        max_total_bytes: int,
    ) -> None:
        secret = secrets.token_hex(16)
        self._open_file = open_file
        self._splitter = InlineSplitter(
            self,
            lambda number: f"media-{secret}-{number}",
            max_file_bytes=max_file_bytes,
            max_total_bytes=max_total_bytes,
        )
        self._valve: _Valve | None = None
        self._open: tuple[str, str, KeepingSink] | None = None
        self._files: list[tuple[str, str, KeepingSink]] = []
        self._finishing: list[Deferred[None]] = []
        self._failure: Failure | None = None
        self.body = b""
        self.media: Mapping[str, KeptMedia] = {}

    def begin(self, source: Pausable) -> None:
        """Get ready."""
        self._valve = _Valve(source)

    def write(self, data: bytes) -> None:
        """Take a piece.

        :raises BodyRefused: no more is wanted.
        """
        if self._failure is not None:
            self._failure.raiseException()
        self._splitter.feed(data)

    def finish(self) -> Deferred[None]:
        """Fire when all files are kept."""
        try:
            self.body = self._splitter.finish()
        except BodyRefused as refused:
            return fail(refused)
        if self._failure is not None:
            return fail(self._failure)
        return gatherResults(self._finishing).addCallback(self._finished)

    def abandon(self) -> None:
        """Throw all files away."""
        files = [*self._files]
        if self._open is not None:
            files.append(self._open)
        self._files, self._open = [], None
        for _, _, file in files:
            file.abandon()

    def _finished(self, _: object) -> None:
        if self._failure is not None:
            self._failure.raiseException()
        media = {}
        for marker, prefix, file in self._files:
            assert file.kept is not None
            media[marker] = attrs.evolve(file.kept, prefix=prefix)
        self.media = media

    # -- what the splitter takes out

    def media_begins(self, marker: str, prefix: str) -> None:
        """Open a file."""
        assert self._valve is not None
        file = self._open_file(len(self._files))
        self._open = marker, prefix, file
        file.begin(_Handle(self._valve))

    def media_data(self, data: bytes) -> None:
        """Write to it."""
        assert self._open is not None
        self._open[2].write(data)

    def media_ends(self) -> None:
        """Close it; it may take a while until all of it is on the disk."""
        assert self._open is not None
        self._files.append(self._open)
        file = self._open[2]
        self._open = None
        self._finishing.append(file.finish().addErrback(self._failed))

    def media_was_none(self) -> None:
        """Throw it away."""
        assert self._open is not None
        file = self._open[2]
        self._open = None
        file.abandon()

    def _failed(self, failure: Failure) -> None:
        """Keep the first failure; it is told with the next piece, or at the end."""
        self._failure = self._failure or failure
