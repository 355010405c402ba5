"""Bodies of requests: in one write, in pieces, out of a file, and no faster than they are taken."""

from __future__ import annotations

import os

from twisted.internet.defer import CancelledError, Deferred

from omnigate.outbound.body_sender import PIECE_BYTES
from omnigate.outbound.messages import (
    CONNECTION_LOST,
    NOT_KEPT,
    TIMEOUT,
    TRUNCATED,
    Answer,
    Request,
)
from omnigate.testing.writer import SynchronousWriter
from tests.outbound.test_client import OutboundCase

BODY = os.urandom(3 * PIECE_BYTES + 5)


class LongBodyTests(OutboundCase):
    """A body in memory that is too long for one write."""

    request = Request("POST", "https://api.example/", (), BODY)

    def test_whole(self) -> None:
        """It arrives as it was, with its length told."""
        answered = self.call(self.request)
        head, _, body = self.peer.heard.partition(b"\r\n\r\n")
        self.assertIn(b"content-length: %d" % len(BODY), head)
        self.assertEqual(body, BODY)
        self.peer.answers(200, b"x")
        self.assertTrue(self.answer(answered).ok)
        self.assertIsNone(self.peer.wire.producer)

    def pausing(self) -> Deferred[Answer]:
        """Send to a peer that takes one piece at a time."""
        self.network.slow = True
        return self.call(self.request)

    def test_back_pressure(self) -> None:
        """The next piece goes when the connection asks for it; the peer has its time for each."""
        answered = self.pausing()
        for count in (1, 2, 3):
            self.assertEqual(len(self.peer.heard.partition(b"\r\n\r\n")[2]), count * PIECE_BYTES)
            self.clock.advance(20)
            self.peer.wire.producer.resumeProducing()
        self.assertEqual(self.peer.heard.partition(b"\r\n\r\n")[2], BODY)
        # From here on it has the time for the head.
        self.clock.advance(29)
        self.peer.answers(200)
        self.assertTrue(self.answer(answered).ok)

    def test_peer_that_takes_nothing(self) -> None:
        """It is given up like one that sends nothing."""
        answered = self.pausing()
        self.clock.advance(30)
        answer = self.answer(answered)
        self.assertEqual((answer.fault, answer.detail), (TIMEOUT, "30 s without a byte"))

    def test_early_answer(self) -> None:
        """An answer before the end of the request is one; the connection is of no more use."""
        answered = self.pausing()
        self.peer.answers(413, b"too large")
        answer = self.answer(answered)
        self.assertEqual((answer.status, answer.body), (413, b"too large"))
        self.assertFalse(self.peer.open)

    def test_lost(self) -> None:
        """A peer that goes away in the middle is told as lost."""
        answered = self.pausing()
        self.peer.closes(clean=False)
        self.assertEqual(self.answer(answered).fault, CONNECTION_LOST)


class FileTests(OutboundCase):
    """A file for a bucket."""

    request = Request("PUT", "https://api.example/bucket/a", (("x-amz-date", "now"),))

    def setUp(self) -> None:
        super().setUp()
        self.path: str = self.mktemp()
        with open(self.path, "wb") as file:
            file.write(BODY)
        self.writer = SynchronousWriter(holding=True)

    def put(self, size: int = len(BODY), path: str | None = None) -> Deferred[Answer]:
        put = self.outbound.put(self.request, path or self.path, size, submit=self.writer.submit)
        return self.network.begin(put)

    def open_files(self) -> int:
        """How many descriptors lead to the file."""
        count = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                count += os.readlink(f"/proc/self/fd/{name}") == os.path.abspath(self.path)
            except FileNotFoundError:
                continue
        return count

    def test_whole(self) -> None:
        """It is read in the thread, one piece at a time, and closed."""
        answered = self.put()
        self.assertNotIn(BODY[:9], self.peer.heard)
        self.writer.run(1)
        self.assertEqual(self.peer.heard.partition(b"\r\n\r\n")[2], BODY[:PIECE_BYTES])
        self.assertEqual(self.open_files(), 1)
        while self.writer.run():
            pass
        head, _, body = self.peer.heard.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"PUT /bucket/a HTTP/1.1\r\n"))
        self.assertIn(b"content-length: %d\r\nconnection: close" % len(BODY), head)
        self.assertEqual(body, BODY)
        self.assertEqual(self.open_files(), 0)
        self.peer.answers(200, b"", 'etag: "x"')
        answer = self.answer(answered)
        self.assertEqual((answer.ok, answer.headers["etag"]), (True, '"x"'))

    def test_answered_too_early(self) -> None:
        """What says yes to a part of a file has not kept the file; a refusal stays one."""
        for status, fault in ((200, TRUNCATED), (403, "")):
            answered = self.put()
            self.writer.run(1)
            self.peer.answers(status)
            answer = self.answer(answered)
            self.assertEqual((answer.status, answer.fault, answer.ok), (status, fault, False))
            self.assertFalse(self.peer.open)
            while self.writer.run():
                pass
            self.assertEqual(self.open_files(), 0)

    def test_empty(self) -> None:
        """Of an empty file nothing is read."""
        answered = self.put(0)
        self.assertIn(b"content-length: 0\r\n", self.peer.heard)
        self.peer.answers(200)
        self.assertTrue(self.answer(answered).ok)

    def test_other_length(self) -> None:
        """A file that is not as long as it was is a fault of ours, and is not cut to fit."""
        for size in (len(BODY) + 1, len(BODY) - 1):
            answered = self.put(size)
            while self.writer.run():
                pass
            answer = self.answer(answered)
            self.assertEqual((answer.fault, answer.status), (NOT_KEPT, 0))
            self.assertIn("the length", answer.detail)
            self.assertFalse(self.peer.open)
            self.assertEqual(self.open_files(), 0)

    def test_no_file(self) -> None:
        """So is one that cannot be read."""
        answered = self.put(path="/nowhere/a")
        while self.writer.run():
            pass
        answer = self.answer(answered)
        self.assertEqual(answer.fault, NOT_KEPT)
        self.assertIn("the body could not be read", answer.detail)

    def test_canceled_while_a_piece_is_read(self) -> None:
        """The file is closed behind it, and nothing more sent."""
        answered = self.put()
        self.writer.run(1)
        answered.cancel()
        self.failureResultOf(answered, CancelledError)
        while self.writer.run():
            pass
        self.assertEqual(self.open_files(), 0)
        self.assertEqual(len(self.peer.heard.partition(b"\r\n\r\n")[2]), PIECE_BYTES)
