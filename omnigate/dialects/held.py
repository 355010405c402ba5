"""What the answers that pass keep back together, and its bound.

An unfinished event of a stream is kept until it is whole, and a short answer until it is, each up
to 64 KiB. An upstream that finishes none of them can have that much of each request, so all of
them share :class:`HeldBytes`. Where it is used up nothing fails: what has come goes out at once,
as the parts of a longer event or answer do. Its figures are read all the same.
"""

# A thousand unfinished events of the longest kind. Answers that are well keep back next to nothing.
MAX_ALL_HELD_BYTES = 64 * 1024 * 1024

# Up to this much is kept by each without being counted, for nearly no event is longer: ten thousand
# of these take 40 MB.
LITTLE_BYTES = 4096


class HeldBytes:
    """What all holders keep back.

    :ivar bytes: so much, in holders that have more than :data:`LITTLE_BYTES`.
    """

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int = MAX_ALL_HELD_BYTES) -> None:
        self.bytes = 0
        self.limit = limit


class Hold:
    """The part of one holder; it is given back with the holder itself, however that ends.

    :ivar bytes: what is counted.
    """

    __slots__ = ("_all", "bytes")

    def __init__(self, all_held: HeldBytes) -> None:
        self._all = all_held
        self.bytes = 0

    def keep(self, size: int) -> bool:
        """Count so many bytes in place of those before.

        :returns: ``False`` where there is no room for them; then nothing is counted.
        """
        counted = size if size > LITTLE_BYTES else 0
        everything = self._all
        others = everything.bytes - self.bytes
        room = not counted or others + counted <= everything.limit
        self.bytes = counted if room else 0
        everything.bytes = others + self.bytes
        return room

    def __del__(self) -> None:
        self._all.bytes -= self.bytes
