"""When each key was used last, and for which model, as far as this run has seen it.

The ledger tells the day of it; the moment and the model are kept here for the events that were
recorded since the start, and for the newest ones before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from omnigate.config.values import MAX_MODEL_CHARS
from omnigate.events import UsageEvent

#: Twice as many keys as there may be managed ones. Each takes some 300 bytes, so 6 MB.
MAX_USES: Final = 20_000


@attrs.frozen
class LastUse:
    """The newest event of a key.

    :ivar at_ms: its own time, which was not after the one at which it came.
    :ivar model: as the client named it.
    """

    at_ms: int
    model: str


class LastUses:
    """The newest event of each key.

    :param recent: returns the newest events that were recorded before this run, too; see
        :meth:`omnigate.ledger.service.Ledger.recent`.
    :param now_ms: the time; a data plane's clock may be ahead of it, and it may be set back.
    """

    def __init__(
        self, recent: Callable[[], Iterable[Mapping[str, Any]]], now_ms: Callable[[], int]
    ) -> None:
        self._recent = recent
        self._now_ms = now_ms
        self._seeded = False
        self._uses: dict[str, LastUse] = {}

    def recorded(self, event: UsageEvent) -> None:
        """Note an event."""
        self._note(event.key_sha256, event.ts_ms, event.route_model)

    def of(self, sha256: str) -> LastUse | None:
        """Return the newest event of a key; ``None`` where there was none of late.

        The first time, the newest events of the ledger are looked at, which takes 5 ms.

        :raises LedgerNotReady: it is not loaded.
        """
        if not self._seeded:
            for event in self._recent():
                key, at_ms, model = (
                    event.get(name) for name in ("key_sha256", "ts_ms", "route_model")
                )
                if isinstance(key, str) and isinstance(at_ms, int) and isinstance(model, str):
                    self._note(key, at_ms, model)
            self._seeded = True
        return self._uses.get(sha256)

    def _note(self, sha256: str, at_ms: int, model: str) -> None:
        now_ms = self._now_ms()
        at_ms = min(at_ms, now_ms)
        before = self._uses.get(sha256)
        if before is None:
            if len(self._uses) >= MAX_USES:
                del self._uses[next(iter(self._uses))]
        elif at_ms < before.at_ms <= now_ms:
            return
        self._uses[sha256] = LastUse(at_ms, model[:MAX_MODEL_CHARS])
