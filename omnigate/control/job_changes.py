"""What an operator may do about a media job: cancel it, or have its webhook sent once more."""

from __future__ import annotations

from typing import Final

from omnigate.control.audited import Recorder, audited
from omnigate.control.media_jobs import MediaJobs
from omnigate.control.routes import Call
from omnigate.errors import GatewayError
from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Job

#: Actions of the audit log; the target is the job's id.
CANCEL: Final = "job.cancel"
RETRY: Final = "job.webhook"


class JobChanges:
    """Does it, and has it in the audit log before."""

    def __init__(self, media: MediaJobs, audit: Recorder) -> None:
        self._media = media
        self._audit = audit

    def find(self, job_id: str) -> Job:
        """Return a job.

        :raises GatewayError: ``not_found``.
        """
        job = self._media.store.get(job_id)
        if job is None:
            raise GatewayError(
                "not_found",
                "there is no job of this id; jobs are kept for retention.jobs_days after their end",
            )
        return job

    async def cancel(self, call: Call, job_id: str) -> Job:
        """Cancel a job; of one that has ended nothing changes, and nothing is written down.

        :return: the job as it is then.
        :raises GatewayError: ``not_found``, ``storage_unavailable``.
        """
        job = self.find(job_id)
        if job.is_final:
            return job
        async with audited(self._audit, call, CANCEL) as tell:
            await tell(job.id, {"model": job.model, "status": job.status})
            return await self._media.runner.cancel(job.id) or job

    async def retry_webhook(self, call: Call, job_id: str) -> Job:
        """Have the webhook of a job sent once more now, also after it was given up.

        :return: the job; what comes of it is seen from its webhook later.
        :raises GatewayError: ``not_found``, ``conflict``: there is none to send, ``not_ready``,
            ``overloaded``, ``storage_unavailable``.
        """
        job = self.find(job_id)
        hook = job.webhook
        if hook is None or hook.state not in (PENDING, GIVEN_UP):
            if hook is None:
                why = "it has none"
            else:
                why = "it was delivered" if hook.state == DELIVERED else "the job has not ended"
            raise GatewayError("conflict", f"the webhook of this job is not sent again: {why}")
        async with audited(self._audit, call, RETRY) as tell:
            await tell(job.id, {"state": hook.state, "attempts": hook.attempts})
            return self._media.webhooks.retry(job.id)
