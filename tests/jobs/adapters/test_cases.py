"""Every golden case played with the adapters of the registry."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.jobs.adapters.registry import ADAPTERS
from tests.jobs.adapters.playing import Player
from tests.jobs.cases import Case, cases, every_case


class EveryCase(SynchronousTestCase):
    """What each adapter sends, and what it makes of the answers."""

    def test_as_they_stand(self) -> None:
        """Media in an answer are read where they stand."""
        for case in _playable():
            self._judge(case, taken_out=False)

    def test_with_media_taken_out(self) -> None:
        """Media in an answer lie in files, and markers stand in their place."""
        for case in _playable():
            self._judge(case, taken_out=True)

    def test_every_adapter_has_some(self) -> None:
        """An adapter without golden cases is not tried at all."""
        for name in ADAPTERS:
            self.assertGreater(len(cases(name)), 4, name)

    def _judge(self, case: Case, *, taken_out: bool) -> None:
        played = Player(case, ADAPTERS, taken_out=taken_out).play()
        expect = case.expect
        wanted = [attempt["outcome"] for attempt in expect["attempts"]]
        self.assertEqual(played.outcomes, wanted, case.id)
        self.assertEqual(played.provider_job_id or None, expect["provider_job_id"], case.id)
        error = expect["error"]
        if error is not None and error["code"].startswith("provider_") and not _repeats(case):
            assert played.error is not None
            told = {"code": played.error.code, "message": played.error.message}
            self.assertEqual(told, error, case.id)
        billable = expect["billable"]
        if billable is not None:
            assert played.billable is not None
            self.assertEqual(played.billable.characters, billable["characters"], case.id)
            if played.billable.milliseconds >= 1000 * case.route["targets"][-1].get(
                "min_seconds", 0
            ):
                sent = played.billable.milliseconds
                self.assertIn(sent, (0, 1000 * billable["seconds"]), case.id)
        if "provider_seconds" in expect:
            assert played.done is not None
            self.assertEqual(played.done.provider_ms, 1000 * expect["provider_seconds"], case.id)


def _playable() -> list[Case]:
    return [
        case
        for case in every_case()
        if all(target["adapter"] in ADAPTERS for target in case.route["targets"])
    ]


def _repeats(case: Case) -> bool:
    """Whether it ends by the route's time, which only a runner has."""
    return any(exchange.repeat for exchange in case.exchanges)
