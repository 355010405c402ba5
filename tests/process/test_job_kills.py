"""``kill -9`` of the control plane at every step of a media job's way.

Each job goes to a step of its own and stays there (:mod:`tests.process.parking`), or is held there
by its provider; then the process is killed, and the next life has to bring all of them to the right
end: submitted once, stored whole, in the ledger once, told no more often than is allowed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.process.daemons import Answer, files_below, verify_ledger, wait_for
from tests.process.media import PER_JOB, MediaGateway, route, sha256
from tests.process.parking import CREATED, FOLDER, PROGRAM, UNANSWERED

#: How often a webhook may be sent here.
MAX_ATTEMPTS: Final = 2

ADAPTERS: Final = ("replicate", "openai_images", "sume")


@attrs.frozen
class Case:
    """A job, where it is when the process is killed, and what may come of that.

    :ivar place: where it stays; empty where its provider or receiver holds it.
    :ivar modes: what its provider does in the first life, and no more in the second one.
    :ivar submits: how often it may have been submitted in the end.
    :ivar hook: how its receiver is in the first life.
    :ivar sent: how many webhooks may have come in the end.
    """

    name: str
    place: str = ""
    adapter: str = "replicate"
    modes: str = ""
    submits: Sequence[int] = (1,)
    hook: str = ""
    sent: Sequence[int] = (1,)
    canceled: bool = False


#: The window that no gateway closes: the provider may have accepted what nobody has written down.
#: Where it knows repeats by a key (Sume) there is no window.
DOUBTFUL: Final = (1, 2)

CASES: Final = (
    Case("before its client is answered", UNANSWERED),
    Case("created", CREATED),
    Case("before its target is written", "before target"),
    Case("before its submit", "after target"),
    Case("while it is submitted", modes="slow-head=600000", submits=DOUBTFUL),
    Case("in one call", adapter="openai_images", modes="slow-head=600000", submits=DOUBTFUL),
    Case("while Sume takes it", adapter="sume", modes="slow-head=600000"),
    Case("before its id is written", "before accepted", submits=DOUBTFUL),
    Case("before Sume's id is written", "before accepted", adapter="sume"),
    Case("after the accept", "after accepted"),
    Case("between polls", modes="steps=1000000"),
    Case("while it is downloaded", modes="bytes=90000~file-slow=600000"),
    Case("with a second file under way", modes="outputs=2~bytes=90000~file-slow=600000"),
    Case("before its end is written", "before final"),
    Case("one call before its end", "before final", adapter="openai_images", submits=DOUBTFUL),
    Case("before ledger and webhook", "after final"),
    Case("before its attempt is written", "before attempt"),
    # An attempt that is on the disk has been used up, whether a request went out or not.
    Case("before its webhook is sent", "after attempt"),
    Case("while its webhook is sent", hook="hang", sent=(2,)),
    Case("before its delivery is written", "before delivered", sent=(2,)),
    Case("after its delivery", "after delivered"),
    Case("before the ledger is known to know", "before cost"),
    Case("after everything", "after cost"),
    Case("with the wish to cancel", "after cancel", modes="steps=1000000", canceled=True),
)

#: The receiver that never answers, in any life.
SILENT: Final = Case("to a receiver that is silent", hook="hang", sent=(MAX_ATTEMPTS,))


class ParkingGateway(MediaGateway):
    """A gateway whose control plane has places where jobs stay."""

    is_parking = True

    def command(self, plane: str) -> Sequence[str]:
        """The command that runs a plane."""
        command = list(super().command(plane))
        if plane == "control" and self.is_parking:
            command[2] = PROGRAM
        return command

    def environ(self, plane: str, settings: Any = None) -> dict[str, str]:
        """The variables of a plane."""
        return super().environ(plane, settings) | {FOLDER: str(self.folder / "parked")}


class JobKillTests(SynchronousTestCase):
    """One gateway, many jobs, few kills."""

    def setUp(self) -> None:
        self.gateway = ParkingGateway(
            {adapter: route(adapter, timeout_s=3600) for adapter in ADAPTERS},
            # Those that stay in a delivery hold up nobody.
            hooks=f"max_attempts = {MAX_ATTEMPTS}\nmax_concurrent_per_key = {len(CASES)}\n"
            f"max_concurrent = {len(CASES)}",
        )
        self.addCleanup(self.stop)
        (self.gateway.folder / "parked").mkdir()
        self.gateway.start()
        self.ids: dict[Case, str] = {}
        self.later = ""

    def stop(self) -> None:
        """End everything; what stays on its way ends at a kill alone."""
        if self.gateway.is_parking and self.gateway.control is not None:
            self.gateway.control.kill()
        self.gateway.stop()

    def hook(self, case: Case) -> str:
        """The name of a job's receiver."""
        return case.name.replace(" ", "-").replace("'", "")

    def begin(self, case: Case) -> None:
        """Make a job and wait until it is where it is to be killed."""
        gateway = self.gateway
        gateway.fake(f"/_/hook/{self.hook(case)}", {"mode": case.hook})
        if case.place == UNANSWERED:
            self.ask(case)
            return
        metadata = {"park": case.place} if case.place else {}
        self.ids[case] = gateway.made(
            case.adapter, case.modes, case.name, hook=self.hook(case), metadata=metadata
        )

    def ask(self, case: Case) -> None:
        """Ask for a job that is made, and whose client is not told in this life."""
        before, folder = set(self.ids.values()), self.gateway.folder / "parked"
        answers: list[int] = []

        def ask() -> None:
            answers.append(self.ask_once_more(case).status)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        self.unanswered = thread, answers
        (self.ids[case],) = wait_for(
            "the job", lambda: set(map(os.path.basename, folder.iterdir())) - before
        )

    def ask_once_more(self, case: Case) -> Answer:
        """Ask for the job with its idempotency key."""
        return self.gateway.ask_for(
            case.adapter,
            {"prompt": case.name},
            hook=self.hook(case),
            idempotency_key="once",
            metadata={"park": case.place},
        )

    def is_there(self, case: Case) -> bool:
        """Whether a job is where it is to be killed."""
        gateway = self.gateway
        if case.place:
            # The ledger and the webhook are told side by side.
            is_told = "cost" not in case.place or bool(gateway.told(self.ids[case]))
            return is_told and (gateway.folder / "parked" / self.ids[case]).exists()
        works = gateway.works(case.name)
        if "slow-head" in case.modes:
            return bool(works)
        if "steps" in case.modes:
            return bool(works) and works[0]["polls"] > 1
        if "file-slow" in case.modes:
            return any(self.ids[case] in path for path in gateway.incoming())
        return bool(gateway.deliveries(self.hook(case)))

    def test_every_step(self) -> None:
        """All of them, one kill."""
        gateway = self.gateway
        for case in (*CASES, SILENT):
            self.begin(case)
        for case in CASES:
            if case.canceled:
                self.wait_canceling(case)
        for case in (*CASES, SILENT):
            wait_for(f"{case.name} to be there", partial(self.is_there, case))
        assert gateway.control is not None
        gateway.control.kill()
        # The next life meets providers and receivers that have come to themselves.
        gateway.is_parking = False
        for case in CASES:
            if not case.canceled:
                modes = "outputs=2" if "=2" in case.modes else ""
                gateway.order(case.name, **{case.adapter: modes})
            gateway.fake(f"/_/hook/{self.hook(case)}", {})
        thread, answers = self.unanswered
        thread.join()
        self.assertEqual(answers, [502])
        gateway.start_control()
        again = self.ask_once_more(CASES[0])
        self.assertEqual((again.status, again.json["id"]), (200, self.ids[CASES[0]]))
        for case in CASES:
            self.check(case)
        # One receiver is silent in this life too, and then is not asked a third time.
        wait_for("a second attempt", lambda: len(gateway.deliveries(self.hook(SILENT))) == 2)
        gateway.restart_control()
        self.later = gateway.made("replicate", hook="later")
        gateway.told(self.later)
        self.assertEqual(gateway.job(self.ids[SILENT])["webhook"]["attempts"], MAX_ATTEMPTS)
        self.assertEqual(len(gateway.deliveries(self.hook(SILENT))), MAX_ATTEMPTS)
        self.check_files()
        verify_ledger(gateway.control_state)

    def wait_canceling(self, case: Case) -> None:
        """Cancel a job that stays on the way: no answer comes in this life."""
        gateway = self.gateway
        wait_for("its submit", lambda: gateway.works(case.name))

        def cancel() -> None:
            gateway.send("POST", f"/v1/jobs/{self.ids[case]}/cancel")

        thread = threading.Thread(target=cancel, daemon=True)
        thread.start()
        self.addCleanup(thread.join)

    def check(self, case: Case) -> None:
        """Hold a job to its right end."""
        gateway, job_id = self.gateway, self.ids[case]
        gateway.end(job_id)
        job = gateway.told(job_id)
        self.assertEqual(job["status"], "canceled" if case.canceled else "succeeded", case.name)
        self.assertIn(len(gateway.works(case.name)), case.submits, case.name)
        sent = gateway.deliveries(self.hook(case))
        self.assertIn(len(sent), case.sent, case.name)
        self.assertLessEqual(job["webhook"]["attempts"], MAX_ATTEMPTS)
        self.assertEqual(job["webhook"]["state"], "delivered", case.name)
        for body in gateway.verified(self.hook(case)):
            self.assertEqual(body["data"]["status"], job["status"])
        wait_for(f"the event of {case.name}", lambda: gateway.events_of(job_id))
        (event,) = gateway.events_of(job_id)
        self.assertEqual(str(event["cost_usd"]), "0" if case.canceled else PER_JOB, case.name)
        self.assertEqual(len(job["outputs"]), 0 if case.canceled else 1 + ("=2" in case.modes))
        for output in job["outputs"]:
            served = gateway.send("GET", output["signed_url"], key="")
            self.assertEqual(sha256(served.body), output["sha256"], case.name)

    def check_files(self) -> None:
        """Nothing lies in the storage but the outputs of jobs."""
        gateway = self.gateway
        wait_for("the incoming folder to be empty", lambda: not gateway.incoming())
        folder = gateway.control_state / "media"
        files = files_below(folder)
        lying = {path.relative_to(folder).parts[0] for path in files}
        owed = {job_id for case, job_id in self.ids.items() if not case.canceled}
        self.assertEqual(lying - owed, {self.later})
        self.assertEqual(owed - lying, set())
        self.assertEqual(len(files), len(lying) + sum("=2" in case.modes for case in self.ids))
