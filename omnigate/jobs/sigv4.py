"""AWS Signature Version 4, as far as a bucket needs it: one PUT with a signed payload, and URLs.

Pure: what is signed, with what, and when is handed in. After "Signature Calculations for the
Authorization Header" and "Authenticating Requests: Using Query Parameters" of the Amazon S3 API
reference. S3's own rule for paths holds: each segment is percent-encoded once and nothing is
normalised.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import attrs

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"

#: How long a presigned URL may work, in seconds.
MAX_EXPIRES: Final = 604_800

Pairs = Sequence[tuple[str, str]]


@attrs.frozen
class SigningKey:
    """Credentials, and what they are used for.

    :ivar session_token: of temporary credentials; empty for lasting ones.
    """

    access_key: str
    secret_key: str = attrs.field(repr=False)
    region: str
    session_token: str = attrs.field(default="", repr=False)
    service: str = "s3"

    def scope(self, stamp: str) -> str:
        """Return what a signature of that time is good for."""
        return f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def sign(self, stamp: str, text: str) -> str:
        """Return the signature of a string to sign, in hex."""
        key = b"AWS4" + self.secret_key.encode()
        for part in (stamp[:8], self.region, self.service, "aws4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()


def stamp_of(now: float) -> str:
    """Return a time, in seconds since 1970, as it stands in requests: ``20261101T100000Z``."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y%m%dT%H%M%SZ")


def encoded_path(segments: Iterable[str]) -> str:
    """Return the path of a URL, each segment percent-encoded once as UTF-8."""
    return "".join("/" + quote(segment, safe="-._~") for segment in segments)


def canonical_request(
    method: str, path: str, query: str, headers: Pairs, payload_sha256: str
) -> str:
    """Return the text whose hash is signed.

    :param path: encoded.
    :param query: encoded and sorted.
    :param headers: those that are signed, in lower case and sorted.
    """
    lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in headers)
    return f"{method}\n{path}\n{query}\n{lines}\n{names_of(headers)}\n{payload_sha256}"


def string_to_sign(stamp: str, scope: str, request: str) -> str:
    """Return what is signed of a canonical request."""
    return f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"


def names_of(headers: Pairs) -> str:
    """Return the names of signed headers."""
    return ";".join(name for name, _ in headers)


def signed_headers(
    key: SigningKey,
    method: str,
    host: str,
    path: str,
    payload_sha256: str,
    now: float,
    headers: Pairs = (),
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request, all of them signed but ``authorization``.

    :param host: with its port where that is not the scheme's own.
    :param path: encoded; it goes on the wire as it is.
    :param payload_sha256: of the body in hex.
    :param now: seconds since 1970; a server takes 15 minutes more or less.
    :param headers: further ones to sign, such as ``content-type``, in lower case.
    """
    stamp = stamp_of(now)
    own = [("host", host), ("x-amz-content-sha256", payload_sha256), ("x-amz-date", stamp)]
    if key.session_token:
        own.append(("x-amz-security-token", key.session_token))
    signed = sorted([*own, *headers])
    scope = key.scope(stamp)
    request = canonical_request(method, path, "", signed, payload_sha256)
    signature = key.sign(stamp, string_to_sign(stamp, scope, request))
    authorization = (
        f"{ALGORITHM} Credential={key.access_key}/{scope}, "
        f"SignedHeaders={names_of(signed)}, Signature={signature}"
    )
    return (*signed, ("authorization", authorization))


def presigned_url(
    key: SigningKey,
    scheme: str,
    host: str,
    path: str,
    now: float,
    expires: int,
    parameters: Pairs = (),
    method: str = "GET",
) -> str:
    """Return a URL that lets whoever has it do this one thing, for a while.

    :param expires: for how many seconds, :data:`MAX_EXPIRES` at most; temporary credentials that
        end before that end it too.
    :param parameters: what else the query is to say, such as ``response-content-type``; signed.
    """
    if not 1 <= expires <= MAX_EXPIRES:
        raise ValueError(f"a presigned URL works for 1 to {MAX_EXPIRES} seconds, not {expires}")
    stamp = stamp_of(now)
    scope = key.scope(stamp)
    own = [
        ("X-Amz-Algorithm", ALGORITHM),
        ("X-Amz-Credential", f"{key.access_key}/{scope}"),
        ("X-Amz-Date", stamp),
        ("X-Amz-Expires", str(expires)),
        ("X-Amz-SignedHeaders", "host"),
    ]
    if key.session_token:
        own.append(("X-Amz-Security-Token", key.session_token))
    # By name and value, not by the text of both: "=" stands behind "-" in the alphabet.
    pairs = sorted((_encoded(name), _encoded(value)) for name, value in [*own, *parameters])
    query = "&".join(f"{name}={value}" for name, value in pairs)
    request = canonical_request(method, path, query, [("host", host)], UNSIGNED_PAYLOAD)
    signature = key.sign(stamp, string_to_sign(stamp, scope, request))
    return f"{scheme}://{host}{path}?{query}&X-Amz-Signature={signature}"


def _encoded(text: str) -> str:
    return quote(text, safe="-._~")
