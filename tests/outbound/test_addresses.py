"""The guard: the golden cases, and the table written a second time, slowly."""

import ipaddress
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.outbound.addresses import AddressGuard

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "jobs" / "vectors" / "ssrf.json").read_text("utf-8")
)

# First and last address of each range that is closed, in bits and pieces of text: an oracle that
# shares no notation with the table.
CLOSED_4 = [
    "0.0.0.0-0.255.255.255",
    "10.0.0.0-10.255.255.255",
    "100.64.0.0-100.127.255.255",
    "127.0.0.0-127.255.255.255",
    "168.63.129.16-168.63.129.16",
    "169.254.0.0-169.254.255.255",
    "172.16.0.0-172.31.255.255",
    "192.0.0.0-192.0.0.255",
    "192.0.2.0-192.0.2.255",
    "192.31.196.0-192.31.196.255",
    "192.52.193.0-192.52.193.255",
    "192.88.99.0-192.88.99.255",
    "192.168.0.0-192.168.255.255",
    "192.175.48.0-192.175.48.255",
    "198.18.0.0-198.19.255.255",
    "198.51.100.0-198.51.100.255",
    "203.0.113.0-203.0.113.255",
    "224.0.0.0-255.255.255.255",
]
CLOSED_6 = [
    "::-1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001::-2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "2002::-2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:8000::-2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
    "3ffe::-3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def slowly(address: bytes) -> bool:
    """Judge by comparing with the ends of ranges, as bytes."""
    for text in CLOSED_4 if len(address) == 4 else CLOSED_6:
        first, last = map(packed, text.split("-"))
        if first <= address <= last:
            return False
    return len(address) == 4 or address.hex()[16:24] not in ("00005efe", "02005efe")


#: The ends of every range and what lies next to them, where a slip would show.
EDGES = [
    (int.from_bytes(packed(end), "big") + step).to_bytes(len(packed(end)), "big")
    for text in CLOSED_4 + CLOSED_6
    for end in text.split("-")
    for step in (-1, 0, 1)
    if 0 <= int.from_bytes(packed(end), "big") + step < 256 ** len(packed(end))
]


class GuardTests(SynchronousTestCase):
    guard = AddressGuard()

    def test_golden_cases(self) -> None:
        """What must be refused is refused, and what must not is not."""
        for text in CASES["refuse_addresses"]:
            self.assertFalse(self.guard.allowed(packed(text)), text)
        for text in CASES["allow_addresses"]:
            self.assertTrue(self.guard.allowed(packed(text)), text)

    def test_edges(self) -> None:
        """The ends of every range agree with the oracle."""
        for address in EDGES:
            self.assertEqual(self.guard.allowed(address), slowly(address), address.hex())

    @given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16))
    def test_any_address(self, address: bytes) -> None:
        """Any address agrees with the oracle."""
        self.assertEqual(self.guard.allowed(address), slowly(address))

    @given(
        st.binary(min_size=14, max_size=14),
        st.sampled_from([b"\x20\x01", b"\x26\x20", b"\x3f\xff"]),
    )
    def test_any_address_within_what_is_given_out(self, rest: bytes, front: bytes) -> None:
        """So does any in the public part of IPv6, where the exceptions lie."""
        self.assertEqual(self.guard.allowed(front + rest), slowly(front + rest))

    def test_other_lengths(self) -> None:
        """What is no address is not allowed."""
        for size in (0, 3, 5, 15, 17):
            self.assertFalse(self.guard.allowed(b"\x08" * size))

    def test_allow_opens(self) -> None:
        """A network of the operator's is open, and nothing beside it."""
        guard = AddressGuard(["10.1.2.0/24", "fd00:1::/32", "127.0.0.1/32"])
        for text in ("10.1.2.0", "10.1.2.255", "fd00:1::7", "127.0.0.1", "8.8.8.8"):
            self.assertTrue(guard.allowed(packed(text)), text)
        for text in ("10.1.3.0", "10.1.1.255", "fd00:2::7", "127.0.0.2", "::ffff:10.1.2.3"):
            self.assertFalse(guard.allowed(packed(text)), text)

    def test_refuse_closes_and_wins(self) -> None:
        """A network that is closed is so though it is public, and though it is opened too."""
        guard = AddressGuard(["10.0.0.0/8"], ["10.1.0.0/16", "8.8.0.0/16", "2606:4700::/32"])
        for text in ("10.1.0.1", "8.8.8.8", "2606:4700:4700::1111"):
            self.assertFalse(guard.allowed(packed(text)), text)
        for text in ("10.2.0.1", "8.9.8.8", "2606:4701::1"):
            self.assertTrue(guard.allowed(packed(text)), text)

    def test_one_family_says_nothing_about_the_other(self) -> None:
        """All of IPv4 opened leaves IPv6 as it was, and the other way round."""
        guard = AddressGuard(["0.0.0.0/0"])
        self.assertTrue(guard.allowed(packed("127.0.0.1")))
        self.assertFalse(guard.allowed(packed("::1")))
        self.assertTrue(AddressGuard(["::/0"]).allowed(packed("::1")))

    def test_no_network(self) -> None:
        """What is no network is told at once."""
        for text in ("10.0.0.1/8", "ten", ""):
            self.assertRaises(ValueError, AddressGuard, [text])
