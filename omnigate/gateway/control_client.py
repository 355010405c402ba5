"""The data plane's calls to the control plane.

One address, one credential, bounded answers and bounded time. What an answer means is the
business of the caller; here only its not coming is an error.
"""

from typing import Any, Never

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectionRefusedError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeoutError
from twisted.internet.interfaces import IConsumer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import (
    Agent,
    BrowserLikePolicyForHTTPS,
    HTTPConnectionPool,
    ResponseDone,
    ResponseFailed,
    _HTTP11ClientFactory,
)
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IBodyProducer, IPolicyForHTTPS, IResponse
from zope.interface import implementer

from omnigate import __version__
from omnigate.config.snapshot import MAX_SNAPSHOT_BYTES
from omnigate.protocols.addresses import parse_address
from omnigate.text import one_line

CONFIG_PATH = "/internal/config"

#: Answers other than the snapshot are a few numbers or an error envelope.
MAX_ANSWER_BYTES = 1024 * 1024

#: The control plane is near: the same machine or the same network.
CONNECT_SECONDS = 5.0

#: A snapshot is built from memory; one that takes longer is better asked for again.
GET_SECONDS = 10.0

#: A batch is acknowledged after a sync of the disk, behind whatever waits before it.
POST_SECONDS = 30.0

#: Kept connections: the poll and the delivery, each its own.
_CONNECTIONS = 2

#: Below the time after which a twisted.web server closes an idle connection (60 s), so that a
#: batch is not sent into one that is just being closed.
_IDLE_SECONDS = 30


class ControlError(Exception):
    """The control plane gave no answer, or none that can be used; the message says why."""


class _QuietFactory(_HTTP11ClientFactory):
    """Makes connections without two lines in the log for each.

    While the control plane is away there is one for every poll and every delivery.
    """

    noisy = False


class ControlClient:
    """Sends requests to ``/internal/*`` of one control plane."""

    def __init__(
        self,
        reactor: Any,
        url: str,
        token: str,
        tls_policy: IPolicyForHTTPS | None = None,
    ) -> None:
        """Take the address and the credential; nothing is opened yet.

        :param url: ``OMNIGATE_CONTROL_URL``; a path in it stands before ours.
        :param tls_policy: whom to trust for an ``https`` address; the platform's authorities
            where none is given.
        :raises omnigate.protocols.connector.AddressError: the URL cannot be used.
        """
        address = parse_address(url)
        self._base = f"{address.scheme}://".encode() + address.authority
        self._base += address.base_path.encode("ascii")
        self._token = token.encode("utf-8")
        self._reactor = reactor
        self._config_tag: bytes | None = None
        self._config = b""
        self._pool = HTTPConnectionPool(reactor)
        self._pool.maxPersistentPerHost = _CONNECTIONS
        self._pool.cachedConnectionTimeout = _IDLE_SECONDS
        self._pool._factory = _QuietFactory
        self._agent = Agent(
            reactor,
            contextFactory=tls_policy or _platform_policy(),
            connectTimeout=CONNECT_SECONDS,
            pool=self._pool,
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

    def close(self) -> Deferred[None]:
        """Close the kept connections."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

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
        except Exception as error:
            if isinstance(_innermost(error), CancelledError):
                raise CancelledError from None
            where = self._base.decode("ascii")
            raise ControlError(f"no answer from {where}: {_words(error)}") from error

    async def _request(self, method: bytes, path: str, body: bytes | None) -> tuple[int, bytes]:
        headers = Headers(
            {
                b"x-omnigate-internal": [self._token],
                b"user-agent": [f"omnigate-data/{__version__}".encode("ascii")],
                b"accept": [b"application/json"],
            }
        )
        producer = None
        if body is not None:
            headers.setRawHeaders(b"content-type", [b"application/json"])
            producer = _Bytes(body)
        if path == CONFIG_PATH and self._config_tag is not None:
            headers.setRawHeaders(b"if-none-match", [self._config_tag])
        response = await self._agent.request(
            method, self._base + path.encode("ascii"), headers, producer
        )
        if path != CONFIG_PATH:
            return response.code, await _read(response, MAX_ANSWER_BYTES)
        answer = await _read(response, MAX_SNAPSHOT_BYTES)
        if response.code == 304 and self._config_tag is not None:
            return 200, self._config
        if response.code == 200:
            self._config_tag = response.headers.getRawHeaders(b"etag", [None])[0]
            self._config = answer
        return response.code, answer


def _late(_result: object, seconds: float) -> Never:
    raise ControlError(f"the control plane did not answer within {seconds:g} s")


def _platform_policy() -> IPolicyForHTTPS:
    policy: IPolicyForHTTPS = BrowserLikePolicyForHTTPS()
    return policy


def _read(response: IResponse, max_bytes: int) -> Deferred[bytes]:
    """Read a body that may not be longer than ``max_bytes``."""
    reader = _Reader(max_bytes)
    if response.length is not UNKNOWN_LENGTH and response.length > max_bytes:
        reader.refuse()
    response.deliverBody(reader)
    return reader.done


class _Reader(Protocol):
    """Collects a body up to a bound and then closes the connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._length = 0
        self._over = False
        self.done: Deferred[bytes] = Deferred(lambda _: self._give_up())

    def refuse(self) -> None:
        """Give up on a body that is too long."""
        self._over = True
        self._pieces.clear()
        error = ControlError(f"the control plane's answer is longer than {self._max_bytes} bytes")
        self.done.errback(error)

    def dataReceived(self, data: bytes) -> None:
        """Keep a piece, within the bound."""
        self._length += len(data)
        if not self._over and self._length <= self._max_bytes:
            self._pieces.append(data)
            return
        if not self._over:
            self.refuse()
        self._give_up()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell of the end, unless it was told."""
        if self._over:
            return
        if isinstance(reason.value, ResponseDone):
            self.done.callback(b"".join(self._pieces))
        else:
            # An answer framed by the end of its connection cannot be told from a cut one.
            self.done.errback(reason)

    def _give_up(self) -> None:
        self._over = True
        if self.transport is not None:
            self.transport.loseConnection()


@implementer(IBodyProducer)
class _Bytes:
    """A request body in memory."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:  # noqa: N802
        """Write it whole; it is one batch at most."""
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Nothing is left to pause."""

    def resumeProducing(self) -> None:
        """Nothing is left to resume."""

    def stopProducing(self) -> None:
        """Nothing is left to stop."""


def _innermost(error: BaseException) -> BaseException:
    """Return the reason of a cut answer, which Twisted wraps in a list."""
    if isinstance(error, ResponseFailed) and error.reasons:
        reason: BaseException = error.reasons[0].value
        return reason
    return error


def _words(error: BaseException) -> str:
    """Name a failure in a line."""
    error = _innermost(error)
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is it running, and is OMNIGATE_CONTROL_URL right?"
    if isinstance(error, DNSLookupError):
        return "its host name cannot be resolved"
    if isinstance(error, ConnectTimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return one_line(str(error), 200) or type(error).__name__
