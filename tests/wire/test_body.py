"""Tests of omnigate.wire.body."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.wire.body import (
    LAST_CHUNK,
    MAX_CHUNK_LINE_BYTES,
    MAX_TRAILER_BYTES,
    ChunkedReader,
    CloseReader,
    FramingError,
    LengthReader,
    TruncatedBody,
    chunk,
    reader_for,
)
from omnigate.wire.head import parse_response_head
from tests.corpus import chunked_attacks
from tests.wire.cuts import cut, every_cut, places


def read(pieces: list[bytes]) -> tuple[bytes, bool, bytes, bool]:
    """Feed a chunked reader; tell payload, ended, rest and whether it refused."""
    reader = ChunkedReader()
    payload = b""
    left = list(pieces)
    try:
        while left and not reader.ended:
            payload += reader.feed(left.pop(0))
    except FramingError:
        return b"", False, b"", True
    return payload, reader.ended, reader.rest + b"".join(left), False


class ChunkedReaderTests(SynchronousTestCase):
    """Chunked bodies, cut in every way."""

    def test_three_ways(self) -> None:
        """Payload, end and what follows are the same however the bytes are cut."""
        wire = (
            b"5\r\nhello\r\n10;name=value;x\r\n0123456789abcdef\r\n1  \r\n\r\r\n"
            b"0;last\r\nx-trailer: 1\r\nempty:\r\n\r\nHTTP/1.1 200 OK\r\n"
        )
        for pieces in every_cut(wire):
            self.assertEqual(
                read(pieces), (b"hello0123456789abcdef\r", True, b"HTTP/1.1 200 OK\r\n", False)
            )

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.binary(max_size=2000), max_size=8), places())
    def test_any_payload_any_cut(self, payloads: list[bytes], where: list[int]) -> None:
        """What was written in chunks is read back, whatever it holds."""
        chunks = [b"%x\r\n%b\r\n" % (len(payload), payload) for payload in payloads if payload]
        wire = b"".join(chunks) + LAST_CHUNK + b"next"
        self.assertEqual(read(cut(wire, where)), (b"".join(payloads), True, b"next", False))

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [b"0", b"1", b"a", b"\r\n", b"\r", b"\n", b"5\r\nhello", b";", b" ", b"x", b":"]
            ),
            max_size=14,
        ),
        places(),
    )
    def test_junk_reads_the_same_in_every_cut(self, words: list[bytes], where: list[int]) -> None:
        """A doubtful body is refused, or held, or read, whatever the cut."""
        wire = b"".join(words)
        whole = read([wire])
        parts = read(cut(wire, where))
        self.assertEqual(whole[3], parts[3])
        self.assertEqual(whole, parts)

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [
                    *(b"5\r\nhello\r\n", b"A\r\n0123456789\r\n", b"1f4\r\n%b\r\n" % (b"x" * 500)),
                    *(
                        b"4\r\na\r\nb\r\n",
                        b"2\r\n\r\n\r\n",
                        b"05\r\nhello\r\n",
                        b"5;a\r\nhello\r\n",
                    ),
                    *(b"d\r\ndata: hello\n\n\r\n", b"401\r\n%b\r\n" % (b"y" * 1025)),
                ]
            ),
            min_size=1,
            max_size=20,
        ),
        st.integers(1, 60),
        st.sampled_from(
            [b"", b"", b"0\r\n\r\nnext", b"5\r\nhe", b"6\r\nhello\r\n", b"g\r\n", b"5\r"]
        ),
        places(),
    )
    def test_runs_of_chunks(
        self, chunks: list[bytes], times: int, end: bytes, where: list[int]
    ) -> None:
        """Many chunks in one read are read as byte by byte, to the first that is none."""
        wire = b"".join(chunks * times)[:20_000] + end
        slow = read([wire[at : at + 1] for at in range(len(wire))])
        self.assertEqual(slow, read([wire]))
        self.assertEqual(slow, read(cut(wire, where)))
        self.assertEqual(slow, read(wire.replace(b"\r\n", b"\r\n|").split(b"|")))

    def test_a_chunk_of_any_size(self) -> None:
        """A chunk is written as the grammar has it, and read back, as a read of its own too."""
        for size in [*range(1, 300), *range(1000, 1100), 4095, 4096, 65536]:
            payload = (b"\r\n" * size)[:size]
            wire = chunk(payload)
            self.assertEqual(b"%x\r\n%b\r\n" % (size, payload), wire)
            reader = ChunkedReader()
            for _ in range(2):
                self.assertEqual(payload, reader.feed(wire))
            wrong = wire[:-1] + b"x"
            self.assertRaises(FramingError, ChunkedReader().feed, wrong)

    def test_attacks_are_refused(self) -> None:
        """Every hostile chunked body of the corpus is a framing error, in every cut."""
        for name, wire in chunked_attacks.BODIES.items():
            with self.subTest(name):
                self.assertTrue(read([wire])[3], name)
                self.assertTrue(read([wire[i : i + 1] for i in range(len(wire))])[3], name)

    def test_size_lines_are_bounded(self) -> None:
        """A chunk-size line without an end is refused at its bound, not collected."""
        reader = ChunkedReader()
        reader.feed(b"5;")
        self.assertRaises(FramingError, reader.feed, b"x" * MAX_CHUNK_LINE_BYTES)

    def test_trailers_are_bounded(self) -> None:
        """Trailer lines are refused once they are too many together."""
        reader = ChunkedReader()
        reader.feed(b"0\r\n")
        with self.assertRaises(FramingError):
            for _ in range(MAX_TRAILER_BYTES // 6 + 1):
                reader.feed(b"a: b\r\n")

    def test_early_end(self) -> None:
        """A connection that ends before the last chunk cut the body short."""
        for wire in (b"", b"5\r\nhel", b"5\r\nhello\r\n", b"0\r\n", b"0\r\na: b\r\n"):
            reader = ChunkedReader()
            reader.feed(wire)
            self.assertRaises(TruncatedBody, reader.finish)
        reader = ChunkedReader()
        reader.feed(LAST_CHUNK)
        reader.finish()

    def test_bytes_after_the_end_are_kept(self) -> None:
        """What comes after the end is kept for the next message."""
        reader = ChunkedReader()
        reader.feed(LAST_CHUNK + b"ab")
        self.assertEqual(reader.feed(b"cd"), b"")
        self.assertEqual(reader.rest, b"abcd")

    def test_no_payload_is_held_back(self) -> None:
        """Payload is returned as it comes, also from a chunk that is not complete."""
        reader = ChunkedReader()
        self.assertEqual(reader.feed(b"5\r\nhe"), b"he")
        self.assertEqual(reader.feed(b"l"), b"l")
        self.assertEqual(reader.feed(b"lo\r\n"), b"lo")


class LengthReaderTests(SynchronousTestCase):
    """Bodies of a known length."""

    def test_three_ways(self) -> None:
        """Exactly the declared bytes are payload; the rest is kept."""
        for pieces in every_cut(b"hello, more"):
            reader = LengthReader(5)
            payload = b"".join([reader.feed(piece) for piece in pieces])
            self.assertEqual((payload, reader.ended, reader.rest), (b"hello", True, b", more"))
            reader.finish()

    def test_nothing_has_ended_at_once(self) -> None:
        """A length of 0 needs no byte."""
        reader = LengthReader(0)
        self.assertTrue(reader.ended)
        self.assertEqual(reader.feed(b"x"), b"")
        self.assertEqual(reader.rest, b"x")

    def test_early_end(self) -> None:
        """Fewer bytes than declared are an error."""
        reader = LengthReader(5)
        reader.feed(b"hell")
        self.assertRaises(TruncatedBody, reader.finish)


class CloseReaderTests(SynchronousTestCase):
    """Bodies that last until the connection ends."""

    def test_all_is_payload(self) -> None:
        """Everything is payload, and the end of the connection is the end."""
        reader = CloseReader()
        self.assertEqual(reader.feed(b"abc"), b"abc")
        self.assertFalse(reader.ended)
        reader.finish()
        self.assertTrue(reader.ended)
        self.assertEqual(reader.feed(b"d"), b"")


class ChoiceTests(SynchronousTestCase):
    """The reader follows the head."""

    def test_reader_for(self) -> None:
        """Each framing has its reader."""
        for fields, kind in (
            (b"Content-Length: 3\r\n", LengthReader),
            (b"Transfer-Encoding: chunked\r\n", ChunkedReader),
            (b"", CloseReader),
        ):
            head = parse_response_head(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n")
            self.assertIsInstance(reader_for(head), kind)
        head = parse_response_head(b"HTTP/1.1 204 No Content\r\n\r\n")
        self.assertTrue(reader_for(head).ended)
