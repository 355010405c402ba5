"""The line between the parent and its workers."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.worker_channel import (
    MAX_MESSAGE_BYTES,
    Alive,
    Channel,
    ChannelError,
    Down,
    Drain,
    Figures,
    FiguresWanted,
    Frames,
    Hangup,
    Hurry,
    Message,
    Ready,
    Status,
    Up,
    decode_down,
    decode_up,
    frame,
)

T = TypeVar("T")

NUMBERS = st.integers(0, 2**53)
DOWN = st.one_of(
    st.sampled_from([Hangup(), Drain(), Hurry()]), st.builds(FiguresWanted, number=NUMBERS)
)
FIGURES = st.dictionaries(st.text(max_size=8), NUMBERS, max_size=3)
UP = st.one_of(
    st.sampled_from([Ready(), Alive()]),
    st.builds(Status, text=st.text(max_size=20)),
    st.builds(
        lambda number, figures: Figures(number, msgspec.Raw(msgspec.json.encode(figures))),
        NUMBERS,
        FIGURES,
    ),
)


def read(frames: Frames[T], messages: Sequence[Message], piece: int) -> list[T]:
    """What comes out of messages, and two bytes more, that come in pieces of a size."""
    wire = b"".join(frame(message) for message in messages) + b"\0\0"
    return [
        heard
        for start in range(0, len(wire), piece)
        for heard in frames.feed(wire[start : start + piece])
    ]


class FramesTests(SynchronousTestCase):
    """The codec."""

    @settings(max_examples=100)
    @given(st.lists(DOWN, max_size=5), st.integers(1, 60))
    def test_down(self, messages: list[Down], piece: int) -> None:
        """Every message to a worker, however it is cut, and with the next one begun."""
        frames = Frames(decode_down)
        self.assertEqual(read(frames, messages, piece), messages)
        self.assertEqual(list(frames.feed(frame(Drain())[2:])), [Drain()])

    @settings(max_examples=100)
    @given(st.lists(UP, max_size=5), st.integers(1, 60))
    def test_up(self, messages: list[Up], piece: int) -> None:
        """Every message to the parent, in the same way."""
        frames = Frames(decode_up)
        self.assertEqual(read(frames, messages, piece), messages)
        self.assertEqual(list(frames.feed(frame(Ready())[2:])), [Ready()])

    def test_no_message(self) -> None:
        """Bytes that are no message, messages of the other direction, unknown and faulty ones."""
        for text in (
            b"",
            b"{",
            b"[]",
            b'{"type":"nonsense"}',
            b'{"type":"ready"}',
            b'{"type":"figures"}',
            b'{"type":"figures","number":"one"}',
            b"\xff",
            b"[" * 5000,
        ):
            frames = Frames(decode_down)
            with self.assertRaises(ChannelError):
                list(frames.feed(len(text).to_bytes(4, "big") + text))

    def test_too_long(self) -> None:
        """A message over the bound is neither sent nor waited for."""
        with self.assertRaises(ChannelError):
            frame(Status("x" * MAX_MESSAGE_BYTES))
        with self.assertRaises(ChannelError):
            list(Frames(decode_up).feed((MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")))


class ChannelTests(SynchronousTestCase):
    """One end of the line."""

    def setUp(self) -> None:
        self.heard: list[Up] = []
        self.ends = 0
        self.transport = StringTransport()
        self.channel: Channel[Up] = Channel(decode_up, self.heard.append, self.end)
        self.channel.makeConnection(self.transport)

    def end(self) -> None:
        """The line has ended."""
        self.ends += 1

    def test_both_ways(self) -> None:
        """What is sent is framed, what comes is told, in order."""
        self.channel.send(Drain())
        self.assertEqual(self.transport.value(), frame(Drain()))
        wire = frame(Ready()) + frame(Alive()) + frame(Status("fine"))
        self.channel.dataReceived(wire[:20])
        self.channel.dataReceived(wire[20:])
        self.assertEqual(self.heard, [Ready(), Alive(), Status("fine")])

    def test_end(self) -> None:
        """The end is told once; what is sent later goes nowhere."""
        self.channel.connectionLost()
        self.channel.send(Drain())
        self.channel.close()
        self.assertEqual((self.ends, self.transport.value()), (1, b""))

    def test_nonsense_ends_it(self) -> None:
        """What is no message ends the line, and is told in the log."""
        self.channel.dataReceived(frame(Ready()) + b"\0\0\0\1{" + frame(Alive()))
        self.assertEqual(self.heard, [Ready()])
        self.assertTrue(self.transport.disconnected or self.transport.disconnecting)

    def test_other_side_does_not_read(self) -> None:
        """What the next message says anyway is not piled up; everything else is sent."""
        self.channel.pauseProducing()
        self.channel.send_if_read(Alive())
        self.assertEqual(self.transport.value(), b"")
        self.channel.send(Ready())
        self.channel.resumeProducing()
        self.channel.send_if_read(Alive())
        self.assertEqual(self.transport.value(), frame(Ready()) + frame(Alive()))

    def test_close(self) -> None:
        """It ends with what was sent before."""
        self.channel.send(Drain())
        self.channel.close()
        self.assertTrue(self.transport.disconnecting)
        self.assertIsNone(self.transport.producer)
