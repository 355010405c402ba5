"""One thing that must hold after a soak, and what did not."""

import attrs

#: Faults of each kind that are quoted.
QUOTED = 5


@attrs.define
class Check:
    """One thing that must hold.

    :ivar counted: how many things were looked at.
    :ivar faults: the first that did not hold; ``wrong`` is how many.
    """

    name: str
    counted: int = 0
    wrong: int = 0
    faults: list[str] = attrs.Factory(list)

    @property
    def ok(self) -> bool:
        """Whether it holds."""
        return not self.wrong

    def fail(self, text: str) -> None:
        """Note one that does not."""
        self.wrong += 1
        if len(self.faults) < QUOTED:
            self.faults.append(text)
