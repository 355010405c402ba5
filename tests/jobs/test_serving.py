"""How stored outputs go out: headers, ranges, and reading no faster than somebody takes."""

import os
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from omnigate.files import READ_BYTES
from omnigate.jobs.file_reads import MAX_READS, STALL_SECONDS, FileReads, GoneError
from omnigate.jobs.job import Output
from omnigate.jobs.serving import UnsatisfiableError, parse_range, served
from omnigate.testing.writer import SynchronousWriter

PLAIN = Output("image/png", 100, "ab" * 32, "url", "local", "job_1/0.png")


class ServedTest(SynchronousTestCase):
    """What a client is told of a file."""

    def test_a_download_that_no_browser_runs(self) -> None:
        self.assertEqual(
            dict(served(PLAIN).headers()),
            {
                b"content-disposition": b'attachment; filename="job_1-0.png"',
                b"x-content-type-options": b"nosniff",
                b"content-security-policy": b"sandbox; default-src 'none'",
                b"cache-control": b"private, no-cache",
                b"accept-ranges": b"bytes",
                b"etag": b'"%s"' % (b"ab" * 32),
            },
        )

    def test_types_outside_the_short_list(self) -> None:
        for kind in ("text/html", "image/svg+xml", "application/octet-stream", "x\r\ny: z"):
            page = Output(kind, 1, "00", "url", "local", "job_1/0.bin")
            self.assertEqual(served(page).content_type, "application/octet-stream")
        self.assertEqual(served(PLAIN).content_type, "image/png")

    def test_an_encrypted_one(self) -> None:
        file = served(
            Output(
                "image/png", 100, "ab" * 32, "url", "local", "job_1/0.png.age", True, 300, "cd" * 32
            )
        )
        self.assertEqual(file.content_type, "application/octet-stream")
        self.assertEqual((file.size, file.sha256), (300, "cd" * 32))
        self.assertIn("job_1-0.png.age", file.disposition)

    def test_what_a_client_has_already(self) -> None:
        file = served(PLAIN)
        for tags in (file.etag, f"W/{file.etag}", f'"x", {file.etag}', "*"):
            self.assertTrue(file.matches(tags), tags)
        for tags in ("", '"x"', file.sha256, '"x", *'):
            self.assertFalse(file.matches(tags), tags)


class RangesTest(SynchronousTestCase):
    """Single ranges of bytes (RFC 9110, section 14.1.2)."""

    def test_each_form(self) -> None:
        for header, expected in (
            ("bytes=0-9", (0, 10)),
            ("bytes=90-", (90, 100)),
            ("bytes=-10", (90, 100)),
            ("bytes=-1000", (0, 100)),
            ("bytes=99-1000", (99, 100)),
            (" bytes=5-5 ", (5, 6)),
        ):
            self.assertEqual(parse_range(header, 100), expected, header)

    def test_what_is_passed_over(self) -> None:
        for header in ("", "bytes=", "bytes=-", "bytes=9-0", "bytes=0-1,5-6", "lines=1-2", "x"):
            self.assertIsNone(parse_range(header, 100), header)

    def test_what_there_is_not(self) -> None:
        for header in ("bytes=100-", "bytes=100-200", "bytes=-0"):
            with self.assertRaises(UnsatisfiableError):
                parse_range(header, 100)
        with self.assertRaises(UnsatisfiableError):
            parse_range("bytes=0-", 0)

    @given(st.text(st.sampled_from("bytes=-0123456789, "), max_size=20), st.integers(0, 1000))
    def test_any_range_is_within_the_file(self, header: str, size: int) -> None:
        try:
            found = parse_range(header, size)
        except UnsatisfiableError:
            return
        if found is not None:
            self.assertTrue(0 <= found[0] < found[1] <= size)


class Slow:
    """Takes what it is given, a piece or so at a time."""

    def __init__(self, room: int = 1_000) -> None:
        self.is_open = True
        self.room = room
        self.taken: list[bytes] = []
        self.closed: Callable[[], None] = lambda: None
        self.turned: Callable[[], None] = lambda: None

    @property
    def has_room(self) -> bool:
        """Whether it takes one more."""
        return self.room > 0

    def write(self, data: bytes) -> None:
        """Take it."""
        self.taken.append(data)
        self.room -= 1
        if not self.room:
            self.turned()

    def more(self, room: int) -> None:
        """Take so many more."""
        self.room = room
        self.turned()

    def end(self) -> None:
        """End it, whoever does."""
        if self.is_open:
            self.is_open = False
            self.closed()


class ReadingTest(SynchronousTestCase):
    """Files in pieces."""

    def setUp(self) -> None:
        self.path = self.mktemp()
        self.content = os.urandom(READ_BYTES * 5 + 7)
        with open(self.path, "wb") as file:
            file.write(self.content)
        self.clock = Clock()
        self.reader = SynchronousWriter(holding=True)
        self.reads = FileReads(self.reader, self.clock)

    def open_files(self) -> int:
        """Return how many descriptors of the file this process has."""
        found = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                found += os.readlink(f"/proc/self/fd/{name}") == os.path.realpath(self.path)
            except OSError:
                continue
        return found

    def test_all_of_it(self) -> None:
        taker = Slow()
        self.reads.send(self.path, 0, len(self.content), taker)
        self.reader.run()
        self.assertEqual(b"".join(taker.taken), self.content)
        self.assertFalse(taker.is_open)
        self.assertEqual((self.reads.open, self.open_files()), (0, 0))

    @given(st.integers(0, READ_BYTES * 5 + 6), st.integers(1, READ_BYTES * 2))
    def test_any_part(self, begin: int, length: int) -> None:
        taker, end = Slow(), min(begin + length, len(self.content))
        self.reads.send(self.path, begin, end, taker)
        self.reader.run()
        self.assertEqual(b"".join(taker.taken), self.content[begin:end])

    def test_no_faster_than_it_is_taken(self) -> None:
        taker = Slow(room=2)
        self.reads.send(self.path, 0, len(self.content), taker)
        self.reader.run()
        self.assertEqual(len(taker.taken), 2)
        # One piece waits, and no read is under way.
        self.assertEqual(self.reader.pending, 0)
        taker.more(1)
        self.reader.run()
        self.assertEqual(len(taker.taken), 3)
        taker.more(10)
        self.reader.run()
        self.assertEqual(b"".join(taker.taken), self.content)

    def test_one_read_at_a_time(self) -> None:
        taker = Slow()
        self.reads.send(self.path, 0, len(self.content), taker)
        for _ in range(3):
            taker.turned()
        self.assertEqual(self.reader.pending, 1)

    def test_whoever_takes_nothing_is_left(self) -> None:
        taker = Slow(room=1)
        self.reads.send(self.path, 0, len(self.content), taker)
        self.reader.run()
        self.clock.advance(STALL_SECONDS - 1)
        self.assertTrue(taker.is_open)
        self.clock.advance(1)
        self.reader.run()
        self.assertFalse(taker.is_open)
        self.assertEqual((self.reads.open, self.open_files()), (0, 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_whoever_takes_slowly_is_not(self) -> None:
        taker = Slow(room=1)
        self.reads.send(self.path, 0, len(self.content), taker)
        for _ in range(10):
            self.reader.run()
            self.clock.advance(STALL_SECONDS - 1)
            taker.more(1)
        self.assertEqual(b"".join(taker.taken), self.content)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_whoever_leaves(self) -> None:
        taker = Slow()
        self.reads.send(self.path, 0, len(self.content), taker)
        self.reader.run(1)
        taker.end()
        self.reader.run()
        self.assertEqual(len(taker.taken), 1)
        self.assertEqual((self.reads.open, self.open_files()), (0, 0))

    def test_a_file_that_is_not_there(self) -> None:
        taker = Slow()
        self.reads.send(self.path + "x", 0, 10, taker)
        self.reader.run()
        self.assertFalse(taker.is_open)
        self.assertEqual(self.reads.open, 0)

    def test_checked_first(self) -> None:
        self.reader.holding = False
        size = len(self.content)
        self.successResultOf(Deferred.fromCoroutine(self.reads.check(self.path, size)))
        for path, length in ((self.path, size + 1), (self.path + "x", size)):
            checked = Deferred.fromCoroutine(self.reads.check(path, length))
            self.failureResultOf(checked, GoneError)

    def test_a_bound(self) -> None:
        for _ in range(MAX_READS):
            self.assertTrue(self.reads.has_room)
            self.reads.send(self.path, 0, 10, Slow())
        self.assertFalse(self.reads.has_room)
        self.reader.run()
        self.assertTrue(self.reads.has_room)


class HeadTests(SynchronousTestCase):
    """The first bytes of a file."""

    def setUp(self) -> None:
        self.reads = FileReads(SynchronousWriter(), Clock())
        self.path = self.mktemp()

    def head(self, length: int) -> bytes:
        found: bytes = self.successResultOf(
            Deferred.fromCoroutine(self.reads.head(self.path, length))
        )
        return found

    def test_of_a_long_one(self) -> None:
        with open(self.path, "wb") as file:
            file.write(bytes(range(256)) * 4096)
        self.assertEqual(bytes(range(64)), self.head(64))

    def test_of_a_short_one(self) -> None:
        for content in (b"", b"ab"):
            with open(self.path, "wb") as file:
                file.write(content)
            self.assertEqual(content, self.head(64))

    def test_of_none(self) -> None:
        self.failureResultOf(Deferred.fromCoroutine(self.reads.head(self.path, 64)), GoneError)
