"""A body gathered as it arrives, to be joined once."""

from __future__ import annotations

#: Reads below this are put together before they are kept: a client that sends two bytes at a time
#: would otherwise make us hold twenty times what it sends. An object for so many takes one percent.
SMALL_BYTES = 4096
#: What is put together of small reads before it counts as a piece.
_TOGETHER_BYTES = 65536


class Gathered:
    """The pieces of a body so far.

    Large reads are kept as they are, so that each byte of them is copied once, by the join.
    """

    __slots__ = ("_pieces", "_small")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._small = bytearray()

    def add(self, data: bytes) -> None:
        """Take one read."""
        small = self._small
        if len(data) < SMALL_BYTES:
            small += data
            if len(small) < _TOGETHER_BYTES:
                return
            self._pieces.append(small)
            self._small = bytearray()
            return
        if small:
            self._pieces.append(small)
            self._small = bytearray()
        self._pieces.append(data)

    def join(self) -> bytes:
        """Return all that came, in order."""
        return b"".join((*self._pieces, self._small))
