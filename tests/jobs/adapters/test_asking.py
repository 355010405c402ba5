"""Requests, and what of an input is billed."""

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters import asking
from omnigate.jobs.job import Billable


class RequestTests(SynchronousTestCase):
    def test_a_post(self) -> None:
        """JSON, with the credential where there is one."""
        request = asking.post_json("https://x.example/a", asking.bearer("k"), {"a": "é"})
        self.assertEqual((request.method, json.loads(request.body)), ("POST", {"a": "é"}))
        headers = (("authorization", "Bearer k"), ("content-type", "application/json"))
        self.assertEqual(request.headers, headers)
        self.assertEqual(asking.bearer(""), ())

    @given(text=st.text(min_size=1))
    def test_a_segment_stays_one(self, text: str) -> None:
        """No text ends it."""
        segment = asking.segment(text)
        self.assertTrue(segment.isascii() and segment.isprintable())
        self.assertFalse(set("/?# \\") & set(segment), segment)


class OriginTests(SynchronousTestCase):
    def test_which_urls_get_the_key(self) -> None:
        """Those of the same scheme, host and port, however they are written."""
        base = "https://api.example/v1"
        for url in (
            "https://api.example/files/1",
            "https://API.example:443/x?y=1",
            "HTTPS://api.example./x",
        ):
            self.assertTrue(asking.has_origin(url, base), url)
        for url in (
            "http://api.example/x",
            "https://api.example:8443/x",
            "https://api.example.attacker.example/x",
            "https://api.example@attacker.example/x",
            "https://key@api.example/x",
            "https://api.example\\@attacker.example/x",
            "//api.example/x",
            "https:/api.example/x",
            "https://[",
            "https://api.example:99999/x",
            "data:text/plain,x",
            "",
            "\ud800",
        ):
            self.assertFalse(asking.has_origin(url, base), url)
        self.assertFalse(asking.has_origin("", ""))


class BillableTests(SynchronousTestCase):
    def test_an_input_that_goes_out_as_it_is(self) -> None:
        """Characters of ``text``, else of ``prompt``; the first field that names seconds."""
        for input, expected in (
            ({}, Billable()),
            ({"prompt": "Grüße👋"}, Billable(characters=6)),
            ({"prompt": "four", "text": "two"}, Billable(characters=3)),
            ({"prompt": "four", "text": ["x"]}, Billable(characters=4)),
            ({"seconds": 9, "duration": "5s"}, Billable(milliseconds=5000)),
            ({"seconds": "4.5", "duration": None}, Billable(milliseconds=4500)),
            ({"durationSeconds": 8}, Billable(milliseconds=8000)),
            ({"duration": "auto"}, Billable()),
            ({"duration": -1}, Billable()),
            ({"prompt": 5, "text": None}, Billable()),
        ):
            self.assertEqual(asking.billable_input(input), expected, input)

    def test_what_a_provider_tells(self) -> None:
        """Milliseconds, or that it tells none."""
        for value, expected in (
            (8, 8000),
            (10.04, 10040),
            ("6", 6000),
            (None, -1),
            (-2, -1),
            (float("nan"), -1),
            (float("inf"), -1),
            (10**400, -1),
            (True, -1),
            ({}, -1),
        ):
            self.assertEqual(asking.told_milliseconds(value), expected, value)
