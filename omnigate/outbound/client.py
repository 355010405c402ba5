"""The requests of the control plane: to providers, for their files, to webhooks, to a bucket.

Some go where the operator's config says (:meth:`Outbound.call`, :meth:`Outbound.put`). Others go
where a provider or a client says (:meth:`Outbound.fetch`, :meth:`Outbound.post_guarded`): their
URLs are read strictly (:mod:`omnigate.outbound.urls`), the name is looked up once, every address it
has must be allowed (:mod:`omnigate.outbound.addresses`), and the connection goes to one of those by
its number, so that no second look-up can say anything else.

Nothing here reads the environment for proxies, keeps cookies, or repeats what may cost money.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.body_sender import FilePieces, Submit
from omnigate.outbound.dispatch import ADDRESS_REFUSED, Connect, Dispatch, Plan, Resolve
from omnigate.outbound.exchange import WHOLE, Deadline, Limits
from omnigate.outbound.lookups import Lookups
from omnigate.outbound.messages import (
    REFUSED,
    TOO_MANY_REDIRECTS,
    TRUNCATED,
    Answer,
    Cap,
    Request,
    Sink,
)
from omnigate.outbound.urls import UrlError, origin_of, parse_url, redirected

#: Seconds from the request for a file to the head of its answer.
HEAD_SECONDS: Final = 30.0
#: Redirects that are followed.
MAX_REDIRECTS: Final = 5
#: The slowest that a body may come on the whole: 256 KiB a second; 5 GiB take 5.7 hours then.
MIN_BYTES_PER_SECOND: Final = 256 * 1024
#: Seconds that every answer has beside that.
GRACE_SECONDS: Final = 60.0
#: What is read of the answer to a webhook.
MAX_WEBHOOK_ANSWER_BYTES: Final = 16 * 1024
#: Seconds for one delivery of a webhook, from its turn to its status.
WEBHOOK_SECONDS: Final = 15.0
#: An answer to what is put into a bucket: XML of a few lines.
MAX_PUT_ANSWER_BYTES: Final = 64 * 1024

URL_REFUSED: Final = "url not allowed"

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


def total_seconds(max_bytes: int) -> float:
    """How long an answer of a size may take in all."""
    return GRACE_SECONDS + max_bytes / MIN_BYTES_PER_SECOND


class Outbound:
    """Sends requests; one for each generation of the config.

    What peers do wrong is told in :attr:`Answer.fault`; where that is ``connect_error`` or
    ``refused``, nothing of the request was sent. Whoever cancels a Deferred over one of these
    coroutines closes its connection. After :meth:`close`, and in those that run then, all of them
    raise :exc:`~twisted.internet.defer.CancelledError`.

    :param reactor: has the time, connections and the name resolver.
    :param guard: judges the addresses of guarded requests.
    :param resolve: looks a name up, in place of the reactor's resolver.
    :param connect: opens a connection to ``number`` of an address, in place of the reactor's.
    :param ca_file: a PEM file with authorities to trust in place of the platform's.
    :ivar observe: told of each answer, and what it was to: ``provider``, ``file``, ``webhook`` or
        ``bucket``.
    """

    def __init__(
        self,
        reactor: Any,
        guard: AddressGuard,
        *,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._reactor = reactor
        self._guard = guard
        self._dispatch = Dispatch(reactor, guard, connect, ca_file)
        # Names that the operator wrote never wait for those of providers, nor these for those of
        # clients, whose name servers may let every look-up hang.
        self._resolve = resolve or Lookups(reactor)
        self._resolve_file = resolve or Lookups(reactor)
        self._resolve_webhook = resolve or Lookups(reactor)
        self._running: set[Deferred[Any]] = set()
        self._closed = False
        self.observe: Callable[[str, Answer], None] = lambda kind, answer: None

    async def call(self, request: Request, max_bytes: int, sink: Sink | None = None) -> Answer:
        """Send a request to the operator's own address; redirects are not followed.

        A GET may go over a connection that was used before, and is then repeated once where that
        turns out to be closed. Everything else is sent once, over a new one.

        :param max_bytes: of the body of the answer.
        :param sink: where the body of a 2xx goes; all others are in the answer.
        """
        return await self._run("provider", self._call(request, max_bytes, sink))

    async def fetch(
        self,
        source_url: str,
        max_bytes: int,
        sink: Sink,
        *,
        headers: Sequence[tuple[str, str]] = (),
        own_origin: str = "",
        seconds: float | None = None,
    ) -> Answer:
        """Get a file from where a provider says that it is, through five redirects at most.

        :param headers: a credential, sent only where the origin is ``own_origin``.
        :param own_origin: the origin of the target's ``base_url``: allowed whatever its address;
            and ``http`` is allowed only where it has that scheme.
        :param seconds: for all of it; by its size where None.
        :return: without a body; ``detail`` tells of a status that no whole file has, too, and
            where that is a 2xx it is a fault.
        """
        return await self._run(
            "file", self._fetch(source_url, max_bytes, sink, tuple(headers), own_origin, seconds)
        )

    async def post_guarded(
        self,
        request: Request,
        max_bytes: int = MAX_WEBHOOK_ANSWER_BYTES,
        *,
        allow_http: bool,
        seconds: float = WEBHOOK_SECONDS,
    ) -> Answer:
        """Send a request to where a client says.

        Only the status counts: no redirect is followed, ``max_bytes`` of the body at most are read
        and thrown away, and once there is a status nothing that follows is a fault.

        :param seconds: for all of it, from its turn on.
        """
        return await self._run(
            "webhook", self._post_guarded(request, max_bytes, allow_http, seconds)
        )

    async def put(
        self,
        request: Request,
        path: str,
        size: int,
        *,
        submit: Submit,
        max_bytes: int = MAX_PUT_ANSWER_BYTES,
    ) -> Answer:
        """Send a file as the body of a request to the operator's own address.

        :param request: without a body; it is not repeated.
        :param size: the length of the file.
        :param submit: reads it, in a thread: :meth:`omnigate.writer_thread.IWriter.submit`.
        """
        return await self._run("bucket", self._put(request, path, size, submit, max_bytes))

    async def close(self) -> None:
        """Cancel what runs and close what is open."""
        self._closed = True
        for running in tuple(self._running):
            running.cancel()
        await self._dispatch.connections.close()

    # -- the four kinds

    async def _call(self, request: Request, max_bytes: int, sink: Sink | None) -> Answer:
        try:
            url = parse_url(request.url)
        except UrlError as error:
            return _refused(f"{URL_REFUSED}: {error}")
        what = "output" if request.cap is Cap.OUTPUT else "the answer"
        seconds = request.head_seconds + total_seconds(max_bytes + len(request.body))
        limits = Limits(max_bytes, request.head_seconds, self._within(seconds), what=what)
        plan = Plan(request, url, limits, self._resolve, sink, reuse=True)
        return (await self._dispatch.send(plan))[0]

    async def _put(
        self, request: Request, path: str, size: int, submit: Submit, max_bytes: int
    ) -> Answer:
        try:
            url = parse_url(request.url)
        except UrlError as error:
            return _refused(f"{URL_REFUSED}: {error}")
        seconds = request.head_seconds + total_seconds(max_bytes + size)
        plan = Plan(
            request,
            url,
            Limits(max_bytes, request.head_seconds, self._within(seconds)),
            self._resolve,
            body=lambda: FilePieces(path, submit),
            size=size,
        )
        return (await self._dispatch.send(plan))[0]

    async def _post_guarded(
        self, request: Request, max_bytes: int, allow_http: bool, seconds: float
    ) -> Answer:
        try:
            url = parse_url(request.url)
        except UrlError as error:
            return _refused(f"{URL_REFUSED}: {error}")
        if not (url.secure or allow_http):
            return _refused(f"{URL_REFUSED}: its scheme is not https")
        limits = Limits(max_bytes, request.head_seconds, self._within(seconds), status_only=True)
        plan = Plan(request, url, limits, self._resolve_webhook, guarded=True)
        return (await self._dispatch.send(plan))[0]

    async def _fetch(
        self,
        source_url: str,
        max_bytes: int,
        sink: Sink,
        headers: tuple[tuple[str, str], ...],
        own_origin: str,
        seconds: float | None,
    ) -> Answer:
        if seconds is None:
            seconds = total_seconds(max_bytes)
        limits = Limits(
            max_bytes, HEAD_SECONDS, self._within(seconds), heads_only=True, what="output"
        )
        own_origin = origin_of(own_origin)
        allow_http = own_origin.startswith("http:")
        try:
            url = parse_url(source_url)
        except UrlError:
            return _refused(URL_REFUSED)
        for _ in range(MAX_REDIRECTS + 1):
            is_own = url.origin == own_origin
            # An address that is not allowed is the graver thing to tell of.
            if url.packed and not is_own and not self._guard.allowed(url.packed):
                return _refused(ADDRESS_REFUSED)
            if not (url.secure or allow_http):
                return _refused(URL_REFUSED)
            request = Request("GET", str(url), headers if is_own else ())
            resolve = self._resolve if is_own else self._resolve_file
            plan = Plan(request, url, limits, resolve, sink, guarded=not is_own)
            answer, lines = await self._dispatch.send(plan)
            if answer.fault or answer.status in WHOLE:
                return answer
            if answer.status not in _REDIRECTS:
                return _unanswered(answer)
            locations = [value for name, value in lines if name == "location"]
            if not locations:
                return _unanswered(answer)
            try:
                if len(locations) > 1:
                    raise UrlError("there are several")
                target = redirected(url, locations[0])
            except UrlError:
                return _refused(URL_REFUSED)
            # From https nothing leads back to http.
            allow_http = allow_http and not url.secure
            url = target
        return Answer(answer.status, fault=TOO_MANY_REDIRECTS, detail="too many redirects")

    def _within(self, seconds: float) -> Deadline:
        return Deadline(self._reactor, seconds)

    async def _run(self, kind: str, work: Coroutine[Deferred[Any], Any, Answer]) -> Answer:
        """Keep track of what runs, so that it can be ended."""
        if self._closed:
            work.close()
            raise CancelledError
        running = Deferred.fromCoroutine(work)
        self._running.add(running)
        try:
            answer = await running
        finally:
            self._running.discard(running)
        self.observe(kind, answer)
        return answer


def _refused(detail: str) -> Answer:
    return Answer(0, fault=REFUSED, detail=detail)


def _unanswered(answer: Answer) -> Answer:
    if answer.ok:
        return attrs.evolve(answer, fault=TRUNCATED, detail=f"it answered {answer.status}")
    return attrs.evolve(answer, detail=f"the provider's file answered {answer.status}")
