"""Tests for omnigate.control.jobs_api."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control import jobs_api
from omnigate.control.byte_stream import ByteStream
from omnigate.control.jobs_api import LIST_RPM, JobsApi
from omnigate.control.routes import Answer, Call, Routes, parse_query
from omnigate.errors import GatewayError
from omnigate.jobs.adapters.registry import ADAPTERS
from omnigate.jobs.file_reads import MAX_READS, FileReads
from omnigate.jobs.input_rules import MAX_ESCAPES
from omnigate.jobs.job import CANCELED, SUCCEEDED, Job
from omnigate.jobs.job_json import NO_INPUT, job_json
from omnigate.jobs.store import JobStore, StorageUnavailable
from omnigate.testing.writer import SynchronousWriter
from tests.control.plane import APP_SHA, CONFIG, Plane, event

OTHER_SHA = "5" * 64

JOBS_CONFIG = (
    CONFIG.replace("rpm = 600", "rpm = 5\nmodels = ['flux*', 'veo']\nmax_open_jobs = 2")
    + f"""
[[keys]]
name = "other"
key_sha256 = "{OTHER_SHA}"
webhook_secret_env = "HOOK_SECRET"

[media]
max_input_bytes = 1000
max_jobs_per_day = 3
[[media.routes]]
model = "flux"
allowed_input = ["prompt", "image"]
  [[media.routes.targets]]
  adapter = "replicate"
  model = "black-forest-labs/flux-schnell"
"""
)

ENVIRON = {"HOOK_SECRET": "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}


class Runner:
    """Runs nothing, and cancels at once."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self.begun: list[str] = []

    async def begin(self, job: Job) -> Job:
        self.begun.append(job.id)
        return job

    async def cancel(self, job_id: str) -> Job | None:
        job = self.store.get(job_id)
        if job is None or job.is_final:
            return job
        return await self.store.change(job_id, cancel_ms=1, status=CANCELED)


class Taker(ByteStream):
    """Takes all at once of what goes on."""

    def __init__(self) -> None:
        super().__init__(None)
        self.taken: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.taken.append(data)

    def end(self) -> None:
        self.lost()


class JobsApiCase(SynchronousTestCase):
    """The endpoints over a true store."""

    config = JOBS_CONFIG

    def setUp(self) -> None:
        folder = self.mktemp()
        self.plane = Plane(folder, self.config, environ=ENVIRON)
        self.store = JobStore(
            os.path.join(folder, "jobs-of-test.jsonl"), SynchronousWriter(), self.plane.now_ms
        )
        self.done(self.store.open())
        self.runner = Runner(self.store)
        book = self.plane.book
        self.reads = FileReads(SynchronousWriter(), self.plane.clock)
        self.api = JobsApi(
            self.store,
            self.runner,
            lambda sha256: next((key for key in book if key.sha256 == sha256), None),
            self.plane.watch,
            lambda: self.plane.config_file.config,
            ADAPTERS,
            lambda job, input=NO_INPUT: job_json(job, input=input),
            self.reads,
            now_ms=self.plane.now_ms,
            steady=self.plane.clock.seconds,
            pause=self.plane.pause,
        )
        self.routes = Routes(*self.api.endpoints())

    def done(self, coroutine: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def ask(
        self,
        method: str,
        path: str,
        body: object = b"",
        *,
        key: str = APP_SHA,
        idempotency_key: str = "",
    ) -> tuple[int, dict[str, Any]]:
        """Send a request as a data plane does; return status and JSON, of a refusal too."""
        path, _, query = f"/internal/v1/jobs{path}".partition("?")
        endpoint, name = self.routes.find(method, path)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = Call(
            method=method,
            path=path,
            name=name,
            query=parse_query(query, endpoint.query),
            body=text,
            request_id="r1",
            key_sha256=key,
            idempotency_key=idempotency_key,
        )
        answer: Answer = self.done(self._answered(endpoint.run, call))
        if answer.stream is None:
            return answer.status, json.loads(answer.body)
        taker = Taker()
        answer.stream(taker)
        body = b"".join(taker.taken)
        self.assertEqual(dict(answer.headers)[b"content-length"], b"%d" % len(body))
        return answer.status, json.loads(body)

    async def _answered(self, run: Any, call: Call) -> Answer:
        try:
            answer: Answer = await run(call)
        except GatewayError as error:
            refusal = {"code": error.kind.code, "param": error.param}
            return Answer(json.dumps(refusal).encode(), status=error.kind.status)
        return answer

    def make(self, prompt: str = "a cat", **options: Any) -> dict[str, Any]:
        """Make a job."""
        status, job = self.ask(
            "POST", "", {"model": "flux", "input": {"prompt": prompt}}, **options
        )
        self.assertEqual(status, 202, job)
        return job


class CreateTests(JobsApiCase):
    """``POST /internal/v1/jobs``."""

    def test_a_job_is_made_and_run(self) -> None:
        """202 with the job."""
        job = self.make()
        self.assertEqual((job["object"], job["status"], job["model"]), ("job", "queued", "flux"))
        self.assertEqual(self.runner.begun, [job["id"]])

    def test_a_repeat_is_the_same_job_and_not_counted(self) -> None:
        """200, whatever the limits are by then; another request is refused."""
        job = self.make(idempotency_key="k")
        body = {"input": {"prompt": "a cat"}, "model": "flux"}
        for _ in range(10):
            status, again = self.ask("POST", "", body, idempotency_key="k")
            self.assertEqual((status, again["id"]), (200, job["id"]))
        self.assertEqual(self.runner.begun, [job["id"]])
        body["model"] = "veo"
        status, refusal = self.ask("POST", "", body, idempotency_key="k")
        self.assertEqual(
            (status, refusal["code"], refusal["param"]), (400, "invalid_request", "Idempotency-Key")
        )
        self.assertEqual(
            self.ask("POST", "", body, idempotency_key="a b")[1]["param"], "Idempotency-Key"
        )

    def test_a_key_that_has_spent_its_budget_may_look_and_not_make(self) -> None:
        """And repeat what it made before."""
        job = self.make(idempotency_key="k")
        spent = event(output_tokens=10_000_000)
        self.plane.internal(
            "POST", "/internal/usage/batch", json.dumps({"events": [spent]}).encode()
        )
        body = {"model": "flux", "input": {"prompt": "a cat"}}
        self.assertEqual(self.ask("POST", "", body)[1]["code"], "budget_exceeded")
        self.assertEqual(self.ask("POST", "", body, idempotency_key="k")[0], 200)
        self.assertEqual(self.ask("GET", f"/{job['id']}")[0], 200)

    def test_models(self) -> None:
        """Those of the key's list, then those there are."""
        body = {"model": "flux-2", "input": {}}
        self.assertEqual(self.ask("POST", "", body)[1]["code"], "model_not_found")
        body = {"model": "fast", "input": {}}
        self.assertEqual(self.ask("POST", "", body)[1]["code"], "model_not_allowed")
        self.assertEqual(self.ask("POST", "", body, key=OTHER_SHA)[1]["code"], "model_not_found")

    def test_the_rate_is_counted_here_too(self) -> None:
        """With a bucket of its own for lists."""
        body = {"model": "veo", "input": {}}
        codes = [self.ask("POST", "", body)[1]["code"] for _ in range(6)]
        self.assertEqual(codes, ["model_not_found"] * 5 + ["rate_limit_exceeded"])
        self.plane.clock.advance(12)
        self.assertEqual(self.ask("POST", "", body)[1]["code"], "model_not_found")
        statuses = [self.ask("GET", "")[0] for _ in range(6)]
        self.assertEqual(statuses, [200] * 5 + [429])
        statuses = [self.ask("GET", "", key=OTHER_SHA)[0] for _ in range(LIST_RPM + 1)]
        self.assertEqual((statuses[-2], statuses[-1]), (200, 429))

    def test_limits_of_the_key(self) -> None:
        """Unfinished jobs, and jobs of a day."""
        self.make()
        self.make()
        body = {"model": "flux", "input": {"prompt": "x"}}
        self.assertEqual(self.ask("POST", "", body)[1]["code"], "too_many_open_jobs")
        for _ in range(3):
            self.make(key=OTHER_SHA)
        self.assertEqual(
            self.ask("POST", "", body, key=OTHER_SHA)[1]["code"], "too_many_jobs_today"
        )

    def test_inputs_are_judged(self) -> None:
        """Members, lengths, and the rules of the route."""
        for body, expected in (
            (b"{", (400, "invalid_json", None)),
            ({"model": "flux", "input": {"size": 1}}, (400, "invalid_request", "input.size")),
            (
                {"model": "flux", "input": {"prompt": "x" * 1_000}},
                (413, "request_too_large", "input"),
            ),
        ):
            status, refusal = self.ask("POST", "", body)
            self.assertEqual((status, refusal["code"], refusal["param"]), expected)
        self.assertEqual(len(self.store), 0)

    def test_webhooks(self) -> None:
        """A public https address, and a key that can sign."""
        body = {"model": "flux", "input": {"prompt": "x"}, "webhook_url": "https://e.com/h"}
        self.assertEqual(self.ask("POST", "", body)[1]["param"], "webhook_url")
        status, job = self.ask("POST", "", body, key=OTHER_SHA)
        self.assertEqual((status, job["webhook"]["url"]), (202, "https://e.com/h"))
        for url in ("http://e.com/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/"):
            refusal = self.ask("POST", "", {**body, "webhook_url": url}, key=OTHER_SHA)[1]
            self.assertEqual(refusal["param"], "webhook_url")

    def test_a_key_that_is_gone(self) -> None:
        """Nobody's."""
        for method, body in (("POST", {"model": "flux", "input": {}}), ("GET", b"")):
            self.assertEqual(self.ask(method, "", body, key="7" * 64)[0], 401)
            self.assertEqual(self.ask(method, "", body, key="")[0], 401)
        secret = {"name": "m1", "expires_at": "2026-11-29T21:00:00Z"}
        made = self.plane.admin("POST", "/admin/keys", json.dumps(secret).encode()).json()
        body = {"model": "flux", "input": {"prompt": "x"}}
        self.assertEqual(self.ask("POST", "", body, key=made["key_sha256"])[0], 202)
        change = json.dumps({"disabled": True}).encode()
        self.plane.admin("PATCH", "/admin/keys/m1", change)
        self.assertEqual(self.ask("POST", "", body, key=made["key_sha256"])[0], 401)
        self.plane.admin("PATCH", "/admin/keys/m1", b'{"disabled": false}')
        self.assertEqual(self.ask("POST", "", body, key=made["key_sha256"])[0], 202)
        self.plane.clock.advance(3_600)
        self.assertEqual(self.ask("POST", "", body, key=made["key_sha256"])[0], 401)

    def test_a_long_input_is_read_in_steps(self) -> None:
        """Others have their turn in between; it is shown as it was sent."""
        self.plane.write_config(self.config.replace("= 1000", "= 8000000"))
        self.plane.config_file.load()
        steady = iter(range(10**9))
        self.patch(self.api, "_steady", lambda: next(steady))
        image = "A" * 2_000_000
        status, job = self.ask(
            "POST", "", {"model": "flux", "input": {"image": image}}, key=OTHER_SHA
        )
        self.assertEqual(status, 202)
        self.assertGreater(self.plane.pauses, 50)
        shown = self.ask("GET", f"/{job['id']}", key=OTHER_SHA)[1]
        self.assertEqual(shown["input"], {"image": image})

    def test_an_input_that_is_slow_to_write_to_a_provider(self) -> None:
        """Refused where the job would be made."""
        self.plane.write_config(self.config.replace("= 1000", "= 8000000"))
        self.plane.config_file.load()
        body = {"model": "flux", "input": {"prompt": '"' * (MAX_ESCAPES + 1)}}
        status, refusal = self.ask("POST", "", body, key=OTHER_SHA)
        self.assertEqual((status, refusal["code"]), (400, "request_too_complex"))
        self.assertEqual(len(self.store), 0)

    def test_a_disk_that_refuses(self) -> None:
        """503, and nothing was made."""

        async def refuse(*arguments: object) -> None:
            raise StorageUnavailable

        self.patch(self.store, "create", refuse)
        body = {"model": "flux", "input": {"prompt": "x"}}
        self.assertEqual(self.ask("POST", "", body)[0], 503)
        self.assertEqual(self.runner.begun, [])


class ReadTests(JobsApiCase):
    """Jobs as their key sees them."""

    def test_one_job_with_its_input(self) -> None:
        """While it goes on, and when it is final."""
        job = self.make()
        self.assertEqual(self.ask("GET", f"/{job['id']}")[1]["input"], {"prompt": "a cat"})
        self.done(self.store.change(job["id"], status=SUCCEEDED))
        shown = self.ask("GET", f"/{job['id']}")[1]
        self.assertEqual((shown["input"], shown["status"]), ({"prompt": "a cat"}, "succeeded"))

    def test_an_input_that_is_a_file_is_read_as_it_is_taken(self) -> None:
        """Sixty requests for eight megabytes would take half a gigabyte otherwise."""
        self.plane.write_config(self.config.replace("= 1000", "= 8000000"))
        self.plane.config_file.load()
        image = "x" * 600_000
        body = {"model": "flux", "input": {"prompt": "a cat", "image": image}}
        made = self.ask("POST", "", body)[1]
        status, shown = self.ask("GET", f"/{made['id']}")
        self.assertEqual((status, shown.pop("input"), shown), (200, body["input"], made))
        self.assertEqual(self.reads.open, 0)
        self.reads.open = MAX_READS
        status, refusal = self.ask("GET", f"/{made['id']}")
        self.assertEqual((status, refusal["code"]), (503, "overloaded"))
        self.reads.open = 0
        os.remove(self.store.input_path(made["id"]))
        status, shown = self.ask("GET", f"/{made['id']}")
        self.assertEqual((status, shown.pop("input"), shown), (200, None, made))

    def test_a_job_of_another_key_is_not_there(self) -> None:
        """Neither to read nor to cancel."""
        job = self.make()
        for method, path in (("GET", ""), ("POST", "/cancel")):
            status, refusal = self.ask(method, f"/{job['id']}{path}", key=OTHER_SHA)
            self.assertEqual((status, refusal["code"]), (404, "not_found"))
        self.assertEqual(self.ask("GET", "/job_x")[0], 404)
        self.assertEqual(self.ask("GET", "", key=OTHER_SHA)[1]["data"], [])

    def test_lists(self) -> None:
        """Page by page."""
        ids = [self.make(str(n), key=OTHER_SHA)["id"] for n in range(3)]
        first = self.ask("GET", "?limit=2", key=OTHER_SHA)[1]
        self.assertEqual([job["id"] for job in first["data"]], ids[:0:-1])
        self.assertEqual((first["object"], first["has_more"]), ("list", True))
        rest = self.ask("GET", f"?limit=2&after={ids[1]}", key=OTHER_SHA)[1]
        self.assertEqual([job["id"] for job in rest["data"]], ids[:1])
        self.assertFalse(rest["has_more"])
        done = self.ask("GET", "?status=succeeded", key=OTHER_SHA)[1]
        self.assertEqual(done, {"object": "list", "data": [], "has_more": False})
        self.assertEqual(self.ask("GET", "?limit=0", key=OTHER_SHA)[1]["param"], "limit")

    def test_a_list_is_written_in_steps(self) -> None:
        """A hundred jobs with all the metadata there may be take forty milliseconds."""
        body = {"model": "flux", "input": {"prompt": "a cat"}, "metadata": {"a": "x" * 700}}
        made = [self.ask("POST", "", body, key=OTHER_SHA)[1] for _ in range(3)]
        self.patch(jobs_api, "STEP_BYTES", 1_500)
        pauses = self.plane.pauses
        self.assertEqual(self.ask("GET", "", key=OTHER_SHA)[1]["data"], made[::-1])
        self.assertEqual(self.plane.pauses - pauses, 1)

    def test_cancel(self) -> None:
        """Of a job that is final it changes nothing."""
        job = self.make()
        for _ in range(2):
            status, canceled = self.ask("POST", f"/{job['id']}/cancel", {})
            self.assertEqual((status, canceled["status"]), (200, "canceled"))
