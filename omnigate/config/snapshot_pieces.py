"""A snapshot put together out of pieces, so that one changed key costs one encoded key.

What comes out is byte for byte what :func:`~omnigate.config.snapshot.build_snapshot` and
:func:`~omnigate.config.snapshot.encode_snapshot` make of the same config and the same keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import attrs
import msgspec

from omnigate.config.schema import Config
from omnigate.config.snapshot import SnapshotKey, encode_snapshot, hashed_json, unsealed

_KEYS: Final = b'"keys":['


@attrs.frozen
class Frame:
    """All of a snapshot but its keys and its version.

    :ivar hashed: what the version is the hash of, before and behind the keys.
    :ivar rest: what follows the keys in the snapshot itself.
    """

    hashed: tuple[bytes, bytes]
    rest: bytes


def encode_frame(config: Config) -> Frame:
    """Encode what a config brings to a snapshot."""
    bare = unsealed(config, ())
    # Inside a string of JSON no quotation mark stands without a backslash, so these are the keys.
    before, _, behind = hashed_json(bare).partition(_KEYS)
    _, _, rest = encode_snapshot(bare).partition(_KEYS)
    return Frame((before + _KEYS, behind), rest)


def encode_key(key: SnapshotKey) -> bytes:
    """Encode one key; its members are in order, so that both forms of a snapshot have it so."""
    return msgspec.json.encode(key)


def seal(frame: Frame, keys: Iterable[bytes]) -> tuple[str, bytes]:
    """Return the version of a snapshot, and the snapshot.

    :param keys: each as :func:`encode_key` makes it, in the order of their hashes.
    """
    joined = b",".join(keys)
    digest = hashlib.sha256(frame.hashed[0])
    # Long texts are hashed without the interpreter's lock: the reactor goes on meanwhile.
    digest.update(joined)
    digest.update(frame.hashed[1])
    version = digest.hexdigest()
    head = b'{"version":"%b",%b' % (version.encode("ascii"), _KEYS)
    return version, b"".join((head, joined, frame.rest))
