"""The limit on open files: raised where that is allowed, told of where it is not."""

import resource
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from omnigate.open_files import OTHER_FILES, allow_open_files, needed_files


class OpenFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.soft, self.hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self.hard == resource.RLIM_INFINITY:
            raise SkipTest("no limit can be too low here")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (self.soft, self.hard))

    def lower(self) -> int:
        """Have the soft limit a good piece under the hard one, and return it."""
        low = self.hard // 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, self.hard))
        return low

    def test_needed(self) -> None:
        """Each client may have a connection to an upstream beside its own."""
        self.assertEqual(OTHER_FILES, needed_files(0))
        self.assertEqual(20_000 + OTHER_FILES, needed_files(10_000))

    def test_enough(self) -> None:
        """What is allowed already stays as it is."""
        low = self.lower()
        self.assertIsNone(allow_open_files(low))
        self.assertEqual((low, self.hard), resource.getrlimit(resource.RLIMIT_NOFILE))

    def test_raised(self) -> None:
        """The soft limit goes up to what is needed, to the hard one at most."""
        low = self.lower()
        self.assertIsNone(allow_open_files(low + 1))
        self.assertEqual((low + 1, self.hard), resource.getrlimit(resource.RLIMIT_NOFILE))
        self.assertIsNone(allow_open_files(self.hard))
        self.assertEqual((self.hard, self.hard), resource.getrlimit(resource.RLIMIT_NOFILE))

    def test_too_few(self) -> None:
        """Over the hard limit as many as there are, with both numbers and the remedy in words."""
        self.lower()
        words = allow_open_files(self.hard + 1)
        assert words is not None
        self.assertEqual((self.hard, self.hard), resource.getrlimit(resource.RLIMIT_NOFILE))
        for part in (f"only {self.hard} ", f" {self.hard + 1};", "LimitNOFILE=", "ulimit -Hn"):
            self.assertIn(part, words)
