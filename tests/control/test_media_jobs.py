"""Media jobs in a whole control plane: through crashes of its stores and changes of its config."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.config_file import Cause
from omnigate.control.media_jobs import REMOVED_AT_ONCE
from omnigate.jobs.job import Job, Output
from omnigate.jobs.store import SWEEP_BATCH
from tests.control.conversation import INTERNAL
from tests.control.job_cases import MEDIA_CONFIG, PNG, JobCases
from tests.control.plane import APP_SHA, Plane
from tests.outbound.network import Network, Peer

API = "api.replicate.com"
FILES = "replicate.delivery"
NAMES = {API: ["93.184.216.34"], FILES: ["93.184.216.35"], "10.test": ["10.0.0.1"]}


class BrokenError(Exception):
    """What a store has no answer for."""


class MediaJobsTests(SynchronousTestCase):
    """One provider, asked over connections in memory."""

    def setUp(self) -> None:
        self.network = Network(NAMES)
        self.folder = self.mktemp()
        environ = {"REPLICATE_API_TOKEN": "token-1-of-the-provider"}
        self.plane = Plane(self.folder, MEDIA_CONFIG, environ=environ, network=self.network)
        self.answered: dict[Peer, int] = {}

    def turn(self) -> None:
        for _ in range(40):
            self.plane.clock.advance(0)

    def make(self) -> str:
        """Make a job as a data plane does, and return its id."""
        reply = self.plane.talk.ask(
            "POST",
            "/internal/v1/jobs",
            (
                *INTERNAL,
                (b"x-omnigate-key-sha256", APP_SHA.encode()),
            ),
            json.dumps({"model": "picture", "input": {"prompt": "a lighthouse"}}).encode(),
        )
        self.assertEqual(reply.status, 202, reply.body)
        self.turn()
        return str(reply.json()["id"])

    def job(self, job_id: str) -> Job:
        job = self.plane.generation.jobs.get(job_id)
        assert job is not None
        return job

    def asked(self) -> tuple[Peer, str] | None:
        """Return the request that nobody has answered: its head."""
        for peer in self.network.peers:
            head = peer.heard[self.answered.get(peer, 0) :].decode("latin-1")
            if head and peer.open:
                return peer, head
        return None

    def answer(self, body: dict[str, Any] | bytes, *headers: str) -> str:
        """Answer it, and return its first line."""
        self.turn()
        found = self.asked()
        assert found is not None
        peer, head = found
        self.answered[peer] = len(peer.heard)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        peer.answers(200, content, *headers)
        self.turn()
        return head.partition("\r\n")[0]

    def crash(self) -> None:
        """Let the ledger crash, and with it all stores; they are up again after this."""
        self.plane.ledger._crashed(Failure(BrokenError()))
        self.assertEqual(len(self.flushLoggedErrors(BrokenError)), 1)
        self.turn()
        generation = self.plane.guard.current
        assert generation is not None
        self.plane.take(generation)
        self.turn()

    def finish(self) -> None:
        """Let the provider be done at the next poll, and its file be fetched."""
        self.plane.clock.advance(2)
        output = f"https://{FILES}/out.png"
        self.assertIn("GET", self.answer({"id": "p1", "status": "succeeded", "output": output}))
        self.assertIn("GET /out.png", self.answer(PNG, "content-type: image/png"))

    def test_a_crash_of_the_stores_goes_on_with_the_poll(self) -> None:
        """Of the generation before nothing is written; the file, cost and budget are there."""
        job_id = self.make()
        self.assertIn("POST", self.answer({"id": "p1", "status": "starting"}))
        before = self.plane.generation.media.runner
        self.crash()
        self.assertIsNot(self.plane.generation.media.runner, before)
        self.assertEqual((before.running, self.plane.generation.media.runner.running), (0, 1))
        self.finish()
        job = self.job(job_id)
        self.assertEqual((job.status, job.cost_owed), ("succeeded", False))
        with open(os.path.join(self.folder, "media", job.outputs[0].name), "rb") as file:
            self.assertEqual(file.read(), PNG)
        self.assertEqual(self.plane.ledger.spend_nano([APP_SHA], "total", 0), 4_000_000)
        submits = [peer for peer in self.network.peers if peer.heard.startswith(b"POST")]
        self.assertEqual(len(submits), 1)

    def test_a_crash_during_the_submit_breaks_it_off_and_submits_again(self) -> None:
        """Nobody knows whether the provider has taken it in: the one window there is."""
        job_id = self.make()
        (first,) = self.network.peers
        self.crash()
        self.assertFalse(first.open)
        self.assertIn("POST", self.answer({"id": "p1", "status": "starting"}))
        self.finish()
        self.assertEqual(len(self.job(job_id).attempts), 1)

    def test_a_crash_between_the_end_and_the_ledger(self) -> None:
        """The cost gets there with the next generation."""
        job_id = self.make()
        self.answer({"id": "p1", "status": "starting"})

        def broken(*arguments: Any) -> Any:
            raise BrokenError

        stays = self.patch(type(self.plane.ledger), "record_priced", broken)
        self.finish()
        self.assertTrue(self.job(job_id).cost_owed)
        stays.restore()
        self.assertEqual(len(self.flushLoggedErrors(BrokenError)), 1)
        self.crash()
        self.assertFalse(self.job(job_id).cost_owed)
        self.assertEqual(self.plane.ledger.spend_nano([APP_SHA], "total", 0), 4_000_000)

    def test_a_new_credential_and_network_count_at_once(self) -> None:
        """Without a restart of anything."""
        self.make()
        self.answer({"id": "p1", "status": "starting"})
        self.plane.environ["REPLICATE_API_TOKEN"] = "token-2-of-the-provider"
        self.reload(MEDIA_CONFIG + '\n[outbound]\nallow = ["10.0.0.0/8"]\n')
        self.plane.clock.advance(2)
        self.turn()
        found = self.asked()
        assert found is not None
        self.assertIn("Bearer token-2-of-the-provider", found[1])
        output = "https://10.test/out.png"
        self.answer({"id": "p1", "status": "succeeded", "output": output})
        self.assertIn("GET /out.png", self.answer(PNG))

    def reload(self, text: str) -> None:
        self.plane.write_config(text)
        self.successResultOf(self.plane.config_file.reload(Cause("file")))

    def test_old_jobs_and_their_files_are_removed(self) -> None:
        """After retention.jobs_days."""
        job_id = self.make()
        self.answer({"id": "p1", "status": "starting"})
        self.finish()
        path = os.path.join(self.folder, "media", self.job(job_id).outputs[0].name)
        self.plane.clock.advance(29 * 86_400)
        self.turn()
        self.assertTrue(os.path.exists(path))
        self.plane.clock.advance(2 * 86_400)
        self.turn()
        self.assertIsNone(self.plane.generation.jobs.get(job_id))
        self.assertFalse(os.path.exists(path))

    def test_a_clock_that_is_ahead_for_a_while_removes_nothing(self) -> None:
        """Also where it is so at a start; one that stays ahead is believed after an hour."""
        job_id = self.make()
        self.answer({"id": "p1", "status": "starting"})
        self.finish()
        path = os.path.join(self.folder, "media", self.job(job_id).outputs[0].name)
        self.plane.ahead_seconds = 40 * 86_400.0
        self.plane.clock.advance(120)
        self.turn()
        self.crash()
        self.plane.clock.advance(120)
        self.turn()
        self.assertTrue(os.path.exists(path))
        self.plane.clock.advance(3_600)
        self.turn()
        self.assertFalse(os.path.exists(path))

    def test_a_file_stays_while_a_job_shares_it(self) -> None:
        """Whoever made it."""
        cached = MEDIA_CONFIG.replace('model = "picture"', 'model = "picture"\ncache_ttl_s = 86400')
        self.reload(cached)
        first = self.make()
        self.answer({"id": "p1", "status": "starting"})
        self.finish()
        self.plane.clock.advance(3_600)
        second = JobCases(self.plane).make().id
        self.plane.generation.media.runner.run(self.job(second))
        self.turn()
        self.assertEqual(self.job(second).cached_from, first)
        path = os.path.join(self.folder, "media", self.job(first).outputs[0].name)
        self.plane.clock.advance(30 * 86_400 - 1_800)
        self.turn()
        self.assertIsNone(self.plane.generation.jobs.get(first))
        self.assertTrue(os.path.exists(path))
        self.plane.clock.advance(3_600)
        self.turn()
        self.assertIsNone(self.plane.generation.jobs.get(second))
        self.assertFalse(os.path.exists(path))

    def test_no_more_old_jobs_are_removed_than_their_files(self) -> None:
        """What an end of the process leaves in a bucket is few jobs', and nothing goes on then."""
        cases, media = JobCases(self.plane), self.plane.generation.media
        for n in range(SWEEP_BATCH + 1):
            job = cases.succeeded(input={"prompt": str(n)})
            cases.change(job, cost_owed=False)
        removing: list[Deferred[None]] = []

        async def remove(outputs: Sequence[Output]) -> None:
            waiting: Deferred[None] = Deferred()
            removing.append(waiting)
            await waiting

        self.patch(media.outputs, "remove", remove)
        self.plane.clock.advance(31 * 86_400)
        self.turn()
        self.assertEqual((len(self.plane.generation.jobs), len(removing)), (1, REMOVED_AT_ONCE))
        self.plane.clock.advance(60)
        self.turn()
        self.assertEqual(len(removing), REMOVED_AT_ONCE)
        removing[0].callback(None)
        self.assertEqual(len(removing), REMOVED_AT_ONCE + 1)
        media.abandon()
        self.turn()
        self.assertTrue(all(each.called for each in removing))
        self.assertEqual(len(removing), REMOVED_AT_ONCE + 1)

    def test_only_what_may_still_be_shared_is_looked_for(self) -> None:
        """A day longer than the route's time, which counts from the end of a job."""
        self.reload(
            MEDIA_CONFIG.replace('model = "picture"', 'model = "picture"\ncache_ttl_s = 60')
        )
        job_id = self.make()
        self.answer({"id": "p1", "status": "starting"})
        self.finish()
        views = self.plane.generation.media.views
        self.plane.clock.advance(86_400)
        self.assertEqual([job.id for job in views.succeeded()], [job_id])
        self.plane.clock.advance(61)
        self.assertEqual(list(views.succeeded()), [])
