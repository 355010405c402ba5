"""An answer as a client of the soak reads it, whole or not, right or wrong; no sockets in here."""

import json
import re
import zlib

from bench.answers import ChunkDecoder, WrongAnswerError

MAX_HEAD_BYTES = 16 * 1024
#: The largest answer has a megabyte of text.
MAX_BODY_BYTES = 8 * 1024 * 1024

_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")
_HEADER = re.compile(rb"\r\n([^:\r\n]+):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

# What a gateway and a provider may put between events, and what is nobody's content.
_BETWEEN = re.compile(
    rb'(?m)^(?::[^\n]*\r?\n\r?\n|event: ping\r?\ndata: \{"type": "ping"\}\r?\n\r?\n)'
)


class Answer:
    """Takes one answer apart as it comes.

    :ivar status: of the head; 0 before it is there.
    :ivar headers: by lower-case name.
    :ivar whole: whether the framing says that all of it has come.
    :ivar size: bytes of the payload so far.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.whole = False
        self.size = 0
        self._held = b""
        self._pieces: list[bytes] = []
        self._chunks: ChunkDecoder | None = None
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take in one read.

        :raises bench.answers.WrongAnswerError: this is no answer, or more than one
        """
        if not self.status:
            data = self._held + data
            if data.startswith(_CONTINUE):
                data = data[len(_CONTINUE) :]
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(data) > MAX_HEAD_BYTES:
                    raise WrongAnswerError("the head has no end")
                self._held = data
                return
            self._read_head(data[:end])
            data = data[end:]
        elif self.whole and data:
            raise WrongAnswerError("more comes behind the answer")
        if self._chunks is not None:
            payload = self._chunks.feed(data)
            self.whole = self._chunks.ended
        else:
            payload = data
            self._left -= len(data)
            if self._left < 0:
                raise WrongAnswerError("more comes behind the answer")
            self.whole = not self._left
        self.size += len(payload)
        if self.size > MAX_BODY_BYTES:
            raise WrongAnswerError("the answer is too long")
        if payload:
            self._pieces.append(payload)

    def body(self) -> bytes:
        """Return the payload so far."""
        self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]

    def content(self) -> bytes:
        """Return the payload without comments, pings and heartbeats."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return _BETWEEN.sub(b"", self.body())
        return self.body()

    def crc(self) -> int:
        """Return the checksum of :meth:`content`."""
        return zlib.crc32(self.content().replace(b"\r\n", b"\n"))

    def code(self) -> str:
        """Return the code of an error, or an empty string."""
        try:
            error = json.loads(self.body())["error"]
            return str(error["code"] or "")
        except (ValueError, LookupError, TypeError):
            return ""

    @property
    def keeps(self) -> bool:
        """Whether the connection may be used again."""
        return self.whole and self.headers.get("connection", "").lower() != "close"

    def _read_head(self, head: bytes) -> None:
        found = _STATUS.match(head)
        if found is None:
            raise WrongAnswerError(f"no head of an answer begins {head[:60]!r}")
        self.status = int(found[1])
        for name, value in _HEADER.findall(head[:-2]):
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        length = self.headers.get("content-length")
        chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        if chunked == (length is not None):
            raise WrongAnswerError(f"the head does not tell one length: {head!r}")
        if chunked:
            self._chunks = ChunkDecoder()
        else:
            self._left = int(length or 0)
            self.whole = not self._left
