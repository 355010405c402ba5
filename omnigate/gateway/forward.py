"""One request of the jobs API on its way to the control plane, and the answer on its way back.

A request that creates a job is sent once, on a fresh connection: nobody could tell whether one that
got lost was read, and a job may cost money. Its answer is waited for even when the client has left.
An answer of at most 64 KiB is sent whole; a longer one as it comes, with the length that the
control plane declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.errors import CLIENT_GONE, ERRORS, UPSTREAM_CUT, GatewayError
from omnigate.gateway import settle
from omnigate.gateway.headers import id_lines, unrelayable
from omnigate.gateway.job_paths import JobPath, answer_lines
from omnigate.gateway.plain_relay import SizedRelay, Unchanged
from omnigate.protocols.relay import Relay, ShortAnswer
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import NEVER
from omnigate.text import QUOTED_CHARS
from omnigate.wire.head import ResponseHead

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.forwards import Forwards

#: Until the head of an answer: a job is written to the disk behind whatever waits before it.
HEAD_SECONDS: Final = 30.0

#: Silence in the middle of an answer that comes from a disk near by.
IDLE_SECONDS: Final = 30.0


class _Told(msgspec.Struct):
    """The code of an error envelope."""

    class Error(msgspec.Struct):
        """What stands in it."""

        code: str

    error: Error


_told = msgspec.json.Decoder(_Told)

#: How the control plane refuses a data plane that has not the right token. That is no client's
#: business, and clients would take it for their own key's.
_REFUSED_US: Final = frozenset(("invalid_token", "too_many_attempts"))

#: With which code the control plane refuses to be read, by the status: of an answer to HEAD nothing
#: else is known.
_CODES: Final = {
    400: "invalid_request",
    403: "invalid_signature",
    404: "not_found",
    416: "invalid_request",
    429: "rate_limit_exceeded",
}


class Forward:
    """See the module's docstring; its exchange has the place that it takes."""

    __slots__ = (
        "_client_left",
        "_connection",
        "_ended",
        "_exchange",
        "_forwards",
        "_fresh",
        "_head",
        "_job",
        "_lines",
        "_opening",
        "_relay",
        "_sent",
        "_short",
        "deadline",
    )

    log = Logger()

    def __init__(self, exchange: Exchange, forwards: Forwards, job: JobPath, lines: bytes) -> None:
        self._exchange = exchange
        self._forwards = forwards
        self._job = job
        self._lines = lines
        self._opening: Deferred[UpstreamConnection] | None = None
        self._connection: UpstreamConnection | None = None
        self._head: ResponseHead | None = None
        self._short: ShortAnswer | None = None
        self._relay: Relay | None = None
        self._fresh = False
        self._sent = False
        self._client_left = False
        self._ended = False
        self.deadline = NEVER

    @property
    def _is_post(self) -> bool:
        return self._exchange.head.method == b"POST"

    # -- the exchange's side

    def body_piece(self, data: bytes, last: bool) -> None:
        """Take in a piece of the body; when it is complete, ask the control plane.

        What is sent to a path that takes nothing is thrown away: an SDK sends ``{}`` there.

        :raises omnigate.wire.json_body.ScanError: the body cannot be passed on.
        """
        exchange = self._exchange
        if self._job.creates and exchange.head.method == b"POST":
            if not exchange.take_in(data, last):
                return
            assert exchange.scan is not None
            exchange.route_model = exchange.scan.model[:QUOTED_CHARS]
        elif not last:
            return
        self._ask()

    def client_lost(self) -> None:
        """The client is gone; whether a job was made is still to be learnt."""
        if self._is_post and self._sent and not self._exchange.response.started:
            self._client_left = True
            return
        self._drop()
        settle.refusal(self._exchange, CLIENT_GONE, 499)
        self._ended = True

    def crashed(self, failure: Failure | None = None) -> None:
        """Something of ours broke: let go of everything, and have the exchange say so."""
        self._drop()
        self._ended = True
        if failure is None:
            settle.refusal(self._exchange, "internal_error", 500)
        else:
            self._exchange.crashed(failure)

    # -- the request

    def _ask(self) -> None:
        client = self._forwards.client
        connection = None if self._is_post or self._fresh else client.take()
        if connection is not None:
            self._send(connection)
            return
        self._fresh = True
        opening = self._opening = client.open()
        opening.addCallbacks(self._opened, self._not_opened)
        opening.addErrback(self.crashed)

    def _opened(self, connection: UpstreamConnection) -> None:
        self._opening = None
        if self._ended:
            connection.drop()
        else:
            self._send(connection)

    def _not_opened(self, failure: Failure) -> None:
        self._opening = None
        if not self._ended:
            self.log.warn("no connection to the control plane: {why}", why=failure.value)
            self._refuse(unavailable())

    def _send(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        exchange = self._exchange
        target = b"/internal" + exchange.target.path.encode("ascii")
        if exchange.target.query:
            target += b"?" + exchange.target.query
        method = b"POST" if self._is_post else b"GET"
        watchdog = exchange.plane.watchdog
        self.deadline = watchdog.after(HEAD_SECONDS)
        watchdog.add(self)
        self._sent = True
        connection.send(
            self._forwards.client.written(method, target, self._lines, exchange.body), self
        )

    # -- the answer

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Judge it; to a client that asked for the head alone that is the answer."""
        if unrelayable(head) or head.framing == "close":
            connection.drop()
            self._lost("it cannot be told where its answer ends")
            return
        self._head = head
        plane = self._exchange.plane
        self.deadline = plane.watchdog.after(IDLE_SECONDS)
        response = self._exchange.response
        if response.head_only:
            self._drop()
            if response.ended:
                return
            if head.status == 401:
                # Of a key that may not, or of us; what it says of it is not read.
                self._lost("it answered 401")
                return
            lines = answer_lines(head, id_lines(self._exchange.id_bytes))
            size = head.content_length if head.framing == "length" else None
            self._settle(head.status, b"")
            response.head_alone(head.status, lines, size)

    def answer_data(self, data: bytes) -> None:
        """The first piece of the body: it may be short."""
        connection = self._connection
        assert connection is not None
        plane = self._exchange.plane
        short = self._short = ShortAnswer(self, plane.watchdog, plane.held)
        connection.hand_over(short)
        short.answer_data(data)

    def answer_end(self) -> None:
        """The body is empty."""
        self.short_whole(b"")

    def short_whole(self, body: bytes) -> None:
        """All of it is here."""
        self._unwatch()
        self._connection = None
        head, exchange = self._head, self._exchange
        assert head is not None
        if head.status in (401, 429) and _code_in(body) in _REFUSED_US:
            self._lost(f"it refuses this data plane ({head.status}); the tokens must be the same")
            return
        response = exchange.response
        if not response.ended:
            response.bytes_out = len(body)
        lines = answer_lines(head, id_lines(exchange.id_bytes))
        self._settle(head.status, body)
        if response.ended:
            return
        if head.status == 304:
            # The length would be that of what the client has (RFC 9110 §8.6).
            response.head_alone(304, lines, None)
        else:
            response.whole(head.status, lines, body)

    def short_overflow(self, begun: bytes) -> None:
        """It is longer than what is kept: from here on it is relayed."""
        connection, head, exchange = self._connection, self._head, self._exchange
        assert connection is not None and head is not None
        if self._client_left:
            self._drop()
            self._settle(head.status, b"")
            return
        self._unwatch()
        self._short = None
        plane = exchange.plane
        sized = head.framing == "length"
        relay = self._relay = (SizedRelay if sized else Relay)(
            self,
            exchange.response,
            connection,
            Unchanged(),
            plane.watchdog,
            idle_seconds=IDLE_SECONDS,
            stall_seconds=plane.stall_timeout_seconds,
        )
        if isinstance(relay, SizedRelay):
            relay.sized(head.content_length)
        connection.hand_over(relay)
        relay.answer_data(begun)

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """It broke off, and nothing of it was sent."""
        self._unwatch()
        self._connection = None
        if loss is Loss.STALE and not self._is_post and not self._fresh:
            # Reading twice is harmless.
            self._fresh = True
            self._ask()
            return
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        self._unwatch()
        self._connection = None
        self.log.warn("the control plane gave no answer of use: {reason}", reason=reason)
        self._refuse(unavailable())

    def deadline_passed(self, now: float) -> None:
        """It did not come in time."""
        try:
            short = self._short
            if short is not None and short.last + IDLE_SECONDS > now:
                self.deadline = short.last + IDLE_SECONDS
                return
            self._drop()
            self._lost(f"nothing came for {HEAD_SECONDS:g} s")
        except Exception:
            self.crashed(Failure())

    # -- the relay's side

    def relay_head(self) -> tuple[int, bytes]:
        """Status and header lines."""
        head = self._head
        assert head is not None
        return head.status, answer_lines(head, id_lines(self._exchange.id_bytes))

    def relay_failed(self, outcome: str, reason: str) -> None:
        """Nothing has been sent and nothing will come."""
        self._relay = None
        self._lost(reason)

    def relay_complete(self) -> None:
        """The body is whole."""
        head, response = self._head, self._exchange.response
        assert head is not None
        self._relay = self._connection = None
        self._settle(head.status, b"")
        response.end()

    def relay_cut(self, outcome: str, reason: str) -> None:
        """The control plane broke off: the client sees it break."""
        self.log.warn("the control plane broke an answer off: {reason}", reason=reason)
        self._break(UPSTREAM_CUT)

    def relay_stalled(self) -> None:
        """The client takes nothing."""
        self._break(CLIENT_GONE)

    def _break(self, code: str) -> None:
        response = self._exchange.response
        self._drop()
        settle.refusal(self._exchange, code, 499)
        self._ended = True
        response.abort()

    # -- ends

    def _settle(self, status: int, body: bytes) -> None:
        """Account for an answer: a refusal of the control plane's is counted as one."""
        exchange = self._exchange
        if status < 400:
            settle.read(exchange, status, self._job.kind)
        else:
            code = _code_in(body)
            if code not in ERRORS:
                code = _CODES.get(status, "control_plane_unavailable")
            settle.refusal(exchange, code, status)
        self._ended = True

    def _refuse(self, error: GatewayError) -> None:
        self._ended = True
        if not self._exchange.settled:
            self._exchange.refuse(error)

    def _drop(self) -> None:
        self._unwatch()
        if self._relay is not None:
            self._relay.detach()
            self._relay = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        opening, self._opening = self._opening, None
        if opening is not None:
            self._ended = True
            opening.cancel()

    def _unwatch(self) -> None:
        self.deadline = NEVER
        self._exchange.plane.watchdog.discard(self)


def _code_in(body: bytes) -> str:
    """The code in a refusal; empty where its body was not read, or is not in our shape."""
    try:
        return _told.decode(body).error.code
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""


def unavailable() -> GatewayError:
    """What a client is told while the control plane does not answer."""
    return GatewayError(
        "control_plane_unavailable",
        "the control plane, which keeps jobs and their files, does not answer; try again later",
    )
