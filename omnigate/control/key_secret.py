"""The secret of a managed key: how it is made, and the hash that is kept.

``ogk_`` (of an admin key ``oga_``), 43 characters of base62 (256 random bits), and 6 of base62 that
are the CRC-32 of what stands before, so that a secret scanner tells a real key from text that looks
like one.
"""

import hashlib
import os
import zlib
from collections.abc import Callable
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX: Final = "ogk_"
RANDOM_BYTES: Final = 32
RANDOM_CHARS: Final = 43  # 62 ** 43 is just over 2 ** 256
CHECK_CHARS: Final = 6  # 62 ** 6 is over 2 ** 32


def new_secret(randomness: Callable[[int], bytes] = os.urandom, prefix: str = PREFIX) -> str:
    """Return a new managed key.

    :param randomness: returns as many random bytes as it is asked for.
    :param prefix: what says which kind of key it is.
    """
    number = int.from_bytes(randomness(RANDOM_BYTES), "big")
    body = prefix + _base62(number, RANDOM_CHARS)
    return body + _base62(zlib.crc32(body.encode("ascii")), CHECK_CHARS)


def is_well_formed(secret: str, prefix: str = PREFIX) -> bool:
    """Whether a text could be a secret of this kind: its form and its check are right."""
    if len(secret) != len(prefix) + RANDOM_CHARS + CHECK_CHARS or not secret.startswith(prefix):
        return False
    body, check = secret[:-CHECK_CHARS], secret[-CHECK_CHARS:]
    return secret.isascii() and check == _base62(zlib.crc32(body.encode("ascii")), CHECK_CHARS)


def sha256_hex(secret: str) -> str:
    """Return the SHA-256 of a key in hex: the only form in which a key is kept.

    A key of 256 random bits needs neither salt nor a slow hash.
    """
    return hashlib.sha256(secret.encode("utf-8")).hexdigest()


def _base62(number: int, width: int) -> str:
    """Write a number in base 62, padded with zeros to ``width`` characters."""
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
