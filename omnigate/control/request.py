# mypy: allow-untyped-calls
# (the methods of twisted.web's request carry no types)
"""One request at the control plane's listener: judged by its head, run, and answered.

The connection it comes on is :mod:`omnigate.control.web`'s.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, ISSLTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request, datetimeToString

from omnigate.client_address import TrustedProxies
from omnigate.control.auth import INTERNAL, OPEN, PEOPLE, STRANGERS, Caller, Credentials
from omnigate.control.byte_stream import ByteStream
from omnigate.control.forms import read_form
from omnigate.control.routes import (
    WRITE,
    Answer,
    Call,
    Endpoint,
    Finder,
    audience_of,
    parse_filters,
    parse_query,
    parse_target,
)
from omnigate.control.sessions import Session
from omnigate.control.visits import Door, Visit
from omnigate.errors import GatewayError, envelope, problem

if TYPE_CHECKING:
    from omnigate.control.web import ControlChannel

#: What a data plane or a browser sends is far below.
MAX_HEADERS: Final = 100
MAX_HEAD_BYTES: Final = 16_384

#: What data planes pass on for applications: jobs, files and receipts.
FORWARDED: Final = "/internal/v1/"

NOBODY: Final = TrustedProxies()


async def _at_once(who: str) -> None:
    """Let work begin without a line."""


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")

_log = Logger(namespace="omnigate.control.web")


@attrs.define
class Gate:
    """What judges and answers: routes, credentials, and the time for the ``date`` header.

    :ivar wall: seconds since 1970.
    :ivar proxies: who is believed about the address of a caller.
    :ivar door: who knows people with a browser; without one there is no page.
    :ivar turn: waits until work may begin that is for no data plane; given whose it is.
    """

    routes: Finder
    credentials: Credentials
    clock: IReactorTime
    wall: Callable[[], float]
    proxies: TrustedProxies = NOBODY
    door: Door | None = None
    turn: Callable[[str], Awaitable[None]] = _at_once


@attrs.frozen
class _Admitted:
    """A request whose head was accepted."""

    endpoint: Endpoint
    path: str
    name: str
    query: dict[str, str]
    actor: str


class ControlRequest(Request):
    """One request and its answer."""

    channel: ControlChannel

    def __init__(self, channel: ControlChannel, queued: object = False) -> None:
        super().__init__(channel, queued)
        self._audience = ""
        self._admitted: _Admitted | None = None
        self._refusal: GatewayError | None = None
        self._gone = False
        self._address = ""
        # Both for pages only; kept here, since the channel may be gone when they are asked.
        self._door: Door | None = None
        self._visit: Visit | None = None
        self._session: Session | None = None
        self._stream: ByteStream | None = None
        self.request_id = ""

    @property
    def _gate(self) -> Gate:
        return self.channel.gate

    @property
    def is_known(self) -> bool:
        """Whether it was admitted by a credential."""
        return self._admitted is not None and self._audience not in (OPEN, STRANGERS)

    @property
    def is_of_data_plane(self) -> bool:
        """Whether it is for data planes only."""
        return self._audience == INTERNAL

    @property
    def forwarded_for(self) -> str | None:
        """Which key's application a data plane passes it on for; empty for a signed address.

        None where it is of no application.
        """
        if self._admitted is None or not self._admitted.path.startswith(FORWARDED):
            return None
        return self._of_client(b"x-omnigate-key-sha256")

    def judge_head(
        self, method: bytes, target: bytes, version: bytes, length: int | None
    ) -> GatewayError | None:
        """Judge the request by its head.

        :param length: the declared length of the body; ``None`` for a chunked one.
        :return: the refusal, if it is one.
        """
        self.method, self.uri, self.clientproto = method, target, b"HTTP/1.1"
        self.request_id = self._find_request_id()
        try:
            self._admitted = self._admit(method, target, version, length)
        except GatewayError as refusal:
            self._refusal = refusal
        return self._refusal

    def refuse(self, refusal: GatewayError) -> None:
        """Refuse a request whose head was good."""
        self._refusal = refusal

    def refuse_head(self) -> Answer:
        """Return the answer to a head that cannot be read; nothing of it is believed."""
        self.method, self.uri, self.clientproto = b"GET", b"/", b"HTTP/1.1"
        self.request_id = secrets.token_hex(16)
        return self.refusal_answer(
            GatewayError(
                "invalid_request",
                f"no request of HTTP/1.1, or a head of more than {MAX_HEAD_BYTES} bytes or "
                f"{MAX_HEADERS} headers",
            )
        )

    def _admit(self, method: bytes, target: bytes, version: bytes, length: int | None) -> _Admitted:
        if version != b"HTTP/1.1":
            raise GatewayError("invalid_request", "only HTTP/1.1 is spoken here", status=505)
        parsed = parse_target(target)
        try:
            self._audience = audience_of(parsed.path)
        except GatewayError:
            if method == b"GET" and "text/html" in self._header(b"accept"):
                # Somebody has mistyped an address: a page tells them so.
                self._door, self._address = self._gate.door, self._find_address()
                self._visit = self._find_visit(method, target)
            raise
        if len(self._header_lines(b"host")) != 1:
            # Whoever stands in front may have read another one than we would.
            raise GatewayError("invalid_request", "a request has one host header")
        self._address = self._find_address()
        if self._audience in (PEOPLE, STRANGERS):
            self._door = self._gate.door
            if self._door is None:
                raise GatewayError("not_found", "there is no dashboard here")
            self._visit = self._find_visit(method, target)
        caller = self._judge_caller()
        endpoint, name = self._gate.routes.find(method.decode("ascii", "replace"), parsed.path)
        _check_scope(endpoint, caller)
        if length is None:
            raise GatewayError("length_required", "send the body with a content-length")
        if length and not endpoint.body_limit:
            raise GatewayError("invalid_request", "this endpoint takes no body")
        if length > endpoint.body_limit:
            raise GatewayError(
                "request_too_large", f"the body may be at most {endpoint.body_limit} bytes"
            )
        if endpoint.free_query:
            query = parse_filters(parsed.query)
        else:
            query = parse_query(parsed.query, endpoint.query)
        return _Admitted(endpoint, parsed.path, name, query, caller.actor)

    def _judge_caller(self) -> Caller:
        door, visit = self._door, self._visit
        if door is not None and visit is not None:
            if visit.method == "POST":
                door.check_origin(visit)
            if self._audience == STRANGERS:
                return Caller()
            self._session = session = door.recognise(visit)
            return Caller(session.actor, session.may_write)
        return self._gate.credentials.judge(
            self._audience,
            self._address,
            self._header_lines(b"x-omnigate-internal"),
            self._header_lines(b"authorization"),
        )

    def _find_address(self) -> str:
        """Tell where the request comes from; over a socket of the file system that is nowhere."""
        forwarded = self._header_lines(b"x-forwarded-for")
        return self._gate.proxies.client(str(getattr(self.client, "host", "")), forwarded)

    def _find_visit(self, method: bytes, target: bytes) -> Visit:
        peer = str(getattr(self.client, "host", ""))
        is_secure = ISSLTransport.providedBy(self.channel.transport) or (
            self._gate.proxies.trusts(peer)
            and self._header_lines(b"x-forwarded-proto") == [b"https"]
        )
        return Visit(
            method.decode("ascii", "replace"),
            target.decode("ascii", "replace"),
            self._address,
            is_secure,
            self._header_lines,
        )

    def _header_lines(self, name: bytes) -> list[bytes]:
        return list(self.requestHeaders.getRawHeaders(name, []))

    def _header(self, name: bytes) -> str:
        return ", ".join(line.decode("utf-8", "replace") for line in self._header_lines(name))

    def _find_request_id(self) -> str:
        """Take the id that the data plane gave, so that one id follows a request, or make one."""
        given = self._header_lines(b"x-omnigate-request-id")
        if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
            return given[0].decode("ascii")
        return secrets.token_hex(16)

    # Doors of twisted.web, each called by the channel.

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        """Get ready for the body; its length was judged, so it may stay in memory."""
        self.content = BytesIO()

    def parseCookies(self) -> None:  # noqa: N802
        """Leave cookies alone: the door reads its own."""

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        """Answer, now that the whole request is there."""
        if self._refusal is not None:
            self.write_answer(self.refusal_answer(self._refusal))
            return
        Deferred.fromCoroutine(self._run()).addErrback(self._unwritten)

    def _unwritten(self, failure: Failure) -> None:
        """Leave a caller that would wait for the rest of an answer until it gives up."""
        _log.failure("an answer could not be written", failure=failure)
        if not self._gone:
            self.channel.give_way()

    def connectionLost(self, reason: Any) -> None:
        """Note that nobody waits for the answer any more."""
        self._gone = True
        if self._stream is not None:
            self.channel.factory.streams.discard(self._stream)
            self._stream.lost()
        super().connectionLost(reason)

    async def _run(self) -> None:
        admitted = self._admitted
        assert admitted is not None
        # Who changes something is one who may, and is not many at once.
        if self._audience not in (INTERNAL, OPEN) and self.method in (b"GET", b"HEAD"):
            await self._gate.turn(admitted.actor or self._address)
            if self._gone:
                return
        self.write_answer(await self._answer())

    async def _answer(self) -> Answer:
        """Run the endpoint; whatever goes wrong in it is answered."""
        admitted = self._admitted
        assert admitted is not None
        assert self.content is not None
        call = Call(
            method=self.method.decode("ascii"),
            path=admitted.path,
            name=admitted.name,
            query=admitted.query,
            body=self.content.getvalue(),
            request_id=self.request_id,
            accept=self._header(b"accept"),
            if_none_match=self._header(b"if-none-match"),
            range=self._header(b"range"),
            if_range=self._header(b"if-range"),
            key_sha256=self._of_client(b"x-omnigate-key-sha256"),
            idempotency_key=self._of_client(b"idempotency-key"),
            actor=admitted.actor,
            address=self._address,
            session=self._session,
            is_secure=self._visit is not None and self._visit.is_secure,
            origin="" if self._visit is None else self._visit.origin,
        )
        try:
            if call.body:
                # The credential may have been taken away while the body was on its way.
                _check_scope(admitted.endpoint, self._judge_caller())
            if self._door is not None:
                await self._door.ready()
                call = self._with_form(call)
            return self._renewed(await admitted.endpoint.run(call))
        except GatewayError as refusal:
            if refusal.detail:
                _log.warn(
                    "{path} refused: {refusal} (request {request_id})",
                    path=admitted.path,
                    refusal=refusal,
                    request_id=self.request_id,
                )
            return self.refusal_answer(refusal)
        except Exception:
            _log.failure(
                "{path} failed (request {request_id})",
                path=admitted.path,
                request_id=self.request_id,
            )
            return self.refusal_answer(
                GatewayError(
                    "internal_error",
                    f"the control plane failed; its log has more under {self.request_id}",
                )
            )

    def _of_client(self, name: bytes) -> str:
        """Return what a data plane tells of its client; nobody else is believed."""
        return self._header(name) if self._audience == INTERNAL else ""

    def _with_form(self, call: Call) -> Call:
        """Return the request of a person with its form, once that is known to be their own."""
        door = self._door
        if call.method != "POST" or door is None:
            return call
        form = read_form(call.body)
        if call.session is not None:
            door.check_form(call.session, form.get("form_token"))
        return attrs.evolve(call, form=form)

    def _renewed(self, answer: Answer) -> Answer:
        """Let a session go on, since its owner is there."""
        door, visit, session = self._door, self._visit, self._session
        if door is None or visit is None or session is None:
            return answer
        if any(name == b"set-cookie" for name, _ in answer.headers):
            return answer
        return attrs.evolve(answer, headers=(*answer.headers, *door.renewal(session, visit)))

    def refusal_answer(self, refusal: GatewayError) -> Answer:
        """Put a refusal into the shape of the audience."""
        if self._door is not None and self._visit is not None:
            try:
                return self._door.refusal(refusal, self._visit, self._session, self.request_id)
            except Exception:
                _log.failure("no page can be made (request {id})", id=self.request_id)
                text = refusal.message.encode()
                return Answer(text, b"text/plain; charset=utf-8", refusal.kind.status)
        if self._audience == INTERNAL:
            body = envelope("openai", refusal, self.request_id)
            content_type = b"application/json"
        else:
            body, content_type = problem(refusal), b"application/problem+json"
        return Answer(body, content_type, refusal.kind.status, refusal.response_headers())

    def write_answer(self, answer: Answer) -> None:
        """Write a whole answer with its length, unless the caller has left."""
        if self._gone:
            return
        self.setResponseCode(answer.status, HTTPStatus(answer.status).phrase.encode("ascii"))
        headers = self.responseHeaders
        headers.setRawHeaders(b"date", [datetimeToString(self._gate.wall())])
        headers.setRawHeaders(b"cache-control", [b"no-store"])
        headers.setRawHeaders(b"x-content-type-options", [b"nosniff"])
        headers.setRawHeaders(b"x-omnigate-request-id", [self.request_id.encode("ascii")])
        if answer.stream is not None:
            headers.setRawHeaders(b"content-type", [answer.content_type])
        elif answer.status != 304:
            headers.setRawHeaders(b"content-type", [answer.content_type])
            headers.setRawHeaders(b"content-length", [b"%d" % len(answer.body)])
        for name, value in answer.headers:
            headers.setRawHeaders(name, [value])
        if not self.channel.persistent:
            headers.setRawHeaders(b"connection", [b"close"])
        self.write(answer.body)
        if self.channel.is_stuck:
            self.channel.factory.untaken(self.channel, len(answer.body))
        if answer.stream is None or self.method == b"HEAD":
            self.finish()
            return
        length = headers.getRawHeaders(b"content-length")
        self._stream = stream = ByteStream(
            self, self._may_go_on, None if length is None else int(length[0])
        )
        self.registerProducer(stream, True)
        if self.channel.is_stuck:
            # The transport has said so before, of the answers in front, and says it once.
            stream.pauseProducing()
        self.channel.factory.streams.add(stream)
        try:
            answer.stream(stream)
        except Exception:
            _log.failure("a stream failed (request {id})", id=self.request_id)
            stream.end()

    def finish(self) -> None:
        """End the answer."""
        if self._stream is not None:
            self.channel.factory.streams.discard(self._stream)
        super().finish()

    def break_off(self) -> None:
        """Close the connection, so that nobody takes what was written for a whole answer."""
        if not self._gone:
            self.channel.give_way()

    def _may_go_on(self) -> bool:
        """Tell whether the session that a stream began with is still one."""
        door, visit = self._door, self._visit
        if door is None or visit is None or self._session is None:
            return True
        try:
            session = door.recognise(visit)
        except GatewayError:
            return False
        return session.actor == self._session.actor


def _check_scope(endpoint: Endpoint, caller: Caller) -> None:
    if endpoint.scope == WRITE and not caller.may_write:
        raise GatewayError(
            "insufficient_scope",
            "this admin key may look only; use one with the scope full, or the admin token",
        )
