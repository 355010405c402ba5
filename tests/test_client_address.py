"""The address of a client behind proxies, and lists of networks."""

import ipaddress
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.client_address import (
    MAX_HOPS,
    MAX_NETWORKS,
    AddressFaultError,
    Networks,
    TrustedProxies,
    plain,
)

# Few bits, so that networks and addresses meet.
fours = st.builds(lambda n: ipaddress.IPv4Address((10 << 24) + n), st.integers(0, 31))
sixes = st.builds(lambda n: ipaddress.IPv6Address((0x20010DB8 << 96) + n), st.integers(0, 31))
addresses = st.one_of(fours, sixes)


@st.composite
def network_texts(draw: st.DrawFn) -> str:
    """A network of either kind, small or huge."""
    address = draw(addresses)
    most = address.max_prefixlen
    prefix = draw(st.one_of(st.integers(most - 6, most), st.integers(1, most)))
    return str(ipaddress.ip_network((address, prefix), strict=False))


class NetworkTests(SynchronousTestCase):
    """One network."""

    def test_one_spelling(self) -> None:
        """Whatever is written, one text is kept for it."""
        for text, kept in (
            ("192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.7/32", "192.0.2.7/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("2001:DB8:0::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
            ("::/0", "::/0"),
        ):
            self.assertEqual(Networks([text]).texts, (kept,))

    def test_host_bits(self) -> None:
        """The network that is meant is named."""
        error = self.assertRaises(AddressFaultError, Networks, ["10.1.2.3/8"])
        self.assertIn("write the network as 10.0.0.0/8", str(error))
        error = self.assertRaises(AddressFaultError, Networks, ["::ffff:10.1.2.3/104"])
        self.assertIn("10.0.0.0/8", str(error))

    @given(st.text(max_size=30))
    @settings(max_examples=200, deadline=None)
    def test_anything_else(self, text: str) -> None:
        """A network or a fault of one line, and nothing else."""
        try:
            [kept] = Networks([text]).texts
        except AddressFaultError as fault:
            self.assertEqual(len(str(fault).splitlines()), 1)
        else:
            self.assertEqual(Networks([kept]).texts, (kept,))


class NetworksTests(SynchronousTestCase):
    """Several networks."""

    @given(st.lists(network_texts(), max_size=6), addresses)
    @settings(max_examples=300, deadline=None)
    def test_against_one_after_the_other(
        self, texts: list[str], address: ipaddress.IPv4Address | ipaddress.IPv6Address
    ) -> None:
        """The sorted spans hold what any of the networks does."""
        wanted = any(address in ipaddress.ip_network(text) for text in texts)
        held = Networks(texts)
        self.assertEqual(held.holds(str(address)), wanted)
        if address.version == 4:
            self.assertEqual(held.holds(f"::ffff:{address}"), wanted)

    def test_kinds_stay_apart(self) -> None:
        """All of IPv6 is nobody of IPv4, and the other way round."""
        self.assertFalse(Networks(["::/0"]).holds("10.0.0.1"))
        self.assertFalse(Networks(["0.0.0.0/0"]).holds("::1"))
        self.assertTrue(Networks(["::/0"]).holds("::1"))
        self.assertFalse(Networks(["::/0"]).holds("::ffff:10.0.0.1"))

    def test_what_is_no_address(self) -> None:
        """It is in no network, however wide; a zone does not count."""
        every = Networks(["0.0.0.0/0", "::/0"])
        for text in ("", "unix", "10.0.0", "10.0.0.1/32", "010.0.0.1", "1" * 10_000, "\0"):
            self.assertFalse(every.holds(text), text[:20])
        self.assertTrue(Networks(["fe80::/64"]).holds("fe80::1%eth0"))
        self.assertEqual(plain("fe80::1%eth0"), "fe80::1")
        self.assertEqual(plain("nowhere"), "nowhere")


class ParseTests(SynchronousTestCase):
    """The list of trusted proxies, as it is written."""

    def test_lists(self) -> None:
        """Addresses, networks and the word, in any order; nothing trusts nobody."""
        proxies = TrustedProxies.parse(" 10.0.0.0/8,unix , ::1")
        self.assertEqual(proxies, TrustedProxies(("10.0.0.0/8", "::1/128"), True))
        self.assertTrue(proxies.trusts("10.1.2.3"))
        self.assertTrue(proxies.trusts("::ffff:10.1.2.3"))
        self.assertTrue(proxies.trusts(""))
        self.assertFalse(proxies.trusts("192.0.2.1"))
        self.assertFalse(TrustedProxies.parse("  "))
        self.assertFalse(TrustedProxies().trusts(""))
        self.assertTrue(TrustedProxies.parse("unix"))

    def test_faults(self) -> None:
        """Names, gaps, everybody, and too many."""
        many = ",".join(["10.0.0.1"] * (MAX_NETWORKS + 1))
        for text in ("localhost", "10.0.0.0/8,,::1", "10.0.0.0/8,", "0.0.0.0/0", "::/0", many):
            self.assertRaises(AddressFaultError, TrustedProxies.parse, text)
        TrustedProxies.parse(many.rpartition(",")[0])


class ClientTests(SynchronousTestCase):
    """The client of a request."""

    def client(self, peer: str, *lines: bytes, trusted: str = "10.0.0.0/8, unix") -> str:
        """The client's address."""
        return TrustedProxies.parse(trusted).client(peer, lines)

    def test_who_is_not_trusted_says_nothing(self) -> None:
        """Whatever header a client sends itself."""
        self.assertEqual(self.client("192.0.2.1", b"203.0.113.9"), "192.0.2.1")
        self.assertEqual(self.client("10.0.0.1", b"203.0.113.9", trusted=""), "10.0.0.1")
        self.assertEqual(self.client("", b"203.0.113.9", trusted="10.0.0.1"), "")

    def test_the_right_most_that_is_not_trusted(self) -> None:
        """What stands left of it is the client's own word."""
        for lines in (
            (b"1.1.1.1, 203.0.113.9, 10.0.0.2",),
            (b"1.1.1.1", b"203.0.113.9,10.0.0.2"),
            (b"1.1.1.1,203.0.113.9", b"10.0.0.2"),
            (b"10.9.9.9, 203.0.113.9:4711 ,\t10.0.0.2",),
        ):
            self.assertEqual(self.client("10.0.0.1", *lines), "203.0.113.9", lines)
            self.assertEqual(self.client("", *lines), "203.0.113.9", lines)
        self.assertEqual(self.client("10.0.0.1", b"[2001:DB8::9]:4711"), "2001:db8::9")
        self.assertEqual(self.client("10.0.0.1", b"[2001:db8::9]"), "2001:db8::9")
        self.assertEqual(self.client("10.0.0.1", b"2001:db8::9"), "2001:db8::9")

    def test_where_all_are_trusted(self) -> None:
        """The one farthest away is as far as one can tell."""
        self.assertEqual(self.client("10.0.0.1", b"10.0.0.3, 10.0.0.2"), "10.0.0.3")
        self.assertEqual(self.client("10.0.0.1"), "10.0.0.1")
        self.assertEqual(self.client(""), "")

    def test_garbage_ends_the_walk(self) -> None:
        """The last good address stands, and nothing left of garbage is believed."""
        for garbage in (b"unknown", b"", b"_x", b"10.0.0", b"[::1", b"1.1.1.1:", b"\xe9"):
            line = b"203.0.113.9, " + garbage + b", 10.0.0.2"
            self.assertEqual(self.client("10.0.0.1", line), "10.0.0.2", garbage)
            self.assertEqual(self.client("10.0.0.1", garbage), "10.0.0.1", garbage)

    def test_nothing_long_is_kept(self) -> None:
        """Of entries that are too long to be addresses nothing stays, however many come."""
        proxies = TrustedProxies.parse("10.0.0.0/8")
        hops = b", 10.0.0.1" * MAX_HOPS
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for number in range(200):
            for head in (b"x%d-%b", b"%d.%b", b"[%d:%b]:80"):
                for tail in (b", 10.0.0.1", hops):
                    line = head % (number, b"1" * 10_000) + tail
                    self.assertEqual(proxies.client("10.0.0.1", [line]), "10.0.0.1")
        kept, _ = tracemalloc.get_traced_memory()
        self.assertLess(kept, 200_000)

    def test_a_bound(self) -> None:
        """A chain of proxies without an end is followed so far and no farther."""
        chain = [b"10.1.0.%d" % n for n in range(200)]
        wanted = chain[-MAX_HOPS].decode()
        self.assertEqual(self.client("10.0.0.1", b",".join(chain)), wanted)
        self.assertEqual(self.client("10.0.0.1", *chain), wanted)

    @given(
        st.lists(st.one_of(fours, sixes, st.just("x")), max_size=8),
        st.lists(network_texts(), max_size=3),
        st.integers(1, 3),
    )
    @settings(max_examples=300, deadline=None)
    def test_against_a_plain_reading(
        self, entries: list[object], texts: list[str], lines: int
    ) -> None:
        """However the header is cut into lines, the result is that of the rule as it is written."""
        proxies = TrustedProxies(tuple(texts))
        wanted = peer = "10.0.0.1"
        for entry in reversed(entries):
            if not proxies.trusts(wanted) or entry == "x":
                break
            wanted = str(entry)
        spelled = [str(entry).encode() for entry in entries]
        size = -(-len(spelled) // lines) or 1
        cut = [b", ".join(spelled[at : at + size]) for at in range(0, len(spelled), size)]
        self.assertEqual(proxies.client(peer, cut), wanted)

    @given(st.lists(st.binary(max_size=60), max_size=4))
    @settings(max_examples=200, deadline=None)
    def test_any_bytes(self, lines: list[bytes]) -> None:
        """An address comes out, whatever a caller sends through the proxy."""
        ipaddress.ip_address(self.client("10.0.0.1", *lines))
