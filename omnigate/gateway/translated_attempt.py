"""An attempt at a target whose upstream speaks another protocol than the client.

What is kept of the request are its bytes in the upstream's protocol, and the few facts that the
answer needs. A whole answer is collected and translated in one go, or in steps where it is long; a
stream event by event.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from twisted.python.failure import Failure

from omnigate.dialects.faults import NotAnAnswer
from omnigate.dialects.quirk_signs import refused_quirk
from omnigate.dialects.shapes import Quirk
from omnigate.dialects.strike import strike
from omnigate.dialects.translate import (
    UPSTREAM_PATHS,
    Asked,
    Translator,
    request_steps,
)
from omnigate.dialects.translated_passage import TranslatedPassage
from omnigate.errors import GatewayError
from omnigate.events import NO_TOKENS
from omnigate.gateway import repeats
from omnigate.gateway.admission import RETRY_AFTER_SECONDS
from omnigate.gateway.answer_steps import (
    TURNS_FROM_BYTES,
    Steps,
    translation_steps,
)
from omnigate.gateway.attempt import is_stream
from omnigate.gateway.attempt_account import Walker
from omnigate.gateway.attempts import Verdict
from omnigate.gateway.headers import translated_answer_lines, unrelayable
from omnigate.gateway.outgoing import translated_request
from omnigate.gateway.prepared_attempt import PreparedAttempt
from omnigate.gateway.tables import Target
from omnigate.protocols.relay import Relay, ShortAnswer
from omnigate.protocols.translated_relay import TranslatedRelay, WholeAnswer
from omnigate.wire.head import ResponseHead
from omnigate.wire.json_cost import PieceCounter
from omnigate.wire.json_tree import TreeError

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane

_JSON = b"application/json"
_EVENTS = b"text/event-stream"


class TranslatedAttempt(PreparedAttempt):
    """See the module's docstring.

    :param kind: of the endpoint that the upstream is asked at.
    :param quirks: what the request has to do without.
    """

    __slots__ = ("_asked", "_counter", "_quirks", "_steps", "_translator", "kind")

    def __init__(
        self,
        walker: Walker,
        exchange: Exchange,
        plane: DataPlane,
        target: Target,
        kind: str,
        quirks: Quirk,
    ) -> None:
        super().__init__(walker, exchange, plane, target)
        self.kind = kind
        self._quirks = quirks
        self._asked: Asked | None = None
        self._translator: Translator | None = None
        self._counter: PieceCounter | None = None
        self._steps: Steps | None = None

    def _kind(self) -> str:
        return self.kind

    # -- the request

    def _prepared(self) -> bool:
        return self._asked is not None

    def _preparation(self) -> Generator[None, None, None]:
        endpoint, target = self._exchange.endpoint, self.target
        assert endpoint is not None
        room = self._room()
        try:
            self._asked = yield from request_steps(
                endpoint.kind,
                self.kind,
                self._exchange.body,
                target.model,
                target.caps,
                self._quirks,
            )
        finally:
            room.release()

    def _mended(self, status: int, body: bytes) -> TranslatedAttempt | None:
        """One more attempt, without what the model is seen to refuse.

        :returns: ``None`` where the refusal is about something else, or not to be helped.
        """
        quirks = self._quirks | refused_quirk(status, body)
        if quirks == self._quirks:
            return None
        mended = TranslatedAttempt(
            self._walker, self._exchange, self._plane, self.target, self.kind, quirks
        )
        try:
            mended._prepare_at_once()
        except GatewayError:
            return None
        assert self._asked is not None and mended._asked is not None
        return mended if mended._asked.body != self._asked.body else None

    def _request(self) -> bytes:
        assert self._asked is not None
        return translated_request(self.target, UPSTREAM_PATHS[self.kind], self._asked.body)

    # -- the answer

    def unusable(self, head: ResponseHead) -> str:
        """The outcome of an answer that cannot be translated; else empty."""
        fault = unrelayable(head)
        if fault:
            return fault
        if 300 <= head.status < 400:
            return f"status_{head.status}"
        scan = self._exchange.scan
        assert scan is not None
        return "unasked_stream" if is_stream(head) and not scan.stream else ""

    def open_meter(self, head: ResponseHead) -> None:
        """Make the translator, whose meter is ours, and the passage of an event stream."""
        exchange, asked = self._exchange, self._asked
        endpoint, scan = exchange.endpoint, exchange.scan
        assert asked is not None and endpoint is not None and scan is not None
        if head.status < 400:
            # Not needed any more: it is not sent again, with or without a change.
            asked.body = b""
        streamed = is_stream(head)
        frame = asked.frame(exchange.id, int(self._plane.wall()), self.target.model)
        translator = self._translator = Translator(endpoint.kind, self.kind, frame, streamed)
        self.meter = translator.meter
        if streamed:
            self.passage = TranslatedPassage(
                translator, self.target.upstream.secret, self._plane.held
            )

    def _collector(self) -> ShortAnswer:
        head = self.head
        if self._verdict is not Verdict.ANSWER or head is None or head.status >= 400:
            return super()._collector()
        secret = self.target.upstream.secret
        return WholeAnswer(self, self._plane.watchdog, self._plane.held, secret)

    def long_piece(self, data: bytes) -> None:
        """A piece of an answer that is long: counted now, so that its end is not a long turn."""
        counter = self._counter
        if counter is None:
            counter = self._counter = PieceCounter()
        counter.feed(data)
        assert self.meter is not None
        self.meter.piece(data)

    def collector_left(self) -> ShortAnswer | None:
        """Of an answer that nobody waits for no more is kept than of others."""
        short, self.short = super().collector_left(), None
        return short.left() if isinstance(short, WholeAnswer) else short

    def short_overflow(self, begun: bytes) -> None:
        """The answer is longer than what is translated."""
        connection, head = self.connection, self.head
        assert connection is not None and head is not None
        connection.drop()
        if self._verdict is not Verdict.ANSWER or head.status >= 400:
            # Of an error the beginning is enough.
            self.short_whole(begun)
        else:
            self._failed("answer_too_large", head.status)

    def _answer(self, head: ResponseHead, body: bytes) -> None:
        """Send the translation of a whole answer, if it is one."""
        if head.status >= 400:
            self._answer_error(head, body)
            return
        exchange, translator = self._exchange, self._translator
        key, scan = exchange.key, exchange.scan
        assert translator is not None and key is not None and scan is not None
        counter, self._counter = self._counter, None
        steps = self._steps = translation_steps(
            translator,
            self._plane.parse_memory,
            key.use,
            body,
            counter,
            self.target.upstream.secret,
            as_stream=scan.stream,
        )
        if len(body) > TURNS_FROM_BYTES:
            self._plane.watchdog.call_soon(self._turn)
        else:
            self._advance(steps, head, True)

    def _turn(self) -> None:
        """Make one step of a long translation; the client may have left, or all be over."""
        steps, head = self._steps, self.head
        if steps is None or head is None:
            return
        try:
            self._advance(steps, head, False)
        except Exception:
            self.crashed(Failure())

    def _advance(self, steps: Steps, head: ResponseHead, to_the_end: bool) -> None:
        """Go on with the translation, by one step or to its end, and answer when it is there."""
        watchdog = self._plane.watchdog
        try:
            while True:
                holds_room = next(steps)
                if not to_the_end:
                    (watchdog.call_next if holds_room else watchdog.call_soon)(self._turn)
                    return
        except StopIteration as end:
            told: bytes = end.value
        except NotAnAnswer as error:
            self._failed(error.verdict, head.status)
            return
        except TreeError:
            self._failed("answer_too_complex", head.status)
            return
        except GatewayError as error:
            self._answer_untold(head, error.retry_after)
            return
        self._steps = None
        self._answer_told(head, told)

    def _answer_told(self, head: ResponseHead, told: bytes) -> None:
        """Send the translation of a whole answer."""
        exchange, translator = self._exchange, self._translator
        scan = exchange.scan
        assert translator is not None and scan is not None
        counts, estimated = translator.meter.settle(exchange.body)
        content_type = _EVENTS if scan.stream else _JSON
        lines = self._translated_lines(head, content_type)
        self._plane.troubles.succeeded(self.target)
        self.record("ok", head.status)
        exchange.response.bytes_out = len(told)
        self._walker.settle(head.status, counts, estimated, self.target)
        if not scan.stream:
            repeats.keep_translated(exchange, told)
        exchange.response.whole(head.status, lines, told)

    def whole_unkept(self) -> None:
        """The answer is whole, and there was no room to hold it."""
        self._unwatch()
        self.connection = None
        assert self.head is not None
        self._answer_untold(self.head, RETRY_AFTER_SECONDS)

    def _answer_untold(self, head: ResponseHead, retry_after: int | None) -> None:
        """Refuse an answer that there is no room to translate: it is here, and has to be paid."""
        exchange, translator = self._exchange, self._translator
        assert translator is not None
        counts, estimated = translator.meter.settle(exchange.body)
        self._plane.troubles.succeeded(self.target)
        self.record("no_room", head.status)
        told = GatewayError(
            "overloaded",
            "the gateway has no room to translate the answer; try again",
            retry_after=retry_after,
        )
        sent = exchange.error_body(told)
        self._walker.settle(told.kind.status, counts, estimated, self.target, told.kind.code)
        exchange.answer_error(told, sent)

    def _answer_error(self, head: ResponseHead, body: bytes) -> None:
        """Send the translation of an error that is the answer, unless there is a way around it."""
        exchange, translator = self._exchange, self._translator
        assert translator is not None
        mended = self._mended(head.status, body)
        if mended is not None:
            assert exchange.key is not None
            self._plane.quirks.learn(
                exchange.key.sha256, self.target.upstream_name, self.target.model, mended._quirks
            )
            self.record(f"status_{head.status}", head.status)
            self._walker.again(mended)
            return
        status, told, own = translator.error(head.status, body)
        told = strike(told, self.target.upstream.secret)
        lines = self._translated_lines(head, _JSON, own)
        self._plane.troubles.succeeded(self.target)
        self.record("ok", head.status)
        exchange.response.bytes_out = len(told)
        self._walker.settle(status, NO_TOKENS, False, self.target)
        exchange.response.whole(status, lines, told)

    # -- the end

    def client_lost(self) -> None:
        """An answer that is whole, and waits for its turns, is paid by the figures it gave."""
        if self._steps is not None:
            self.settle_abandoned("canceled")
        else:
            super().client_lost()

    def part(self) -> float | None:
        """Let go, also of a translation that is half made, and of its room."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
        return super().part()

    def _translated_lines(self, head: ResponseHead, content_type: bytes, own: bytes = b"") -> bytes:
        return translated_answer_lines(
            head,
            self._exchange.id_bytes,
            self._own_lines(head) + own,
            self.target.upstream.secret,
            content_type,
        )

    # -- a stream

    def _relay_class(self) -> type[Relay]:
        return TranslatedRelay

    def relay_head(self) -> tuple[int, bytes]:
        """The head goes out with the first event that there is to send."""
        head = self.head
        assert head is not None
        return head.status, self._translated_lines(head, _EVENTS)

    def relay_failed(self, outcome: str, reason: str) -> None:
        """Nothing was sent: the next target may do better."""
        passage = self.passage
        if isinstance(passage, TranslatedPassage) and passage.first_error is not None:
            # The event may also be one that cannot be read.
            outcome = passage.broken
        super().relay_failed(outcome, reason)

    def relay_broken(self, why: str) -> None:
        """The stream was ended with an error event.

        One of the upstream's own is passed on, as where nothing is translated. If it is ours, the
        client must also see that the answer broke off.
        """
        if why != "error_event":
            self.ended_whole()
            self.relay_cut(why, why)
            return
        self._exchange.response.keep_alive = False
        self.relay_complete()

    def ended_whole(self) -> None:
        """A stream that its protocol never brought to an end has only running totals.

        The end need not be a finish: a response that has failed tells its figures, too.
        """
        passage = self.passage
        if not isinstance(passage, TranslatedPassage) or not passage.closed:
            super().ended_whole()
