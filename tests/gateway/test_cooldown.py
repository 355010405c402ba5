"""Targets that rest."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.cooldown import MAX_REST_SECONDS, Cooldown


class CooldownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cooldown = Cooldown(failures=3, window_seconds=10, rest_seconds=30)

    def rests(self, now: float) -> bool:
        return self.cooldown.resting_until > now

    def test_failures_in_the_window(self) -> None:
        """So many failures within the window bring a rest of the set length."""
        for now in (100, 105):
            self.cooldown.failed(now)
            self.assertFalse(self.rests(now))
        self.cooldown.failed(110)
        self.assertTrue(self.rests(110))
        self.assertTrue(self.rests(139.9))
        self.assertFalse(self.rests(140))

    def test_failures_far_apart(self) -> None:
        """Failures that lie further apart do not."""
        for now in (100, 106, 111, 117, 122):
            self.cooldown.failed(now)
            self.assertFalse(self.rests(now))

    def test_what_it_says(self) -> None:
        """A failure says how long the rest is that it brings about, or lengthens; else 0."""
        self.assertEqual([0.0, 0.0, 30.0], [self.cooldown.failed(now) for now in (100, 101, 102)])
        # It rests until 132 by now.
        self.assertEqual(0.0, self.cooldown.failed(110, 5))
        self.assertEqual(25.0, self.cooldown.failed(110, 25))
        self.assertEqual(MAX_REST_SECONDS, self.cooldown.failed(200, 10_000))
        self.assertEqual(0.0, Cooldown(1, 10, 0).failed(100))

    def test_success(self) -> None:
        """A success forgets them."""
        for now in (100, 101):
            self.cooldown.failed(now)
        self.cooldown.succeeded()
        for now in (102, 103):
            self.cooldown.failed(now)
            self.assertFalse(self.rests(now))
        self.cooldown.failed(104)
        self.assertTrue(self.rests(104))

    def test_counted_anew_after_a_rest(self) -> None:
        """After a rest as many failures are borne with as before."""
        for now in (100, 101, 102):
            self.cooldown.failed(now)
        self.cooldown.failed(133)
        self.assertFalse(self.rests(133))

    def test_one_failure(self) -> None:
        """With a bound of one each failure brings a rest."""
        self.cooldown = Cooldown(1, 10, 30)
        self.cooldown.failed(100)
        self.assertTrue(self.rests(129))

    def test_the_provider_asks(self) -> None:
        """A provider's own wish is obeyed at once, up to a minute."""
        for asked, rest in ((0, 0), (5, 5), (60, 60), (3600, MAX_REST_SECONDS)):
            self.setUp()
            self.cooldown.failed(100, asked)
            self.assertEqual(100 + rest, self.cooldown.resting_until)

    def test_the_longer_wish_counts(self) -> None:
        """A later, shorter wish does not shorten a rest; neither does a success."""
        self.cooldown.failed(100, 50)
        self.cooldown.failed(101, 2)
        self.cooldown.succeeded()
        self.assertEqual(150, self.cooldown.resting_until)
