"""Outputs of media jobs for people who have signed in: pictures as pictures, all else as files.

The bytes came from a provider. What a browser is told to show is one of a few kinds of pictures,
by its first bytes and not by what anybody said of it; it runs nothing of it, sniffs nothing, and
no other site may use it.
"""

from __future__ import annotations

import re
from typing import Final

from omnigate.control.dashboard.job_view import PICTURES, is_shown
from omnigate.control.dashboard.sources import Sources
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.jobs.media_types import SNIFFED_BYTES, sniffed
from omnigate.jobs.serving import POLICY

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)

#: Nothing of it is run, and it is used on our own pages only
#: (https://fetch.spec.whatwg.org/#cross-origin-resource-policy-header).
_GUARDED: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


class JobFilesPage:
    """The endpoint of outputs."""

    def __init__(self, sources: Sources) -> None:
        self._store = sources.media.store
        self._files = sources.media.files

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (Endpoint("GET", "/job-files/{job}/{n}", self.show, free_query=True),)

    async def show(self, call: Call) -> Answer:
        """Answer with a picture, a download, or where a file lies in a bucket.

        :raises GatewayError: ``not_found``, also for what is encrypted and nobody here can read;
            see also :meth:`~omnigate.jobs.stored_files.StoredFiles.open_output`.
        """
        job_id, _, number = call.name.partition("/")
        n = int(number) if _NUMBER.fullmatch(number) else -1
        job, _ = self._files.find(job_id, n)
        output = job.outputs[n]
        if output.encrypted:
            raise GatewayError(
                "not_found", "this output is stored encrypted; only its recipients can read it"
            )
        opened = await self._files.open_output(job_id, n)
        if opened.url:
            return Answer(
                status=302,
                headers=(
                    (b"location", opened.url.encode("ascii")),
                    (b"referrer-policy", b"no-referrer"),
                ),
            )
        content_type, headers = b"application/octet-stream", _GUARDED
        found = ""
        if "download" not in call.query and is_shown(output):
            found = sniffed(await self._files.head(opened, SNIFFED_BYTES))
        if found in PICTURES:
            content_type = found.encode("ascii")
        else:
            headers += ((b"content-disposition", opened.file.disposition.encode("ascii")),)
        size = opened.file.size
        if not size:
            return Answer(content_type=content_type, headers=headers)
        return Answer(
            content_type=content_type,
            headers=(*headers, (b"content-length", b"%d" % size)),
            stream=self._files.sender(opened, 0, size),
        )
