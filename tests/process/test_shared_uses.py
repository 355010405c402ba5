"""Counters that real processes share, asked for by all of them as fast as they can."""

import os

from twisted.trial.unittest import SynchronousTestCase

from omnigate.gateway.shared_uses import KEPT_FIELDS, KEY_FIELDS, PLANE_FIELDS, SharedUses
from tests.gateway.sharing import KEY
from tests.process.hammering import (
    LIMIT,
    PATTERNS,
    RPM,
    hammer,
    most_at_once,
    tokens_over,
)

WORKERS = 3


class SharedUsesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.parent = SharedUses.create(WORKERS)
        self.addCleanup(os.close, self.parent.fd)

    def test_in_flight(self) -> None:
        """At no moment are there more than one too many for each other process; none at the end."""
        spans = hammer(self.parent, "enter")
        for one in spans:
            self.assertGreater(len(one), 100, "each of them got places")
        most, part = most_at_once([span for one in spans for span in one])
        self.assertTrue(LIMIT <= most <= LIMIT + WORKERS - 1, most)
        self.assertLess(part, 0.5)
        row = SharedUses.attach(self.parent.fd, 0).claim([KEY])[KEY]
        for field in set(range(len(KEY_FIELDS))) - KEPT_FIELDS:
            self.assertEqual([0] * WORKERS, list(row.ints(field)), KEY_FIELDS[field])
        for field, name in enumerate(PLANE_FIELDS):
            self.assertEqual([0] * WORKERS, list(self.parent.plane.ints(field)), name)

    def test_rate(self) -> None:
        """The bucket is overdrawn by one token for each other process at worst; all is given."""
        moments = [moment for one in hammer(self.parent, "take") for moment in one]
        self.assertLess(tokens_over(moments), WORKERS - 1 + 0.01)
        seconds = max(moments) - min(moments)
        self.assertGreater(len(moments), RPM)
        self.assertLess(len(moments), RPM + seconds * RPM / 60 + WORKERS)

    def test_nothing_is_seen_half_written(self) -> None:
        """A slot holds what was written before or what is written now."""
        self.assertEqual([[]] * WORKERS, hammer(self.parent, "write"))
        row = SharedUses.attach(self.parent.fd, 1).claim([KEY])[KEY]
        self.assertEqual(PATTERNS[1], row.ints(0)[0], "it was written indeed")
