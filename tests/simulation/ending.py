"""What stands in for the process and its listening port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed


class Door:
    """An endpoint, and the port that it opens.

    :ivar listening: whether it takes connections.
    """

    def __init__(self) -> None:
        self.listening = False

    def listen(self, factory: object) -> Deferred[Any]:
        """Open."""
        self.listening = True
        return succeed(self)

    def getHost(self) -> IPv4Address:
        """Here."""
        return IPv4Address("TCP", "127.0.0.1", 8080)

    def stopListening(self) -> None:  # noqa: N802
        """Close."""
        self.listening = False


class NoteEnding:
    """The end of the process.

    :ivar failed: the line that a start ended with.
    """

    def __init__(self) -> None:
        self.failed: str | None = None

    def watch(self) -> None:
        """Nothing to be in charge of."""

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Nobody sends a signal."""

    def on_hurry(self, call: Callable[[], object]) -> None:
        """Nobody sends two."""

    def stopped(self) -> None:
        """It ended in order."""

    def fail_start(self, line: str) -> None:
        """It cannot start."""
        self.failed = line
