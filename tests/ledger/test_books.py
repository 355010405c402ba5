"""Tests for omnigate.ledger.books."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.ingest import Entry
from omnigate.ledger.lines import decode_line, encode_line
from omnigate.ledger.recorded_ids import id_digest
from omnigate.periods import DAY_MS, rfc3339
from tests.ledger.test_ingest import NOW_MS
from tests.usage import usage_event


def entry(name: str, cost_nano: int = 1, now_ms: int = NOW_MS) -> Entry:
    event = usage_event(name)
    line = encode_line(event, cost_nano, rfc3339(now_ms))
    return Entry(id_digest(name), event, cost_nano, line, unpriced=False)


def replay(books: Books, *entries: Entry) -> None:
    books.replay([(*decode_line(each.line), each.line) for each in entries])


class BooksTests(SynchronousTestCase):
    """Entering and asking."""

    def test_a_replay_makes_the_same_books(self) -> None:
        """What was entered live and what is read back answer alike."""
        entries = [entry(str(n), n) for n in range(10)]
        live, back = Books(), Books()
        live.enter(entries)
        replay(back, *entries)
        self.assertTrue(live.totals == back.totals)
        self.assertEqual(live.recent(500), back.recent(500))

    def test_turning_the_day_forgets(self) -> None:
        """Rows of days long past go, once a day."""
        books = Books()
        books.enter([entry("e")])
        books.turn_to("2026-11-30", NOW_MS + DAY_MS)
        self.assertEqual(len(books.totals.grouped("day")), 1)
        books.turn_to("2028-01-30", NOW_MS + 427 * DAY_MS)
        self.assertEqual(books.totals.grouped("day"), [])

    def test_recent_events_are_bounded(self) -> None:
        """Only the newest are kept."""
        books = Books()
        books.enter([entry(str(n)) for n in range(RECENT_EVENTS + 10)])
        found = books.recent(10**6)
        self.assertEqual(len(found), RECENT_EVENTS)
        self.assertEqual(found[0]["id"], str(RECENT_EVENTS + 9))
        self.assertEqual(books.recent(0), [])
        for place in (0, 1, RECENT_EVENTS - 1):
            self.assertEqual(books.find_recent(found[place]["id"]), found[place])
        # Those that are older are not found, nor what an id only begins with or holds.
        for event_id in ("9", "10" * 5, "ab" * 32, ""):
            self.assertIsNone(books.find_recent(event_id), event_id)

    def test_a_line_damaged_where_no_sum_looks_is_counted_but_not_shown(self) -> None:
        """It is left out of the list for people."""
        books = Books()
        checked = entry("e").line
        head = checked[: checked.rindex(b',"crc32"')].replace(b'{"v":2,', b"{") + b"}"
        line = head.replace(b'"outcome":"ok"', b'"outcome":"\xff\xff"')
        books.replay([(*decode_line(line), line)])
        self.assertEqual(books.recent(10), [])
        self.assertIsNone(books.find_recent("e"))
        self.assertEqual(books.totals.lifetime(["ab" * 32]).requests, 1)
