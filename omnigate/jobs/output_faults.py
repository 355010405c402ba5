"""Why the outputs of a job were not stored, and how many and how large they may be."""

from __future__ import annotations

import attrs

from omnigate.config.media import MediaConfig
from omnigate.jobs.job import (
    OUTPUT_REFUSED,
    OUTPUT_TOO_LARGE,
    OUTPUT_UNAVAILABLE,
    STORAGE_FAILED,
    JobError,
)


class OutputFault(Exception):  # noqa: N818
    """The outputs of an attempt were not stored; nothing of them is left.

    :ivar error: for the job; it holds no URL of a provider.
    :ivar is_ours: whether our own storage failed: the job fails, and no other provider is tried,
        since the next one's outputs would meet the same storage.
    """

    def __init__(self, code: str, message: str, *, is_ours: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.error = JobError(code, message)
        self.is_ours = is_ours


@attrs.frozen
class OutputLimits:
    """What the outputs of one job may come to.

    :ivar max_output_bytes: of one; clear bytes count.
    :ivar max_total_bytes: of all together.
    """

    max_output_bytes: int
    max_outputs: int
    max_total_bytes: int

    @classmethod
    def of(cls, media: MediaConfig) -> OutputLimits:
        """Return those that the config sets."""
        return cls(media.max_output_bytes, media.max_outputs_per_job, media.max_job_output_bytes)

    @property
    def largest(self) -> int:
        """The most bytes that one output may have whatever the others have."""
        return min(self.max_output_bytes, self.max_total_bytes)

    def too_large(self) -> OutputFault:
        """Return the fault of one that is larger than :attr:`largest`."""
        if self.max_output_bytes <= self.max_total_bytes:
            return OutputFault(
                OUTPUT_TOO_LARGE, f"output is larger than {self.max_output_bytes} bytes"
            )
        return self.too_large_together()

    def too_large_together(self) -> OutputFault:
        """Return the fault of several that are too large together."""
        return OutputFault(
            OUTPUT_TOO_LARGE, f"outputs are larger than {self.max_total_bytes} bytes together"
        )

    def too_many(self, count: int) -> OutputFault:
        """Return the fault of too many."""
        return OutputFault(OUTPUT_TOO_LARGE, f"{count} outputs, {self.max_outputs} allowed")


def refused(message: str) -> OutputFault:
    """Return the fault of an output that may not be fetched."""
    return OutputFault(OUTPUT_REFUSED, message)


def unavailable(message: str) -> OutputFault:
    """Return the fault of an output that could not be had."""
    return OutputFault(OUTPUT_UNAVAILABLE, message)


def storage_failed(message: str) -> OutputFault:
    """Return the fault of our own storage."""
    return OutputFault(STORAGE_FAILED, message, is_ours=True)
