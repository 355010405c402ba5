"""Scenes after what breaks gateways in the field, played through the whole data plane."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.planes.memory import (
    KEY,
    SECRET,
    FakeClient,
    MemoryDataPlane,
    get,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    DONE,
    END,
    ERROR,
    FINISH,
    MESSAGE,
    MESSAGES,
    MESSAGES_STREAM,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)


def anthropic_plane(**changes: Any) -> MemoryDataPlane:
    """A plane whose one upstream speaks the other protocol."""
    return MemoryDataPlane(
        routes=[route("small", ("u1", "vendor-1"))],
        upstreams=[upstream("u1", "anthropic", **changes)],
    )


class RequestTests(SynchronousTestCase):
    """What an upstream is sent."""

    def test_the_prompt_is_not_rewritten(self) -> None:
        """Order, spaces, escapes and numbers stay: a provider's prompt cache compares bytes."""
        body = (
            b'{ "z": 1.0e2, "temperature":0.10,\n\t"model" : "small", "seed":12345678901234567890,'
            b'"messages":[{"content":"\\u00e9 \xc3\xa9 \\/ \\ud83d\\ude80","role":"user"}] ,"a":-0}'
        )
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(body))
        head, _, sent = plane.last.requests().partition(b"\r\n\r\n")
        self.assertEqual(body.replace(b'"small"', b'"vendor-1"'), sent)
        self.assertIn(b"\r\ncontent-length: %d" % len(sent), head)

    def test_headers_and_query_of_anthropic(self) -> None:
        """Version, betas and query reach an upstream of the protocol; the key does not."""
        plane = anthropic_plane()
        client = plane.client()
        headers = (
            b"anthropic-version: 2026-10-21\r\nanthropic-beta: one-2026-01-01,two-2026-02-02\r\n"
            b"x-stainless-lang: python\r\ncookie: a=b\r\nx-forwarded-for: 192.0.2.9\r\n"
        )
        client.send(request(MESSAGES, b"/v1/messages?beta=true", headers))
        head = plane.last.requests().partition(b"\r\n\r\n")[0]
        self.assertTrue(head.startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n"))
        self.assertIn(b"\r\nanthropic-version: 2026-10-21\r\n", head)
        self.assertIn(b"\r\nanthropic-beta: one-2026-01-01,two-2026-02-02\r\n", head)
        self.assertIn(b"\r\nx-api-key: %b\r\n" % SECRET.encode(), head)
        for word in (KEY.encode(), b"authorization", b"cookie", b"192.0.2.9", b"stainless"):
            self.assertNotIn(word, head)

    def test_a_large_image(self) -> None:
        """Three megabytes pass in the pieces in which they come, and give their memory back."""
        image = b"iVBORw0KGgo" * 300_000
        body = CHAT[:-1] + b',"image":"data:image/png;base64,%b"}' % image
        plane = MemoryDataPlane()
        client = plane.client()
        sent = request(body)
        for start in range(0, len(sent), 65536):
            client.send(sent[start : start + 65536])
        self.assertTrue(plane.last.requests().endswith(body.replace(b"small", b"vendor-1")))
        self.assertEqual(2 * len(body), plane.plane.admission.memory_bytes)
        plane.last.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)
        self.assertEqual(0, plane.plane.admission.memory_bytes)


class AnswerTests(SynchronousTestCase):
    """What a client gets."""

    def test_the_provider_keeps_its_own(self) -> None:
        """Cookies, organisations and servers of a provider are no business of the client."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT))
        kept = (b"set-cookie: s=1", b"server: v", b"openai-organization: o", b"via: 1.1 v")
        passed = (b"x-request-id: req-1", b"x-ratelimit-remaining-requests: 9")
        plane.last.answer(reply(ANSWER, headers=b"".join(b"%b\r\n" % h for h in kept + passed)))
        headers = client.answer.headers
        for line in passed:
            name, value = line.split(b": ")
            self.assertEqual(value, headers[name])
        for line in kept:
            self.assertNotIn(line.split(b": ")[0], headers)

    def test_the_caller_is_at_fault(self) -> None:
        """A caller's own 400s are relayed as they are and let no target rest."""
        plane = two_targets()
        client = plane.client()
        for _ in range(5):
            client.send(request(CHAT))
            plane.last.answer(reply(ERROR, b"400 Bad Request"))
            self.assertEqual((400, ERROR), (client.answer.status, client.answer.body))
        client.send(request(CHAT))
        self.assertEqual(["u1"], plane.at)
        self.assertEqual([0] * 5, [event.output_tokens for event in plane.events])

    def test_a_refused_stream(self) -> None:
        """A stream that is refused is that refusal, and no stream with an error in it."""
        plane = two_targets()
        client = plane.client()
        client.send(request(CHAT_STREAM))
        plane.last.answer(reply(ERROR, b"422 Unprocessable Entity"))
        answer = client.answer
        self.assertEqual((422, ERROR, True), (answer.status, answer.body, answer.whole))
        self.assertEqual(b"application/json", answer.headers[b"content-type"])

    def test_answers_that_are_none(self) -> None:
        """A page, a body in a coding not known and an error under 200 lead to the next target."""
        page = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 14\r\n\r\n"
            b"<h1>Hello</h1>"
        )
        packed = reply(b"\x8b\x02\x80hello\x03", headers=b"content-encoding: br\r\n")
        for told, outcome in (
            (page, "not_json"),
            (packed, "unknown_coding"),
            (reply(ERROR), "error_envelope"),
            (reply(ERROR, b"529 Overloaded"), "status_529"),
        ):
            plane = two_targets()
            client = plane.client()
            client.send(request(CHAT))
            self.assertIn(b"\r\naccept-encoding: identity\r\n", plane.last.requests())
            plane.last.answer(told)
            self.assertEqual(["u1", "u2"], plane.at)
            plane.last.answer(reply(ANSWER))
            self.assertEqual((200, ANSWER), (client.answer.status, client.answer.body))
            self.assertEqual([outcome, "ok"], plane.outcomes)

    def test_head_requests(self) -> None:
        """HEAD is answered like GET without the body, and the connection stays in step."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(get(b"/v1/models", method=b"HEAD") + get(b"/v1/models"))
        first, second = client.answers(b"HEAD", b"GET")
        self.assertEqual((200, b""), (first.status, first.body))
        self.assertEqual(str(len(second.body)).encode(), first.headers[b"content-length"])
        self.assertEqual("small", second.json["data"][0]["id"])


class StreamTests(SynchronousTestCase):
    """What of a stream passes, however it is written and cut."""

    def play(self, plane: MemoryDataPlane, sent: bytes, told: bytes, size: int) -> FakeClient:
        """One request, answered in pieces of one size."""
        client = plane.client()
        client.send(sent)
        upstream_connection = plane.last
        for start in range(0, len(told), size):
            upstream_connection.answer(told[start : start + size])
        return client

    def test_any_lines_in_any_cut(self) -> None:
        """Line ends, missing spaces, comments and characters across reads arrive as they are."""
        events = [
            delta("Zürich 🚀".encode()).replace(b"data: ", b"data:"),
            b": keep-alive\n\n",
            delta(b"b").replace(b"\n", b"\r\n"),
            FINISH.replace(b"data: ", b"data:").replace(b"\n", b"\r\n"),
        ]
        usage = b'data:{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}\r\n\r\n'
        told = STREAM_HEAD + chunk(b"".join(events) + usage + DONE) + END
        for size in (1, 2, 3, 7, 64, len(told)):
            plane = MemoryDataPlane()
            client = self.play(plane, request(CHAT_STREAM), told, size)
            self.assertEqual(b"".join(events) + DONE, client.answer.body)
            self.assertTrue(client.answer.whole)
            self.check(plane)

    def test_a_length_is_not_passed_on(self) -> None:
        """A stream that came with a length goes out chunked, without it."""
        body = delta(b"Hi") + FINISH + DONE
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        plane = MemoryDataPlane()
        client = self.play(plane, request(CHAT_STREAM), head % len(body) + body, 50)
        self.assertEqual((body, True), (client.answer.body, client.answer.whole))
        self.assertNotIn(b"content-length", client.answer.headers)

    def test_usage_that_grows(self) -> None:
        """Usage on every chunk, and Anthropic's cumulative one, are not added up."""
        chunks = b"".join(
            b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":%b}],'
            b'"usage":{"prompt_tokens":9,"completion_tokens":%d}}\n\n' % (finish, count)
            for count, finish in ((1, b"null"), (2, b"null"), (3, b'"stop"'))
        )
        plane = MemoryDataPlane()
        client = self.play(
            plane, request(CHAT_STREAM), STREAM_HEAD + chunk(chunks + DONE) + END, 40
        )
        self.assertEqual(chunks + DONE, client.answer.body)
        self.check(plane)

    def test_cumulative_output(self) -> None:
        """``message_start`` already counts what ``message_delta`` counts again."""
        events = (
            b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
            b'{"input_tokens":9,"output_tokens":1}}}\n\n'
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":'
            b'"end_turn"},"usage":{"output_tokens":3}}\n\n'
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
        )
        plane = anthropic_plane()
        sent = request(MESSAGES_STREAM, b"/v1/messages")
        client = self.play(plane, sent, STREAM_HEAD + chunk(events) + END, 33)
        self.assertEqual(events, client.answer.body)
        self.check(plane)
        plane = anthropic_plane()
        client = self.play(plane, request(MESSAGES, b"/v1/messages"), reply(MESSAGE), 33)
        self.assertEqual(MESSAGE, client.answer.body)
        self.check(plane)

    def check(self, plane: MemoryDataPlane) -> None:
        """Nine tokens in and three out were billed, by the provider's own figures."""
        (event,) = plane.events
        counts = (event.input_tokens, event.output_tokens, event.estimated)
        self.assertEqual((9, 3, False), counts)
