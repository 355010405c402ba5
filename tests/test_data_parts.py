"""What the data plane's process sees to beside its parts."""

import gc

from twisted.trial.unittest import SynchronousTestCase

from omnigate.data_parts import set_apart


class SetApartTests(SynchronousTestCase):
    def test_set_apart(self) -> None:
        """The collector looks at nothing of what was there, and at all that comes later."""
        self.addCleanup(gc.unfreeze)
        before: list[object] = []
        set_apart()
        self.assertFalse(any(item is before for item in gc.get_objects()))
        after: list[object] = []
        after.append(after)
        self.assertTrue(any(item is after for item in gc.get_objects()))
