"""What is shown of a job: whatever its client and its provider wrote, bounded and as it is."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.media import (
    MediaConfig,
    MediaPriceConfig,
    MediaRouteConfig,
    MediaTargetConfig,
)
from omnigate.control.dashboard.job_bill import Bill, bill_of
from omnigate.control.dashboard.job_causes import CAUSES, job_cause
from omnigate.control.dashboard.job_view import (
    MAX_JSON_CHARS,
    MAX_OUTPUTS,
    MAX_PICTURES,
    shown,
    view_of,
)
from omnigate.jobs import job as jobs
from omnigate.jobs.job import Attempt, Billable, Job
from omnigate.money import NANO_PER_USD
from tests.control.job_cases import output

NOW = 1_795_982_400_000
TARGET = MediaTargetConfig(
    adapter="replicate",
    model="m",
    base_url="https://api.replicate.com/v1",
    price=MediaPriceConfig(Decimal("0.5"), Decimal("0.25"), Decimal("0.1"), Decimal(20)),
)
MULTIPLIERS = {"quality": {"high": Decimal("1.5")}, "size": {"2": Decimal(3)}}
MEDIA = MediaConfig(routes=(MediaRouteConfig("picture", (TARGET,), price_multipliers=MULTIPLIERS),))
TRIED = Attempt(0, "replicate", "https://api.replicate.com/v1", "m", NOW, NOW + 5, "succeeded")


def done(**members: Any) -> Job:
    found: dict[str, Any] = {
        "model": "picture",
        "status": "succeeded",
        "finished_ms": NOW + 10,
        "attempts": (TRIED,),
        "billable": Billable(characters=1_000_000, milliseconds=2_500, outputs=2),
    }
    return Job(id="job_1", key_sha256="a" * 64, created_ms=NOW, **(found | members))


class ShownTests(SynchronousTestCase):
    """JSON of a client."""

    @given(st.binary(max_size=300))
    def test_any_bytes(self, content: bytes) -> None:
        """No bytes break the page, and none of a short text is kept back but what is no UTF-8."""
        found = shown(content)
        found.text.encode("utf-8")
        self.assertEqual(len(content), found.size)
        self.assertFalse(found.is_cut)

    @given(
        st.recursive(
            st.none() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(st.text(max_size=5), inner, max_size=4)
            ),
            max_leaves=20,
        )
    )
    def test_json_in_lines_is_the_same(self, value: Any) -> None:
        content = msgspec.json.encode(value)
        self.assertEqual(value, json.loads(shown(content).text))

    def test_what_is_long_is_cut(self) -> None:
        for content in (
            b'"' + b"x" * 8_000_000 + b'"',
            ('"' + "\N{PILE OF POO}" * 6_000 + '"').encode(),
            b"[" + b"1," * 4_000 + b"1]",
        ):
            found = shown(content)
            self.assertEqual((True, MAX_JSON_CHARS), (found.is_cut, len(found.text)))
            self.assertEqual(len(content), found.size)

    def test_what_is_deep_stays_as_it_was_sent(self) -> None:
        """With each level its lines would begin further to the right."""
        content = b"[" * 1_500 + b"]" * 1_500
        self.assertEqual(content.decode(), shown(content).text)


class BillTests(SynchronousTestCase):
    """How a cost came about."""

    def bill(self, cost_nano: int, input: dict[str, Any] | None, **members: Any) -> Bill:
        return bill_of(done(cost_nano=cost_nano, **members), MEDIA, input)

    def test_each_part(self) -> None:
        found = self.bill(int(21.25 * NANO_PER_USD), {})
        self.assertEqual(
            [("1", "0.5"), ("2", "0.5"), ("2.5", "0.25"), ("1,000,000", "20")],
            [(line.count, line.amount) for line in found.lines],
        )
        self.assertEqual(("21.25", "", False), (found.total, found.remark, found.is_other))

    def test_factors(self) -> None:
        found = self.bill(int(95.625 * NANO_PER_USD), {"quality": "high", "size": 2, "x": 1})
        self.assertEqual(("quality = high: × 1.5", "size = 2: × 3"), found.factors)
        self.assertEqual(("95.625", False), (found.total, found.is_other))

    def test_an_input_that_is_not_at_hand(self) -> None:
        found = self.bill(1, None)
        self.assertTrue(found.is_other)
        self.assertIn("without the factors of the input", found.remark)

    def test_why_there_are_no_lines(self) -> None:
        for members, words in (
            ({"status": "running"}, "billed when it ends"),
            ({"cached_from": "job_0"}, "costs nothing"),
            ({"billable": None}, "nothing was spent"),
            ({"model": "gone"}, "no price for this target"),
        ):
            found = self.bill(0, {}, **members)
            self.assertEqual((), found.lines)
            self.assertIn(words, found.remark)


class ViewTests(SynchronousTestCase):
    """One job."""

    def test_many_pictures(self) -> None:
        """Some are shown, and the others are named."""
        view = view_of(done(outputs=(output(),) * (MAX_OUTPUTS + 2)), b"{}", {}, MEDIA, NOW)
        self.assertEqual(MAX_OUTPUTS, len(view.outputs))
        self.assertEqual(2, view.more_outputs)
        self.assertEqual(MAX_PICTURES, sum(each.is_picture for each in view.outputs))

    def test_what_is_no_picture_of_ours(self) -> None:
        for members in (
            {"storage": "s3"},
            {"encrypted": True},
            {"content_type": "image/svg+xml"},
            {"size": 100_000_000},
        ):
            (found,) = view_of(done(outputs=(output(**members),)), b"{}", {}, MEDIA, NOW).outputs
            self.assertFalse(found.is_picture, members)

    def test_a_clock_that_was_set_back(self) -> None:
        """No time is less than none."""
        job = done(started_ms=NOW - 5_000, finished_ms=NOW - 9_000)
        view = view_of(job, b"{}", {}, MEDIA, NOW - 20_000)
        self.assertEqual((0, 0, 0), (view.row.took_ms, view.waited_ms, view.ran_ms))

    def test_every_code_has_words(self) -> None:
        for code in (jobs.PROVIDER_RATE_LIMITED, jobs.STORAGE_FAILED, jobs.CANCELED_ERROR):
            self.assertIn(code, CAUSES)
        self.assertEqual("a new one", job_cause("a_new_one").title)
