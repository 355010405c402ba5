"""The world of one run: its time, its disk, its dice, and the trace of all that happened."""

from __future__ import annotations

import hashlib
import random

from tests.simulation.machine import Machine

#: Where the two planes have their files on the disk of the world.
DATA_FOLDER = "/data"
CONTROL_FOLDER = "/control"


class Trace:
    """What happened, in order: a digest of all of it, and the words themselves where wanted.

    :ivar lines: the words, if they are kept.
    """

    def __init__(self, kept: bool = False) -> None:
        self.lines: list[str] | None = [] if kept else None
        self._digest = hashlib.blake2b(digest_size=16)

    def note(self, words: str) -> None:
        """Write down one thing that happened."""
        self._digest.update(words.encode())
        self._digest.update(b"\n")
        if self.lines is not None:
            self.lines.append(words)

    def digest(self) -> str:
        """Of all that was noted so far."""
        return self._digest.hexdigest()


class World:
    """What everybody in a run shares.

    What lasts is counted by :attr:`now`; what is dated goes by :meth:`wall`, which may be set
    forward over midnights and months without a second having passed.

    :ivar rng: the only dice.
    :ivar now: seconds since the run began.
    :ivar disk: of both machines.
    """

    def __init__(self, seed: int, began: float, keeps_trace: bool = False) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = 0.0
        self.trace = Trace(keeps_trace)
        self.disk = Machine(DATA_FOLDER, CONTROL_FOLDER)
        self._wall = began

    def wall(self) -> float:
        """Seconds since 1970, on every machine."""
        return self._wall + self.now

    def wall_ms(self) -> int:
        """The same in milliseconds."""
        return int(self.wall() * 1000)

    def set_wall(self, seconds: float) -> None:
        """Set every clock on the wall."""
        self._wall = seconds - self.now
        self.note(f"the wall clock stands at {seconds:.3f}")

    def note(self, words: str) -> None:
        """Write down what happened, with the time."""
        self.trace.note(f"{self.now:9.3f} {words}")
