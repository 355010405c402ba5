"""How many requests of the jobs API are with the control plane at once, and whose they are."""

from __future__ import annotations

from typing import Final

from omnigate.errors import GatewayError
from omnigate.gateway.control_client import ControlClient
from omnigate.gateway.key_rules import Place

#: Requests of the jobs API at once. Each is a connection to the control plane, which lets in half
#: as many more from all data planes; files are large, and a disk has no use for more readers.
MAX_FORWARDS: Final = 256

#: Of one key, so that none keeps all others out; signed addresses count as one together.
MAX_FORWARDS_OF_KEY: Final = 64


class Forwards:
    """Lets requests through to the control plane.

    :ivar client: where they go.
    :ivar count: how many are there.
    """

    def __init__(self, client: ControlClient) -> None:
        self.client = client
        self.count = 0
        self._of_key: dict[str, int] = {}

    def enter(self, identity: str, ticket: Place | None) -> ForwardPlace:
        """Take a place for a request, to be given back once.

        :param identity: of the key; empty for a signed address that came without one.
        :param ticket: what the request holds already, to be given back with it.
        :raises GatewayError: there is none.
        """
        mine = self._of_key.get(identity, 0)
        if mine >= MAX_FORWARDS_OF_KEY:
            raise GatewayError(
                "concurrency_limit_exceeded",
                f"{MAX_FORWARDS_OF_KEY} requests for jobs and files are under way already; wait "
                "for one to end",
                retry_after=1,
            )
        if self.count >= MAX_FORWARDS:
            raise GatewayError(
                "overloaded",
                "too many ask for jobs and files at once; try again",
                retry_after=1,
            )
        self.count += 1
        self._of_key[identity] = mine + 1
        return ForwardPlace(self, identity, ticket)

    def leave(self, identity: str) -> None:
        """Give a place back."""
        self.count -= 1
        left = self._of_key[identity] - 1
        if left:
            self._of_key[identity] = left
        else:
            del self._of_key[identity]


class ForwardPlace:
    """A place; :meth:`release` gives it back, the second call does nothing."""

    __slots__ = ("_forwards", "_identity", "_ticket")

    def __init__(self, forwards: Forwards, identity: str, ticket: Place | None) -> None:
        self._forwards: Forwards | None = forwards
        self._identity = identity
        self._ticket = ticket

    def release(self) -> None:
        """Give it back, and what came with it."""
        forwards, self._forwards = self._forwards, None
        if forwards is not None:
            forwards.leave(self._identity)
            if self._ticket is not None:
                self._ticket.release()
