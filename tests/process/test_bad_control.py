"""What answers at the control plane's address is none: see :mod:`tests.process.bad_control`."""

from twisted.trial.unittest import SynchronousTestCase

from tests.process.bad_control import Siege, besiege, some_names

SEED = 1
#: Each takes the pause after a failure, a second.
ROUNDS = 7


class BadControlTests(SynchronousTestCase):
    """Whatever it answers, requests are served and nothing is forgotten."""

    def test_siege(self) -> None:
        """A few ways to answer batches, many to answer polls, and the relief."""
        siege = Siege().start()
        self.addCleanup(siege.stop)
        besiege(siege, SEED, some_names(siege, SEED, ROUNDS), lambda line: None)
