"""What keeps outputs for good: a folder, or a bucket."""

from __future__ import annotations

from typing import Final, Protocol

import attrs

LOCAL: Final = "local"
S3: Final = "s3"


class StorageFault(Exception):  # noqa: N818
    """The storage did not do it; the message is one line, without paths and secrets."""


@attrs.frozen
class StoredFile:
    """A file that is to be kept.

    :ivar path: where it lies now; it may be moved away from there.
    :ivar name: what it is called in the storage: ``JOB/0.png``.
    :ivar content_type: what it is served as.
    :ivar size: its length in bytes; ``sha256`` its hash in hex.
    """

    path: str
    name: str
    content_type: str
    size: int
    sha256: str


class Storage(Protocol):
    """One place where outputs are kept."""

    async def ready(self) -> None:
        """Find out whether a file can be kept now, as far as that can be known before.

        :raises StorageFault: it cannot be.
        """

    async def keep(self, file: StoredFile) -> None:
        """Have the file there for good, whatever stood there by its name.

        :raises StorageFault: it is not.
        """

    async def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed.

        :raises StorageFault: it is still there.
        """
