"""Golden streams through the readers and writers of Chat and Messages."""

from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.chat.stream_reader import StreamReader as ChatReader
from omnigate.dialects.chat.stream_writer import StreamWriter as ChatWriter
from omnigate.dialects.messages.stream_reader import StreamReader as MessagesReader
from omnigate.dialects.messages.stream_writer import StreamWriter as MessagesWriter
from omnigate.dialects.meter import Meter
from omnigate.dialects.shapes import Frame
from omnigate.wire.sse import EventSplitter, event_data
from tests.dialects.vectors import Vector, same_events, vectors

READERS: dict[str, type[ChatReader | MessagesReader]] = {
    "chat": ChatReader,
    "messages": MessagesReader,
}
WRITERS: dict[str, type[ChatWriter | MessagesWriter]] = {
    "chat": ChatWriter,
    "messages": MessagesWriter,
}


def streams() -> Iterator[Vector]:
    """Yield every golden stream between Chat and Messages."""
    for client, upstream in (("chat", "messages"), ("messages", "chat")):
        for vector in vectors(client, upstream):
            if vector.streamed:
                yield vector


def payloads(stream: bytes) -> list[bytes]:
    """Return the data of each event of a stream."""
    found = (event_data(block) for block in EventSplitter().feed(stream))
    return [data for data in found if data is not None]


def frame_of(vector: Vector) -> Frame:
    """Return the frame of a case's answer."""
    request = vector.request
    return Frame(
        id="0123456789abcdef0123456789abcdef",
        created=1764441600,
        model=request["model"],
        include_usage=(request.get("stream_options") or {}).get("include_usage", False),
        wants_thinking=vector.client == "chat" or "thinking" in request,
    )


class GoldenStreamTests(SynchronousTestCase):
    """What the upstream streams becomes what the client must be sent."""

    def test_told(self) -> None:
        """Every event is told as it must be, and metered as where it passes untranslated."""
        count = 0
        for vector in streams():
            writer = WRITERS[vector.client](frame_of(vector))
            meter, plain = Meter(vector.upstream, True), Meter(vector.upstream, True)
            reader = READERS[vector.upstream](writer, meter)
            for data in payloads(vector.answer_body):
                reader.event(data)
                plain.event(data)
            reader.end()
            same_events(vector, b"".join(writer.out))
            broken = "error" in vector.told["sse"][-1]
            self.assertEqual((reader.finished, reader.failed), (not broken, broken), vector.name)
            # A call's input that comes whole is text that the plain meter does not look for.
            self.assertGreaterEqual(meter.text_bytes, plain.text_bytes, vector.name)
            for name in ("event_count", "closing_seen", "thinking_tokens"):
                told = (vector.name, name, getattr(meter, name))
                self.assertEqual(told, (vector.name, name, getattr(plain, name)))
            self.assertEqual(meter.counts(), plain.counts(), vector.name)
            count += 1
        self.assertGreaterEqual(count, 17)
