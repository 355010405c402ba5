"""Getting a request answered: targets tried in order, and one end.

The walk that it is (:mod:`omnigate.gateway.attempts`) decides; here its decisions are carried out,
one :class:`~omnigate.gateway.attempt.Attempt` after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigate.dialects.endpoints import Endpoint
from omnigate.dialects.translate import upstream_kind
from omnigate.errors import CLIENT_GONE, GatewayError
from omnigate.events import NO_TOKENS, TokenCounts
from omnigate.gateway import settle
from omnigate.gateway.attempt import Attempt
from omnigate.gateway.attempts import Walk
from omnigate.gateway.counting import CountingAttempt
from omnigate.gateway.passed_attempt import PassedAttempt
from omnigate.gateway.stripped_attempt import StrippedAttempt, may_need_stripping
from omnigate.gateway.tables import Target
from omnigate.gateway.translated_attempt import TranslatedAttempt

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane


class Forwarding(Walk[Target]):
    """See the module's docstring.

    :ivar attempt: the one under way.
    """

    __slots__ = ("_exchange", "_plane", "_started_at", "_strips", "_unfit", "attempt")

    def __init__(self, exchange: Exchange, plane: DataPlane, targets: Sequence[Target]) -> None:
        super().__init__(targets)
        self._exchange = exchange
        self._plane = plane
        self._started_at = plane.clock.seconds()
        self._strips: bool | None = None
        self._unfit: GatewayError | None = None
        self.attempt: Attempt | None = None

    def next(self) -> None:
        """Try the next target, at first the first, or tell the client that there is none left."""
        if self._exchange.settled:
            return
        if self.attempt is not None:
            self._leave_attempt()
        while (target := self.advance()) is not None:
            if target.upstream.missing is not None:
                # Our own credential is not there: what a 401 would tell, told without asking.
                self._plane.troubles.credential_refused(target, None)
                self.record("upstream_auth", None, 0)
                continue
            attempt = self.attempt = self._attempt_at(target)
            if attempt.start():
                return
            self._leave_attempt()
        self._end()

    def unfit(self, error: GatewayError) -> None:
        """Pass over the target; should nobody be asked, the first one's reason is told."""
        if self._unfit is None:
            self._unfit = error

    def again(self, attempt: Attempt) -> None:
        """Make one more attempt at the same target."""
        self._leave_attempt()
        self.attempt = attempt
        if not attempt.start():
            self.next()

    def _attempt_at(self, target: Target) -> Attempt:
        exchange, plane = self._exchange, self._plane
        endpoint, key = exchange.endpoint, exchange.key
        assert endpoint is not None and key is not None
        kind = endpoint.kind
        if endpoint.protocol != target.passes:
            kind = self._asked_kind(endpoint, target)
        if not kind:
            return CountingAttempt(self, exchange, plane, target)
        if kind == endpoint.kind:
            strips = self._strips
            if strips is None:
                strips = self._strips = may_need_stripping(kind, exchange.body)
            if strips:
                return StrippedAttempt(self, exchange, plane, target)
            return PassedAttempt(self, exchange, plane, target)
        quirks = plane.quirks.known(key.sha256, target.upstream_name, target.model)
        return TranslatedAttempt(self, exchange, plane, target, kind, quirks)

    def _asked_kind(self, endpoint: Endpoint, target: Target) -> str:
        """The kind of endpoint that the upstream is asked at; empty where tokens are counted."""
        protocol = target.upstream.config.protocol
        if endpoint.kind == "count_tokens" and protocol != endpoint.protocol:
            return ""
        return upstream_kind(endpoint.kind, protocol, target.caps, self._exchange.body)

    def _leave_attempt(self) -> None:
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            attempt.part()

    def _end(self) -> None:
        """No target is left."""
        exchange = self._exchange
        unfit, self._unfit = self._unfit, None
        if unfit is not None and not self.records:
            exchange.refuse(unfit)
            return
        error = self.end()
        body = exchange.error_body(error)
        self.settle(error.kind.status, NO_TOKENS, False, None, error.kind.code)
        exchange.answer_error(error, body)

    def client_lost(self) -> None:
        """The client has left."""
        if self.attempt is not None:
            self.attempt.client_lost()
        else:
            self.settle(499, NO_TOKENS, False, None, CLIENT_GONE)

    def crashed(self) -> None:
        """An exception escaped: stop what is under way and account for it."""
        attempt = self.attempt
        if attempt is not None:
            attempt.cancel()
        if self._exchange.settled:
            return
        counts, estimated = NO_TOKENS, False
        if attempt is not None:
            attempt.record("canceled", None)
            counts, estimated = attempt.metered_at_last()
        elif self.target is not None:
            self.record("canceled", None, 0)
        status = 499 if self._exchange.response.started else 500
        self.settle(status, counts, estimated, self.target, "internal_error")

    def settle(
        self,
        status: int,
        counts: TokenCounts,
        estimated: bool,
        target: Target | None,
        error_code: str = "",
    ) -> None:
        """End the exchange with what it owes."""
        attempt, self.attempt = self.attempt, None
        settle.usage(
            self._exchange,
            status,
            counts,
            estimated,
            target,
            self.records,
            self._started_at,
            attempt.part() if attempt is not None else None,
            error_code,
        )
