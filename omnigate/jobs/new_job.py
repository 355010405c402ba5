"""What is asked for by whoever has a job made, and by which limits; and the ids of jobs."""

from __future__ import annotations

from typing import Any, Final

import attrs

#: Crockford's base32 in lower case: no i, l, o, u.
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"

ID_PREFIX: Final = "job_"

_RANDOM_BITS: Final = 80
_ID_CHARS: Final = 26


@attrs.frozen
class NewJob:
    """A job that is to be made; judged already, but for what only the store knows.

    :ivar key_sha256: the identity of the gateway key.
    :ivar input_json: the input as JSON, as the client wrote it: valid, and valid UTF-8.
    :ivar request_sha256: of all that was asked for, to know a repeat with the same idempotency key;
        without one it is not kept.
    """

    key_sha256: str
    model: str
    input_json: bytes = attrs.field(repr=False)
    metadata: dict[str, Any] | None = None
    webhook_url: str | None = None
    idempotency_key: str = ""
    request_sha256: str = ""


@attrs.frozen
class KeyLimits:
    """What one gateway key may have.

    :ivar max_open_jobs: how many jobs that are not final; 0 for any number.
    :ivar max_jobs_per_day: how many made in one UTC day; 0 for any number.
    """

    max_open_jobs: int = 0
    max_jobs_per_day: int = 10_000


class JobIds:
    """Makes ids that sort by the time they were made at, and never twice the same.

    An id is the time in milliseconds (48 bits) and 80 bits by chance, as in a ULID. Two of one
    millisecond, or of a clock that was put back, follow each other by one.
    """

    def __init__(self, newest_id: str = "") -> None:
        """Begin behind an id that there is."""
        self._last = number_of(newest_id) if newest_id else -1

    def make(self, now_ms: int, chance: bytes) -> str:
        """Return the next id.

        :param chance: ten bytes that nobody can guess.
        """
        number = (now_ms << _RANDOM_BITS) | int.from_bytes(chance, "big")
        self._last = max(number, self._last + 1)
        return id_of(self._last)


def id_of(number: int) -> str:
    """Return the id of a number of 128 bits."""
    shifts = range(5 * (_ID_CHARS - 1), -1, -5)
    return ID_PREFIX + "".join([ALPHABET[number >> shift & 31] for shift in shifts])


def number_of(job_id: str) -> int:
    """Return the number of an id.

    :raises ValueError: it is none.
    """
    number = 0
    for char in job_id.removeprefix(ID_PREFIX):
        number = number << 5 | ALPHABET.index(char)
    return number
