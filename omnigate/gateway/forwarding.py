"""Getting a request answered: targets tried in order, and one end.

The walk itself (:mod:`omnigate.gateway.attempts`) decides; here its decisions are carried out, one
:class:`~omnigate.gateway.attempt.Attempt` after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigate.errors import CLIENT_GONE
from omnigate.events import NO_TOKENS, TokenCounts
from omnigate.gateway import settle
from omnigate.gateway.attempt import Attempt
from omnigate.gateway.attempts import Walk
from omnigate.gateway.tables import Target

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane


class Forwarding:
    """See the module's docstring.

    :ivar walk: what was tried, and what is left.
    :ivar attempt: the one under way.
    """

    __slots__ = ("_exchange", "_plane", "_started_at", "attempt", "walk")

    def __init__(self, exchange: Exchange, plane: DataPlane, targets: Sequence[Target]) -> None:
        self._exchange = exchange
        self._plane = plane
        self.walk: Walk[Target] = Walk(targets)
        self._started_at = plane.clock.seconds()
        self.attempt: Attempt | None = None

    def start(self) -> None:
        """Try the first target."""
        self.next()

    def next(self) -> None:
        """Try the next target, or tell the client that there is none left."""
        if self._exchange.settled:
            return
        before, self.attempt = self.attempt, None
        if before is not None:
            before.part()
        walk = self.walk
        target = walk.advance()
        while target is not None and target.upstream.missing is not None:
            # Our own credential is not there: what a 401 would tell, told without asking.
            self._plane.troubles.credential_refused(target, None)
            walk.record("upstream_auth", None, 0)
            target = walk.advance()
        if target is None:
            self._end()
            return
        attempt = self.attempt = Attempt(self, self._exchange, self._plane, target)
        attempt.start()

    def _end(self) -> None:
        """No target is left."""
        error = self.walk.end()
        body = self._exchange.error_body(error)
        self.settle(error.kind.status, NO_TOKENS, False, None, error.kind.code)
        self._exchange.answer_error(error, body)

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
        elif self.walk.target is not None:
            self.walk.record("canceled", None, 0)
        status = 499 if self._exchange.response.started else 500
        self.settle(status, counts, estimated, self.walk.target, "internal_error")

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
            estimated=estimated,
            upstream=target.upstream_name if target else None,
            model=target.model if target else None,
            attempts=self.walk.records,
            started_at=self._started_at,
            first_at=attempt.part() if attempt is not None else None,
            error_code=error_code,
        )
