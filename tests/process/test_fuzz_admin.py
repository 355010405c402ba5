"""A short run of schemathesis over the admin API; ``make fuzz-admin`` is a long one."""

from __future__ import annotations

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.process.daemons import Gateway
from tests.process.fuzz_admin import config, fuzz, is_installed


class FuzzTests(SynchronousTestCase):
    """Whatever the document allows, and what it does not."""

    def test_no_server_error_and_no_answer_outside_the_document(self) -> None:
        """Two examples of each call, and the bounds of every member and parameter."""
        if not is_installed():
            raise SkipTest("schemathesis is not installed; pip install -e '.[fuzz]'")
        gateway = Gateway(config)
        self.addCleanup(gateway.stop)
        gateway.start_control()
        status, told = fuzz(gateway, examples=2, seed=1)
        self.assertEqual(status, 0, told[-10_000:])
