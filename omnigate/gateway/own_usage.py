"""What a key has spent and what it may: asked of the control plane, which alone knows of money.

However often a key asks, there is one question at a time for it: whoever asks meanwhile is told the
same. So no key keeps others from asking, nor the control plane from its work.
"""

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

#: Keys that are asked for at once. Each is a connection to the control plane, which answers such a
#: question in under a millisecond: this is more than anybody waits for.
MAX_ASKED = 16

#: Clients that wait for the answer about one key, those who left among them; an application's
#: processes that all begin at once, and no more memory than 1 MB.
MAX_WAITING = 256


class OwnUsage:
    """Asks the control plane for clients.

    :param get: asks it for a path; fires with status and body, or fails with
        :exc:`~omnigate.gateway.control_client.ControlError`.
    """

    log = Logger()

    def __init__(self, get: Callable[[str], Deferred[tuple[int, bytes]]]) -> None:
        self._get = get
        # Who waits, by the key's identity.
        self._waiting: dict[str, list[Exchange]] = {}

    def ask(self, exchange: Exchange) -> None:
        """Ask for an exchange whose key is known, and answer it.

        :raises GatewayError: too many are asking already.
        """
        key = exchange.key
        assert key is not None
        identity = key.sha256
        waiting = self._waiting.get(identity)
        if waiting is not None and len(waiting) < MAX_WAITING:
            waiting.append(exchange)
            return
        if waiting is not None or len(self._waiting) >= MAX_ASKED:
            raise GatewayError(
                "overloaded", "too many ask for their usage at once; try again", retry_after=1
            )
        self._waiting[identity] = [exchange]
        self._get(f"/internal{PATH}/{identity}").addBoth(self._answered, identity)

    def _answered(self, result: tuple[int, bytes] | Failure, identity: str) -> None:
        if isinstance(result, Failure) and not result.check(ControlError):
            self.log.failure("what a key has used could not be asked for", result)
        for exchange in self._waiting.pop(identity):
            if exchange.settled:
                continue
            try:
                self._tell(exchange, result)
            except Exception:
                exchange.crashed(Failure())

    def _tell(self, exchange: Exchange, result: tuple[int, bytes] | Failure) -> None:
        if isinstance(result, Failure):
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
