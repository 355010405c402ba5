"""The growing pause."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.backoff import Backoff


class BackoffTests(SynchronousTestCase):
    def test_pauses_double_up_to_the_ceiling(self) -> None:
        """Half a second, one, two, four, and then the ceiling for ever."""
        backoff = Backoff(0.5, 5.0)
        self.assertEqual([backoff.next() for _ in range(6)], [0.5, 1.0, 2.0, 4.0, 5.0, 5.0])

    def test_success_begins_again(self) -> None:
        """After a success the first pause is the short one."""
        backoff = Backoff(1.0, 30.0)
        self.assertEqual([backoff.next(), backoff.next()], [1.0, 2.0])
        backoff.reset()
        self.assertEqual(backoff.next(), 1.0)

    def test_a_first_pause_beyond_the_ceiling_is_the_ceiling(self) -> None:
        """The ceiling holds from the first pause on."""
        self.assertEqual(Backoff(10.0, 2.0).next(), 2.0)

    def test_very_many_failures_stay_at_the_ceiling(self) -> None:
        """A week of failures overflows nothing."""
        backoff = Backoff(0.1, 10.0)
        for _ in range(10_000):
            last = backoff.next()
        self.assertEqual(last, 10.0)
