"""The data plane as the dashboard asks it: like any application, with a gateway key.

What speaks to it stands outside (:mod:`omnigate.data_client`); here is what the two agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import attrs

#: Requests that are tried at once on one control plane: a few people at their desks.
MAX_TRIES: Final = 8


@attrs.frozen
class DataRequest:
    """One request for the data plane.

    :ivar path: on its public port.
    :ivar secret: of the gateway key; visible ASCII.
    :ivar body: JSON.
    :ivar headers: beside those that every such request has.
    """

    path: str
    secret: str = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Listener(Protocol):
    """Who asked. It is told the head, pieces and one end, or that there was no connection."""

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The status and the headers; their names are in lower case."""

    def data(self, data: bytes) -> None:
        """A piece of the body."""

    def end(self) -> None:
        """The answer is complete, as far as its framing tells."""

    def lost(self, why: str) -> None:
        """The answer broke off, or there will be none although the request was sent."""

    def unreachable(self, why: str) -> None:
        """Nothing was sent."""


class Asking(Protocol):
    """One request under way."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Go on reading."""

    def drop(self) -> None:
        """Leave; the listener hears nothing more."""


class Client(Protocol):
    """What speaks to the data plane."""

    def ask(self, request: DataRequest, listener: Listener) -> Asking:
        """Send a request."""


class Unset:
    """The client of no data plane: every request fails before it is sent."""

    def ask(self, request: DataRequest, listener: Listener) -> Asking:
        """Say so."""
        listener.unreachable("no address is set")
        return self

    def pause(self) -> None:
        """Nothing is read."""

    def resume(self) -> None:
        """Nothing is read."""

    def drop(self) -> None:
        """Nothing is under way."""


class DataPlane:
    """Where the data plane is, and room for a few requests to it.

    :param url: as the operator has set it.
    """

    def __init__(self, url: str = "", client: Client | None = None, most: int = MAX_TRIES) -> None:
        self.url: Final = url
        self.client: Final[Client] = client or Unset()
        self._free = most

    @property
    def is_full(self) -> bool:
        """Whether there is no place for another try."""
        return self._free <= 0

    def take_place(self) -> None:
        """Take a place; whoever has it gives it back."""
        self._free -= 1

    def give_place(self) -> None:
        """Give a place back."""
        self._free += 1
