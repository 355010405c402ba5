"""URLs that requests go to, taken apart so that no two readers could differ about them.

What is not plainly a URL of ``http`` or ``https`` is refused and never repaired: system resolvers
and URL parsers read odd hosts in odd ways (``2130706433``, ``0x7f.1`` and full-width digits are all
127.0.0.1 to some), and a guard that reads them otherwise than the one who connects is none.
"""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import urljoin

import attrs

#: The longest URL that is read, in bytes.
MAX_URL_BYTES: Final = 2048

#: The longest name of DNS, without its last dot.
_MAX_NAME_CHARS = 253

_PARTS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(?:#.*)?"
).fullmatch
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::(.*))?").fullmatch
_NAMED = re.compile(r"([^:\[\]]*)(?::([^:\[\]]*))?").fullmatch
_PORT = re.compile(r"[1-9][0-9]{0,4}").fullmatch
_LABEL = re.compile(r"[a-z0-9_\-]{1,63}").fullmatch
_NUMERIC = re.compile(r"[0-9]+|0x.*").fullmatch
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_QUAD = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}").fullmatch
_UNSAFE = re.compile(r"[^\x21-\x7e]|\\").search


class UrlError(ValueError):
    """A URL that is not used; the message says why, and repeats nothing of it."""


@attrs.frozen
class Url:
    """A URL that passed.

    :ivar scheme: ``http`` or ``https``.
    :ivar host: a name in lower case, or an address without brackets in its usual form.
    :ivar target: path and query, as they stand in a request line.
    :ivar packed: the bytes of the address where the host is one; empty where it is a name.
    """

    scheme: str
    host: str
    port: int
    target: str
    packed: bytes = b""

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The value of the ``host`` header: a port that goes without saying is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port (RFC 6454), in one form for all ways to write them."""
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.target


def parse_url(text: str) -> Url:
    """Read an absolute URL; a fragment is left out.

    :raises UrlError: saying what is wrong with it, in a few words such as "it has a user part".
    """
    parts = _PARTS(_checked(text))
    if parts is None:
        raise UrlError("it has no scheme")
    scheme, authority, path, query = parts.groups()
    scheme = scheme.lower()
    if scheme not in ("http", "https"):
        raise UrlError("its scheme is neither https nor http")
    if not authority:
        raise UrlError("it has no host")
    if "@" in authority:
        raise UrlError("it has a user part")
    host, port, packed = _split_authority(authority)
    return Url(
        scheme,
        host,
        _port(port) if port is not None else 443 if scheme == "https" else 80,
        (path or "/") + (query or ""),
        packed,
    )


def origin_of(text: str) -> str:
    """Return the origin of a URL, empty where it is none that is used."""
    try:
        return parse_url(text).origin
    except UrlError:
        return ""


def redirected(url: Url, location: str) -> Url:
    """Resolve the ``location`` of a redirect against the URL that gave it (RFC 3986, 5).

    :raises UrlError: see :func:`parse_url`.
    """
    try:
        joined = urljoin(str(url), _checked(location))
    except ValueError:
        raise UrlError("it is no URL") from None
    return parse_url(joined)


def _checked(text: str) -> str:
    """Judge the text as such."""
    if not text:
        raise UrlError("it is empty")
    if len(text) > MAX_URL_BYTES:
        raise UrlError(f"it is longer than {MAX_URL_BYTES} bytes")
    if _UNSAFE(text):
        raise UrlError("it holds a space, a backslash or a character that is not visible ASCII")
    return text


def _split_authority(authority: str) -> tuple[str, str | None, bytes]:
    """Return host, port as written, and the bytes of an address."""
    bracketed = _BRACKETED(authority)
    if bracketed is not None:
        literal, port = bracketed.groups()
        try:
            packed = socket.inet_pton(socket.AF_INET6, literal)
        except OSError:
            raise UrlError("its host is no IPv6 address (one with a zone is not used)") from None
        return socket.inet_ntop(socket.AF_INET6, packed), port, packed
    named = _NAMED(authority)
    if named is None:
        raise UrlError("its host cannot be read")
    host, port = named.groups()
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > _MAX_NAME_CHARS or not all(map(_LABEL, labels)):
        raise UrlError("its host is no name: parts of 1 to 63 letters, digits, - or _")
    if not _NUMERIC(labels[-1]):
        return host, port, b""
    if not _QUAD(host):
        raise UrlError("its host is a number that is no usual IPv4 address")
    return host, port, socket.inet_pton(socket.AF_INET, host)


def _port(text: str) -> int:
    if _PORT(text) is None or int(text) > 65535:
        raise UrlError("its port is not from 1 to 65535")
    return int(text)
