"""Opens connections to upstreams: plain, verified TLS, and through a CONNECT proxy.

:func:`connect` turns an address (:mod:`omnigate.protocols.addresses`) into a connected protocol.
With TLS the Deferred fires after the handshake, not after the TCP connection, so that a
certificate nobody trusts is a connection that failed and not one that was lost.

Certificates are verified with the platform's authorities or those of ``ca_file``, and must be
made out to the host (RFC 9525), be it a name or an IP address. There is no switch that turns
this off.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, Never

from OpenSSL.crypto import Error as CertificateError
from OpenSSL.SSL import Error as TLSError
from service_identity import VerificationError
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
)
from twisted.internet.error import (
    ConnectingCancelledError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionRefusedError,
    DNSLookupError,
)
from twisted.internet.error import TimeoutError as ConnectTimeoutError
from twisted.internet.interfaces import (
    IAddress,
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    ITCPTransport,
    ITransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import (
    Certificate,
    TLSVersion,
    optionsForClientTLS,
    trustRootFromCertificates,
)
from twisted.internet.tcp import Connection
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from omnigate.named_files import open_at_once
from omnigate.protocols.addresses import UpstreamAddress, authority
from omnigate.sealed_protocol import SealedProtocol
from omnigate.text import one_line, reason_of

#: What a proxy may say before its empty line. Real ones say under 1 KiB; the same bound as for
#: any head we read, halved, since nothing of it is used but the status.
MAX_PROXY_HEAD_BYTES = 16 * 1024

#: What of a handshake may wait for its turn: OpenSSL takes chains of certificates of 100 KiB.
MAX_WAITING_BYTES = 256 * 1024

#: What of a proxy's refusal is shown in an error: a status line fits.
_SHOWN_CHARS = 120

#: Longest ``ca_file`` that is read: the whole Mozilla bundle is about 220 KiB.
MAX_CA_FILE_BYTES = 4 * 1024 * 1024

#: Addresses whose TLS contexts are kept. A config holds tens of upstreams; one that was
#: changed leaves its old context behind until it is pushed out.
_KEPT_CONTEXTS = 256

_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----")
_PROXY_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")


class UpstreamConnectError(Exception):
    """No connection came about.

    The message is one line for logs, and names the host. ``outcome`` is the word that an
    :class:`~omnigate.events.AttemptRecord` carries: ``connect_error`` or ``timeout``. In either
    case nothing of a request was sent.
    """

    def __init__(self, message: str, outcome: str = "connect_error") -> None:
        super().__init__(message)
        self.outcome = outcome


class _StageError(Exception):
    """Something of ours on the way to a connection went wrong; the message says what."""


def _trusted(ca_file: str) -> Any:
    """Read the authorities of a PEM file, as a trust root of Twisted's.

    :raises _StageError: naming the file, when it cannot be read or holds no certificate.
    """
    try:
        with open(ca_file, "rb", opener=open_at_once) as stream:
            text = stream.read(MAX_CA_FILE_BYTES + 1)
    except OSError as error:
        raise _StageError(f"cannot read ca_file {ca_file}: {error.strerror}") from error
    if len(text) > MAX_CA_FILE_BYTES:
        raise _StageError(f"ca_file {ca_file} is longer than {MAX_CA_FILE_BYTES} bytes")
    try:
        certificates = [Certificate.loadPEM(block) for block in _CERTIFICATE.findall(text)]
    except (CertificateError, ValueError) as error:
        raise _StageError(f"ca_file {ca_file} holds a damaged certificate") from error
    if not certificates:
        raise _StageError(f"ca_file {ca_file} holds no certificate in PEM form")
    return trustRootFromCertificates(certificates)


@functools.lru_cache(maxsize=_KEPT_CONTEXTS)
def _tls_options(host: str, ca_file: str | None) -> IOpenSSLClientConnectionCreator:
    """Make what a TLS client needs for one host, once: loading authorities takes milliseconds.

    A failure is not kept, so a ``ca_file`` that comes to be is found by the next connection.
    """
    return optionsForClientTLS(
        host,
        trustRoot=None if ca_file is None else _trusted(ca_file),
        acceptableProtocols=[b"http/1.1"],
        extraCertificateOptions={"raiseMinimumTo": TLSVersion.TLSv1_2},
    )


def forget_tls_contexts() -> None:
    """Have every ``ca_file`` read again at the next connection that needs it."""
    _tls_options.cache_clear()


#: Calls what it is given in one of the next turns of the reactor, few in each: the steps of a
#: handshake take up to 3 ms, and the answers of a hundred servers may come at once.
Pace = Callable[[Callable[[], None]], object]


class _Stage(Protocol):
    """A protocol that does something first and then stands aside for the next one.

    ``done`` fires with nothing when its part is over; until then a lost connection fails it.
    """

    def __init__(self) -> None:
        self.done: Deferred[None] = Deferred(lambda _: self.abandon())
        self._finished = False
        self._next: IProtocol | None = None

    def hand_over(self, protocol: IProtocol, transport: ITransport) -> None:
        """Let another protocol have the connection from here on."""
        self._finished = True
        self._next = protocol
        _speak_to(transport, protocol)
        protocol.makeConnection(transport)

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            # every stream transport has it; ITransport just does not say so
            self.transport.abortConnection()  # type: ignore[attr-defined]

    def abandon(self) -> None:
        """Close the connection, and tell nobody: whoever asked has been told already."""
        self._finished = True
        self.abort()

    def _finish(self, failure: Failure | None = None) -> None:
        if not self._finished:
            self._finished = True
            if failure is None:
                self.done.callback(None)
            else:
                self.done.errback(failure)

    def dataReceived(self, data: bytes) -> None:
        """Pass bytes to the next protocol."""
        if self._next is not None:
            self._next.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell whoever has the connection now."""
        if self._next is not None:
            self._next.connectionLost(reason)
        self._finish(reason)


class _Tunnel(_Stage):
    """The bottom of a connection: asks a proxy to CONNECT, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._head = bytearray()
        self._pace: Pace | None = None
        self._beginning: ITransport | None = None
        self._waiting = b""  # came, and waits for its turn
        self._queued = False
        self._lost: Failure | None = None

    def hand_over_at(self, pace: Pace, protocol: IProtocol, transport: ITransport) -> None:
        """Let another protocol have the connection, but its beginning and each read in turns."""
        self._finished = True
        self._next = protocol
        self._beginning = transport
        self._pace = pace
        self._deliver_soon()

    def let_go(self) -> None:
        """Nothing that comes from now on waits for a turn."""
        if self._pace is not None:
            self._pace = None
            assert self.transport is not None
            assert self._next is not None
            _speak_to(self.transport, self._next)

    def abandon(self) -> None:
        """Close the connection, and tell nobody."""
        self._pace = self._next = None
        super().abandon()

    def _deliver_soon(self) -> None:
        if self._pace is not None and not self._queued:
            self._queued = True
            self._pace(self._deliver)

    def _deliver(self) -> None:
        self._queued = False
        following, beginning = self._next, self._beginning
        if following is None:
            return
        if beginning is not None:
            self._beginning = None
            following.makeConnection(beginning)
        elif self._waiting:
            data, self._waiting = self._waiting, b""
            following.dataReceived(data)
        elif self._lost is not None:
            following.connectionLost(self._lost)
            return
        if self._waiting or self._lost is not None:
            self._deliver_soon()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell whoever has the connection now, behind what it has not been told yet."""
        if self._pace is not None:
            self._lost = self._lost or reason
            self._deliver_soon()
        else:
            super().connectionLost(reason)

    def ask(self, address: UpstreamAddress) -> None:
        """Write the CONNECT request (RFC 9110 §9.3.6); ``done`` tells of the answer."""
        target = authority(address.host, address.port)
        assert self.transport is not None
        self.transport.write(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target))

    def dataReceived(self, data: bytes) -> None:
        """Collect the proxy's answer; afterwards pass bytes on."""
        if self._pace is not None:
            if self._lost is None:
                self._waiting += data
            if len(self._waiting) > MAX_WAITING_BYTES:
                self._waiting = b""
                self._lost = Failure(ConnectionAborted())
                self.abort()
            self._deliver_soon()
        elif self._next is not None:
            self._next.dataReceived(data)
        elif not self._finished:
            self._head += data
            self._judge()

    def _judge(self) -> None:
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= MAX_PROXY_HEAD_BYTES:
            return
        status = _PROXY_STATUS.match(self._head)
        if end < 0 or end > MAX_PROXY_HEAD_BYTES:
            fault = f"answered with a head longer than {MAX_PROXY_HEAD_BYTES} bytes"
        elif status is None:
            fault = "did not answer in HTTP/1.1"
        elif status[1][:1] != b"2":
            line = bytes(self._head[: self._head.find(b"\r\n")])
            fault = f'refused: "{one_line(line, _SHOWN_CHARS)}"'
            if status[1] == b"407":
                fault += "; credentials are not sent to proxies: let this machine in without"
        elif len(self._head) > end + 4:
            # Nobody speaks before us: neither TLS nor HTTP/1.1 lets a server begin.
            fault = "sent bytes into the tunnel before anything was asked"
        else:
            self._head.clear()
            self._finish()
            return
        self._head.clear()
        error = _StageError(f"the proxy {fault}")
        self._finish(Failure(error))
        self.abort()


@implementer(IHandshakeListener)
class _Handshake(_Stage):
    """Stands on a TLS transport until the handshake is over."""

    def handshakeCompleted(self) -> None:  # noqa: N802 - a door of Twisted's
        """Called by the TLS transport: the peer is who we wanted."""
        self._finish()


@implementer(IProtocolFactory)
class _Calls:
    """A protocol factory over a plain callable."""

    def __init__(self, call: Callable[[], IProtocol]) -> None:
        self._call = call

    def doStart(self) -> None:
        """Nothing to start."""

    def doStop(self) -> None:
        """Nothing to stop."""

    def buildProtocol(self, addr: IAddress) -> IProtocol:
        """Make one protocol."""
        return self._call()


def _endpoint(reactor: Any, host: str, port: int, timeout_seconds: float) -> IStreamClientEndpoint:
    """Find the endpoint for a host; an IP address needs no resolver and no race of families."""
    if isIPAddress(host):
        return TCP4ClientEndpoint(reactor, host, port, timeout=timeout_seconds)
    if isIPv6Address(host):
        return TCP6ClientEndpoint(reactor, host, port, timeout=timeout_seconds)
    return HostnameEndpoint(reactor, host, port, timeout=timeout_seconds)


def _speak_to(transport: object, protocol: IProtocol) -> None:
    """Have a TCP connection tell ``protocol`` what comes, and nobody in between.

    Whoever was told before would only pass it on, at every read. Transports of other kinds keep
    their ways.
    """
    if isinstance(transport, Connection):
        transport.protocol = protocol


def _prompt(protocol: IProtocol) -> IProtocol:
    """Set the options of a new TCP connection, and take it from the endpoint that made it."""
    transport = getattr(protocol, "transport", None)
    _speak_to(transport, protocol)
    if ITCPTransport.providedBy(transport):
        # Requests are written whole, so waiting to fill a segment only delays their ends; and
        # a pooled connection whose peer vanished should be found out by the kernel.
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
    return protocol


async def _secure(
    reactor: Any,
    tunnel: _Tunnel,
    options: IOpenSSLClientConnectionCreator,
    make: Callable[[], IProtocol],
    pace: Pace | None,
) -> IProtocol:
    """Speak TLS over an open connection and hand it to a new protocol."""
    handshake = _Handshake()
    factory = TLSMemoryBIOFactory(options, True, _Calls(lambda: handshake), clock=reactor)
    factory.protocol = SealedProtocol
    tls = factory.buildProtocol(None)
    assert tls is not None
    assert tunnel.transport is not None
    if pace is None:
        tunnel.hand_over(tls, tunnel.transport)
        await handshake.done
    else:
        tunnel.hand_over_at(pace, tls, tunnel.transport)
        await handshake.done
        tunnel.let_go()
    protocol = make()
    assert handshake.transport is not None
    handshake.hand_over(protocol, handshake.transport)
    return protocol


async def _open(
    reactor: Any,
    address: UpstreamAddress,
    make: Callable[[], IProtocol],
    timeout_seconds: float,
    pace: Pace | None,
) -> IProtocol:
    """Do what :func:`connect` promises, without the overall time limit."""
    proxy = address.proxy
    # first of all, so that a ca_file that is missing costs nobody a connection
    options = _tls_options(address.host, address.ca_file) if address.secure else None
    if proxy is None:
        host, port = address.number or address.host, address.port
    else:
        host, port = proxy.host, proxy.port
    endpoint = _endpoint(reactor, host, port, timeout_seconds)
    if proxy is None and options is None:
        return _prompt(await endpoint.connect(_Calls(make)))
    # a new one each time: the endpoint may race several addresses of one name
    tunnel = _prompt(await endpoint.connect(_Calls(_Tunnel)))
    assert isinstance(tunnel, _Tunnel)
    try:
        if proxy is not None:
            tunnel.ask(address)
            await tunnel.done
        if options is not None:
            return await _secure(reactor, tunnel, options, make, pace)
        protocol = make()
        assert tunnel.transport is not None
        tunnel.hand_over(protocol, tunnel.transport)
        return protocol
    except BaseException:
        tunnel.abandon()
        raise


def _explained(
    error: Exception, address: UpstreamAddress, timeout_seconds: float
) -> tuple[str, str]:
    """Find the words for a failure of any layer, and its outcome."""
    where = authority(address.host, address.port).decode("ascii")
    if address.proxy is not None:
        where += f" through the proxy {authority(address.proxy.host, address.proxy.port).decode()}"
    outcome = "connect_error"
    if isinstance(error, _StageError):
        why = str(error)
    elif isinstance(error, DNSLookupError):
        why = "the host name cannot be resolved"
    elif isinstance(error, ConnectTimeoutError):
        why, outcome = f"no connection within {timeout_seconds:g} s", "timeout"
    elif isinstance(error, ConnectionRefusedError):
        why = "connection refused"
    elif isinstance(error, VerificationError):
        why = "the certificate is made out to another host"
    elif isinstance(error, TLSError):
        why = _explain_tls(error)
    elif isinstance(error, ConnectionDone):
        why = "the peer closed the connection before it was of use"
    else:
        why = reason_of(error, _SHOWN_CHARS)
    return f"cannot connect to {where}: {why}", outcome


def _explain_tls(error: TLSError) -> str:
    """Put OpenSSL's stack of (library, function, reason) into words."""
    stack = error.args[0] if error.args and isinstance(error.args[0], list) else []
    reasons = ", ".join(str(entry[-1]) for entry in stack if entry) or "handshake failed"
    if "certificate verify failed" in reasons:
        return (
            "the certificate was not accepted: its authority is unknown (see ca_file), or it is"
            " expired or not valid yet"
        )
    return f"TLS: {reasons}"


def connect(
    reactor: Any,
    address: UpstreamAddress,
    factory_protocol: Callable[[], IProtocol],
    timeout_seconds: float,
    pace: Pace | None = None,
) -> Deferred[IProtocol]:
    """Connect to an upstream.

    :param reactor: provides names, TCP connections and time.
    :param factory_protocol: makes the protocol; it is connected once everything before it (the
        proxy, the handshake) is done, so its ``connectionMade`` may send a request.
    :param timeout_seconds: for all of it together: name, connection, proxy and handshake.
    :param pace: spreads the work of many handshakes over turns of the reactor; without it each is
        done as its bytes come.
    :return: fires with the connected protocol, or fails with :exc:`UpstreamConnectError`.
        Cancelling it closes what was opened.
    """
    return Deferred.fromCoroutine(
        _within(reactor, address, factory_protocol, timeout_seconds, pace)
    )


async def _within(
    reactor: Any,
    address: UpstreamAddress,
    make: Callable[[], IProtocol],
    timeout_seconds: float,
    pace: Pace | None,
) -> IProtocol:
    """Open a connection within the time limit, and put every failure into one kind."""
    opened = Deferred.fromCoroutine(_open(reactor, address, make, timeout_seconds, pace))
    opened.addTimeout(timeout_seconds, reactor, onTimeoutCancel=_timed_out)
    told: tuple[str, str] | None = None
    try:
        return await opened
    except (CancelledError, ConnectingCancelledError) as error:
        _forget_frames(error)
    except Exception as error:
        told = _explained(error, address, timeout_seconds)
        _forget_frames(error)
    # Out here, so that what went wrong is not kept as the context of what is told.
    if told is None:
        raise CancelledError
    raise UpstreamConnectError(*told)


def _forget_frames(error: BaseException) -> None:
    """Part an error from the frames it passed, which lead back to it.

    They would stay until the collector comes by, and there may be a thousand a second of them
    when an upstream is away.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        behind = seen.__cause__ or seen.__context__
        seen.__cause__ = seen.__context__ = None
        seen = behind


def _timed_out(_result: object, timeout_seconds: float) -> Never:
    raise ConnectTimeoutError
