"""The line between the parent of several data plane workers and each of them.

A socket pair; on it messages, each four bytes of length, the highest first, and so many bytes of
JSON with a ``type`` (:data:`Down` to a worker, :data:`Up` to the parent).  The codec
(:func:`frame`, :class:`Frames`) is pure; :class:`Channel` is it on a socket.

When the line ends, the other side is gone.  What comes on it was written by our own code, so what
cannot be read means that the two do not fit, and ends the line too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

#: Bytes of JSON in one message.  Figures are the longest: a metric's sample takes about 100 bytes,
#: so 80,000 samples fit, a hundred for each of 800 models.
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024

#: How often a worker says that it is alive, in seconds.
ALIVE_SECONDS: Final = 1.0

_LENGTH_BYTES: Final = 4

_log = Logger(namespace="omnigate.workers")


class ChannelError(Exception):
    """What came is no message; the line cannot be used any more."""


class Message(msgspec.Struct, tag_field="type"):
    """One message."""


class Hangup(Message, tag="hangup"):
    """Down: do what SIGHUP asks for."""


class Drain(Message, tag="drain"):
    """Down: stop in order."""


class Hurry(Message, tag="hurry"):
    """Down: a stop under way must not take its time any more."""


class FiguresWanted(Message, tag="figures"):
    """Down: tell your figures.

    ``number`` is told again with the answer.
    """

    number: int


class Ready(Message, tag="ready"):
    """Up: it serves requests, with a config in force."""


class Alive(Message, tag="alive"):
    """Up: the reactor turns; said every :data:`ALIVE_SECONDS`."""


class Status(Message, tag="status"):
    """Up: what the service manager may show of it, one line."""

    text: str


class Figures(Message, tag="figures"):
    """Up: what it has counted.

    ``number`` is that of the :class:`FiguresWanted`, or 0 where nobody asked; ``figures`` is JSON.
    """

    number: int
    figures: msgspec.Raw


Down = Hangup | Drain | Hurry | FiguresWanted
Up = Ready | Alive | Status | Figures

decode_down: Final = msgspec.json.Decoder(Down).decode
decode_up: Final = msgspec.json.Decoder(Up).decode

_encode = msgspec.json.Encoder().encode

Heard = TypeVar("Heard")


def frame(message: Message) -> bytes:
    """Return a message as it goes over the line.

    :raises ChannelError: it is too long.
    """
    text = _encode(message)
    if len(text) > MAX_MESSAGE_BYTES:
        raise ChannelError(f"a message of {len(text)} bytes is too long for the line")
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text


class Frames(Generic[Heard]):
    """Cuts what comes over the line into messages, however the bytes arrive.

    :param decode: :data:`decode_down` or :data:`decode_up`.
    """

    def __init__(self, decode: Callable[[bytes], Heard]) -> None:
        self._decode = decode
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Heard]:
        """Yield the messages that are whole with ``data``; the rest is kept, a message at most.

        :raises ChannelError: what came is no message.
        """
        held = self._held
        held += data
        start = 0
        try:
            while len(held) - start >= _LENGTH_BYTES:
                body = start + _LENGTH_BYTES
                length = int.from_bytes(held[start:body], "big")
                if length > MAX_MESSAGE_BYTES:
                    raise ChannelError(f"a message of {length} bytes was announced")
                if len(held) < body + length:
                    break
                start = body + length
                yield self._message(bytes(held[body:start]))
        finally:
            del held[:start]

    def _message(self, text: bytes) -> Heard:
        try:
            return self._decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ChannelError(f"a message cannot be read: {error}") from None


class Channel(Protocol, Generic[Heard]):
    """One end of the line.

    :param decode: :data:`decode_down` in a worker, :data:`decode_up` in the parent.
    :param heard: is told of each message.
    :param ended: is told once that the line has ended.
    """

    def __init__(
        self,
        decode: Callable[[bytes], Heard],
        heard: Callable[[Heard], object],
        ended: Callable[[], object],
    ) -> None:
        # Twisted's ITransport leaves out half of what a stream transport can do.
        self._wire: Any = None
        self._frames = Frames(decode)
        self._heard = heard
        self._ended = ended
        self._full = False

    def connectionMade(self) -> None:
        """Hear from the transport when the other side does not read."""
        self._wire = self.transport
        self._wire.registerProducer(self, True)

    @property
    def is_read(self) -> bool:
        """Whether the other side is there and reads what it is sent."""
        return self._wire is not None and not self._full

    def send(self, message: Message) -> None:
        """Send a message; on a line that has ended nothing happens."""
        if self._wire is not None:
            self._wire.write(frame(message))

    def send_if_read(self, message: Message) -> None:
        """Send a message of which the next one says more, unless the other side does not read."""
        if not self._full:
            self.send(message)

    def close(self) -> None:
        """End the line."""
        if self._wire is not None:
            self._wire.unregisterProducer()
            self._wire.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        """Hand on the messages."""
        try:
            for message in self._frames.feed(data):
                self._heard(message)
        except ChannelError as error:
            _log.critical("the line between parent and worker: {error}", error=error)
            self._wire.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell that it has ended."""
        self._wire = None
        self._ended()

    # -- the transport's producer

    def pauseProducing(self) -> None:
        """The other side does not read what there is."""
        self._full = True

    def resumeProducing(self) -> None:
        """It has read everything."""
        self._full = False

    def stopProducing(self) -> None:
        """The line is ending."""
