"""A client on a bare socket: it sends any bytes, and reads answers by rules of its own.

It shares nothing with ``omnigate.wire`` on purpose: a client that read answers with the gateway's
own parser would agree with every mistake in it.
"""

import contextlib
import json
import socket
from collections.abc import Sequence
from typing import Any

import attrs

from tests.process.daemons import SECONDS

_DIGITS = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdef")


class BadAnswerError(AssertionError):
    """What the gateway sent is no answer of HTTP/1.1."""


@attrs.frozen
class RawAnswer:
    """One answer.

    :ivar headers: lower-case names; the values of repeated ones joined by ``", "``.
    :ivar whole: its framing says that it is complete.
    :ivar interim: the 1xx statuses before it.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    interim: tuple[int, ...] = ()

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error in either protocol's shape; empty where it is none."""
        try:
            code = self.json["error"]["code"]
        except (ValueError, LookupError, TypeError):
            return ""
        return str(code)

    @property
    def closes(self) -> bool:
        """Whether it says that the connection ends with it."""
        options = self.headers.get("connection", "").lower().split(",")
        return "close" in [option.strip() for option in options]


def dial(port: int, receive_bytes: int = 0, seconds: float = SECONDS) -> socket.socket:
    """A connection to a port of loopback.

    :param receive_bytes: the size of the receive buffer, where it is to be small.
    :param seconds: what a read or a write may take.
    """
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if receive_bytes:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        opened.settimeout(seconds)
        opened.connect(("127.0.0.1", port))
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        opened.close()
        raise
    return opened


def reset(opened: socket.socket) -> None:
    """End a connection with a reset."""
    linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
    with contextlib.suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    opened.close()


def read_rest(opened: socket.socket) -> bytes:
    """Everything until the other side ends the connection, in order or with a reset."""
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while piece := opened.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def exchange(port: int, sent: bytes) -> bytes:
    """Send on a fresh connection, and return all that comes until it is closed."""
    with dial(port) as opened:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            opened.sendall(sent)
        return read_rest(opened)


def answers_in(data: bytes, methods: Sequence[str] = ()) -> list[RawAnswer]:
    """Read all answers out of what came on a connection that has ended.

    :param methods: of the requests, in order; ``GET`` for those beyond.
    :raises BadAnswerError: anything is not as it must be; half an answer at the end is no fault.
    """
    answers: list[RawAnswer] = []
    interim: list[int] = []
    while data:
        head, found, data = data.partition(b"\r\n\r\n")
        if not found:
            break
        status, headers = _head(head)
        if status < 200:
            interim.append(status)
            continue
        method = methods[len(answers)] if len(answers) < len(methods) else "GET"
        body, whole, data = _body(status, headers, method, data)
        answers.append(RawAnswer(status, headers, body, whole, tuple(interim)))
        interim = []
    return answers


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.split(b"\r\n")
    if first[:9] != b"HTTP/1.1 " or not set(first[9:12]) <= _DIGITS or first[12:13] != b" ":
        raise BadAnswerError(f"no status line: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        control = any(byte < 32 and byte != 9 for byte in value)
        if not colon or not name or name != name.strip() or control:
            raise BadAnswerError(f"no header line: {line[:80]!r}")
        key, text = name.decode("ascii").lower(), value.strip().decode("latin-1")
        if key in headers and key in ("content-length", "transfer-encoding", "date"):
            raise BadAnswerError(f"{key} stands there twice")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return int(first[9:12]), headers


def _body(
    status: int, headers: dict[str, str], method: str, data: bytes
) -> tuple[bytes, bool, bytes]:
    """The body, whether it is whole, and what follows it."""
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is not None and coding is not None:
        raise BadAnswerError("a length and a transfer coding")
    if method == "HEAD" or status in (204, 304):
        return b"", True, data
    if coding is not None:
        if coding != "chunked":
            raise BadAnswerError(f"transfer-encoding: {coding}")
        return _chunks(data)
    if length is None:
        if "close" not in headers.get("connection", ""):
            raise BadAnswerError("a body that nothing ends")
        return data, True, b""
    size = int(length)
    return data[:size], len(data) >= size, data[size:]


def _chunks(data: bytes) -> tuple[bytes, bool, bytes]:
    pieces: list[bytes] = []
    while True:
        line, found, rest = data.partition(b"\r\n")
        if not found:
            return b"".join(pieces), False, b""
        if not line or not set(line) <= _HEX:
            raise BadAnswerError(f"no chunk size: {line[:40]!r}")
        size = int(line, 16)
        if not size:
            if not rest.startswith(b"\r\n"):
                return b"".join(pieces), False, b""
            return b"".join(pieces), True, rest[2:]
        pieces.append(rest[:size])
        if len(rest) < size + 2:
            return b"".join(pieces), False, b""
        if rest[size : size + 2] != b"\r\n":
            raise BadAnswerError("a chunk that does not end where it said")
        data = rest[size + 2 :]
