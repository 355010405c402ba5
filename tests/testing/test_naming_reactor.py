"""The reactor in memory resolves what is in its table."""

from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IHostnameResolver, IReactorPluggableNameResolver
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from omnigate.testing.naming_reactor import NamingReactor, TableResolver


class NamingReactorTests(SynchronousTestCase):
    """What an endpoint makes of it."""

    def setUp(self) -> None:
        """Know one name."""
        self.reactor = NamingReactor({"a.test": ["192.0.2.1", "2001:db8::1"]})

    def test_interfaces(self) -> None:
        """It is what Twisted expects."""
        verifyObject(IReactorPluggableNameResolver, self.reactor)
        verifyObject(IHostnameResolver, self.reactor.nameResolver)

    def test_known(self) -> None:
        """A name in the table is connected to at its addresses."""
        HostnameEndpoint(self.reactor, "a.test", 80).connect(Factory.forProtocol(Protocol))
        self.reactor.advance(1)
        hosts = [client[:2] for client in self.reactor.tcpClients]
        self.assertEqual(hosts, [("192.0.2.1", 80), ("2001:db8::1", 80)])

    def test_unknown(self) -> None:
        """A name that is not fails."""
        attempt = HostnameEndpoint(self.reactor, "b.test", 80).connect(
            Factory.forProtocol(Protocol)
        )
        self.failureResultOf(attempt, DNSLookupError)

    def test_replaced(self) -> None:
        """Another resolver takes the place of the first."""
        first = self.reactor.nameResolver
        second = TableResolver({})
        self.assertIs(self.reactor.installNameResolver(second), first)
        self.assertIs(self.reactor.nameResolver, second)
