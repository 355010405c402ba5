"""A file with all keys of one kind, which is replaced whole: what both kinds have in common.

::

    {"version": 1, "keys": [
      {"name": "a", …},
      {"name": "b", …}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec

from omnigate.config import values
from omnigate.config.key_values import MAX_EARLIER_SECRETS
from omnigate.control.credential import LAST_MS, Credential, EarlierSecret
from omnigate.control.key_members import Field, read_members
from omnigate.control.strict_json import StrictJsonError, read_json
from omnigate.control.whole_file import read_whole
from omnigate.errors import GatewayError

C = TypeVar("C", bound=Credential)


@attrs.frozen
class CredentialFile(Generic[C]):
    """How the keys of one kind are written and read.

    :ivar what: what the file is, as in "is no …".
    :ivar newest: the newest version that can be read.
    :ivar row: makes the row of a key, and tells which version it needs.
    :ivar key: judges a row of some version; raises :class:`StrictJsonError` or
        :class:`~omnigate.errors.GatewayError`.
    :ivar fault: what is raised where the file cannot be used.
    :ivar remedy: what to do then.
    :ivar max_bytes: the longest file that is read.
    """

    what: str
    newest: int
    row: Callable[[C], tuple[int, dict[str, Any]]]
    key: Callable[[object, int], C]
    fault: type[Exception]
    remedy: str
    max_bytes: int

    def read(self, path: str) -> dict[str, C]:
        """Return the keys of the file by their names; no file is none. It blocks.

        :raises Exception: :attr:`fault`; the file is there and cannot be used.
        """
        data = read_whole(path, self.max_bytes, self.remedy, self.fault)
        return {} if data is None else self.decode(path, data)

    def encode(self, keys: Iterable[C]) -> bytes:
        """Return the file, one key a line, so that people can read and compare it."""
        version, rows = 1, []
        for key in keys:
            needed, row = self.row(key)
            version = max(version, needed)
            rows.append(b"\n  " + msgspec.json.encode(row))
        return b'{"version": %d, "keys": [%s]}\n' % (version, b",".join(rows))

    def decode(self, path: str, data: bytes) -> dict[str, C]:
        """Read the bytes of the file strictly; return the keys by their names.

        :raises Exception: :attr:`fault`; they are not what this version or an earlier one writes.
        """
        try:
            document = read_json(data)
            version = document.get("version") if isinstance(document, dict) else None
            if type(version) is int and version > self.newest:
                raise self.fault(
                    f"{path}: has format {version}, and this version reads {self.newest}; start "
                    "the newer version that wrote it"
                )
            # True is 1 for an int, and no number that is written.
            if type(version) is not int or version < 1 or set(document) != {"version", "keys"}:
                raise StrictJsonError(f"is no {self.what}")
            if not isinstance(document["keys"], list):
                raise StrictJsonError("holds no list of keys")
            keys = self._keys_of(document["keys"], version)
            _check_apart(keys)
        except (StrictJsonError, GatewayError) as error:
            raise self.fault(f"{path}: {error}; {self.remedy}") from None
        return {key.name: key for key in keys}

    def _keys_of(self, rows: list[object], version: int) -> list[C]:
        """Judge rows, and leave none of them: to free ten thousand at once holds the reactor."""
        rows.reverse()
        keys: list[C] = []
        while rows:
            try:
                keys.append(self.key(rows.pop(), version))
            except (StrictJsonError, GatewayError) as fault:
                words = fault.message if isinstance(fault, GatewayError) else str(fault)
                raise StrictJsonError(f"keys[{len(keys)}]: {words}") from None
        return keys


def _check_apart(keys: Iterable[Credential]) -> None:
    """Refuse two keys with one name, or with a hash in common."""
    names: set[str] = set()
    hashes: set[str] = set()
    for key in keys:
        if len({key.current_sha256, *(secret.sha256 for secret in key.earlier)}) <= len(
            key.earlier
        ):
            raise StrictJsonError(f'holds a secret of "{key.name}" twice')
        own = key.own_hashes
        if key.name in names or not hashes.isdisjoint(own):
            raise StrictJsonError("holds a key twice")
        names.add(key.name)
        hashes |= own


def _earlier(value: object) -> tuple[EarlierSecret, ...]:
    """Check the earlier secrets of a row."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_EARLIER_SECRETS:
        raise values.BadValueError(f"must be an array of 1 to {MAX_EARLIER_SECRETS} secrets")
    members = [read_members(row, _SECRET, _SECRET) for row in value]
    return tuple(EarlierSecret(**row) for row in members)


_instant = values.whole(1, LAST_MS)

_SECRET: Final[Mapping[str, Field]] = {
    "sha256": ("sha256", values.sha256_hex),
    "until_ms": ("until_ms", _instant),
}

#: The members that rows of both kinds have beside what an operator says of a key.
ROW_FIELDS: Final[Mapping[str, Field]] = {
    "sha256": ("sha256", values.sha256_hex),
    "created_ms": ("created_ms", values.whole(0, LAST_MS)),
    "expires_ms": ("expires_ms", _instant),
    "rotated_ms": ("rotated_ms", values.whole(0, LAST_MS)),
    "earlier": ("earlier", _earlier),
}
