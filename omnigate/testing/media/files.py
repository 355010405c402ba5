"""The file host: another origin, where outputs lie, and which no credential must reach."""

from __future__ import annotations

import gzip
import re
from typing import Final

from omnigate.testing.media.modes import count_of
from omnigate.testing.media.reply import Reply
from omnigate.testing.media.work import PRIVATE_URL, Work, World
from omnigate.testing.provider_request import SeenRequest

#: Headers that hold a credential.
CREDENTIALS: Final = ("authorization", "x-goog-api-key", "xi-api-key", "x-api-key", "cookie")

_FILE = re.compile(r"/f/(?P<id>[^/]+)/(?P<number>[0-9]+)")
_HOP = re.compile(r"(?:\A|&)hop=([0-9]+)")


def serve(world: World, request: SeenRequest) -> Reply:
    """Answer a request to the file host."""
    for name in CREDENTIALS:
        if name in request.headers:
            return Reply(403, b"a credential came here", "text/plain")
    found = _FILE.fullmatch(request.path)
    work = world.works.get(found["id"]) if found else None
    if found is None or work is None or request.method not in ("GET", "HEAD"):
        return Reply(404, b"no such file", "text/plain")
    hop = _HOP.search(request.query)
    return file_reply(world, work, int(found["number"]), int(hop[1]) if hop else 0)


def file_reply(world: World, work: Work, number: int, hop: int) -> Reply:
    """Return what the host of a file answers.

    :param hop: how many redirects came before.
    """
    modes = work.modes
    place = f"{world.files}/f/{work.id}/{number}"
    if "redirect-loop" in modes:
        return _moved(f"{place}?hop={hop + 1}")
    if "redirect-private" in modes:
        return _moved(PRIVATE_URL)
    if "redirect-http" in modes:
        return _moved(place.replace("https://", "http://"))
    if "redirect-file" in modes:
        return _moved("file:///etc/passwd")
    if hop < count_of(modes, "redirect", 0):
        return _moved(f"{place}?hop={hop + 1}")
    if "file-404" in modes or number >= max(work.outputs, 1):
        return Reply(404, b"gone", "text/plain")
    content = work.content(number)
    headers = {}
    if "file-gzip" in modes:
        content, headers = gzip.compress(content), {"content-encoding": "gzip"}
    broken = "cut" if "file-cut" in modes else "endless" if "file-endless" in modes else ""
    return Reply(
        200,
        content,
        work.served_type,
        headers,
        halves_s=count_of(modes, "file-slow", 0) / 1000,
        broken=broken,
        chunked="no-length" in modes,
    )


def _moved(place: str) -> Reply:
    return Reply(302, b"", "", {"location": place})
