"""What an answer means: error texts, outcomes, and how long to wait."""

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters import judging
from omnigate.jobs.adapters.base import Failed, Transient
from omnigate.jobs.job import MAX_MESSAGE_CHARS
from omnigate.outbound import messages
from omnigate.outbound.messages import Answer
from tests.jobs.adapters.talking import told

SECRET = "kid-4711:sk-very-secret"


class ToldErrorTests(SynchronousTestCase):
    def test_the_order(self) -> None:
        """Each place is looked at after those before it."""
        places: list[dict[str, Any]] = [
            {"error": {"message": "error.message"}},
            {"error": "error"},
            {"detail": "detail"},
            {"detail": {"message": "detail.message"}},
            {"detail": [{"loc": ["body", "n"], "msg": "too much"}]},
            {"message": "message"},
            {"title": "title"},
            {"errors": [{"code": 1}, {"message": "errors.message"}]},
        ]
        texts = [judging.told_error(place) for place in places]
        self.assertEqual(
            texts,
            [
                "error.message",
                "error",
                "detail",
                "detail.message",
                "n: too much",
                "message",
                "title",
                "errors.message",
            ],
        )
        for first, second in itertools.pairwise(places):
            if not first.keys() & second.keys():
                both = judging.told_error({**second, **first})
                self.assertEqual(both, judging.told_error(first))

    def test_several_details(self) -> None:
        """Each with the last part of its place, where it has one."""
        detail = [
            {"loc": ["body", "images", 2], "msg": "bad"},
            {"loc": [], "msg": "odd"},
            {"msg": "bare"},
            {"loc": [10**4000], "msg": "far"},
            {"loc": ["x"]},
            "text",
        ]
        self.assertEqual(judging.told_error({"detail": detail}), "2: bad; odd; bare; …: far")

    def test_nothing_is_told(self) -> None:
        """Then it is the status."""
        bodies: list[Any] = [None, [], {}, {"error": {}}, {"error": None}, {"message": " "}]
        for body in (*bodies, {"detail": 5}):
            self.assertEqual(judging.told_error(body).strip(), "", body)
            error = judging.error_of(Answer(503), body, SECRET)
            self.assertEqual((error.code, error.message), ("provider_failed", "HTTP 503"))


class PlainTextTests(SynchronousTestCase):
    @given(text=st.text(), before=st.text(max_size=30), times=st.integers(0, 400))
    def test_any_text(self, text: str, before: str, times: int) -> None:
        """One line of valid UTF-8, without the credential and its secret half."""
        plain = judging.plain_text(before + SECRET * times + text + SECRET, SECRET)
        self.assertLessEqual(len(plain), MAX_MESSAGE_CHARS)
        self.assertLessEqual(len(plain.splitlines()), 1)
        plain.encode()
        self.assertNotIn(SECRET, plain)
        self.assertNotIn("sk-very-secret", plain)

    @example(secret="abc" * 100, pad=4096 - 300 - 100)
    @given(secret=st.text("abc", min_size=16, max_size=900), pad=st.integers(0, 4200))
    def test_a_credential_that_is_cut(self, secret: str, pad: int) -> None:
        """Not even its beginning stays at the end of what is looked at."""
        plain = judging.plain_text(secret + " " * pad + secret + secret, secret)
        self.assertNotIn(secret[:16], plain)

    def test_lines_become_one(self) -> None:
        """As the golden cases have it."""
        self.assertEqual(judging.plain_text("NSFW.\r\n Try\tagain. ", ""), "NSFW. Try again.")
        self.assertEqual(
            judging.plain_text("a\x1b[31m\u202eb\ud800", ""), "a\\x1b[31m\\u202eb\ufffd"
        )

    def test_short_credentials_are_no_secrets(self) -> None:
        """Else any text would be struck out."""
        self.assertEqual(judging.plain_text("a key", "key"), "a key")


class SubmitTests(SynchronousTestCase):
    def test_outcomes(self) -> None:
        """What each status comes to."""
        body = {"error": {"message": "no", "code": "over", "type": "quota"}}
        for status, code, limited in (
            (302, "provider_failed", False),
            (400, "provider_failed", False),
            (401, "provider_failed", False),
            (402, "provider_failed", False),
            (404, "provider_failed", False),
            (408, "provider_failed", False),
            (422, "provider_failed", False),
            (429, "provider_rate_limited", True),
            (500, "provider_failed", False),
        ):
            outcome = judging.read_submit(told(body, status), SECRET)
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), (code, limited), status)
            self.assertEqual(outcome.error.message, "no")
        self.assertEqual(judging.read_submit(told({"id": 1}, 202), SECRET), {"id": 1})

    def test_a_spent_quota_is_no_rate(self) -> None:
        """Whichever of the two members says so."""
        for codes in ({"over"}, {"quota"}):
            body = {"error": {"message": "no", "code": "over", "type": "quota"}}
            outcome = judging.read_submit(told(body, 429), SECRET, codes)
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.rate_limited), ("provider_failed", False))

    def test_faults(self) -> None:
        """What breaks on the way is told by what it was."""
        for fault, code in (
            (messages.CONNECT_ERROR, "provider_failed"),
            (messages.CONNECTION_LOST, "provider_failed"),
            (messages.TIMEOUT, "provider_timeout"),
            (messages.TOO_LARGE, "provider_bad_answer"),
            (messages.BAD_FRAMING, "provider_bad_answer"),
            (messages.TRUNCATED, "provider_bad_answer"),
        ):
            # A 429 whose body broke is no reason to take it for throttled.
            outcome = judging.read_submit(Answer(429, fault=fault, detail="it broke"), SECRET)
            self.assertEqual(
                outcome, judging.refused(Answer(0, fault=fault, detail="it broke"), "")
            )
            assert isinstance(outcome, Failed)
            self.assertEqual((outcome.error.code, outcome.error.message), (code, "it broke"))
            self.assertFalse(outcome.rate_limited)


class PollTests(SynchronousTestCase):
    def test_outcomes(self) -> None:
        """Which answers tell nothing, and which are the end."""
        for status in (302, 404, 408, 425, 429, 500, 503, 0):
            self.assertIsInstance(judging.read_poll(told({}, status), SECRET), Transient, status)
        for status in (400, 401, 402, 403, 410, 422):
            self.assertIsInstance(judging.read_poll(told({}, status), SECRET), Failed, status)
        for body in (b"", b"[]", b"no json", b"1"):
            self.assertIsInstance(judging.read_poll(Answer(200, {}, body), SECRET), Transient)
        # The body of a final answer broke: nothing is known.
        broken = Answer(401, fault=messages.CONNECTION_LOST, detail="it broke")
        self.assertIsInstance(judging.read_poll(broken, SECRET), Transient)

    def test_it_waits_as_it_is_asked(self) -> None:
        """A throttled poll says how long."""
        outcome = judging.read_poll(told({}, 429, retry_after="7"), SECRET)
        assert isinstance(outcome, Transient)
        self.assertEqual(outcome.wait_seconds, 7.0)


class WaitTests(SynchronousTestCase):
    def test_seconds_dates_and_delays(self) -> None:
        """A minute is the most."""
        now = "Mon, 30 Nov 2026 12:00:00 GMT"
        for headers, seconds in (
            ({}, 0.0),
            ({"retry_after": "30"}, 30.0),
            ({"retry_after": " 1.5 "}, 1.5),
            ({"retry_after": "999"}, 60.0),
            ({"retry_after": "-1"}, 0.0),
            ({"retry_after": "9" * 30}, 0.0),
            ({"retry_after": "soon"}, 0.0),
            ({"retry_after": "Mon, 30 Nov 2026 12:00:10 GMT", "date": now}, 10.0),
            ({"retry_after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": now}, 0.0),
            ({"retry_after": "Mon, 30 Nov 2027 12:00:00 GMT", "date": now}, 60.0),
            ({"retry_after": "Mon, 30 Nov 2026 12:00:10 -0000", "date": now}, 0.0),
            ({"retry_after": "Mon, 30 Nov 2026 12:00:10 GMT"}, 0.0),
        ):
            self.assertEqual(judging.wait_seconds(told({}, 429, **headers)), seconds, headers)
        details: list[object] = [1, {"retryDelay": 5}, {"retryDelay": "x"}, {"retryDelay": "21s"}]
        body = {"error": {"details": details}}
        self.assertEqual(judging.wait_seconds(told(body, 429), body), 21.0)
        self.assertEqual(judging.wait_seconds(told(body, 429, retry_after="3"), body), 3.0)

    @given(asked=st.text(max_size=40), date=st.text(max_size=40))
    def test_any_header(self, asked: str, date: str) -> None:
        """It is a number within bounds."""
        seconds = judging.wait_seconds(Answer(429, {"retry-after": asked, "date": date}))
        self.assertTrue(0 <= seconds <= judging.MAX_WAIT_SECONDS)
