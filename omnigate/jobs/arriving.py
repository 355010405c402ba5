"""One output on its way into the gateway: from the source that an adapter names to a file here."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import attrs
from twisted.internet.defer import CancelledError, Deferred

from omnigate.files import NewFile, read_pieces
from omnigate.jobs.adapters.base import InlineSource, Source, UrlSource
from omnigate.jobs.incoming import HEAD_BYTES, Incoming, IncomingFile, words_of
from omnigate.jobs.job import Job
from omnigate.jobs.media_types import stored_type
from omnigate.jobs.output_faults import (
    OutputFault,
    OutputLimits,
    refused,
    storage_failed,
    unavailable,
)
from omnigate.outbound.messages import (
    NOT_KEPT,
    REFUSED,
    TOO_LARGE,
    TOO_MANY_REDIRECTS,
    Answer,
    KeptMedia,
    Sink,
)
from omnigate.text import one_line
from omnigate.writer_thread import IWriter, WriterBusyError, WriterStoppedError

T = TypeVar("T")

URL: Final = "url"
INLINE: Final = "inline"

#: Of what went wrong at a provider, so much is kept.
_DETAIL_CHARS = 200


class Fetches(Protocol):
    """:class:`omnigate.outbound.client.Outbound`, as far as outputs need it."""

    def fetch(
        self,
        source_url: str,
        max_bytes: int,
        sink: Sink,
        *,
        headers: Sequence[tuple[str, str]] = (),
        own_origin: str = "",
    ) -> Awaitable[Answer]:
        """Get a file from where a provider says that it is."""


@attrs.frozen
class Arrived:
    """An output that lies in a file of ours.

    :ivar source: ``url`` or ``inline``.
    """

    kept: KeptMedia
    content_type: str
    source: str


@attrs.frozen
class Arriving:
    """Brings the outputs of one attempt in.

    :ivar worker: copies and decodes in its thread.
    :ivar own_origin: the one origin that a credential goes to.
    """

    job: Job
    incoming: Incoming
    outbound: Fetches
    worker: IWriter
    limits: OutputLimits
    own_origin: str

    async def bring(self, n: int, source: Source) -> Arrived:
        """Bring one in.

        :raises OutputFault: it cannot be had, or not be kept.
        :raises CancelledError: the gateway stops.
        """
        try:
            if isinstance(source, InlineSource):
                return await self._inline(n, source)
            return await self._fetched(n, source)
        except WriterStoppedError:
            raise CancelledError from None
        except WriterBusyError as error:
            raise not_kept(str(error)) from None
        except OSError as error:
            if error.errno == errno.ECANCELED:
                raise CancelledError from None
            if error.errno == errno.EFBIG:
                raise self.limits.too_large() from None
            raise not_kept(words_of(error)) from None

    async def _fetched(self, n: int, source: UrlSource) -> Arrived:
        sink = self._sink(n)
        try:
            answer = await self.outbound.fetch(
                source.url,
                self.limits.largest,
                sink,
                headers=source.headers,
                own_origin=self.own_origin,
            )
        except BaseException:
            sink.abandon()
            raise
        if not answer.ok or sink.kept is None:
            sink.abandon()
            raise self._fault_of(answer, sink.failure)
        if not sink.kept.size:
            raise unavailable("the provider's file is empty")
        declared = answer.headers.get("content-type", "")
        return _arrived(sink, declared, source.content_type, URL)

    def _fault_of(self, answer: Answer, failure: OSError | None) -> OutputFault:
        if answer.fault == TOO_LARGE:
            return self.limits.too_large()
        if answer.fault == TOO_MANY_REDIRECTS:
            return refused("too many redirects")
        if answer.fault == REFUSED:
            return refused(_words(answer.detail, "url not allowed"))
        if answer.fault == NOT_KEPT:
            return not_kept(_words(answer.detail, "") if failure is None else words_of(failure))
        if answer.fault:
            detail = _words(answer.detail, answer.fault)
            return unavailable(f"the provider's file could not be fetched: {detail}")
        return unavailable(f"the provider's file answered {answer.status}")

    async def _inline(self, n: int, source: InlineSource) -> Arrived:
        content = source.content
        if isinstance(content, bytes):
            sink = self._sink(n)
            try:
                await self._write(sink, source.prefix)
                await self._write(sink, content)
                await sink.finish()
            except BaseException:
                sink.abandon()
                raise
            return _arrived(sink, source.content_type, "", INLINE)
        if len(source.prefix) + content.size > self.limits.largest:
            raise self.limits.too_large()
        named = content.prefix.removeprefix("data:")
        if source.prefix:
            path = self.incoming.new_path(self.job.id, n)
            content = await self.worker.submit(
                partial(_prefixed, source.prefix, content.path, path)
            )
        content_type = stored_type(source.content_type, named, content.head)
        return Arrived(content, content_type, INLINE)

    def _sink(self, n: int) -> IncomingFile:
        return self.incoming.sink(self.job.id, n, self.limits.largest)

    async def _write(self, sink: IncomingFile, data: bytes) -> None:
        """Write to a file, and wait while it has enough."""
        source = _Waiting()
        sink.begin(source)
        sink.write(data)
        if source.room is not None:
            await source.room


class _Waiting:
    """A source that can be waited for while it is paused."""

    def __init__(self) -> None:
        self.room: Deferred[None] | None = None

    def pause(self) -> None:
        self.room = Deferred()

    def resume(self) -> None:
        if self.room is not None and not self.room.called:
            self.room.callback(None)


def not_kept(words: str) -> OutputFault:
    """Return the fault of a disk that does not take an output."""
    return storage_failed(f"the output could not be kept: {words or 'the disk refused'}")


def _words(detail: str, otherwise: str) -> str:
    """Return what is told of a failure, unless it quotes a URL."""
    return one_line(detail, _DETAIL_CHARS) if detail and "://" not in detail else otherwise


def _arrived(sink: IncomingFile, declared: str, named: str, source: str) -> Arrived:
    assert sink.kept is not None
    return Arrived(sink.kept, stored_type(declared, named, sink.kept.head), source)


def _prefixed(prefix: bytes, source: str, target: str) -> KeptMedia:
    """Copy a file behind something else."""
    file = NewFile(target)
    digest, head = hashlib.sha256(), b""
    try:
        for pieces in ((prefix,), read_pieces(source)):
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                head += piece[: HEAD_BYTES - len(head)]
        file.sync()
        file.close()
    except BaseException:
        file.discard()
        raise
    return KeptMedia(target, file.size, digest.hexdigest(), head)
