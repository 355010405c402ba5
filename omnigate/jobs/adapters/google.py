"""What both of Google's interfaces share: the key, whose addresses get it, and names of work."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from omnigate.jobs.adapters import asking, sources
from omnigate.jobs.adapters.base import Source, UrlSource
from omnigate.jobs.adapters.reading import BadAnswer
from omnigate.outbound.messages import Answer

#: The provider's own address.
BASE_URL: Final = "https://generativelanguage.googleapis.com"

#: A picture or a spoken page takes minutes, and the head of the answer comes with it.
HEAD_SECONDS: Final = 300.0

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}(?:/[A-Za-z0-9_.-]{1,256}){0,7}")
_FILE = re.compile(r"https?://[^/?#\s]{1,255}/v1beta/files/[A-Za-z0-9_-]{1,128}")


def key(credential: str) -> tuple[tuple[str, str], ...]:
    """Return the header of the key; none where there is no credential."""
    return (("x-goog-api-key", credential),) if credential else ()


def work_name(name: str) -> str:
    """Return the name of work as it stands in an answer, checked for use in a path.

    :raises BadAnswer: it is empty, or would lead elsewhere.
    """
    if not _NAME.fullmatch(name) or not all(part.strip(".") for part in name.split("/")):
        raise BadAnswer("the answer does not name its work")
    return name


def is_file(address: str) -> bool:
    """Say whether an address looks like one of a file that the provider keeps."""
    return _FILE.fullmatch(address) is not None


def file_source(
    address: str, answer: Answer, base_url: str, credential: str, content_type: str
) -> Source | None:
    """Return an output at an address of an answer; None where it is none.

    A file of the provider's own origin is asked for as what it holds (``alt=media``) and with the
    key; any other as it stands, and without.
    """
    found = sources.source(address, answer, base_url, content_type, key(credential))
    if isinstance(found, UrlSource) and asking.has_origin(address, base_url):
        parts = urlsplit(address)
        if "alt=media" not in parts.query.split("&"):
            query = f"{parts.query}&alt=media" if parts.query else "alt=media"
            return UrlSource(parts._replace(query=query).geturl(), content_type, found.headers)
    return found
