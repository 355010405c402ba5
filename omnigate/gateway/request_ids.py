"""Request ids: 128 random bits each, in hexadecimal."""

from __future__ import annotations

import os

#: Bytes of an id before they are spelled.
ID_BYTES = 16
#: Ids made at a time: for one alone the way to the kernel would cost more than all else. So many
#: take some 20 microseconds and 20 KB.
BATCH = 256


class RequestIds:
    """Gives out ids that nobody can foretell, made in batches."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[str] = []

    def take(self) -> str:
        """An id that was not given out before: 32 hexadecimal digits."""
        ready = self._ready
        if not ready:
            digits = os.urandom(BATCH * ID_BYTES).hex()
            size = 2 * ID_BYTES
            ready = self._ready = [
                digits[start : start + size] for start in range(0, len(digits), size)
            ]
        return ready.pop()
