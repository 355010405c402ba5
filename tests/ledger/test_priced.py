"""Media jobs in a ledger: recorded once, counted, read back, verified, exported."""

import csv
import io

from omnigate.ledger.export import Export, as_csv
from omnigate.ledger.ingest import Priced
from tests.ledger.ledger_case import KEY, LedgerCase
from tests.ledger.test_ingest import MEDIA_EVENT


class PricedEventTests(LedgerCase):
    """What the runner of jobs tells the ledger."""

    def test_a_job_is_counted_once_and_survives_a_restart(self) -> None:
        """By its id; a text event beside it is what it was."""
        told = [Priced(MEDIA_EVENT, 3_000_000)]
        self.successResultOf(self.ledger.record_priced(told))
        result = self.successResultOf(self.ledger.record_priced(told))
        self.assertEqual((result.recorded, result.duplicates), (0, 1))
        self.assertEqual(self.spent(), 3_000_000)
        self.ledger = self.opened()
        self.assertEqual(self.spent(), 3_000_000)
        self.recorded("e1")
        by_upstream = {row.name: row.sums for row in self.ledger.totals("upstream")}
        self.assertEqual(by_upstream["replicate"].cost_nano, 3_000_000)
        self.assertEqual(by_upstream["replicate"].requests, 1)
        newest = {event["id"]: event.get("kind") for event in self.ledger.recent()}
        self.assertEqual(newest, {"job_1": "media", "e1": None})

    def test_what_has_no_price_is_counted(self) -> None:
        """And costs nothing."""
        result = self.successResultOf(self.ledger.record_priced([Priced(MEDIA_EVENT, None)]))
        self.assertEqual((result.unpriced, self.spent()), (1, 0))

    def test_it_is_exported_with_what_it_made(self) -> None:
        """In columns of its own, empty for text."""
        self.successResultOf(self.ledger.record_priced([Priced(MEDIA_EVENT, 5)]))
        self.recorded("e1")
        export = Export(self.family, 0, 10**14, 3, self.fail)
        text = b"".join(as_csv(export.objects())).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["kind"] for row in rows], ["media", ""])
        self.assertEqual([row["outputs"] for row in rows], ["2", ""])
        self.assertEqual(rows[0]["key_sha256"], KEY)
