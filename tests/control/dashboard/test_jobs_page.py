"""The list of media jobs, the page of one, and what may be done there, as somebody reads them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.jobs_page import ROWS
from omnigate.jobs.job import Billable, Job, Webhook
from tests.control.conversation import Reply, read_reply, request_bytes
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.job_cases import MEDIA_CONFIG, PNG, JobCases, given_up, output
from tests.control.plane import CONFIG, Plane

EVIL = "<script>alert(1)</script>"
HOOK = "https://hooks.example.com/in"


class JobsCase(SynchronousTestCase):
    """A person who has signed in, and jobs that nobody runs."""

    config = MEDIA_CONFIG

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp(), self.config)
        self.jobs = JobCases(self.plane)
        self.visitor = Visitor(self.plane.talk)
        self.visitor.sign_in()
        self.addCleanup(self.plane.close)

    def looker(self) -> Visitor:
        """Somebody who may look and change nothing."""
        made = self.plane.admin(
            "POST",
            "/admin/admin-keys",
            json.dumps({"name": "looker", "scope": "read_only"}).encode(),
        )
        visitor = Visitor(self.plane.talk)
        visitor.sign_in(made.json()["secret"])
        return visitor

    def page_of(self, job: Job) -> Page:
        return self.visitor.page(f"/jobs/{job.id}")

    def send_and_wait(self, target: str) -> Reply:
        """Send a form whose answer takes some turns of the reactor."""
        channel, transport = self.plane.talk.connect()
        form = (b"content-type", b"application/x-www-form-urlencoded")
        body = urlencode({"form_token": self.visitor.form_token}).encode()
        channel.dataReceived(request_bytes("POST", target, (*self.visitor.headers(), form), body))
        self.plane.clock.pump([0.0] * 3)
        reply, _ = read_reply(transport.value())
        return reply

    def actions(self) -> list[tuple[str, str, str]]:
        lines = self.plane.admin("GET", "/admin/audit").json()["entries"]
        return [
            (line["action"], line["target"], line["outcome"])
            for line in lines
            if line["action"].startswith("job.")
        ]


def short(job: Job) -> str:
    """What a list shows of an id."""
    return f"…{job.id[-8:]}"


def shown(page: Page) -> list[str]:
    """The ids that a list shows, as far as it does."""
    return [link.text for link in page.all("a") if link.text.startswith("…")]


class ListTests(JobsCase):
    """``/jobs``."""

    def test_the_newest_first(self) -> None:
        first = self.jobs.succeeded()
        self.plane.clock.advance(1)
        second = self.jobs.make()
        page = self.visitor.page("/jobs")
        self.assertEqual([short(second), short(first)], shown(page))
        row = page.all("tr")[2].text
        for words in ("succeeded", "app", "picture", "replicate", "$0.0040"):
            self.assertIn(words, row)
        self.assertIn("2 jobs are kept, 1 of them not ended.", page.text)
        self.assertEqual("/jobs", page.one("a", **{"aria-current": "page"}).attributes["href"])

    def test_a_page_at_a_time(self) -> None:
        made = [self.jobs.make() for _ in range(ROWS + 3)]
        page = self.visitor.page("/jobs?model=picture")
        self.assertEqual(ROWS, len(shown(page)))
        older = page.one("a", rel="next").attributes["href"]
        rest = self.visitor.page(older)
        self.assertEqual(3, len(shown(rest)))
        self.assertIn(short(made[0]), shown(rest)[-1])
        self.assertEqual("/jobs?model=picture", rest.one("a", rel="prev").attributes["href"])
        self.assertEqual([], rest.all("tbody", **{"data-live": "jobs"}))

    def test_filters(self) -> None:
        other = self.jobs.make(model="film", key_sha256="1" * 64)
        failed = self.jobs.end(self.jobs.run(self.jobs.make()), "failed", "provider_failed", "no")
        for query, wanted in (
            ("key=app", failed),
            ("model=film", other),
            ("status=failed", failed),
            ("status=queued", other),
            (f"key={'1' * 64}", other),
        ):
            self.assertEqual([short(wanted)], shown(self.visitor.page(f"/jobs?{query}")), query)
        self.assertIn("Nothing found", self.visitor.page("/jobs?status=canceled").text)

    def test_faults_stand_beside_their_field(self) -> None:
        for name, value in (("key", "nobody"), ("status", "lost"), ("id", "job_1")):
            reply = self.visitor.get(f"/jobs?{name}={value}")
            page = Page(reply)
            self.assertEqual(400, reply.status)
            (field,) = page.all("input", id=name) or page.all("select", id=name)
            self.assertEqual("true", field.attributes["aria-invalid"])
            self.assertTrue(page.one("p", id=f"{name}-fault").text)

    def test_an_id_leads_to_its_job(self) -> None:
        job = self.jobs.make()
        reply = self.visitor.get(f"/jobs?id={job.id}")
        self.assertEqual((303, f"/jobs/{job.id}"), (reply.status, reply.headers["location"]))

    def test_it_comes_up_by_itself(self) -> None:
        job = self.jobs.make()
        page = self.visitor.page("/jobs?model=picture")
        mark = page.one("tbody").attributes["data-mark"]
        live = f"/live/jobs?once=1&model=picture&mark={mark}"
        self.assertNotIn("running", self.visitor.get(live).body.decode())
        self.jobs.run(job)
        self.plane.clock.advance(3)
        self.assertIn("running", self.visitor.get(live).json()["html"])

    def test_nothing_yet(self) -> None:
        self.assertIn("No jobs yet", self.visitor.page("/jobs").text)


class UnconfiguredTests(JobsCase):
    """Without a media route."""

    config = CONFIG

    def test_it_says_how_to_configure_one(self) -> None:
        page = self.visitor.page("/jobs")
        self.assertIn("[[media.routes]]", page.one("pre").text)
        self.assertEqual([], page.all("form", method="get"))

    def test_jobs_of_a_route_that_is_gone(self) -> None:
        job = self.jobs.succeeded()
        self.assertEqual([short(job)], shown(self.visitor.page("/jobs")))
        self.assertIn("no price for this target", self.page_of(job).text)


class JobTests(JobsCase):
    """``/jobs/ID``."""

    def test_one_that_succeeded(self) -> None:
        job = self.jobs.succeeded(metadata={"team": "print"})
        page = self.page_of(job)
        for words in (
            "succeeded",
            "a lighthouse",
            "team",
            "black-forest-labs/flux-schnell",
            "https://api.replicate.com",
            "rp-77",
            "0.png",
            "image/png",
            "$0.0040",
            "None was asked for.",
        ):
            self.assertIn(words, page.text)
        cost = page.all("table")[-1].text
        self.assertIn("outputs", cost)
        self.assertIn("0.003", cost)
        self.assertEqual(f"/job-files/{job.id}/0", page.one("img").attributes["src"])
        self.assertEqual(1, len(page.all("a", href=f"/requests/one?id={job.id}")))

    def test_one_that_failed(self) -> None:
        job = self.jobs.end(
            self.jobs.run(self.jobs.make()), "failed", "output_refused", f"10.0.0.1 {EVIL}"
        )
        page = self.page_of(job)
        self.assertIn("Output refused.", page.text)
        self.assertIn("[outbound] allow", page.text)
        self.assertIn(EVIL, page.text)
        self.assertEqual(1, len(page.all("script")))

    def test_whatever_comes_from_outside_is_text(self) -> None:
        job = self.jobs.run(
            self.jobs.make(
                model=EVIL,
                input={"prompt": EVIL},
                metadata={EVIL: EVIL},
                webhook_url=f"https://h.test/{EVIL}",
                idempotency_key=EVIL,
            ),
            model=EVIL,
            adapter=EVIL,
            base_url=EVIL,
        )
        self.jobs.change(job, provider_job_id=EVIL)
        self.jobs.end(
            self.jobs.store.get(job.id) or job,
            "failed",
            EVIL,
            EVIL,
            webhook=Webhook(EVIL, state=EVIL, last_error=EVIL),
            outputs=(output(content_type=EVIL, name=f"job/{EVIL}", sha256=EVIL, storage=EVIL),),
        )
        for path in (f"/jobs/{job.id}", "/jobs"):
            page = self.visitor.page(path)
            self.assertEqual(1, len(page.all("script")), path)
            self.assertIn(EVIL, page.text)

    def test_a_long_input_is_cut(self) -> None:
        job = self.jobs.make(input={"prompt": "x" * 1_000_000})
        page = self.page_of(job)
        self.assertLess(len(page.reply.body), 30_000)
        self.assertIn("This is its beginning; all of it is 1.0", page.text)

    def test_encrypted_outputs_are_only_named(self) -> None:
        job = self.jobs.succeeded(output(encrypted=True, name="job/0.png.age"))
        page = self.page_of(job)
        self.assertIn("encrypted", page.text)
        self.assertEqual([], page.all("img"))
        self.assertEqual([], page.all("a", href=f"/job-files/{job.id}/0"))
        self.assertEqual(404, self.visitor.get(f"/job-files/{job.id}/0").status)

    def test_a_factor_of_the_input(self) -> None:
        job = self.jobs.make(input={"prompt": "x", "quality": "high"})
        self.jobs.end(
            self.jobs.run(job),
            "succeeded",
            outputs=(output(),),
            billable=Billable(outputs=1),
            cost_nano=10_000_000,
        )
        text = self.page_of(job).text
        self.assertIn("quality = high: × 2.5", text)
        self.assertNotIn("As recorded", text)

    def test_another_price_since(self) -> None:
        job = self.jobs.end(
            self.jobs.run(self.jobs.make()),
            "succeeded",
            outputs=(output(),),
            billable=Billable(outputs=1),
            cost_nano=1,
        )
        self.assertIn("As recorded, which is what counts", self.page_of(job).text)

    def test_a_cost_that_is_owed(self) -> None:
        job = self.jobs.end(self.jobs.run(self.jobs.make()), "failed", "x", cost_owed=True)
        self.assertIn("The ledger does not have this cost yet.", self.page_of(job).text)
        self.assertIn("not in the ledger", self.visitor.page("/jobs").text)

    def test_there_is_none(self) -> None:
        for path in ("/jobs/job_nothing", "/jobs/new"):
            self.assertEqual(404, self.visitor.get(path).status)
        self.assertEqual(303, Visitor(self.plane.talk).get("/jobs").status)


class ActionTests(JobsCase):
    """What may be done."""

    def test_cancel(self) -> None:
        job = self.jobs.make()
        page = self.page_of(job)
        self.assertEqual(1, len(page.all("form", action=f"/jobs/{job.id}/cancel")))
        reply = self.send_and_wait(f"/jobs/{job.id}/cancel")
        self.assertEqual(
            (303, f"/jobs/{job.id}?done=canceled"), (reply.status, reply.headers["location"])
        )
        now = self.jobs.store.get(job.id)
        assert now is not None
        self.assertEqual("canceled", now.status)
        self.assertEqual([("job.cancel", job.id, "done")], self.actions())
        self.assertIn(f'href="/jobs/{job.id}"', self.visitor.get("/audit").body.decode())

    def test_too_late(self) -> None:
        job = self.jobs.succeeded()
        self.assertEqual([], self.page_of(job).all("form", action=f"/jobs/{job.id}/cancel"))
        reply = self.visitor.send(f"/jobs/{job.id}/cancel", {})
        self.assertEqual(f"/jobs/{job.id}?done=ended", reply.headers["location"])
        self.assertEqual([], self.actions())

    def test_send_a_webhook_once_more(self) -> None:
        job = self.jobs.run(self.jobs.make(webhook_url=HOOK))
        self.jobs.end(job, "failed", "provider_failed", "no", webhook=given_up(HOOK))
        page = self.page_of(job)
        for words in ("given up", HOOK, "status 503", "the receiver is away", "8, the last one"):
            self.assertIn(words, page.text)
        reply = self.visitor.send(f"/jobs/{job.id}/webhook", {})
        self.assertEqual(f"/jobs/{job.id}?done=sent", reply.headers["location"])
        self.assertEqual([("job.webhook", job.id, "done")], self.actions())
        now = self.jobs.store.get(job.id)
        assert now is not None and now.webhook is not None
        # The one attempt was begun, which is written down before it is sent.
        self.assertEqual(9, now.webhook.attempts)

    def test_no_webhook_to_send(self) -> None:
        job = self.jobs.make()
        self.page_of(job)
        self.assertEqual(409, self.visitor.send(f"/jobs/{job.id}/webhook", {}).status)
        self.assertEqual(404, self.visitor.send("/jobs/job_x/webhook", {}).status)
        self.assertEqual([], self.actions())

    def test_who_may_only_look(self) -> None:
        job = self.jobs.run(self.jobs.make(webhook_url=HOOK))
        visitor = self.looker()
        page = visitor.page(f"/jobs/{job.id}")
        self.assertEqual(["/sign-out"], [form.attributes["action"] for form in page.all("form")])
        for what in ("cancel", "webhook"):
            self.assertEqual(403, visitor.send(f"/jobs/{job.id}/{what}", {}).status)
        now = self.jobs.store.get(job.id)
        assert now is not None
        self.assertEqual(0, now.cancel_ms)


class FileTests(JobsCase):
    """``/job-files/JOB/N``."""

    def kept(self, content: bytes, **members: Any) -> str:
        job = self.jobs.succeeded(output(size=len(content), **members))
        self.jobs.keep(job, 0, content)
        return f"/job-files/{job.id}/0"

    def test_a_picture_is_shown(self) -> None:
        reply = self.visitor.get(self.kept(PNG))
        self.assertEqual((200, PNG), (reply.status, reply.body))
        self.assertEqual("image/png", reply.headers["content-type"])
        self.assertEqual("nosniff", reply.headers["x-content-type-options"])
        self.assertEqual("sandbox; default-src 'none'", reply.headers["content-security-policy"])
        self.assertEqual("no-store", reply.headers["cache-control"])
        self.assertNotIn("content-disposition", reply.headers)

    def test_its_bytes_say_what_it_is(self) -> None:
        reply = self.visitor.get(self.kept(b"GIF89a" + bytes(70)))
        self.assertEqual("image/gif", reply.headers["content-type"])

    def test_a_page_that_says_it_is_a_picture(self) -> None:
        reply = self.visitor.get(self.kept(b"<html><script>alert(1)</script>"))
        self.assertEqual("application/octet-stream", reply.headers["content-type"])
        self.assertIn("attachment", reply.headers["content-disposition"])

    def test_everything_else_is_a_download(self) -> None:
        for kind in ("video/mp4", "application/json", "text/html", "image/svg+xml"):
            reply = self.visitor.get(self.kept(PNG, content_type=kind))
            self.assertEqual(PNG, reply.body)
            self.assertEqual("application/octet-stream", reply.headers["content-type"])
            self.assertIn("attachment", reply.headers["content-disposition"])

    def test_a_picture_that_is_wanted_as_a_file(self) -> None:
        reply = self.visitor.get(f"{self.kept(PNG)}?download=1")
        self.assertIn("attachment", reply.headers["content-disposition"])

    def test_it_is_gone(self) -> None:
        job = self.jobs.succeeded()
        for path in (f"/job-files/{job.id}/0", f"/job-files/{job.id}/1", f"/job-files/{job.id}/-1"):
            self.assertEqual(404, self.visitor.get(path).status, path)

    def test_strangers(self) -> None:
        path = self.kept(PNG)
        self.assertEqual(303, Visitor(self.plane.talk).get(path).status)
