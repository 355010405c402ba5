"""What the books must say."""

import json
from decimal import Decimal
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import usage
from bench.usage import Usage, UsageLostError, in_spool, wait_until_booked
from omnigate.events import TokenCounts
from omnigate.money import cost_nano, price_from_usd


class UsageTests(SynchronousTestCase):
    def test_price_is_the_ledgers(self) -> None:
        """One answer costs what the product says it does, to the last decimal."""
        owed = Usage()
        owed.add("whole", 1, 0)
        price = price_from_usd(input=usage.INPUT_USD, output=usage.OUTPUT_USD)
        counts = TokenCounts(input_tokens=owed.prompt, output_tokens=owed.completion)
        self.assertEqual(owed.priced(), Decimal(cost_nano(counts, price)) / 10**9)

    def test_agreement(self) -> None:
        """Every figure counts, and the cost where it is told."""
        owed = Usage(2, 360, 320)
        self.assertTrue(owed.agrees(Usage(2, 360, 320)))
        self.assertTrue(owed.agrees(Usage(2, 360, 320, owed.priced())))
        for books in (
            Usage(1, 360, 320),
            Usage(2, 361, 320),
            Usage(2, 360, 0),
            Usage(2, 360, 320, owed.priced() + Decimal("0.000000001")),
        ):
            self.assertFalse(owed.agrees(books), books)

    def test_wait(self) -> None:
        """What comes late is waited for."""
        answers = [Usage(1, 10, 10), Usage(2, 20, 20)]
        self.patch(usage, "_LOOK_AGAIN_SECONDS", 0)
        wait_until_booked(Usage(2, 20, 20), lambda: answers.pop(0))
        self.assertEqual(answers, [])

    def test_lost_or_doubled(self) -> None:
        """Too few after a time, or too many at once, is told with both sides."""
        self.patch(usage, "BOOKED_SECONDS", 0)
        for booked in (1, 3):
            error = self.assertRaises(
                UsageLostError, wait_until_booked, Usage(2), lambda booked=booked: Usage(booked)
            )
            self.assertIn("served: 2 requests", str(error))
            self.assertIn(f"in the books: {booked} requests", str(error))

    def test_spool(self) -> None:
        """Without a control plane the lines of the spool are counted."""
        path = Path(self.mktemp())
        event = {"input_tokens": 7, "cached_input_tokens": 3, "output_tokens": 5}
        path.write_text((json.dumps(event) + "\n") * 4)
        self.assertEqual(in_spool(path), Usage(4, 40, 20))
