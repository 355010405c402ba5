"""Places for requests: bounds, and giving back."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.errors import GatewayError
from omnigate.gateway.admission import Admission, KeyUse, Ticket


class AdmissionTests(SynchronousTestCase):
    def refused(self, admission: Admission, use: KeyUse, most: int, size: int) -> GatewayError:
        """The refusal of a request that must not get a place."""
        with self.assertRaises(GatewayError) as caught:
            admission.enter(use, most, size)
        error: GatewayError = caught.exception
        return error

    def test_in_flight(self) -> None:
        """A key has its own bound, or the default one; others are not touched by it."""
        for own, bound in ((0, 3), (2, 2), (5, 5)):
            admission, use = Admission(1000, 3), KeyUse()
            tickets = [admission.enter(use, own, 0) for _ in range(bound)]
            error = self.refused(admission, use, own, 0)
            self.assertEqual(
                (429, "concurrency_limit_exceeded", 1),
                (error.kind.status, error.kind.code, error.retry_after),
            )
            admission.enter(KeyUse(), own, 0)
            tickets[0].release()
            admission.enter(use, own, 0)

    def test_memory_of_one_key(self) -> None:
        """A declared length counts twice, and one key holds a quarter of the budget at most."""
        admission, use = Admission(800, 100), KeyUse()
        ticket = admission.enter(use, 0, 100)
        self.assertEqual((200, 200), (use.memory_bytes, admission.memory_bytes))
        error = self.refused(admission, use, 0, 1)
        self.assertEqual((429, "request_memory_exceeded"), (error.kind.status, error.kind.code))
        self.assertEqual(1, error.retry_after)
        admission.enter(use, 0, 0)
        admission.enter(KeyUse(), 0, 100)
        ticket.release()
        admission.enter(use, 0, 100)

    def test_memory_of_all(self) -> None:
        """The whole budget is never passed, whoever asks."""
        admission = Admission(800, 100)
        tickets = [admission.enter(KeyUse(), 0, 100) for _ in range(4)]
        error = self.refused(admission, KeyUse(), 0, 1)
        self.assertEqual(
            (503, "overloaded", 1), (error.kind.status, error.kind.code, error.retry_after)
        )
        admission.enter(KeyUse(), 0, 0)
        tickets[2].release()
        admission.enter(KeyUse(), 0, 100)

    def test_refused_takes_nothing(self) -> None:
        """A request that is refused holds nothing."""
        admission, use = Admission(800, 100), KeyUse()
        self.refused(admission, use, 0, 1000)
        self.assertEqual((0, 0), (use.in_flight, use.memory_bytes))
        self.assertEqual((0, 0), (admission.in_flight, admission.memory_bytes))

    def test_given_back_once(self) -> None:
        """Giving back twice gives back once."""
        admission, use = Admission(800, 100), KeyUse()
        first, _ = admission.enter(use, 0, 10), admission.enter(use, 0, 10)
        first.release()
        first.release()
        self.assertEqual((1, 20), (use.in_flight, use.memory_bytes))
        self.assertEqual((1, 20), (admission.in_flight, admission.memory_bytes))

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.booleans())))
    def test_any_order(self, steps: list[tuple[int, int, bool]]) -> None:
        """Whatever comes and goes: no bound is passed, and in the end nothing is held."""
        admission, uses = Admission(400, 4), [KeyUse() for _ in range(3)]
        held: list[Ticket] = []
        for index, size, give_back in steps:
            if give_back and held:
                held.pop(size % len(held)).release()
                continue
            try:
                held.append(admission.enter(uses[index], 0, size))
            except GatewayError:
                pass
            self.assertEqual(sum(use.memory_bytes for use in uses), admission.memory_bytes)
            self.assertEqual(sum(use.in_flight for use in uses), admission.in_flight)
            self.assertTrue(all(use.memory_bytes <= 100 and use.in_flight <= 4 for use in uses))
            self.assertLessEqual(admission.memory_bytes, 400)
        for ticket in held:
            ticket.release()
        self.assertEqual((0, 0), (admission.memory_bytes, admission.in_flight))
