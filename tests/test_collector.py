"""When the collector of cycles works, and on what."""

import gc

from twisted.trial.unittest import SynchronousTestCase

from omnigate.collector import FULL_COLLECTION_AFTER, set_apart


class SetApartTests(SynchronousTestCase):
    def test_set_apart(self) -> None:
        """The collector looks at nothing of what was there, and at all that comes later."""
        self.addCleanup(gc.unfreeze)
        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        before: list[object] = []
        set_apart()
        self.assertFalse(any(item is before for item in gc.get_objects()))
        after: list[object] = []
        after.append(after)
        self.assertTrue(any(item is after for item in gc.get_objects()))

    def test_without_a_look(self) -> None:
        """What is garbage already may be set apart with the rest, where time matters more."""
        self.addCleanup(gc.unfreeze)
        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        looks: list[str] = []
        gc.callbacks.append(lambda phase, facts: looks.append(phase))
        self.addCleanup(gc.callbacks.pop)
        set_apart(collect=False)
        self.assertEqual(looks, [])
        self.assertGreater(gc.get_freeze_count(), 1_000)

    def test_full_collections(self) -> None:
        """All that came later is looked at once in so many objects, and what is young as ever."""
        self.addCleanup(gc.unfreeze)
        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        young = gc.get_threshold()[:2]
        set_apart()
        self.assertEqual((*young, FULL_COLLECTION_AFTER), gc.get_threshold())
        full: list[int] = []

        def collected(phase: str, facts: dict[str, int]) -> None:
            if phase == "start" and facts["generation"] == 2:
                full.append(len(made))

        gc.callbacks.append(collected)
        self.addCleanup(gc.callbacks.remove, collected)
        made: list[list[int]] = []
        while len(made) < 600_000 and not full:
            made.append([])
        self.assertEqual(1, len(full))
        self.assertTrue(350_000 < full[0] < 500_000, full)
