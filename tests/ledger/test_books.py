"""Tests for omnigate.ledger.books."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.ledger.books import RECENT_EVENTS, Books
from omnigate.ledger.id_days import id_digest
from omnigate.ledger.ingest import Entry
from omnigate.ledger.lines import decode_line, encode_line
from omnigate.periods import DAY_MS, rfc3339
from tests.ledger.test_ingest import NOW_MS
from tests.usage import usage_event


def entry(name: str, cost_nano: int = 1, now_ms: int = NOW_MS) -> Entry:
    event = usage_event(name)
    line = encode_line(event, cost_nano, rfc3339(now_ms))
    return Entry(id_digest(name), event, cost_nano, line)


def replay(books: Books, *entries: Entry) -> list[bool]:
    return [books.replay(*decode_line(each.line), each.line) for each in entries]


class BooksTests(SynchronousTestCase):
    """Entering and asking."""

    def test_a_replay_makes_the_same_books(self) -> None:
        """What was entered live and what is read back answer alike."""
        entries = [entry(str(n), n) for n in range(10)]
        live, back = Books(3), Books(3)
        live.enter(entries, "2026-11-29")
        self.assertEqual(replay(back, *entries), [True] * 10)
        self.assertTrue(live.totals == back.totals)
        self.assertEqual(live.recent(500), back.recent(500))
        self.assertEqual(list(live.ids), list(back.ids))
        self.assertEqual([each.digest in back.ids for each in entries], [True] * 10)

    def test_a_known_id_is_not_counted_again(self) -> None:
        """The second line of an id changes nothing."""
        books = Books(3)
        self.assertEqual(replay(books, entry("e"), entry("e", 5)), [True, False])
        self.assertEqual(books.totals.lifetime(["ab" * 32]).cost_nano, 1)
        self.assertEqual(len(books.recent(10)), 1)

    def test_a_replay_forgets_ids_as_the_days_went_by(self) -> None:
        """An event that was rightly recorded again, its id long forgotten, counts again."""
        books = Books(1)
        later = [entry("e", 1, NOW_MS + days * DAY_MS) for days in (0, 1, 2)]
        self.assertEqual(replay(books, *later), [True, False, True])

    def test_turning_the_day_forgets(self) -> None:
        """Ids and rows of days long past go, once a day."""
        books = Books(1)
        books.enter([entry("e")], "2026-11-29")
        books.turn_to("2026-11-30", NOW_MS + DAY_MS)
        self.assertIn(id_digest("e"), books.ids)
        books.turn_to("2028-01-30", NOW_MS + 427 * DAY_MS)
        self.assertNotIn(id_digest("e"), books.ids)
        self.assertEqual(books.totals.grouped("day"), [])

    def test_ids_may_be_kept_elsewhere(self) -> None:
        """Without ids, all that is entered counts, live and read back."""
        live, back = Books(), Books()
        live.enter([entry("e"), entry("e", 5)])
        self.assertEqual(replay(back, entry("e"), entry("e", 5)), [True, True])
        self.assertTrue(live == back)
        self.assertEqual(live.totals.events, 2)
        self.assertEqual(list(live.ids), [])

    def test_recent_events_are_bounded(self) -> None:
        """Only the newest are kept."""
        books = Books(3)
        books.enter([entry(str(n)) for n in range(RECENT_EVENTS + 10)], "2026-11-29")
        found = books.recent(10**6)
        self.assertEqual(len(found), RECENT_EVENTS)
        self.assertEqual(found[0]["id"], str(RECENT_EVENTS + 9))
        self.assertEqual(books.recent(0), [])

    def test_a_line_damaged_where_no_sum_looks_is_counted_but_not_shown(self) -> None:
        """It is left out of the list for people. Only a line without a checksum can be such."""
        books = Books(3)
        line = entry("e").line.replace(b'"v":2,', b"").rpartition(b',"crc32"')[0] + b"}\n"
        line = line.replace(b'"outcome":"ok"', b'"outcome":"\xff\xff"')
        self.assertTrue(books.replay(*decode_line(line), line))
        self.assertEqual(books.recent(10), [])
        self.assertEqual(books.totals.lifetime(["ab" * 32]).requests, 1)
