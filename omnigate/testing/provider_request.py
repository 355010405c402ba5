"""What the fake provider is sent: a reader of requests, and the facts it keeps of each.

It is written apart from ``omnigate.wire`` on purpose: a provider that read requests with the
gateway's own parser would agree with every mistake in it.
"""

import json
import re
from typing import Any

import attrs

# Real providers cut heads off at 16 to 64 KiB.
MAX_HEAD_BYTES = 65_536
# The gateway's own limit is at most 64 MiB, and a model name that got longer comes on top.
MAX_BODY_BYTES = 80 * 1024 * 1024

_REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.([01])")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_DIGITS = re.compile(rb"\d{1,15}")


class BadRequestError(Exception):
    """The bytes are no request this provider takes; the connection ends with the answer.

    :ivar status: the HTTP status to answer
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@attrs.frozen
class SeenRequest:
    """One request as the fake provider read it.

    :ivar number: counted over the provider's life, from 1
    :ivar connection: which connection it came on, from 1
    :ivar ordinal: its place on that connection, from 1
    :ivar headers: lower-case names; of repeated ones the values joined by ``", "``
    :ivar fields: the JSON object of the body, empty where there is none
    """

    number: int
    connection: int
    ordinal: int
    method: str
    path: str
    query: str
    http10: bool
    headers: dict[str, str]
    body: bytes
    fields: dict[str, Any]

    @property
    def model(self) -> str:
        """The model named in the body, or an empty string."""
        model = self.fields.get("model")
        return model if isinstance(model, str) else ""

    @property
    def stream(self) -> bool:
        """Whether the client asked for a stream."""
        return self.fields.get("stream") is True

    @property
    def endpoint(self) -> str:
        """The path behind ``/v1``, whatever stands before that; empty where there is none."""
        _, found, rest = self.path.partition("/v1/")
        return f"/{rest}" if found else ""

    @property
    def anthropic(self) -> bool:
        """Whether the client speaks the Anthropic protocol."""
        return self.endpoint.startswith("/messages") or "anthropic-version" in self.headers

    @property
    def include_usage(self) -> bool:
        """Whether a chat or completions stream is to end with its usage."""
        options = self.fields.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def credential(self) -> str:
        """The key the request carries, whichever header holds it."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        return bearer or self.headers.get("x-api-key", "")

    @property
    def wants_close(self) -> bool:
        """Whether the connection ends with this exchange."""
        connection = self.headers.get("connection", "").lower()
        return "close" in connection or (self.http10 and "keep-alive" not in connection)


class RequestReader:
    """Cut the bytes of one connection into requests.

    :param connection: the number of the connection, kept in every request
    """

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._searched = 0
        self._head: tuple[str, str, bool, dict[str, str]] | None = None
        self._length = 0
        self._ordinal = 0
        self.wants_continue = False

    def feed(self, data: bytes) -> None:
        """Take what was read from the connection."""
        self._buffer += data

    def next_request(self, number: int) -> SeenRequest | None:
        """The next whole request, or None until more bytes have come.

        :param number: the number it is to carry
        :raises BadRequestError: when the bytes are no request
        """
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        if len(self._buffer) < self._length:
            return None
        method, target, http10, headers = self._head
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._head = None
        self._searched = 0
        self.wants_continue = False
        self._ordinal += 1
        path, _, query = target.partition("?")
        return SeenRequest(
            number=number,
            connection=self._connection,
            ordinal=self._ordinal,
            method=method,
            path=path,
            query=query,
            http10=http10,
            headers=headers,
            body=body,
            fields=_json_object(body),
        )

    def _read_head(self) -> bool:
        """Read a head off the buffer, if it is there whole."""
        end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        self._searched = len(self._buffer)
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
            raise BadRequestError(431, "the request head is too large")
        if end < 0:
            return False
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        first = _REQUEST_LINE.fullmatch(lines[0])
        if first is None:
            raise BadRequestError(400, "the request line is malformed")
        headers = _headers(lines[1:])
        self._head = (first[1].decode(), first[2].decode(), first[3] == b"0", headers)
        self._length = _body_length(first[1], headers)
        self.wants_continue = self._length > 0 and "100-continue" in headers.get("expect", "")
        return True


def _headers(lines: list[bytes]) -> dict[str, str]:
    """The header lines as a mapping; repeated lengths and codings are refused."""
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER_LINE.fullmatch(line)
        if match is None:
            raise BadRequestError(400, "a header line is malformed")
        name, value = match[1].decode().lower(), match[2].decode("latin-1")
        if name in headers:
            if name in ("content-length", "transfer-encoding", "host"):
                raise BadRequestError(400, f"{name} stands there twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _body_length(method: bytes, headers: dict[str, str]) -> int:
    """The declared length of the body, judged as strictly as the large providers do."""
    if "transfer-encoding" in headers:
        if "content-length" in headers:
            raise BadRequestError(400, "a length together with a transfer coding")
        raise BadRequestError(411, "a content-length is required")
    declared = headers.get("content-length")
    if declared is None:
        if method in (b"POST", b"PUT", b"PATCH"):
            raise BadRequestError(411, "a content-length is required")
        return 0
    if _DIGITS.fullmatch(declared.encode("latin-1")) is None:
        raise BadRequestError(400, "the content-length is no number")
    length = int(declared)
    if length > MAX_BODY_BYTES:
        raise BadRequestError(413, "the body is too large")
    return length


def _json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object; anything else is an empty one."""
    try:
        value = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
