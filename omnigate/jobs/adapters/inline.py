"""Media that stand in an answer as base64, and raw sound made a file of."""

from __future__ import annotations

import re
import struct
from typing import Final

import attrs

from omnigate.jobs import media_types
from omnigate.jobs.adapters import sources
from omnigate.jobs.adapters.base import InlineSource
from omnigate.outbound.messages import Answer, KeptMedia

#: Samples a second and channels where an answer names none, as Gemini's speech has them.
SAMPLE_RATE: Final = 24_000
CHANNELS: Final = 1
BYTES_PER_SAMPLE: Final = 2

_RAW: Final = frozenset(("audio/l16", "audio/pcm"))
_PARAMETER = re.compile(r";\s*(rate|channels)=([0-9]{1,6})\b")

#: The most that the head of a WAV file can say that follows.
_MAX_WAV_BYTES: Final = 2**32 - 1 - 36


def media(text: str, answer: Answer, content_type: str = "") -> InlineSource | None:
    """Return what a string of an answer holds: base64, with or without ``data:…`` before it.

    Raw samples (``audio/L16;rate=24000``, which nothing plays) become a WAV file. They are taken as
    little endian: so they come, whatever RFC 2586 says of that name.

    :returns: None where there is no base64.
    """
    found: object = None
    if text.startswith("data:") and text not in answer.media:
        found = sources.source(text, answer, "", content_type)
    else:
        found = sources.inline_source(text, answer, content_type)
    if not isinstance(found, InlineSource):
        return None
    if media_types.plain(found.content_type) in _RAW:
        return _as_wav(found)
    return found


def checked(found: InlineSource | None) -> InlineSource | None:
    """Return the same with the type that its first bytes tell, where they tell one."""
    if found is None:
        return None
    content = found.content
    head = content.head if isinstance(content, KeptMedia) else content
    told = media_types.sniffed(head)
    return attrs.evolve(found, content_type=told) if told else found


def _as_wav(found: InlineSource) -> InlineSource:
    told = dict(_PARAMETER.findall(found.content_type.lower()[: media_types.MAX_TYPE_CHARS]))
    rate = int(told.get("rate", SAMPLE_RATE)) or SAMPLE_RATE
    channels = int(told.get("channels", CHANNELS))
    if not 1 <= channels <= 8:
        channels = CHANNELS
    size = found.content.size if isinstance(found.content, KeptMedia) else len(found.content)
    return InlineSource(found.content, "audio/wav", wav_head(size, rate, channels))


def wav_head(size: int, rate: int, channels: int) -> bytes:
    """Return what stands before samples of 16 bits in a WAV file (RIFF, format 1: PCM).

    :param size: of the samples, in bytes.
    """
    size = min(size, _MAX_WAV_BYTES)
    frame = channels * BYTES_PER_SAMPLE
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        size + 36,
        b"WAVE",
        b"fmt ",
        16,
        1,
        channels,
        rate,
        rate * frame,
        frame,
        BYTES_PER_SAMPLE * 8,
        b"data",
        size,
    )
