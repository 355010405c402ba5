"""An attempt at an upstream of the client's protocol with a request that is not all its client's.

It may hold what the gateway packed into earlier answers of another protocol. That is cut, for no
provider of this one takes it (:mod:`omnigate.dialects.messages.own_signatures`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from omnigate.dialects.messages.own_signatures import (
    may_hold_own,
    strip_own_reasoning,
    strip_own_signatures,
)
from omnigate.dialects.translate import RESPONSES
from omnigate.errors import GatewayError
from omnigate.gateway.attempt_account import Walker
from omnigate.gateway.outgoing import outgoing_request
from omnigate.gateway.passed_attempt import PassedAttempt
from omnigate.gateway.prepared_attempt import PreparedAttempt
from omnigate.gateway.tables import Target
from omnigate.wire.json_body import BodyScan
from omnigate.wire.json_scan import scan_body

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange
    from omnigate.gateway.plane import DataPlane

#: What cutting takes beside the tree, as a multiple of the body.
_BESIDE_TREE = 3


def may_need_stripping(kind: str, body: bytes) -> bool:
    """Tell whether a request to an endpoint of this kind may hold what the gateway packed."""
    return kind not in ("chat", "completions", "embeddings") and may_hold_own(kind, body)


class StrippedAttempt(PreparedAttempt, PassedAttempt):
    """See the module's docstring."""

    __slots__ = ("_body", "_scan")

    def __init__(
        self, walker: Walker, exchange: Exchange, plane: DataPlane, target: Target
    ) -> None:
        super().__init__(walker, exchange, plane, target)
        self._body = b""
        self._scan: BodyScan | None = None

    def _prepared(self) -> bool:
        return self._scan is not None

    def _preparation(self) -> Generator[None, None, None]:
        yield from ()  # in one step: it is not worth two
        exchange = self._exchange
        key, scan, body = exchange.key, exchange.scan, exchange.body
        assert key is not None and scan is not None
        try:
            tree = self._room()
        except GatewayError as error:
            if error.kind.code != "request_too_complex":
                raise
            # It is not read, so its provider is left to say what it thinks of it.
            self._body, self._scan = body, scan
            return
        try:
            room = self._plane.parse_memory.reserve(key.use, _BESIDE_TREE * len(body))
            try:
                strip = strip_own_reasoning if self._kind() == RESPONSES else strip_own_signatures
                stripped = strip(body)
            finally:
                room.release()
        finally:
            tree.release()
        self._body = stripped
        self._scan = scan if stripped is body else scan_body(stripped)

    def _request(self) -> bytes:
        exchange, scan = self._exchange, self._scan
        assert scan is not None and exchange.endpoint is not None
        return outgoing_request(
            self.target,
            exchange.endpoint,
            exchange.head,
            exchange.target.query,
            self._body,
            scan,
        )
