"""Answers judged: whole, byte by byte, and with bytes behind them."""

from twisted.trial.unittest import SynchronousTestCase

from bench import traffic
from bench.answers import (
    AnswerReader,
    ChunkDecoder,
    ExactPayload,
    PacedPayload,
    WrongAnswerError,
)

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


def read(*reads: bytes, expected: bytes = b"hello") -> AnswerReader:
    """Feed an answer in some reads."""
    reader = AnswerReader(ExactPayload(expected))
    for data in reads:
        reader.feed(data, 0)
    return reader


def bytewise(data: bytes) -> list[bytes]:
    """Return every byte on its own."""
    return [data[at : at + 1] for at in range(len(data))]


def wrong(*reads: bytes, expected: bytes = b"hello") -> str:
    """Return what is said of a wrong answer."""
    try:
        reader = read(*reads, expected=expected)
    except WrongAnswerError as error:
        return str(error)
    raise AssertionError(f"taken for right, ended: {reader.ended}")


class ReaderTests(SynchronousTestCase):
    def test_three_ways(self) -> None:
        """Either framing is read in any cut, and what stands behind an answer is wrong."""
        for answer in (HELLO, CHUNKED):
            self.assertTrue(read(answer).ended)
            self.assertTrue(read(*bytewise(answer)).ended)
            for cut in range(len(answer)):
                self.assertFalse(read(answer[:cut]).ended)
            self.assertIn("more comes behind", wrong(answer + b"x"))

    def test_another_payload(self) -> None:
        """The place of the first difference is told."""
        self.assertIn(
            "differs from byte 3 on: b'lo' instead of b'xo'", wrong(HELLO, expected=b"helxo")
        )
        self.assertIn("5 bytes where 4 were sent", wrong(CHUNKED, expected=b"hell"))

    def test_refusals(self) -> None:
        """Another status is wrong, and quoted with its body."""
        answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\n{}"
        self.assertIn("502 Bad Gateway | {}", wrong(answer))

    def test_heads_without_one_length(self) -> None:
        """Neither framing, or both, is wrong."""
        self.assertIn("one length", wrong(b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\nhello"))
        both = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 5\r\n\r\n", 1)
        self.assertIn("one length", wrong(both))

    def test_endless_head(self) -> None:
        """A head without an end is given up."""
        self.assertIn("no head ends", wrong(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 20_000))

    def test_close_is_told(self) -> None:
        """A connection that is to be closed is not used again."""
        self.assertTrue(read(HELLO).keeps)
        self.assertFalse(
            read(HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)).keeps
        )

    def test_lost(self) -> None:
        """What is said of an answer that is cut short."""
        self.assertIn("before its head", str(read(HELLO[:10]).lost()))
        self.assertIn("within its body", str(read(HELLO[:-1]).lost()))


class ChunkTests(SynchronousTestCase):
    def test_broken_coding(self) -> None:
        """A chunk of another length than it says, or a line that is none, is wrong."""
        for data, words in (
            (b"2\r\nhello", "longer than it said"),
            (b"x" * 200, "no chunk begins here"),
            (b"0\r\n\r\nHTTP", "behind the last chunk"),
            (b"0\r\ntrailer: 1\r\n\r\n", "longer than it said"),
        ):
            error = self.assertRaises(WrongAnswerError, ChunkDecoder().feed, data)
            self.assertIn(words, str(error))

    def test_extensions(self) -> None:
        """An extension of a chunk means nothing."""
        decoder = ChunkDecoder()
        self.assertEqual(decoder.feed(b"5;a=b\r\nhello\r\n0\r\n\r\n"), b"hello")
        self.assertTrue(decoder.ended)


class PacedTests(SynchronousTestCase):
    def stream(self) -> list[bytes]:
        """Three events and the end."""
        events = [traffic.paced_event(index, 1000 + index) for index in range(3)]
        return [*events, traffic.stream_end("paced", 3, with_usage=False)]

    def delays(self, pieces: list[bytes], now_ns: int = 2000) -> list[int]:
        """Judge a stream and return the delays of its events."""
        delays: list[int] = []
        payload = PacedPayload(3, delays)
        for piece in pieces:
            payload.take(piece, now_ns)
        payload.finish()
        return delays

    def test_delays(self) -> None:
        """Each event's delay is taken once, however the stream is cut."""
        whole = b"".join(self.stream())
        for pieces in (self.stream(), [whole], bytewise(whole)):
            self.assertEqual(self.delays(pieces), [1000, 999, 998])

    def test_lost_events(self) -> None:
        """An event that is missing, doubled or out of order is noticed, and so is the end."""
        first, second, third, end = self.stream()
        for pieces in (
            [first, third, end],
            [second, third, end],
            [first, first, second, third, end],
            [first, third, second, end],
            [first, second, third],
            [first, second],
            [first, second, third, end, b"x"],
            [first, second, third, traffic.stream_end("paced", 3, with_usage=True)],
        ):
            self.assertRaises(WrongAnswerError, self.delays, pieces)
