"""What the fake makes: true files that any viewer opens or at least knows, the same every time."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Final

#: Pixels of a picture that is to be looked at.
WIDTH: Final = 256
HEIGHT: Final = 192


def png(seed: str, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Draw a sunset over hills whose colours hang on ``seed``.

    A PNG (ISO 15948) of 8-bit RGB, without a library.
    """
    digest = hashlib.sha256(seed.encode()).digest()
    top = (40 + digest[0] // 4, 30 + digest[1] // 4, 90 + digest[2] // 3)
    low = (200 + digest[3] // 5, 110 + digest[4] // 3, 60 + digest[5] // 4)
    hill = (digest[6] // 4, 40 + digest[7] // 5, 30 + digest[8] // 5)
    sun_x, sun_y, sun_r = width * (40 + digest[9] % 180) // 256, height // 2, max(height // 7, 1)
    rows = []
    for y in range(height):
        share = y / max(height - 1, 1)
        sky = bytes(int(a + (b - a) * share) for a, b in zip(top, low, strict=True))
        row = bytearray(sky * width)
        reach = sun_r * sun_r - (y - sun_y) ** 2
        if reach > 0:
            half = int(reach**0.5)
            left, right = max(sun_x - half, 0), min(sun_x + half, width)
            row[left * 3 : right * 3] = bytes((255, 220, 140)) * (right - left)
        for x in range(width):
            wave = (x * (3 + digest[10] % 5)) % width
            rise = abs(wave - width // 2) * height // (width * 2)
            if y > height - height // 4 - rise // 2 + digest[11] % 9:
                row[x * 3 : x * 3 + 3] = bytes(hill)
        rows.append(b"\0" + bytes(row))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", head),
            (b"IDAT", zlib.compress(b"".join(rows), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def webp() -> bytes:
    """A RIFF container that a sniffer knows as WebP."""
    body = b"WEBPVP8L" + struct.pack("<I", 6) + b"/\0\0\0\0\x88"
    return b"RIFF" + struct.pack("<I", len(body)) + body


def jpeg() -> bytes:
    """The beginning and the end of a JFIF file."""
    return b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xd9"


def mp4(seconds: float = 1.0) -> bytes:
    """The boxes that a film begins with (ISO 14496-12), and its length in the header."""
    brand = b"ftypisom" + struct.pack(">I", 512) + b"isomiso2mp41"
    header = b"mvhd" + struct.pack(">IIIII", 0, 0, 0, 1000, int(seconds * 1000)) + b"\0" * 80
    movie = b"moov" + struct.pack(">I", len(header) + 4) + header
    return b"".join(struct.pack(">I", len(box) + 4) + box for box in (brand, movie))


def mp3() -> bytes:
    """One silent frame of MPEG-1 layer III, 128 kbit/s at 44.1 kHz."""
    return b"\xff\xfb\x90\x64" + b"\0" * 413


def pcm(samples: int = 16) -> bytes:
    """Raw 16-bit samples."""
    return b"".join(struct.pack("<h", (index * 997) % 20000 - 10000) for index in range(samples))


_MAKERS: Final = {
    "image/webp": webp,
    "image/jpeg": jpeg,
    "video/mp4": mp4,
    "audio/mpeg": mp3,
}


def made(content_type: str, seed: str, size: int = 0) -> bytes:
    """Return a file of a type, filled up to a size where one is asked for."""
    data = png(seed) if content_type == "image/png" else _MAKERS.get(content_type, mp3)()
    return data + b"\0" * (size - len(data))
