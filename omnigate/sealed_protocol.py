"""TLS that takes little from the kernel at once, whatever size of records the peer chooses.

A record may hold a single byte, and Twisted gives the content of each to the protocol above in a
call of its own: of 64 KiB, as much as is read of a plain connection, nearly 3,000 records may come,
and hold the reactor for 20 to 25 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import ITransport
from twisted.protocols.tls import TLSMemoryBIOFactory

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
