"""Outputs encrypted for recipients of age (https://age-encryption.org/v1), so that only they read.

The gateway has recipients and never an identity: it can serve such a file, not read it. The work is
pyrage's, the extra ``age``; without it a config with recipients is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import attrs

from omnigate.files import NewFile, read_pieces

#: What ends the name of an encrypted file.
SUFFIX: Final = ".age"

REMEDY: Final = "outputs for age need the extra: pip install 'omnigate[age]'"


class AgeFault(Exception):  # noqa: N818
    """It cannot be encrypted; the message says what to do."""


@attrs.frozen
class EncryptedFile:
    """What was made: its length in bytes, and its hash in hex."""

    size: int
    sha256: str


def fault_of(recipients: Sequence[str]) -> str:
    """Return why nothing can be encrypted for these recipients; empty where it can."""
    if not recipients:
        return ""
    try:
        _parsed(recipients)
    except AgeFault as fault:
        return str(fault)
    return ""


def encrypt_file(source: str, target: str, recipients: Sequence[str]) -> EncryptedFile:
    """Encrypt a file into a new one, which is synced; for a thread, a second for 500 MB.

    :raises AgeFault: there is no pyrage, or a recipient is none.
    :raises OSError: of the disk; then there is no new file.
    """
    parsed = _parsed(recipients)
    file = NewFile(target)
    reader, writer = _Reader(source), _Writer(file)
    try:
        _pyrage().encrypt_io(reader, writer, parsed)
        if writer.failure is not None:
            # What fails in its last flush it keeps to itself.
            raise writer.failure
        file.sync()
        file.close()
    except BaseException as error:
        file.discard()
        # pyrage wraps what its files raise.
        raise (reader.failure or writer.failure or error) from None
    return EncryptedFile(file.size, writer.hash.hexdigest())


class _Reader:
    """A file as pyrage reads one."""

    def __init__(self, path: str) -> None:
        self._pieces = read_pieces(path)
        self._rest = memoryview(b"")
        self.failure: OSError | None = None

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            try:
                self._rest = memoryview(next(self._pieces, b""))
            except OSError as error:
                self.failure = error
                raise
        piece = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(piece) :]
        return bytes(piece)


class _Writer:
    """A file as pyrage writes one."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.failure = error
            raise
        self.hash.update(data)
        return len(data)

    def flush(self) -> None:
        """Leave it to the sync at the end."""


def _pyrage() -> Any:
    try:
        return import_module("pyrage")
    except ImportError:
        raise AgeFault(REMEDY) from None


def _parsed(recipients: Sequence[str]) -> list[Any]:
    module = _pyrage()
    parsed = []
    for number, text in enumerate(recipients, 1):
        try:
            parsed.append(module.x25519.Recipient.from_str(text))
        except module.RecipientError:
            raise AgeFault(f"recipient {number} of age is none; age-keygen -y prints one") from None
    return parsed
