"""The fake bucket judges like S3: what a known client signs passes, and nothing else."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import SkipTest
from urllib.parse import urlsplit

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.bucket import BucketAnswer, BucketRequest, FakeBucket

VECTORS = json.loads(
    (Path(__file__).parent.parent / "jobs" / "vectors" / "s3_sigv4.json").read_text()
)
NOW = datetime.strptime(VECTORS["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def code(answer: BucketAnswer) -> str:
    """Return the code of an error."""
    return answer.body.decode().partition("<Code>")[2].partition("</Code>")[0]


class BucketTestCase(SynchronousTestCase):
    """A bucket whose clock stands still."""

    def setUp(self) -> None:
        self.now = NOW
        self.bucket = FakeBucket(now=lambda: self.now)

    def put(self, number: int = 0, **changes: Any) -> BucketAnswer:
        """Send one of the golden cases, changed."""
        case = VECTORS["put"][number]
        url = urlsplit(case["url"])
        headers = {**case["headers"], "content-length": "5"}
        request = BucketRequest("PUT", url.path, headers, b"hello" if number < 3 else b"")
        return self.bucket.answer(attrs.evolve(request, **changes))

    def headers(self, **changes: str) -> dict[str, str]:
        """Return the headers of the first golden case, changed."""
        renamed = {name.replace("_", "-"): value for name, value in changes.items()}
        return {**VECTORS["put"][0]["headers"], "content-length": "5", **renamed}

    def get(self, url: str, **changes: Any) -> BucketAnswer:
        """Send a presigned request."""
        parts = urlsplit(url)
        request = BucketRequest("GET", f"{parts.path}?{parts.query}", {"host": parts.netloc})
        return self.bucket.answer(attrs.evolve(request, **changes))


class PutTest(BucketTestCase):
    """Requests with a signed header."""

    def test_the_golden_cases(self) -> None:
        for number in (0, 1, 3):
            self.assertEqual(self.put(number).status, 200, number)
        self.assertEqual(self.bucket.objects["job_01/0.webp"].content, b"hello")
        self.assertEqual(self.bucket.objects["job_01/0.webp"].content_type, "image/webp")
        self.bucket = FakeBucket(region="eu-central-1", now=lambda: NOW)
        self.assertEqual(self.put(2).status, 200)
        self.assertIn("job_01/out 1+ü&=.mp4", self.bucket.objects)

    def test_what_was_changed(self) -> None:
        headers = self.headers()
        signature = headers["authorization"]
        flipped = signature[:-1] + ("0" if signature[-1] != "0" else "1")
        for status, expected, changes in (
            (403, "SignatureDoesNotMatch", {"uri": "/outputs/job_01/1.webp"}),
            (403, "SignatureDoesNotMatch", {"headers": self.headers(content_type="text/html")}),
            (403, "SignatureDoesNotMatch", {"headers": self.headers(host="other.example")}),
            (403, "SignatureDoesNotMatch", {"headers": self.headers(authorization=flipped)}),
            (403, "SignatureDoesNotMatch", {"method": "DELETE"}),
            (403, "SignatureDoesNotMatch", {"uri": "/outputs/job_01/0.webp?acl"}),
            (400, "XAmzContentSHA256Mismatch", {"body": b"hellO"}),
            (
                403,
                "SignatureDoesNotMatch",
                {
                    "headers": self.headers(x_amz_content_sha256=hashlib.sha256(b"x").hexdigest()),
                    "body": b"x",
                },
            ),
            (403, "AccessDenied", {"headers": self.headers(x_amz_acl="public-read")}),
            (400, "AuthorizationHeaderMalformed", {"headers": self.headers(authorization="x")}),
            (400, "InvalidToken", {"headers": self.headers(x_amz_security_token="x")}),
        ):
            answer = self.put(**changes)
            self.assertEqual((answer.status, code(answer)), (status, expected), changes)
        self.assertEqual(self.bucket.objects, {})

    def test_without_a_length(self) -> None:
        headers = self.headers()
        del headers["content-length"]
        self.assertEqual(self.put(headers=headers).status, 411)

    def test_unsigned(self) -> None:
        self.assertEqual(self.put(headers={"host": "s3.example.net"}).status, 403)

    def test_clocks(self) -> None:
        for offset, status in ((900, 200), (-900, 200), (901, 403), (-901, 403)):
            self.now = NOW + offset
            self.assertEqual(self.put().status, status)

    def test_another_owner_bucket_or_region(self) -> None:
        for expected, bucket in (
            ("InvalidAccessKeyId", FakeBucket(access_key="other", now=lambda: NOW)),
            ("SignatureDoesNotMatch", FakeBucket(secret_key="other", now=lambda: NOW)),
            ("AuthorizationHeaderMalformed", FakeBucket(region="eu-west-1", now=lambda: NOW)),
            ("NoSuchBucket", FakeBucket("other", now=lambda: NOW)),
        ):
            self.bucket = bucket
            self.assertEqual(code(self.put()), expected)

    def test_failing_on_demand(self) -> None:
        self.bucket.failing.append((503, "SlowDown"))
        self.assertEqual(self.put().status, 503)
        self.assertEqual(self.put().status, 200)
        self.assertEqual(len(self.bucket.seen), 2)


class GetTest(BucketTestCase):
    """URLs that are signed."""

    def setUp(self) -> None:
        super().setUp()
        self.put()
        self.url = VECTORS["presigned"][0]["url"]

    def test_the_golden_case(self) -> None:
        answer = self.get(self.url)
        self.assertEqual((answer.status, answer.body), (200, b"hello"))
        self.assertEqual(answer.headers["content-type"], "image/webp")

    def test_what_the_url_says_of_the_answer(self) -> None:
        self.bucket.objects["job_01/out 1+ü.mp4"] = self.bucket.objects["job_01/0.webp"]
        answer = self.get(VECTORS["presigned"][1]["url"])
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="0.mp4"')
        self.assertEqual(answer.headers["content-type"], "application/octet-stream")

    def test_changed(self) -> None:
        for old, new in (
            ("0.webp", "1.webp"),
            ("X-Amz-Expires=3600", "X-Amz-Expires=3601"),
            ("Signature=9", "Signature=8"),
        ):
            answer = self.get(self.url.replace(old, new))
            self.assertEqual(code(answer), "SignatureDoesNotMatch")
        self.assertEqual(code(self.get(self.url, method="PUT")), "SignatureDoesNotMatch")

    def test_time(self) -> None:
        for offset, status in ((3599, 200), (3600, 403), (-900, 200), (-901, 403)):
            self.now = NOW + offset
            self.assertEqual(self.get(self.url).status, status, offset)

    def test_for_too_long(self) -> None:
        url = self.url.replace("X-Amz-Expires=3600", "X-Amz-Expires=604801")
        self.assertEqual(code(self.get(url)), "AuthorizationQueryParametersError")

    def test_not_there(self) -> None:
        self.bucket.objects.clear()
        self.assertEqual(code(self.get(self.url)), "NoSuchKey")


class AgainstBotocoreTest(BucketTestCase):
    """What the public client library signs passes, tokens and odd names included."""

    def test_put_and_get(self) -> None:
        try:
            auth: Any = import_module("botocore.auth")
            requests: Any = import_module("botocore.awsrequest")
            credentials: Any = import_module("botocore.credentials")
        except ImportError:
            raise SkipTest("botocore is not installed (the extra dev has it)") from None
        moment = datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)
        self.patch(auth, "get_current_datetime", lambda **_: moment)
        self.bucket = FakeBucket(session_token="tok/en==", now=lambda: NOW)
        who = credentials.Credentials("TESTKEYID", "test+secret/key", "tok/en==")
        url = "http://127.0.0.1:9000/outputs/a%20b/%C3%BC%2B%25.png"
        put = requests.AWSRequest("PUT", url, {"content-type": "image/png"}, data=b"content")
        auth.S3SigV4Auth(who, "s3", "us-east-1").add_auth(put)
        headers = {name.lower(): value for name, value in put.headers.items()}
        headers |= {"host": "127.0.0.1:9000", "content-length": "7"}
        request = BucketRequest("PUT", urlsplit(url).path, headers, b"content")
        self.assertEqual(self.bucket.answer(request).status, 200)
        self.assertEqual(list(self.bucket.objects), ["a b/ü+%.png"])
        get = requests.AWSRequest("GET", url, params={"response-content-type": "text/plain"})
        auth.S3SigV4QueryAuth(who, "s3", "us-east-1", expires=60).add_auth(get)
        self.assertEqual(self.get(get.url).body, b"content")
