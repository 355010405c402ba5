"""Signatures of requests to a bucket: golden cases, and what botocore signs."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import SkipTest
from urllib.parse import parse_qsl, unquote, urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.sigv4 import (
    MAX_EXPIRES,
    UNSIGNED_PAYLOAD,
    SigningKey,
    canonical_request,
    encoded_path,
    presigned_url,
    signed_headers,
    stamp_of,
    string_to_sign,
)

VECTORS = json.loads((Path(__file__).parent / "vectors" / "s3_sigv4.json").read_text())
NOW = datetime.strptime(VECTORS["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def key_for(region: str, token: str = "") -> SigningKey:
    """Return the credentials of the golden cases."""
    return SigningKey(VECTORS["access_key"], VECTORS["secret_key"], region, token)


class GoldenCasesTest(SynchronousTestCase):
    """The requests of the reference, byte for byte."""

    def test_put(self) -> None:
        for case in VECTORS["put"]:
            url, headers = urlsplit(case["url"]), case["headers"]
            payload = headers["x-amz-content-sha256"]
            if payload != UNSIGNED_PAYLOAD:
                body = base64.b64decode(case["body_base64"])
                self.assertEqual(payload, hashlib.sha256(body).hexdigest(), case["about"])
            content_type = (("content-type", headers["content-type"]),)
            made = signed_headers(
                key_for(case["region"]), "PUT", url.netloc, url.path, payload, NOW, content_type
            )
            self.assertEqual(dict(made), headers, case["about"])

    def test_the_texts_that_are_signed(self) -> None:
        for case in VECTORS["put"]:
            url = urlsplit(case["url"])
            signed = sorted((n, v) for n, v in case["headers"].items() if n != "authorization")
            payload = case["headers"]["x-amz-content-sha256"]
            request = canonical_request("PUT", url.path, "", signed, payload)
            self.assertEqual(request, case["canonical_request"])
            scope = key_for(case["region"]).scope(VECTORS["date"])
            self.assertEqual(
                string_to_sign(VECTORS["date"], scope, request), case["string_to_sign"]
            )

    def test_presigned(self) -> None:
        for case in VECTORS["presigned"]:
            url = urlsplit(case["url"])
            extra = [(n, v) for n, v in parse_qsl(url.query) if n.startswith("response-")]
            made = presigned_url(
                key_for(case["region"]),
                url.scheme,
                url.netloc,
                url.path,
                NOW,
                case["expires"],
                extra,
            )
            self.assertEqual(made, case["url"], case["about"])

    def test_a_path_is_encoded_once(self) -> None:
        path = encoded_path(["job_01", "out 1+ü&=.mp4"])
        self.assertEqual(path, "/job_01/out%201%2B%C3%BC%26%3D.mp4")
        self.assertEqual(encoded_path(["100%25", "a/b", ".."]), "/100%2525/a%2Fb/..")

    def test_how_long_a_url_works(self) -> None:
        for seconds in (0, -1, MAX_EXPIRES + 1):
            with self.assertRaises(ValueError):
                presigned_url(key_for("us-east-1"), "https", "s3.example.net", "/a/b", NOW, seconds)

    def test_secrets_do_not_show(self) -> None:
        shown = repr(SigningKey("id", "the-secret", "us-east-1", "the-token"))
        self.assertNotIn("the-secret", shown)
        self.assertNotIn("the-token", shown)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/"),
    min_size=1,
    max_size=30,
).filter(lambda name: name not in (".", ".."))
HOSTS = st.sampled_from(
    ["s3.example.net", "127.0.0.1:9000", "outputs.s3.eu-central-1.amazonaws.com", "[::1]:9000"]
)
TYPES = st.sampled_from(["image/png", "video/mp4", "application/octet-stream"])
TOKENS = st.sampled_from(["", "FwoGZXIvYXdzEJr//////////wEaDNV+/=="])
TIMES = st.integers(0, 4_102_444_800)


class AgainstBotocoreTest(SynchronousTestCase):
    """What the public client library signs is what is signed here."""

    def setUp(self) -> None:
        try:
            self.auth: Any = import_module("botocore.auth")
            self.requests: Any = import_module("botocore.awsrequest")
            self.credentials: Any = import_module("botocore.credentials")
        except ImportError:
            raise SkipTest("botocore is not installed (the extra dev has it)") from None

    def made_by_botocore(
        self, auth: str, when: int, token: str, request: Any, **options: int
    ) -> dict[str, str]:
        """Return the headers, and under ``url`` the URL, that botocore makes of a request."""
        credentials = self.credentials.Credentials("AKID", "wJalr+secret/key", token or None)
        signer = getattr(self.auth, auth)(credentials, "s3", "eu-west-3", **options)
        moment = datetime.fromtimestamp(when, UTC).replace(tzinfo=None)
        self.patch(self.auth, "get_current_datetime", lambda **_: moment)
        signer.add_auth(request)
        return {**{k.lower(): v for k, v in request.headers.items()}, "url": request.url}

    @given(st.lists(NAMES, min_size=1, max_size=3), HOSTS, TYPES, TOKENS, TIMES, st.binary())
    @settings(max_examples=60, deadline=None)
    def test_put(
        self, names: list[str], host: str, kind: str, token: str, when: int, body: bytes
    ) -> None:
        path = encoded_path(["bucket", *names])
        theirs = self.made_by_botocore(
            "S3SigV4Auth",
            when,
            token,
            self.requests.AWSRequest(
                "PUT", f"https://{host}{path}", {"content-type": kind}, data=body
            ),
        )
        key = SigningKey("AKID", "wJalr+secret/key", "eu-west-3", token)
        sha256 = hashlib.sha256(body).hexdigest()
        ours = dict(signed_headers(key, "PUT", host, path, sha256, when, [("content-type", kind)]))
        self.assertEqual(ours["x-amz-date"], theirs["x-amz-date"])
        self.assertEqual(ours["x-amz-content-sha256"], theirs["x-amz-content-sha256"])
        self.assertEqual(ours["authorization"], theirs["authorization"])

    @given(
        st.lists(NAMES, min_size=1, max_size=3), HOSTS, TOKENS, TIMES, st.integers(1, MAX_EXPIRES)
    )
    @settings(max_examples=60, deadline=None)
    def test_presigned(
        self, names: list[str], host: str, token: str, when: int, expires: int
    ) -> None:
        path = encoded_path(["bucket", *names])
        extra = [
            ("response-content-disposition", f'attachment; filename="{names[-1]}"'),
            ("response-content-type", "video/mp4"),
        ]
        theirs = self.made_by_botocore(
            "S3SigV4QueryAuth",
            when,
            token,
            self.requests.AWSRequest("GET", f"https://{host}{path}", params=dict(extra)),
            expires=expires,
        )
        key = SigningKey("AKID", "wJalr+secret/key", "eu-west-3", token)
        ours = presigned_url(key, "https", host, path, when, expires, extra)
        pairs = [dict(parse_qsl(urlsplit(url).query)) for url in (ours, theirs["url"])]
        self.assertEqual(pairs[0], pairs[1])
        self.assertEqual(unquote(urlsplit(ours).path), unquote(urlsplit(theirs["url"]).path))

    def test_the_stamp(self) -> None:
        self.assertEqual(stamp_of(NOW + 0.9), VECTORS["date"])
