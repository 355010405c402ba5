"""The bodies of webhooks."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.job import CANCELED, FAILED, SUCCEEDED, Attempt, Job, JobError
from omnigate.jobs.webhooks.payload import MAX_BODY_BYTES, is_shorter, payload
from tests.jobs.test_job_json import JOB, shown

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def sent(job: Job) -> dict[str, Any]:
    """The body as a receiver reads it."""
    return json.loads(payload(job))  # type: ignore[no-any-return]


class PayloadTests(SynchronousTestCase):
    def test_the_whole(self) -> None:
        """Type, the instant of the end, and the job as its client sees it."""
        self.assertEqual(
            {
                "type": "job.succeeded",
                "timestamp": "2026-11-01T10:00:09.000Z",
                "data": shown(JOB),
            },
            sent(JOB),
        )

    def test_types(self) -> None:
        """There is one for each end."""
        for status in (SUCCEEDED, FAILED, CANCELED):
            job = msgspec.structs.replace(JOB, status=status)
            self.assertEqual(f"job.{status}", sent(job)["type"])

    def test_long_metadata(self) -> None:
        """Metadata that would make it too long is left out; what is short enough is not."""
        for text, is_there in (("x" * 15_000, True), ("x" * 19_999, False), ("ü" * 15_000, False)):
            job = msgspec.structs.replace(JOB, metadata={"note": text})
            data = sent(job)["data"]
            self.assertEqual(is_there, "metadata" in data)
            self.assertEqual(JOB.outputs[0].sha256, data["outputs"][0]["sha256"])
            self.assertTrue(len(payload(job)) < MAX_BODY_BYTES)

    def test_many_attempts(self) -> None:
        """What is longest is left out first, and outputs never are."""
        attempt = Attempt(
            target=0,
            adapter="fal",
            base_url="",
            model="m",
            started_ms=1,
            outcome="failed",
            error=JobError("provider_failed", "x" * 500),
        )
        many = msgspec.structs.replace(JOB, attempts=(attempt,) * 64)
        data = sent(many)["data"]
        self.assertNotIn("attempts", data)
        self.assertEqual(JOB.metadata, data["metadata"])
        data = sent(msgspec.structs.replace(many, metadata={"note": "x" * 19_700}))["data"]
        self.assertEqual((False, False), ("attempts" in data, "metadata" in data))
        data = sent(msgspec.structs.replace(JOB, outputs=JOB.outputs * 128))["data"]
        self.assertEqual(256, len(data["outputs"]))

    @given(VALUES, st.integers(1, 200))
    def test_no_is_certain(self, value: Any, room: int) -> None:
        """What is said to be too long is, and what is said to fit is not many times longer."""
        length = len(msgspec.json.encode(value))
        if is_shorter(value, room):
            # An escaped control character takes six bytes, a member five signs, an integer 40.
            self.assertTrue(length <= 45 * room)
        else:
            self.assertTrue(length >= room)
