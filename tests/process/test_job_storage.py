"""Where outputs lie, through both planes as processes: a bucket, encrypted files, whole URLs."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from omnigate.testing.media.pictures import png
from tests.process.daemons import (
    SECONDS,
    Answer,
    Daemon,
    files_below,
    free_ports,
    read_answer,
    wait_for,
)
from tests.process.media import PER_JOB, MediaGateway, route, sha256

#: A bucket on a port of loopback.
BUCKET: Final = (
    "import sys; from twisted.internet import reactor; "
    "from omnigate.testing.bucket import FakeBucket; "
    "FakeBucket('outputs').listen(reactor, int(sys.argv[1])); reactor.run()"
)

PUBLIC: Final = "https://gate.example.com"


def fetch(url: str) -> Answer:
    """Get what lies at a port of loopback, with nothing but the URL.

    :raises OSError: nothing listens there.
    """
    parts = urlsplit(url)
    assert parts.hostname == "127.0.0.1" and parts.port
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return read_answer(connection.getresponse())
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether something does at a port."""
    try:
        fetch(f"http://127.0.0.1:{port}/")
    except OSError:
        return False
    return True


class BucketGateway(MediaGateway):
    """A gateway that has the credentials of the bucket."""

    def environ(self, plane: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a plane."""
        environ = super().environ(plane, settings)
        if plane == "control":
            environ |= {"BUCKET_KEY": "TESTKEYID", "BUCKET_SECRET": "test+secret/key"}
        return environ


class BucketTests(SynchronousTestCase):
    """Outputs in a bucket."""

    def setUp(self) -> None:
        (self.port,) = free_ports(1)
        more = (
            f'[media.s3]\nendpoint = "http://127.0.0.1:{self.port}"\nbucket = "outputs"\n'
            'access_key_env = "BUCKET_KEY"\nsecret_key_env = "BUCKET_SECRET"'
        )
        routes = {"replicate": route("replicate"), "next": route("replicate", "fal")}
        self.gateway = BucketGateway(routes, media='storage = "s3"', more=more)
        self.addCleanup(self.gateway.stop)
        self.bucket = self.start_bucket()
        self.gateway.start()

    def start_bucket(self) -> Daemon:
        """Start the bucket, empty."""
        bucket = self.gateway.run("bucket", [sys.executable, "-c", BUCKET, str(self.port)])
        wait_for("the bucket", lambda: listens(self.port))
        return bucket

    def test_files(self) -> None:
        """They are fetched at the bucket by signed URLs, and lie nowhere else."""
        gateway = self.gateway
        job = gateway.end(gateway.made("replicate", "outputs=2~bytes=200000"))
        self.assertEqual((job["status"], len(job["outputs"])), ("succeeded", 2), job)
        for output in job["outputs"]:
            for url, key in ((output["url"], "app"), (output["signed_url"], "")):
                answer = gateway.send("GET", url, key=key)
                self.assertEqual(answer.status, 302, answer.body)
                stored = fetch(answer.headers["location"])
                self.assertEqual((stored.status, sha256(stored.body)), (200, output["sha256"]))
        self.assertEqual(gateway.send("GET", job["outputs"][0]["url"], key="other").status, 404)
        self.assertEqual(files_below(gateway.control_state / "media"), [])

    def test_bucket_is_gone(self) -> None:
        """The job fails, no other provider is asked, and what was delivered is paid; once."""
        gateway = self.gateway
        self.bucket.kill()
        job = gateway.end(gateway.make("next", {"prompt": "nowhere to go"}))
        self.assertEqual((job["status"], job["error"]["code"]), ("failed", "storage_failed"))
        self.assertEqual(str(job["cost_usd"]), PER_JOB)
        self.assertEqual(len(gateway.works("nowhere to go")), 1)
        self.assertEqual(gateway.incoming(), [])
        for prompt in ("not begun", "nor this"):
            job = gateway.end(gateway.make("next", {"prompt": prompt}))
            self.assertEqual((job["status"], job["error"]["code"]), ("failed", "storage_failed"))
            self.assertEqual((str(job["cost_usd"]), gateway.works(prompt)), ("0", []))
        self.start_bucket()
        wait_for(
            "the bucket to be tried anew",
            lambda: gateway.end(gateway.made("replicate"))["status"] == "succeeded",
        )
        assert gateway.control is not None
        log = gateway.control.log()
        self.assertIn("media jobs fail before they are paid for: the bucket could not be", log)
        self.assertIn("outputs of media jobs can be kept again", log)


class EncryptedTests(SynchronousTestCase):
    """Outputs that the gateway itself cannot read again, behind two workers."""

    def test_files(self) -> None:
        """They are stored for the owner of a key; URLs are whole ones, in webhooks too."""
        try:
            age: Any = import_module("pyrage")
        except ImportError:
            raise SkipTest("there is no pyrage to read such files with") from None
        identity = age.x25519.Identity.generate()
        media = f'age_recipients = ["{identity.to_public()}"]\npublic_url = "{PUBLIC}"'
        gateway = MediaGateway(
            {"replicate": route("replicate")}, media=media, data={"WORKERS": "2"}
        )
        self.addCleanup(gateway.stop)
        gateway.start()
        job = gateway.end(gateway.make("replicate", {"prompt": "secret"}, hook="told"))
        (output,) = job["outputs"]
        self.assertTrue(output["encrypted"])
        self.assertTrue(output["url"].startswith(f"{PUBLIC}/v1/files/"), output["url"])
        served = gateway.send("GET", output["signed_url"].removeprefix(PUBLIC), key="")
        self.assertEqual(served.status, 200)
        picture = age.decrypt(served.body, [identity])
        self.assertEqual((picture, output["sha256"]), (png("secret/0"), sha256(picture)))
        gateway.told(job["id"])
        (body,) = gateway.verified("told")
        self.assertTrue(body["data"]["outputs"][0]["signed_url"].startswith(PUBLIC))
        # Whichever worker is asked knows the job.
        answers = [gateway.send("GET", f"/v1/jobs/{job['id']}") for _ in range(8)]
        self.assertEqual({answer.status for answer in answers}, {200})
