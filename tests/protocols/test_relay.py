"""The relay and the collector of short answers, with fakes on all sides."""

from collections.abc import Callable
from typing import cast

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.held import LITTLE_BYTES, HeldBytes
from omnigate.protocols.http_date import HttpDate
from omnigate.protocols.relay import SHORT_BYTES, Relay, ShortAnswer
from omnigate.protocols.response import Response
from omnigate.protocols.upstream import Loss, UpstreamConnection
from omnigate.protocols.watchdog import NEVER, Watchdog
from tests.planes.transport import BUFFER_BYTES, WireTransport

IDLE = 60.0
STALL = 20.0
BEAT = 5.0


class Passage:
    """Passes what it is fed, in capitals; a comma is held back to the end."""

    def __init__(self) -> None:
        self.started = False
        self.first_error: bytes | None = None
        self.between_events = True
        self.left = b""
        self.fail = False

    def feed(self, data: bytes) -> bytes:
        if self.fail:
            raise LookupError
        if data == b"!":
            self.first_error = data
            return b""
        self.started = True
        return data.replace(b",", b"").upper()

    def end(self) -> bytes:
        return self.left


class Connection:
    """An upstream's connection that only remembers."""

    def __init__(self) -> None:
        self.paused = False
        self.dropped = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def drop(self) -> None:
        self.dropped = True


class Owner:
    """Remembers the one end it is told of."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.act: Callable[[], object] = lambda: None

    def short_progress(self) -> None:
        """Of no interest here."""

    def relay_head(self) -> tuple[int, bytes]:
        return 200, b"x: y\r\n"

    def relay_failed(self, outcome: str, reason: str) -> None:
        self.told.append(("failed", outcome))
        self.act()

    def relay_complete(self) -> None:
        self.told.append(("complete",))
        self.act()

    def relay_cut(self, outcome: str, reason: str) -> None:
        self.told.append(("cut", outcome))
        self.act()

    def relay_stalled(self) -> None:
        self.told.append(("stalled",))
        self.act()

    def short_whole(self, body: bytes) -> None:
        self.told.append(("whole", body.decode()))

    def short_overflow(self, begun: bytes) -> None:
        self.told.append(("overflow", str(len(begun))))

    def answer_lost(self, loss: Loss, reason: str) -> None:
        self.told.append(("lost", loss.value))

    def crashed(self, failure: Failure) -> None:
        self.told.append(("crashed",))


class Client:
    """The client's connection, as a response and its transport need it."""

    response: Response

    def pauseProducing(self) -> None:
        self.response.client_full()

    def resumeProducing(self) -> None:
        self.response.client_ready()

    def response_ended(self, response: Response) -> None:
        """Nothing follows."""

    def response_aborted(self, response: Response) -> None:
        """Nothing follows."""


class RelayTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()
        self.owner = Owner()
        self.passage = Passage()
        self.connection = Connection()
        self.wire = WireTransport(self.clock)
        client = Client()
        self.response = client.response = Response(
            client, self.wire, HttpDate(self.watchdog, lambda: 0.0)
        )
        self.wire.registerProducer(client, True)
        self.relay = Relay(
            self.owner,
            self.response,
            cast(UpstreamConnection, self.connection),
            self.passage,
            self.watchdog,
            idle_seconds=IDLE,
            stall_seconds=STALL,
            heartbeat=b"<3",
            heartbeat_seconds=BEAT,
        )

    def sent(self) -> bytes:
        """The body as the client got it, chunks and all."""
        return self.wire.value().partition(b"\r\n\r\n")[2]

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)


class PassingTests(RelayTestCase):
    def test_head_goes_with_the_first_bytes(self) -> None:
        """Nothing goes out before something may; then head and bytes together."""
        self.relay.answer_data(b",")
        self.assertEqual(b"", self.wire.value())
        self.relay.answer_data(b"hi")
        self.assertTrue(self.wire.value().startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertIn(b"\r\nx: y\r\n", self.wire.value())
        self.assertEqual(b"2\r\nHI\r\n", self.sent())
        self.relay.answer_data(b"a,b")
        self.assertEqual(b"2\r\nHI\r\n2\r\nAB\r\n", self.sent())

    def test_first_at(self) -> None:
        """The time of the first byte that went out is kept."""
        self.pass_time(1)
        self.relay.answer_data(b",")
        self.assertIsNone(self.relay.first_at)
        self.relay.answer_data(b"hi")
        self.assertAlmostEqual(1.0, self.relay.first_at or 0.0, places=3)

    def test_left_over(self) -> None:
        """What the passage held back goes out before the end."""
        self.relay.answer_data(b"hi")
        self.passage.left = b"LEFT"
        self.relay.answer_end()
        self.assertTrue(self.sent().endswith(b"4\r\nLEFT\r\n"))
        self.assertEqual([("complete",)], self.owner.told)

    def test_all_left_over(self) -> None:
        """A body that comes out only at its end still has its head."""
        self.relay.answer_data(b",")
        self.passage.left = b"LEFT"
        self.relay.answer_end()
        self.assertEqual(b"4\r\nLEFT\r\n", self.sent())
        self.assertEqual([("complete",)], self.owner.told)

    def test_nothing(self) -> None:
        """A body of which nothing came is a failed attempt."""
        self.relay.answer_end()
        self.assertEqual([("failed", "empty_stream")], self.owner.told)
        self.assertEqual(0, len(self.watchdog))

    def test_nothing_to_be_seen(self) -> None:
        """One of which nothing is for the client is an answer without a body."""
        self.relay.answer_data(b",")
        self.relay.answer_end()
        self.assertEqual([("complete",)], self.owner.told)
        self.assertTrue(self.wire.value().startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertEqual(b"", self.sent())

    def test_first_event_an_error(self) -> None:
        """An error as the first event fails the attempt and drops the connection."""
        self.relay.answer_data(b"!")
        self.assertEqual([("failed", "error_event")], self.owner.told)
        self.assertTrue(self.connection.dropped)

    def test_first_event_an_error_at_the_end(self) -> None:
        """The same where the error is only read at the end."""
        self.passage.first_error = b"!"
        self.relay.answer_end()
        self.assertEqual([("failed", "error_event")], self.owner.told)

    def test_loss(self) -> None:
        """A loss before the first byte is a failed attempt, afterwards a cut."""
        for loss, outcome in ((Loss.TRUNCATED, "truncated"), (Loss.FRAMING, "bad_framing")):
            for begun in (False, True):
                self.setUp()
                if begun:
                    self.relay.answer_data(b"hi")
                self.relay.answer_lost(loss, "because")
                self.assertEqual([("cut" if begun else "failed", outcome)], self.owner.told)
                self.assertEqual(0, len(self.watchdog))


class SilenceTests(RelayTestCase):
    def test_before_the_first_byte(self) -> None:
        """A silent upstream is given up on; while nothing was sent another target may follow."""
        self.pass_time(IDLE - 1)
        self.assertEqual([], self.owner.told)
        self.assertEqual(b"", self.wire.value())
        self.pass_time(2)
        self.assertEqual([("failed", "stream_idle_timeout")], self.owner.told)
        self.assertTrue(self.connection.dropped)
        self.assertEqual(0, len(self.watchdog))

    def test_afterwards(self) -> None:
        """Afterwards it is a cut."""
        self.relay.answer_data(b"hi")
        self.pass_time(IDLE + 1)
        self.assertEqual([("cut", "stream_idle_timeout")], self.owner.told)

    def test_every_byte_counts(self) -> None:
        """Bytes of which nothing is passed on are a sign of life, too."""
        for _ in range(3):
            self.pass_time(IDLE - 1)
            self.relay.answer_data(b",")
        self.assertEqual([], self.owner.told)

    def test_heartbeats(self) -> None:
        """A silent stream is kept alive from its first byte on, between events only."""
        self.pass_time(BEAT * 2)
        self.assertEqual(b"", self.wire.value())
        self.relay.answer_data(b"hi")
        self.pass_time(BEAT + 1)
        self.assertEqual(b"2\r\nHI\r\n2\r\n<3\r\n", self.sent())
        self.pass_time(BEAT)
        self.assertEqual(2, self.sent().count(b"<3"))
        self.passage.between_events = False
        self.relay.answer_data(b"half")
        self.pass_time(BEAT * 3)
        self.assertEqual(2, self.sent().count(b"<3"))
        self.passage.between_events = True
        self.pass_time(1)
        self.assertEqual(3, self.sent().count(b"<3"))

    def test_heartbeats_are_no_sign_of_life(self) -> None:
        """What we send ourselves does not make the upstream less silent."""
        self.relay.answer_data(b"hi")
        self.pass_time(IDLE + 1)
        self.assertEqual([("cut", "stream_idle_timeout")], self.owner.told)

    def test_busy_streams_have_none(self) -> None:
        """A stream that is not silent needs no heartbeat."""
        for _ in range(20):
            self.relay.answer_data(b"hi")
            self.pass_time(BEAT - 1)
        self.assertNotIn(b"<3", self.sent())

    def test_idle_shorter_than_a_heartbeat(self) -> None:
        """The idle time counts even where a heartbeat would be due later."""
        self.relay.detach()
        self.relay = Relay(
            self.owner,
            self.response,
            cast(UpstreamConnection, self.connection),
            self.passage,
            self.watchdog,
            idle_seconds=2.0,
            stall_seconds=STALL,
            heartbeat=b"<3",
            heartbeat_seconds=BEAT,
        )
        self.relay.answer_data(b"hi")
        self.pass_time(2.5)
        self.assertEqual([("cut", "stream_idle_timeout")], self.owner.told)


class FullClientTests(RelayTestCase):
    def fill(self) -> None:
        """The client takes nothing any more, and too much waits for it."""
        self.relay.answer_data(b"hi")
        self.wire.window = 0
        self.relay.answer_data(b"x" * BUFFER_BYTES)

    def test_pause(self) -> None:
        """While the client takes nothing, nothing is taken from the upstream."""
        self.fill()
        self.assertTrue(self.connection.paused)
        self.wire.peer_takes(10)
        self.assertTrue(self.connection.paused)
        self.wire.peer_takes()
        self.assertFalse(self.connection.paused)

    def test_stall(self) -> None:
        """A client that takes nothing for the stall time is given up on."""
        self.fill()
        self.pass_time(STALL - 1)
        self.assertEqual([], self.owner.told)
        self.pass_time(2)
        self.assertEqual([("stalled",)], self.owner.told)
        self.assertEqual(0, len(self.watchdog))

    def test_slow_but_taking(self) -> None:
        """A client that takes a little each time is borne with."""
        self.fill()
        for _ in range(4):
            self.wire.peer_takes(10)
            self.pass_time(STALL)
        self.assertEqual([], self.owner.told)
        self.pass_time(STALL + 1)
        self.assertEqual([("stalled",)], self.owner.told)

    def test_silence_while_full(self) -> None:
        """An upstream that is not read is not silent; its time begins anew when it is."""
        self.fill()
        for _ in range(4):
            self.wire.peer_takes(10)
            self.pass_time(STALL)
        self.wire.peer_takes()
        self.pass_time(IDLE - 1)
        self.assertEqual([], self.owner.told)
        self.pass_time(2)
        self.assertEqual([("cut", "stream_idle_timeout")], self.owner.told)

    def test_full_with_a_heartbeat(self) -> None:
        """A client that is full with a heartbeat has the whole stall time."""
        self.relay.answer_data(b"hi")
        self.wire.window = 0
        # With its framing two bytes short of a pause.
        self.relay.answer_data(b"x" * (BUFFER_BYTES - 10))
        self.assertFalse(self.connection.paused)
        self.pass_time(BEAT + 0.3)
        self.assertTrue(self.connection.paused)
        self.pass_time(STALL - 1)
        self.assertEqual([], self.owner.told)
        self.pass_time(2)
        self.assertEqual([("stalled",)], self.owner.told)


class CrashTests(RelayTestCase):
    def test_in_a_deadline(self) -> None:
        """An exception in what follows a deadline reaches the owner."""

        def act() -> None:
            raise LookupError

        for begun in (False, True):
            self.setUp()
            self.owner.act = act
            if begun:
                self.relay.answer_data(b"hi")
            self.pass_time(IDLE + 1)
            self.assertEqual(("crashed",), self.owner.told[-1])
            self.assertEqual(0, len(self.watchdog))

    def test_told(self) -> None:
        """So does one that the upstream's connection tells of."""
        self.relay.crashed(Failure(LookupError()))
        self.assertEqual([("crashed",)], self.owner.told)
        self.assertEqual(NEVER, self.relay.deadline)


class ShortAnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.owner = Owner()
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()
        self.held = HeldBytes(limit=2 * SHORT_BYTES)
        self.short = ShortAnswer(self.owner, self.watchdog, self.held)

    def test_whole(self) -> None:
        """Pieces are joined at the end; there may be one or none."""
        for pieces in ((), (b"all",), (b"so", b"me")):
            self.setUp()
            for piece in pieces:
                self.short.answer_data(piece)
            self.assertEqual([], self.owner.told)
            self.short.answer_end()
            self.assertEqual([("whole", b"".join(pieces).decode())], self.owner.told)

    def test_overflow(self) -> None:
        """One byte over the bound is told with all that came."""
        self.short.answer_data(b"x" * SHORT_BYTES)
        self.assertEqual([], self.owner.told)
        self.short.answer_data(b"y")
        self.assertEqual([("overflow", str(SHORT_BYTES + 1))], self.owner.told)

    def test_no_room(self) -> None:
        """Where all answers hold too much, a short one is told as soon as it is not tiny."""
        others = [ShortAnswer(self.owner, self.watchdog, self.held) for _ in range(2)]
        for other in others:
            other.answer_data(b"x" * SHORT_BYTES)
        self.assertEqual(2 * SHORT_BYTES, self.held.bytes)
        self.short.answer_data(b"y" * LITTLE_BYTES)
        self.assertEqual([], self.owner.told)
        self.short.answer_data(b"y")
        self.assertEqual([("overflow", str(LITTLE_BYTES + 1))], self.owner.told)
        others[0].answer_data(b"x")
        self.assertEqual(SHORT_BYTES, self.held.bytes)
        others.clear()
        del other
        self.assertEqual(0, self.held.bytes)

    def test_many_pieces(self) -> None:
        """However many pieces it comes in, it is whole in the end."""
        data = bytes(range(256)) * 4
        for at in range(len(data)):
            self.short.answer_data(data[at : at + 1])
        self.assertEqual(data, self.short.begun())

    def test_loss_and_crash(self) -> None:
        """Both are handed on."""
        self.short.answer_lost(Loss.TRUNCATED, "because")
        self.short.crashed(Failure(LookupError()))
        self.assertEqual([("lost", "truncated"), ("crashed",)], self.owner.told)

    def test_last(self) -> None:
        """It is known when the last byte came."""
        begun = self.short.last
        self.clock.advance(5)
        self.assertEqual(begun, self.short.last)
        self.short.answer_data(b"x")
        self.assertEqual(begun + 5, self.short.last)

    def test_adopt(self) -> None:
        """Another owner gets what was collected."""
        self.short.answer_data(b"so")
        self.short.answer_data(b"me")
        self.assertEqual(b"some", self.short.begun())
        other = Owner()
        self.short.adopt(other)
        self.short.answer_end()
        self.assertEqual(([], [("whole", "some")]), (self.owner.told, other.told))
