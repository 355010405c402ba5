"""A worker's seat in its environment."""

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from omnigate.settings_table import SETTINGS
from omnigate.workers.seat import SEAT_VARIABLE, SeatError, WorkerSeat, take_seat


class SeatTests(SynchronousTestCase):
    def test_there_and_back(self) -> None:
        """What the parent wrote is what the worker takes, once."""
        seat = WorkerSeat(2, 4, 3, 4, 5)
        environ = {SEAT_VARIABLE: seat.told(), "HOME": "/"}
        self.assertEqual(take_seat(environ), seat)
        self.assertEqual(environ, {"HOME": "/"})
        self.assertIsNone(take_seat(environ))

    def test_no_seat(self) -> None:
        """An empty variable is an absent one."""
        self.assertIsNone(take_seat({SEAT_VARIABLE: ""}))

    def test_nonsense(self) -> None:
        """What somebody else wrote there is refused, with what to do."""
        for text in ("1", "{", "{}", "[]", '{"index":"0"}', "\udcff", '{"index":0,"more":1}'):
            error = self.assertRaises(SeatError, take_seat, {SEAT_VARIABLE: text})
            self.assertIn(SEAT_VARIABLE, str(error))
            self.assertIn("unset it", str(error))

    def test_numbers(self) -> None:
        """No number of it may be below zero, or more than any process has."""
        seat = WorkerSeat(2, 4, 3, 4, 5)
        for name in WorkerSeat.__struct_fields__:
            for number in (-1, 1 << 31, 10**30):
                text = msgspec.structs.replace(seat, **{name: number}).told()
                error = self.assertRaises(SeatError, take_seat, {SEAT_VARIABLE: text})
                self.assertIn(f"$.{name}", str(error))

    def test_it_is_no_setting(self) -> None:
        """Nobody is told to set it."""
        self.assertNotIn(SEAT_VARIABLE, [setting.name for setting in SETTINGS])
