"""A pause that grows while something keeps failing, up to a ceiling."""

import random


class Backoff:
    """Pauses for the tries after a failure: ``first``, then ``factor`` times longer each.

    With a source of chance each pause is drawn from the upper half of what it would be, so that
    several planes which lost the same peer do not all come back at the same moment.
    """

    __slots__ = ("_ceiling", "_factor", "_first", "_pause", "_rng")

    def __init__(
        self,
        first: float,
        ceiling: float,
        factor: float = 2.0,
        rng: random.Random | None = None,
    ) -> None:
        """Start at the first pause.

        :param first: seconds of the first pause.
        :param ceiling: seconds that no pause exceeds.
        :param rng: where to draw jitter from; ``None`` for none.
        """
        self._first = first
        self._ceiling = ceiling
        self._factor = factor
        self._rng = rng
        self._pause = min(first, ceiling)

    def next(self) -> float:
        """Return the seconds to wait now; the next pause will be longer."""
        pause = self._pause
        self._pause = min(pause * self._factor, self._ceiling)
        if self._rng is not None:
            return pause * self._rng.uniform(0.5, 1.0)
        return pause

    def reset(self) -> None:
        """Begin again with the first pause; called when something has succeeded."""
        self._pause = min(self._first, self._ceiling)
