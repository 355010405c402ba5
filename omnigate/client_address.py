"""From which address a request comes, where proxies stand in front of a plane.

A proxy appends the address of whoever called it to ``X-Forwarded-For``; whatever stood there
before is the caller's own word. So the header counts from the right, and only as far as those who
wrote it are trusted: a caller that is no trusted proxy says nothing about anybody.

Addresses are compared as numbers. An IPv4 address inside IPv6 (``::ffff:192.0.2.1``, as sockets
that serve both name it) is the IPv4 address, and a zone (``fe80::1%eth0``) does not count.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import attrs

from omnigate.text import one_line

#: The word for callers over a socket of the file system, which have no address.
UNIX: Final = "unix"

#: Networks of one list: data centres and load balancers of one installation need fewer, and a
#: look-up among so many costs under a microsecond.
MAX_NETWORKS: Final = 64

#: Proxies looked past. Real chains have four or fewer; a header may be 64 KB long.
MAX_HOPS: Final = 32

#: The longest address has 45 characters; brackets, a port and a zone come to that.
_MAX_TEXT: Final = 80

# IPv6 addresses count from here on, so that one sorted list holds both kinds.
_SIX: Final = 1 << 128
# ::ffff:0:0/96
_MAPPED: Final = 0xFFFF << 32

_QUOTED_CHARS: Final = 60

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressFaultError(ValueError):
    """A text names no network; the text of the error says why, and what may have been meant."""


def _network(text: str) -> _Network:
    """Read an address or a network in CIDR notation; an address is a network of one.

    :raises AddressFaultError: it is none, or has host bits (``10.0.0.1/8``): the network that is
        meant is then named, since it holds more than the one who wrote it may think.
    """
    try:
        return _without_map(ipaddress.ip_network(text))
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise AddressFaultError(
            f'"{one_line(text, _QUOTED_CHARS)}" is no address and no network; '
            "write it like 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"
        ) from None
    raise AddressFaultError(
        f'"{one_line(text, _QUOTED_CHARS)}" has bits behind its prefix; '
        f"write the network as {_without_map(meant)}, or the address without a prefix"
    )


def _without_map(whole: _Network) -> _Network:
    """Return a network of IPv4 addresses inside IPv6 as the one of IPv4."""
    if isinstance(whole, ipaddress.IPv6Network) and whole.prefixlen >= 96:
        number = int(whole.network_address)
        if number >> 32 == 0xFFFF:
            return ipaddress.IPv4Network((number & 0xFFFFFFFF, whole.prefixlen - 96))
    return whole


# A plane meets the same addresses again and again: that of a proxy with each request.
@lru_cache(maxsize=1024)
def _number(text: str) -> int | None:
    """Return what an address is compared by; ``None`` where the text is none."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    number = int(address)
    if address.version == 4:
        return number
    return number - _MAPPED if number >> 32 == 0xFFFF else number + _SIX


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """Return the one spelling of an address; a text that is none comes back as it is."""
    number = _number(text)
    if number is None:
        return text
    if number < _SIX:
        return str(ipaddress.IPv4Address(number))
    return str(ipaddress.IPv6Address(number - _SIX))


class Networks:
    """Networks that are asked whether they hold an address.

    :ivar texts: the networks, each in its one spelling, as they were given.
    """

    __slots__ = ("_firsts", "_lasts", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        """Read the networks.

        :raises AddressFaultError: one of them is none.
        """
        given = [_network(text) for text in texts]
        self.texts = tuple(map(str, given))
        spans: list[tuple[int, int]] = []
        fours = [each for each in given if isinstance(each, ipaddress.IPv4Network)]
        sixes = [each for each in given if isinstance(each, ipaddress.IPv6Network)]
        for four in ipaddress.collapse_addresses(fours):
            spans.append((int(four.network_address), int(four.broadcast_address)))
        for six in ipaddress.collapse_addresses(sixes):
            spans.append((int(six.network_address) + _SIX, int(six.broadcast_address) + _SIX))
        # They do not overlap, and stand in order.
        self._firsts = [first for first, _ in spans]
        self._lasts = [last for _, last in spans]

    def holds(self, address: str) -> bool:
        """Whether the address is in one of them; a text that is no address never is."""
        number = _number(address)
        if number is None:
            return False
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]


@attrs.frozen(repr=False)
class TrustedProxies:
    """Who is believed about the address of a client; at first nobody.

    :ivar texts: the networks, each in its one spelling.
    :ivar unix: whether callers over a socket of the file system are believed.
    """

    texts: tuple[str, ...] = ()
    unix: bool = False
    _networks: Networks = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_networks", Networks(self.texts))

    @classmethod
    def parse(cls, text: str) -> TrustedProxies:
        """Read a list with commas: addresses, networks in CIDR notation, and the word ``unix``.

        :raises AddressFaultError: an entry is none of them, or there are too many.
        """
        entries = [entry.strip() for entry in text.split(",")] if text.strip() else []
        if len(entries) > MAX_NETWORKS:
            raise AddressFaultError(f"has more than {MAX_NETWORKS} entries; write larger networks")
        texts = []
        for entry in entries:
            if entry == UNIX:
                continue
            whole = _network(entry)
            if not whole.prefixlen:
                raise AddressFaultError(
                    f'"{entry}" is everybody, so that each client could name the address it likes; '
                    "write the networks of the proxies"
                )
            texts.append(str(whole))
        return cls(tuple(texts), UNIX in entries)

    def __bool__(self) -> bool:
        """Whether anybody is trusted."""
        return self.unix or bool(self.texts)

    def __repr__(self) -> str:
        return f"TrustedProxies({', '.join((*self.texts, *([UNIX] if self.unix else ())))})"

    def trusts(self, peer: str) -> bool:
        """Whether this caller is a trusted proxy.

        :param peer: its address; empty for one over a socket of the file system.
        """
        return self._networks.holds(peer) if peer else self.unix

    def client(self, peer: str, forwarded_for: Sequence[bytes]) -> str:
        """Return the address of the client.

        That is the peer, unless it is trusted; then the right-most address of the header that is
        not trusted itself. What is no address ends the walk at the last good one, as does the end
        of the header.

        :param peer: who opened the connection; empty over a socket of the file system.
        :param forwarded_for: the values of ``X-Forwarded-For``, in the order of their lines.
        """
        address = plain(peer)
        if not self.trusts(address):
            return address
        hops = 0
        for line in reversed(forwarded_for):
            for entry in reversed(line.rsplit(b",", MAX_HOPS)):
                told = _forwarded(entry)
                if told is None or hops == MAX_HOPS:
                    return address
                hops += 1
                address = told
                if not self.trusts(address):
                    return address
        return address


def _forwarded(entry: bytes) -> str | None:
    """Return the address that an entry of the header names; ``None`` where it names none.

    Some proxies write the port, too: ``192.0.2.7:4711``, ``[2001:db8::7]:4711``.
    """
    entry = entry.strip(b" \t")
    if len(entry) > _MAX_TEXT:
        # Before anything is kept of it: what is looked up is remembered, a thousand texts of it.
        return None
    text = entry.decode("latin-1")
    if text.startswith("["):
        text, closed, port = text[1:].partition("]")
        if not closed or (port and not _is_port(port)):
            return None
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
        if not _is_port(":" + port):
            return None
    return None if _number(text) is None else plain(text)


def _is_port(text: str) -> bool:
    digits = text[1:]
    return text[0] == ":" and digits.isascii() and digits.isdigit() and len(digits) <= 5
