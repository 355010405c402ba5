"""What the parent of several data plane workers tells each at its start: which one it is.

It stands in one variable of the worker's environment, as JSON, and is taken out of it at once.  It
is between parent and worker alone, and no setting.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Annotated, Final

import msgspec

SEAT_VARIABLE: Final = "OMNIGATE_WORKER_SEAT"

#: No process has as many workers or open files; a number beyond would be none of C's.
_MOST: Final = 1 << 20

_Number = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]


class SeatError(Exception):
    """The variable holds no seat; the text says where and what to do."""


class WorkerSeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One worker's place among its like, and the descriptors that it has from its parent.

    ``index`` counts from 0; ``count`` is how many workers there are.  ``listen_fd`` is a socket
    that listens, ``channel_fd`` the line to the parent (:mod:`omnigate.protocols.worker_channel`),
    and ``counters_fd`` the memory that all workers count in.
    """

    index: _Number
    count: _Number
    listen_fd: _Number
    channel_fd: _Number
    counters_fd: _Number

    def told(self) -> str:
        """Return the seat as the variable has it."""
        return msgspec.json.encode(self).decode()


def take_seat(environ: MutableMapping[str, str]) -> WorkerSeat | None:
    """Take a worker's seat out of its environment.

    :returns: ``None`` in a process that is nobody's worker.
    :raises SeatError: what stands there is no seat.
    """
    text = environ.pop(SEAT_VARIABLE, "")
    if not text:
        return None
    try:
        seat = msgspec.json.decode(text, type=WorkerSeat)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise SeatError(seat_fault(str(error))) from None
    return seat


def seat_fault(reason: str) -> str:
    """Return the line for a seat that no parent of workers has given."""
    return f"{SEAT_VARIABLE}: is set by the parent of workers, by nobody else; unset it ({reason})"
