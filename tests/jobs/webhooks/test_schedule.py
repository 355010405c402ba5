"""When webhooks are sent, and what answers mean."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.job import DELIVERED, GIVEN_UP, PENDING, Webhook
from omnigate.jobs.webhooks.schedule import (
    DELAYS_MS,
    MAX_ERROR_CHARS,
    MAX_RETRY_AFTER_MS,
    armed,
    begun,
    delay_ms,
    ended,
    given_up,
    judge,
    retry_after_ms,
)
from omnigate.outbound.messages import (
    CONNECT_ERROR,
    CONNECTION_LOST,
    REFUSED,
    TIMEOUT,
    TOO_LARGE,
    Answer,
)
from tests.jobs.webhooks.test_signing import VECTORS

NOW = 1_793_527_210_000
MIDDLE = 0.5


def after(answer: Answer, webhook: Webhook, max_attempts: int = 8) -> Webhook:
    """The webhook after one attempt that is answered so."""
    started = begun(webhook, NOW, max_attempts, MIDDLE)
    assert started is not None
    return ended(started, judge(answer, NOW), NOW, max_attempts, MIDDLE)


class DelayTests(SynchronousTestCase):
    def test_the_schedule(self) -> None:
        """At once, 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 hours, counted one by one."""
        seconds = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
        self.assertEqual([n * 1_000 for n in seconds], list(DELAYS_MS))
        self.assertEqual(list(DELAYS_MS), [delay_ms(n, MIDDLE) for n in range(10)])
        self.assertEqual(86_400_000, delay_ms(50, MIDDLE))

    @given(st.integers(0, 20), st.floats(0, 1))
    def test_jitter(self, attempts: int, fraction: float) -> None:
        """A delay is off by a fifth at most."""
        plain = delay_ms(attempts, MIDDLE)
        self.assertTrue(0.8 * plain - 1 <= delay_ms(attempts, fraction) <= 1.2 * plain + 1)

    def test_jitter_uses_its_room(self) -> None:
        """The bounds are reached."""
        self.assertEqual((4_000, 6_000), (delay_ms(1, 0), delay_ms(1, 1)))


class RetryAfterTests(SynchronousTestCase):
    def test_seconds_and_dates(self) -> None:
        """Seconds, or a date in each of the three forms of HTTP; at most a day."""
        cases = {
            "120": 120_000,
            " 7 ": 7_000,
            "0": 0,
            "86400": MAX_RETRY_AFTER_MS,
            "86401": MAX_RETRY_AFTER_MS,
            "9" * 5_000: MAX_RETRY_AFTER_MS,
            "Sun, 01 Nov 2026 10:02:10 GMT": 120_000,
            "Sunday, 01-Nov-26 10:02:10 GMT": 120_000,
            "Sun Nov  1 10:02:10 2026": 120_000,
            "Sun, 01 Nov 2026 09:00:00 GMT": 0,
            "Fri, 01 Jan 2100 00:00:00 GMT": MAX_RETRY_AFTER_MS,
        }
        for text, expected in cases.items():
            self.assertEqual(expected, retry_after_ms(text, NOW), text[:40])

    def test_what_counts_for_nothing(self) -> None:
        """Anything else is as if it were not there."""
        for text in (None, "", "+5", "-5", "1_0", "5.0", "\u0665", "soon", "x" * 100_000):
            self.assertEqual(0, retry_after_ms(text, NOW), (text or "")[:40])

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """Whatever stands there, it is between nothing and a day."""
        self.assertTrue(0 <= retry_after_ms(text, NOW) <= MAX_RETRY_AFTER_MS)


class OutcomeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fresh = armed(Webhook("https://hooks.example"), NOW)

    def test_golden(self) -> None:
        """Each answer of the golden cases has the result that stands there."""
        cases: list[dict[str, Any]] = json.loads(VECTORS.read_text("utf-8"))["outcomes"]
        self.assertEqual(10, len(cases))
        for case in cases:
            given = case["answer"]
            fault = TIMEOUT if "fault" in given else ""
            if given.get("body_bytes", 0) > 16_384:
                fault = TOO_LARGE
            texts = {name: value for name, value in given.items() if isinstance(value, str)}
            answer = Answer(given.get("status", 0), texts, fault=fault)
            hook, result = after(answer, self.fresh), case["result"]
            if result.startswith("delivered"):
                self.assertEqual((DELIVERED, ""), (hook.state, hook.last_error))
            elif "no more attempts" in result:
                self.assertEqual((GIVEN_UP, 0), (hook.state, hook.next_ms))
            else:
                wait = 120_000 if "120 s" in result else 5_000
                self.assertEqual((PENDING, NOW + wait), (hook.state, hook.next_ms), case)
                self.assertTrue(hook.last_error)
            self.assertEqual(given.get("status", 0), hook.last_status)

    def test_the_longer_wait_wins(self) -> None:
        """A ``retry-after`` that is shorter than the delay changes nothing."""
        answer = Answer(503, {"retry-after": "2"})
        self.assertEqual(NOW + 5_000, after(answer, self.fresh).next_ms)

    def test_faults(self) -> None:
        """Without a status it failed, with the reason in words."""
        for fault in (CONNECT_ERROR, CONNECTION_LOST, TIMEOUT, REFUSED, "unheard of", ""):
            verdict = judge(Answer(0, fault=fault), NOW)
            self.assertEqual(("failed", fault == REFUSED), (verdict.kind, verdict.refused))
            self.assertTrue(verdict.error)

    def test_words_of_others(self) -> None:
        """What a fault says is one line of bounded length; what a receiver says is not told."""
        error = judge(Answer(0, fault=CONNECT_ERROR, detail="no\nroute" + "x" * 999), NOW).error
        self.assertEqual("no\\nroute", error[:9])
        self.assertEqual(MAX_ERROR_CHARS, len(error))
        self.assertNotIn("secret", judge(Answer(500, body=b"secret"), NOW).error)

    def test_max_attempts(self) -> None:
        """After so many requests it is given up, and none more is begun."""
        for most in (1, 3, 8, 10):
            hook = self.fresh
            for n in range(1, most + 1):
                hook = after(Answer(500), hook, most)
                self.assertEqual(n, hook.attempts)
            self.assertEqual((GIVEN_UP, 0), (hook.state, hook.next_ms))
            self.assertIs(None, begun(hook, NOW, most, MIDDLE))

    def test_a_lowered_bound(self) -> None:
        """One with as many attempts as the config allows by now begins none."""
        hook = after(Answer(500), after(Answer(500), self.fresh))
        self.assertIs(None, begun(hook, NOW, 2, MIDDLE))
        self.assertEqual((GIVEN_UP, 0), (given_up(hook).state, given_up(hook).next_ms))

    def test_what_is_written_before(self) -> None:
        """An attempt that is cut off has been counted, and the next one is due by the schedule."""
        hook = begun(self.fresh, NOW, 8, MIDDLE)
        assert hook is not None
        self.assertEqual((PENDING, 1, NOW + 5_000), (hook.state, hook.attempts, hook.next_ms))
        self.assertEqual(NOW, hook.last_ms)

    def test_by_hand(self) -> None:
        """One that was given up is sent once more, and stays given up if that fails."""
        hook = self.fresh
        for _ in range(3):
            hook = after(Answer(500), hook, 3)
        more = begun(hook, NOW, 3, MIDDLE, by_hand=True)
        assert more is not None
        self.assertEqual((GIVEN_UP, 4), (more.state, more.attempts))
        failed = ended(more, judge(Answer(500), NOW), NOW, 3, MIDDLE)
        self.assertEqual((GIVEN_UP, 4, 0), (failed.state, failed.attempts, failed.next_ms))
        self.assertEqual(DELIVERED, ended(more, judge(Answer(200), NOW), NOW, 3, MIDDLE).state)
