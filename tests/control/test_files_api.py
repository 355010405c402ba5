"""Files for clients: who may have them, whole, in parts, and from a bucket."""

from __future__ import annotations

import hashlib
import os
from urllib.parse import parse_qs, urlsplit

import attrs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import S3Config
from omnigate.control.files_api import FilesApi
from omnigate.jobs.file_reads import MAX_READS, FileReads
from omnigate.jobs.job import Job, Output
from omnigate.jobs.signed_urls import FileSigner
from omnigate.jobs.storage_local import LocalStorage
from omnigate.jobs.storage_s3 import S3Storage
from omnigate.jobs.stored_files import StoredFiles
from omnigate.testing.writer import SynchronousWriter
from tests.control.conversation import (
    INTERNAL,
    Conversation,
    Headers,
    Reply,
    read_reply,
    request_bytes,
)

JOB = "job_01jd0000000000000000000000"
KEY, OTHER_KEY = "ab" * 32, "cd" * 32
NOW = 1_800_000_000
CONTENT = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10


def output(n: int, content: bytes, kind: str = "image/png", storage: str = "local") -> Output:
    """Return an output of the job."""
    sha256 = hashlib.sha256(content).hexdigest()
    return Output(kind, len(content), sha256, "url", storage, f"{JOB}/{n}.png")


class FilesApiTestCase(SynchronousTestCase):
    """An endpoint, a folder with files, and a client of a key."""

    def setUp(self) -> None:
        self.media = self.mktemp()
        os.makedirs(os.path.join(self.media, JOB))
        for n, content in ((0, CONTENT), (1, b"<html>"), (2, b"")):
            with open(os.path.join(self.media, JOB, f"{n}.png"), "wb") as file:
                file.write(content)
        outputs = (
            output(0, CONTENT),
            output(1, b"<html>", "text/html"),
            output(2, b""),
            output(3, b"gone"),
            output(4, b"in a bucket", storage="s3"),
            output(5, b"?", storage="tape"),
        )
        self.job = Job(JOB, KEY, "m", 1, status="succeeded", outputs=outputs)
        self.signer = FileSigner(bytes(range(32)))
        self.reader = SynchronousWriter()
        self.reads = FileReads(self.reader, Clock())
        self.secrets = {"ID": "AKID", "SECRET": "secret"}
        self.s3: S3Config | None = S3Config("https://s3.example.net", "outputs", "ID", "SECRET")
        bucket = S3Storage(
            lambda: self.s3, self.secrets.get, self.fail, self.reader.submit, Clock(), lambda: NOW
        )
        local = LocalStorage(self.media, self.reader)
        files = StoredFiles({JOB: self.job}.get, local, self.reads, bucket)
        self.talk = Conversation(*FilesApi(files, lambda: self.signer, lambda: NOW).endpoints())

    def get(
        self, n: object = 0, query: str = "", key: str = KEY, method: str = "GET", **headers: str
    ) -> Reply:
        """Ask for a file as a data plane does."""
        lines: Headers = tuple(
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        )
        if key:
            lines += ((b"x-omnigate-key-sha256", key.encode()),)
        target = f"/internal/v1/files/{JOB}/{n}" + (f"?{query}" if query else "")
        return self.talk.ask(method, target, (*INTERNAL, *lines))

    def refused(self, status: int, code: str, *args: object, **options: str) -> Reply:
        """Check a refusal."""
        reply = self.get(*args, **options)  # type: ignore[arg-type]
        self.assertEqual((reply.status, reply.json()["error"]["code"]), (status, code))
        return reply


class WholeFilesTest(FilesApiTestCase):
    """All of a file."""

    def test_a_download(self) -> None:
        reply = self.get()
        self.assertEqual((reply.status, reply.body), (200, CONTENT))
        told = {name: reply.headers[name] for name in reply.headers if name != "date"}
        told.pop("x-omnigate-request-id")
        self.assertEqual(
            told,
            {
                "content-type": "image/png",
                "content-length": str(len(CONTENT)),
                "content-disposition": f'attachment; filename="{JOB}-0.png"',
                "content-security-policy": "sandbox; default-src 'none'",
                "x-content-type-options": "nosniff",
                "cache-control": "private, no-cache",
                "accept-ranges": "bytes",
                "etag": f'"{hashlib.sha256(CONTENT).hexdigest()}"',
            },
        )

    def test_a_page_is_no_page(self) -> None:
        self.assertEqual(self.get(1).headers["content-type"], "application/octet-stream")

    def test_an_empty_file(self) -> None:
        reply = self.get(2)
        self.assertEqual((reply.status, reply.body), (200, b""))
        self.assertEqual(reply.headers["content-length"], "0")

    def test_head(self) -> None:
        reply = self.get(method="HEAD")
        self.assertEqual((reply.status, reply.body), (200, b""))
        self.assertEqual(reply.headers["content-length"], str(len(CONTENT)))
        self.assertEqual(self.reads.open, 0)

    def test_what_the_client_has_already(self) -> None:
        etag = self.get().headers["etag"]
        reply = self.get(if_none_match=etag)
        self.assertEqual((reply.status, reply.body, reply.headers["etag"]), (304, b"", etag))
        self.assertEqual(self.get(if_none_match='"other"').status, 200)

    def test_gone(self) -> None:
        reply = self.refused(404, "not_found", 3)
        self.assertIn("removed from the gateway's storage", reply.json()["error"]["message"])

    def test_of_another_length(self) -> None:
        with open(os.path.join(self.media, JOB, "0.png"), "ab") as file:
            file.write(b"more")
        self.refused(404, "not_found")

    def test_a_storage_that_is_not_known(self) -> None:
        self.refused(404, "not_found", 5)

    def test_too_many_at_once(self) -> None:
        self.reads.open = MAX_READS
        self.assertEqual(self.refused(503, "overloaded").headers["retry-after"], "1")

    def test_many_that_come_together(self) -> None:
        """The bound holds for all whose files are looked at in the same moment."""
        self.reads.open = MAX_READS - 2
        self.reader.holding = True
        request = request_bytes(
            "GET",
            f"/internal/v1/files/{JOB}/0",
            (*INTERNAL, (b"x-omnigate-key-sha256", KEY.encode())),
        )
        transports = []
        for _ in range(5):
            channel, transport = self.talk.connect()
            channel.dataReceived(request)
            transports.append(transport)
        self.reader.run(5)
        self.assertEqual(MAX_READS, self.reads.open)
        self.reader.run()
        statuses = [read_reply(transport.value())[0].status for transport in transports]
        self.assertEqual([200, 200, 503, 503, 503], statuses)


class PartsTest(FilesApiTestCase):
    """Ranges."""

    def test_a_part(self) -> None:
        reply = self.get(range="bytes=10-19")
        self.assertEqual((reply.status, reply.body), (206, CONTENT[10:20]))
        self.assertEqual(reply.headers["content-range"], f"bytes 10-19/{len(CONTENT)}")
        self.assertEqual(reply.headers["content-length"], "10")

    def test_the_end(self) -> None:
        self.assertEqual(self.get(range="bytes=-5").body, CONTENT[-5:])

    def test_head(self) -> None:
        reply = self.get(range="bytes=0-4", method="HEAD")
        self.assertEqual((reply.status, reply.body), (200, b""))
        self.assertEqual(reply.headers["content-length"], str(len(CONTENT)))

    def test_only_of_the_state_that_the_client_has(self) -> None:
        etag = self.get().headers["etag"]
        self.assertEqual(self.get(range="bytes=0-4", if_range=etag).status, 206)
        for other in (f"W/{etag}", '"other"', "Tue, 03 Nov 2026 10:00:00 GMT"):
            reply = self.get(range="bytes=0-4", if_range=other)
            self.assertEqual((reply.status, reply.body), (200, CONTENT), other)

    def test_beyond_the_end(self) -> None:
        reply = self.refused(416, "invalid_request", range="bytes=99999-")
        self.assertEqual(reply.headers["content-range"], f"bytes */{len(CONTENT)}")

    def test_several_ranges_are_passed_over(self) -> None:
        self.assertEqual(self.get(range="bytes=0-1,5-6").status, 200)


class WhoTest(FilesApiTestCase):
    """Who may have a file."""

    def test_nobody_else(self) -> None:
        self.refused(404, "not_found", key=OTHER_KEY)
        self.refused(404, "not_found", key="")

    def test_what_there_is_not(self) -> None:
        for n in (6, 9999, "00", "x", "-1"):
            self.refused(404, "not_found", n)
        for path in (f"{JOB[:-1]}1/0", "x/0", f"{JOB}/0/0"):
            reply = self.talk.ask("GET", f"/internal/v1/files/{path}", INTERNAL)
            self.assertEqual(reply.status, 404, path)

    def test_a_signed_url_needs_no_key(self) -> None:
        query = self.signer.query(JOB, 0, NOW + 60)
        for key in ("", OTHER_KEY, KEY):
            self.assertEqual(self.get(query=query, key=key).body, CONTENT)

    def test_one_that_is_over(self) -> None:
        query = self.signer.query(JOB, 0, NOW)
        self.refused(403, "invalid_signature", query=query, key="")
        self.refused(403, "invalid_signature", query=query, key=OTHER_KEY)
        # Its own key opens it all the same.
        self.assertEqual(self.get(query=query).status, 200)

    def test_one_that_was_changed(self) -> None:
        query = self.signer.query(JOB, 0, NOW + 60)
        signature = parse_qs(query)["signature"][0]
        for changed in (
            query.replace(str(NOW + 60), str(NOW + 61)),
            query[:-1] + ("A" if query[-1] != "A" else "B"),
            f"expires={NOW + 60}",
            f"signature={signature}",
        ):
            self.refused(403, "invalid_signature", query=changed, key="")
        self.refused(403, "invalid_signature", 1, query=query, key="")

    def test_one_of_a_file_that_is_gone(self) -> None:
        self.refused(404, "not_found", 3, query=self.signer.query(JOB, 3, NOW + 60), key="")
        self.refused(404, "not_found", 77, query=self.signer.query(JOB, 77, NOW + 60), key="")


class BucketTest(FilesApiTestCase):
    """Files that lie elsewhere."""

    def test_the_client_is_led_there(self) -> None:
        reply = self.get(4)
        self.assertEqual((reply.status, reply.body), (302, b""))
        self.assertEqual(reply.headers["cache-control"], "private, no-store")
        url = urlsplit(reply.headers["location"])
        self.assertEqual((url.netloc, url.path), ("s3.example.net", f"/outputs/{JOB}/4.png"))
        query = parse_qs(url.query)
        self.assertEqual(query["response-content-type"], ["image/png"])
        self.assertEqual(
            query["response-content-disposition"], [f'attachment; filename="{JOB}-4.png"']
        )
        self.assertEqual(query["X-Amz-Expires"], ["300"])

    def test_signed(self) -> None:
        query = self.signer.query(JOB, 4, NOW + 60)
        self.assertEqual(self.get(4, query, key="").status, 302)

    def test_without_its_credential(self) -> None:
        del self.secrets["SECRET"]
        self.refused(503, "storage_unavailable", 4)

    def test_without_a_bucket(self) -> None:
        self.s3 = None
        self.refused(503, "storage_unavailable", 4)

    def test_addressed_by_its_host(self) -> None:
        assert self.s3 is not None
        self.s3 = attrs.evolve(self.s3, addressing="virtual", endpoint="https://s3.example.net:443")
        location = urlsplit(self.get(4).headers["location"])
        self.assertEqual(location.netloc, "outputs.s3.example.net")
        self.assertEqual(location.path, f"/{JOB}/4.png")
