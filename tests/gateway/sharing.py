"""Workers that share counters, all of them in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, cast

from omnigate.gateway.shared_limits import SharedAdmission, SharedKeyLimits, SharedKeyUse
from omnigate.gateway.shared_uses import SharedUses


def digest(name: object) -> bytes:
    """What stands for a key."""
    return sha256(str(name).encode()).digest()


KEY = digest("the key")


class Workers:
    """A parent and its workers over one memory; :meth:`close` gives the files back.

    :ivar parent: what the parent has.
    :ivar all: what each worker has.
    """

    def __init__(self, count: int, max_rows: int = 16) -> None:
        self.parent = SharedUses.create(count, max_rows)
        self.all = [self.attach(index) for index in range(count)]

    def attach(self, index: int) -> SharedUses:
        """A worker begins."""
        return SharedUses.attach(os.dup(self.parent.fd), index)

    def close(self) -> None:
        """Close the files; what is mapped goes with the objects."""
        for shared in (self.parent, *self.all):
            os.close(shared.fd)


class Place:
    """One worker's admission, and what one key holds there.

    :ivar tickets: what it holds.
    """

    def __init__(self, shared: SharedUses, budget: int, key: bytes = KEY) -> None:
        self.limits = SharedKeyLimits(shared)
        self.admission = SharedAdmission(budget, 1000, shared)
        self.use = use_of(self.limits, key)
        self.tickets: list[Any] = []

    def uses(self, keys: Sequence[bytes]) -> list[SharedKeyUse]:
        """What several keys hold there."""
        found = self.limits.uses(keys)
        return [cast(SharedKeyUse, found[key]) for key in keys]


def use_of(limits: SharedKeyLimits, key: bytes) -> SharedKeyUse:
    """What a key holds."""
    use = limits.uses([key])[key]
    assert isinstance(use, SharedKeyUse)
    return use


class Watched:
    """Slots that tell when they have been read: whatever is done then, the reader knows not."""

    def __init__(self, slots: Any, read: Callable[[], None]) -> None:
        self._slots = slots
        self._read = read

    def __iter__(self) -> Iterator[Any]:
        """Each slot as it was, and then the moment before the reader goes on."""
        values = list(self._slots)
        self._read()
        yield from values

    def __getitem__(self, index: int) -> Any:
        """One slot."""
        return self._slots[index]

    def __setitem__(self, index: int, value: Any) -> None:
        """Write one slot."""
        self._slots[index] = value

    def __len__(self) -> int:
        """How many there are."""
        return len(self._slots)
