"""What ``omnigate init`` writes of media jobs: routes to the providers that it has found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from omnigate.settings import SettingsError, provider_key

_HEAD: Final = """
# ---- Media jobs ---------------------------------------------------------------------------------
# Slow models of images, films and sound, asked by POST /v1/jobs: docs/jobs.md. Their credentials
# stand in the environment of the control plane. Prices are examples in US dollars: put in what you
# pay. A target without a price costs $0 and counts for no budget.
"""

_ROUTE: Final = """
[[media.routes]]
model = "{name}"
  [[media.routes.targets]]
  adapter = "{adapter}"
  model = "{model}"
  api_key_env = "{variable}"
{price}"""


@attrs.frozen
class MediaModel:
    """A model of a media provider that many have a credential of.

    :ivar name: what clients call it.
    :ivar price: lines that the target has beside; a comment where no price is known.
    """

    variable: str
    adapter: str
    name: str
    model: str
    price: tuple[str, ...]


def _no_price(part: str) -> tuple[str, ...]:
    return (f"# price = {{ {part} = … }}   # no price is known: put in yours",)


#: Models as of late November 2026.
MEDIA_MODELS: Final = (
    MediaModel(
        "REPLICATE_API_TOKEN",
        "replicate",
        "flux-schnell",
        "black-forest-labs/flux-schnell",
        ("price = { per_output = 0.003 }",),
    ),
    MediaModel(
        "FAL_KEY", "fal", "flux-dev", "fal-ai/flux/dev", ("price = { per_output = 0.025 }",)
    ),
    MediaModel(
        "ELEVENLABS_API_KEY",
        "elevenlabs",
        "speech",
        "eleven_flash_v2_5",
        _no_price("per_million_characters"),
    ),
    MediaModel(
        "XAI_API_KEY",
        "xai_video",
        "film",
        "grok-imagine-video",
        ("price = { per_second = 0.05 }", "default_seconds = 6"),
    ),
    MediaModel(
        "GEMINI_API_KEY",
        "gemini",
        "gemini-image",
        "gemini-3.1-flash-image",
        _no_price("per_output"),
    ),
)


@attrs.frozen
class FoundMedia:
    """A media model to be written into a config.

    :ivar credential: the value of its variable; None where it stands in a file.
    :ivar file: the file that holds it, of its ``_FILE``.
    """

    media: MediaModel
    credential: str | None = attrs.field(default=None, repr=False)
    file: str | None = None


def find_media(environ: Mapping[str, str]) -> tuple[list[FoundMedia], list[str]]:
    """Find what the environment has credentials of, and what to tell of the rest."""
    found: list[FoundMedia] = []
    notes: list[str] = []
    for media in MEDIA_MODELS:
        path = environ.get(f"{media.variable}_FILE")
        if not (environ.get(media.variable) or path):
            continue
        try:
            secret = provider_key(environ, media.variable)
        except SettingsError as error:
            notes.append(f"the media model {media.name} is left out: {error}")
            continue
        file = os.path.abspath(path) if path else None
        found.append(FoundMedia(media, None if file else secret, file))
    return found, notes


def media_text(found: Sequence[FoundMedia]) -> str:
    """Return the media routes of a config; nothing where nothing was found."""
    if not found:
        return ""
    routes = (
        _ROUTE.format(
            name=one.media.name,
            adapter=one.media.adapter,
            model=one.media.model,
            variable=one.media.variable,
            price="".join(f"  {line}\n" for line in one.media.price),
        )
        for one in found
    )
    return _HEAD + "".join(routes)


def media_credentials(found: Iterable[FoundMedia]) -> dict[str, str]:
    """Return the variables of the control plane that hold credentials, or name files that do."""
    lines: dict[str, str] = {}
    for one in found:
        if one.file is not None:
            lines[f"{one.media.variable}_FILE"] = one.file
        else:
            lines[one.media.variable] = one.credential or ""
    return lines
