"""A connection to a provider, told by what its receiver hears."""

from collections.abc import Callable
from functools import partial

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.relay import SHORT_BYTES
from omnigate.protocols.upstream import MAX_INTERIM_HEADS, WHOLE_BYTES, Loss, UpstreamConnection
from omnigate.wire.head import MAX_HEAD_BYTES, ResponseHead
from tests.planes.transport import WireTransport

REQUEST = b"POST / HTTP/1.1\r\nhost: u\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


class Owner:
    """A pool that only remembers."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.free: list[UpstreamConnection] = []
        self.gone: list[UpstreamConnection] = []

    def connection_made(self, connection: UpstreamConnection) -> None:
        pass

    def connection_free(self, connection: UpstreamConnection) -> None:
        self.free.append(connection)

    def connection_gone(self, connection: UpstreamConnection) -> None:
        self.gone.append(connection)

    def call_soon(self, call: Callable[[], None]) -> None:
        self.clock.callLater(0, call)


class Receiver:
    """Remembers what it is told; ``act`` is called with each word and may do something."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.act: Callable[[str], object] = lambda word: None

    def _hear(self, word: str, *facts: object) -> None:
        self.told.append((word, *facts) if facts else word)
        self.act(word)

    def answer_head(self, connection: UpstreamConnection, head: ResponseHead) -> None:
        self._hear("head", head.status)

    def answer_data(self, data: bytes) -> None:
        self._hear("data", data)

    def answer_end(self) -> None:
        self._hear("end")

    def answer_whole(self, body: bytes) -> None:
        self._hear("whole", body)

    def answer_lost(self, loss: Loss, reason: str) -> None:
        self._hear("lost", loss)

    def crashed(self, failure: Failure) -> None:
        self.told.append(("crashed", failure.type))


class UpstreamTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.owner = Owner(self.clock)
        self.receiver = Receiver()
        self.connection = UpstreamConnection(self.owner)
        self.wire = WireTransport(self.clock)
        self.wire.connect(self.connection)
        self.connection.send(REQUEST, self.receiver)

    def read(self, data: bytes) -> None:
        self.wire.peer_sends(data)
        self.clock.advance(0)

    def end(self, reason: Exception) -> None:
        self.wire.peer_closes(reason)
        self.clock.advance(0)

    def refresh(self) -> None:
        """Answer the request, and send another one on the kept connection."""
        self.read(SHORT)
        self.receiver = Receiver()
        self.connection.send(REQUEST, self.receiver)


class AnswerTests(UpstreamTestCase):
    ENDINGS = (
        ("a length", SHORT),
        ("chunks", CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nt: 1\r\n\r\n"),
    )

    def test_any_cut(self) -> None:
        """However the answer is cut, the receiver hears head, payload and end, in this order."""
        for name, answer in self.ENDINGS:
            for size in (1, 2, 3, 7, len(answer)):
                self.setUp()
                for start in range(0, len(answer), size):
                    self.read(answer[start : start + size])
                told = self.receiver.told
                self.assertEqual(("head", 200), told[0], name)
                self.assertEqual("end", told[-1], name)
                payload = b"".join(word[1] for word in told[1:-1])  # type: ignore[index]
                self.assertEqual(b"hello", payload, name)
                self.assertEqual([self.connection], self.owner.free)
                self.assertTrue(self.connection.used)
                self.assertFalse(self.connection.busy)

    def test_request_is_written_at_once(self) -> None:
        """The request goes out in one piece, and small ones do not wait for acknowledgements."""
        self.assertEqual(REQUEST, self.wire.value())
        self.assertTrue(self.wire.no_delay)

    def test_interim_heads(self) -> None:
        """Interim heads are skipped, up to a bound."""
        self.read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + SHORT)
        self.assertEqual([("head", 200), ("data", b"hello"), "end"], self.receiver.told)

    def test_too_many_interim_heads(self) -> None:
        """A peer that sends nothing but interim heads is given up on."""
        self.read(b"HTTP/1.1 103 Hints\r\n\r\n" * (MAX_INTERIM_HEADS + 1))
        self.assertEqual([("lost", Loss.FRAMING)], self.receiver.told)
        self.assertTrue(self.wire.aborted)

    def test_no_body(self) -> None:
        """An answer without a body ends with its head."""
        for status in (b"204 No", b"304 Not"):
            self.setUp()
            self.read(b"HTTP/1.1 " + status + b"\r\n\r\n")
            self.assertEqual([("head", int(status[:3])), "end"], self.receiver.told)

    def test_not_kept(self) -> None:
        """A connection is not used again after ``close``, in HTTP/1.0, or with bytes left over."""
        cases = (
            SHORT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
            SHORT.replace(b"1.1", b"1.0"),
            SHORT + b"HTTP/1.1 200 OK\r\n",
        )
        for answer in cases:
            self.setUp()
            self.read(answer)
            self.assertEqual("end", self.receiver.told[-1], answer)
            self.assertEqual([], self.owner.free, answer)
            self.assertEqual([self.connection], self.owner.gone, answer)
            self.assertFalse(self.wire.connected)

    def test_free_before_the_end_is_told(self) -> None:
        """Whoever hears of the end can already use the connection again."""
        free: list[int] = []
        self.receiver.act = lambda word: free.append(len(self.owner.free))
        self.read(SHORT)
        self.assertEqual([0, 0, 1], free)

    def test_until_close(self) -> None:
        """A body without a length ends with the connection, if it is closed in order."""
        self.read(UNTIL_CLOSE + b"hel")
        self.read(b"lo")
        self.end(ConnectionDone())
        self.assertEqual([("data", b"hel"), ("data", b"lo"), "end"], self.receiver.told[1:])


class LossTests(UpstreamTestCase):
    def test_what_is_known(self) -> None:
        """The way an answer is lost tells what is known of the request's fate."""
        cases: tuple[tuple[str, bytes, Exception, Loss], ...] = (
            ("nothing came", b"", ConnectionDone(), Loss.NO_ANSWER),
            ("nothing came, reset", b"", ConnectionLost(), Loss.NO_ANSWER),
            ("half a head", b"HTTP/1.1 200 OK\r\ncon", ConnectionDone(), Loss.TRUNCATED),
            ("short of its length", SHORT[:-1], ConnectionDone(), Loss.TRUNCATED),
            ("no last chunk", CHUNKED + b"5\r\nhello\r\n", ConnectionDone(), Loss.TRUNCATED),
            ("half a chunk", CHUNKED + b"5\r\nhel", ConnectionDone(), Loss.TRUNCATED),
            ("reset before its close", UNTIL_CLOSE + b"hel", ConnectionLost(), Loss.TRUNCATED),
        )
        for name, answer, reason, loss in cases:
            self.setUp()
            if answer:
                self.read(answer)
            self.end(reason)
            self.assertEqual(("lost", loss), self.receiver.told[-1], name)
            self.assertEqual([self.connection], self.owner.gone, name)

    def test_stale(self) -> None:
        """A kept connection that closes without a byte of an answer was closing already."""
        self.refresh()
        self.end(ConnectionDone())
        self.assertEqual([("lost", Loss.STALE)], self.receiver.told)

    def test_spoken_before_it_was_asked(self) -> None:
        """What comes while all of the request is put aside is no answer to it, however it looks.

        Servers say 408 to an idle connection before they close it.
        """
        for unasked in (b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n", SHORT, b"H"):
            self.setUp()
            self.refresh()
            self.wire.gathered = True
            self.read(unasked)
            self.assertEqual([("lost", Loss.STALE)], self.receiver.told)
            self.assertTrue(self.wire.aborted)
            self.assertEqual([self.connection], self.owner.gone)

    def test_asked_in_time(self) -> None:
        """Once it has gone out it is answered like any other."""
        self.refresh()
        self.wire.gathered = False
        self.read(SHORT)
        self.assertEqual(("head", 200), self.receiver.told[0])

    def test_not_stale_after_an_interim_head(self) -> None:
        """After an interim head the request is known to have arrived."""
        self.refresh()
        self.read(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.end(ConnectionDone())
        self.assertEqual([("lost", Loss.NO_ANSWER)], self.receiver.told)

    def test_unframeable(self) -> None:
        """An answer that cannot be framed is lost, and its connection with it."""
        cases = (
            b"garbage\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD_BYTES,
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
            CHUNKED + b"zz\r\n",
            CHUNKED + b"%x\r\n" % (1 << 41),
            CHUNKED + b"5\r\nhelloworld",
        )
        for answer in cases:
            self.setUp()
            self.read(answer)
            self.assertEqual(("lost", Loss.FRAMING), self.receiver.told[-1], answer[:60])
            self.assertTrue(self.wire.aborted, answer[:60])
            self.assertEqual([self.connection], self.owner.gone, answer[:60])

    def test_bytes_without_a_request(self) -> None:
        """A peer that speaks unasked is not listened to again."""
        self.read(SHORT)
        self.read(SHORT)
        self.assertTrue(self.wire.aborted)
        self.assertFalse(self.connection.usable)
        self.assertEqual([self.connection], self.owner.gone)

    def test_nothing_after_a_loss(self) -> None:
        """After the end nobody hears anything more."""
        self.read(b"garbage\r\n\r\n")
        told = list(self.receiver.told)
        self.read(SHORT)
        self.end(ConnectionDone())
        self.assertEqual(told, self.receiver.told)
        self.assertEqual([self.connection], self.owner.gone)


class HandOverTests(UpstreamTestCase):
    def test_rest_goes_to_the_other(self) -> None:
        """What stands behind the head in the same read goes to whom the answer was handed."""
        other = Receiver()
        self.receiver.act = lambda word: self.connection.hand_over(other)
        self.read(SHORT)
        self.assertEqual([("head", 200)], self.receiver.told)
        self.assertEqual([("data", b"hello"), "end"], other.told)

    def test_in_the_middle(self) -> None:
        """The same while the body is coming."""
        other = Receiver()
        self.read(CHUNKED)
        self.receiver.act = lambda word: self.connection.hand_over(other)
        self.read(b"2\r\nhe\r\n")
        self.read(b"3\r\nllo\r\n0\r\n\r\n")
        self.assertEqual([("head", 200), ("data", b"he")], self.receiver.told)
        self.assertEqual([("data", b"llo"), "end"], other.told)

    def drop_at(self, word: str) -> Callable[[str], None]:
        def act(told: str) -> None:
            if told == word:
                self.connection.drop()

        return act

    def test_drop_inside_a_call(self) -> None:
        """A receiver that drops the connection hears nothing more of it."""
        for word in ("head", "data"):
            self.setUp()
            self.receiver.act = self.drop_at(word)
            self.read(SHORT)
            self.assertEqual(word, self.receiver.told[-1][0])  # type: ignore[index]
            self.assertFalse(self.wire.connected)
            self.assertEqual([self.connection], self.owner.gone)


class InOneTests(UpstreamTestCase):
    """What one is told who is glad of a body in one piece."""

    def setUp(self) -> None:
        super().setUp()
        self.receiver = Receiver()
        self.connection = UpstreamConnection(self.owner)
        self.wire = WireTransport(self.clock)
        self.wire.connect(self.connection)
        self.connection.send_for_whole(REQUEST, self.receiver)

    def test_in_one_read(self) -> None:
        """A body that comes with its head is told in one, and the connection is free before."""
        free: list[int] = []
        self.receiver.act = lambda word: free.append(len(self.owner.free))
        for answer, body in (
            (SHORT, b"hello"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
            (b"HTTP/1.1 100 Continue\r\n\r\n" + SHORT, b"hello"),
        ):
            free.clear()
            self.setUp()
            self.receiver.act = lambda word: free.append(len(self.owner.free))
            self.read(answer)
            self.assertEqual([("head", 200), ("whole", body)], self.receiver.told)
            self.assertEqual([0, 1], free)
            self.assertTrue(self.connection.usable and self.connection.used)

    def test_head_in_pieces(self) -> None:
        """The same where the head came in several reads, the last of them with all of the body."""
        for cut in range(1, SHORT.index(b"hello")):
            self.setUp()
            self.read(SHORT[:cut])
            self.read(SHORT[cut:])
            self.assertEqual([("head", 200), ("whole", b"hello")], self.receiver.told)

    def test_not_kept(self) -> None:
        """So it is where the connection cannot be used again."""
        self.read(SHORT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        self.assertEqual([("head", 200), ("whole", b"hello")], self.receiver.told)
        self.assertEqual(([], [self.connection]), (self.owner.free, self.owner.gone))

    def test_in_pieces(self) -> None:
        """Any other answer comes in pieces."""
        for answer, payload in (
            (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
            (SHORT + b"HTTP/1.1 200 OK\r\n", b"hello"),
            (b"HTTP/1.1 204 No\r\n\r\n", b""),
            (SHORT.replace(b"\r\n\r\n", b"\r\ncontent-encoding: br\r\n\r\n"), b"hello"),
        ):
            self.setUp()
            self.read(answer)
            pieces = [("data", payload)] if payload else []
            self.assertEqual([*pieces, "end"], self.receiver.told[1:])

    def test_any_cut(self) -> None:
        """So does one that is cut behind its head."""
        head = SHORT.index(b"hello")
        for cut in range(head, len(SHORT)):
            self.setUp()
            self.read(SHORT[:cut])
            self.read(SHORT[cut:])
            pieces = [("data", piece) for piece in (SHORT[head:cut], SHORT[cut:]) if piece]
            self.assertEqual([("head", 200), *pieces, "end"], self.receiver.told)

    def test_largest(self) -> None:
        """However much a transport gives at once, what is told in one has its bound."""
        self.assertLessEqual(WHOLE_BYTES, SHORT_BYTES)
        for size, word in ((WHOLE_BYTES, "whole"), (WHOLE_BYTES + 1, "data")):
            self.setUp()
            body = b"x" * size
            self.connection.dataReceived(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (size, body)
            )
            self.assertEqual((word, body), self.receiver.told[1])

    def test_handed_over(self) -> None:
        """Whoever the answer was handed to has it in pieces, be it before the head or with it."""
        for before in (True, False):
            self.setUp()
            other = Receiver()
            hand_over = partial(self.connection.hand_over, other)
            if before:
                hand_over()
            else:
                self.receiver.act = lambda word, call=hand_over: call()  # type: ignore[misc]
            self.read(SHORT)
            heads = [("head", 200)]
            self.assertEqual([] if before else heads, self.receiver.told)
            told = [("data", b"hello"), "end"]
            self.assertEqual([*heads, *told] if before else told, other.told)
            self.assertEqual([self.connection], self.owner.free)

    def test_dropped(self) -> None:
        """A receiver that drops the connection at the head hears nothing more of it."""
        self.receiver.act = lambda word: self.connection.drop()
        self.read(SHORT)
        self.assertEqual([("head", 200)], self.receiver.told)
        self.assertEqual(([], [self.connection]), (self.owner.free, self.owner.gone))

    def test_crashes(self) -> None:
        """An exception is told; at the end the connection is free already, and stays."""
        for at, told in (("head", 1), ("whole", 2)):
            self.setUp()

            def act(word: str, at: str = at) -> None:
                if word == at:
                    raise LookupError(word)

            self.receiver.act = act
            self.read(SHORT)
            self.assertEqual(("crashed", LookupError), self.receiver.told[told])
            self.assertEqual(at == "head", self.wire.aborted)

    def test_next_request(self) -> None:
        """What one asked for does not hold for the next."""
        self.read(SHORT)
        self.receiver = Receiver()
        self.connection.send(REQUEST, self.receiver)
        self.read(SHORT)
        self.assertEqual([("head", 200), ("data", b"hello"), "end"], self.receiver.told)


class BackPressureTests(UpstreamTestCase):
    def test_pause_and_resume(self) -> None:
        """A paused connection is not read, and goes on where it stood."""
        self.read(CHUNKED + b"2\r\nhe\r\n")
        self.connection.pause()
        self.read(b"3\r\nllo\r\n0\r\n\r\n")
        self.assertEqual(("data", b"he"), self.receiver.told[-1])
        self.connection.resume()
        self.clock.advance(0)
        self.assertEqual([("data", b"llo"), "end"], self.receiver.told[-2:])

    def test_paused_with_the_last_bytes(self) -> None:
        """A receiver that pauses at the last bytes does not leave a deaf connection behind."""
        self.receiver.act = lambda word: self.connection.pause()
        self.read(SHORT)
        self.assertEqual([self.connection], self.owner.free)
        self.assertTrue(self.wire.reading)

    def test_paused_after_the_end(self) -> None:
        """A connection that waits for a request is read, so that its closing is noticed."""
        self.read(SHORT)
        self.connection.pause()
        self.assertTrue(self.wire.reading)
        self.end(ConnectionDone())
        self.assertFalse(self.connection.usable)


class CrashTests(UpstreamTestCase):
    def crash_at(self, word: str, *, first_drop: bool = False) -> None:
        def act(told: str) -> None:
            if told == word:
                if first_drop:
                    self.connection.drop()
                raise LookupError(word)

        self.receiver.act = act

    def test_every_call(self) -> None:
        """An exception in any call is told to the receiver, and the connection is dropped."""
        for word in ("head", "data", "end"):
            self.setUp()
            self.crash_at(word)
            self.read(SHORT)
            self.assertEqual(("crashed", LookupError), self.receiver.told[-1], word)
            self.assertEqual(word != "end", self.wire.aborted, word)

    def test_in_the_loss(self) -> None:
        """The same where the answer is lost."""
        for answer in (b"", SHORT[:-1], b"garbage\r\n\r\n"):
            self.setUp()
            self.crash_at("lost")
            if answer:
                self.read(answer)
            self.end(ConnectionDone())
            self.assertEqual(("crashed", LookupError), self.receiver.told[-1])

    def test_until_close(self) -> None:
        """The same at the end of a body that the connection's end closes."""
        self.crash_at("end")
        self.read(UNTIL_CLOSE + b"hello")
        self.end(ConnectionDone())
        self.assertEqual(("crashed", LookupError), self.receiver.told[-1])

    def test_after_a_drop(self) -> None:
        """A receiver that drops the connection and then fails is told as well."""
        for word in ("head", "data"):
            self.setUp()
            self.crash_at(word, first_drop=True)
            self.read(SHORT)
            self.assertEqual(("crashed", LookupError), self.receiver.told[-1], word)
