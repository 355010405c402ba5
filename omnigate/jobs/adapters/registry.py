"""The adapters that are known."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from omnigate.jobs.adapters.base import Adapter
from omnigate.jobs.adapters.elevenlabs import Elevenlabs
from omnigate.jobs.adapters.fal import Fal
from omnigate.jobs.adapters.gemini import Gemini
from omnigate.jobs.adapters.gemini_interactions import GeminiInteractions
from omnigate.jobs.adapters.openai_images import OpenaiImages
from omnigate.jobs.adapters.replicate import Replicate
from omnigate.jobs.adapters.sume import Sume
from omnigate.jobs.adapters.xai_video import XaiVideo

_KNOWN: Final[tuple[Adapter, ...]] = (
    Replicate(),
    Fal(),
    OpenaiImages(),
    Elevenlabs(),
    Gemini(),
    GeminiInteractions(),
    XaiVideo(),
    Sume(),
)

#: By the name that the config calls them; the same as ``omnigate.config.media.ADAPTERS``.
ADAPTERS: Final[Mapping[str, Adapter]] = MappingProxyType(
    {adapter.name: adapter for adapter in _KNOWN}
)
