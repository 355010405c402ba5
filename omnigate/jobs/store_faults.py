"""What the job store answers where something could not be done."""

from __future__ import annotations

from typing import Final

from omnigate.errors import GatewayError
from omnigate.writer_thread import WriterBusyError, WriterStoppedError

#: What a disk or a writer may answer without anything being broken in this program.
EXPECTED: Final = (OSError, WriterBusyError, WriterStoppedError)


class StorageUnavailable(GatewayError):  # noqa: N818
    """The disk refused; nothing was changed."""

    def __init__(self, detail: str = "", message: str = "") -> None:
        super().__init__(
            "storage_unavailable",
            message
            or "the job could not be written, and nothing was changed; try again, and if it stays, "
            "have an operator look at the control plane's disk",
            retry_after=1,
            detail=detail,
        )


class InputLost(StorageUnavailable):
    """The input of a job is not on the disk any more, or damaged there; trying again won't help."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "the input of this job is lost: its file is missing or damaged")


def not_open() -> GatewayError:
    """Return the answer of a store that is not open, or was abandoned meanwhile."""
    return GatewayError(
        "not_ready",
        "the jobs are being read, or closed; look whether it was done, and try again in a second",
        retry_after=1,
    )
