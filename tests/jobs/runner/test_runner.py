"""Tests for omnigate.jobs.runner, and with it for job_life and attempting."""

from decimal import Decimal
from typing import Any
from weakref import ref

import attrs
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from omnigate.errors import GatewayError
from omnigate.jobs import debts
from omnigate.jobs.job import (
    OUTPUT_REFUSED,
    PROVIDER_TIMEOUT,
    STORAGE_FAILED,
    Attempt,
    Job,
    JobError,
)
from omnigate.money import NANO_PER_USD
from tests.jobs.runner.runner_case import OutputFault, RunnerCase, target, webhook


class LargeInput(dict[str, Any]):
    """An input of which one can tell whether somebody holds it."""


class LifeTests(RunnerCase):
    """From the submit to the end."""

    def test_a_job_is_submitted_polled_stored_and_billed(self) -> None:
        """Each step is on the disk before the next; the end is one change; then the ledger."""
        self.says("accepted p1", "running", "done 2")
        job = self.new_job(webhook=webhook())
        self.assertEqual(self.provider.heard, ["words.example/submit"])
        self.assertEqual((job.status, job.provider_job_id), ("running", "p1"))
        self.wait()
        self.wait()
        job = self.job(job)
        self.assertEqual(job.status, "succeeded")
        self.assertEqual(job.cost_nano, 5 * NANO_PER_USD)
        self.assertEqual([len(job.outputs), job.provider_ms], [2, 2000])
        fields = [sorted(fields) for _, fields in self.shelf.lines]
        self.assertEqual(fields[1], ["provider_job_id", "provider_notes"])
        self.assertTrue(
            {"status", "outputs", "cost_nano", "cost_owed", "webhook"} <= set(fields[2])
        )
        self.assertEqual(self.shelf.lines[3:], [(job.id, {"cost_owed": False})])
        assert job.webhook is not None
        self.assertEqual(job.webhook.state, "pending")
        self.assertEqual([each.id for each in self.finished], [job.id])
        self.assertEqual(self.cellar.cleared, [job.id])
        priced = self.books.events[job.id]
        self.assertEqual(priced.cost_nano, job.cost_nano)
        self.assertEqual((priced.event.upstream, priced.event.status), ("replicate", 200))

    def test_one_call_is_enough_where_the_answer_holds_the_outputs(self) -> None:
        """Nothing is polled then."""
        self.says("done 1")
        job = self.new_job()
        self.assertEqual((job.status, self.outcomes(job)), ("succeeded", ["succeeded"]))
        self.assertEqual(len(self.provider.heard), 1)

    def test_the_next_target_is_tried_after_a_refusal(self) -> None:
        """What came to nothing stays in the record, and costs nothing."""
        self.use(target("one"), target("two"))
        self.says("limited", "done 1")
        job = self.new_job()
        self.assertEqual(self.outcomes(job), ["rate_limited", "succeeded"])
        self.assertEqual(self.provider.heard, ["one/submit", "two/submit"])
        self.assertEqual(job.cost_nano, 3 * NANO_PER_USD)

    def test_a_job_fails_with_the_last_error(self) -> None:
        """There is an event of it, with no upstream and no cost."""
        self.use(target("one"), target("two"))
        self.says("no", "limited")
        job = self.new_job()
        self.assertEqual((job.status, self.outcomes(job)), ("failed", ["failed", "rate_limited"]))
        assert job.error is not None
        self.assertEqual(job.error.message, "slow down")
        event = self.books.events[job.id].event
        self.assertEqual((event.upstream, event.status), (None, 502))
        self.assertEqual(self.books.events[job.id].cost_nano, 0)
        self.assertEqual([each.outcome for each in event.attempts][1:], ["rate_limited"])

    def test_two_targets_that_are_alike_are_both_tried(self) -> None:
        """They may differ in their key."""
        self.use(target(), target())
        self.says("no", "done 1")
        self.assertEqual(self.outcomes(self.new_job()), ["failed", "succeeded"])

    def test_a_poll_waits_as_long_as_the_provider_asks(self) -> None:
        """A minute at most."""
        self.says("accepted p1", "running 30", "running 3600", "done 1")
        job = self.new_job()
        self.wait(2)
        self.wait(29)
        self.assertEqual(len(self.provider.heard), 2)
        self.wait(1)
        self.assertEqual(len(self.provider.heard), 3)
        self.wait(60)
        self.assertEqual(self.job(job).status, "succeeded")

    def test_four_bad_polls_are_borne_and_five_are_not(self) -> None:
        """Any good answer begins the count anew."""
        self.use(target("one"), target("two"))
        self.says("accepted p1", *["junk"] * 4, "running", *["junk"] * 4, "running")
        job = self.new_job()
        for _ in range(10):
            self.wait()
        self.assertEqual(self.outcomes(job), [""])
        self.says(*["junk"] * 5, "done 1")
        for _ in range(5):
            self.wait()
        self.assertEqual(self.outcomes(job), ["failed", "succeeded"])
        self.assertNotIn("one/cancel p1", self.provider.heard)

    def test_junk_for_ever_ends(self) -> None:
        """So does a fault of the adapter in reading it."""
        self.provider.words.append("accepted p1")
        job = self.new_job()
        self.provider.always = "broken"
        for _ in range(5):
            self.wait()
        self.assertEqual(self.job(job).status, "failed")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 5)

    def test_the_time_of_the_route_abandons_a_target(self) -> None:
        """The provider is told to stop, and the next one gets its own time."""
        self.use(target("one"), target("two"), timeout_s=10)
        self.says("accepted p1", *["running"] * 4, "late", "accepted p2")
        job = self.new_job()
        for _ in range(5):
            self.wait()
        self.assertEqual(self.provider.heard[-2:], ["one/cancel p1", "two/submit"])
        job = self.job(job)
        assert job.attempts[0].error is not None
        self.assertEqual(job.attempts[0].error.code, PROVIDER_TIMEOUT)
        self.assertEqual(job.attempts[0].error.message, "no result within 10 seconds")
        self.assertEqual(job.provider_job_id, "p2")

    def test_a_submit_that_hangs_is_cut(self) -> None:
        """One connection cannot hold a job for longer than its route's time."""
        self.use(timeout_s=10)
        job = self.new_job()
        self.wait(10)
        self.assertEqual((self.job(job).status, self.provider.cut), ("failed", 1))

    def test_a_poll_that_hangs_is_cut_too(self) -> None:
        """A farewell is sent all the same."""
        self.use(timeout_s=10)
        self.says("accepted p1")
        job = self.new_job()
        self.wait(2)
        self.says("stopped")
        self.wait(8)
        self.assertEqual(self.provider.cut, 1)
        self.assertEqual(self.provider.heard[-1], "words.example/cancel p1")
        self.assertEqual(self.job(job).status, "failed")

    def test_outputs_that_cannot_be_had_abandon_the_target(self) -> None:
        """They are the provider's fault."""
        self.use(target("one"), target("two"))
        self.cellar.fault = OutputFault(OUTPUT_REFUSED, "address not allowed")
        self.says("done 1", "done 1")
        self.assertEqual(self.outcomes(self.new_job()), ["failed", "succeeded"])

    def test_where_nothing_can_be_kept_jobs_fail_before_they_are_paid(self) -> None:
        """What is known to be lost is not asked for."""
        self.cellar.why_unready = "there is no such bucket"
        job = self.job(self.new_job())
        assert job.error is not None
        self.assertEqual((job.status, job.error.code), ("failed", STORAGE_FAILED))
        self.assertNotIn("bucket", job.error.message)
        self.assertEqual((job.cost_nano, self.provider.heard), (0, []))
        tried = Attempt(0, "replicate", "https://words.example", "acme/words", self.now_ms())
        resumed = self.job(self.new_job(status="running", target=0, attempts=(tried,)))
        self.assertEqual((resumed.status, self.provider.heard), ("failed", []))
        self.says("done 1")
        begun = self.new_job(status="running", target=0, attempts=(tried,), provider_job_id="p1")
        self.wait()
        self.assertEqual(self.job(begun).status, "succeeded")
        self.cellar.why_unready = ""
        self.says("done 1")
        self.assertEqual(self.job(self.new_job()).status, "succeeded")

    def test_what_can_be_kept_is_found_out_first(self) -> None:
        """A job waits for that, and may be canceled meanwhile."""
        self.cellar.why_unready = None
        first, second, third = self.new_job(), self.new_job(), self.new_job()
        self.wait()
        self.assertEqual(self.provider.heard, [])
        self.cancel(second)
        self.assertEqual(self.job(second).status, "canceled")
        self.says("done 1", "done 1")
        self.cellar.why_unready = ""
        self.wait()
        for job in (first, third):
            self.assertEqual(self.job(job).status, "succeeded")

    def test_our_own_storage_fails_the_job_and_the_provider_is_paid(self) -> None:
        """No other provider is asked, for its files would meet the same disk."""
        self.use(target("one"), target("two"))
        self.cellar.fault = OutputFault(STORAGE_FAILED, "the disk is full", is_ours=True)
        self.says("done 2")
        job = self.new_job()
        self.assertEqual((job.status, self.outcomes(job)), ("failed", ["failed"]))
        self.assertEqual(job.cost_nano, 5 * NANO_PER_USD)
        event = self.books.events[job.id].event
        self.assertEqual((event.upstream, event.status), ("replicate", 502))

    def test_a_key_that_is_gone_at_the_end(self) -> None:
        """Whom its outputs were to be encrypted for is gone with it, so none is kept in clear."""
        self.use(target("one"), target("two"))
        self.recipients = None
        self.says("done 2")
        job = self.new_job()
        assert job.error is not None
        self.assertEqual((job.status, job.error.code), ("failed", STORAGE_FAILED))
        self.assertEqual([], self.cellar.stored)
        self.assertEqual(self.outcomes(job), ["failed"])
        self.assertEqual(self.books.events[job.id].event.status, 502)

    def test_media_in_an_answer_that_the_disk_does_not_take(self) -> None:
        """So it is where the answer itself holds what was made."""
        self.use(target("one"), target("two"))
        self.says("not kept")
        job = self.new_job()
        self.assertEqual((job.status, self.outcomes(job)), ("failed", ["failed"]))
        words = "the output could not be kept: no space left on device"
        expected = JobError(STORAGE_FAILED, words)
        self.assertEqual((job.error, job.attempts[-1].error), (expected, expected))
        self.assertEqual(job.cost_nano, NANO_PER_USD)
        self.assertEqual(self.provider.heard, ["one/submit"])

    def test_media_in_the_answer_to_a_poll(self) -> None:
        """It is asked for again as long as a bad poll is, for the disk may have room by then."""
        self.use(target("one"), target("two"))
        self.says("accepted p1", *["not kept"] * 4, "done 1")
        job = self.new_job()
        for _ in range(5):
            self.wait()
        self.assertEqual(self.outcomes(job), ["succeeded"])
        self.says("accepted p2", *["not kept"] * 5)
        job = self.new_job()
        for _ in range(5):
            self.wait()
        job = self.job(job)
        assert job.error is not None
        self.assertEqual((job.status, job.error.code), ("failed", STORAGE_FAILED))
        self.assertEqual(job.cost_nano, NANO_PER_USD)
        # It is done there: nothing is to be stopped.
        self.assertEqual(self.provider.heard[-1], "one/poll p2")

    def test_what_the_disk_does_not_take_after_a_cancel(self) -> None:
        """It is canceled, and paid."""
        job = self.new_job()
        self.cancel(job)
        self.provider.say("not kept")
        self.turn()
        job = self.job(job)
        self.assertEqual((job.status, job.cost_nano), ("canceled", NANO_PER_USD))

    def test_a_job_without_a_route_fails(self) -> None:
        """It was made under another config."""
        job = self.new_job(model="gone")
        assert job.error is not None
        self.assertEqual((job.status, job.attempts), ("failed", ()))
        self.assertIn("no such media route", job.error.message)

    def test_a_key_that_was_changed_is_used_at_the_next_poll(self) -> None:
        """As is another interval; the price stays that of the submit."""
        self.says("accepted p1", "running", "done 1")
        job = self.new_job()
        self.secret = "secret-2"
        self.use(target(price=None))
        self.wait()
        self.assertEqual(self.provider.credentials, ["secret-1", "secret-2"])
        self.wait()
        self.assertEqual(self.job(job).cost_nano, 3 * NANO_PER_USD)

    def test_a_target_that_leaves_the_config_is_polled_to_its_end(self) -> None:
        """What was submitted is paid for."""
        self.says("accepted p1", "done 1")
        job = self.new_job()
        self.use(target("elsewhere"))
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_a_target_that_cannot_be_sent_the_input_is_passed_over(self) -> None:
        """It came into the config after the job was made."""
        self.use(target(model="acme/picky"), target(model="acme/broken"), target())
        self.says("done 1")
        job = self.new_job()
        self.assertEqual(self.outcomes(job), ["failed", "failed", "succeeded"])
        errors = [attempt.error and attempt.error.message for attempt in job.attempts]
        self.assertEqual(errors[0], "input.prompt: is too long for this")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual(len(self.provider.heard), 1)

    def test_an_input_is_not_held_while_a_job_is_polled(self) -> None:
        """It may have megabytes, and there may be hundreds of such jobs."""
        held: list[ref[LargeInput]] = []

        async def input_of(job: Job) -> dict[str, Any]:
            found = LargeInput(job.input or {})
            held.append(ref(found))
            return found

        self.patch(self.shelf, "input_of", input_of)
        self.says("accepted p1", "running", "done 1")
        job = self.new_job()
        self.wait()
        self.assertEqual([found() for found in held], [None])
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_what_was_submitted_is_not_judged_again(self) -> None:
        """It is polled, whatever the adapter would say of it now."""
        self.use(target(model="acme/picky"))
        job = self.made_job(status="running", provider_job_id="p1")
        attempt = Attempt(0, "replicate", "https://words.example", "acme/picky", self.now_ms())
        self.shelf.put(replace(job, attempts=(attempt,)))
        self.wait(60)
        self.says("done 1")
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_factors_and_characters_count(self) -> None:
        """By what the adapter says that it sent."""
        self.use(
            price_multipliers={"prompt": {"a fox": Decimal("2")}},
        )
        self.says("done 1")
        job = self.new_job()
        self.assertEqual(job.cost_nano, 6 * NANO_PER_USD)
        assert job.billable is not None
        self.assertEqual(job.billable.characters, 5)


class StoreTests(RunnerCase):
    """A disk that refuses, and a ledger that is not there."""

    def test_an_id_that_cannot_be_written_is_not_polled_and_not_lost(self) -> None:
        """The job goes on once the disk takes it; nobody is paid twice."""
        job = self.new_job()
        self.shelf.refusals = 3
        self.provider.say("accepted p1")
        self.turn()
        self.assertEqual(self.job(job).provider_job_id, "")
        for seconds in (1, 2, 5):
            self.wait(seconds)
        self.assertEqual(self.job(job).provider_job_id, "p1")
        self.says("done 1")
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")
        self.assertEqual(self.provider.heard.count("words.example/submit"), 1)

    def test_nothing_is_submitted_before_the_target_is_written(self) -> None:
        """However long that takes."""
        self.shelf.refusals = 20
        job = self.new_job()
        for _ in range(10):
            self.wait(30)
        self.assertEqual((self.provider.heard, self.job(job).status), ([], "queued"))
        self.shelf.refusals = 0
        self.says("done 1")
        self.wait(30)
        self.assertEqual(self.job(job).status, "succeeded")

    def test_an_end_that_cannot_be_written_is_written_later_and_once(self) -> None:
        """With all that belongs to it."""
        job = self.new_job()
        self.shelf.refusals = 2
        self.provider.say("done 1")
        self.turn()
        self.assertEqual((self.job(job).status, self.finished), ("running", []))
        self.wait(1)
        self.wait(2)
        self.assertEqual(self.job(job).status, "succeeded")
        self.assertEqual(len(self.finished), 1)

    def test_a_ledger_that_is_down_gets_the_cost_within_a_minute(self) -> None:
        """And once."""
        self.books.refusals = 1
        self.says("done 1")
        job = self.new_job()
        self.assertEqual((self.job(job).cost_owed, self.books.events), (True, {}))
        self.wait(60)
        self.assertFalse(self.job(job).cost_owed)
        self.wait(60)
        self.assertEqual(self.books.told, 1)

    def test_what_the_ledger_has_is_not_told_again(self) -> None:
        """However long the store cannot note it: the ledger forgets ids after some days."""
        self.says("done 1")
        job = self.made_job()
        change, full = self.shelf.change, True

        async def changed(job_id: str, **fields: Any) -> Job:
            if full and "cost_owed" in fields and "status" not in fields:
                raise GatewayError("storage_unavailable", "the disk is full")
            return await change(job_id, **fields)

        self.patch(self.shelf, "change", changed)
        self.runner.run(job)
        self.wait(60)
        self.wait(60)
        self.assertEqual((self.job(job).cost_owed, self.books.told), (True, 1))
        full = False
        self.wait(60)
        self.assertEqual((self.job(job).cost_owed, self.books.told), (False, 1))

    def test_many_that_owe_are_looked_at_some_at_a_time(self) -> None:
        """A receiver that is down leaves a hundred thousand, of which few owe a cost."""
        self.patch(debts, "STEP", 3)
        jobs = [self.made_job(status="failed", cost_owed=True) for _ in range(7)]
        self.shelf.looks.clear()
        self.wait(60)
        self.assertEqual([self.job(job).cost_owed for job in jobs], [False] * 7)
        self.assertEqual(self.shelf.looks, [3, 3, 1, 0])

    def test_a_crash_between_ledger_and_mark_tells_it_again(self) -> None:
        """The ledger knows the id."""
        self.says("done 1")
        job = self.new_job()
        self.shelf.put(replace(self.job(job), cost_owed=True))
        self.restart()
        self.assertFalse(self.job(job).cost_owed)
        self.assertEqual((self.books.told, len(self.books.events)), (2, 1))

    def test_a_fault_of_this_program_fails_the_job(self) -> None:
        """It does not stay without an end."""
        self.cellar.fault = KeyError("nobody thought of that")
        self.says("done 1")
        job = self.new_job()
        assert job.error is not None
        self.assertEqual((job.status, job.error.code), ("failed", STORAGE_FAILED))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)


class FaultTests(RunnerCase):
    """Faults of this program that nobody has thought of."""

    def break_changes(self, *broken: str) -> Any:
        """Have the store fail at changes of some field, in a way that it never does."""
        change = self.shelf.change

        async def breaking(job_id: str, **fields: Any) -> Job:
            if any(name in fields for name in broken):
                raise KeyError("nobody thought of that")
            return await change(job_id, **fields)

        return self.patch(self.shelf, "change", breaking)

    def test_what_cannot_be_ended_is_not_submitted_each_minute(self) -> None:
        """It is left until a restart, since nobody knows what was paid for."""
        job = self.new_job()
        patch = self.break_changes("finished_ms")
        self.provider.say("done 1")
        self.turn()
        for _ in range(3):
            self.wait(60)
        self.assertEqual(self.provider.heard, ["words.example/submit"])
        self.assertEqual((self.job(job).status, self.runner.running), ("running", 0))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 2)
        patch.restore()
        self.says("done 1")
        self.restart()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_what_has_an_id_is_polled_again(self) -> None:
        """That costs nothing."""
        self.says("accepted p1", "done 1")
        job = self.new_job()
        patch = self.break_changes("finished_ms")
        self.wait()
        self.assertEqual(self.job(job).status, "running")
        self.flushLoggedErrors(KeyError)
        patch.restore()
        self.says("done 1")
        self.wait(60)
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")
        self.assertEqual(self.provider.heard.count("words.example/submit"), 1)


class CancelTests(RunnerCase):
    """The client does not want it any more."""

    def test_a_job_that_waits_is_canceled_at_once(self) -> None:
        """It has used nothing, and there is no event of it."""
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        first, second = self.new_job(), self.new_job()
        self.assertEqual(second.status, "queued")
        self.assertEqual(self.cancel(second).status, "canceled")
        self.provider.say("done 1")
        self.turn()
        self.assertEqual(self.job(first).status, "succeeded")
        self.assertEqual(list(self.books.events), [first.id])
        self.assertEqual(len(self.provider.heard), 1)

    def test_a_provider_that_stops_ends_it_for_free(self) -> None:
        """The wish is on the disk before the provider hears of it."""
        self.says("accepted p1", "stopped")
        job = self.cancel(self.new_job())
        self.assertEqual((job.status, self.outcomes(job)), ("canceled", ["canceled"]))
        self.assertEqual((job.cost_nano, job.error), (0, None))
        self.assertEqual(
            [fields for _, fields in self.shelf.lines][2], {"cancel_ms": job.cancel_ms}
        )
        self.assertEqual(self.books.events[job.id].event.status, 499)

    def test_too_late_goes_on_to_succeed(self) -> None:
        """The next poll comes at once."""
        self.says("accepted p1", "late", "done 1")
        job = self.cancel(self.new_job())
        self.assertEqual((job.status, bool(job.cancel_ms)), ("succeeded", True))

    def test_where_nobody_can_tell_one_poll_decides(self) -> None:
        """And it may go on."""
        self.says("accepted p1", "unclear", "running", "done 1")
        job = self.cancel(self.new_job())
        self.assertEqual(job.status, "running")
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_a_second_cancel_asks_the_provider_again(self) -> None:
        """While the first came to nothing; the time of the first stays."""
        self.says("accepted p1", "unclear", "running", "stopped")
        job = self.cancel(self.new_job())
        first_ms = job.cancel_ms
        self.clock.advance(1)
        job = self.cancel(job)
        self.assertEqual((job.status, job.cancel_ms), ("canceled", first_ms))

    def test_two_cancels_at_once_are_one(self) -> None:
        """Nobody is told twice of the end."""
        self.says("accepted p1")
        job = self.new_job()
        cancels = [Deferred.fromCoroutine(self.runner.cancel(job.id)) for _ in range(2)]
        self.turn()
        self.provider.say("stopped")
        self.turn()
        for each in cancels:
            self.successResultOf(each)
        self.assertEqual((self.job(job).status, len(self.finished)), ("canceled", 1))
        self.assertEqual(self.provider.heard.count("words.example/cancel p1"), 1)

    def test_a_call_that_is_under_way_is_left_to_end_and_paid(self) -> None:
        """Nothing of it is stored."""
        job = self.new_job()
        self.assertEqual(self.cancel(job).status, "running")
        self.provider.say("done 2")
        self.turn()
        job = self.job(job)
        self.assertEqual((job.status, job.outputs, self.cellar.stored), ("canceled", (), []))
        self.assertEqual(job.cost_nano, 5 * NANO_PER_USD)
        event = self.books.events[job.id].event
        self.assertEqual((event.status, event.upstream), (499, "replicate"))

    def test_a_submit_that_fails_after_a_cancel_ends_there(self) -> None:
        """No other target is asked."""
        self.use(target("one"), target("two"))
        job = self.new_job()
        self.cancel(job)
        self.provider.say("no")
        self.turn()
        job = self.job(job)
        self.assertEqual((job.status, job.cost_nano), ("canceled", 0))
        self.assertEqual(self.provider.heard, ["one/submit"])

    def test_what_is_accepted_after_a_cancel_is_canceled_there(self) -> None:
        """Its id is written first."""
        job = self.new_job()
        self.cancel(job)
        self.says("stopped")
        self.provider.say("accepted p1")
        self.turn()
        job = self.job(job)
        self.assertEqual((job.status, job.provider_job_id), ("canceled", "p1"))

    def test_a_provider_that_cannot_be_stopped_is_paid(self) -> None:
        """The job ends here, and nothing is sent."""
        self.use(target(adapter="xai_video"))
        self.says("accepted p1")
        job = self.cancel(self.new_job())
        self.assertEqual((job.status, self.provider.heard), ("canceled", ["words.example/submit"]))
        self.assertEqual(job.cost_nano, NANO_PER_USD)

    def test_success_wins_over_a_cancel_that_comes_while_outputs_are_stored(self) -> None:
        """It was too late."""
        self.cellar.waiting = Deferred()
        self.says("done 1")
        job = self.new_job()
        self.assertEqual(self.cancel(job).status, "running")
        self.cellar.waiting.callback(None)
        self.turn()
        self.assertEqual(self.job(job).status, "succeeded")
        self.assertEqual(self.cancel(job).status, "succeeded")

    def test_a_wish_that_meets_the_begin_is_heeded_before_the_submit(self) -> None:
        """Nothing is sent, though the target is written down."""
        self.shelf.refusals = 1
        job = self.new_job()
        canceling = Deferred.fromCoroutine(self.runner.cancel(job.id))
        self.wait(1)
        found = self.successResultOf(canceling)
        assert found is not None
        self.assertEqual((found.status, self.provider.heard), ("canceled", []))

    def test_a_cancel_does_not_wait_for_a_disk_that_is_full(self) -> None:
        """It is answered with the job as it is; the wish is written down."""
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        _, waits = self.new_job(), self.new_job()
        canceling = Deferred.fromCoroutine(self.runner.cancel(waits.id))
        self.shelf.refusals = 9
        self.wait(5)
        found = self.successResultOf(canceling)
        assert found is not None
        self.assertEqual((found.status, bool(found.cancel_ms)), ("queued", True))
        self.shelf.refusals = 0
        self.wait(10)
        self.assertEqual(self.job(waits).status, "canceled")

    def test_what_is_not_there_cannot_be_canceled(self) -> None:
        """Whoever asks says so."""
        self.assertIsNone(self.successResultOf(Deferred.fromCoroutine(self.runner.cancel("job_0"))))


class RestartTests(RunnerCase):
    """What a crash does."""

    def test_a_job_with_an_id_goes_on_being_polled(self) -> None:
        """It is not submitted again."""
        self.says("accepted p1")
        job = self.new_job()
        self.restart()
        self.says("done 1")
        self.wait()
        self.assertEqual(self.job(job).status, "succeeded")
        self.assertEqual(self.provider.heard, ["words.example/submit", "words.example/poll p1"])

    def test_a_job_without_an_id_is_submitted_again(self) -> None:
        """In the same attempt."""
        job = self.new_job()
        self.says("done 1")
        self.restart()
        self.assertEqual(self.outcomes(job), ["succeeded"])
        self.assertEqual(self.provider.heard, ["words.example/submit"] * 2)

    def test_the_time_counts_on(self) -> None:
        """From the beginning of the attempt; but one poll comes first."""
        self.use(timeout_s=10)
        self.says("accepted p1", "running", "stopped")
        job = self.new_job()
        self.runner.abandon()
        self.clock.advance(11)
        self.restart()
        job = self.job(job)
        assert job.error is not None
        self.assertEqual((job.status, job.error.code), ("failed", PROVIDER_TIMEOUT))
        self.assertEqual(self.provider.heard[-1], "words.example/cancel p1")

    def test_what_was_done_meanwhile_is_not_thrown_away(self) -> None:
        """However long the gateway was down."""
        self.use(timeout_s=10)
        self.says("accepted p1", "done 1")
        job = self.new_job()
        self.runner.abandon()
        self.clock.advance(1_000)
        self.restart()
        self.assertEqual(self.job(job).status, "succeeded")

    def test_a_target_that_the_config_has_no_more_is_given_up(self) -> None:
        """The next one is tried."""
        self.says("accepted p1")
        job = self.new_job()
        self.use(target("two"))
        self.says("done 1")
        self.restart()
        self.assertEqual(self.outcomes(job), ["failed", "succeeded"])

    def test_work_of_a_model_that_was_replaced_is_polled_to_its_end(self) -> None:
        """Where the same provider is still there to be asked; nothing is paid twice."""
        self.says("accepted p1")
        job = self.new_job()
        self.use(target("two"), target(model="acme/newer"))
        self.says("done 1")
        self.restart()
        self.wait()
        job = self.job(job)
        self.assertEqual((job.status, self.outcomes(job)), ("succeeded", ["succeeded"]))
        self.assertEqual(job.attempts[0].model, "acme/words")
        self.assertEqual(self.provider.heard[-1], "words.example/poll p1")

    def test_what_was_not_taken_in_is_not_sent_to_a_model_that_left(self) -> None:
        """The next target is tried."""
        job = self.new_job()
        self.use(target(model="acme/newer"))
        self.says("done 1")
        self.restart()
        models = [attempt.model for attempt in self.job(job).attempts]
        self.assertEqual(models, ["acme/words", "acme/newer"])

    def test_a_target_that_moved_in_its_route_is_found(self) -> None:
        """By adapter, address and model."""
        self.says("accepted p1")
        job = self.new_job()
        self.use(target("new"), target())
        self.restart()
        self.says("done 1")
        self.wait()
        self.assertEqual(self.provider.heard[-1], "words.example/poll p1")
        self.assertEqual(self.outcomes(job), ["succeeded"])

    def test_a_cancel_that_a_crash_cut_short_is_done(self) -> None:
        """Without an id nothing is submitted for it."""
        job, other = self.new_job(), self.new_job()
        self.shelf.put(replace(job, cancel_ms=5))
        self.shelf.put(replace(other, cancel_ms=5, provider_job_id="p2"))
        self.says("stopped")
        self.restart()
        self.assertEqual((self.job(job).status, self.job(other).status), ("canceled", "canceled"))
        self.assertEqual(self.provider.heard[2:], ["words.example/cancel p2"])

    def test_what_runs_has_the_first_place(self) -> None:
        """Before a job that is older and waits: its time goes on."""
        self.media = attrs.evolve(self.media, max_running_per_provider=1)
        waits = self.made_job()
        self.says("accepted p1")
        runs = self.new_job()
        self.restart()
        self.wait()
        self.assertEqual(self.provider.heard[1:], ["words.example/poll p1"])
        self.provider.say("done 1")
        self.turn()
        self.assertEqual((self.job(runs).status, self.job(waits).status), ("succeeded", "running"))

    def test_what_waits_is_taken_up(self) -> None:
        """Also what nobody put in line."""
        job = self.made_job()
        self.says("done 1")
        self.wait(60)
        self.assertEqual(self.job(job).status, "succeeded")

    def test_nothing_is_written_after_it_was_abandoned(self) -> None:
        """Whatever comes back."""
        job = self.new_job()
        _, held = self.provider.held[0]
        before = len(self.shelf.lines)
        self.runner.abandon()
        self.assertEqual(self.provider.cut, 1)
        self.wait(120)
        self.assertEqual((len(self.shelf.lines), self.job(job).status), (before, "running"))
        self.assertTrue(held.called)

    def test_a_stop_waits_for_a_call_that_would_be_paid_twice(self) -> None:
        """And for nothing that can be taken up again."""
        self.says("accepted p1")
        polled, called = self.new_job(), self.new_job()
        stopping = Deferred.fromCoroutine(self.runner.close())
        self.turn()
        self.assertNoResult(stopping)
        self.provider.say("done 1")
        self.turn()
        self.successResultOf(stopping)
        self.assertEqual(
            (self.job(polled).status, self.job(called).status), ("running", "succeeded")
        )

    def test_a_stop_ends_with_the_id_of_what_was_accepted(self) -> None:
        """The next life polls for it."""
        job = self.new_job()
        stopping = Deferred.fromCoroutine(self.runner.close())
        self.provider.say("accepted p1")
        self.turn()
        self.successResultOf(stopping)
        self.assertEqual(self.job(job).provider_job_id, "p1")

    def test_a_stop_does_not_wait_for_ever(self) -> None:
        """Half a minute."""
        self.new_job()
        stopping = Deferred.fromCoroutine(self.runner.close())
        self.wait(30)
        self.successResultOf(stopping)
