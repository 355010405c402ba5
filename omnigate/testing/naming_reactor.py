"""A reactor in memory that also knows names, for whatever connects to a host by its name."""

from collections.abc import Mapping, Sequence

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from twisted.internet.testing import MemoryReactorClock
from zope.interface import implementer


@implementer(IHostResolution)
class _Resolution:
    """A resolution that is over before anybody can cancel it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nothing is left to cancel."""


@implementer(IHostnameResolver)
class TableResolver:
    """A resolver over a table, which answers at once; names that are not in it have no address."""

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        """Take the table: the addresses of each name."""
        self.names = dict(names)

    def resolveHostName(  # noqa: N802 - a door of Twisted's, as are its arguments
        self,
        resolutionReceiver: IResolutionReceiver,  # noqa: N803
        hostName: str,  # noqa: N803
        portNumber: int = 0,  # noqa: N803
        addressTypes: object = None,  # noqa: N803
        transportSemantics: str = "TCP",  # noqa: N803
    ) -> IHostResolution:
        """Tell the receiver all there is to tell."""
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        for host in self.names.get(hostName, ()):
            kind = IPv6Address if ":" in host else IPv4Address
            resolutionReceiver.addressResolved(kind("TCP", host, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


@implementer(IReactorPluggableNameResolver)
class NamingReactor(MemoryReactorClock):
    """Twisted's reactor in memory, with a clock that is advanced by hand and a table of names."""

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        """Take the table of names."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.nameResolver: IHostnameResolver = TableResolver(names)

    def installNameResolver(self, resolver: IHostnameResolver) -> IHostnameResolver:  # noqa: N802
        """Put another resolver in and return the old one."""
        old, self.nameResolver = self.nameResolver, resolver
        return old
