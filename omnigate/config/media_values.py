"""What a single value of ``[media]`` may be; see :mod:`omnigate.config.values`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from omnigate.config.values import BadValueError, kind_of, quoted, service_url, text

#: The fields of an input that name a duration, at one provider or another; the first that is there
#: counts.
DURATION_FIELDS: Final = ("duration", "duration_seconds", "seconds", "durationSeconds")

#: Names of fields that providers have are far shorter.
MAX_FIELD_CHARS: Final = 128

#: Fields with multipliers, and values of one field; a price list has a dozen.
MAX_MULTIPLIED: Final = 32
MAX_LISTED: Final = 256

#: A price is multiplied by this at most: more is a price in the wrong place.
MAX_FACTOR: Final = Decimal(1_000)
FACTOR_DECIMALS: Final = 6

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_RECIPIENT = re.compile(r"age1[02-9ac-hj-np-z]{58}", re.ASCII)


def input_field(value: object) -> str:
    """Check the name of a field of a job's ``input``."""
    word = text(value)
    if len(word) > MAX_FIELD_CHARS or not _FIELD.fullmatch(word):
        raise BadValueError(
            f"must be 1 to {MAX_FIELD_CHARS} letters, digits, underscores, dots or hyphens"
        )
    return word


def multipliers(value: object) -> Mapping[str, Mapping[str, Decimal]]:
    """Check ``price_multipliers``: for each field the factors of its values."""
    fields = _table(value, MAX_MULTIPLIED)
    return {
        input_field(field): {
            _value(word): _factor(field, word, factor)
            for word, factor in _table(factors, MAX_LISTED, field).items()
        }
        for field, factors in fields.items()
    }


def _table(value: object, most: int, field: str = "") -> Mapping[str, object]:
    where = f"{quoted(field)}: " if field else ""
    if not isinstance(value, Mapping):
        raise BadValueError(f"{where}must be a table, not {kind_of(value)}")
    if not 1 <= len(value) <= most:
        raise BadValueError(f"{where}must have 1 to {most} entries")
    return value


def _value(word: str) -> str:
    if len(word) > MAX_FIELD_CHARS or not word.isprintable():
        raise BadValueError(f"a value must be at most {MAX_FIELD_CHARS} printable characters")
    return word


def _factor(field: str, word: str, factor: object) -> Decimal:
    where = f"{quoted(field)}, {quoted(word)}"
    if isinstance(factor, bool) or not isinstance(factor, (int, float, Decimal)):
        raise BadValueError(f"{where}: must be a number, not {kind_of(factor)}")
    if isinstance(factor, int):
        factor = min(max(factor, -1), int(MAX_FACTOR) + 1)
    amount = Decimal(str(factor)) if isinstance(factor, float) else Decimal(factor)
    if not amount.is_finite() or not 0 <= amount <= MAX_FACTOR:
        raise BadValueError(f"{where}: must be from 0 to {MAX_FACTOR}")
    if amount != round(amount, FACTOR_DECIMALS):
        raise BadValueError(f"{where}: has more than {FACTOR_DECIMALS} decimals")
    return amount


def bucket(value: object) -> str:
    """Check the name of a bucket."""
    word = text(value)
    if not _BUCKET.fullmatch(word) or ".." in word:
        raise BadValueError("must be 3 to 63 lower-case letters, digits, dots or hyphens")
    return word


def region(value: object) -> str:
    """Check the region that a bucket's requests are signed for."""
    word = text(value)
    if not _REGION.fullmatch(word):
        raise BadValueError("must be 1 to 63 lower-case letters, digits or hyphens")
    return word


def public_url(value: object) -> str:
    """Check what clients call the gateway: an address that ``/v1/files/…`` is put behind."""
    word = service_url(value)
    if word.lower().endswith("/v1"):
        raise BadValueError(
            f"must go up to /v1, without it (did you mean {quoted(word[: -len('/v1')])}?)"
        )
    return word


def age_recipient(value: object) -> str:
    """Check a recipient of age: an X25519 key in Bech32, with its check characters."""
    word = text(value)
    if not _RECIPIENT.fullmatch(word):
        raise BadValueError(
            "must be a recipient of age (age1 and 58 characters; age-keygen -y prints it), "
            "never an identity"
        )
    if _checksum(word) != 1:
        raise BadValueError("is no recipient of age: a character of it is wrong")
    return word


def _checksum(word: str) -> int:
    """Return the checksum of Bech32, which is 1 where all characters are right (BIP 173)."""
    prefix, _, data = word.partition("1")
    checked = [*(ord(char) >> 5 for char in prefix), 0, *(ord(char) & 31 for char in prefix)]
    total = 1
    for value in (*checked, *map(_BECH32.index, data)):
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATORS):
            if top >> bit & 1:
                total ^= generator
    return total
