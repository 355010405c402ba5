"""The data plane's calls to the control plane.

One address, one credential, bounded answers and bounded time. What answers there is a network peer
like any other, so it is spoken to over the same connections as an upstream: their readers bound
heads, chunks and trailers, and take nothing for an end that is none. What an answer means is the
business of the caller; here only its not coming is an error.
"""

from typing import Any, Never

from twisted.internet.defer import CancelledError, Deferred, succeed

from omnigate import __version__
from omnigate.config.snapshot import MAX_SNAPSHOT_BYTES
from omnigate.protocols.addresses import parse_address
from omnigate.protocols.asked import Asked, StaleError
from omnigate.protocols.connector import UpstreamConnectError, connect
from omnigate.protocols.pool import UpstreamPool
from omnigate.protocols.upstream import UpstreamConnection
from omnigate.protocols.watchdog import Watchdog
from omnigate.text import reason_of

CONFIG_PATH = "/internal/config"

#: Answers other than the snapshot are a few numbers or an error envelope.
MAX_ANSWER_BYTES = 1024 * 1024

#: The control plane is near: the same machine or the same network.
CONNECT_SECONDS = 5.0

#: A snapshot is built from memory; one that takes longer is better asked for again.
GET_SECONDS = 10.0

#: A batch is acknowledged after a sync of the disk, behind whatever waits before it.
POST_SECONDS = 30.0

#: Connections that are kept while nothing is asked. A request for a job opens one of its own, and
#: the control plane lets in 512 from all data planes together.
MAX_KEPT = 8


class ControlError(Exception):
    """The control plane gave no answer, or none that can be used; the message says why."""


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
            lambda build: connect(reactor, address, build, CONNECT_SECONDS),
            watchdog,
            max_idle=MAX_KEPT,
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
            head, answer = await Asked(connection, request, max_bytes).done
        except StaleError:
            # It may have been read all the same; only reading twice is always harmless.
            if body is not None:
                raise
            connection = await self._pool.open()
            head, answer = await Asked(connection, request, max_bytes).done
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
