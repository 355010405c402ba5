"""The paths that the control plane answers: jobs, files, receipts, and what of a request goes on.

The control plane decides what they mean. What is sent to it with the internal token is narrow: a
path out of these few, a query in plain characters (:mod:`omnigate.wire.target` saw to that), and
three headers, each judged here.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from omnigate.errors import GatewayError
from omnigate.wire.head import RequestHead, ResponseHead

#: The kind of endpoint that a key may be kept to.
JOBS: Final = "jobs"

#: What metrics and the log call files, and receipts.
FILES: Final = "files"
RECEIPTS: Final = "receipts"

MAX_JOB_BODY_BYTES: Final = 8_000_000

_PATH = re.compile(
    r"/v1/jobs(?:/(?P<job>[A-Za-z0-9_-]{1,64})(?P<cancel>/cancel)?)?|"
    r"/v1/files/(?P<of>[A-Za-z0-9_-]{1,64})/(?P<number>[0-9]{1,4})|"
    r"/v1/receipts/(?P<receipt>[A-Za-z0-9_-]{1,64})",
    re.ASCII,
)
_IDEMPOTENCY_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_ETAG = re.compile(rb'(?:W/)?"[0-9a-f]{64}"')
_RANGE = re.compile(rb"bytes=(?:[0-9]{1,15}-[0-9]{0,15}|-[0-9]{1,15})")
# A strong one; others, and dates, are those of no file here.
_TAG = re.compile(rb'"[0-9a-f]{64}"')
_SIGNATURE = re.compile(rb"(?:\A|&)signature=")

# Of the control plane's answer, what says how a stored file is to be treated, where one in a bucket
# lies, when to come back, and which part of a file this is; as they stand in a head that has
# passed. A presigned address of a bucket has up to 1,500 bytes.
_relayed = re.compile(
    rb"\n((?i:content-disposition|x-content-type-options|content-security-policy|cache-control"
    rb"|location|retry-after|accept-ranges|content-range|etag)):[ \t]*+([^\r]{1,4096})\r"
).findall


@attrs.frozen
class JobPath:
    """A path of the jobs API.

    :ivar kind: :data:`JOBS`, :data:`FILES` or :data:`RECEIPTS`.
    :ivar methods: which it takes.
    :ivar creates: whether a POST there begins new work.
    """

    kind: str
    methods: tuple[bytes, ...]
    creates: bool = False

    @property
    def allowed(self) -> str:
        """The methods as a header names them."""
        return ", ".join(method.decode("ascii") for method in self.methods)


_READ: Final = (b"GET", b"HEAD")
_LIST: Final = JobPath(JOBS, (*_READ, b"POST"), creates=True)
_JOB: Final = JobPath(JOBS, _READ)
_CANCEL: Final = JobPath(JOBS, (b"POST",))
_FILE: Final = JobPath(FILES, _READ)
_RECEIPT: Final = JobPath(RECEIPTS, _READ)


def job_path(path: str) -> JobPath | None:
    """Return which path of the jobs API this is, if it is one."""
    if not path.startswith(("/v1/jobs", "/v1/files/", "/v1/receipts/")):
        return None
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["receipt"]:
        return _RECEIPT
    if found["of"]:
        return _FILE
    if found["job"] is None:
        return _LIST
    return _CANCEL if found["cancel"] else _JOB


def is_signed(query: bytes) -> bool:
    """Tell whether a query has a signature; the control plane knows whether it is one."""
    return _SIGNATURE.search(query) is not None


def request_lines(head: RequestHead, kind: str, key_sha256: str, request_id: bytes) -> bytes:
    """Return the header lines that go to the control plane.

    :param key_sha256: the identity of the key; empty where a signed address came without one.
    :raises GatewayError: ``invalid_request`` for an idempotency key that is none.
    """
    lines = b"x-omnigate-request-id: %b\r\n" % request_id
    if key_sha256:
        lines += b"x-omnigate-key-sha256: %b\r\n" % key_sha256.encode("ascii")
    idempotency_key = head.headers.get(b"idempotency-key")
    if idempotency_key is not None:
        if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
            raise GatewayError(
                "invalid_request",
                "the Idempotency-Key header must be 1 to 255 visible ASCII characters without "
                "spaces",
            )
        lines += b"idempotency-key: %b\r\n" % idempotency_key
    known = head.headers.get(b"if-none-match")
    if kind == FILES and known is not None and _ETAG.fullmatch(known):
        lines += b"if-none-match: %b\r\n" % known
    wanted = head.headers.get(b"range")
    # A range that is not understood is passed over, and so is one with HEAD, or of another state of
    # the file (RFC 9110 §13.1.5, §14.2).
    takes_range = kind == FILES and head.method == b"GET"
    if takes_range and wanted is not None and _RANGE.fullmatch(wanted):
        state = head.headers.get(b"if-range", b"")
        if not state or _TAG.fullmatch(state):
            lines += b"range: %b\r\n" % wanted
            lines += b"if-range: %b\r\n" % state if state else b""
    return lines


def answer_lines(head: ResponseHead, id_lines: bytes) -> bytes:
    """Return the header lines of an answer of the control plane's that the client sees.

    Of a line that is there twice the first one counts.
    """
    lines = {b"content-type": head.headers.get(b"content-type", b"application/json")}
    for name, value in _relayed(head.block):
        lines.setdefault(name.lower(), value.rstrip())
    return b"".join(b"%b: %b\r\n" % line for line in lines.items()) + id_lines
