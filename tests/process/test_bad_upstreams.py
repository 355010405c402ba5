"""Upstreams that break every rule: see :mod:`tests.process.bad_upstreams`."""

from twisted.trial.unittest import SynchronousTestCase

from tests.process.bad_upstreams import Court, play_list, play_rounds

SEED = 1
ROUNDS = 2


class BadUpstreamTests(SynchronousTestCase):
    """Whatever an upstream does, its client is not lied to, and nothing is left behind."""

    def setUp(self) -> None:
        self.court = Court().start()
        self.addCleanup(self.court.stop)

    def test_the_list(self) -> None:
        """Every crime of the list."""
        play_list(self.court)

    def test_mutations(self) -> None:
        """Random mutations of good answers."""
        play_rounds(self.court, SEED, ROUNDS, lambda line: None)
