"""Has one planned request answered: waits for its turn, finds the address, connects, asks."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as WaitTimeoutError
from twisted.internet.interfaces import IProtocol

from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.body_sender import PIECE_BYTES, MemoryPieces, Pieces
from omnigate.outbound.connection import Connection
from omnigate.outbound.connections import Connections
from omnigate.outbound.exchange import Exchange, Limits
from omnigate.outbound.messages import (
    CONNECT_ERROR,
    CONNECTION_LOST,
    NO_TURN,
    REFUSED,
    TRUNCATED,
    Answer,
    Request,
    Sink,
)
from omnigate.outbound.pace import Pace
from omnigate.outbound.turns import TooManyWaitingError, Turns
from omnigate.outbound.urls import Url
from omnigate.protocols.addresses import UpstreamAddress
from omnigate.protocols.connector import UpstreamConnectError, connect

#: Seconds that a request waits for its turn, since whoever waits longer had better know.
WAIT_SECONDS: Final = 60.0
#: Seconds for one look-up of a name.
LOOKUP_SECONDS: Final = 5.0
#: Seconds until a connection is up, with its handshake, over all the addresses that are tried.
CONNECT_SECONDS: Final = 10.0
#: Addresses of one name that are tried, one after the other.
MAX_TRIED: Final = 4

ADDRESS_REFUSED: Final = "address not allowed"

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
# What is said of each request here, whatever it says itself.
_OURS = frozenset(
    ("accept-encoding", "connection", "content-length", "host", "te", "transfer-encoding")
)
_DEFAULTS = (("user-agent", "omnigate"), ("accept", "*/*"))
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
_METHOD = re.compile(r"[A-Z]{1,16}").fullmatch

Resolve: TypeAlias = Callable[[str], Deferred[list[str]]]
Connect: TypeAlias = Callable[
    [UpstreamAddress, Callable[[], IProtocol], float], Deferred[IProtocol]
]
#: An answer, and all lines of its head.
Heard: TypeAlias = tuple[Answer, Sequence[tuple[str, str]]]


class _NoConnection(Exception):  # noqa: N818
    """It came to nothing before a byte of the request was sent."""

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


@attrs.frozen
class Plan:
    """One request to one server, and how it is to be sent.

    :ivar resolve: looks its host up.
    :ivar guarded: whether the addresses are judged.
    :ivar reuse: whether an idle connection may be used, and this one kept.
    :ivar body: makes what is sent as the body, where that is not the request's own.
    :ivar size: the length of that.
    """

    request: Request
    url: Url
    limits: Limits
    resolve: Resolve
    sink: Sink | None = None
    guarded: bool = False
    reuse: bool = False
    body: Callable[[], Pieces] | None = None
    size: int = 0


class Dispatch:
    """Sends what is planned, within the bounds that hold for all of it.

    :param reactor: has the time and the connections.
    :param connect: opens a connection to ``number`` of an address.
    :param ca_file: a PEM file with authorities to trust in place of the platform's.
    """

    def __init__(
        self,
        reactor: Any,
        guard: AddressGuard,
        connect: Connect | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._reactor = reactor
        self._guard = guard
        self._connect = connect or self._connect_by_number
        self._ca_file = ca_file
        self._pace = Pace(reactor)
        self._turns = Turns(lambda call: reactor.callLater(0, call))
        self.connections = Connections(reactor)

    async def send(self, plan: Plan) -> Heard:
        """Wait for a turn, and have the request answered in it."""
        server = plan.url.origin
        turn = self._turns.take(server).addTimeout(WAIT_SECONDS, self._reactor)
        try:
            await turn
        except TooManyWaitingError as error:
            return Answer(0, fault=NO_TURN, detail=str(error)), ()
        except WaitTimeoutError:
            detail = f"no connection was free within {WAIT_SECONDS:g} s"
            return Answer(0, fault=NO_TURN, detail=detail), ()
        try:
            plan.limits.deadline.begin()
            return await self._exchange(plan)
        finally:
            self._turns.give_back(server)

    async def _exchange(self, plan: Plan) -> Heard:
        """Use an idle connection where that is safe, or a new one."""
        try:
            # Not before, so that a thousand requests at once are not all written in one go.
            head = _written(plan)
        except ValueError as error:
            return Answer(0, fault=REFUSED, detail=str(error)), ()
        if plan.reuse and plan.request.method == "GET":
            idle = self.connections.take(plan.url.origin)
            if idle is not None:
                heard = await self._ask(plan, head, idle)
                if heard[0].fault != CONNECTION_LOST or idle.heard:
                    return heard
        try:
            connection = await self._open(plan)
        except _NoConnection as error:
            return Answer(0, fault=error.fault, detail=error.detail), ()
        return await self._ask(plan, head, connection)

    async def _ask(self, plan: Plan, head: bytes, connection: Connection) -> Heard:
        exchange = Exchange(self._reactor, plan.limits, plan.sink)
        request = plan.request
        body: tuple[Pieces, int] | None = None
        if plan.body is not None:
            # Of nothing at all nothing is read, and nothing is waited for.
            body = (plan.body(), plan.size) if plan.size else None
        elif len(request.body) > PIECE_BYTES:
            body = MemoryPieces(request.body), len(request.body)
        else:
            head += request.body
        exchange.begin(connection, head, request.method, body, keep=plan.reuse)
        answer = await exchange.answer
        if plan.body is not None and answer.ok and not exchange.sent:
            # What was said to be kept is not the file.
            detail = "it was answered before all of the file was sent"
            answer = attrs.evolve(answer, fault=TRUNCATED, detail=detail)
        return answer, exchange.headers

    async def _open(self, plan: Plan) -> Connection:
        """Connect to one of the addresses, all of which were judged.

        :raises _NoConnection: it came to nothing.
        """
        url = plan.url
        numbers = [url.host] if url.packed else await self._looked_up(plan)
        if plan.guarded and not all(map(self._is_allowed, numbers)):
            raise _NoConnection(REFUSED, ADDRESS_REFUSED)
        numbers = numbers[:MAX_TRIED]
        left = min(CONNECT_SECONDS, plan.limits.deadline.left)
        until = self._reactor.seconds() + left
        failed = ""
        for at, number in enumerate(numbers):
            # Each has its part of the time; what one leaves, the next ones have.
            part = (until - self._reactor.seconds()) / (len(numbers) - at)
            address = UpstreamAddress(
                url.scheme, url.host, url.port, ca_file=self._ca_file, number=number
            )
            try:
                protocol = await self._connect(
                    address, lambda: Connection(self.connections, url.origin), max(part, 0.001)
                )
            except UpstreamConnectError as error:
                failed = str(error)
                continue
            assert isinstance(protocol, Connection)
            return protocol
        raise _NoConnection(CONNECT_ERROR, failed)

    async def _looked_up(self, plan: Plan) -> list[str]:
        """Look the name up, once."""
        seconds = min(LOOKUP_SECONDS, plan.limits.deadline.left)
        lookup = plan.resolve(plan.url.host).addTimeout(seconds, self._reactor)
        try:
            numbers = await lookup
        except WaitTimeoutError:
            raise _NoConnection(
                CONNECT_ERROR, f"the host name was not looked up within {seconds:g} s"
            ) from None
        if not numbers:
            raise _NoConnection(CONNECT_ERROR, "the host name has no address")
        return list(numbers)

    def _is_allowed(self, number: str) -> bool:
        family = socket.AF_INET6 if ":" in number else socket.AF_INET
        try:
            return self._guard.allowed(socket.inet_pton(family, number))
        except OSError:
            # One with a zone, which is of one link alone.
            return False

    def _connect_by_number(
        self, address: UpstreamAddress, make: Callable[[], IProtocol], seconds: float
    ) -> Deferred[IProtocol]:
        return connect(self._reactor, address, make, seconds, self._pace)


def _written(plan: Plan) -> bytes:
    """Write the head of a request.

    :raises ValueError: for a method or a header that cannot be sent.
    """
    request = plan.request
    if _METHOD(request.method) is None:
        raise ValueError("the method of the request is no plain word")
    lines = [f"{request.method} {plan.url.target} HTTP/1.1", f"host: {plan.url.authority}"]
    given = set()
    for name, value in request.headers:
        name = name.lower()
        if _HEADER_NAME(name) is None or _HEADER_VALUE(value) is None:
            # The value may be a credential, so it is not told.
            raise ValueError(f"the header {name!a} holds characters that cannot be sent")
        if name not in _OURS:
            given.add(name)
            lines.append(f"{name}: {value}")
    lines += [f"{name}: {value}" for name, value in _DEFAULTS if name not in given]
    lines.append("accept-encoding: identity")
    size = plan.size if plan.body is not None else len(request.body)
    if size or request.method in _WITH_BODY:
        lines.append(f"content-length: {size}")
    if not plan.reuse:
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
