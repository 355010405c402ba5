"""The control plane's calls to the data plane, for people who try a request.

What answers there is a network peer like any other, so it is spoken to over the same connections
as a provider: their readers bound heads and chunks, and take nothing for an end that is none. A
connection serves one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from omnigate import __version__
from omnigate.control.dashboard.data_plane import Asking, DataRequest, Listener
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.connector import UpstreamConnectError, connect
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.text import reason_of
from omnigate.wire.head import ResponseHead

#: The data plane is near: the same machine or the same network.
CONNECT_SECONDS: Final = 5.0


class DataClient:
    """Sends requests to one data plane.

    :param url: ``OMNIGATE_DATA_URL``; a path in it stands before ours.
    :raises omnigate.protocols.addresses.AddressError: the URL cannot be used.
    """

    def __init__(self, reactor: Any, url: str) -> None:
        self._reactor = reactor
        self._address = parse_address(url)

    def ask(self, request: DataRequest, listener: Listener) -> Asking:
        """Send a request."""
        address = self._address
        lines = [
            b"POST %b HTTP/1.1" % (address.base_path + request.path).encode("ascii"),
            b"host: %b" % address.authority,
            b"authorization: Bearer %b" % request.secret.encode("ascii"),
            b"content-type: application/json",
            b"content-length: %d" % len(request.body),
            b"user-agent: omnigate-dashboard/%b" % __version__.encode("ascii"),
            b"connection: close",
            *(name + b": " + value for name, value in request.headers),
        ]
        asked = _Asked(self._reactor, b"\r\n".join([*lines, b"", request.body]), listener)
        opening = connect(
            self._reactor, address, lambda: UpstreamConnection(asked), CONNECT_SECONDS
        )
        asked.wait_for(opening)
        return asked


class _Asked:
    """One request; owner of its connection, and receiver of its answer."""

    def __init__(self, reactor: Any, request: bytes, listener: Listener) -> None:
        self._reactor = reactor
        self._request = request
        self._listener = listener
        self._opening: Any = None
        self._connection: UpstreamConnection | None = None
        self._paused = False
        self._dropped = False

    def wait_for(self, opening: Any) -> None:
        """Send the request once there is a connection."""
        self._opening = opening
        opening.addCallbacks(self._opened, self._not_opened)

    def _opened(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        if self._dropped:
            connection.drop()
            return
        connection.send(self._request, self)
        if self._paused:
            connection.pause()

    def _not_opened(self, failure: Failure) -> None:
        if self._dropped and failure.check(CancelledError, UpstreamConnectError):
            return
        known = failure.check(UpstreamConnectError)
        self._listener.unreachable(str(failure.value) if known else reason_of(_error(failure)))

    # What the one who asked may do.

    def pause(self) -> None:
        """Read no more for now."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Go on reading."""
        self._paused = False
        if self._connection is not None:
            self._connection.resume()

    def drop(self) -> None:
        """Leave; the listener hears nothing more."""
        self._dropped = True
        if self._connection is not None:
            self._connection.drop()
        else:
            self._opening.cancel()

    # The owner of a connection.

    def connection_made(self, connection: UpstreamConnection) -> None:
        """It is up; the request is sent by :meth:`_opened`."""

    def connection_free(self, connection: UpstreamConnection) -> None:
        """Let go of it: whoever tries a second request can wait for a handshake."""
        connection.drop()

    def connection_gone(self, connection: UpstreamConnection) -> None:
        """It is lost; the receiver is told what that means."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call once the reactor has seen to everybody else."""
        self._reactor.callLater(0, call)

    # The receiver of an answer.

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Tell of the head."""
        self._listener.head(head.status, _headers(head.block))

    def answer_data(self, data: bytes) -> None:
        """Tell of a piece."""
        self._listener.data(data)

    def answer_end(self) -> None:
        """Tell of the end."""
        self._listener.end()

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """Tell that it broke off."""
        self._listener.lost(reason)

    def crashed(self, failure: Failure) -> None:
        """Tell that we broke."""
        self._listener.lost(reason_of(_error(failure)))


def _error(failure: Failure) -> BaseException:
    return failure.value or RuntimeError("unknown")


def _headers(block: bytes) -> dict[str, str]:
    """Return the headers of a head that was judged before."""
    headers = {}
    for line in block.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    return headers
