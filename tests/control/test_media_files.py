"""Files of media jobs in a whole control plane: stored, served, shared, and gone in time."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.generation import Generation
from omnigate.jobs.adapters.base import InlineSource
from omnigate.jobs.job import SUCCEEDED, Job, Output
from omnigate.jobs.output_faults import OutputLimits
from omnigate.jobs.store import KeyLimits, NewJob
from tests.control.conversation import INTERNAL, Reply
from tests.control.plane import APP_SHA, CONFIG, Plane

CONTENT = b"\x89PNG\r\n\x1a\n" + b"pixels" * 100
HOUR = 3600.0
DAY = 24 * HOUR


class MediaFilesTest(SynchronousTestCase):
    """A control plane, a job that has made two files, and its client."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        config = f"{CONFIG}\n[media]\nsigned_url_ttl_s = 86400\n[retention]\njobs_days = 2\n"
        self.plane = Plane(self.folder, config)
        self.job = self.stored(InlineSource(CONTENT), InlineSource(b"<html>", "text/html"))

    @property
    def generation(self) -> Generation:
        """The one that is up."""
        found = self.plane.guard.current
        assert found is not None
        return found

    def done(self, coroutine: Any) -> Any:
        """Return what has come of it."""
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def ended(self, outputs: tuple[Output, ...], **fields: Any) -> Job:
        """Make a job that has ended with these outputs."""
        new = NewJob(APP_SHA, "flux", b"{}")
        job, _ = self.done(self.generation.jobs.create(new, KeyLimits()))
        change = self.generation.jobs.change(
            job.id,
            status=SUCCEEDED,
            outputs=outputs,
            finished_ms=self.plane.now_ms(),
            **fields,
        )
        ended: Job = self.done(change)
        return ended

    def stored(self, *sources: InlineSource) -> Job:
        """Make a job that has made these."""
        new = NewJob(APP_SHA, "flux", b"{}")
        job, _ = self.done(self.generation.jobs.create(new, KeyLimits()))
        outputs = self.done(
            self.generation.media.outputs.store(
                job, sources, own_origin="", limits=OutputLimits(10_000, 4, 20_000)
            )
        )
        change = self.generation.jobs.change(
            job.id, status=SUCCEEDED, outputs=outputs, finished_ms=self.plane.now_ms()
        )
        ended: Job = self.done(change)
        return ended

    def get(self, path: str, key: str = "") -> Reply:
        """Ask for a file as a data plane does."""
        headers = (*INTERNAL, (b"x-omnigate-key-sha256", key.encode())) if key else INTERNAL
        return self.plane.talk.ask("GET", f"/internal{path}", headers)

    def signed(self, n: int = 0) -> str:
        """Return the signed URL that the job is shown with."""
        url: str = self.generation.media.views.shown(self.job)["outputs"][n]["signed_url"]
        return url

    def folders(self) -> list[str]:
        """Return what lies in the media folder."""
        return sorted(os.listdir(os.path.join(self.folder, "media")))

    def crash(self) -> None:
        """Crash a store, and have all of them started again."""
        self.generation.crashed("test", Failure(ZeroDivisionError()))
        self.plane.clock.pump([0.0, 0.0, 1.0, 1.0])
        self.flushLoggedErrors(ZeroDivisionError)

    def test_by_key_and_by_signature(self) -> None:
        """The paths that a client is shown lead to its files."""
        path = f"/v1/files/{self.job.id}/0"
        self.assertEqual(self.get(path, APP_SHA).body, CONTENT)
        self.assertEqual(self.get(path).status, 404)
        self.assertEqual(self.get(self.signed()).body, CONTENT)
        self.assertEqual(
            self.get(self.signed(1)).headers["content-type"], "application/octet-stream"
        )
        self.assertEqual(urlsplit(self.signed()).path, path)

    def test_a_signed_url_ends(self) -> None:
        """At the time that is set, not before."""
        signed = self.signed()
        self.plane.clock.advance(DAY - 2)
        self.assertEqual(self.get(signed).status, 200)
        self.plane.clock.advance(2)
        self.assertEqual(self.get(signed).status, 403)
        self.assertEqual(self.get(self.signed()).status, 200)

    def test_signed_urls_work_after_a_restart(self) -> None:
        """What signs them lasts, and is nobody else's to read."""
        signed = self.signed()
        self.crash()
        self.assertEqual(self.get(signed).body, CONTENT)
        secret = os.stat(os.path.join(self.folder, "files.key"))
        self.assertEqual((secret.st_size, secret.st_mode & 0o777), (32, 0o600))

    def test_what_no_job_has_is_gone_after_a_restart(self) -> None:
        """Left by a crash, as it were."""
        for name in ("job_01jd0000000000000000000000", ".incoming/job_x"):
            os.mkdir(os.path.join(self.folder, "media", name))
            with open(os.path.join(self.folder, "media", name, "0.png"), "wb") as file:
                file.write(b"orphan")
        self.crash()
        self.assertEqual(self.folders(), [".incoming", self.job.id])
        self.assertEqual(os.listdir(os.path.join(self.folder, "media", ".incoming")), [])
        self.assertEqual(self.get(f"/v1/files/{self.job.id}/0", APP_SHA).body, CONTENT)

    def test_files_go_with_their_job(self) -> None:
        """When it is older than it is kept."""
        path = f"/v1/files/{self.job.id}/0"
        self.plane.clock.advance(2 * DAY - 1)
        self.assertEqual(self.get(path, APP_SHA).status, 200)
        self.plane.clock.advance(61)
        self.assertEqual(self.get(path, APP_SHA).status, 404)
        self.assertEqual(self.folders(), [".incoming"])

    def test_files_that_a_cached_job_shares_stay_with_it(self) -> None:
        """After a restart too, and go with that one."""
        self.plane.clock.advance(DAY)
        cached = self.ended(self.job.outputs, cached_from=self.job.id)
        self.plane.clock.advance(DAY + 61)
        self.assertEqual(self.get(f"/v1/files/{self.job.id}/0", APP_SHA).status, 404)
        path = f"/v1/files/{cached.id}/0"
        self.assertEqual(self.get(path, APP_SHA).body, CONTENT)
        self.crash()
        self.assertEqual(self.get(path, APP_SHA).body, CONTENT)
        self.plane.clock.advance(DAY)
        self.assertEqual(self.get(path, APP_SHA).status, 404)
        self.assertEqual(self.folders(), [".incoming"])
