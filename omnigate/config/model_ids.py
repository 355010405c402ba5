"""Under which ids a table of models may know the one that a target names.

The built-in tables have a vendor's own ids. Releases, aggregators and SDKs write them with more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: A release of a model is named by its day behind the id: ``-2024-07-18``, ``-20250929``,
#: ``@20250929``; some ids are also served as ``…-latest``.
_RELEASE = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6}|latest)\Z", re.ASCII)

#: Names that aggregators and SDKs put in front of a vendor's own ids.
_NAMESPACES: Final = (
    "openai/",
    "anthropic/",
    "google/",
    "models/",
    "x-ai/",
    "xai/",
    "mistralai/",
    "mistral/",
    "deepseek/",
)


def spellings(model_id: str) -> Iterator[str]:
    """Yield the ids that mean the same model, the one as written first.

    These are the id without the name of a vendor in front, without the day of a release behind,
    and ``claude-sonnet-4-5`` for the ``claude-sonnet-4.5`` of some aggregators.
    """
    for namespace in ("", *_NAMESPACES):
        if not model_id.startswith(namespace):
            continue
        bare = model_id.removeprefix(namespace)
        if bare.startswith("claude-"):
            bare = bare.replace(".", "-")
        yield bare
        undated = _RELEASE.sub("", bare)
        if undated != bare:
            yield undated
