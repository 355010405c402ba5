"""Certificates on the disk, for tests to serve and to replace."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.protocols.test_connector import Identity


def key_pem(identity: Identity) -> bytes:
    """The key of an identity as a PEM block."""
    key: ec.EllipticCurvePrivateKey = identity.key
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@attrs.frozen
class PairOnDisk:
    """The two files that a port with TLS is told of."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The file with the certificate and its chain."""
        return self.folder / "fullchain.pem"

    @property
    def key(self) -> Path:
        """The file with the key."""
        return self.folder / "privkey.pem"

    @property
    def parts(self) -> str:
        """What names both in an endpoint string."""
        return f"cert={self.certificate}:key={self.key}"

    def write(self, identity: Identity, *above: Identity) -> None:
        """Replace both files, one after the other."""
        chain = b"".join(each.pem for each in (identity, *above))
        self.replace(self.certificate, chain)
        self.replace(self.key, key_pem(identity))

    def replace(self, path: Path, content: bytes) -> None:
        """Replace one file whole, as programs that renew certificates do."""
        beside = path.with_suffix(".new")
        beside.write_bytes(content)
        beside.chmod(0o600)
        os.replace(beside, path)
