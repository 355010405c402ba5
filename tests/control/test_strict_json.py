"""JSON written by people."""

from __future__ import annotations

from decimal import Decimal

from twisted.trial.unittest import SynchronousTestCase

from omnigate.control.strict_json import StrictJsonError, read_json


class ReadJsonTests(SynchronousTestCase):
    """What is read, and what is refused."""

    def test_numbers_are_exact(self) -> None:
        """A tenth is a tenth, and a whole number stays one."""
        self.assertEqual(read_json(b'{"a":0.1,"b":7}'), {"a": Decimal("0.1"), "b": 7})

    def test_refused(self) -> None:
        """Nothing that two readers could understand differently is taken."""
        for data in (
            b"",
            b"{",
            b"\xff",
            b'{"a":1,"a":2}',
            b'{"x":{"a":1,"a":2}}',
            b'{"a":NaN}',
            b'{"a":-Infinity}',
            b"[" * 100_000,
            b"1" * 5000,
            b"0." + b"1" * 100,
            b'{"a":1e9999999999999999999}',
            b'{"a":-1.5E-9999999999999999999}',
            b"{} {}",
            b"'a'",
        ):
            self.assertRaises(StrictJsonError, read_json, data)
