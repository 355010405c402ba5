"""What is asked of another server, and what came of it: values, without sockets.

Nothing a peer does is an exception here: what went wrong stands in :attr:`Answer.fault`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred

#: What can be wrong with an answer, beside its status.
CONNECT_ERROR: Final = "connect_error"
#: No connection was free for it; nothing was sent, and it may be tried again.
NO_TURN: Final = "no_turn"
CONNECTION_LOST: Final = "connection_lost"
TIMEOUT: Final = "timeout"
BAD_FRAMING: Final = "bad_framing"
TRUNCATED: Final = "truncated"
TOO_LARGE: Final = "too_large"
#: The guard let it through nowhere: an address or a URL that is not for us.
REFUSED: Final = "refused"
TOO_MANY_REDIRECTS: Final = "too_many_redirects"
#: The sink did not take it: a disk that is full.
NOT_KEPT: Final = "not_kept"


class Cap(enum.Enum):
    """How long an answer may be.

    ``API``     what an interface says of a job: 4 MiB;
    ``INLINE``  JSON that holds media in base64: four thirds of ``media.max_output_bytes`` and
                64 KiB, at most 256 MiB;
    ``OUTPUT``  the body is the media: ``media.max_output_bytes``.
    """

    API = "api"
    INLINE = "inline"
    OUTPUT = "output"


@attrs.frozen
class Request:
    """One request, written by an adapter; who sends it adds ``host``, length and ``identity``.

    :ivar url: absolute.
    :ivar headers: names in lower case; credentials are among them.
    :ivar head_seconds: until the head of the answer must be there.
    :ivar pause_seconds: to wait before it is sent.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    cap: Cap = Cap.API
    head_seconds: float = 30.0
    pause_seconds: float = 0.0


@attrs.frozen
class KeptMedia:
    """Media that came in an answer and lie in a file by now.

    :ivar path: the file; whoever asked for it removes it.
    :ivar size: its length.
    :ivar sha256: of its content, in hex.
    :ivar head: its first bytes, 64 at most, to tell what it is.
    :ivar prefix: what stood before base64 in the JSON string: ``data:image/png;base64,``, or
        nothing.
    """

    path: str
    size: int
    sha256: str
    head: bytes
    prefix: str = ""


@attrs.frozen
class Answer:
    """What came back.

    :ivar status: 0 where no head came.
    :ivar headers: names in lower case; of several lines the first.
    :ivar body: empty where it went into a file.
    :ivar fault: empty, or what broke.
    :ivar detail: the same in a sentence, without secrets.
    :ivar media: of an answer with :attr:`Cap.INLINE`: what was taken out of its JSON, by the marker
        that stands there in its place. Nobody outside can know a marker before.
    :ivar kept: of an answer with :attr:`Cap.OUTPUT`: its body.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = attrs.field(default=b"", repr=False)
    fault: str = ""
    detail: str = ""
    media: Mapping[str, KeptMedia] = attrs.field(factory=dict, repr=False)
    kept: KeptMedia | None = None

    @property
    def ok(self) -> bool:
        """Whether it is whole, and a 2xx."""
        return not self.fault and 200 <= self.status < 300


class BodyRefused(Exception):  # noqa: N818
    """A sink takes no more of a body: what comes is not what was asked for, or is too much.

    :ivar fault: one of the words above, for :attr:`Answer.fault`.
    :ivar detail: the same in a sentence.
    """

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


class Pausable(Protocol):
    """What a body comes from."""

    def pause(self) -> None:
        """Send nothing more for now."""

    def resume(self) -> None:
        """Go on."""


class Sink(Protocol):
    """Where a body goes piece by piece; only that of a 2xx.

    It is told ``begin`` once, then pieces, then ``finish`` or ``abandon``; where no 2xx comes, it
    is told nothing at all. After a ``finish`` that failed it is told ``abandon``.
    """

    def begin(self, source: Pausable) -> None:
        """Get ready; what comes may be slowed down by this."""

    def write(self, data: bytes) -> None:
        """Take a piece, never empty.

        :raises BodyRefused: no more is wanted.
        """

    def finish(self) -> Deferred[None]:
        """The body is whole; fires when all of it is kept.

        It fails with an OSError where it cannot be kept, with :exc:`BodyRefused` where it is not
        to be.
        """

    def abandon(self) -> None:
        """There will be no more: throw away what was taken."""
