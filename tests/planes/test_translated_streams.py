"""Streams of upstreams that speak another protocol than the client, as pieces land."""

from __future__ import annotations

import json

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.dialects.translated_passage import MAX_EVENT_BYTES
from omnigate.protocols.translated_relay import WHOLE_BYTES
from tests.planes.memory import (
    SECRET,
    FakeClient,
    MemoryDataPlane,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import (
    CHAT_STREAM,
    CLOSING,
    DONE,
    END,
    FINISH,
    MESSAGE,
    MESSAGES_STREAM,
    RESPONSE_EVENTS,
    RESPONSES_STREAM,
    STREAM_HEAD,
    USAGE,
    chunk,
    delta,
    event,
)


def text_delta(text: str) -> bytes:
    """More text in a Messages stream."""
    return event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


START = event(type="message_start", message={"id": "m", "usage": {"input_tokens": 9}})
PING = event(type="ping")
BLOCK = event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
FIRST, SECOND = text_delta("Hel"), text_delta("lo")
STOP = (
    event(type="content_block_stop", index=0)
    + event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    + event(type="message_stop")
)
FAILED = event(type="error", error={"type": "overloaded_error", "message": "too busy"})

CLIENTS = {
    "chat": (b"/v1/chat/completions", CHAT_STREAM),
    "messages": (b"/v1/messages", MESSAGES_STREAM),
    "responses": (b"/v1/responses", RESPONSES_STREAM),
}
#: The protocol, the API and the events of each upstream; all say ``Hello`` in two pieces.
UPSTREAMS: dict[str, tuple[str, str, list[bytes]]] = {
    "chat": ("openai", "chat", [delta(b"Hel"), delta(b"lo"), FINISH, USAGE, DONE]),
    "responses": ("openai", "responses", RESPONSE_EVENTS),
    "messages": ("anthropic", "", [START, PING, BLOCK, FIRST, SECOND, STOP]),
}
PAIRS = [(one, two) for one in CLIENTS for two in UPSTREAMS if one != two]
#: What a client of each protocol takes for the end of an answer that is whole.
ENDS = {
    "chat": b"data: [DONE]\n\n",
    "messages": b'data: {"type":"message_stop"}\n\n',
    "responses": b"event: response.completed\n",
}


def text_of(one: str, body: bytes) -> str:
    """The text that a client was sent so far."""
    text = ""
    for block in body.split(b"\n\n"):
        data = block.partition(b"data: ")[2]
        if not data.startswith(b"{"):
            continue
        told = json.loads(data)
        if one == "chat":
            for choice in told.get("choices", ()):
                text += choice["delta"].get("content") or ""
        elif one == "messages" and told["type"] == "content_block_delta":
            text += told["delta"]["text"]
        elif told.get("type") == "response.output_text.delta":
            text += told["delta"]
    return text


class StreamTestCase(SynchronousTestCase):
    def begin(self, one: str, two: str, *more: str, **environ: str) -> None:
        """A client of one protocol asks an upstream of the other for a stream.

        :param more: further upstreams, for when the first fails.
        """
        names = ["u1", *(f"u{index}" for index in range(2, len(more) + 2))]
        protocols = [UPSTREAMS[kind][0] for kind in (two, *more)]
        self.plane = MemoryDataPlane(
            routes=[route("small", *((name, f"vendor-{name}") for name in names))],
            upstreams=[upstream(n, p) for n, p in zip(names, protocols, strict=True)],
            capabilities=[Capabilities(upstream_api=UPSTREAMS[two][1])],
            environ=environ,
        )
        self.client: FakeClient = self.plane.client()
        path, body = CLIENTS[one]
        self.client.send(request(body, path))

    def say(self, *events: bytes) -> None:
        for data in events:
            self.plane.last.answer(chunk(data))

    def check_cut(self, one: str, outcome: str) -> None:
        """The client saw an error event, and that the answer is not whole."""
        answer = self.client.answer
        self.assertFalse(answer.whole)
        self.assertFalse(self.client.open)
        self.assertNotIn(ENDS[one], answer.body)
        self.assertIn(b"error", answer.body.rpartition(b"data: ")[2])
        [event] = self.plane.events
        self.assertEqual((499, True), (event.status, event.estimated))
        self.assertEqual([outcome], self.plane.outcomes)
        self.assertEqual("upstream_cut", self.plane.lines[-1].error_code)
        self.assertEqual((0, 0), (self.plane.in_flight, self.plane.plane.held.bytes))


class TranslatedStreamTests(StreamTestCase):
    def test_all_directions(self) -> None:
        """A stream of any protocol reaches a client of any other, a delta with the read it came."""
        for one, two in PAIRS:
            self.begin(one, two)
            self.plane.last.answer(STREAM_HEAD)
            self.assertEqual(b"", self.client.received())
            events = UPSTREAMS[two][2]
            seen = []
            for data in events:
                self.say(data)
                body = self.client.answer.body if self.client.received() else b""
                seen.append(text_of(one, body))
            self.plane.last.answer(END)
            answer = self.client.answer
            self.assertEqual((200, True), (answer.status, answer.whole), (one, two))
            self.assertEqual(b"text/event-stream", answer.headers[b"content-type"])
            self.assertIn(ENDS[one], answer.body)
            first = next(i for i, data in enumerate(events) if b"Hel" in data)
            self.assertEqual(["Hel", "Hello"], seen[first : first + 2], (one, two))
            self.assertTrue(self.client.open)
            [event] = self.plane.events
            self.assertEqual(
                (200, 9, 3, False, one),
                (
                    event.status,
                    event.input_tokens,
                    event.output_tokens,
                    event.estimated,
                    event.endpoint,
                ),
            )
            self.assertEqual(["ok"], self.plane.outcomes)
            self.assertIsNotNone(self.plane.lines[-1].first_byte_ms)
            # The upstream's connection carries the next request.
            self.client.send(request(CLIENTS[one][1], CLIENTS[one][0]))
            self.assertEqual(1, len(self.plane.opened))

    def test_any_cut(self) -> None:
        """However the network cuts the stream, the client is sent the same bytes."""
        for one, two in PAIRS:
            wanted = b""
            whole = b"".join(UPSTREAMS[two][2])
            for size in (len(whole), 1, 7, 64):
                self.begin(one, two)
                self.plane.plane.new_id = lambda: "0" * 32
                self.client = self.plane.client()
                self.client.send(request(CLIENTS[one][1], CLIENTS[one][0]))
                self.plane.last.answer(STREAM_HEAD)
                self.say(*(whole[at : at + size] for at in range(0, len(whole), size)))
                self.plane.last.answer(END)
                body = self.client.answer.body
                wanted = wanted or body
                self.assertEqual(wanted, body, (one, two, size))

    def test_heartbeat(self) -> None:
        """A silent stream is kept alive in the client's protocol."""
        for one, two, beat in (
            ("chat", "messages", b": keep-alive\n\n"),
            ("messages", "chat", b'event: ping\ndata: {"type": "ping"}\n\n'),
        ):
            self.begin(one, two, OMNIGATE_HEARTBEAT_MS="1000")
            self.plane.last.answer(STREAM_HEAD)
            self.plane.advance(2)
            self.assertEqual(b"", self.client.received())
            self.say(UPSTREAMS[two][2][0], b'data: {"unfinis')
            self.plane.advance(2.5)
            self.assertIn(beat, self.client.received())

    def test_heartbeat_of_the_upstream(self) -> None:
        """What keeps the upstream's stream alive says nothing to the client, which has its own."""
        for one, two, said, beat in (
            ("chat", "messages", PING, b": keep-alive\n\n"),
            ("messages", "chat", b": processing\n\n", b"event: ping\n"),
        ):
            self.begin(one, two, OMNIGATE_HEARTBEAT_MS="1000")
            self.plane.last.answer(STREAM_HEAD)
            self.say(UPSTREAMS[two][2][0])
            for _ in range(8):
                self.say(said)
                self.plane.advance(0.5)
            self.assertIn(self.client.received().count(beat), (2, 3, 4))
            for _ in range(8):
                self.say(text_delta("x") if two == "messages" else delta(b"x"))
                self.plane.advance(0.5)
            self.assertIn(self.client.received().count(beat), (2, 3, 4))

    def test_secret(self) -> None:
        """The upstream's credential is struck out."""
        self.begin("chat", "messages")
        self.plane.last.answer(STREAM_HEAD)
        self.say(START, BLOCK, text_delta("it is " + SECRET), STOP)
        self.assertIn(b"it is ", self.client.received())
        self.assertNotIn(SECRET.encode(), self.client.received())

    def test_without_a_last_blank_line(self) -> None:
        """A last event whose blank line is missing counts."""
        self.begin("messages", "chat")
        self.plane.last.answer(STREAM_HEAD)
        self.say(delta(b"Hi"), FINISH, USAGE, DONE[:-1])
        self.plane.last.answer(END)
        self.assertTrue(self.client.answer.whole)
        self.assertIn(ENDS["messages"], self.client.answer.body)


class BrokenTests(StreamTestCase):
    def test_running_totals(self) -> None:
        """Figures of a stream that was never finished are those up to there: an estimate."""
        self.begin("messages", "chat")
        self.plane.last.answer(STREAM_HEAD)
        running = b'"usage":{"prompt_tokens":9,"completion_tokens":1},"choices"'
        self.say(delta(b"Hel").replace(b'"choices"', running))
        self.plane.last.answer(END)
        self.check_cut("messages", "unfinished")
        self.assertEqual(9, self.plane.events[0].input_tokens)

    def test_unfinished(self) -> None:
        """A stream that ends without its finish is told as broken, and the connection dropped."""
        for one, two in PAIRS:
            self.begin(one, two)
            self.plane.last.answer(STREAM_HEAD)
            self.say(*UPSTREAMS[two][2][: 2 if two == "chat" else -1])
            self.plane.last.answer(END)
            self.check_cut(one, "unfinished")

    def test_cut(self) -> None:
        """So is one that breaks, or falls silent."""
        for one, two in PAIRS:
            for outcome in ("truncated", "stream_idle_timeout"):
                self.begin(one, two, OMNIGATE_STREAM_IDLE_TIMEOUT_MS="3000")
                self.plane.last.answer(STREAM_HEAD)
                self.say(UPSTREAMS[two][2][0])
                if outcome == "truncated":
                    self.plane.last.close(ConnectionLost)
                else:
                    self.plane.advance(4)
                self.check_cut(one, outcome)

    def test_cut_behind_the_finish(self) -> None:
        """Behind the finish nothing is made up: the end stands, and the connection drops."""
        self.begin("chat", "messages")
        self.plane.last.answer(STREAM_HEAD)
        self.say(START, BLOCK, FIRST, STOP)
        self.plane.last.close(ConnectionLost)
        answer = self.client.answer
        self.assertFalse(answer.whole)
        self.assertTrue(answer.body.endswith(ENDS["chat"]))
        self.assertEqual(
            (499, False), (self.plane.events[0].status, self.plane.events[0].estimated)
        )

    def test_error_event(self) -> None:
        """An error in the middle is told as one, and ends the stream."""
        failed = {
            "chat": b'data: {"error":{"message":"too busy","type":"server_error"}}\n\n',
            "messages": FAILED,
            "responses": event(
                type="response.failed",
                response={"status": "failed", "error": {"code": "x", "message": "too busy"}},
            ),
        }
        for one, two in PAIRS:
            self.begin(one, two)
            self.plane.last.answer(STREAM_HEAD)
            self.say(*UPSTREAMS[two][2][:2])
            self.plane.last.answer(chunk(failed[two] + UPSTREAMS[two][2][-1]))
            answer = self.client.answer
            self.assertIn(b"too busy", answer.body.rpartition(b"data: ")[2], (one, two))
            self.assertNotIn(ENDS[one], answer.body)
            self.assertFalse(self.client.open)
            self.assertFalse(self.plane.opened[0].open)
            [told] = self.plane.events
            self.assertEqual((200, True), (told.status, told.estimated))
            self.assertEqual(["ok"], self.plane.outcomes)

    def test_first_error(self) -> None:
        """An error as the first event leads to the next target, and so does a stream of nothing."""
        for said, outcome in (
            (FAILED, "error_event"),
            (PING + FAILED, "error_event"),
            (b": hello\n\n" + FAILED + START, "error_event"),
            (b"", "empty_stream"),
            (b": hello\n\n", "empty_stream"),
            (PING, "empty_stream"),
        ):
            self.begin("chat", "messages", "chat")
            self.plane.last.answer(STREAM_HEAD + (chunk(said) if said else b"") + END)
            self.assertEqual(["u1", "u2"], self.plane.at, said)
            self.assertEqual(b"", self.client.received())
            self.plane.last.answer(STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END)
            self.assertTrue(self.client.answer.whole)
            self.assertEqual([outcome, "ok"], self.plane.outcomes)

    def test_cut_before_the_first_event(self) -> None:
        """A stream that breaks before there was anything to send leads to the next target."""
        self.begin("chat", "messages", "chat")
        self.plane.last.answer(STREAM_HEAD + chunk(PING))
        self.plane.last.close(ConnectionLost)
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_silent_from_the_start(self) -> None:
        """Where a stream falls silent before anything was sent the next target is asked."""
        self.begin("chat", "messages", "chat", OMNIGATE_STREAM_IDLE_TIMEOUT_MS="9000")
        self.plane.last.answer(STREAM_HEAD)
        self.plane.advance(8)
        self.assertEqual(["u1"], self.plane.at)
        self.plane.advance(2)
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_longest_event(self) -> None:
        """An event of nearly 16 MiB is read; one too long to be kept breaks the stream off."""
        shell = b'data: {"type":"x","x":""}'
        for size, whole in ((WHOLE_BYTES, True), (MAX_EVENT_BYTES + 1, False)):
            self.begin("chat", "messages")
            self.plane.last.answer(STREAM_HEAD)
            self.say(START)
            event = shell[:-2] + b"x" * (size - len(shell)) + b'"}'
            step = 1024 * 1024
            for at in range(0, len(event), step):
                if self.plane.busy:
                    self.say(event[at : at + step])
            if whole:
                self.say(b"\n\n", *UPSTREAMS["messages"][2][1:])
                self.plane.last.answer(END)
                self.assertTrue(self.client.answer.whole)
            else:
                self.check_cut("chat", "event_too_large")

    def test_deep_event(self) -> None:
        """A long event may nest 128 deep, too, and no deeper."""
        for levels, whole in ((128, True), (129, False)):
            self.begin("chat", "messages")
            self.plane.last.answer(STREAM_HEAD)
            nested = b"[" * (levels - 1) + b"]" * (levels - 1)
            event = b'data: {"type":"x","y":"%b","x":%b}\n\n' % (b"y" * 100_000, nested)
            self.say(START, event[:50_000])
            self.say(event[50_000:])
            if whole:
                self.say(*UPSTREAMS["messages"][2][1:])
                self.plane.last.answer(END)
                self.assertTrue(self.client.answer.whole)
            else:
                self.check_cut("chat", "event_too_complex")

    def test_event_too_large(self) -> None:
        """An event that there is no room for breaks the stream; as the first one, it fails over."""
        self.begin("chat", "messages")
        self.plane.last.answer(STREAM_HEAD)
        self.say(START)
        self.plane.plane.held.limit = 200_000
        for _ in range(4):
            if self.plane.busy:
                self.say(b"data: x" + b"x" * 60_000)
        self.check_cut("chat", "event_too_large")
        self.begin("chat", "messages", "chat")
        self.plane.last.answer(STREAM_HEAD)
        self.plane.plane.held.limit = 10_000
        self.say(b"data: x" + b"x" * 60_000)
        self.assertEqual(["u1", "u2"], self.plane.at)

    def test_event_too_complex(self) -> None:
        """So does one that would take too long to be read."""
        self.begin("chat", "messages")
        self.plane.last.answer(STREAM_HEAD)
        self.say(START)
        nested = b'data: {"type":"x","x":[' + b"{}," * 700_000 + b"{}]}\n\n"
        for at in range(0, len(nested), 65536):
            if self.plane.busy:
                self.say(nested[at : at + 65536])
        self.check_cut("chat", "event_too_complex")

    def test_long_event(self) -> None:
        """A long event that is well is translated, whatever it takes to arrive."""
        self.begin("chat", "messages")
        self.plane.last.answer(STREAM_HEAD)
        whole = START + BLOCK + text_delta("x" * 3_000_000) + STOP
        self.say(*(whole[at : at + 65536] for at in range(0, len(whole), 65536)))
        self.plane.last.answer(END)
        self.assertEqual("x" * 3_000_000, text_of("chat", self.client.answer.body))
        self.assertEqual(["ok"], self.plane.outcomes)


class LeavingTests(StreamTestCase):
    def test_read_on(self) -> None:
        """Where the client leaves, the stream is read on for its figures."""
        for one, two in PAIRS:
            for before in (0, 1, 3):
                self.begin(one, two)
                events = UPSTREAMS[two][2]
                self.plane.last.answer(STREAM_HEAD)
                self.say(*events[:before])
                self.client.leave()
                self.say(*events[before:])
                self.plane.last.answer(END)
                [told] = self.plane.events
                self.assertEqual(
                    (499, 9, 3, False),
                    (told.status, told.input_tokens, told.output_tokens, told.estimated),
                    (one, two, before),
                )

    def test_whole_answer(self) -> None:
        """So is an answer that is no stream, though one was asked for."""
        self.begin("chat", "messages")
        self.client.leave()
        self.plane.last.answer(reply(MESSAGE))
        self.assertEqual(3, self.plane.events[0].output_tokens)

    def test_stalled(self) -> None:
        """A client that takes nothing is dropped, and billed."""
        self.begin("chat", "messages", OMNIGATE_CLIENT_STALL_TIMEOUT_MS="1000")
        self.client.stall()
        self.plane.last.answer(STREAM_HEAD)
        self.say(START, BLOCK, *(text_delta("x" * 20_000) for _ in range(8)))
        self.plane.advance(3)
        self.assertFalse(self.client.open)
        self.say(STOP)
        self.plane.last.answer(END)
        [told] = self.plane.events
        self.assertEqual((499, 3), (told.status, told.output_tokens))


class UnreadableTests(StreamTestCase):
    def test_bad_event(self) -> None:
        """What is no event of the upstream's protocol is a break, and no error of its own."""
        for one, two in PAIRS:
            events = UPSTREAMS[two][2]
            first = next(i for i, data in enumerate(events) if b"Hel" in data) + 1
            for bad in (b"data: {]\n\n", events[first][:-9] + b"\n\n", b"data: \xff\n\n"):
                for end in (b"", END):
                    self.begin(one, two)
                    self.plane.last.answer(STREAM_HEAD)
                    self.say(*events[:first])
                    self.plane.last.answer(chunk(bad) + end)
                    self.check_cut(one, "bad_event")

    def test_half_an_event_at_the_end(self) -> None:
        """An event that the end cuts is none, wherever it is cut."""
        for one, two in PAIRS:
            events = UPSTREAMS[two][2]
            first = next(i for i, data in enumerate(events) if b"Hel" in data) + 1
            for size in range(len(events[first]) - 2):
                self.begin(one, two)
                self.plane.last.answer(STREAM_HEAD)
                self.say(*events[:first], events[first][:size])
                self.plane.last.answer(END)
                outcome = self.plane.outcomes[-1]
                self.assertIn(outcome, ("bad_event", "unfinished"))
                self.check_cut(one, outcome)


class CredentialTests(StreamTestCase):
    def test_in_pieces(self) -> None:
        """Whatever the pieces, no client can put the upstream's credential together."""
        for one, two in PAIRS:
            for size in (1, 4, 9, len(SECRET)):
                self.begin(one, two)
                self.plane.last.answer(STREAM_HEAD)
                whole = SECRET + " " + SECRET
                texts = [whole[at : at + size] for at in range(0, len(whole), size)]
                for piece in UPSTREAMS[two][2]:
                    if b"Hel" in piece and b"Hello" not in piece:
                        for text in texts:
                            self.say(piece.replace(b"Hel", text.encode()))
                    else:
                        self.say(piece)
                self.plane.last.answer(END)
                self.assertTrue(self.client.answer.whole)
                told = text_of(one, self.client.answer.body)
                self.assertNotIn(SECRET[5:], told, (one, two, size))
                self.assertEqual(2, told.count("[redacted]"), (one, two, size, told))
                self.assertNotIn(SECRET[5:].encode(), self.client.received())
