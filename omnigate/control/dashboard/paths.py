"""Where the pages of things with names are."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

#: What stands where the name of a key would, and is a page of its own.
_NO_KEY: Final = "new"


def key_path(name: str) -> str:
    """Return where the page of a gateway key is; of one that is gone, by its hash."""
    return f"/keys/{name}/key" if name == _NO_KEY else f"/keys/{name}"


def model_path(model: str) -> str:
    """Return where the page of a model is."""
    return f"/models/one?{urlencode({'model': model})}"


def upstream_path(name: str) -> str:
    """Return where the page of an upstream is."""
    return f"/models/upstream?{urlencode({'name': name})}"
