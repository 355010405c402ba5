"""TLS that takes little from the kernel at once, and knows an end in order from a break.

A record may hold a single byte, and Twisted gives the content of each to the protocol above in a
call of its own: of 64 KiB, as much as is read of a plain connection, nearly 3,000 records may come,
and hold the reactor for 20 to 25 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import ITransport
from twisted.internet.main import CONNECTION_DONE
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from twisted.protocols.tls import TLSMemoryBIOProtocol as _Protocol
else:
    # Newer versions of Twisted have one that also gathers small writes.
    _Protocol = TLSMemoryBIOFactory.protocol

#: Bytes read at once: two records of the usual size, or about 1,200 of the smallest.
READ_BYTES: Final = 32 * 1024


class SealedProtocol(_Protocol):
    """TLS on one connection; see the module's docstring."""

    def makeConnection(self, transport: ITransport) -> None:
        """Have a connection of TCP read less at once."""
        if isinstance(transport, FileDescriptor):
            transport.bufferSize = READ_BYTES
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def _tlsShutdownFinished(self, reason: Failure | None) -> None:  # noqa: N802
        """Have the end be one in order where the peer has said so (RFC 8446, 6.1).

        It need not wait for our answer to that, which then meets a connection that is closed, and
        makes the end look like a break.
        """
        if reason is None and self._reason is None:
            self._reason = Failure(CONNECTION_DONE)
        super()._tlsShutdownFinished(reason)  # type: ignore[no-untyped-call]
