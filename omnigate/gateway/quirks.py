"""What models were seen to refuse, for translated requests; kept in memory, per gateway key.

The evidence is a provider's error text, and a client can make a provider repeat text of the
client's choosing. Within its own key the worst it can do with that is to change its own requests.
"""

from __future__ import annotations

from typing import Final

from omnigate.dialects.shapes import Quirk

#: Beyond these nothing more is remembered, and each such request pays for its own retry. The
#: strings are those of the tables in force, so that an entry takes some 250 bytes.
MAX_QUIRKS: Final = 20_000


class QuirkTable:
    """The quirks of models by gateway key, upstream and model; they last until a restart."""

    def __init__(self, bound: int = MAX_QUIRKS) -> None:
        self._bound = bound
        self._learned: dict[tuple[str, str, str], Quirk] = {}

    def __len__(self) -> int:
        return len(self._learned)

    def known(self, key_sha256: str, upstream: str, model: str) -> Quirk:
        """Return what the model refused to this key before.

        :param upstream: its name.
        :param model: as the upstream calls it.
        """
        return self._learned.get((key_sha256, upstream, model), Quirk.NONE)

    def learn(self, key_sha256: str, upstream: str, model: str, quirk: Quirk) -> None:
        """Remember what the model refused, beside what is known of it; the table may be full."""
        place = (key_sha256, upstream, model)
        known = self._learned.get(place)
        if known is not None:
            self._learned[place] = known | quirk
        elif quirk and len(self._learned) < self._bound:
            self._learned[place] = quirk
