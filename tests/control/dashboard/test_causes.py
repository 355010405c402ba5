"""Words for every end that a request or an attempt can have."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.dashboard.causes import ATTEMPTS, attempt_cause, request_cause, status_name
from omnigate.events import AttemptRecord


class AttemptTests(SynchronousTestCase):
    """Why an attempt ended."""

    def test_every_outcome_has_words(self) -> None:
        """All that an event may say, as its class lists them."""
        listed = set(re.findall(r"``([a-z_0-9]+)``", AttemptRecord.__doc__ or ""))
        listed -= {"status_429"}
        self.assertEqual(set(ATTEMPTS), listed)
        for outcome, cause in ATTEMPTS.items():
            self.assertRegex(cause.meaning, r"^[A-Z][^!]+\.$", outcome)
            self.assertRegex(cause.remedy or "Nothing.", r"^[A-Z][^!]+\.$", outcome)

    def test_statuses(self) -> None:
        self.assertIn("rate limit", attempt_cause("status_429").meaning)
        self.assertEqual(attempt_cause("status_503").title, "503 from the provider")
        self.assertIn("refused", attempt_cause("status_418").meaning)

    @given(st.text(max_size=40) | st.from_regex(r"status_.{0,5}"))
    def test_anything_else(self, outcome: str) -> None:
        """A word of a later version is shown as it is."""
        self.assertTrue(attempt_cause(outcome).meaning)


class RequestTests(SynchronousTestCase):
    """Why a request ended."""

    def words(self, status: int, *outcomes: str, answered: bool = False) -> str:
        cause = request_cause(
            status, answered=answered, cached=False, estimated=False, outcomes=outcomes
        )
        return f"{cause.title}: {cause.meaning} {cause.remedy}"

    def test_ends(self) -> None:
        """Whose doing it was."""
        self.assertIn("client closed", self.words(499, "canceled"))
        self.assertIn("client closed", self.words(499, "ok", answered=True))
        self.assertIn("client saw it break: cut off", self.words(499, "truncated", answered=True))
        self.assertIn("by the provider", self.words(400, "ok", answered=True))
        self.assertIn("rate limit", self.words(429, "status_429", "timeout"))
        self.assertIn("every target failed", self.words(502, "timeout"))
        self.assertIn("api_key_env", self.words(502, "upstream_auth"))
        self.assertIn("no room", self.words(503, "no_room", answered=True))
        self.assertIn("2 attempts that failed", self.words(200, "timeout", "timeout", "ok"))

    def test_a_status_of_the_provider(self) -> None:
        """What a provider sent is told as that, also where it is our word for something else."""
        for status in (400, 404, 422, 499):
            cause = request_cause(
                status,
                answered=True,
                cached=False,
                estimated=False,
                outcomes=["ok"],
                provider_status=status,
            )
            self.assertRegex(cause.title, f"^{status}.*, by the provider$")
            attempt = attempt_cause("ok", status)
            self.assertEqual((attempt.title, attempt.kind), (f"{status} from the provider", "warn"))
        self.assertEqual(attempt_cause("ok", 200), ATTEMPTS["ok"])
        self.assertEqual(attempt_cause("truncated", 200), ATTEMPTS["truncated"])
        self.assertEqual([status_name(499), status_name(499, 499)], ["499 broken off", "499"])

    @given(
        st.integers(0, 999),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.lists(st.sampled_from([*ATTEMPTS, "status_500", "what"]), max_size=4),
    )
    def test_any(
        self, status: int, answered: bool, cached: bool, estimated: bool, outcomes: list[str]
    ) -> None:
        """There are words for whatever stands in a ledger."""
        cause = request_cause(
            status, answered=answered, cached=cached, estimated=estimated, outcomes=outcomes
        )
        self.assertTrue(cause.title and cause.meaning)
        self.assertTrue(status_name(status))
