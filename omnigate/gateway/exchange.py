"""One request from head to settled: the order of the steps and nothing else.

Each step refuses with a :class:`~omnigate.errors.GatewayError`; what refuses is counted once,
what reaches an upstream becomes one usage event, whatever breaks
(:meth:`Exchange.settle_usage` and :meth:`Exchange.settle_refusal` are the only two ends, and
the first one wins).
"""

from __future__ import annotations

from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING

from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.dialects.endpoints import ENDPOINTS, Endpoint, protocol_at
from omnigate.dialects.strike import strike
from omnigate.errors import CLIENT_GONE, MAX_OWN_RETRY_AFTER, GatewayError, envelope
from omnigate.events import AttemptRecord, TokenCounts, UsageEvent
from omnigate.gateway import reads
from omnigate.gateway.access_log import AccessLine, level_of, time_text
from omnigate.gateway.admission import Ticket
from omnigate.gateway.cache import CachedAnswer, canonical_bytes, request_digest
from omnigate.gateway.forwarding import Forwarding
from omnigate.gateway.headers import PASSED_ON, id_lines
from omnigate.gateway.tables import Key, Route, Tables
from omnigate.gateway.tally import NONE, OTHER
from omnigate.protocols.response import Response
from omnigate.text import one_line
from omnigate.wire.head import RequestHead, ResponseHead
from omnigate.wire.json_body import BodyScan, ScanError
from omnigate.wire.json_scan import ONE_SHOT_BYTES, BodyScanner, scan_body
from omnigate.wire.target import Target

if TYPE_CHECKING:
    from omnigate.gateway.plane import DataPlane

#: Characters of a client's text that a message or a log line repeats.
_QUOTED_CHARS = 100

#: What every 401 says of how to do it right (RFC 9110 §11.6.1).
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="omnigate"'),)

_NOTHING = TokenCounts()


class Exchange:
    """See the module's docstring.

    :ivar id: the request id, 32 hexadecimal digits.
    :ivar body: the complete body, once it is.
    """

    __slots__ = (
        "_arriving",
        "_cache_digest",
        "_cache_until",
        "_entered_at",
        "_forwarding",
        "_peer",
        "_scanner",
        "_settled",
        "_ticket",
        "body",
        "endpoint",
        "head",
        "id",
        "id_bytes",
        "key",
        "plane",
        "response",
        "route_model",
        "scan",
        "tables",
        "target",
    )

    log = Logger()

    def __init__(
        self, plane: DataPlane, head: RequestHead, target: Target, response: Response, peer: str
    ) -> None:
        self.plane = plane
        self.head = head
        self.target = target
        self.response = response
        self._peer = peer
        self.id = plane.new_id()
        self.id_bytes = self.id.encode("ascii")
        self._entered_at = plane.clock.seconds()
        self.endpoint: Endpoint | None = None
        self.tables: Tables | None = plane.tables
        self.key: Key | None = None
        self.body = b""
        self.scan: BodyScan | None = None
        self.route_model = ""
        self._ticket: Ticket | None = None
        self._scanner: BodyScanner | None = None
        self._arriving: bytearray | None = None
        self._forwarding: Forwarding | None = None
        self._settled = False
        self._cache_digest: bytes | None = None
        self._cache_until = 0.0

    # -- the client's connection calls these

    def begin(self) -> bool:
        """Judge the head: endpoint, key, budget, size, place, rate."""
        try:
            endpoint = ENDPOINTS.get(self.target.path)
            if endpoint is None or self.head.method != b"POST":
                reads.answer(self)
                return False
            self.endpoint = endpoint
            self._admit(endpoint)
        except GatewayError as error:
            self.refuse(error)
            return False
        return True

    def body_piece(self, data: bytes, last: bool) -> None:
        """Take in the body; when it is complete, find the route and go."""
        try:
            arriving = self._arriving
            if last and arriving is None:
                self.body = data
                self.scan = scan_body(data)
            else:
                if arriving is None:
                    # One array and no list of pieces: a client that sends two bytes at a time
                    # would make us hold twenty times what it sends.
                    arriving = self._arriving = bytearray()
                arriving += data
                if self._scanner is None and self.head.content_length > ONE_SHOT_BYTES:
                    self._scanner = BodyScanner(self.head.content_length)
                if self._scanner is not None:
                    self._scanner.feed(data)
                    if self._scanner.fault is not None:
                        # Nothing that follows can mend it: the rest need not be sent.
                        raise self._scanner.fault.again()
                if not last:
                    return
                self.body = bytes(arriving)
                self._arriving = None
                scanner, self._scanner = self._scanner, None
                self.scan = scanner.finish(self.body) if scanner else scan_body(self.body)
            self._forward()
        except ScanError as error:
            self.refuse(GatewayError(error.code, error.message, param=error.param))
        except GatewayError as error:
            self.refuse(error)

    def client_lost(self) -> None:
        """The client is gone."""
        if self._settled:
            return
        if self._forwarding is not None:
            self._forwarding.client_lost()
        else:
            self.settle_refusal(CLIENT_GONE, 499)

    def crashed(self, failure: Failure) -> None:
        """A fault of ours: answer 500 where nothing was sent, close this connection alone."""
        self.log.failure(
            "request {request_id} failed inside the gateway", failure, request_id=self.id
        )
        response = self.response
        error = GatewayError("internal_error", "the gateway failed at this request; try it again")
        body = b"" if response.started else self.error_body(error)
        forwarding = self._forwarding
        if forwarding is not None:
            forwarding.crashed()
        else:
            self.settle_refusal("internal_error", 500)
        if response.started:
            response.abort()
        elif not response.ended:
            response.keep_alive = False
            self.answer_error(error, body)

    @property
    def protocol(self) -> str:
        """In whose shape errors and lists are told: ``openai`` or ``anthropic``."""
        return protocol_at(self.target.path, versioned=b"anthropic-version" in self.head.headers)

    # -- steps

    def _admit(self, endpoint: Endpoint) -> None:
        plane = self.plane
        key = self.authenticate()
        if key.blocked:
            raise GatewayError(
                "budget_exceeded",
                "this key has used up its budget for the period; ask the operator to raise it",
            )
        length = self.head.content_length
        too_large = length > plane.max_body_bytes
        # What is too large is never read and takes no memory; were it counted, its client would be
        # told to come back with it.
        self._ticket = plane.admission.enter(
            key.use, key.max_concurrent, 0 if too_large else length
        )
        bucket = key.bucket
        if bucket is not None and endpoint.metered:
            wait = bucket.take(plane.clock.seconds())
            if wait > 0.0:
                raise GatewayError(
                    "rate_limit_exceeded",
                    f"this key may send {key.rpm} requests a minute; wait and try again",
                    retry_after=min(ceil(wait), MAX_OWN_RETRY_AFTER),
                )
        if too_large:
            raise GatewayError(
                "request_too_large",
                f"the body has {length} bytes and the limit is {plane.max_body_bytes}",
            )

    def authenticate(self) -> Key:
        """The key of the request.

        Both credentials may be there with different values: the one that is a known key is
        taken, ``authorization`` first.
        """
        tables = self.tables
        if tables is None:
            raise GatewayError(
                "gateway_not_ready",
                "the gateway has no configuration yet; try again in a moment",
                retry_after=1,
            )
        headers = self.head.headers
        bearer = headers.get(b"authorization")
        if bearer is not None and bearer[:7].lower() == b"bearer ":
            key = tables.keys.get(sha256(bearer[7:].strip()).digest())
            if key is not None:
                self.key = key
                return key
        plain = headers.get(b"x-api-key")
        if plain is not None:
            key = tables.keys.get(sha256(plain).digest())
            if key is not None:
                self.key = key
                return key
        if bearer is None and plain is None:
            raise GatewayError(
                "invalid_api_key",
                "no key was sent; send a gateway key as 'Authorization: Bearer KEY' or 'x-api-key'",
                headers=_CHALLENGE,
            )
        raise GatewayError(
            "invalid_api_key",
            "this key is not known here; check it with the operator",
            headers=_CHALLENGE,
        )

    def _forward(self) -> None:
        scan, key, tables, endpoint = self.scan, self.key, self.tables, self.endpoint
        assert scan is not None and key is not None
        assert tables is not None and endpoint is not None
        model = scan.model
        # Of a model that is none the log shows the beginning: its length is the client's choice.
        self.route_model = model[:_QUOTED_CHARS]
        if not key.allows(model):
            raise GatewayError(
                "model_not_allowed",
                f"this key may not use the model {one_line(model, _QUOTED_CHARS)!r}; "
                "GET /v1/models lists those it may",
                param="model",
            )
        route = tables.routes.get(model)
        if route is None:
            raise GatewayError(
                "model_not_found",
                f"no model {one_line(model, _QUOTED_CHARS)!r} here; GET /v1/models lists them",
                param="model",
            )
        self.route_model = model
        targets = route.by_protocol[endpoint.protocol]
        if not targets:
            raise GatewayError(
                "endpoint_not_supported",
                f"no target of the model {one_line(model, _QUOTED_CHARS)!r} serves {endpoint.path}",
                param="model",
            )
        if route.cache_ttl_s and self._answer_from_cache(route, key, scan, endpoint):
            return
        turn = route.turn
        route.turn = turn + 1
        forwarding = self._forwarding = Forwarding(
            self, self.plane, self.plane.ordered(route.strategy, targets, turn)
        )
        forwarding.start()

    # -- the response cache

    def _answer_from_cache(
        self, route: Route, key: Key, scan: BodyScan, endpoint: Endpoint
    ) -> bool:
        """Answer from the cache, if the same was asked before; else see that it can be next time.

        The client decides with ``cache-control``: ``no-cache`` wants a fresh answer, and
        ``no-store`` wants its own not kept (RFC 9111 §5.2.1).
        """
        if scan.stream or not endpoint.metered:
            return False
        headers = self.head.headers
        wishes = headers.get(b"cache-control", b"").lower()
        if b"no-store" in wishes:
            return False
        digest = self._digest(route, key, scan, endpoint)
        if digest is None:
            return False
        now = self.plane.clock.seconds()
        answer = None if b"no-cache" in wishes else self.plane.cache.find(digest, now)
        if answer is None:
            self._cache_digest = digest
            self._cache_until = now + route.cache_ttl_s
            return False
        self.will_send(answer.body)
        self.settle_usage(
            200,
            _NOTHING,
            estimated=False,
            upstream=None,
            model=None,
            attempts=[],
            started_at=now,
            cached=True,
        )
        self.response.whole(
            200,
            b"content-type: %b\r\n%bx-omnigate-cache: hit\r\n"
            % (answer.content_type, id_lines(self.id_bytes)),
            answer.body,
        )
        return True

    def _digest(self, route: Route, key: Key, scan: BodyScan, endpoint: Endpoint) -> bytes | None:
        """What this request is found by; ``None`` where it is served and not cached."""
        size = canonical_bytes(self.body, scan.counts)
        if size is None:
            return None
        try:
            room = self.plane.parse_memory.reserve(key.use, size)
        except GatewayError:
            return None
        try:
            beside = [self.head.headers.get(name, b"") for name in PASSED_ON]
            return request_digest(
                self.body,
                key.sha256,
                route.model,
                endpoint.path,
                *(text.decode("latin-1") for text in (self.target.query, *beside)),
            )
        finally:
            room.release()

    def keep_answer(self, head: ResponseHead, body: bytes, secret: bytes) -> None:
        """Keep a whole answer, if its route has a cache and it was a success.

        :param body: as the client is sent it.
        :param secret: the upstream's credential, which its head may hold.
        """
        digest = self._cache_digest
        if digest is not None and head.status == 200:
            content_type = strike(head.headers.get(b"content-type") or b"application/json", secret)
            self.plane.cache.keep(digest, CachedAnswer(content_type, body, self._cache_until))

    # -- answers of our own

    def refuse(self, error: GatewayError) -> None:
        """Count a refusal and tell it."""
        body = self.error_body(error)
        self.settle_refusal(error.kind.code, error.kind.status)
        self.answer_error(error, body)

    def error_body(self, error: GatewayError) -> bytes:
        """An error in the shape of the client's protocol, about to be sent."""
        body = envelope(self.protocol, error, self.id)
        self.will_send(body)
        return body

    def answer_error(self, error: GatewayError, body: bytes) -> None:
        """Write an error whose body was made before; counts nothing."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in error.response_headers())
        self.answer(error.kind.status, body, lines)

    def will_send(self, body: bytes) -> None:
        """Note the length of a whole answer for the log line, which is written before it."""
        response = self.response
        if not response.ended:
            response.bytes_out = 0 if response.head_only else len(body)

    def answer(self, status: int, body: bytes, lines: bytes = b"") -> None:
        """Write a JSON answer of our own, with the request id."""
        if not self.response.ended:
            self.response.whole(
                status,
                b"content-type: application/json\r\n%b%b" % (id_lines(self.id_bytes), lines),
                body,
            )

    # -- the two ends

    @property
    def settled(self) -> bool:
        """Whether the exchange has been accounted for."""
        return self._settled

    def settle_usage(
        self,
        status: int,
        counts: TokenCounts,
        *,
        estimated: bool,
        upstream: str | None,
        model: str | None,
        attempts: list[AttemptRecord],
        started_at: float,
        first_at: float | None = None,
        error_code: str = "",
        cached: bool = False,
    ) -> None:
        """End with a usage event; the first of the two ends wins."""
        if self._settled:
            return
        self._settled = True
        # The two know each other; parted here they are freed at once and not by the collector.
        self._forwarding = None
        now = self.plane.clock.seconds()
        scan, key, endpoint = self.scan, self.key, self.endpoint
        assert scan is not None and key is not None and endpoint is not None
        self._release()
        first_seconds = None if first_at is None else first_at - self._entered_at
        outcome = "answered"
        if status == 499:
            outcome = "broken_off"
        elif error_code:
            outcome = "failed"
        elif cached:
            outcome = "cached"
        self.plane.books.usage(
            UsageEvent(
                id=self.id,
                key_sha256=key.sha256,
                route_model=self.route_model,
                upstream=upstream,
                target_model=model,
                status=status,
                stream=scan.stream,
                input_tokens=counts.input_tokens,
                cached_input_tokens=counts.cached_input_tokens,
                cache_write_input_tokens=counts.cache_write_input_tokens,
                output_tokens=counts.output_tokens,
                cached=cached,
                estimated=estimated,
                latency_ms=max(0, int((now - started_at) * 1000)),
                attempts=attempts,
                ts_ms=int(self.plane.wall() * 1000),
                endpoint=endpoint.kind,
            ),
            outcome,
            now - self._entered_at,
            first_seconds,
        )
        first_ms = None if first_seconds is None else max(0, int(first_seconds * 1000))
        self._log(
            now, status, error_code, upstream, model, counts, first_ms, len(attempts), estimated
        )

    def settle_refusal(self, code: str, status: int) -> None:
        """End with a counted refusal; the first of the two ends wins."""
        if self._settled:
            return
        self._settled = True
        self._release()
        self.plane.books.refusal(
            self.key.name if self.key else "", code, status, self._endpoint_name, self._route_name()
        )
        self._log(self.plane.clock.seconds(), status, code)

    def settle_read(self, status: int) -> None:
        """End of a request that starts no work: it is logged, and owes nothing else."""
        if self._settled:
            return
        self._settled = True
        self.plane.books.tally.plain(NONE, "models", status, "answered")
        self._log(self.plane.clock.seconds(), status, "")

    @property
    def _endpoint_name(self) -> str:
        return NONE if self.endpoint is None else self.endpoint.kind

    def _route_name(self) -> str:
        """The route of a refused request as metrics name it, whatever its client wrote."""
        if not self.route_model:
            return NONE
        tables = self.tables
        known = tables is not None and self.route_model in tables.routes
        return self.route_model if known else OTHER

    def _release(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.release()
        # With its place, whoever else still knows this exchange, as a traceback may.
        self.body = b""
        self._arriving = None

    def _log(
        self,
        now: float,
        status: int,
        error_code: str,
        upstream: str | None = None,
        model: str | None = None,
        counts: TokenCounts = _NOTHING,
        first_ms: int | None = None,
        attempts: int = 0,
        estimated: bool = False,
    ) -> None:
        log = self.plane.access_log
        if not log.enabled:
            return
        log.line(
            AccessLine(
                time_text(self.plane.wall()),
                level_of(status),
                self.id,
                self.key.name if self.key else None,
                self.head.method.decode("latin-1"),
                self.target.path,
                self.route_model or None,
                model,
                upstream,
                status,
                error_code or None,
                self.scan is not None and self.scan.stream,
                counts.input_tokens,
                counts.output_tokens,
                counts.cached_input_tokens,
                first_ms,
                max(0, int((now - self._entered_at) * 1000)),
                attempts,
                self.head.content_length,
                self.response.bytes_out,
                self._peer,
                estimated,
            )
        )
