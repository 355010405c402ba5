"""Outputs in a bucket that speaks S3: put there by one signed request each, fetched by signed URLs.

The endpoint is the operator's own word: it is not put through the address guard, and redirects are
not followed. A request that fails for the server's sake is sent again, three times in all; it
overwrites what an earlier one may have left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from omnigate.config.media import S3Config
from omnigate.jobs.serving import Served
from omnigate.jobs.sigv4 import SigningKey, encoded_path, presigned_url, signed_headers
from omnigate.jobs.storage import StorageFault, StoredFile
from omnigate.outbound.body_sender import Submit
from omnigate.outbound.messages import (
    CONNECT_ERROR,
    CONNECTION_LOST,
    NO_TURN,
    NOT_KEPT,
    TIMEOUT,
    TRUNCATED,
    Answer,
    Request,
)
from omnigate.text import one_line

#: Seconds to wait before the second and the third try.
PAUSES: Final = (1.0, 3.0)

#: How long the URL that a client is led to works: it is followed at once.
URL_SECONDS: Final = 300

#: The object that is put before anything is paid for, to see whether the bucket takes it. It stays.
PROBE: Final = "omnigate-probe"

#: An error of S3 is XML of a few lines; its code stands at the beginning.
_SEARCHED_BYTES: Final = 4096
MAX_ANSWER_BYTES: Final = 64 * 1024
_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")

_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()

#: Seconds until a server has taken and answered a file; some make copies first.
_HEAD_SECONDS: Final = 120.0

_AGAIN_STATUSES = frozenset((500, 502, 503, 504))
_AGAIN_CODES = frozenset(("RequestTimeout", "SlowDown", "InternalError"))
_AGAIN_FAULTS = frozenset((CONNECT_ERROR, NO_TURN, CONNECTION_LOST, TIMEOUT, TRUNCATED))

_REMEDIES: Final = {
    "SignatureDoesNotMatch": "the secret key is not that of the access key",
    "InvalidAccessKeyId": "the access key is not known there",
    "AccessDenied": "the access key may not do this; let it put, get and delete objects",
    "NoSuchBucket": "there is no such bucket; make it",
    "RequestTimeTooSkewed": "this machine's clock is wrong",
    "ExpiredToken": "the temporary credentials have ended",
    "InvalidToken": "the session token is not one",
    "AuthorizationHeaderMalformed": "the region is probably another one; set media.s3.region",
    "PermanentRedirect": "the endpoint or the region is another one",
    "EntityTooLarge": "the file is too large for one request",
}


class Puts(Protocol):
    """:class:`omnigate.outbound.client.Outbound`, as far as a bucket needs it."""

    def call(self, request: Request, max_bytes: int) -> Awaitable[Answer]:
        """Send a request to the operator's own address."""

    def put(self, request: Request, path: str, size: int, *, submit: Submit) -> Awaitable[Answer]:
        """Send a file as the body of a request."""


@attrs.frozen
class Bucket:
    """A bucket, and who may use it."""

    scheme: str
    host: str
    folder: tuple[str, ...]
    key: SigningKey

    @classmethod
    def of(cls, config: S3Config, credential: Callable[[str], str | None]) -> Bucket:
        """Return that of a config.

        :param credential: returns the value of a variable that the config names.
        :raises StorageFault: a credential is not set.
        """

        def value(name: str) -> str:
            found = credential(name)
            if not found:
                raise StorageFault(f"the bucket's credential {name} is not set")
            return found

        scheme, _, rest = config.endpoint.partition("://")
        host, _, path = rest.partition("/")
        folder = tuple(part for part in path.split("/") if part)
        if config.addressing == "virtual":
            host = f"{config.bucket}.{host}"
        else:
            folder = (*folder, config.bucket)
        token = "" if config.session_token_env is None else value(config.session_token_env)
        key = SigningKey(
            value(config.access_key_env), value(config.secret_key_env), config.region, token
        )
        return cls(scheme, _plain_host(scheme, host), folder, key)

    def path(self, name: str) -> str:
        """Return the path of a file's URL."""
        return encoded_path((*self.folder, *name.split("/")))

    def request(
        self,
        method: str,
        name: str,
        now: float,
        sha256: str = _EMPTY_SHA256,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Request:
        """Return a signed request for a file, without a body.

        :param sha256: of the body.
        """
        path = self.path(name)
        signed = signed_headers(self.key, method, self.host, path, sha256, now, headers)
        return Request(
            method,
            f"{self.scheme}://{self.host}{path}",
            tuple((name, value) for name, value in signed if name != "host"),
            head_seconds=_HEAD_SECONDS,
        )

    def url(self, file: Served, now: float) -> str:
        """Return a URL that downloads a file, as a download and of its type."""
        parameters = (
            ("response-cache-control", "private, no-cache"),
            ("response-content-disposition", file.disposition),
            ("response-content-type", file.content_type),
        )
        path = self.path(file.name)
        return presigned_url(self.key, self.scheme, self.host, path, now, URL_SECONDS, parameters)


class S3Storage:
    """A :class:`~omnigate.jobs.storage.Storage`.

    :param config: returns ``[media.s3]`` as it is now; None where there is none.
    :param credential: returns the value of a variable that the config names.
    :param outbound: returns what sends requests, which changes with the config.
    :param submit: reads files, in a thread.
    :param wall: seconds since 1970.
    """

    def __init__(
        self,
        config: Callable[[], S3Config | None],
        credential: Callable[[str], str | None],
        outbound: Callable[[], Puts],
        submit: Submit,
        clock: IReactorTime,
        wall: Callable[[], float],
    ) -> None:
        self._config = config
        self._credential = credential
        self._outbound = outbound
        self._submit = submit
        self._clock = clock
        self._wall = wall
        # The bucket that has taken a file, and refused none since.
        self._taking: Bucket | None = None

    async def ready(self) -> None:
        """Put a file without content into a bucket that is new, or refused the last one."""
        bucket = self._bucket()
        if bucket != self._taking:
            await self.keep(StoredFile("", PROBE, "text/plain", 0, _EMPTY_SHA256))
            self._taking = bucket

    async def keep(self, file: StoredFile) -> None:
        """Put a file into the bucket."""
        try:
            await self._keep(file)
        except StorageFault:
            self._taking = None
            raise

    async def _keep(self, file: StoredFile) -> None:
        async def put() -> Answer:
            content_type = (("content-type", file.content_type),)
            request = self._bucket().request(
                "PUT", file.name, self._wall(), file.sha256, content_type
            )
            outbound = self._outbound()
            if not file.size:
                return await outbound.call(request, MAX_ANSWER_BYTES)
            return await outbound.put(request, file.path, file.size, submit=self._submit)

        answer = await self._tried(put)
        if not answer.ok:
            raise StorageFault(fault_of(answer))
        if answer.body and "etag" not in answer.headers:
            # Of what is kept a bucket tells the tag, and nothing else: this is some page.
            raise StorageFault(
                f"the bucket answered {answer.status} as no bucket does; see media.s3.endpoint"
            )

    async def remove(self, name: str) -> None:
        """Remove a file from the bucket."""

        async def delete() -> Answer:
            request = self._bucket().request("DELETE", name, self._wall())
            return await self._outbound().call(request, MAX_ANSWER_BYTES)

        answer = await self._tried(delete)
        if not answer.ok and (answer.fault or code_of(answer) != "NoSuchKey"):
            raise StorageFault(fault_of(answer))

    def url(self, file: Served) -> str:
        """Return a URL that downloads a file.

        :raises StorageFault: there is no bucket any more.
        """
        return self._bucket().url(file, self._wall())

    def _bucket(self) -> Bucket:
        config = self._config()
        if config is None:
            raise StorageFault("there is no bucket in the config; set media.s3")
        return Bucket.of(config, self._credential)

    async def _tried(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a request, and again where that may help; each is signed anew."""
        answer = await send()
        for pause in PAUSES:
            if not may_help_again(answer):
                break
            await deferLater(self._clock, pause)
            answer = await send()
        return answer


def may_help_again(answer: Answer) -> bool:
    """Whether the same request may well succeed if it is sent again."""
    if answer.fault:
        return answer.fault in _AGAIN_FAULTS
    return answer.status in _AGAIN_STATUSES or code_of(answer) in _AGAIN_CODES


def code_of(answer: Answer) -> str:
    """Return the code of an error of S3; empty where there is none."""
    found = None if answer.ok else _CODE.search(answer.body[:_SEARCHED_BYTES])
    return "" if found is None else found[1].decode("ascii")


def fault_of(answer: Answer) -> str:
    """Return what a request to a bucket has come to, in words."""
    if answer.fault == NOT_KEPT:
        return f"the output could not be read: {one_line(answer.detail, 200)}"
    if answer.fault:
        return f"the bucket could not be reached: {one_line(answer.detail or answer.fault, 200)}"
    code = code_of(answer)
    region = answer.headers.get("x-amz-bucket-region", "")
    if region and answer.status in (301, 307, 400):
        return f"the bucket is in the region {one_line(region, 64)}; set media.s3.region"
    if not code:
        return f"the bucket answered {answer.status}"
    remedy = _REMEDIES.get(code)
    told = f"the bucket answered {answer.status} {code}"
    return told if remedy is None else f"{told}: {remedy}"


def _plain_host(scheme: str, host: str) -> str:
    """Return a host without a port that goes without saying, as it stands in ``host``."""
    own = ":443" if scheme == "https" else ":80"
    return host.removesuffix(own).lower()
