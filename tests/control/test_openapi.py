"""The OpenAPI document, against the code and against real answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config import values
from omnigate.control.openapi import OpenApi, codes_of, document
from omnigate.control.parameters import read_whole, whole
from omnigate.control.routes import Answer, Call, Endpoint, audience_of
from omnigate.control.schemas import NAME, TEXT, or_null, record
from omnigate.errors import ADMIN_ERRORS, ERRORS, GatewayError
from omnigate.testing.json_schema import faults
from tests.control.conversation import ADMIN, Conversation
from tests.control.job_cases import JobCases, given_up
from tests.control.plane import Plane, event
from tests.control.test_admin_jobs_api import make_job


async def _nothing(call: Call) -> Answer:
    return Answer()


class DocumentTests(SynchronousTestCase):
    """What it says, against what there is."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.endpoints = self.plane.talk.routes.endpoints
        reply = self.plane.talk.ask("GET", "/admin/openapi.json", ADMIN)
        self.document: dict[str, Any] = reply.json()

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method.upper(), operation

    def test_every_endpoint_and_no_other(self) -> None:
        """All but those of data planes, and pages."""
        wanted = {
            (endpoint.pattern, endpoint.method)
            for endpoint in self.endpoints
            if audience_of(endpoint.pattern) != "internal" and not endpoint.is_page
        }
        found = {(path, method) for path, method, _ in self.operations()}
        self.assertEqual(found, wanted)
        self.assertGreater(len(found), 10)

    def test_every_endpoint_says_what_it_takes_and_answers(self) -> None:
        """Words, a schema of the body where it takes one, and a schema of the answer."""
        for endpoint in self.endpoints:
            if audience_of(endpoint.pattern) == "internal" or endpoint.is_page:
                continue
            place = f"{endpoint.method} {endpoint.pattern}"
            self.assertRegex(endpoint.summary, r"^[A-Z][^.\n]{5,120}$", place)
            self.assertTrue(endpoint.answer is not None or endpoint.other_types, place)
            self.assertEqual(endpoint.body is not None, endpoint.body_limit > 0, place)
            self.assertEqual(endpoint.scope, "read" if endpoint.method == "GET" else "write")
            self.assertLessEqual(set(codes_of(endpoint)), {*ERRORS, *ADMIN_ERRORS}, place)
            for parameter in endpoint.parameters:
                self.assertTrue(parameter.description, place)
                self.assertFalse(list(self.unbounded(parameter.schema)), place)

    def unbounded(self, schema: Any) -> Iterator[str]:
        """A parameter's schema says how large it may get."""
        if schema["type"] == "integer":
            yield from {"minimum", "maximum"} - schema.keys()
        elif "enum" not in schema and "pattern" not in schema and "format" not in schema:
            yield from {"maxLength"} - schema.keys()

    def test_it_is_put_together_soundly(self) -> None:
        """References lead somewhere, names are unique, open segments are parameters."""
        names = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(set(names)), len(names))
        text = json.dumps(self.document)
        for reference in re.findall(r'"#/components/schemas/(\w+)"', text):
            self.assertIn(reference, self.document["components"]["schemas"])
        for path, _, operation in self.operations():
            opened = [
                parameter["name"]
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "path"
            ]
            self.assertEqual(re.findall(r"\{(\w+)\}", path), opened)
        self.assertEqual(self.document["openapi"], "3.1.0")

    def test_a_title_stands_for_one_schema(self) -> None:
        """Two schemas of one name would be one in the document, so they are refused."""
        one = Endpoint("GET", "/admin/a", _nothing, answer=record({"a": TEXT}, title="One"))
        two = Endpoint("GET", "/admin/b", _nothing, answer=record({"b": TEXT}, title="One"))
        document([one, one])
        self.assertRaises(ValueError, document, [one, two])

    def test_before_anything_is_described(self) -> None:
        """It is not ready, rather than empty."""
        openapi = OpenApi()
        (endpoint,) = openapi.endpoints()
        reply = Conversation(endpoint).ask("GET", "/admin/openapi.json", ADMIN)
        self.assertEqual((reply.status, reply.json()["code"]), (503, "not_ready"))


class AnswerTests(SynchronousTestCase):
    """Real answers. Every answer of the other tests is held to the document, too."""

    def test_every_operation_answers_as_described(self) -> None:
        """Each is asked so that it succeeds, in the order of a day's work."""
        plane = Plane(self.mktemp())
        plane.record_start()
        batch = [event(id="1"), event(id="2", upstream=None, target_model=None, status=502)]
        plane.internal("POST", "/internal/usage/batch", json.dumps({"events": batch}).encode())
        report = {"refusals": [{"key": "app", "code": "rate_limit_exceeded", "count": 2}]}
        plane.internal("POST", "/internal/counters", json.dumps(report).encode())
        job = make_job(plane.generation.jobs)
        jobs = JobCases(plane)
        running, ended = jobs.run(job), jobs.end(jobs.make(), "failed", "x", webhook=given_up())
        of_jobs = (
            ("GET", f"/admin/jobs/{job.id}", None),
            ("POST", f"/admin/jobs/{running.id}/cancel", None),
            ("POST", f"/admin/jobs/{ended.id}/webhook", None),
        )
        for method, target, body in (*self.day(), *of_jobs):
            reply = plane.admin(method, target, body)
            self.assertIn(reply.status, (200, 201), (method, target, reply.body))
        for path, methods in plane.described.document["paths"].items():
            for method in methods:
                answered = {
                    status
                    for found_path, found_method, status in plane.described.seen
                    if (found_path, found_method) == (path, method.upper())
                }
                self.assertTrue(answered & {200, 201}, f"{method} {path} was not asked")

    def day(self) -> Iterator[tuple[str, str, bytes | None]]:
        """Requests that succeed, one after the other."""
        yield "POST", "/admin/keys", b'{"name":"m1","rpm":5,"models":["fast"],"budget_usd":1}'
        yield "PATCH", "/admin/keys/m1", b'{"rpm":null,"soft_budget_usd":0.5}'
        yield "GET", "/admin/jobs?limit=1&status=queued", None
        yield "POST", "/admin/keys/m1/webhook-secret", b'{"grace_s":60}'
        yield "DELETE", "/admin/keys/m1/webhook-secret", None
        yield "GET", "/admin/keys/m1", None
        yield "GET", "/admin/keys?limit=1&after=a", None
        yield "POST", "/admin/keys/m1/rotate", b'{"grace_s":60}'
        yield "DELETE", "/admin/keys/m1", None
        for by in ("key", "model", "upstream", "day"):
            yield "GET", f"/admin/usage?by={by}&since=2026-11-01&until=2026-11-30", None
        yield "GET", "/admin/usage?by=day&model=fast", None
        yield "GET", "/admin/requests?limit=2", None
        yield "GET", "/admin/requests?limit=1&status=failed&key=app&cursor=newest", None
        yield "GET", "/admin/requests/2", None
        yield "GET", "/admin/refusals", None
        yield "GET", "/admin/audit?limit=1", None
        yield "GET", "/admin/config", None
        yield "POST", "/admin/reload", None
        yield "GET", "/admin/config/history", None
        yield "GET", "/admin/config/history/1", None
        yield "POST", "/admin/admin-keys", b'{"name":"ops","scope":"full"}'
        yield "PATCH", "/admin/admin-keys/ops", b'{"scope":"read_only"}'
        yield "GET", "/admin/admin-keys/ops", None
        yield "GET", "/admin/admin-keys", None
        yield "POST", "/admin/admin-keys/ops/rotate", b'{"grace_s":5}'
        yield "DELETE", "/admin/admin-keys/ops", None
        yield "GET", "/admin/openapi.json", None
        for path in ("/metrics", "/healthz", "/livez", "/readyz"):
            yield "GET", path, None


class SchemaTests(SynchronousTestCase):
    """The words that schemas are written in."""

    @settings(max_examples=200, deadline=None)
    @given(st.text(st.sampled_from("aZ0._-é /\n"), max_size=70))
    def test_names_are_those_of_the_loader(self, name: str) -> None:
        """What the schema of a name takes is what the check of a name takes."""
        try:
            values.name(name)
        except ValueError:
            good = False
        else:
            good = True
        self.assertEqual(not list(faults(name, NAME, {})), good)

    def test_or_null(self) -> None:
        """Null is let in once, whatever the schema."""
        for schema in (TEXT, {"type": "string", "enum": ["a"]}, {"anyOf": [TEXT]}):
            once = or_null(schema)
            self.assertFalse(list(faults(None, once, {})))
            self.assertFalse(list(faults("a", once, {})))
            self.assertTrue(list(faults(1, once, {})))
            self.assertEqual(or_null(once), once)

    @settings(max_examples=200, deadline=None)
    @given(st.text(st.sampled_from("0123456789+-. e_٣"), max_size=18))
    def test_whole_numbers(self, text: str) -> None:
        """What is read is a number within the bounds of its own schema."""
        parameter = whole("limit", "…", 10, 500)
        try:
            number = read_whole({"limit": text}, parameter)
        except GatewayError as error:
            self.assertEqual(error.param, "limit")
        else:
            self.assertFalse(list(faults(number, parameter.schema, {})))
            self.assertEqual(number, int(text))
        self.assertEqual(read_whole({}, parameter), 10)
