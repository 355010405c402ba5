"""What one call of the data plane may take, held with room for a busy machine."""

import io
from contextlib import redirect_stdout

from twisted.trial.unittest import SynchronousTestCase

from bench import holds, hostile, hostile_requests, hostile_translated, scan_bodies, scrape_rows
from bench.hostile import Row

#: Times the bar. Processor time is measured, but a slow core, or one whose other half is busy, is
#: easily twice as slow as the one that the bars are kept on.
ROOM = 3


class HoldsTests(SynchronousTestCase):
    def within(self, *rows: Row) -> None:
        over = []
        for row in rows:
            # Once only, where that is enough.
            if holds.measure(row, 1) > ROOM * holds.bar_ms(row):
                took = holds.measure(row, 3)
                if took > ROOM * holds.bar_ms(row):
                    over.append(f"{row.group}: {row.name}: {took:.0f} ms")
        self.assertEqual([], over)

    def test_what_peers_send(self) -> None:
        """No read, answer or head of a hostile peer holds the plane."""
        self.within(*hostile.ROWS)

    def test_what_is_translated(self) -> None:
        """Nor a read of a stream that is translated, from any protocol to any other."""
        self.within(*hostile_translated.ROWS)

    def test_what_grows(self) -> None:
        """Nor does the largest config, nor ten thousand connections."""
        self.within(*holds.plane_rows())

    def test_scrapes(self) -> None:
        """Nor does a scrape, whatever there is to tell, be it of one process or of many."""
        self.within(*scrape_rows.scrape_rows())

    def test_bodies(self) -> None:
        """Nor does a body; of a large one these are the dearest."""
        dearest = ("62 arrays deep", "stairs", "{},{},", "brackets that do not match", '"","",')
        self.patch(scan_bodies, "ROWS", {name: scan_bodies.ROWS[name] for name in dearest})
        self.within(*holds.body_rows(holds.BODY_BYTES))

    def test_translated_bodies(self) -> None:
        """Nor does the translation of a large body, or of a long answer; these are the dearest."""
        bodies = {name: hostile_requests.BODIES[name] for name in ("turns of 2 KB", "wider text")}
        self.patch(hostile_requests, "BODIES", bodies)
        self.within(
            *hostile_requests.body_rows(holds.BODY_BYTES),
            *hostile_requests.answer_rows(holds.BODY_BYTES),
        )

    def test_over_the_bar(self) -> None:
        """The program shows what is over its bar, and fails."""
        self.patch(holds, "plane_rows", lambda: iter(()))
        self.patch(scrape_rows, "scrape_rows", lambda: iter(()))
        self.patch(holds, "body_rows", lambda size: iter(()))
        self.patch(hostile_requests, "body_rows", lambda size: iter(()))
        self.patch(hostile_requests, "answer_rows", lambda size: iter(()))
        self.patch(hostile_translated, "ROWS", ())
        self.patch(holds, "ROWS", [Row("a", "sum", lambda: lambda: sum(range(100_000)))])
        for bar, status, mark in ((0.0001, 1, "OVER"), (10_000.0, 0, "0 over")):
            self.patch(holds, "BAR_MS", bar)
            printed = io.StringIO()
            with redirect_stdout(printed):
                self.assertEqual(status, holds.main([]))
            self.assertIn(mark, printed.getvalue())
