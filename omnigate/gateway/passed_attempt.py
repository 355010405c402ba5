"""An attempt at a target whose upstream speaks the client's protocol: bytes pass as they are."""

from __future__ import annotations

from omnigate.dialects.answer import begins_object, wrap_error
from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.dialects.strike import strike
from omnigate.events import NO_TOKENS
from omnigate.gateway import repeats
from omnigate.gateway.attempt import Attempt, is_stream
from omnigate.gateway.attempts import Verdict
from omnigate.gateway.headers import answer_lines
from omnigate.gateway.long_passage import LongPassage
from omnigate.gateway.outgoing import asks_for_usage, outgoing_request
from omnigate.wire.head import ResponseHead


class PassedAttempt(Attempt):
    """See the module's docstring."""

    __slots__ = ()

    def _request(self) -> bytes:
        """The whole request, head and body."""
        exchange = self._exchange
        scan, endpoint = exchange.scan, exchange.endpoint
        assert scan is not None and endpoint is not None
        return outgoing_request(
            self.target, endpoint, exchange.head, exchange.target.query, exchange.body, scan
        )

    def open_meter(self, head: ResponseHead) -> None:
        """Make the meter for an answer, and the passage where it is an event stream."""
        endpoint, scan = self._exchange.endpoint, self._exchange.scan
        assert endpoint is not None and scan is not None
        streamed = is_stream(head)
        meter = self.meter = Meter(endpoint.kind, streamed)
        if not streamed:
            return
        self.passage = StreamPassage(
            endpoint.kind,
            meter,
            asks_for_usage(endpoint, scan),
            self.target.upstream.secret,
            self._plane.held,
        )

    def _answer(self, head: ResponseHead, body: bytes) -> None:
        """Send a whole answer, if it is one."""
        exchange, meter, status = self._exchange, self.meter, head.status
        assert meter is not None
        if status < 300:
            verdict = meter.whole(body)
            if verdict != "ok":
                self._failed(verdict, status)
                return
            counts, estimated = meter.settle(exchange.body)
        else:
            if status >= 400:
                body = wrap_error(exchange.protocol, status, body, exchange.id)
            counts, estimated = NO_TOKENS, False
        secret = self.target.upstream.secret
        body = strike(body, secret)
        lines = self._lines(head, status >= 400)
        self._plane.troubles.succeeded(self.target)
        self.record("ok", status)
        response = exchange.response
        response.bytes_out = len(body)
        self._walker.settle(status, counts, estimated, self.target)
        if exchange.keep_as is not None:
            repeats.keep(exchange, head, body, secret)
        response.whole(status, lines, body)

    def short_overflow(self, begun: bytes) -> None:
        """The answer is longer than what is kept: from here on it is relayed."""
        connection, head = self.connection, self.head
        assert connection is not None and head is not None
        if self._verdict is not Verdict.ANSWER:
            connection.drop()
            self.short_whole(b"")
            return
        if head.status < 300 and not begins_object(begun):
            connection.drop()
            self._failed("not_json", head.status)
            return
        self.short = None
        assert self.meter is not None
        passage = LongPassage(self.meter, self.target.upstream.secret)
        self._relay_on(connection, passage).answer_data(begun)

    def relay_head(self) -> tuple[int, bytes]:
        """The head goes out with the first byte of the body."""
        head = self.head
        assert head is not None
        return head.status, self._lines(head, False)

    def _lines(self, head: ResponseHead, is_error: bool) -> bytes:
        return answer_lines(
            head,
            self._exchange.id_bytes,
            self._own_lines(head),
            self.target.upstream.secret,
            as_json=is_error,
        )
