"""Where an upstream is: URLs of the config taken apart into what a connection needs.

Nothing is opened and no name resolved here. What is not plainly an address is refused; no message
repeats a URL, which may hold a password by mistake.
"""

import re
from urllib.parse import urlsplit

import attrs
from twisted.internet.abstract import isIPAddress, isIPv6Address

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})\Z")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*\Z")


class AddressError(ValueError):
    """An address that cannot be used; the message says which part and why."""


@attrs.frozen
class ProxyAddress:
    """An HTTP proxy that is asked to CONNECT."""

    host: str
    port: int


@attrs.frozen
class UpstreamAddress:
    """Where an upstream is, how it is reached and whom to trust about it.

    ``host`` is a name in ASCII or an IP address without brackets; ``base_path`` is empty or
    starts with a slash and does not end in one.

    :ivar number: the IP address to connect to, where it has been looked up and judged before;
        certificates are verified against the host all the same.
    """

    scheme: str
    host: str
    port: int
    base_path: str = ""
    proxy: ProxyAddress | None = None
    ca_file: str | None = None
    number: str | None = None

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    @property
    def authority(self) -> bytes:
        """The value of the ``host`` header (RFC 9110 §7.2): the default port is left out."""
        standard = 443 if self.secure else 80
        if self.port == standard:
            return _bracketed(self.host).encode("ascii")
        return authority(self.host, self.port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def authority(host: str, port: int) -> bytes:
    """Write host and port as one, the port always told; an IPv6 address stands in brackets."""
    return f"{_bracketed(host)}:{port}".encode("ascii")


def _split_url(url: str, what: str) -> tuple[str, str, int | None, str, str | None]:
    """Take a URL apart.

    :return: scheme, host, port, path and userinfo.
    :raises AddressError: for anything but plain ASCII, a host, a port in range and a path.
    """
    if not url.isascii() or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        raise AddressError(
            f"{what} holds characters that are not plain ASCII; write an international host name"
            " in its xn-- form"
        )
    if "?" in url or "#" in url:
        raise AddressError(f"{what} must hold no query and no fragment")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressError(f"{what} is no URL with a port from 1 to 65535") from None
    if port == 0:
        raise AddressError(f"{what}: the port must be from 1 to 65535")
    host = (parts.hostname or "").rstrip(".")
    if not (isIPAddress(host) or isIPv6Address(host) or _HOST.match(host)):
        raise AddressError(f"{what} names no usable host")
    userinfo = parts.netloc.rpartition("@")[0] if "@" in parts.netloc else None
    return parts.scheme.lower(), host, port, parts.path, userinfo


def parse_proxy(url: str) -> ProxyAddress:
    """Read ``http://host[:port]``; the port is 80 where none is given.

    :raises AddressError: saying what is wrong; the message never holds credentials.
    """
    scheme, host, port, path, userinfo = _split_url(url, "the proxy's address")
    if scheme != "http":
        raise AddressError(
            "the proxy's address must start with http:// (TLS to a proxy is not spoken)"
        )
    if path not in ("", "/"):
        raise AddressError("the proxy's address must hold no path")
    if userinfo is not None:
        raise AddressError("the proxy's address must hold no credentials; none are sent to proxies")
    return ProxyAddress(host, 80 if port is None else port)


def parse_address(
    base_url: str, proxy: str | None = None, ca_file: str | None = None
) -> UpstreamAddress:
    """Read the address of an upstream.

    :param base_url: ``http`` or ``https``, a host, perhaps a port and a path; a slash at its
        end is dropped.
    :param proxy: the URL of a proxy, see :func:`parse_proxy`.
    :param ca_file: path of a PEM file with the authorities to trust instead of the platform's.
    :raises AddressError: saying what is wrong; the message never holds credentials.
    """
    scheme, host, port, path, userinfo = _split_url(base_url, "the address")
    if scheme not in ("http", "https"):
        raise AddressError("the address must start with http:// or https://")
    if userinfo is not None:
        raise AddressError(
            "the address must hold no credentials; name their variable in api_key_env"
        )
    path = path.rstrip("/")
    if not _PATH.match(path) or any(part in (".", "..") for part in path.split("/")):
        raise AddressError("the address holds a path that is not plain")
    if port is None:
        port = 443 if scheme == "https" else 80
    return UpstreamAddress(
        scheme, host, port, path, parse_proxy(proxy) if proxy else None, ca_file or None
    )
