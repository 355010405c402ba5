"""A fake bucket that speaks S3, and judges each signature by itself.

It is written from the specification of Signature Version 4 and shares nothing with what signs
(:mod:`omnigate.jobs.sigv4`). Objects are kept in memory; loopback only::

    bucket = FakeBucket("outputs")
    port = bucket.listen(reactor)      # http://127.0.0.1:PORT
    bucket.objects["job_1/0.png"]      # what was put there
    bucket.failing.append((503, "SlowDown"))    # how the next request is answered instead
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from calendar import timegm
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IListeningPort, IReactorTCP
from twisted.web.resource import Resource
from twisted.web.server import Site

#: How far off a request's time may be, in seconds.
SKEW: Final = 900

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)
_STAMP = re.compile(r"\d{8}T\d{6}Z")


class S3Error(Exception):
    """A request is refused as S3 does it."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message or code


@attrs.frozen
class StoredObject:
    """What was put."""

    content: bytes
    content_type: str


@attrs.frozen
class BucketRequest:
    """A request as it came: ``uri`` with its query, header names in lower case."""

    method: str
    uri: str
    headers: Mapping[str, str]
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class BucketAnswer:
    """What it is answered."""

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""


@attrs.frozen
class _Signed:
    """What of a request is signed, however that is told."""

    access_key: str
    day: str
    region: str
    stamp: str
    names: list[str]
    signature: str
    payload: str
    query: list[tuple[bytes, bytes]]


class FakeBucket:
    """One bucket of one owner.

    :param now: seconds since 1970.
    :ivar objects: what is in it.
    :ivar seen: every request, the refused ones too.
    :ivar failing: how the next requests are answered unread, a status and a code each.
    """

    def __init__(
        self,
        name: str = "outputs",
        access_key: str = "TESTKEYID",
        secret_key: str = "test+secret/key",
        region: str = "us-east-1",
        session_token: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.objects: dict[str, StoredObject] = {}
        self.seen: list[BucketRequest] = []
        self.failing: deque[tuple[int, str]] = deque()
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region
        self._session_token = session_token
        self._now = now

    def listen(self, reactor: IReactorTCP, port: int = 0) -> IListeningPort:
        """Listen on loopback; 0 takes a free port."""
        site: Any = Site(_Door(self))
        return reactor.listenTCP(port, site, interface="127.0.0.1")

    def answer(self, request: BucketRequest) -> BucketAnswer:
        """Judge a request, and do what it asks for."""
        self.seen.append(request)
        try:
            if self.failing:
                raise S3Error(*self.failing.popleft())
            query = self._judge(request)
            return self._do(request, self._key(request), query)
        except S3Error as error:
            text = f"<Code>{error.code}</Code><Message>{error.message}</Message>"
            body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{text}</Error>'.encode()
            headers = {"content-type": "application/xml"}
            if error.code == "AuthorizationHeaderMalformed":
                headers["x-amz-bucket-region"] = self._region
            return BucketAnswer(error.status, headers, body)

    # -- what is asked for --------------------------------------------------------------------

    def _do(self, request: BucketRequest, key: str, query: Mapping[str, str]) -> BucketAnswer:
        if request.method == "PUT":
            kind = request.headers.get("content-type", "binary/octet-stream")
            self.objects[key] = StoredObject(request.body, kind)
            return BucketAnswer(200, {"etag": _etag(request.body)})
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return BucketAnswer(204)
        if request.method not in ("GET", "HEAD"):
            raise S3Error(405, "MethodNotAllowed")
        stored = self.objects.get(key)
        if stored is None:
            raise S3Error(404, "NoSuchKey")
        headers = {"content-type": stored.content_type, "etag": _etag(stored.content)}
        for name in ("cache-control", "content-disposition", "content-type"):
            if f"response-{name}" in query:
                headers[name] = query[f"response-{name}"]
        return BucketAnswer(200, headers, stored.content)

    def _key(self, request: BucketRequest) -> str:
        """Tell which object is meant, by the host or by the path."""
        host = request.headers.get("host", "").partition(":")[0]
        path = _decoded(request.uri.partition("?")[0]).decode("utf-8").removeprefix("/")
        if host.startswith(f"{self.name}."):
            return path
        bucket, _, key = path.partition("/")
        if bucket != self.name:
            raise S3Error(404, "NoSuchBucket")
        return key

    # -- whether it may be --------------------------------------------------------------------

    def _judge(self, request: BucketRequest) -> dict[str, str]:
        """Judge who asks.

        :return: the query.
        """
        query = _pairs(request.uri.partition("?")[2])
        told = {name.decode(): value.decode() for name, value in query}
        if "authorization" in request.headers:
            signed = self._by_header(request, query)
        elif "X-Amz-Signature" in told:
            signed = self._by_query(told, query)
        else:
            raise S3Error(403, "AccessDenied", "nothing is signed")
        if signed.access_key != self._access_key:
            raise S3Error(403, "InvalidAccessKeyId")
        if signed.region != self._region:
            raise S3Error(400, "AuthorizationHeaderMalformed", f"expecting '{self._region}'")
        if signed.day != signed.stamp[:8]:
            raise S3Error(400, "AuthorizationHeaderMalformed", "another day")
        if not hmac.compare_digest(self._signature(request, signed), signed.signature):
            raise S3Error(403, "SignatureDoesNotMatch")
        return told

    def _by_header(self, request: BucketRequest, query: list[tuple[bytes, bytes]]) -> _Signed:
        headers = request.headers
        found = _AUTHORIZATION.fullmatch(headers["authorization"])
        stamp, payload = headers.get("x-amz-date", ""), headers.get("x-amz-content-sha256", "")
        if found is None or not _STAMP.fullmatch(stamp) or not payload:
            raise S3Error(400, "AuthorizationHeaderMalformed")
        if abs(_seconds(stamp) - self._now()) > SKEW:
            raise S3Error(403, "RequestTimeTooSkewed")
        if headers.get("x-amz-security-token", "") != self._session_token:
            raise S3Error(400, "InvalidToken")
        if request.method == "PUT" and "content-length" not in headers:
            raise S3Error(411, "MissingContentLength")
        if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(request.body).hexdigest()):
            raise S3Error(400, "XAmzContentSHA256Mismatch")
        access_key, day, region, names, signature = found.groups()
        listed = names.split(";")
        # Every header of the service's own has to be signed, and the host.
        must = {"host", *(name for name in headers if name.startswith("x-amz-"))}
        if listed != sorted(listed) or not must <= set(listed):
            raise S3Error(403, "AccessDenied", "headers that were not signed")
        return _Signed(access_key, day, region, stamp, listed, signature, payload, query)

    def _by_query(self, told: dict[str, str], query: list[tuple[bytes, bytes]]) -> _Signed:
        try:
            access_key, day, region, service, end = told["X-Amz-Credential"].split("/")
            expires, stamp = int(told["X-Amz-Expires"]), told["X-Amz-Date"]
            names = told["X-Amz-SignedHeaders"].split(";")
        except (KeyError, ValueError):
            raise S3Error(400, "AuthorizationQueryParametersError") from None
        fits = (told.get("X-Amz-Algorithm"), service, end) == (
            "AWS4-HMAC-SHA256",
            "s3",
            "aws4_request",
        )
        if not fits or not _STAMP.fullmatch(stamp) or not 1 <= expires <= 604_800:
            raise S3Error(400, "AuthorizationQueryParametersError")
        if "host" not in names:
            raise S3Error(403, "AccessDenied", "headers that were not signed")
        if told.get("X-Amz-Security-Token", "") != self._session_token:
            raise S3Error(400, "InvalidToken")
        if not _seconds(stamp) - SKEW <= self._now() < _seconds(stamp) + expires:
            raise S3Error(403, "AccessDenied", "Request has expired")
        rest = [pair for pair in query if pair[0] != b"X-Amz-Signature"]
        signature = told["X-Amz-Signature"]
        return _Signed(access_key, day, region, stamp, names, signature, "UNSIGNED-PAYLOAD", rest)

    def _signature(self, request: BucketRequest, signed: _Signed) -> str:
        path = "/".join(
            _encoded(_decoded(part)) for part in request.uri.partition("?")[0].split("/")
        )
        query = "&".join(
            f"{name}={value}"
            for name, value in sorted((_encoded(n), _encoded(v)) for n, v in signed.query)
        )
        headers = "".join(
            f"{name}:{re.sub(' +', ' ', request.headers.get(name, '').strip())}\n"
            for name in signed.names
        )
        canonical = "\n".join(
            (request.method, path, query, headers, ";".join(signed.names), signed.payload)
        )
        scope = f"{signed.day}/{signed.region}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{signed.stamp}\n{scope}\n{digest}"
        key = f"AWS4{self._secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()


class _Door(Resource):
    """What of twisted.web stands in front."""

    isLeaf = True

    def __init__(self, bucket: FakeBucket) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._bucket = bucket

    def render(self, request: Any) -> bytes:
        """Answer a request."""
        lines = request.requestHeaders.getAllRawHeaders()
        headers = {name.lower().decode(): values[0].decode("latin-1") for name, values in lines}
        answer = self._bucket.answer(
            BucketRequest(
                request.method.decode(), request.uri.decode(), headers, request.content.read()
            )
        )
        request.setResponseCode(answer.status)
        for name, value in answer.headers.items():
            request.setHeader(name, value)
        return b"" if request.method == b"HEAD" else answer.body


def _seconds(stamp: str) -> int:
    return timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _pairs(query: str) -> list[tuple[bytes, bytes]]:
    pairs = []
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(text: str) -> bytes:
    """Decode ``%41``; a plus is a plus."""
    return re.sub(
        rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode("latin-1")
    )


def _encoded(data: bytes) -> str:
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data)
