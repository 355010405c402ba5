"""Finding events further back than memory goes, against a plain filter over all there are."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.events import AttemptRecord, UsageEvent
from omnigate.ledger.event_filter import (
    EventFilter,
    SearchedAttempt,
    SearchedEvent,
    line_starts,
    parse_status,
    read_searched,
)
from omnigate.ledger.family import Family, Position
from omnigate.ledger.lines import encode_line
from omnigate.ledger.looking_back import (
    AHEAD_MS,
    LATE_MS,
    LookedBack,
    look_back,
    read_cursor,
    write_cursor,
)
from omnigate.ledger.pieces_back import pieces_back
from omnigate.periods import DAY_MS, rfc3339

#: 2026-11-29T20:00:00Z.
NOON = 1_795_982_400_000
KEYS = ("ab" * 32, "cd" * 32)
MODELS = ("fast", 'a "quoted" one', "größer", "back\\slash", "")
UPSTREAMS = ("openai", "anthropic")
ANY = EventFilter()


def event(number: int, **members: Any) -> UsageEvent:
    """Return an event that ended so many minutes after the first one."""
    values: dict[str, Any] = {
        "id": f"event-{number}",
        "key_sha256": KEYS[0],
        "route_model": "fast",
        "upstream": "openai",
        "target_model": "gpt-4o-mini",
        "status": 200,
        "stream": False,
        "input_tokens": 1,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 1,
        "cached": False,
        "estimated": False,
        "latency_ms": 1,
        "attempts": [],
        "ts_ms": NOON + number * 60_000,
        "endpoint": "chat",
    }
    return UsageEvent(**(values | members))


def line_of(event: UsageEvent, received_ms: int | None = None) -> bytes:
    """Return its line, recorded when it ended where nothing else is said."""
    return encode_line(event, 7, rfc3339(event.ts_ms if received_ms is None else received_ms))


class Files:
    """The segments of a ledger, written by hand."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder)
        self.family = Family(os.path.join(folder, "ledger.jsonl"))
        self.number = 1
        self.write(b"")

    def write(self, data: bytes) -> None:
        with open(self.family.active, "ab") as file:
            file.write(data)

    def seal(self) -> None:
        os.rename(self.family.active, self.family.sealed(self.number))
        self.number += 1
        self.write(b"")

    def look(self, wanted: EventFilter = ANY, limit: int = 100, **options: Any) -> LookedBack:
        return look_back(self.family, wanted, limit, options.pop("ids_days", 3), **options)

    def ids(self, *args: Any, **options: Any) -> list[str]:
        return [each["id"] for each in self.look(*args, **options).events]

    def pages(self, wanted: EventFilter, limit: int, **options: Any) -> list[str]:
        """Return the ids of all pages."""
        found: list[str] = []
        before: Position | None = None
        while True:
            look = self.look(wanted, limit, before=before, **options)
            assert len(look.events) <= limit
            found += [each["id"] for each in look.events]
            if look.next is None:
                return found
            assert before is None or look.next < before or look.next.offset == 0
            before = read_cursor(write_cursor(look.next))


FILTERS = st.builds(
    EventFilter,
    id=st.none() | st.integers(0, 12).map("event-{}".format),
    key_hashes=st.none() | st.frozensets(st.sampled_from(KEYS), max_size=2),
    model=st.none() | st.sampled_from(MODELS),
    upstream=st.none() | st.sampled_from(UPSTREAMS),
    statuses=st.none()
    | st.sampled_from(("ok", "failed", "4xx", "5xx", "cut", "502")).map(parse_status),
    since_ms=st.none() | st.integers(NOON - 60_000, NOON + 20 * 60_000),
    until_ms=st.none() | st.integers(NOON - 60_000, NOON + 20 * 60_000),
)
ATTEMPTS = st.builds(
    AttemptRecord,
    st.sampled_from(UPSTREAMS),
    st.just("m"),
    st.just("timeout"),
    st.none(),
    st.just(1),
)
MEMBERS = st.fixed_dictionaries(
    {
        "key_sha256": st.sampled_from(KEYS),
        "route_model": st.sampled_from(MODELS),
        "upstream": st.none() | st.sampled_from(UPSTREAMS),
        "status": st.sampled_from((200, 204, 400, 404, 499, 500, 502)),
        "attempts": st.lists(ATTEMPTS, max_size=2),
    }
)
#: What stands between two lines: nothing mostly, a border of segments, or something broken.
BETWEEN = st.sampled_from(
    (
        b"",
        b"",
        b"",
        b"seal",
        b"\n",
        b"{}\n",
        b"\\\n",
        b'{"v":2,"id":"event-1"}\n',
        b"x" * 99 + b"\n",
    )
)


def plain(events: list[UsageEvent], wanted: EventFilter) -> list[str]:
    """Return the ids of all that are wanted, the newest first, without any file."""
    return [
        each.id
        for each in reversed(events)
        if wanted.takes(
            SearchedEvent(
                each.id,
                each.key_sha256,
                each.route_model,
                each.ts_ms,
                "",
                each.upstream,
                each.status,
                [SearchedAttempt(attempt.upstream) for attempt in each.attempts],
            )
        )
    ]


class LookingBackTests(SynchronousTestCase):
    """What is found, and in which order."""

    def setUp(self) -> None:
        self.count = 0

    def files(self) -> Files:
        self.count += 1
        return Files(f"{self.mktemp()}-{self.count}")

    @given(
        st.lists(st.tuples(MEMBERS, BETWEEN), max_size=12),
        FILTERS,
        st.integers(1, 5),
        st.integers(50, 2000),
        st.sampled_from((1, 500, 10**6)),
    )
    def test_as_a_plain_filter(
        self,
        made: list[tuple[dict[str, Any], bytes]],
        wanted: EventFilter,
        limit: int,
        block_bytes: int,
        max_bytes: int,
    ) -> None:
        """All pages together are what a filter leaves of all events, wherever blocks end."""
        files, events = self.files(), []
        for number, (members, between) in enumerate(made):
            events.append(event(number, **members))
            files.write(line_of(events[-1]))
            if between == b"seal":
                files.seal()
            else:
                files.write(between)
        found = files.pages(wanted, limit, block_bytes=block_bytes, max_bytes=max_bytes)
        self.assertEqual(found, plain(events, wanted))

    @given(st.data())
    def test_while_it_is_written(self, data: st.DataObject) -> None:
        """Pages have no gap and no repeat while events come, segments are sealed and deleted."""
        files, events = self.files(), [event(number) for number in range(60)]
        sealed: list[list[str]] = [[]]
        written = 0

        def write(count: int) -> None:
            nonlocal written
            for each in events[written : written + count]:
                files.write(line_of(each))
                sealed[-1].append(each.id)
            written += count

        write(data.draw(st.integers(0, 20)))
        expected = [each.id for each in reversed(events[:written])]
        found: list[str] = []
        before, gone = None, 0
        while True:
            look = files.look(limit=3, before=before, block_bytes=700)
            found += [each["id"] for each in look.events]
            before = look.next
            if before is None:
                break
            step = data.draw(st.sampled_from(("nothing", "write", "seal", "delete")))
            if step == "write":
                write(min(4, 60 - written))
            elif step == "seal":
                files.seal()
                sealed.append([])
            elif step == "delete" and gone < len(sealed) - 2:
                os.remove(files.family.sealed(gone + 1))
                dropped = set(sealed[gone]) - set(found)
                expected = [each for each in expected if each not in dropped]
                gone += 1
        self.assertEqual(found, expected)

    @given(st.lists(st.sampled_from(("write", "seal", "look", "torn")), max_size=20))
    def test_what_came_since(self, steps: list[str]) -> None:
        """Each event is found by one look that goes back to where the last one began."""
        files, number, torn = self.files(), 0, b""
        after = files.look().end
        found: list[str] = []
        for step in [*steps, "look"]:
            if step == "write":
                line = line_of(event(number))
                files.write(line[len(torn) :])
                torn, number = b"", number + 1
            elif step == "seal" and not torn:
                files.seal()
            elif step == "torn" and not torn:
                torn = line_of(event(number))[:100]
                files.write(torn)
            elif step == "look":
                look = files.look(after=after, block_bytes=700)
                found = [each["id"] for each in look.events] + found
                after = look.end
        self.assertEqual(found, [f"event-{each}" for each in reversed(range(number))])

    def test_an_event_counts_once(self) -> None:
        """The first line of an id counts, until the id is forgotten."""
        files = self.files()
        for day in (0, 2, 4, 20):
            files.write(line_of(event(day), NOON + day * DAY_MS))
            again = event(1, status=502)
            files.write(line_of(again, NOON + day * DAY_MS))
        found = files.look().events
        self.assertEqual(
            [(each["id"], each["received_at"][:10]) for each in found],
            [
                ("event-1", "2026-12-19"),
                ("event-20", "2026-12-19"),
                ("event-1", "2026-12-03"),
                ("event-4", "2026-12-03"),
                ("event-2", "2026-12-01"),
                ("event-1", "2026-11-29"),
                ("event-0", "2026-11-29"),
            ],
        )
        self.assertEqual(files.ids(ids_days=0).count("event-1"), 1)

    def test_a_second_line_behind_the_page(self) -> None:
        """What a page would show twice with the next one stands on the next one alone."""
        files = self.files()
        files.write(line_of(event(1)) + line_of(event(2)) + line_of(event(1)))
        first = files.look(limit=1)
        self.assertEqual(first.events, [])
        self.assertEqual(files.ids(limit=9, before=first.next), ["event-2", "event-1"])

    def test_damage(self) -> None:
        """A line whose checksum is wrong is no event; neither is what was torn off."""
        files = self.files()
        whole = line_of(event(1))
        files.write(whole.replace(b'"status":200', b'"status":500'))
        files.write(line_of(event(2)))
        files.write(b"x" * 400_000 + b"\n")
        files.write(line_of(event(3)) + line_of(event(4))[:-30])
        self.assertEqual(files.ids(), ["event-3", "event-2"])
        files.seal()
        with open(files.family.sealed(1), "ab") as file:
            file.write(line_of(event(5))[:-1])
        self.assertEqual(files.ids(), ["event-3", "event-2"])

    def test_the_last_line_of_a_sealed_segment(self) -> None:
        """It is a line whether or not its end is there, as when it is loaded."""
        files = self.files()
        files.write(line_of(event(1))[:-1])
        self.assertEqual(files.ids(), [])
        files.seal()
        self.assertEqual(files.ids(), ["event-1"])

    def test_time_is_up(self) -> None:
        """Whoever may read no more says how far it came, and goes on from there."""
        files = self.files()
        for number in range(10):
            files.write(line_of(event(number)))
        ticks = iter(range(100))
        look = files.look(
            EventFilter(id="event-0"), max_seconds=2, block_bytes=900, seconds=lambda: next(ticks)
        )
        self.assertEqual(look.events, [])
        assert look.next is not None and look.back_to is not None
        self.assertLess(rfc3339(NOON), look.back_to)
        self.assertEqual(files.ids(EventFilter(id="event-0"), before=look.next), ["event-0"])

    def test_times_that_are_passed_over(self) -> None:
        """What was recorded long after or before the time that is asked for is not gone through."""
        files = self.files()
        files.write(line_of(event(0)))
        files.seal()
        files.write(line_of(event(1), NOON + LATE_MS))
        files.seal()
        files.write(line_of(event(2), NOON + 2 * LATE_MS))
        wanted = EventFilter(until_ms=NOON + 10 * 60_000)
        self.assertEqual(files.ids(wanted), ["event-1", "event-0"])
        late = files.look(EventFilter(since_ms=NOON + AHEAD_MS + 2 * LATE_MS))
        self.assertEqual((late.events, late.next), ([], None))

    def test_no_file_at_all(self) -> None:
        """A ledger without any file has no event."""
        files = self.files()
        os.remove(files.family.active)
        self.assertEqual(files.look(), LookedBack([], None, None, None))

    def test_older_lines(self) -> None:
        """A line that can be counted can be found, whatever its other members are like."""
        files = self.files()
        files.write(
            b'{"id":"old","key_sha256":"k","route_model":"fast","ts_ms":1,"cost_usd":0.5,'
            b'"received_at":"2026-11-29T23:59:59.999Z","status":"200","attempts":null}\n'
        )
        self.assertEqual(files.ids(EventFilter(model="fast")), ["old"])


class CursorTests(SynchronousTestCase):
    """A place as text."""

    @given(st.integers(0, 10**9), st.integers(0, 10**12))
    def test_there_and_back(self, segment: int, offset: int) -> None:
        self.assertEqual(
            read_cursor(write_cursor(Position(segment, offset))), Position(segment, offset)
        )

    @given(st.text(max_size=30))
    def test_anything_else(self, text: str) -> None:
        """A text is a place, or is refused."""
        try:
            read_cursor(text)
        except ValueError as error:
            self.assertIn("cursor", str(error))


class PiecesBackTests(SynchronousTestCase):
    """Files of lines, from behind."""

    @given(
        st.text("ab\n", max_size=60).map(str.encode),
        st.integers(1, 9),
        st.integers(1, 12),
        st.booleans(),
    )
    def test_all_lines_that_are_not_too_long(
        self, data: bytes, block_bytes: int, max_line: int, drop_torn: bool
    ) -> None:
        """All pieces together are the file, whatever the size of blocks."""
        pieces = list(
            pieces_back(
                lambda start, length: data[start : start + length],
                len(data),
                drop_torn=drop_torn,
                block_bytes=block_bytes,
                max_line=max_line,
            )
        )
        for piece in pieces:
            self.assertEqual(data[piece.start : piece.start + len(piece.data)], piece.data)
            if piece.data:
                self.assertTrue(piece.start == 0 or data[piece.start - 1 : piece.start] == b"\n")
        wanted = data[: data.rfind(b"\n") + 1] if drop_torn else data

        def short(text: bytes) -> list[bytes]:
            return [line for line in text.split(b"\n") if line and len(line) <= max_line]

        self.assertEqual(short(b"".join(piece.data for piece in reversed(pieces))), short(wanted))

    def test_a_file_that_was_cut(self) -> None:
        """What is no longer there is passed over."""
        data = b"one\ntwo\nthr"
        pieces = pieces_back(
            lambda start, length: data[start : start + length], 40, drop_torn=False, block_bytes=5
        )
        self.assertEqual(b"".join(reversed([piece.data for piece in pieces])), b"one\ntwo\n")


class FilterTests(SynchronousTestCase):
    """What is asked for."""

    def test_words_for_statuses(self) -> None:
        self.assertEqual(parse_status("failed"), (400, 599))
        self.assertEqual(parse_status("418"), (418, 418))
        for text in ("", "600", "099", "5XX", "\N{ARABIC-INDIC DIGIT FIVE}00"):
            self.assertRaises(ValueError, parse_status, text)

    @given(MEMBERS, FILTERS)
    def test_a_token_leaves_nothing_out(self, members: dict[str, Any], wanted: EventFilter) -> None:
        """Every wanted line is among those that are looked at."""
        line = line_of(event(3, **members))
        found = read_searched(line[:-1])
        assert found is not None
        if wanted.takes(found):
            self.assertEqual(line_starts(line, wanted.token()), [0])
