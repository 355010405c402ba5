"""A data plane that says what a test has it say."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omnigate.control.dashboard.data_plane import Asking, DataRequest, Listener


@attrs.define
class Asked:
    """One request, and what the other side does with it.

    :ivar room: every change of whether it is read on.
    :ivar left: whether whoever asked has left.
    """

    request: DataRequest
    listener: Listener
    room: list[bool] = attrs.Factory(list)
    left: bool = False

    def pause(self) -> None:
        """Note that no more is read."""
        self.room.append(False)

    def resume(self) -> None:
        """Note that more is read."""
        self.room.append(True)

    def drop(self) -> None:
        """Note that nobody reads any more."""
        self.left = True

    def answer(self, status: int, content_type: str, *pieces: bytes, **headers: str) -> None:
        """Say the head and some pieces; names of headers are written with underscores."""
        told: Mapping[str, str] = {
            "content-type": content_type,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        self.listener.head(status, told)
        for piece in pieces:
            self.listener.data(piece)


class SilentClient:
    """Takes requests; a test answers them.

    :ivar asked: all that were sent, in their order.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(self, request: DataRequest, listener: Listener) -> Asking:
        """Take a request."""
        asked = Asked(request, listener)
        self.asked.append(asked)
        return asked
