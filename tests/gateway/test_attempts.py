"""The walk over the targets: what outcomes mean, and what the end is."""

import os
import time

import attrs
from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.attempts import (
    USUAL_RETRY_AFTER_SECONDS,
    Verdict,
    Walk,
    judge_status,
    retry_after_seconds,
)

#: 2026-11-29 12:00:00 UTC.
NOON = 1_795_953_600.0


@attrs.frozen
class Target:
    """A target as the walk sees it."""

    upstream_name: str
    model: str = "m"


class StatusTests(SynchronousTestCase):
    def test_verdicts(self) -> None:
        """Rate limits and faults lead on, our own credential's too, anything else is the answer."""
        for verdict, statuses in (
            (Verdict.ANSWER, (200, 201, 204, 301, 304, 400, 402, 404, 408, 409, 413, 422, 499)),
            (Verdict.NEXT, (429, 500, 501, 502, 503, 504, 529, 599)),
            (Verdict.CREDENTIAL, (401, 403)),
        ):
            for status in statuses:
                self.assertEqual(verdict, judge_status(status), status)


class RetryAfterTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """Seconds or a date, in any of the forms of HTTP; anything else is nothing."""
        cases: tuple[tuple[bytes | None, int | None], ...] = (
            (None, None),
            (b"", None),
            (b"0", 0),
            (b"7", 7),
            (b" 7 ", 7),
            (b"007", 7),
            (b"99999999999", None),
            (b"9999999999", 31_536_000),
            (b"-1", None),
            (b"+7", None),
            (b"7.5", None),
            (b"1e3", None),
            (b"soon", None),
            (b"7, 8", None),
            (b"Sun, 29 Nov 2026 12:00:30 GMT", 30),
            (b"Sunday, 29-Nov-26 12:00:30 GMT", 30),
            (b"Sun Nov 29 12:00:30 2026", 30),
            (b"Sun, 29 Nov 2026 11:00:00 GMT", 0),
            (b"Sun, 29 Nov 2026 13:00:30 +0100", 30),
            (b"Fri, 01 Jan 9999 00:00:00 GMT", 31_536_000),
            (b"Sun, 99 Nov 2026 12:00:30 GMT", None),
            (b"Sun, 29 Nov 99999999 12:00:30 GMT", None),
            ("7\u00e9".encode(), None),
            (b"\xff\xfe", None),
        )
        for value, wanted in cases:
            self.assertEqual(wanted, retry_after_seconds(value, NOON), value)

    def test_dates_are_in_gmt(self) -> None:
        """Also on a machine whose clock shows another time, and in forms that do not say so."""
        before = os.environ.get("TZ")

        def put_back() -> None:
            os.environ.pop("TZ", None)
            if before is not None:
                os.environ["TZ"] = before
            time.tzset()

        self.addCleanup(put_back)
        os.environ["TZ"] = "America/New_York"
        time.tzset()
        for date in (
            b"Sun, 29 Nov 2026 12:00:30 GMT",
            b"Sun, 29 Nov 2026 12:00:30 -0000",
            b"Sunday, 29-Nov-26 12:00:30 GMT",
            b"Sun Nov 29 12:00:30 2026",
        ):
            self.assertEqual(30, retry_after_seconds(date, NOON), date)

    def test_rounded_up(self) -> None:
        """Whoever waits for a date does not come back too early."""
        date = b"Sun, 29 Nov 2026 12:00:30 GMT"
        self.assertEqual(30, retry_after_seconds(date, NOON + 0.2))
        self.assertEqual(1, retry_after_seconds(date, NOON + 29.9))


class WalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.walk = Walk([Target("a"), Target("b"), Target("c")])

    def fail(self, *outcomes: tuple[str, int | None]) -> None:  # type: ignore[override]
        """Walk on, each attempt ending like this."""
        for outcome, status in outcomes:
            self.walk.advance()
            self.walk.record(outcome, status, 5)

    def test_order(self) -> None:
        """Each target once, in order; then the end."""
        seen = []
        while (target := self.walk.advance()) is not None:
            seen.append(target.upstream_name)
        self.assertEqual(["a", "b", "c"], seen)
        self.assertIsNone(self.walk.target)
        self.assertIsNone(self.walk.advance())

    def test_doubtful_upstream(self) -> None:
        """An upstream that may be at work on the request is asked under no other name."""
        walk = Walk([Target("a"), Target("a"), Target("b"), Target("a")])
        first = walk.advance()
        assert first is not None
        walk.record("timeout", None, 5)
        walk.doubt()
        second = walk.advance()
        assert second is not None
        self.assertEqual(("a", "b"), (first.upstream_name, second.upstream_name))
        self.assertIsNone(walk.advance())

    def test_one_retry_each(self) -> None:
        """A connection error allows one more try at each target, on a fresh connection."""
        for _ in range(3):
            self.walk.advance()
            self.assertFalse(self.walk.fresh_only)
            self.assertTrue(self.walk.may_retry())
            self.assertTrue(self.walk.fresh_only)
            self.assertFalse(self.walk.may_retry())

    def test_records(self) -> None:
        """Every attempt is written down."""
        self.fail(("timeout", None), ("status_503", 503))
        self.assertEqual(
            [("a", "timeout", None, 5), ("b", "status_503", 503, 5)],
            [(r.upstream, r.outcome, r.status, r.duration_ms) for r in self.walk.records],
        )

    def test_ends(self) -> None:
        """What the client is told in the end depends on what the attempts ended with."""
        auth, limit, down = ("upstream_auth", 401), ("status_429", 429), ("status_500", 500)
        for outcomes, status, code in (
            ((down, down, down), 502, "all_upstreams_failed"),
            ((limit, down, down), 429, "upstream_rate_limited"),
            ((down, auth, limit), 429, "upstream_rate_limited"),
            ((limit, down, auth), 429, "upstream_rate_limited"),
            ((down, down, auth), 502, "upstream_authentication_failed"),
            ((auth, down, down), 502, "all_upstreams_failed"),
            ((auth,), 502, "upstream_authentication_failed"),
        ):
            self.setUp()
            self.fail(*outcomes)
            error = self.walk.end()
            self.assertEqual((status, code), (error.kind.status, error.kind.code), outcomes)
            for record in self.walk.records:
                told = f"{record.upstream}/m: {record.outcome.replace('_', ' ')}"
                self.assertIn(told, error.message)

    def test_longest_wait(self) -> None:
        """The longest wait that a provider asked for is the honest one."""
        for hints, wanted in (
            ((7, 20), 20),
            ((20, 7), 20),
            ((None, 7), 7),
            ((0,), 0),
            ((3600,), 3600),
            ((None,), USUAL_RETRY_AFTER_SECONDS),
        ):
            self.setUp()
            for hint in hints:
                self.fail(("status_429", 429))
                self.walk.hint(hint)
            self.assertEqual(wanted, self.walk.end().retry_after, hints)

    def test_no_wait(self) -> None:
        """Without a rate limit nobody is told when to come back."""
        self.fail(("status_503", 503))
        self.assertIsNone(self.walk.end().retry_after)

    def test_wait_too_long_to_sleep(self) -> None:
        """A wait of more than two minutes goes with the advice not to wait for it."""
        self.fail(("status_429", 429))
        self.walk.hint(121)
        self.assertEqual(
            ((b"retry-after", b"121"), (b"x-should-retry", b"false")),
            self.walk.end().response_headers(),
        )
