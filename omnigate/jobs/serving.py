"""How a stored output is served: as a download, whatever it is, so that it cannot act as a page.

The bytes and their type came from a provider. What goes out is ``attachment``, of a type of the
short list or ``application/octet-stream``, never sniffed, and sandboxed where a browser shows it
all the same.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from omnigate.jobs.job import Output
from omnigate.jobs.media_types import EXTENSIONS, OCTETS

#: Kept by the client's own cache only, and asked for again each time: by then the job may be gone.
CACHE_CONTROL: Final = "private, no-cache"

POLICY: Final = "sandbox; default-src 'none'"

_RANGE = re.compile(r"bytes=(?:([0-9]{1,15})-([0-9]{0,15})|-([0-9]{1,15}))", re.ASCII)


class UnsatisfiableError(Exception):
    """Nothing of a file is in the range that was asked for."""


@attrs.frozen
class Served:
    """A stored output as it goes out.

    :ivar storage: where it lies, and ``name`` as what.
    :ivar size: of what is stored; ``sha256`` its hash in hex.
    :ivar filename: what a client may call it.
    """

    storage: str
    name: str
    content_type: str
    size: int
    sha256: str
    filename: str

    @property
    def disposition(self) -> str:
        """The value of ``content-disposition``."""
        return f'attachment; filename="{self.filename}"'

    @property
    def etag(self) -> str:
        """The value of ``etag``: what is stored never changes under its name."""
        return f'"{self.sha256}"'

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that every answer with it has."""
        return tuple(
            (name.encode("ascii"), value.encode("ascii"))
            for name, value in (
                ("content-disposition", self.disposition),
                ("x-content-type-options", "nosniff"),
                ("content-security-policy", POLICY),
                ("cache-control", CACHE_CONTROL),
                ("accept-ranges", "bytes"),
                ("etag", self.etag),
            )
        )

    def matches(self, if_none_match: str) -> bool:
        """Whether a client has it already (RFC 9110, section 13.1.2)."""
        tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
        return self.etag in tags or tags == ["*"]


def served(output: Output) -> Served:
    """Return how an output is served."""
    filename = output.name.replace("/", "-")
    if output.encrypted:
        size, sha256, kind = output.stored_size, output.stored_sha256, OCTETS
    else:
        size, sha256, kind = output.size, output.sha256, output.content_type
    if kind not in EXTENSIONS:
        kind = OCTETS
    return Served(output.storage, output.name, kind, size, sha256, filename)


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Return which bytes are asked for: from a first one to before a last one.

    :param header: the value of ``range``; empty where there is none.
    :returns: None for all of it; also for several ranges, or units that are not known, which a
        server may pass over (RFC 9110, section 14.2).
    :raises UnsatisfiableError: there are no such bytes.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        begin, end = max(0, size - int(suffix)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise UnsatisfiableError
    return begin, end
