"""What the ledger counts of its own doing, for metrics and the log."""

from __future__ import annotations

import attrs

from omnigate.ledger.loading import Loaded


@attrs.frozen
class IngestResult:
    """What became of the events of a batch."""

    recorded: int
    duplicates: int
    invalid: int
    unpriced: int


@attrs.define
class LedgerCounters:
    """What was counted since the start; all begin at 0.

    :ivar recorded: events written to the disk and counted.
    :ivar duplicates: events skipped since their id was recorded before.
    :ivar invalid: events dropped since they cannot be recorded.
    :ivar unpriced: events recorded at no cost since their target has no price.
    :ivar replayed: events read back at the start, beyond those that a snapshot covered.
    :ivar replay_duplicates: lines skipped at the start since their id had been read before.
    :ivar damaged_lines: lines that could not be read at the start. They stay in the file.
    :ivar torn_bytes: bytes of a line cut short by a crash, cut off at the start.
    :ivar failed_writes: groups that the disk refused.
    :ivar snapshots: snapshots written.
    :ivar failed_snapshots: snapshots that could not be written.
    """

    recorded: int = 0
    duplicates: int = 0
    invalid: int = 0
    unpriced: int = 0
    replayed: int = 0
    replay_duplicates: int = 0
    damaged_lines: int = 0
    torn_bytes: int = 0
    failed_writes: int = 0
    snapshots: int = 0
    failed_snapshots: int = 0

    def loaded(self, loaded: Loaded) -> None:
        """Take over what a start counted."""
        self.replayed = loaded.replayed
        self.replay_duplicates = loaded.duplicates
        self.damaged_lines = loaded.damaged
        self.torn_bytes = loaded.torn_bytes
