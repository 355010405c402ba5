"""The certificate that a port serves, out of two files that are replaced while it is served.

A new pair comes into force with SIGHUP, and by itself once both files have stood still between two
looks. What is no whole pair never gets in: the one before stays, the log says why, and it is
counted. Connections that are open keep what they began with.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from OpenSSL import SSL
from twisted.internet.interfaces import (
    IAddress,
    IOpenSSLServerConnectionCreator,
    IReactorTime,
)
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from omnigate.certificates import Pair, PairError, day, read_pair
from omnigate.named_files import open_at_once
from omnigate.sealed_protocol import SealedProtocol
from omnigate.tls_endpoint import CertificateError

if TYPE_CHECKING:
    from twisted.protocols.tls import TLSMemoryBIOProtocol

#: How often the files are looked at, in seconds. A change has to be seen twice, so that a pair of
#: which one file is written is left alone: it is in force half a minute after it is whole.
LOOK_SECONDS: Final = 15.0

#: Bytes of one file: sixteen certificates with large keys and all their names take 100 KiB.
MAX_FILE_BYTES: Final = 256 * 1024

#: What is wrong with the system and not with a file: nobody writes the files again because of it,
#: so the next look tries them once more.
_PASSING: Final = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
)

#: What tells two states of a file apart; ``None`` is a file that is not there.
_State = tuple[int, ...] | None

_log = Logger(namespace="omnigate.tls")


class _PassingError(CertificateError):
    """A file cannot be read for a reason that goes away by itself."""


@implementer(IOpenSSLServerConnectionCreator)
class CertificateFiles:
    """See the module's docstring.

    :ivar failures: how often there was something new that could not be served.

    :param certificate: the file with the certificate and those above it.
    :param key: the file with the key; it may be the same one.
    :raises CertificateError: they cannot be served.
    """

    def __init__(
        self,
        certificate: str,
        key: str,
        clock: IReactorTime,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._wall = wall
        self.failures = 0
        self._looks = LoopingCall(self.look)
        self._looks.clock = clock
        self._seen = self._states()
        self._tried: tuple[_State, _State] | None = self._seen
        self._pair = self._read()
        self._options: Any = self._pair.options()
        self._warn()

    @property
    def expires_at(self) -> int:
        """Until when the certificate in force is valid, in seconds since 1970."""
        return self._pair.expires_at

    # -- the files

    def start(self) -> None:
        """Look at the files from now on."""
        if not self._looks.running:
            self._looks.start(LOOK_SECONDS, now=False)

    def stop(self) -> None:
        """Look at them no more."""
        if self._looks.running:
            self._looks.stop()

    def look(self) -> None:
        """Put in force what was written, once nothing has changed since the look before."""
        states = self._states()
        before, self._seen = self._seen, states
        if states == self._tried or states != before:
            return
        self.reread()

    def reread(self) -> None:
        """Put in force what the files hold now, as SIGHUP asks for; it never fails."""
        # Before they are read, so that a change meanwhile is seen by the next look.
        self._tried = self._states()
        try:
            self._renew()
        except Exception:
            # The looks must outlive a fault of their own, or a certificate would end unseen; and
            # SIGHUP asks for more than this.
            self.failures += 1
            _log.failure("what was written to {path} broke", path=self._certificate)

    def _renew(self) -> None:
        try:
            pair = self._read()
            if pair.expires_at <= self._wall() < self._pair.expires_at:
                raise CertificateError(
                    f"{self._certificate}: the certificate {pair.warning(self._wall())}, and the "
                    "one in force has not; put a newer one there"
                )
            options = pair.options()
        except (CertificateError, PairError) as error:
            if isinstance(error, _PassingError):
                self._tried = None
            self.failures += 1
            _log.error(
                "{error}; the certificate in force, of {names} until {until}, stays",
                error=error,
                names=self._pair.names,
                until=day(self._pair.expires_at),
            )
            return
        changed = pair.chain[0].digest("sha256") != self._pair.chain[0].digest("sha256")
        self._pair, self._options = pair, options
        if changed:
            _log.info(
                "the certificate of {names} until {until} is in force",
                names=pair.names,
                until=day(pair.expires_at),
            )
        self._warn()

    def _warn(self) -> None:
        warning = self._pair.warning(self._wall())
        if warning is not None:
            _log.warn(
                "{path}: the certificate of {names} {fault}",
                path=self._certificate,
                names=self._pair.names,
                fault=warning,
            )

    def _read(self) -> Pair:
        certificate = _content(self._certificate)
        key = certificate if self._key == self._certificate else _content(self._key)
        try:
            return read_pair(certificate, key)
        except PairError as error:
            path = self._key if error.of_key else self._certificate
            raise CertificateError(
                f"{path}: {error}; cert= names the file with the certificate and its chain, key= "
                "the one with its key, both PEM"
            ) from None

    def _states(self) -> tuple[_State, _State]:
        return _state(self._certificate), _state(self._key)

    # -- connections

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:  # noqa: N802, N803
        """Begin TLS on one connection, with what is in force at this moment."""
        if hasattr(self._options, "serverConnectionForTLS"):
            begun: SSL.Connection = self._options.serverConnectionForTLS(tlsProtocol)
            return begun
        return SSL.Connection(self._options.getContext(), None)


class TlsFactory(TLSMemoryBIOFactory):
    """Makes connections with TLS before those of another factory, as long as that makes any."""

    def buildProtocol(  # type: ignore[override]
        self, addr: IAddress | None
    ) -> TLSMemoryBIOProtocol | None:
        """Return a connection, or ``None`` where the other factory wants none, as at its cap.

        Twisted's own would make one before nothing, which breaks with a traceback.
        """
        inner = self.wrappedFactory.buildProtocol(addr)
        if inner is None:
            return None
        return SealedProtocol(self, inner)  # type: ignore[no-untyped-call]


def _state(path: str) -> _State:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", opener=open_at_once) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        if error.errno in _PASSING:
            raise _PassingError(f"{path}: {error.strerror}; that may pass") from None
        remedy = "name a file that is there in cert= and key="
        if isinstance(error, PermissionError):
            remedy = (
                "let this user read it, as with chgrp and chmod 640, or hand it over with "
                "LoadCredential= of the unit"
            )
        raise CertificateError(f"{path}: {error.strerror or error}; {remedy}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CertificateError(f"{path}: is longer than any certificate; name another file")
    return content
