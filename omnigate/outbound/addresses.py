"""Which addresses a request may go to whose URL somebody else wrote.

The table is our own, and narrower than what the standard library calls global: that says yes to
multicast, to IPv4 in the clothes of IPv6 and to networks that other machines translate, and its
answers change between versions. Everything that is not plainly a public unicast address of the
Internet is refused (IANA's registries of special purpose addresses; RFC 6890, RFC 4291).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final, TypeAlias

#: Refused of IPv4; everything else is public.
_REFUSED_IPV4: Final = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # behind carriers' NAT; one cloud's metadata lie in it
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's own service on a public address
    "169.254.0.0/16",  # link-local, and the metadata of most clouds
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # relays of 6to4
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)

#: All that is given out of IPv6. Outside lie loopback, IPv4 mapped, compatible and translated
#: (64:ff9b::/96), unique local, link-local, site-local, multicast.
_PUBLIC_IPV6: Final = "2000::/3"

#: Refused within it.
_REFUSED_IPV6: Final = (
    "2001::/23",  # protocol assignments: Teredo, benchmarks, AMT, ORCHID
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: IPv4 inside
    "2620:4f:8000::/48",  # AS112
    "3ffe::/16",  # given back
    "3fff::/20",  # documentation
)

#: Bytes 8 to 11 of an ISATAP address (RFC 5214, 6.1): IPv4 inside.
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")

# A network as what is compared: the prefix of an address, shifted down.
_Prefix: TypeAlias = tuple[int, int]


def _prefixes(networks: Iterable[str]) -> dict[int, tuple[_Prefix, ...]]:
    """Take networks apart by family: those of addresses of 4 and of 16 bytes."""
    prefixes: dict[int, list[_Prefix]] = {4: [], 16: []}
    for network in map(ip_network, networks):
        shift = network.max_prefixlen - network.prefixlen
        prefixes[network.max_prefixlen // 8].append((int(network.network_address) >> shift, shift))
    return {size: tuple(found) for size, found in prefixes.items()}


def _is_in(number: int, prefixes: tuple[_Prefix, ...]) -> bool:
    return any(number >> shift == prefix for prefix, shift in prefixes)


class AddressGuard:
    """Judges addresses, by the table and by what the operator opened and closed.

    :param allow: networks that are open though they are not public (``[outbound] allow``).
    :param refuse: networks that are closed though they are public; they win over ``allow``.
    :raises ValueError: for what is no network.
    """

    def __init__(self, allow: Iterable[str] = (), refuse: Iterable[str] = ()) -> None:
        self._open = _prefixes(allow)
        self._closed = _prefixes(refuse)

    def allowed(self, packed: bytes) -> bool:
        """Whether a connection may be made to an address.

        :param packed: its 4 or 16 bytes; an IPv4 address in 16 bytes is one of IPv6, and refused.
        """
        size = len(packed)
        if size not in (4, 16):
            return False
        number = int.from_bytes(packed, "big")
        if _is_in(number, self._closed[size]):
            return False
        return _is_public(packed, number) or _is_in(number, self._open[size])


_IPV4 = _prefixes(_REFUSED_IPV4)[4]
_IPV6 = _prefixes(_REFUSED_IPV6)[16]
_PUBLIC = _prefixes((_PUBLIC_IPV6,))[16]


def _is_public(packed: bytes, number: int) -> bool:
    if len(packed) == 4:
        return not _is_in(number, _IPV4)
    return _is_in(number, _PUBLIC) and not _is_in(number, _IPV6) and packed[8:12] not in _ISATAP
