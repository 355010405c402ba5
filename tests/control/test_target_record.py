"""How targets fared, as attempts tell it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.config.schema import Config, load_config
from omnigate.control import target_record
from omnigate.control.target_record import (
    ERRORS_KEPT,
    SLOT_MS,
    SLOTS,
    TargetRecords,
)
from omnigate.events import decode_event
from tests.control.plane import CONFIG, START, event

NOW = START * 1000


def attempt(outcome: str = "ok", **members: Any) -> dict[str, Any]:
    return {
        "upstream": "openai",
        "model": "gpt-4o-mini",
        "outcome": outcome,
        "status": 200,
        "duration_ms": 75,
    } | members


def config(models: int = 1) -> Config:
    """A config whose first target is the one of every attempt here."""
    more = "".join(
        f'\n[[routes]]\nmodel = "r{n}"\ntargets = [{{ upstream = "openai", model = "m{n}" }}]'
        for n in range(1, models)
    )
    return load_config(CONFIG + more)


class TargetRecordsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.records = TargetRecords()
        self.records.take(config())

    def tried(self, *attempts: dict[str, Any], now_ms: int = NOW, **members: Any) -> None:
        members = {"ts_ms": now_ms} | members
        self.records.recorded(decode_event(event(attempts=list(attempts), **members)), now_ms)

    def test_shares_and_times(self) -> None:
        self.tried(attempt("timeout"), attempt())
        self.tried(attempt())
        fared = self.records.fared("openai", "gpt-4o-mini", NOW)
        self.assertEqual((2, 1), (fared.answered, fared.failed))
        self.assertEqual(2 / 3, fared.success_share)
        self.assertAlmostEqual(0.075, fared.seconds(0.5) or 0)

    def test_nothing_is_no_share(self) -> None:
        fared = self.records.fared("openai", "gpt-4o-mini", NOW)
        self.assertIsNone(fared.success_share)
        self.assertIsNone(fared.seconds(0.5))

    def test_our_own_endings_are_nobodys_fault(self) -> None:
        self.tried(attempt("canceled"), attempt("no_room"))
        self.assertEqual(0, self.records.fared("openai", "gpt-4o-mini", NOW).attempts)

    def test_answers_that_say_that_the_target_serves_nobody(self) -> None:
        """A model that the provider does not know is no target that is well."""
        for status, is_failure in ((400, 0), (402, 1), (404, 1), (413, 0), (422, 0), (499, 0)):
            records = self.records = TargetRecords()
            records.take(config())
            self.tried(attempt(status=status), id=f"r-{status}", status=status)
            fared = records.fared("openai", "gpt-4o-mini", NOW)
            self.assertEqual((fared.failed, fared.answered), (is_failure, 1 - is_failure), status)
            errors = [error.outcome for error in records.errors("openai")]
            self.assertEqual(errors, [f"status_{status}"] * is_failure)
        # Here it may be an earlier answer that is not known.
        self.tried(attempt(status=404), status=404, endpoint="responses")
        self.assertEqual(2, self.records.fared("openai", "gpt-4o-mini", NOW).answered)

    def test_the_last_error(self) -> None:
        self.tried(attempt("timeout", status=None), id="first")
        self.tried(attempt("status_503", status=503), id="second", now_ms=NOW + 5)
        # One that waited in a spool is not the newest, though it comes last.
        failed = attempt("connect_error", status=None)
        self.tried(failed, id="late", ts_ms=NOW - 5, now_ms=NOW + 5)
        error = self.records.last_error("openai", "gpt-4o-mini")
        assert error is not None
        self.assertEqual(
            ("second", "status_503", "fast"), (error.request_id, error.outcome, error.route)
        )
        ids = [error.request_id for error in self.records.errors("openai")]
        self.assertEqual(["second", "first", "late"], ids)

    def test_the_last_error_when_the_clock_is_set_back(self) -> None:
        self.tried(attempt("timeout", status=None), id="ahead")
        self.tried(attempt("timeout", status=None), id="then", now_ms=NOW - 3_600_000)
        error = self.records.last_error("openai", "gpt-4o-mini")
        self.assertEqual("then", error and error.request_id)

    def test_an_hour_is_kept(self) -> None:
        self.tried(attempt("timeout"))
        later = NOW + (SLOTS - 1) * SLOT_MS
        self.assertEqual(1, self.records.fared("openai", "gpt-4o-mini", later).failed)
        self.assertEqual(0, self.records.fared("openai", "gpt-4o-mini", later, slots=1).failed)
        self.assertEqual(0, self.records.fared("openai", "gpt-4o-mini", later + SLOT_MS).failed)
        # The error can still be looked at.
        self.assertEqual(1, len(self.records.errors("openai")))

    def test_bounds(self) -> None:
        self.patch(target_record, "MAX_TARGETS", 2)
        self.records.take(config(models=5))
        for n in range(1, 5):
            self.tried(attempt("timeout", model=f"m{n}"))
        for _ in range(2 * ERRORS_KEPT):
            self.tried(attempt("timeout", model="m1"))
        self.assertEqual(1, self.records.fared("openai", "m2", NOW).attempts)
        self.assertEqual(0, self.records.fared("openai", "m3", NOW).attempts)
        self.assertEqual(ERRORS_KEPT, len(self.records.errors("openai")))
        for n in range(3 * SLOTS):
            self.tried(attempt(model="m1"), now_ms=NOW + n * SLOT_MS)
        later = NOW + 3 * SLOTS * SLOT_MS
        self.assertEqual(SLOTS - 1, self.records.fared("openai", "m1", later).attempts)

    def test_what_left_the_config_goes(self) -> None:
        self.records.take(config(models=3))
        self.tried(attempt("timeout", model="m1"))
        self.tried(attempt("timeout", model="m2"))
        self.records.take(config(models=2))
        self.records.take(config(models=3))
        self.assertEqual(1, self.records.fared("openai", "m1", NOW).attempts)
        self.assertEqual(0, self.records.fared("openai", "m2", NOW).attempts)
        self.records.take(Config())
        self.assertEqual([], self.records.errors("openai"))

    def test_what_no_config_names_is_not_kept(self) -> None:
        self.tried(attempt("timeout", upstream="elsewhere"))
        self.assertEqual([], self.records.errors("elsewhere"))
        self.assertEqual({}, self.records.upstreams_fared(NOW))

    def test_upstreams(self) -> None:
        self.records.take(config(models=2))
        self.tried(attempt(), attempt("timeout", model="m1"))
        fared = self.records.upstreams_fared(NOW)["openai"]
        self.assertEqual((1, 1), (fared.answered, fared.failed))
