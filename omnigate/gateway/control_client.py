"""The data plane's calls to the control plane.

One address, one credential, bounded answers and bounded time. What answers there is a network peer
like any other, so it is spoken to over the same connections as an upstream: their readers bound
heads, chunks and trailers, and take nothing for an end that is none. What an answer means is the
business of the caller; here only its not coming is an error.
"""

from typing import Any, Never

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from omnigate import __version__
from omnigate.config.snapshot import MAX_SNAPSHOT_BYTES
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.connector import UpstreamConnectError, connect
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import Watchdog
from omnigate.text import reason_of
from omnigate.wire.head import ResponseHead

CONFIG_PATH = "/internal/config"

#: Answers other than the snapshot are a few numbers or an error envelope.
MAX_ANSWER_BYTES = 1024 * 1024

#: The control plane is near: the same machine or the same network.
CONNECT_SECONDS = 5.0

#: A snapshot is built from memory; one that takes longer is better asked for again.
GET_SECONDS = 10.0

#: A batch is acknowledged after a sync of the disk, behind whatever waits before it.
POST_SECONDS = 30.0


class ControlError(Exception):
    """The control plane gave no answer, or none that can be used; the message says why."""


class _UnusableError(Exception):
    """The answer was lost or refused; the message says why."""


class _StaleError(Exception):
    """A kept connection was being closed when the request was written to it."""


class ControlClient:
    """Sends requests to ``/internal/*`` of one control plane."""

    def __init__(self, reactor: Any, watchdog: Watchdog, url: str, token: str) -> None:
        """Take the address and the credential; nothing is opened yet.

        :param watchdog: closes connections that were idle for long.
        :param url: ``OMNIGATE_CONTROL_URL``; a path in it stands before ours.
        :raises omnigate.protocols.addresses.AddressError: the URL cannot be used.
        """
        address = parse_address(url)
        self._where = f"{address.scheme}://{address.authority.decode('ascii')}{address.base_path}"
        self._base_path = address.base_path.encode("ascii")
        self._headers = (
            b"host: %b\r\nx-omnigate-internal: %b\r\nuser-agent: omnigate-data/%b\r\n"
            b"accept: application/json\r\n"
            % (address.authority, token.encode("utf-8"), __version__.encode("ascii"))
        )
        self._reactor = reactor
        self._config_tag: bytes | None = None
        self._config = b""
        self._pool = UpstreamPool(
            lambda build: connect(reactor, address, build, CONNECT_SECONDS), watchdog
        )

    def get(self, path: str) -> Deferred[tuple[int, bytes]]:
        """Ask for ``path``.

        The config is asked for again and again and seldom changes: where the control plane says
        that it has not (304), the answer is the one it gave before, as a 200.

        :return: fires with status and body, or fails with :exc:`ControlError`.
        """
        return self._bounded(b"GET", path, None, GET_SECONDS)

    def post(self, path: str, body: bytes) -> Deferred[tuple[int, bytes]]:
        """Send JSON to ``path``.

        :return: fires with status and body, or fails with :exc:`ControlError`.
        """
        return self._bounded(b"POST", path, body, POST_SECONDS)

    def take(self) -> UpstreamConnection | None:
        """A kept connection, if one is idle, for a request of :meth:`written`."""
        return self._pool.take()

    def open(self) -> Deferred[UpstreamConnection]:
        """A fresh connection for one."""
        return self._pool.open()

    def written(self, method: bytes, target: bytes, lines: bytes, body: bytes) -> bytes:
        """Return a whole request, with its credential.

        :param target: path and query below the control plane's address, in plain characters.
        :param lines: further header lines, each with its CRLF.
        """
        if method == b"POST":
            lines += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        return b"%b %b%b HTTP/1.1\r\n%b%b\r\n%b" % (
            method,
            self._base_path,
            target,
            self._headers,
            lines,
            body,
        )

    def close(self) -> Deferred[None]:
        """Close the kept connections."""
        self._pool.close()
        return succeed(None)

    def _bounded(
        self, method: bytes, path: str, body: bytes | None, seconds: float
    ) -> Deferred[tuple[int, bytes]]:
        return Deferred.fromCoroutine(self._explained(method, path, body, seconds))

    async def _explained(
        self, method: bytes, path: str, body: bytes | None, seconds: float
    ) -> tuple[int, bytes]:
        """Make one request in bounded time, and put every failure into one kind."""
        request = Deferred.fromCoroutine(self._request(method, path, body))
        request.addTimeout(seconds, self._reactor, onTimeoutCancel=_late)
        try:
            return await request
        except (CancelledError, ControlError):
            raise
        except UpstreamConnectError as error:
            raise ControlError(
                f"no answer from {self._where}: {error}; is it running, and is"
                " OMNIGATE_CONTROL_URL right?"
            ) from error
        except Exception as error:
            why = reason_of(error)
            raise ControlError(f"no answer from {self._where}: {why}") from error

    async def _request(self, method: bytes, path: str, body: bytes | None) -> tuple[int, bytes]:
        is_config = path == CONFIG_PATH
        lines = self._headers
        if body is not None:
            lines += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        if is_config and self._config_tag:
            lines += b"if-none-match: %b\r\n" % self._config_tag
        target = self._base_path + path.encode("ascii")
        request = b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, target, lines, body or b"")
        max_bytes = MAX_SNAPSHOT_BYTES if is_config else MAX_ANSWER_BYTES
        connection = self._pool.take()
        if connection is None:
            connection = await self._pool.open()
        try:
            head, answer = await _Asked(connection, request, max_bytes).done
        except _StaleError:
            # It may have been read all the same; only reading twice is always harmless.
            if body is not None:
                raise
            connection = await self._pool.open()
            head, answer = await _Asked(connection, request, max_bytes).done
        if not is_config:
            return head.status, answer
        if head.status == 304 and self._config_tag:
            return 200, self._config
        if head.status == 200:
            self._config_tag = head.headers.get(b"etag")
            self._config = answer
        return head.status, answer


def _late(_result: object, seconds: float) -> Never:
    raise ControlError(f"the control plane did not answer within {seconds:g} s")


class _Asked:
    """One request, whose answer is collected up to a bound.

    :ivar done: fires with head and body. Cancelling it drops the connection.
    """

    def __init__(self, connection: UpstreamConnection, request: bytes, max_bytes: int) -> None:
        self._connection = connection
        self._left = self._max_bytes = max_bytes
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self.done: Deferred[tuple[ResponseHead, bytes]] = Deferred(lambda _: connection.drop())
        connection.send(request, self)

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        """Refuse at once what is going to be too long, or may be cut without anyone's noticing."""
        self._head = head
        if head.framing == "close":
            self._refuse("its answer has neither a length nor chunks, and might be cut")
        elif head.content_length > self._max_bytes:
            self._refuse_long()

    def answer_data(self, data: bytes) -> None:
        """Keep a piece, within the bound."""
        self._left -= len(data)
        if self._left < 0:
            self._refuse_long()
        else:
            self._pieces.append(data)

    def answer_end(self) -> None:
        """It is whole."""
        assert self._head is not None
        self.done.callback((self._head, b"".join(self._pieces)))

    def answer_lost(self, loss: Loss, reason: str) -> None:
        """There is no answer, or half of one."""
        self.done.errback(_StaleError(reason) if loss is Loss.STALE else _UnusableError(reason))

    def crashed(self, failure: Failure) -> None:
        """An exception escaped from one of the above."""
        self._connection.drop()
        self.done.errback(failure)

    def _refuse_long(self) -> None:
        self._refuse(f"its answer is longer than {self._max_bytes} bytes")

    def _refuse(self, why: str) -> None:
        self._pieces.clear()
        self._connection.drop()
        self.done.errback(_UnusableError(why))
