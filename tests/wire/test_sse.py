"""Tests of omnigate.wire.sse."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.sse import DataLines, EventSplitter, event_data, is_comment
from tests.wire.cuts import cut, every_cut, places


def split(pieces: list[bytes], bound: int = 1 << 20) -> tuple[list[bytes], bytes]:
    """Feed a splitter; tell the events, and what is pending.

    :param bound: what is held above it is taken out, and put together again here.
    """
    splitter = EventSplitter()
    events = []
    passed = b""
    for piece in pieces:
        was_passing = splitter.passing
        found = splitter.feed(piece)
        if was_passing and not found:
            passed += piece
        elif was_passing:
            found[0] = passed + found[0]
            passed = b""
        events += found
        if splitter.pending_bytes > bound:
            passed = splitter.pass_on()
    return events, passed + splitter.pending


def written(text: bytes) -> bytes:
    """An event with a line of data for each line of the text."""
    return b"".join([b"data: %b\n" % line for line in text.splitlines() or [b""]]) + b"\n"


class EventSplitterTests(SynchronousTestCase):
    """Streams cut into events, with every line end and in every cut."""

    def test_three_ways(self) -> None:
        """The same events come out however the stream is cut."""
        for end in (b"\n", b"\r\n"):
            stream = b"data: a\n\n: ping\n\nevent: x\ndata: b\ndata:c\n\ndata: [DO".replace(
                b"\n", end
            )
            whole = [
                part.replace(b"\n", end)
                for part in (b"data: a\n\n", b": ping\n\n", b"event: x\ndata: b\ndata:c\n\n")
            ]
            for pieces in every_cut(stream):
                self.assertEqual(split(pieces), (whole, b"data: [DO"))

    def test_carriage_returns_alone(self) -> None:
        """An event ended by lone CRs is returned at once, with its blank line as CR LF."""
        for pieces in every_cut(b"data: a\r\rdata: b\r\r"):
            self.assertEqual(split(pieces), ([b"data: a\r\r\n", b"data: b\r\r\n"], b""))

    def test_an_event_never_waits_for_a_line_feed(self) -> None:
        """A cut inside the last CR LF does not hold the event back, nor double it."""
        splitter = EventSplitter()
        self.assertEqual(splitter.feed(b"data: a\r\n\r"), [b"data: a\r\n\r\n"])
        self.assertEqual(splitter.feed(b"\ndata: b\r\n\r\n"), [b"data: b\r\n\r\n"])

    def test_byte_order_mark(self) -> None:
        """A mark at the start is dropped, also in pieces; elsewhere it is text."""
        for pieces in every_cut(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"):
            self.assertEqual(split(pieces), ([b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n"], b""))

    def test_blank_lines_that_end_nothing(self) -> None:
        """Blank lines without an event before them vanish."""
        for pieces in every_cut(b"\n\ndata: a\n\n\n\r\n\ndata: b\n\n\n"):
            self.assertEqual(split(pieces), ([b"data: a\n\n", b"data: b\n\n"], b""))

    def test_long_event_of_any_line_end(self) -> None:
        """What was held is joined to the read that ends it, and what follows is cut as ever."""
        for end in (b"\n", b"\r", b"\r\n"):
            event = (b":" + end) * 40_000 + end
            after = b"data: a" + end + end + b"data: b" + end + end
            pieces = [(event + after)[at : at + 999] for at in range(0, len(event + after), 999)]
            told = [
                part + b"\n" if end == b"\r" else part for part in (event, after[: len(after) // 2])
            ]
            events, pending = split(pieces)
            self.assertEqual(events[:2], told)
            self.assertEqual((len(events), pending), (3, b""))

    def test_taken_out(self) -> None:
        """Of an event that was taken out the rest comes alone, and the next as ever."""
        for end in (b"\n", b"\r\n"):
            rest, after = b"def" + end + end, b"data: a" + end + end
            for pieces in every_cut(rest + after):
                splitter = EventSplitter()
                self.assertEqual(splitter.feed(b"data: abc"), [])
                self.assertEqual(splitter.pass_on(), b"data: abc")
                self.assertEqual((splitter.passing, splitter.pending_bytes), (True, 0))
                seen = b""
                for piece in pieces:
                    was_passing = splitter.passing
                    found = splitter.feed(piece)
                    seen += piece if was_passing and not found else b"".join(found)
                self.assertEqual((seen, splitter.passing), (rest + after, False))

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [b"data: x", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"\xef\xbb\xbf", b"event", b" "]
            ),
            max_size=20,
        ),
        places(),
        st.sampled_from([6, 12, 1000]),
    )
    def test_any_cut(self, words: list[bytes], where: list[int], bound: int) -> None:
        """Any stream gives the same events in any cut."""
        stream = b"".join(words)
        self.assertEqual(split(cut(stream, where), bound), split([stream], bound))

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.binary(max_size=50), max_size=10), places())
    def test_written_events_are_read_back(self, texts: list[bytes], where: list[int]) -> None:
        """What was written as an event, a splitter and event_data read; line ends become LF."""
        stream = b"".join(map(written, texts))
        events, pending = split(cut(stream, where))
        self.assertEqual(pending, b"")
        self.assertEqual(
            [event_data(event) for event in events],
            [b"\n".join(text.splitlines()) if text else b"" for text in texts],
        )


class EventTests(SynchronousTestCase):
    """Reading one event."""

    def test_data(self) -> None:
        """Data lines are joined with LF; one blank behind the colon is dropped."""
        for event, data in (
            (b"data: a\n\n", b"a"),
            (b"data:a\n\n", b"a"),
            (b"data:  a\n\n", b" a"),
            (b"data\n\n", b""),
            (b"data:\n\n", b""),
            (b"data: a\ndata: b\n\n", b"a\nb"),
            (b"data: a\r\ndata: b\r\n\r\n", b"a\nb"),
            (b"data: a\rdata: b\r\r\n", b"a\nb"),
            (b"event: x\ndata: a\n\n", b"a"),
            (b"event: x\ndata: a\nid: 1\n\n", b"a"),
            (b"id: 1\ndata: a\n\n", b"a"),
            (b"datax: a\n\n", None),
            (b": comment\n\n", None),
            (b"event: x\n\n", None),
        ):
            self.assertEqual(event_data(event), data, event)

    def test_data_as_it_passes(self) -> None:
        """The same data is taken out of an event that passes in pieces."""
        for event in (
            *(b"data: a\n\n", b"data:a\n\n", b"data:  a\n\n", b"data:\n\n", b"data: \n\n"),
            *(b"data: a\ndata: b\ndata:\ndata:c\n\n", b"event: x\ndata: a\nid: 1\n\n"),
            *(b"datax: a\ndat\n\n", b": data: a\n\n", b"data: a\ndata\n\n", b"dat", b""),
            *(b"\ndata\n", b"data\n", b"data:\n", b"x\rdata\n"),
        ):
            for end in (b"\n", b"\r", b"\r\n"):
                ended = event.replace(b"\n", end)
                for pieces in every_cut(ended):
                    reader = DataLines()
                    data = b"".join(map(reader.feed, pieces))
                    self.assertEqual(data if reader.any else None, event_data(ended), ended)

    @settings(max_examples=200, deadline=None)
    @given(st.text("data: \n\rx", max_size=60), places())
    def test_any_data(self, text: str, where: list[int]) -> None:
        """However an event is cut, its data is the same."""
        event = text.encode() + b"\n"
        reader = DataLines()
        data = b"".join(map(reader.feed, cut(event, where)))
        self.assertEqual(data if reader.any else None, event_data(event))

    def test_comment(self) -> None:
        """An event of comment lines only is a comment."""
        for event, comment in (
            (b": ping\n\n", True),
            (b":\n\n", True),
            (b": a\n: b\r\n\r\n", True),
            (b": a\ndata: b\n\n", False),
            (b"data: b\n\n", False),
            (b"id: 1\n\n", False),
        ):
            self.assertEqual(is_comment(event), comment, event)
