"""Makes the picture of a page a third of its size: 256 colours do for one.

https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Decodes a picture, and gives each pixel the nearest of the colours that there are most of. A page
#: has some two thousand, nearly all of them at the edges of letters.
_REDUCE: Final = """async data => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + data;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  const colour = at => pixels[at] << 16 | pixels[at + 1] << 8 | pixels[at + 2];
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += 4)
    counts.set(colour(at), (counts.get(colour(at)) || 0) + 1);
  const kept = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(entry => entry[0]);
  const places = new Map(kept.map((value, place) => [value, place]));
  const away = (a, b, shift) => ((a >> shift & 255) - (b >> shift & 255)) ** 2;
  const nearest = value => {
    const distances = kept.map(k => away(k, value, 16) + away(k, value, 8) + away(k, value, 0));
    return distances.indexOf(Math.min(...distances));
  };
  const rows = new Uint8Array(pixels.length / 4);
  for (let at = 0; at < rows.length; at++) {
    const value = colour(4 * at);
    if (!places.has(value)) places.set(value, nearest(value));
    rows[at] = places.get(value);
  }
  let text = '';
  for (let at = 0; at < rows.length; at += 32768)
    text += String.fromCharCode(...rows.subarray(at, at + 32768));
  return [canvas.width, canvas.height, kept, btoa(text)];
}"""


def reduced(page: Page, png: bytes) -> bytes:
    """Return a picture with 256 colours at most.

    :param page: a page that may run scripts, and show pictures of ``data:`` addresses.
    :param png: the picture as Chromium takes it.
    """
    width, height, colours, text = page.evaluate(_REDUCE, base64.b64encode(png).decode("ascii"))
    pixels = base64.b64decode(text)
    # Each row as it is, without a filter, which suits pictures of few colours.
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(colour.to_bytes(3, "big") for colour in colours)),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
