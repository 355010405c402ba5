"""Stored outputs of media jobs, for the data planes' clients: by the key of the job, or signed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from omnigate.control.parameters import text
from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError
from omnigate.jobs.serving import UnsatisfiableError, parse_range
from omnigate.jobs.signed_urls import FileSigner
from omnigate.jobs.stored_files import OpenedOutput, StoredFiles, no_such_file

#: The query of a signed URL.
EXPIRES: Final = text("expires", "when the URL ends, in seconds since 1970", 16)
SIGNATURE: Final = text("signature", "what the gateway has signed it with", 64)

_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)


class FilesApi:
    """The endpoint under ``/internal/`` that serves files.

    :param files: of all jobs.
    :param signer: returns who knows the signatures of signed URLs.
    :param wall: seconds since 1970.
    """

    def __init__(
        self, files: StoredFiles, signer: Callable[[], FileSigner], wall: Callable[[], float]
    ) -> None:
        self._files = files
        self._signer = signer
        self._wall = wall

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (
            Endpoint(
                "GET",
                "/internal/v1/files/{job}/{n}",
                self.file,
                parameters=(EXPIRES, SIGNATURE),
            ),
        )

    async def file(self, call: Call) -> Answer:
        """Answer with a file or a part of it, or with where it lies in a bucket.

        :raises GatewayError: ``not_found``, also for the files of another key's jobs;
            ``invalid_signature``; see also :meth:`StoredFiles.open_output`.
        """
        job_id, _, number = call.name.partition("/")
        if not _NUMBER.fullmatch(number):
            raise no_such_file()
        n = int(number)
        self._check(call, job_id, n)
        opened = await self._files.open_output(job_id, n)
        if opened.url:
            return Answer(
                status=302,
                headers=(
                    (b"location", opened.url.encode("ascii")),
                    (b"cache-control", b"private, no-store"),
                ),
            )
        return self._answer(call, opened)

    def _check(self, call: Call, job_id: str, n: int) -> None:
        """Let in whoever has shown the job's key, or has a URL that is signed and not over."""
        expires, signature = call.query.get("expires"), call.query.get("signature")
        if expires is None and signature is None:
            job, _ = self._files.find(job_id, n)
            if not call.key_sha256 or call.key_sha256 != job.key_sha256:
                raise no_such_file()
            return
        if self._signer().opens(job_id, n, expires or "", signature or "", self._wall()):
            return
        if call.key_sha256:
            # An old URL, but with the key.
            job, _ = self._files.find(job_id, n)
            if call.key_sha256 == job.key_sha256:
                return
        raise GatewayError(
            "invalid_signature",
            "the signed URL has expired or was changed; ask for the job again to have a new one",
        )

    def _answer(self, call: Call, opened: OpenedOutput) -> Answer:
        file = opened.file
        headers = file.headers()
        content_type = file.content_type.encode("ascii")
        if call.if_none_match and file.matches(call.if_none_match):
            return Answer(content_type=content_type, status=304, headers=headers)
        # With HEAD, or of another state of the file, a range is none (RFC 9110, 13.1.5 and 14.2).
        is_range = call.method == "GET" and call.if_range in ("", file.etag)
        try:
            part = parse_range(call.range, file.size) if is_range else None
        except UnsatisfiableError:
            raise GatewayError(
                "invalid_request",
                f"the file has {file.size} bytes; the range asks for others",
                status=416,
                headers=((b"content-range", b"bytes */%d" % file.size),),
            ) from None
        status, (begin, end) = (206, part) if part is not None else (200, (0, file.size))
        if part is not None:
            headers += ((b"content-range", b"bytes %d-%d/%d" % (begin, end - 1, file.size)),)
        if not file.size:
            return Answer(content_type=content_type, headers=headers)
        headers += ((b"content-length", b"%d" % (end - begin)),)
        return Answer(
            content_type=content_type,
            status=status,
            headers=headers,
            stream=self._files.sender(opened, begin, end),
        )
