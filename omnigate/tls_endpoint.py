"""The endpoint string ``https:``, a port with TLS whose certificate is renewed while it is served.

Twisted finds :class:`TlsServerParser` through ``twisted/plugins``. The port is one of TCP, or one
that systemd hands over::

    https:8443:cert=/etc/omnigate/tls/fullchain.pem:key=/etc/omnigate/tls/privkey.pem
    https:8443:interface=10.0.0.5:cert=…:key=…
    https:systemd:domain=INET:name=public:cert=…:key=…

``key`` may be left out where the certificate's file holds the key too. Files that cannot be
served are told by a :class:`CertificateError` right away. (``tls:`` is Twisted's own in its newer
versions: it takes a folder, and goes on serving a certificate that was replaced.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocolFactory,
    IStreamServerEndpoint,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import IPlugin
from zope.interface import implementer

if TYPE_CHECKING:
    from omnigate.certificate_files import CertificateFiles

PREFIX: Final = "https"

#: Connections that the kernel keeps until they are accepted, the same as in the socket unit.
BACKLOG: Final = 4096

_SYSTEMD: Final = "systemd"
_MOST_PORT: Final = 65535
_INHERITED: Final = re.compile(rf"^{PREFIX}:{_SYSTEMD}(?=:|$)")
_OF_SYSTEMD: Final = re.compile(r"(?<!\\):(?:domain|name|index)=(?:[^:\\]|\\.)*")

_REMEDY: Final = (
    "write it like https:8443:cert=/path/fullchain.pem:key=/path/privkey.pem, or "
    "https:systemd:name=public:cert=…:key=…"
)


class CertificateError(Exception):
    """A certificate cannot be served; the text names the file and the remedy."""


@implementer(IStreamServerEndpoint)
class TlsEndpoint:
    """A listener with TLS before another one.

    :ivar certificate: what is served; whoever listens has it looked at and read again.
    """

    def __init__(self, inner: IStreamServerEndpoint, certificate: CertificateFiles) -> None:
        self._inner = inner
        self.certificate = certificate

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:  # noqa: N803
        """Listen, and speak TLS on each connection."""
        from omnigate.certificate_files import TlsFactory

        factory: Any = TlsFactory(self.certificate, False, protocolFactory)
        return self._inner.listen(factory)


@implementer(IPlugin, IStreamServerEndpointStringParser)
class TlsServerParser:
    """Reads the parts of an endpoint string."""

    prefix = PREFIX

    def parseStreamServer(  # noqa: N802
        self, reactor: Any, *arguments: Any, **parts: Any
    ) -> TlsEndpoint:
        """Return the endpoint.

        :raises ValueError: a part is wrong or is lacking.
        :raises CertificateError: the files are no pair that can be served.
        """
        # Twisted reads this module at every start, and most need no OpenSSL so early.
        from omnigate.certificate_files import CertificateFiles

        certificate = parts.pop("cert", "")
        key = parts.pop("key", "") or certificate
        if not certificate:
            raise ValueError(f"it has no cert=; {_REMEDY}")
        if len(arguments) != 1:
            raise ValueError(f"it has not one port before its other parts; {_REMEDY}")
        if arguments[0] == _SYSTEMD:
            inner = _handed_over(reactor, parts)
        else:
            inner = _tcp(reactor, arguments[0], parts)
        return TlsEndpoint(inner, CertificateFiles(certificate, key, reactor))


def inherited(listen: str) -> str:
    """Return an endpoint string for a process that has its socket from its parent.

    Of an ``https:`` string nothing is left of systemd; any other one is returned as it is.
    """
    text, found = _INHERITED.subn(f"{PREFIX}:0", listen)
    return _OF_SYSTEMD.sub("", text) if found else listen


def _tcp(reactor: Any, text: str, parts: dict[str, str]) -> IStreamServerEndpoint:
    from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint

    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_PORT):
        raise ValueError(f'"{text}" is no port from 0 to {_MOST_PORT}; {_REMEDY}')
    interface = parts.pop("interface", "")
    backlog = parts.pop("backlog", str(BACKLOG))
    _nothing_left(parts)
    if not (backlog.isascii() and backlog.isdigit()):
        raise ValueError(f'backlog "{backlog}" is no number of connections')
    kind = TCP6ServerEndpoint if ":" in interface else TCP4ServerEndpoint
    return kind(reactor, int(text), int(backlog), interface)


def _handed_over(reactor: Any, parts: dict[str, str]) -> IStreamServerEndpoint:
    from twisted.internet.endpoints import quoteStringArgument, serverFromString

    named = {part: parts.pop(part) for part in ("name", "index") if part in parts}
    domain = parts.pop("domain", "INET")
    _nothing_left(parts)
    if len(named) != 1:
        raise ValueError(f"it has neither name= nor index= of the socket; {_REMEDY}")
    ((part, value),) = named.items()
    endpoint: IStreamServerEndpoint = serverFromString(
        reactor,
        f"{_SYSTEMD}:domain={quoteStringArgument(domain)}:{part}={quoteStringArgument(value)}",
    )
    return endpoint


def _nothing_left(parts: dict[str, str]) -> None:
    if parts:
        raise ValueError(f'"{min(parts)}=" is unknown here; {_REMEDY}')
