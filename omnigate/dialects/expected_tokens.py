"""How many tokens a request will likely come to, told from its bytes before it is sent.

For what is reserved only: figures settle it afterwards. It reads no JSON, since a body may have
8 MB and this is done for each request of a key with a limit: it takes 1.5 µs for one of 1 KB, and
0.7 ms at the worst.
"""

from __future__ import annotations

import re
from typing import Final

from omnigate.dialects.meter import BYTES_PER_TOKEN, TOKENS_PER_MEDIA_PART

#: How much of a long body is searched for the most output tokens, at its begin and at its end:
#: clients write the member before or behind their messages.
SEARCHED_BYTES: Final = 32 * 1024

#: Members of this kind looked at; a request has one, and tools may have some of the same name.
MAX_FOUND: Final = 16

#: Texts without a quote are looked for at each such place, so that those of twice the length, as
#: pictures are in base64, are found and shorter ones may not be: those are 4,000 tokens at most.
STEP_BYTES: Final = 8 * 1024

#: How much of such a text is looked at, to tell a picture from prose.
_SAMPLE_BYTES: Final = 512

_BEGIN: Final = b'"max_'
_stated = re.compile(
    rb'"max_(?:completion_|output_)?tokens"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}([0-9]{1,9})'
)
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
_DATA_URL: Final = b"data:"


def expected_tokens(body: bytes) -> int:
    """Return the tokens of a request and of the longest answer it asks for.

    Four bytes are a token; a picture or a file in base64 counts as the meter counts it. The answer
    counts where the request says how long it may be, in any of the three protocols.
    """
    length, media = len(body), 0
    if length > STEP_BYTES:
        length, media = _without_media(body)
    return length // BYTES_PER_TOKEN + media * TOKENS_PER_MEDIA_PART + most_output_tokens(body)


def most_output_tokens(body: bytes) -> int:
    """Return the most output tokens that a request asks for; 0 where it does not say."""
    length = len(body)
    if length <= 2 * SEARCHED_BYTES:
        return _most_between(body, 0, length)
    return max(
        _most_between(body, 0, SEARCHED_BYTES),
        _most_between(body, length - SEARCHED_BYTES, length),
    )


def _most_between(body: bytes, start: int, end: int) -> int:
    """Return the largest figure found; in a text each quote has a backslash, so none is there."""
    most = 0
    for _ in range(MAX_FOUND):
        start = body.find(_BEGIN, start, end)
        if start < 0:
            break
        stated = _stated.match(body, start)
        if stated is not None:
            most = max(most, int(stated[1]))
        start += len(_BEGIN)
    return most


def _without_media(body: bytes) -> tuple[int, int]:
    """Return the length of a body without what is in base64, and how many such texts it has."""
    length = left = len(body)
    media = place = 0
    while place < length:
        end = body.find(b'"', place)
        if end < 0:
            break
        if end - place < STEP_BYTES:
            place += STEP_BYTES
            continue
        start = body.rfind(b'"', 0, place) + 1
        if _is_base64(body[start : start + _SAMPLE_BYTES]):
            left -= end - start
            media += 1
        # Behind a text stands its other quote, and not the begin of the next one.
        place = end + 1
    return left, media


def _is_base64(begin: bytes) -> bool:
    if begin.startswith(_DATA_URL):
        begin = begin.partition(b",")[2]
    return not begin.translate(None, _BASE64)
