"""Targets that rest after failures, or because their provider asked for it."""

from __future__ import annotations

from collections import deque

#: The longest rest that a provider's ``retry-after`` can bring about, in seconds.
MAX_REST_SECONDS = 60.0


class Cooldown:
    """How one target has fared lately.

    After ``failures`` failures within ``window_seconds`` it rests for ``rest_seconds``;
    a success forgets them.  A resting target is not left out, it goes last.

    :ivar resting_until: seconds on the clock; in the past when the target does not rest.
    """

    __slots__ = ("_failed_at", "_failures", "_rest_seconds", "_window_seconds", "resting_until")

    def __init__(self, failures: int, window_seconds: float, rest_seconds: float) -> None:
        self._failures = failures
        self._window_seconds = window_seconds
        self._rest_seconds = rest_seconds
        self._failed_at: deque[float] = deque(maxlen=max(1, failures))
        self.resting_until = float("-inf")

    def failed(self, now: float, asked_seconds: float | None = None) -> float:
        """Note a failure; ``asked_seconds`` is the provider's own wish to be left alone.

        :return: how long it rests from now on, if it is this failure that says so; else 0.
        """
        before = self.resting_until
        if asked_seconds is not None:
            rest = now + min(asked_seconds, MAX_REST_SECONDS)
            self.resting_until = max(self.resting_until, rest)
        self._failed_at.append(now)
        if (
            len(self._failed_at) >= self._failures
            and now - self._failed_at[0] <= self._window_seconds
        ):
            self._failed_at.clear()
            self.resting_until = max(self.resting_until, now + self._rest_seconds)
        return self.resting_until - now if self.resting_until > max(before, now) else 0.0

    def succeeded(self) -> None:
        """Forget the failures; a rest that the provider asked for stays."""
        if self._failed_at:
            self._failed_at.clear()
