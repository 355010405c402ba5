"""A certificate with its chain and its key, read from PEM text and held against each other.

Pure: bytes come in, a :class:`Pair` goes out, or :class:`PairError` says what is wrong. Only a
whole pair is one: every block can be read and the key is that of the first certificate.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Sequence
from typing import Final

import attrs
from OpenSSL import SSL, crypto
from twisted.internet.ssl import CertificateOptions, TLSVersion

#: Certificates in one chain: the server's own and two or three above it are usual.
MAX_CHAIN: Final = 16

_BLOCK: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----[ \t]*\r?\n?", re.DOTALL
)
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class PairError(Exception):
    """A certificate and a key that cannot be served: which of them, and what is wrong.

    :ivar of_key: whether it is the key's fault.
    """

    def __init__(self, text: str, of_key: bool = False) -> None:
        super().__init__(text)
        self.of_key = of_key


@attrs.frozen
class Pair:
    """A certificate with its chain and its key.

    :ivar chain: the server's certificate, then those above it.
    :ivar begins_at: seconds since 1970 from which on it is valid, as is ``expires_at``.
    """

    chain: tuple[crypto.X509, ...] = attrs.field(repr=False, eq=False)
    key: crypto.PKey = attrs.field(repr=False, eq=False)
    names: str
    begins_at: int
    expires_at: int

    def options(self) -> CertificateOptions:
        """Return what a TLS server needs: 1.2 or newer, with Twisted's choice of ciphers.

        :raises PairError: OpenSSL does not take the pair.
        """
        options = CertificateOptions(
            privateKey=self.key,
            certificate=self.chain[0],
            extraCertChain=list(self.chain[1:]),
            raiseMinimumTo=TLSVersion.TLSv1_2,
        )
        try:
            # Made now, and kept by the options: what is wrong shows before anybody connects.
            options.getContext()
        except SSL.Error as error:
            raise PairError(f"OpenSSL does not take it: {_reason(error)}") from None
        return options

    def warning(self, now: float) -> str | None:
        """What clients will not like about it, in words that go on from its name."""
        if now >= self.expires_at:
            return f"has expired on {day(self.expires_at)}"
        if now < self.begins_at:
            return f"is not valid before {day(self.begins_at)}"
        above = self.chain[1:2]
        if above and above[0].get_subject() != self.chain[0].get_issuer():
            return "is followed by one that has not issued it, so clients may not trust it"
        return None


def read_pair(certificate: bytes, key: bytes) -> Pair:
    """Read a certificate with its chain, and its key.

    :param certificate: PEM: the server's certificate, then those above it; a key beside them does
        no harm.
    :param key: PEM with the key, not encrypted.
    :raises PairError: they are no pair.
    """
    chain, own = _read_chain(certificate), _read_key(key)
    try:
        # OpenSSL looks at it no sooner.
        certified = _public(chain[0].get_pubkey())
    except (crypto.Error, ValueError):
        raise PairError("the key in its first certificate cannot be read") from None
    if certified != _public(own):
        raise PairError("is not the key of the certificate", of_key=True)
    pair = Pair(chain, own, _names(chain[0]), *_times(chain[0]))
    pair.options()
    return pair


def day(seconds: float) -> str:
    """Return a date and time of UTC as people read it."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _read_chain(text: bytes) -> tuple[crypto.X509, ...]:
    blocks = _BLOCK.findall(text)
    if not blocks:
        raise PairError("holds no PEM certificate")
    if len(blocks) != text.count(_BEGIN):
        raise PairError("ends within a certificate")
    if len(blocks) > MAX_CHAIN:
        raise PairError(f"holds more than {MAX_CHAIN} certificates")
    chain = []
    for number, block in enumerate(blocks, 1):
        try:
            chain.append(crypto.load_certificate(crypto.FILETYPE_PEM, block))
        except (crypto.Error, ValueError):
            raise PairError(f"certificate {number} in it cannot be read") from None
    return tuple(chain)


def _read_key(text: bytes) -> crypto.PKey:
    if not _KEY.search(text):
        raise PairError("holds no PEM private key", of_key=True)
    asked: list[bool] = []

    def passphrase(*_: object) -> bytes:
        # OpenSSL would ask at the terminal otherwise.
        asked.append(True)
        return b"-"

    try:
        return crypto.load_privatekey(crypto.FILETYPE_PEM, text, passphrase)
    except (crypto.Error, ValueError):
        reason = "is encrypted; give it without a passphrase" if asked else "cannot be read"
        raise PairError(reason, of_key=True) from None


def _public(key: crypto.PKey) -> bytes:
    """Return the public half of a key, by which two of them are compared."""
    return crypto.dump_publickey(crypto.FILETYPE_ASN1, key)


def _names(certificate: crypto.X509) -> str:
    """Return whose certificate it is, for people."""
    parts: Sequence[tuple[bytes, bytes]] = certificate.get_subject().get_components()
    name = dict(parts).get(b"CN")
    return "no name" if name is None else name.decode(errors="replace")


def _times(certificate: crypto.X509) -> tuple[int, int]:
    found = []
    for read in (certificate.get_notBefore, certificate.get_notAfter):
        try:
            when = time.strptime((read() or b"").decode(), "%Y%m%d%H%M%SZ")
        except (crypto.Error, ValueError):
            raise PairError("tells no time until which it is valid") from None
        found.append(calendar.timegm(when))
    return found[0], found[1]


def _reason(error: SSL.Error) -> str:
    """Put what OpenSSL found into words."""
    found = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return ", ".join(str(one[-1]) for one in found) or "no reason given"
