"""Paths, queries and the table of endpoints."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.routes import (
    Answer,
    Call,
    Endpoint,
    Routes,
    audience_of,
    parse_query,
    parse_target,
)
from omnigate.errors import GatewayError


async def _nothing(call: Call) -> Answer:
    return Answer()


class TargetTests(SynchronousTestCase):
    """One spelling for each path."""

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=60))
    def test_accepted_paths_are_canonical(self, tail: bytes) -> None:
        """Whatever is accepted could not be written another way."""
        try:
            path = parse_target(b"/admin/" + tail).path
        except GatewayError as error:
            self.assertEqual(error.kind.code, "invalid_path")
            return
        segments = path.split("/")[1:]
        for segment in segments:
            self.assertNotIn(segment, ("", ".", ".."))
        self.assertNotIn("%", path)

    def test_audience(self) -> None:
        """The first segment decides, and only the first."""
        self.assertEqual(audience_of("/admin/healthz"), "admin")
        self.assertEqual(audience_of("/internal/admin"), "internal")
        self.assertEqual(audience_of("/metrics"), "admin")
        self.assertEqual(audience_of("/"), "people")
        self.assertEqual(audience_of("/sign-in"), "strangers")
        self.assertRaises(GatewayError, audience_of, "/nothing")

    @settings(max_examples=200, deadline=None)
    @given(st.text(max_size=30))
    def test_queries(self, text: str) -> None:
        """A query is read or refused, never an accident."""
        try:
            parameters = parse_query(text, frozenset({"by"}))
        except GatewayError as error:
            self.assertEqual(error.kind.status, 400)
        else:
            self.assertLessEqual(set(parameters), {"by"})

    def test_decoding(self) -> None:
        """A value may be encoded, as libraries do with the colons of a time."""
        query = parse_query("since=2026-11-29T00%3A00%3A00Z&by=day", frozenset({"since", "by"}))
        self.assertEqual(query, {"since": "2026-11-29T00:00:00Z", "by": "day"})


class RoutesTests(SynchronousTestCase):
    """Finding an endpoint."""

    def test_exact_before_open(self) -> None:
        """A path that is named wins over a pattern that would take it."""
        named = Endpoint("GET", "/admin/keys/all", _nothing)
        pattern = Endpoint("GET", "/admin/keys/{name}", _nothing)
        routes = Routes(pattern, named)
        self.assertEqual(routes.find("GET", "/admin/keys/all"), (named, ""))
        self.assertEqual(routes.find("HEAD", "/admin/keys/app"), (pattern, "app"))
        error = self.assertRaises(GatewayError, routes.find, "PUT", "/admin/keys/app")
        self.assertEqual(error.headers, ((b"allow", b"GET, HEAD"),))
        self.assertRaises(GatewayError, routes.find, "GET", "/admin/keys")

    def test_the_last_two_segments_may_be_open(self) -> None:
        """What is named in one of them wins."""
        both = Endpoint("GET", "/internal/v1/files/{job}/{n}", _nothing)
        one = Endpoint("POST", "/internal/v1/jobs/{id}/cancel", _nothing)
        routes = Routes(both, one)
        self.assertEqual(routes.find("GET", "/internal/v1/files/job_1/0"), (both, "job_1/0"))
        self.assertEqual(routes.find("POST", "/internal/v1/jobs/job_1/cancel"), (one, "job_1"))
        for path in ("/internal/v1/files/job_1", "/internal/v1/files/a/b/c", "/internal/v1/x/a/b"):
            self.assertRaises(GatewayError, routes.find, "GET", path)

    def test_a_segment_in_the_middle(self) -> None:
        """The open segment may stand anywhere but first; names that a path has win."""
        one = Endpoint("GET", "/admin/keys/{name}", _nothing)
        two = Endpoint("POST", "/admin/keys/{name}/rotate", _nothing)
        three = Endpoint("GET", "/admin/config/history/{id}", _nothing)
        routes = Routes(one, two, three)
        for method, path, found in (
            ("GET", "/admin/keys/rotate", (one, "rotate")),
            ("POST", "/admin/keys/a/rotate", (two, "a")),
            ("POST", "/admin/keys/rotate/rotate", (two, "rotate")),
            ("GET", "/admin/config/history/7", (three, "7")),
        ):
            self.assertEqual(routes.find(method, path), found)
        for path in ("/admin/keys/a/b", "/admin/a/b/rotate", "/a" * 1000, "/{}/keys", "/admin/{}"):
            error = self.assertRaises(GatewayError, routes.find, "GET", path)
            self.assertEqual(error.kind.code, "not_found", path)
        error = self.assertRaises(GatewayError, routes.find, "GET", "/admin/keys/a/rotate")
        self.assertEqual(error.headers, ((b"allow", b"POST"),))
