"""What a key has spent and what it may: asked of the control plane, which alone knows of money."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from omnigate.errors import GatewayError
from omnigate.gateway import settle
from omnigate.gateway.control_client import ControlError

if TYPE_CHECKING:
    from omnigate.gateway.exchange import Exchange

PATH = "/v1/usage"

#: Questions under way at once. Each is a connection to the control plane, which answers such a
#: question in under a millisecond: this is more than anybody waits for.
MAX_ASKED = 16


class OwnUsage:
    """Asks the control plane for clients.

    :param get: asks it for a path; fires with status and body, or fails with
        :exc:`~omnigate.gateway.control_client.ControlError`.
    """

    log = Logger()

    def __init__(self, get: Callable[[str], Deferred[tuple[int, bytes]]]) -> None:
        self._get = get
        self._asked = 0

    def ask(self, exchange: Exchange) -> None:
        """Ask for an exchange whose key is known, and answer it.

        :raises GatewayError: too many are asking already.
        """
        key = exchange.key
        assert key is not None
        if self._asked >= MAX_ASKED:
            raise GatewayError(
                "overloaded", "too many ask for their usage at once; try again", retry_after=1
            )
        self._asked += 1
        asked = self._get(f"/internal{PATH}/{key.sha256}")
        asked.addBoth(self._answered, exchange)
        asked.addErrback(exchange.crashed)

    def _answered(self, result: tuple[int, bytes] | Failure, exchange: Exchange) -> None:
        self._asked -= 1
        if exchange.settled:
            return
        if isinstance(result, Failure):
            if not result.check(ControlError):
                self.log.failure("what a key has used could not be asked for", result)
            exchange.refuse(_unavailable())
            return
        status, body = result
        if status == 200:
            exchange.will_send(body)
            settle.read(exchange, status, "usage")
            exchange.answer(status, body, b"cache-control: no-store\r\n")
        elif status == 503:
            exchange.refuse(
                GatewayError(
                    "not_ready",
                    "the control plane cannot tell yet what was used; try again in a moment",
                    retry_after=1,
                )
            )
        else:
            exchange.refuse(_unavailable())


def _unavailable() -> GatewayError:
    return GatewayError(
        "control_plane_unavailable",
        "the control plane, which knows what was used, does not answer; try again later",
    )
