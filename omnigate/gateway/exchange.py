"""One request from head to settled: the order of the steps and nothing else.

Each step refuses with a :class:`~omnigate.errors.GatewayError`; what refuses is counted once,
what reaches an upstream becomes one usage event, whatever breaks: the first end wins
(:mod:`omnigate.gateway.settle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.dialects.endpoints import ENDPOINTS, Endpoint, protocol_at
from omnigate.errors import CLIENT_GONE, GatewayError, envelope
from omnigate.events import TokenCounts
from omnigate.gateway import reads, repeats, settle
from omnigate.gateway.admission import too_fast, too_large, used_up
from omnigate.gateway.forward import Forward
from omnigate.gateway.forwarding import Forwarding
from omnigate.gateway.headers import id_lines
from omnigate.gateway.key_rules import Place, TokenPlace, place_with_tokens, total_of
from omnigate.gateway.tables import Key, Tables
from omnigate.gateway.tables import Target as RouteTarget
from omnigate.protocols.response import Response
from omnigate.text import QUOTED_CHARS, quoted
from omnigate.wire.gather import Gathered
from omnigate.wire.head import RequestHead
from omnigate.wire.json_body import BodyScan, ScanError
from omnigate.wire.json_scan import ONE_SHOT_BYTES, BodyScanner, scan_body
from omnigate.wire.target import Target

if TYPE_CHECKING:
    from omnigate.gateway.plane import DataPlane

#: What every 401 says of how to do it right (RFC 9110 §11.6.1).
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="omnigate"'),)


class Exchange:
    """See the module's docstring.

    :ivar id: the request id, 32 hexadecimal digits.
    :ivar body: the complete body, once it is.
    :ivar entered_at: when the head was here, by the clock.
    :ivar keep_as: by what its answer is found in the response cache, and until when; ``None``
        where it is not to be kept.
    :ivar peer: the client's address, as trusted proxies tell it.
    """

    __slots__ = (
        "_arriving",
        "_forwarding",
        "_scanner",
        "_settled",
        "_ticket",
        "body",
        "endpoint",
        "entered_at",
        "head",
        "id",
        "id_bytes",
        "keep_as",
        "key",
        "peer",
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
        self.peer = peer
        request_id = self.id = plane.new_id()
        self.id_bytes = request_id.encode("ascii")
        self.entered_at = plane.clock.seconds()
        self.endpoint: Endpoint | None = None
        self.tables: Tables | None = plane.tables
        self.key: Key | None = None
        self.body = b""
        self.scan: BodyScan | None = None
        self.route_model = ""
        self._ticket: Place | None = None
        self._scanner: BodyScanner | None = None
        self._arriving: Gathered | None = None
        self._forwarding: Forwarding | Forward | None = None
        self._settled = False
        self.keep_as: tuple[bytes, float] | None = None

    # -- the client's connection calls these

    def begin(self) -> bool:
        """Judge the head: endpoint, key, budget, size, place, rate."""
        try:
            endpoint = ENDPOINTS.get(self.target.path)
            if endpoint is None or self.head.method != b"POST":
                return reads.answer(self)
            self.endpoint = endpoint
            self._admit(endpoint)
        except GatewayError as error:
            self.refuse(error)
            return False
        return True

    def body_piece(self, data: bytes, last: bool) -> None:
        """Take in the body; when it is complete, find the route and go."""
        try:
            if self.endpoint is None:
                self._body_of_other(data, last)
            elif self.take_in(data, last):
                self._forward()
        except ScanError as error:
            self.refuse(GatewayError(error.code, error.message, param=error.param))
        except GatewayError as error:
            self.refuse(error)

    def _body_of_other(self, data: bytes, last: bool) -> None:
        """Take in what belongs to a request that no upstream is asked."""
        if isinstance(self._forwarding, Forward):
            self._forwarding.body_piece(data, last)
        else:
            reads.ask(self)

    def take_in(self, data: bytes, last: bool) -> bool:
        """Take in a piece of the body; ``True`` when it is complete, and scanned."""
        if last and self._arriving is None:
            self.body = data
            self.scan = scan_body(data)
            return True
        self._gather(data)
        if last:
            self._finish_body()
        return last

    def forward_to_control(self, forward: Forward, ticket: Place) -> None:
        """Have the control plane answer this; a place is held until it has."""
        self._forwarding = forward
        self._ticket = ticket

    def client_lost(self) -> None:
        """The client is gone."""
        if self._settled:
            return
        if self._forwarding is not None:
            self._forwarding.client_lost()
        else:
            settle.refusal(self, CLIENT_GONE, 499)

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
            settle.refusal(self, "internal_error", 500)
        if response.started:
            response.abort()
        elif not response.ended:
            response.keep_alive = False
            self.answer_error(error, body)

    @property
    def protocol(self) -> str:
        """In whose shape errors and lists are told: ``openai`` or ``anthropic``."""
        return protocol_at(self.target.path, self.head.headers)

    # -- steps

    def _admit(self, endpoint: Endpoint) -> None:
        plane = self.plane
        key = self.authenticate()
        if key.blocked:
            raise used_up()
        if key.rules is not None:
            key.rules.check_endpoint(endpoint.kind)
        length = self.head.content_length
        is_too_large = length > plane.max_body_bytes
        # What is too large is never read and takes no memory; were it counted, its client would be
        # told to come back with it.
        self._ticket = plane.admission.enter(
            key.use, key.max_concurrent, 0 if is_too_large else length
        )
        bucket = key.bucket
        if bucket is not None and endpoint.metered:
            wait = bucket.take(plane.clock.seconds())
            if wait > 0.0:
                raise too_fast(key.rpm, wait)
        if is_too_large:
            raise too_large(length, plane.max_body_bytes)

    def _gather(self, data: bytes) -> None:
        """Take in a piece of a body that comes in several."""
        arriving = self._arriving
        if arriving is None:
            arriving = self._arriving = Gathered()
            if self.head.content_length > ONE_SHOT_BYTES:
                self._scanner = BodyScanner(self.head.content_length)
        arriving.add(data)
        scanner = self._scanner
        if scanner is not None:
            scanner.feed(data)
            if scanner.fault is not None:
                # Nothing that follows can mend it: the rest need not be sent.
                raise scanner.fault.again()

    def _finish_body(self) -> None:
        """The body is complete."""
        arriving, self._arriving = self._arriving, None
        scanner, self._scanner = self._scanner, None
        assert arriving is not None
        body = self.body = arriving.join()
        self.scan = scan_body(body) if scanner is None else scanner.finish(body)

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
        head = self.head
        digests = head.credentials
        if digests is None:
            digests = head.credentials = _digests(head.headers)
        for digest in digests:
            key = tables.keys.get(digest)
            if key is not None:
                self.key = key
                rules = key.rules
                if rules is not None:
                    if not rules.alive(self.plane.wall()):
                        # The other credential may be better; if not, the log knows whose it was.
                        continue
                    rules.check_address(self.peer)
                return key
        ended = self.key
        if ended is not None and ended.rules is not None:
            raise GatewayError("invalid_api_key", ended.rules.ended(), headers=_CHALLENGE)
        if not digests:
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
        self.route_model = model[:QUOTED_CHARS]
        if not key.allows(model):
            raise GatewayError(
                "model_not_allowed",
                f"this key may not use the model {quoted(model)}; "
                "GET /v1/models lists those it may",
                param="model",
            )
        route = tables.routes.get(model)
        if route is None:
            if model in tables.media_models:
                raise GatewayError(
                    "endpoint_not_supported",
                    f"the model {quoted(model)} works in media jobs only: ask for it with "
                    "POST /v1/jobs",
                    param="model",
                )
            raise GatewayError(
                "model_not_found",
                f"no model {quoted(model)} here; GET /v1/models lists them",
                param="model",
            )
        self.route_model = model
        targets: Sequence[RouteTarget] = route.by_kind[endpoint.kind]
        if not targets:
            raise GatewayError(
                "endpoint_not_supported",
                f"no target of the model {quoted(model)} serves {endpoint.path}: "
                f"none speaks the {endpoint.protocol} protocol, and it is not translated",
                param="model",
            )
        if route.cache_ttl_s and repeats.answer(self, route):
            return
        plane = self.plane
        rules = key.rules
        if rules is not None and rules.tokens is not None and endpoint.metered:
            assert self._ticket is not None
            self._ticket = place_with_tokens(
                self._ticket, rules.tokens, self.body, plane.clock.seconds
            )
        turn = route.turn
        route.turn = turn + 1
        if len(targets) > 1:
            targets = plane.ordered(route.strategy, targets, turn)
        forwarding = self._forwarding = Forwarding(self, plane, targets)
        forwarding.next()

    # -- answers of our own

    def refuse(self, error: GatewayError) -> None:
        """Count a refusal and tell it."""
        body = self.error_body(error)
        settle.refusal(self, error.kind.code, error.kind.status)
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

    # -- the end

    @property
    def settled(self) -> bool:
        """Whether the exchange has been accounted for."""
        return self._settled

    def used(self, counts: TokenCounts) -> None:
        """Note what the exchange came to, for the tokens that are reserved for it."""
        place = self._ticket
        if isinstance(place, TokenPlace):
            place.used = total_of(counts)

    def end(self) -> bool:
        """Give back what the exchange holds; ``False`` where it has ended before.

        Whoever is told ``True`` accounts for it (:mod:`omnigate.gateway.settle`).
        """
        if self._settled:
            return False
        self._settled = True
        # The two know each other; parted here they are freed at once and not by the collector.
        self._forwarding = None
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.release()
        # With its place, whoever else still knows this exchange, as a traceback may.
        self.body = b""
        self._arriving = None
        return True


def _digests(headers: dict[bytes, bytes]) -> tuple[bytes, ...]:
    """What the keys in these header lines are looked up by, in the order to try them."""
    digests = []
    bearer = headers.get(b"authorization")
    if bearer is not None and bearer[:7].lower() == b"bearer ":
        digests.append(sha256(bearer[7:].strip()).digest())
    plain = headers.get(b"x-api-key")
    if plain is not None:
        digests.append(sha256(plain).digest())
    return tuple(digests)
