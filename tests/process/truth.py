"""What an upstream's bytes say, read with nothing of the gateway's own: the measure of its answers.

The whole wire lies before this reader, so it can be short and slow. It stops at the first thing
that is not plainly right and tells what stood before it.
"""

import re
import zlib

import attrs

_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?\r\n((?:[^\s:]+:[^\r\n]*\r\n)*)\r\n"
).match
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n").match
_TRAILER = re.compile(rb"(?:[^\s:]+:[^\r\n]*\r\n)*\r\n").match
_ANY_LINE_END = re.compile(rb"\r\n|\r|\n")


@attrs.frozen
class Truth:
    """An answer as it was sent.

    :ivar payload: the body, out of its framing and unpacked, as far as it is right.
    :ivar whole: it came to its end, and nothing in it was wrong.
    """

    status: int
    headers: dict[bytes, bytes]
    payload: bytes
    whole: bool


def read_truth(wire: bytes, closed: bool) -> Truth | None:
    """Read the answer in ``wire``.

    :param closed: the connection ended behind it, in order.
    :returns: ``None`` where there is no head, or one that leaves open what follows it.
    """
    while True:
        match = _HEAD(wire)
        if match is None:
            return None
        minor, status, text = match[1], int(match[2]), match[3]
        wire = wire[match.end() :]
        if status == 101:
            return None
        if status >= 200:
            break
    headers: dict[bytes, bytes] = {}
    for line in text.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name = name.lower()
        value = value.strip(b" \t")
        headers[name] = headers[name] + b", " + value if name in headers else value
    if status in (204, 304):
        return Truth(status, headers, b"", True)
    body = _body(wire, headers, minor, closed)
    if body is None:
        return None
    payload, whole = _unpacked(headers.get(b"content-encoding", b"").lower(), *body)
    return Truth(status, headers, payload, whole)


def _body(
    wire: bytes, headers: dict[bytes, bytes], minor: bytes, closed: bool
) -> tuple[bytes, bool] | None:
    lengths = {part.strip() for part in headers.get(b"content-length", b"").split(b",")} - {b""}
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        if coding.lower() != b"chunked" or b"content-length" in headers or minor == b"0":
            return None
        return _chunks(wire)
    if b"content-length" in headers:
        if len(lengths) != 1:
            return None
        [length] = lengths
        if not length.isdigit():
            return None
        size = int(length)
        return wire[:size], len(wire) >= size
    return wire, closed


def _chunks(wire: bytes) -> tuple[bytes, bool]:
    payload = b""
    while True:
        match = _SIZE(wire)
        if match is None:
            return payload, False
        size = int(match[1], 16)
        wire = wire[match.end() :]
        if size == 0:
            return payload, _TRAILER(wire) is not None
        payload += wire[:size]
        if wire[size : size + 2] != b"\r\n":
            return payload, False
        wire = wire[size + 2 :]


def _unpacked(coding: bytes, payload: bytes, whole: bool) -> tuple[bytes, bool]:
    if coding in (b"", b"identity") or (whole and not payload):
        return payload, whole
    if coding in (b"gzip", b"x-gzip"):
        bits = 31
    elif coding == b"deflate":
        bits = 15 if payload[:1] and payload[0] & 15 == 8 else -15
    else:
        return b"", False
    out = bytearray()
    unpacker = zlib.decompressobj(bits)
    # Byte by byte, so that all that stands before a fault is known.
    for at in range(len(payload)):
        piece = payload[at : at + 1]
        while piece:
            if unpacker.eof:
                if bits != 31:
                    return bytes(out), False
                unpacker = zlib.decompressobj(bits)
            try:
                out += unpacker.decompress(piece)
            except zlib.error:
                return bytes(out), False
            piece = unpacker.unused_data
    return bytes(out), whole and unpacker.eof


def data_of_events(body: bytes) -> list[bytes]:
    """The data of each whole event of a stream (HTML standard, 9.2.6)."""
    text = _ANY_LINE_END.sub(b"\n", body.removeprefix(b"\xef\xbb\xbf"))
    found = []
    lines: list[bytes] = []
    for line in text.split(b"\n")[:-1]:
        if not line:
            if lines:
                found.append(b"\n".join(lines))
            lines = []
        elif line == b"data" or line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
    return found
