"""Media jobs through both planes as processes, against the fakes of all eight providers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import ADAPTERS
from tests.process.daemons import (
    Answer,
    files_below,
    free_ports,
    route_table,
    shared,
    upstream_table,
    verify_ledger,
    wait_for,
)
from tests.process.media import (
    MODELS,
    PER_JOB,
    MediaGateway,
    route,
    sha256,
)

#: Outputs that fail, by what the fake does, and the code that the job has then.
BAD_OUTPUTS: Final = {
    "private-url": "output_refused",
    "redirect-private": "output_refused",
    "redirect-file": "output_refused",
    "redirect-loop": "output_refused",
    "userinfo-url": "output_refused",
    "file-gzip": "output_unavailable",
    "bytes=300000": "output_too_large",
    "bytes=300000~no-length": "output_too_large",
    "bytes=50000~file-endless": "output_too_large",
    "file-404": "output_unavailable",
    "file-cut": "output_unavailable",
    "outputs=17": "output_too_large",
    "empty": "provider_bad_answer",
}

#: What a cancel comes to while work goes on: by adapter and mode.
CANCELS: Final = {
    ("replicate", "never~cancel-ok"): "canceled",
    ("replicate", "steps=12~cancel-late"): "succeeded",
    ("replicate", "steps=12~cancel-404"): "succeeded",
    ("replicate", "steps=12~cancel-500"): "succeeded",
    ("replicate", "steps=12~cancel-ignored"): "succeeded",
    ("fal", "never~cancel-ok"): "canceled",
    ("fal", "steps=12~cancel-late"): "succeeded",
    ("gemini_interactions", "never~cancel-ok"): "canceled",
    ("sume", "never~cancel-ok"): "canceled",
    ("xai_video", "never"): "canceled",
}

#: Where the provider works on after a cancel, and is paid.
PAID: Final = (("xai_video", "never"),)

#: What goes wrong with a first target, and what its attempt is told as.
FAILURES: Final = {
    "429": "rate_limited",
    "quota": "failed",
    "500": "failed",
    "401": "failed",
    "422": "failed",
    "reset-submit": "failed",
    "fail": "failed",
    "moderated": "failed",
    "expired": "failed",
    "poll-500=5": "failed",
    "poll-junk=5": "failed",
    "huge-answer": "failed",
    "file-404": "failed",
}

#: What is nobody's fault for long.
GOOD: Final = (
    "poll-500=2~poll-junk=1~poll-reset=1",
    "unknown-status",
    "redirect=3",
    "no-length",
    "no-type",
    "outputs=3",
    "sync",
    "foreign-urls",
    "data-url",
)


def build() -> MediaGateway:
    """A gateway with all of them, and keys with limits."""
    keys: dict[str, dict[str, object]] = {
        "app": {},
        "other": {},
        "open": {"max_open_jobs": 2},
        "daily": {"max_jobs_per_day": 3},
        "slow": {"rpm": 3},
        "poor": {"budget_usd": 0.02},
        "narrow": {"models": ["fal"]},
        "pages": {},
    }
    routes = {adapter: route(adapter) for adapter in ADAPTERS}
    routes["next"] = route("replicate", "fal")
    routes["too-long"] = route("replicate", "fal", timeout_s=1)
    routes["cached"] = route("replicate", cache_ttl_s=600)
    gateway = MediaGateway(routes, keys, "max_output_bytes = 200000")
    gateway.start()
    return gateway


class JobCase(SynchronousTestCase):
    """One gateway for all tests."""

    def setUp(self) -> None:
        self.gateway = shared("jobs", build)

    def refused(self, answer: Answer, status: int, code: str) -> None:
        """Check a refusal."""
        self.assertEqual((answer.status, answer.code), (status, code), answer.body)

    def wait_begun(self, adapter: str, prompt: str) -> None:
        """Wait until a provider has begun to work."""
        wait_for(f"the submit of {adapter}", lambda: self.gateway.works(prompt))

    def check_bill(self, job_id: str, cost: str) -> dict[str, Any]:
        """Check that the ledger has a job once, at its price; returns the event."""
        wait_for(f"the event of {job_id}", lambda: self.gateway.events_of(job_id))
        (event,) = self.gateway.events_of(job_id)
        self.assertEqual(event["cost_usd"], Decimal(cost))
        return event


class AdapterTests(JobCase):
    """Each of the eight, from the request to the webhook."""

    def check(self, adapter: str) -> None:
        """Play one whole."""
        gateway = self.gateway
        given = dict(MODELS[adapter][1])
        text = f"a lake of {adapter}"
        given["text" if "text" in given else "prompt"] = text
        job_id = gateway.make(adapter, given, hook=adapter, metadata={"order": 7})
        self.assertEqual(gateway.end(job_id)["status"], "succeeded")
        job = gateway.told(job_id)
        self.assertEqual(job["input"], given)
        self.assertEqual(job["metadata"], {"order": 7})
        (output,) = job["outputs"]
        self.assertEqual(output["content_type"], MODELS[adapter][2])
        # The files.
        whole = gateway.send("GET", output["url"])
        self.assertEqual((whole.status, whole.whole), (200, True))
        self.assertEqual(sha256(whole.body), output["sha256"])
        self.assertEqual(len(whole.body), output["bytes"])
        self.assertEqual(whole.headers["content-type"], MODELS[adapter][2])
        self.assertIn("attachment", whole.headers["content-disposition"])
        signed = gateway.send("GET", output["signed_url"], key="")
        self.assertEqual((signed.status, signed.body), (200, whole.body))
        part = gateway.send("GET", output["url"], range="bytes=3-9")
        self.assertEqual((part.status, part.body), (206, whole.body[3:10]))
        self.refused(gateway.send("GET", output["url"], key="other"), 404, "not_found")
        self.refused(gateway.send("GET", f"/v1/jobs/{job_id}", key="other"), 404, "not_found")
        url = output["signed_url"]
        bent = url[:-1] + ("A" if url[-1] != "A" else "B")
        self.refused(gateway.send("GET", bent, key=""), 403, "invalid_signature")
        # What it cost, and whom it was told.
        event = self.check_bill(job_id, PER_JOB)
        self.assertEqual((event["kind"], event["upstream"]), ("media", adapter))
        self.assertEqual(str(job["cost_usd"]), PER_JOB)
        rows = gateway.admin().call("GET", "/admin/requests")["requests"]
        self.assertEqual([row["key"] for row in rows if row["id"] == job_id], ["app"])
        (body,) = gateway.verified(adapter)
        self.assertEqual((body["type"], body["data"]["id"]), ("job.succeeded", job_id))
        self.assertEqual(body["data"]["outputs"][0]["sha256"], output["sha256"])
        (delivery,) = gateway.deliveries(adapter)
        self.assertEqual(delivery["id"], f"msg_{job_id}")
        self.assertEqual(len(gateway.works(text)), 1)


for _adapter in ADAPTERS:

    def _check(self: AdapterTests, adapter: str = _adapter) -> None:
        self.check(adapter)

    _check.__doc__ = f"{_adapter}: the job, its file, its price, its webhook."
    setattr(AdapterTests, f"test_{_adapter}", _check)


class RequestTests(JobCase):
    """What clients ask for."""

    def test_idempotent(self) -> None:
        """The same request once more is the same job; another with that key is refused."""
        gateway = self.gateway
        given = {"prompt": "once"}
        first = gateway.ask_for("replicate", given, idempotency_key="k-1")
        again = gateway.ask_for("replicate", given, idempotency_key="k-1")
        self.assertEqual((first.status, again.status), (202, 200))
        self.assertEqual(first.json["id"], again.json["id"])
        other = gateway.ask_for("replicate", {"prompt": "twice"}, idempotency_key="k-1")
        self.refused(other, 400, "invalid_request")
        foreign = gateway.ask_for("replicate", given, idempotency_key="k-1", key="other")
        self.assertEqual(foreign.status, 202)
        gateway.end(first.json["id"])
        gateway.end(foreign.json["id"], "other")
        self.assertEqual(len(gateway.works("once")), 2)

    def test_limits(self) -> None:
        """Open jobs, jobs of a day, rate, budget, models: each refused with its own code."""
        gateway = self.gateway
        held = [gateway.made("replicate", "never", key="open") for _ in range(2)]
        self.refused(gateway.ask_for("fal", key="open"), 429, "too_many_open_jobs")
        gateway.send("POST", f"/v1/jobs/{held[0]}/cancel", key="open")
        gateway.end(held[0], "open")
        gateway.end(gateway.make("fal", key="open"), "open")
        gateway.send("POST", f"/v1/jobs/{held[1]}/cancel", key="open")
        gateway.end(held[1], "open")

        made = [gateway.make("fal", key="daily") for _ in range(3)]
        self.refused(gateway.ask_for("fal", key="daily"), 429, "too_many_jobs_today")

        fast = [gateway.ask_for("fal", key="slow") for _ in range(4)]
        self.assertEqual([answer.status for answer in fast], [202, 202, 202, 429])
        self.assertEqual(fast[3].code, "rate_limit_exceeded")
        self.assertLessEqual(int(fast[3].headers["retry-after"]), 60)

        for _ in range(2):
            gateway.end(gateway.make("fal", key="poor"), "poor")
        wait_for("the budget to be spent", lambda: gateway.ask_for("fal", key="poor").status == 402)
        self.refused(gateway.ask_for("fal", key="poor"), 402, "budget_exceeded")
        self.refused(gateway.ask_for("replicate", key="narrow"), 403, "model_not_allowed")
        for job_id in made:
            gateway.end(job_id, "daily")

    def test_refusals(self) -> None:
        """What is no job is refused, and begins nothing."""
        gateway = self.gateway
        before = gateway.fake("/_/jobs")["submits"]
        self.refused(gateway.ask_for("nobody"), 404, "model_not_found")
        self.refused(gateway.send("POST", "/v1/jobs", {"model": "fal"}), 400, "invalid_request")
        self.refused(
            gateway.send("POST", "/v1/jobs", {"model": "fal", "input": {}}, key=""),
            401,
            "invalid_api_key",
        )
        for url in ("http://169.254.169.254/", "ftp://example.com/", "http://u:p@127.0.0.1/"):
            answer = gateway.ask_for("fal", webhook_url=url)
            self.refused(answer, 400, "invalid_request")
        self.refused(gateway.send("GET", "/v1/jobs/job_0"), 404, "not_found")
        self.refused(gateway.send("POST", "/v1/jobs/job_0/cancel"), 404, "not_found")
        self.assertEqual(gateway.fake("/_/jobs")["submits"], before)

    def test_pages(self) -> None:
        """A list is paged, newest first, and has the jobs of its key alone."""
        gateway = self.gateway
        made = [gateway.make("fal", key="pages") for _ in range(5)]
        for job_id in made:
            gateway.end(job_id, "pages")
        found: list[str] = []
        path = "/v1/jobs?limit=2"
        sizes = []
        while path:
            page = gateway.send("GET", path, key="pages").json
            ids = [job["id"] for job in page["data"]]
            found += ids
            sizes.append(len(ids))
            path = f"/v1/jobs?limit=2&after={ids[-1]}" if page["has_more"] else ""
        self.assertEqual((found, sizes), (made[::-1], [2, 2, 1]))
        failed = gateway.send("GET", "/v1/jobs?status=failed", key="pages").json
        self.assertEqual(failed["data"], [])
        self.refused(gateway.send("GET", "/v1/jobs?limit=0"), 400, "invalid_request")

    def test_cached(self) -> None:
        """A job that was done before shares its outputs, at no cost, and asks no provider."""
        gateway = self.gateway
        given = {"prompt": "seen before"}
        first = gateway.end(gateway.make("cached", given))
        again = gateway.end(gateway.make("cached", given))
        self.assertTrue(again["cached"])
        self.assertEqual(again["outputs"][0]["sha256"], first["outputs"][0]["sha256"])
        self.assertEqual(gateway.send("GET", again["outputs"][0]["url"]).status, 200)
        self.check_bill(again["id"], "0")
        self.assertEqual(len(gateway.works("seen before")), 1)

    def test_large_input(self) -> None:
        """An input of megabytes goes through, and comes back as it was."""
        gateway = self.gateway
        given = {"prompt": "large", "image": "data:image/png;base64," + "A" * 3_000_000}
        job = gateway.end(gateway.make("replicate", given))
        self.assertEqual(job["status"], "succeeded")
        self.assertEqual(job["input"], given)


class EndTests(JobCase):
    """How jobs end."""

    def test_good(self) -> None:
        """What is odd and no failure."""
        gateway = self.gateway
        made = {modes: gateway.made("replicate", modes) for modes in GOOD}
        ends = {modes: gateway.end(job_id) for modes, job_id in made.items()}
        self.assertEqual({modes: job["error"] for modes, job in ends.items()}, dict.fromkeys(GOOD))
        self.assertEqual(len(ends["outputs=3"]["outputs"]), 3)
        for job in ends.values():
            self.assertEqual(job["outputs"][-1]["content_type"], "image/png")

    def test_next_target(self) -> None:
        """After a failure the next target delivers, and the job costs what that one does."""
        gateway = self.gateway
        made = {}
        for modes in FAILURES:
            gateway.order(f"first {modes}", replicate=modes)
            made[modes] = gateway.make("next", {"prompt": f"first {modes}"})
        for modes, job_id in made.items():
            job = gateway.end(job_id)
            outcomes = [attempt["outcome"] for attempt in job["attempts"]]
            self.assertEqual(outcomes, [FAILURES[modes], "succeeded"], modes)
            self.assertEqual(job["outputs"][0]["content_type"], "image/jpeg")
            event = self.check_bill(job_id, PER_JOB)
            self.assertEqual(event["upstream"], "fal")

    def test_out_of_time(self) -> None:
        """A target that takes too long is told to stop, and the next one delivers."""
        gateway = self.gateway
        gateway.order("slowly", replicate="never")
        job = gateway.end(gateway.make("too-long", {"prompt": "slowly"}))
        self.assertEqual(job["attempts"][0]["error"]["code"], "provider_timeout")
        self.assertEqual(job["status"], "succeeded")
        canceled = {work["adapter"]: work["canceled"] for work in gateway.works("slowly")}
        self.assertEqual(canceled, {"replicate": True, "fal": False})

    def test_bad_outputs(self) -> None:
        """Outputs that must not, or cannot, be taken fail the job and leave nothing behind."""
        gateway = self.gateway
        made = {
            modes: gateway.made("replicate", modes, hook=f"bad-{index}")
            for index, modes in enumerate(BAD_OUTPUTS)
        }
        codes = {}
        for modes, job_id in made.items():
            job = gateway.end(job_id)
            codes[modes] = (job["error"] or {}).get("code")
            self.assertEqual((job["status"], job["outputs"]), ("failed", []), modes)
            self.check_bill(job_id, "0")
        self.assertEqual(codes, BAD_OUTPUTS)
        for index, job_id in enumerate(made.values()):
            gateway.told(job_id)
            (body,) = gateway.verified(f"bad-{index}")
            self.assertEqual(body["type"], "job.failed")
            self.assertFalse((gateway.control_state / "media" / job_id).exists())
        wait_for("the incoming folder to be empty", lambda: not gateway.incoming())

    def test_html(self) -> None:
        """What a browser would run is never served as what it is."""
        job = self.gateway.end(self.gateway.made("replicate", "type=text+html"))
        (output,) = job["outputs"]
        self.assertNotIn("html", output["content_type"])
        served = self.gateway.send("GET", output["signed_url"], key="")
        self.assertEqual(served.headers["content-type"], output["content_type"])
        self.assertEqual(served.headers["x-content-type-options"], "nosniff")
        self.assertIn("sandbox", served.headers["content-security-policy"])

    def test_cancel(self) -> None:
        """A cancel stops the work, or comes too late, or is paid all the same."""
        gateway = self.gateway
        made = {}
        for index, (adapter, modes) in enumerate(CANCELS):
            prompt = f"canceled {index}"
            made[adapter, modes] = gateway.made(adapter, modes, prompt), prompt
        for (adapter, _), (job_id, prompt) in made.items():
            self.wait_begun(adapter, prompt)
            answer = gateway.send("POST", f"/v1/jobs/{job_id}/cancel", {})
            self.assertEqual(answer.status, 200, answer.body)
            self.assertTrue(answer.json["cancel_requested"])
        for (adapter, modes), (job_id, _) in made.items():
            job = gateway.end(job_id)
            self.assertEqual(job["status"], CANCELS[adapter, modes], f"{adapter} {modes}")
            paid = job["status"] == "succeeded" or (adapter, modes) in PAID
            self.check_bill(job_id, PER_JOB if paid else "0")
            again = gateway.send("POST", f"/v1/jobs/{job_id}/cancel")
            self.assertEqual((again.status, again.json["status"]), (200, job["status"]))

    def test_cancel_of_one_call(self) -> None:
        """One call cannot be stopped: nothing of it is stored, and it is paid."""
        gateway = self.gateway
        job_id = gateway.made("openai_images", "slow-head=700", "one call")
        self.wait_begun("openai_images", "one call")
        gateway.send("POST", f"/v1/jobs/{job_id}/cancel")
        job = gateway.end(job_id)
        self.assertEqual((job["status"], job["outputs"]), ("canceled", []))
        self.check_bill(job_id, PER_JOB)


class LaterTests(JobCase):
    """Runs last: the sums."""

    def test_ledger(self) -> None:
        """The ledger's files agree with each other."""
        verify_ledger(self.gateway.control_state)


#: The control plane three days later, which looks after its jobs all the time, and believes the
#: clock without the hour that it takes for one that is so far ahead.
LATER: Final = (
    "import sys, time; now = time.time; time.time = lambda: now() + 3 * 86400; "
    "from omnigate.control import media_jobs; media_jobs.UPKEEP_SECONDS = 0.2; "
    "from omnigate.ledger import trusted_time; trusted_time.PATIENCE_SECONDS = 0; "
    "from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
)


class AgingGateway(MediaGateway):
    """A gateway whose control plane may be started days later."""

    is_later = False

    def command(self, plane: str) -> Sequence[str]:
        """The command that runs a plane."""
        command = list(super().command(plane))
        if plane == "control" and self.is_later:
            command[2] = LATER
        return command


class OutageTests(SynchronousTestCase):
    """The control plane goes, and comes again."""

    def test_down(self) -> None:
        """Jobs are refused with 502 while it is down, and text traffic goes on."""
        (port,) = free_ports(1)
        more = upstream_table("openai", "openai", port, "TEXT_KEY")
        more += route_table("chat", ("openai", "fake-small"))
        gateway = MediaGateway({"picture": route("replicate")}, more=more)
        self.addCleanup(gateway.stop)
        command = [sys.executable, "-m", "omnigate.testing.provider", "--port", str(port)]
        gateway.run("text", [*command, "--key", "none"]).wait_ready(port, "/__stats")
        gateway.start()
        job = gateway.end(gateway.make("picture"))
        control = gateway.control
        assert control is not None
        control.kill()
        for method, path in (
            ("POST", "/v1/jobs"),
            ("GET", "/v1/jobs"),
            ("GET", f"/v1/jobs/{job['id']}"),
            ("GET", job["outputs"][0]["url"]),
            ("GET", job["outputs"][0]["signed_url"]),
        ):
            body = {"model": "picture", "input": {"prompt": "x"}} if method == "POST" else None
            answer = gateway.send(method, path, body)
            self.assertEqual((answer.status, answer.code), (502, "control_plane_unavailable"), path)
        self.assertEqual(gateway.ask("chat").status, 200)
        gateway.start_control()
        self.assertEqual(gateway.end(gateway.make("picture"))["status"], "succeeded")
        self.assertEqual(
            gateway.job(job["id"])["outputs"][0]["sha256"], job["outputs"][0]["sha256"]
        )

    def test_stop(self) -> None:
        """A stop waits for what would be paid twice, and what is polled goes on after the start."""
        gateway = MediaGateway({name: route(name) for name in ("replicate", "openai_images")})
        self.addCleanup(gateway.stop)
        gateway.start()
        polled = gateway.made("replicate", "steps=1000000", "polled", hook="polled")
        called = gateway.made("openai_images", "slow-head=1000", "called", hook="called")
        for prompt in ("polled", "called"):
            wait_for(f"the submit of {prompt}", partial(gateway.works, prompt))
        control = gateway.control
        assert control is not None
        control.terminate()
        self.assertEqual(control.wait(), 0)
        gateway.order("polled", replicate="")
        gateway.start_control()
        for prompt, job_id in (("polled", polled), ("called", called)):
            self.assertEqual(gateway.end(job_id)["status"], "succeeded", prompt)
            gateway.told(job_id)
            self.assertEqual(len(gateway.works(prompt)), 1, prompt)
            self.assertEqual(len(gateway.verified(prompt)), 1, prompt)
            self.assertEqual(len(gateway.events_of(job_id)), 1, prompt)

    def test_retention(self) -> None:
        """Jobs past keeping go with their files and inputs; younger ones and the ledger stay."""
        gateway = AgingGateway({"picture": route("replicate")}, more="[retention]\njobs_days = 2")
        self.addCleanup(gateway.stop)
        gateway.start()
        job = gateway.end(gateway.make("picture", {"prompt": "old", "more": "x" * 10_000}))
        self.check_files(gateway, job["id"], 2)
        control = gateway.control
        assert control is not None
        control.terminate()
        control.wait()
        gateway.is_later = True
        gateway.start_control()
        young = gateway.end(gateway.make("picture", {"prompt": "young", "more": "x" * 10_000}))
        wait_for("the sweep", lambda: gateway.send("GET", f"/v1/jobs/{job['id']}").status == 404)
        wait_for("its files to go", lambda: not self.files(gateway, job["id"]))
        self.check_files(gateway, young["id"], 2)
        self.assertEqual(gateway.send("GET", job["outputs"][0]["url"]).status, 404)
        self.assertEqual(len(gateway.events_of(job["id"])), 1)

    def files(self, gateway: MediaGateway, job_id: str) -> list[Path]:
        """All files of a job."""
        return [path for path in files_below(gateway.control_state) if job_id in str(path)]

    def check_files(self, gateway: MediaGateway, job_id: str, count: int) -> None:
        """Check how many files a job has: its output, and an input of more than 8 KiB."""
        self.assertEqual(len(self.files(gateway, job_id)), count)
