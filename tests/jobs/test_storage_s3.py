"""Outputs in a bucket: put, fetched and removed, with what goes wrong there told in words."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any
from unittest import SkipTest
from urllib.parse import urlsplit

import attrs
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from omnigate.config.media import S3Config
from omnigate.jobs.job import Output
from omnigate.jobs.serving import Served, served
from omnigate.jobs.storage import StorageFault, StoredFile
from omnigate.jobs.storage_s3 import MAX_ANSWER_BYTES, PAUSES, S3Storage, code_of, fault_of
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.client import Outbound
from omnigate.outbound.messages import CONNECT_ERROR, NOT_KEPT, Answer, Request
from omnigate.testing.bucket import BucketRequest, FakeBucket
from omnigate.testing.writer import SynchronousWriter

NOW = 1_800_000_000.0
NAME = "job_01jd0000000000000000000000/0.png"
CONFIG = S3Config("http://127.0.0.1:9000", "outputs", "ID", "SECRET")
SECRETS = {"ID": "TESTKEYID", "SECRET": "test+secret/key"}


class ToBucket:
    """Stands in for :class:`~omnigate.outbound.client.Outbound`: leads straight to a bucket.

    :ivar faults: what the next requests come to instead.
    """

    def __init__(self, bucket: FakeBucket) -> None:
        self.bucket = bucket
        self.faults: list[Answer] = []

    async def call(self, request: Request, max_bytes: int) -> Answer:
        """Send a request with its own body."""
        assert max_bytes == MAX_ANSWER_BYTES
        return self.send(request, request.body)

    async def put(
        self, request: Request, path: str, size: int, *, submit: Callable[..., Deferred[Any]]
    ) -> Answer:
        """Send a file."""
        with open(path, "rb") as file:
            content = file.read()
        assert len(content) == size > 0
        return self.send(request, content)

    def send(self, request: Request, body: bytes) -> Answer:
        """Have the bucket answer."""
        if self.faults:
            return self.faults.pop(0)
        url = urlsplit(request.url)
        headers = dict(request.headers) | {"host": url.netloc, "content-length": str(len(body))}
        uri = url.path + (f"?{url.query}" if url.query else "")
        found = self.bucket.answer(BucketRequest(request.method, uri, headers, body))
        return Answer(found.status, found.headers, found.body)


class StorageTestCase(SynchronousTestCase):
    """A bucket, and what puts files into it."""

    def setUp(self) -> None:
        self.config: S3Config | None = CONFIG
        self.secrets = dict(SECRETS)
        self.clock = Clock()
        self.use(FakeBucket(now=lambda: NOW))

    def use(self, bucket: FakeBucket) -> None:
        """Use that bucket from now on."""
        self.bucket = bucket
        self.way = ToBucket(bucket)
        self.storage = S3Storage(
            lambda: self.config,
            self.secrets.get,
            lambda: self.way,
            SynchronousWriter().submit,
            self.clock,
            lambda: NOW,
        )

    def file(self, content: bytes = b"pixels") -> StoredFile:
        """Return a file that is to be stored."""
        path = self.mktemp()
        with open(path, "wb") as file:
            file.write(content)
        return StoredFile(
            path, NAME, "image/png", len(content), hashlib.sha256(content).hexdigest()
        )

    def keep(self, content: bytes = b"pixels") -> Deferred[None]:
        """Begin to store one."""
        return Deferred.fromCoroutine(self.storage.keep(self.file(content)))

    def refused(self) -> str:
        """Return why one is not stored."""
        done = self.keep()
        for pause in PAUSES:
            self.clock.advance(pause)
        return str(self.failureResultOf(done, StorageFault).value)


def shown(content: bytes = b"pixels") -> Served:
    """Return how the stored file is served."""
    sha256 = hashlib.sha256(content).hexdigest()
    return served(Output("image/png", len(content), sha256, "url", "s3", NAME))


class StoringTest(StorageTestCase):
    """Files come and go."""

    def test_put(self) -> None:
        self.successResultOf(self.keep())
        self.assertEqual(self.bucket.objects[NAME].content, b"pixels")
        self.assertEqual(self.bucket.objects[NAME].content_type, "image/png")
        (seen,) = self.bucket.seen
        self.assertEqual(
            seen.headers["x-amz-content-sha256"], hashlib.sha256(b"pixels").hexdigest()
        )

    def test_an_empty_one(self) -> None:
        self.successResultOf(self.keep(b""))
        self.assertEqual(self.bucket.objects[NAME].content, b"")

    def test_every_way_to_address_it(self) -> None:
        for endpoint, addressing, name, path in (
            ("http://127.0.0.1:9000", "path", "outputs", f"/outputs/{NAME}"),
            ("https://s3.example.net:443", "path", "outputs", f"/outputs/{NAME}"),
            ("https://S3.example.net", "virtual", "outputs", f"/{NAME}"),
            ("http://s3.example.net:80/", "virtual", "out.puts", f"/{NAME}"),
        ):
            self.use(FakeBucket(name, now=lambda: NOW))
            self.config = S3Config(endpoint, name, "ID", "SECRET", addressing=addressing)  # type: ignore[arg-type]
            self.successResultOf(self.keep())
            self.assertEqual(list(self.bucket.objects), [NAME])
            self.assertEqual(self.bucket.seen[0].uri, path)
            answer = self.way.send(Request("GET", self.storage.url(shown())), b"")
            self.assertEqual(answer.body, b"pixels")

    def test_temporary_credentials(self) -> None:
        self.use(FakeBucket(session_token="to/ken+==", region="eu-west-3", now=lambda: NOW))
        self.secrets["TOKEN"] = "to/ken+=="
        self.config = attrs.evolve(CONFIG, session_token_env="TOKEN", region="eu-west-3")
        self.successResultOf(self.keep())
        answer = self.way.send(Request("GET", self.storage.url(shown())), b"")
        self.assertEqual(answer.status, 200)

    def test_a_url_forces_a_download_and_its_type(self) -> None:
        self.successResultOf(self.keep())
        answer = self.way.send(Request("GET", self.storage.url(shown())), b"")
        self.assertEqual(answer.headers["content-type"], "image/png")
        self.assertEqual(
            answer.headers["content-disposition"],
            'attachment; filename="job_01jd0000000000000000000000-0.png"',
        )
        self.assertEqual(answer.headers["cache-control"], "private, no-cache")

    def test_a_url_ends(self) -> None:
        self.successResultOf(self.keep())
        url = self.storage.url(shown())
        self.bucket._now = lambda: NOW + 300
        self.assertEqual(self.way.send(Request("GET", url), b"").status, 403)

    def test_removed(self) -> None:
        self.successResultOf(self.keep())
        for _ in range(2):
            self.successResultOf(Deferred.fromCoroutine(self.storage.remove(NAME)))
            self.assertEqual(self.bucket.objects, {})

    def test_one_that_is_not_there_is_removed(self) -> None:
        self.bucket.failing.append((404, "NoSuchKey"))
        self.successResultOf(Deferred.fromCoroutine(self.storage.remove(NAME)))

    def test_one_that_cannot_be_removed(self) -> None:
        self.bucket.failing.append((403, "AccessDenied"))
        removed = Deferred.fromCoroutine(self.storage.remove(NAME))
        self.failureResultOf(removed, StorageFault)


class TryingTest(StorageTestCase):
    """What may pass is tried three times, everything else once."""

    def test_three_times_in_all(self) -> None:
        self.bucket.failing.extend([(503, "SlowDown"), (500, "InternalError")])
        done = self.keep()
        self.assertEqual(len(self.bucket.seen), 1)
        self.clock.advance(PAUSES[0])
        self.assertEqual(len(self.bucket.seen), 2)
        self.assertNoResult(done)
        self.clock.advance(PAUSES[1])
        self.successResultOf(done)
        self.assertIn(NAME, self.bucket.objects)

    def test_not_a_fourth_time(self) -> None:
        self.bucket.failing.extend([(503, "SlowDown")] * 4)
        self.assertEqual(self.refused(), "the bucket answered 503 SlowDown")
        self.assertEqual(len(self.bucket.seen), 3)

    def test_a_connection_that_breaks_and_a_body_that_came_too_slowly(self) -> None:
        self.way.faults = [
            Answer(0, fault=CONNECT_ERROR),
            Answer(400, body=error("RequestTimeout")),
        ]
        done = self.keep()
        self.clock.pump(PAUSES)
        self.successResultOf(done)

    def test_what_does_not_pass(self) -> None:
        for status, code in ((403, "AccessDenied"), (404, "NoSuchBucket"), (400, "InvalidRequest")):
            self.bucket.seen.clear()
            self.bucket.failing.append((status, code))
            self.assertIn(f"{status} {code}", self.refused())
            self.assertEqual(len(self.bucket.seen), 1)

    def test_ready(self) -> None:
        """A bucket is tried once, and anew when it is another one or has refused a file."""
        self.successResultOf(self.ready())
        self.assertEqual(list(self.bucket.objects), ["omnigate-probe"])
        self.successResultOf(self.ready())
        self.successResultOf(self.keep())
        self.successResultOf(self.ready())
        self.assertEqual(len(self.bucket.seen), 2)
        self.refused_once()
        self.successResultOf(self.ready())
        self.assertEqual(len(self.bucket.seen), 4)
        self.config = attrs.evolve(CONFIG, bucket="others")
        fault = self.failureResultOf(self.ready(), StorageFault)
        self.assertIn("404 NoSuchBucket", str(fault.value))
        self.config = CONFIG
        self.successResultOf(self.ready())
        self.secrets["SECRET"] = ""
        self.failureResultOf(self.ready(), StorageFault)
        self.config = None
        self.failureResultOf(self.ready(), StorageFault)

    def ready(self) -> Deferred[None]:
        """Find out whether it takes files."""
        return Deferred.fromCoroutine(self.storage.ready())

    def test_nothing_is_left_to_wait_for(self) -> None:
        self.refused_once()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def refused_once(self) -> None:
        """Have one refused."""
        self.bucket.failing.append((403, "AccessDenied"))
        self.refused()

    def test_canceled_between_two(self) -> None:
        self.bucket.failing.append((503, "SlowDown"))
        done = self.keep()
        done.cancel()
        self.failureResultOf(done)
        self.assertEqual(self.clock.getDelayedCalls(), [])


def error(code: str) -> bytes:
    """Return the body of an error."""
    return f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()


class WordsTest(StorageTestCase):
    """What an operator reads in the job."""

    def test_wrong_credentials(self) -> None:
        self.secrets["SECRET"] = "wrong"
        self.assertEqual(
            self.refused(),
            "the bucket answered 403 SignatureDoesNotMatch: the secret key is not that of the "
            "access key",
        )
        self.secrets["ID"] = "unknown"
        self.assertIn("InvalidAccessKeyId: the access key is not known there", self.refused())

    def test_a_credential_that_is_not_set(self) -> None:
        del self.secrets["SECRET"]
        self.assertEqual(self.refused(), "the bucket's credential SECRET is not set")

    def test_no_bucket_any_more(self) -> None:
        self.config = None
        self.assertEqual(self.refused(), "there is no bucket in the config; set media.s3")

    def test_another_region(self) -> None:
        self.use(FakeBucket(region="eu-west-3", now=lambda: NOW))
        self.assertEqual(
            self.refused(), "the bucket is in the region eu-west-3; set media.s3.region"
        )

    def test_another_bucket(self) -> None:
        self.config = attrs.evolve(CONFIG, bucket="other")
        self.assertIn("there is no such bucket", self.refused())

    def test_a_clock_that_is_wrong(self) -> None:
        self.use(FakeBucket(now=lambda: NOW + 5000))
        self.assertIn("this machine's clock is wrong", self.refused())

    def test_what_is_no_s3(self) -> None:
        self.way.faults = [Answer(404, body=b"<html>")]
        self.assertEqual(self.refused(), "the bucket answered 404")
        self.way.faults = [Answer(301, {"location": "https://elsewhere.example"})]
        self.assertEqual(self.refused(), "the bucket answered 301")

    def test_a_yes_of_what_is_no_bucket(self) -> None:
        """A page says yes to anything, and has kept nothing."""
        for body in (b"<html>", b"<Error><Code>InternalError</Code></Error>"):
            self.way.faults = [Answer(200, body=body)]
            self.assertIn("as no bucket does", self.refused())
        self.way.faults = [Answer(200, {"etag": '"x"'}, b"<r/>")]
        self.successResultOf(self.keep())
        self.way.faults = [Answer(200)]
        self.successResultOf(self.keep())

    def test_faults(self) -> None:
        for answer, words in (
            (
                Answer(0, fault=CONNECT_ERROR, detail="refused"),
                "the bucket could not be reached: refused",
            ),
            (Answer(0, fault=CONNECT_ERROR), "the bucket could not be reached: connect_error"),
            (Answer(0, fault=NOT_KEPT, detail="gone"), "the output could not be read: gone"),
        ):
            self.assertEqual(fault_of(answer), words)

    def test_a_body_is_searched_no_further_than_its_beginning(self) -> None:
        bomb = b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]>" + b"&a;" * 20_000
        self.assertEqual(code_of(Answer(400, body=bomb + error("Late"))), "")
        self.assertEqual(code_of(Answer(400, body=error("A" * 65))), "")
        self.assertEqual(code_of(Answer(400, body=error("A<b>"))), "")


class OverTcpTest(TestCase):
    """With true connections, by the client that all requests of media jobs are sent with."""

    timeout = 60

    def setUp(self) -> None:
        self.reactor: Any = global_reactor
        self.outbound = Outbound(self.reactor, AddressGuard())
        self.addCleanup(lambda: Deferred.fromCoroutine(self.outbound.close()))

    def storage(self, port: int, secrets: dict[str, str], **config: Any) -> S3Storage:
        """Return a storage for a bucket on loopback."""
        s3 = attrs.evolve(CONFIG, endpoint=f"http://127.0.0.1:{port}", **config)
        return S3Storage(
            lambda: s3,
            secrets.get,
            lambda: self.outbound,
            lambda job: deferToThread(job),
            self.reactor,
            time.time,
        )

    def kept(self, content: bytes) -> StoredFile:
        """Return a file to store."""
        path = self.mktemp()
        with open(path, "wb") as file:
            file.write(content)
        return StoredFile(
            path, NAME, "image/png", len(content), hashlib.sha256(content).hexdigest()
        )

    @inlineCallbacks
    def test_the_fake_bucket(self) -> Generator[Deferred[Any], Any, None]:
        bucket = FakeBucket()
        port: Any = bucket.listen(self.reactor)
        self.addCleanup(port.stopListening)
        storage = self.storage(port.getHost().port, SECRETS)
        for size in (0, 1, 3_000_000):
            content = os.urandom(size)
            yield Deferred.fromCoroutine(storage.keep(self.kept(content)))
            self.assertEqual(bucket.objects[NAME].content, content)
        answer = yield Deferred.fromCoroutine(
            self.outbound.call(Request("GET", storage.url(shown(content))), 4_000_000)
        )
        self.assertEqual(answer.body, content)
        yield Deferred.fromCoroutine(storage.remove(NAME))
        self.assertEqual(bucket.objects, {})

    @inlineCallbacks
    def test_moto(self) -> Generator[Deferred[Any], Any, None]:
        """A server of others: in its strict mode it judges what is put."""
        try:
            server: Any = yield deferToThread(import_module, "moto.server")
            boto3: Any = yield deferToThread(import_module, "boto3")
        except ImportError:
            raise SkipTest("moto is not installed (the extra dev has it)") from None
        self.patch(os, "environ", {**os.environ, "AWS_CONFIG_FILE": os.devnull})
        self.patch(logging.getLogger("werkzeug"), "disabled", True)
        moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        yield deferToThread(moto.start)
        self.addCleanup(deferToThread, moto.stop)
        _, port = moto.get_host_and_port()
        secrets = yield deferToThread(self.prepare, boto3, port)
        content = os.urandom(100_000)
        lenient = self.storage(port, secrets)
        answer: Answer
        yield Deferred.fromCoroutine(lenient.keep(self.kept(content)))
        # As it starts it answers URLs, whatever signs them.
        answer = yield Deferred.fromCoroutine(
            self.outbound.call(Request("GET", lenient.url(shown(content))), 1_000_000)
        )
        self.assertEqual(answer.body, content)
        self.assertEqual(answer.headers["content-type"], "image/png")
        answer = yield Deferred.fromCoroutine(
            self.outbound.call(
                Request("POST", f"http://127.0.0.1:{port}/moto-api/reset-auth", body=b"0"), 1000
            )
        )
        self.assertEqual(answer.status, 200)
        yield Deferred.fromCoroutine(lenient.keep(self.kept(content)))
        yield Deferred.fromCoroutine(lenient.remove(NAME))
        forger = self.storage(port, {**secrets, "SECRET": "wrong"})
        try:
            yield Deferred.fromCoroutine(forger.keep(self.kept(content)))
        except StorageFault as fault:
            self.assertIn("SignatureDoesNotMatch", str(fault))
        else:
            self.fail("a forged signature was taken")

    def prepare(self, boto3: Any, port: int) -> dict[str, str]:
        """Make a bucket, and somebody who may use it; blocks."""
        options = {
            "endpoint_url": f"http://127.0.0.1:{port}",
            "region_name": "us-east-1",
            "aws_access_key_id": "root",
            "aws_secret_access_key": "root",
        }
        boto3.client("s3", **options).create_bucket(Bucket="outputs")
        iam = boto3.client("iam", **options)
        iam.create_user(UserName="gateway")
        key = iam.create_access_key(UserName="gateway")["AccessKey"]
        policy = (
            '{"Version":"2012-10-17","Statement":'
            '[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
        )
        iam.put_user_policy(UserName="gateway", PolicyName="all", PolicyDocument=policy)
        return {"ID": key["AccessKeyId"], "SECRET": key["SecretAccessKey"]}
