"""What is not well, told on top of every page, whatever page it is."""

from __future__ import annotations

import attrs


@attrs.frozen
class Alert:
    """One line of the strip above a page.

    :ivar text: what is the matter, in a sentence.
    :ivar path: the page that tells more; empty where none does.
    :ivar more: what the link to it says.
    :ivar kind: ``bad``, ``warn`` or ``info``.
    """

    text: str
    path: str = ""
    more: str = ""
    kind: str = "bad"


def alerts_of(faults: int, trouble: str | None) -> tuple[Alert, ...]:
    """Return what everybody has to know who looks at any page.

    :param faults: how many faults the config file has.
    :param trouble: why the stores cannot be used, in words; ``None`` while they can.
    """
    alerts = []
    if trouble is not None:
        alerts.append(Alert(f"The control plane is not ready: {trouble}."))
    if faults:
        are = "1 fault" if faults == 1 else f"{faults} faults"
        alerts.append(
            Alert(
                f"The config file has {are}; the last good config is in force.",
                "/config",
                "See what is wrong",
            )
        )
    return tuple(alerts)
