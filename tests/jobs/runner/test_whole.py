"""Every golden case, from the request for a job to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate import files
from omnigate.jobs.job import Job
from omnigate.money import parse_usd
from omnigate.testing.memory_disk import MemoryDisk
from tests.jobs.cases import Case, every_case
from tests.jobs.runner.whole import FOLDER, WholePlayer


class WholeTests(SynchronousTestCase):
    """One test for each case, made below."""

    def play(self, case: Case) -> None:
        """Play a case and judge what came of it."""
        disk = MemoryDisk(FOLDER)
        self.patch(files, "os", disk)
        self.patch(files, "fcntl", disk)
        player = WholePlayer(case)
        job = player.play()
        expect = case.expect
        self.assertEqual(job.status, expect["state"], job.error)
        self.assertEqual([_output(output) for output in job.outputs], expect["outputs"])
        self.assertEqual(_billable(job), expect["billable"])
        self.assertEqual(job.cost_nano, parse_usd(expect["cost_usd"]))
        self.assertEqual(job.provider_job_id or None, expect["provider_job_id"])
        attempts = [{"target": one.target, "outcome": one.outcome} for one in job.attempts]
        self.assertEqual(attempts, expect["attempts"])
        error = job.error and {"code": job.error.code, "message": job.error.message}
        self.assertEqual(error, expect["error"])
        if "provider_seconds" in expect:
            self.assertEqual(job.provider_ms, expect["provider_seconds"] * 1000)
        told = [(each.event.id, each.cost_nano) for each in player.books.events]
        self.assertEqual((told, job.cost_owed), ([(job.id, job.cost_nano)], False))
        stored = {path for path in disk.contents() if path.startswith(f"{FOLDER}/media/")}
        names = {f"{FOLDER}/media/{output.name}" for output in job.outputs}
        self.assertEqual(stored, names)


def _output(output: Any) -> dict[str, Any]:
    return {
        "content_type": output.content_type,
        "bytes": output.size,
        "sha256": output.sha256,
        "source": output.source,
    }


def _billable(job: Job) -> dict[str, Any] | None:
    billable = job.billable
    if billable is None:
        return None
    return {
        "characters": billable.characters,
        "seconds": billable.milliseconds / 1000,
        "outputs": billable.outputs,
    }


def _test(case: Case) -> Callable[[WholeTests], None]:
    def test(self: WholeTests) -> None:
        self.play(case)

    return test


for _case in every_case():
    setattr(WholeTests, f"test_{_case.id}".replace("-", "_"), _test(_case))
