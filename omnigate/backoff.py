"""A pause that grows while something keeps failing, up to a ceiling."""

FACTOR = 2.0


class Backoff:
    """Pauses for the tries after a failure: ``first``, then twice as long each time."""

    __slots__ = ("_ceiling", "_first", "_pause")

    def __init__(self, first: float, ceiling: float) -> None:
        """Start at the first pause.

        :param first: seconds of the first pause.
        :param ceiling: seconds that no pause exceeds.
        """
        self._first = first
        self._ceiling = ceiling
        self._pause = min(first, ceiling)

    def next(self) -> float:
        """Return the seconds to wait now; the next pause will be longer."""
        pause = self._pause
        self._pause = min(pause * FACTOR, self._ceiling)
        return pause

    def reset(self) -> None:
        """Begin again with the first pause; called when something has succeeded."""
        self._pause = min(self._first, self._ceiling)
