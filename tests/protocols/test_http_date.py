"""The date of answers."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.watchdog import SWEEP_SECONDS, Watchdog

#: The example of RFC 9110 §5.6.7.
EXAMPLE = 784111777
EXAMPLE_LINE = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"


class HttpDateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()
        self.looks = 0
        self.offset = 0.0
        self.date = HttpDate(self.watchdog, self.wall)

    def wall(self) -> float:
        self.looks += 1
        return EXAMPLE + self.offset + self.clock.seconds()

    def test_form(self) -> None:
        """The form of RFC 9110, from the first answer on."""
        self.assertEqual(self.date.line(), EXAMPLE_LINE)

    def test_goes_on(self) -> None:
        """The date is never off by more than a sweep, however the clock is turned."""
        for _ in range(40):
            self.clock.advance(SWEEP_SECONDS)
            second = int(EXAMPLE + self.clock.seconds())
            self.assertIn(b":%02d GMT" % (second % 60), self.date.line())
        self.offset = -3600.0
        self.clock.advance(SWEEP_SECONDS)
        self.assertIn(b" 07:49:41 GMT", self.date.line())

    def test_looks_once_a_sweep(self) -> None:
        """Many answers at once cost one look at the clock."""
        for _ in range(1000):
            self.date.line()
        self.assertEqual(self.looks, 1)
