"""The exact edges of how an answer is taken: its length, its status, its head, its last byte."""

from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.relay import SHORT_BYTES
from tests.planes.memory import (
    MemoryDataPlane,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.reading import read_answers
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    CLOSING,
    END,
    ERROR,
    MESSAGES,
    STREAM_HEAD,
    chunk,
    delta,
    two_targets,
)

JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def of_length(size: int) -> bytes:
    """An answer with usage that is so long."""
    return ANSWER.replace(b"Hello", b"y" * (size - len(ANSWER) + 5))


def framings(body: bytes) -> tuple[bytes, ...]:
    """An answer with a length, in one chunk, in many, and one that ends with its connection."""
    chunked = JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n"
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    return (
        reply(body),
        chunked + chunk(body) + END,
        chunked + b"".join(map(chunk, pieces)) + END,
        JSON_HEAD + b"\r\n" + body,
    )


class LengthTests(SynchronousTestCase):
    def play(self, data: bytes, sizes: int, ending: type[Exception] | None = None) -> None:
        """The first of two targets says this in reads of this size, and may end."""
        self.plane = two_targets()
        self.client = self.plane.client()
        self.client.send(request(CHAT))
        for start in range(0, len(data), sizes):
            self.plane.opened[0].answer(data[start : start + sizes])
        if ending is not None:
            self.plane.opened[0].close(ending)
        elif b"content-length" not in data and not data.endswith(END):
            self.plane.opened[0].close()

    def test_whole(self) -> None:
        """Up to 64 KiB an answer has a length that was counted here; one byte more, and chunks."""
        for size in (SHORT_BYTES - 1, SHORT_BYTES, SHORT_BYTES + 1):
            body = of_length(size)
            for data in framings(body):
                for sizes in (len(data), 4099):
                    self.play(data, sizes)
                    answer = self.client.answer
                    self.assertEqual((200, True), (answer.status, answer.whole))
                    self.assertEqual(body, answer.body)
                    short = size <= SHORT_BYTES
                    self.assertEqual(short, b"content-length" in answer.headers)
                    self.assertEqual(short, b"transfer-encoding" not in answer.headers)
                    [event] = self.plane.events
                    self.assertEqual(
                        (9, 3, False), (event.input_tokens, event.output_tokens, event.estimated)
                    )
                    self.assertEqual(len(body), self.plane.lines[0].bytes_out)

    def test_nothing_goes_out_before(self) -> None:
        """Nothing of an answer goes out before it is whole, or longer than 64 KiB."""
        data = JSON_HEAD + b"content-length: 90000\r\n\r\n" + of_length(90_000)[:SHORT_BYTES]
        self.play(data, len(data), ConnectionLost)
        self.assertEqual(["u1", "u2"], self.plane.at)
        self.assertEqual(b"", self.client.received())
        self.plane.last.answer(reply(ANSWER))
        self.assertEqual(["truncated", "ok"], self.plane.outcomes)

    def test_cut_behind_the_edge(self) -> None:
        """One byte more, and the break is the client's to see."""
        data = JSON_HEAD + b"content-length: 90000\r\n\r\n" + of_length(90_000)[: SHORT_BYTES + 1]
        for sizes in (len(data), 1000):
            self.play(data, sizes, ConnectionLost)
            self.assertEqual(["u1"], self.plane.at)
            answer = self.client.answer
            self.assertEqual((200, False), (answer.status, answer.whole))
            [event] = self.plane.events
            self.assertEqual(
                (499, (SHORT_BYTES + 1) // 4, True),
                (event.status, event.output_tokens, event.estimated),
            )

    def test_long_refusal_that_is_cut(self) -> None:
        """A refusal costs nothing, how long it is and however it ends."""
        body = b'{"error":{"message":"' + b"x" * 90_000 + b'"}}'
        for status in (b"400 Bad", b"301 Moved"):
            data = reply(body, status)
            self.play(data[:-5], len(data), ConnectionLost)
            self.assertFalse(self.client.answer.whole)
            [event] = self.plane.events
            self.assertEqual(
                (499, 0, 0, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )


class StatusTests(SynchronousTestCase):
    def ask(self, answer: bytes, *, close: bool = False) -> MemoryDataPlane:
        """What becomes of this answer."""
        plane = two_targets()
        self.client = plane.client()
        self.client.send(request(CHAT))
        plane.last.answer(answer)
        if close:
            plane.opened[0].close()
        return plane

    def test_good_ones(self) -> None:
        """Any 2xx with an answer is the answer; without one it is a failed attempt."""
        for status in (b"200 OK", b"201 Created", b"202 Accepted", b"203 Other", b"206 Part"):
            plane = self.ask(reply(ANSWER, status))
            self.assertEqual((int(status[:3]), ANSWER), (self.answer[0], self.answer[1]))
            self.assertEqual(3, plane.events[0].output_tokens)
            plane = self.ask(reply(b"", status))
            self.assertEqual(["u1", "u2"], plane.at, status)
        for status in (b"204 None", b"205 Reset"):
            plane = self.ask(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
            self.assertEqual(["u1", "u2"], plane.at, status)

    @property
    def answer(self) -> tuple[int, bytes]:
        """Status and body of what the client got."""
        answer = self.client.answer
        self.assertTrue(answer.whole)
        return answer.status, answer.body

    def test_redirects(self) -> None:
        """A redirect is the answer as it came; nothing is billed for it."""
        for status in (b"300 Many", b"301 Moved", b"302 Found", b"303 See", b"307 Temp", b"308 P"):
            for body in (b"", b"moved", ANSWER):
                plane = self.ask(reply(body, status, b"location: http://elsewhere.test/\r\n"))
                self.assertEqual((int(status[:3]), body), self.answer)
                self.assertEqual((["u1"], ["ok"]), (plane.at, plane.outcomes))
                self.assertEqual(0, plane.events[0].output_tokens)
                self.assertNotIn(b"location", self.client.answer.headers)

    def test_refusals(self) -> None:
        """A well-formed envelope is the answer byte for byte, under any status of the caller's."""
        spaced = b'{ "error" : {"message":"\\u0061", "type":"x","code":null}, "n":1.0}\n'
        for status in (400, 402, 404, 405, 408, 409, 410, 413, 415, 418, 422, 424, 431, 451, 499):
            plane = self.ask(reply(spaced, b"%d No" % status))
            self.assertEqual((status, spaced), self.answer)
            self.assertEqual(b"application/json", self.client.answer.headers[b"content-type"])
            self.assertEqual((["u1"], ["ok"]), (plane.at, plane.outcomes))
            self.assertEqual((status, 0), (plane.events[0].status, plane.events[0].output_tokens))

    def test_refusals_that_are_packed_otherwise(self) -> None:
        """A refusal as a stream, as a page or as nothing: an envelope with its text."""
        for head, body, text in (
            (b"content-type: text/event-stream\r\n", b'data: {"error":"no"}\n\n', "data:"),
            (b"content-type: text/html\r\n", b"<h1>No</h1>", "<h1>No</h1>"),
            (b"", b"", "422"),
        ):
            data = b"HTTP/1.1 422 No\r\n%b\r\n%b" % (head, body)
            self.ask(data, close=True)
            self.assertEqual(422, self.answer[0])
            self.assertIn(text, self.client.answer.message)

    def test_odd_ones(self) -> None:
        """A status that there is none of, or a switch of protocols, is no answer."""
        for line in (b"HTTP/1.1 600 X", b"HTTP/1.1 099 X", b"HTTP/1.1 101 Switching"):
            plane = self.ask(line + b"\r\ncontent-length: 0\r\n\r\n")
            self.assertEqual(["u1", "u2"], plane.at, line)


class SpoolTests(SynchronousTestCase):
    """Nobody holds a whole answer whose usage is not in the spool."""

    def ask(self, plane: MemoryDataPlane, body: bytes, *pieces: bytes) -> None:
        """A request whose answer comes so, and what its client held when its event was spooled."""
        client = plane.client()
        held: list[bytes] = []
        append = plane._append

        def look(line: bytes) -> bool:
            held.append(client.received())
            return append(line)

        plane.plane.books._append = look
        client.send(request(body))
        for connection in plane.busy:
            for piece in pieces:
                connection.answer(piece)
        plane.advance(6)
        [then] = held
        self.assertEqual([], [answer for answer in read_answers(then, True) if answer.whole])
        self.assertTrue(client.answer.whole)

    def test_each_kind_of_answer(self) -> None:
        """Whole ones, long ones, streams, refusals, ends of a walk."""
        long = reply(of_length(100_000))
        stream = STREAM_HEAD + chunk(delta(b"Hi") + CLOSING)
        for body, pieces in (
            (CHAT, (reply(ANSWER),)),
            (CHAT, (long[:-10], long[-10:])),
            (CHAT, (reply(ERROR, b"400 Bad"),)),
            (CHAT, (reply(ERROR, b"500 No"),)),
            (CHAT, (reply(ERROR, b"429 No"),)),
            (CHAT, (b"garbage\r\n\r\n",)),
            (CHAT, ()),
            (CHAT_STREAM, (stream, END)),
            (CHAT_STREAM, (stream + END,)),
        ):
            self.ask(MemoryDataPlane(), body, *pieces)

    def test_cache(self) -> None:
        """And those of the response cache."""
        plane = MemoryDataPlane(routes=[route("small", ("u1", "m"), cache_ttl_s=60)])
        self.ask(plane, CHAT, reply(ANSWER))
        self.ask(plane, CHAT)
        self.assertTrue(plane.events[-1].cached)


class SuccessTests(SynchronousTestCase):
    def test_failures_are_forgotten(self) -> None:
        """Whatever is an answer makes the failures before it forgotten; nothing else does."""
        no = reply(ERROR, b"500 No")
        long = reply(of_length(100_000))
        stream = STREAM_HEAD + chunk(delta(b"Hi") + CLOSING) + END
        for answer, forgets in (
            (reply(ANSWER), True),
            (long, True),
            (stream, True),
            (reply(ERROR, b"400 Bad"), True),
            (reply(ERROR, b"401 Who"), False),
        ):
            plane = two_targets()
            for said in (no, no, answer, no):
                client = plane.client()
                client.send(request(CHAT))
                plane.busy[0].answer(said)
                for connection in plane.busy:
                    connection.answer(reply(ANSWER))
            plane.client().send(request(CHAT))
            self.assertEqual("u1" if forgets else "u2", plane.busy[0].upstream, answer[:30])


class UnmeteredTests(SynchronousTestCase):
    def test_counting_tokens(self) -> None:
        """Counting tokens costs nothing, however it ends."""
        answer = reply(b'{"input_tokens":2095}')
        for size in (0, 20, len(answer) - 1, len(answer)):
            for environ in ({}, {"OMNIGATE_ABORT_DRAIN_MS": "0"}):
                plane = MemoryDataPlane(upstreams=[upstream("u1", "anthropic")], environ=environ)
                client = plane.client()
                client.send(request(MESSAGES, b"/v1/messages/count_tokens"))
                if size:
                    plane.last.answer(answer[:size])
                client.leave()
                plane.turn()
                if plane.busy:
                    plane.last.close(ConnectionLost)
                [event] = plane.events
                self.assertEqual(
                    (0, 0, False), (event.input_tokens, event.output_tokens, event.estimated)
                )


class EstimateTests(SynchronousTestCase):
    IMAGE = b'{"model":"small","messages":[{"content":[{"type":"image_url","image_url":{}}]}]}'

    def test_each_endpoint(self) -> None:
        """The estimate, to the token, of an answer of each endpoint whose figures never came."""
        body = b'{"choices":[' + b"1," * 20 + b"1]}"
        for path, protocol, sent, output in (
            (b"/v1/chat/completions", "openai", CHAT, len(body) // 4),
            (b"/v1/completions", "openai", CHAT, len(body) // 4),
            (b"/v1/responses", "openai", CHAT, len(body) // 4),
            (b"/v1/embeddings", "openai", CHAT, 0),
            (b"/v1/messages", "anthropic", MESSAGES, len(body) // 4),
            (b"/v1/chat/completions", "openai", self.IMAGE, len(body) // 4),
        ):
            plane = MemoryDataPlane(upstreams=[upstream("u1", protocol)])
            client = plane.client()
            client.send(request(sent, path))
            plane.last.answer(reply(body))
            self.assertEqual(body, client.answer.body)
            [event] = plane.events
            # An OpenAI-style picture is named twice, as a type and as a member.
            media = 2 * 1600 if sent == self.IMAGE else 0
            self.assertEqual(
                (len(sent) // 4 + media, output, True),
                (event.input_tokens, event.output_tokens, event.estimated),
                path,
            )

    def test_each_stream(self) -> None:
        """The same of streams that break off: an event is a token, or four bytes of text are."""
        few, much = b"ab", b"x" * 401
        for path, protocol, said in (
            (b"/v1/chat/completions", "openai", b'{"choices":[{"delta":{"content":"%b"}}]}'),
            (b"/v1/completions", "openai", b'{"choices":[{"text":"%b"}]}'),
            (
                b"/v1/responses",
                "openai",
                b'{"type":"response.output_text.delta","delta":"%b"}',
            ),
            (
                b"/v1/messages",
                "anthropic",
                b'{"type":"content_block_delta","delta":{"text":"%b"}}',
            ),
        ):
            for text, output in ((few, 7), (much, 7 * 401 // 4)):
                plane = MemoryDataPlane(upstreams=[upstream("u1", protocol)])
                client = plane.client()
                client.send(request(CHAT_STREAM, path))
                plane.last.answer(STREAM_HEAD + chunk(b"data: " + said % text + b"\n\n") * 7)
                plane.last.answer(chunk(b": a comment is no event\n\n" + b"data: {"))
                plane.last.close(ConnectionLost)
                [event] = plane.events
                self.assertEqual(
                    (499, len(CHAT_STREAM) // 4, output, True),
                    (event.status, event.input_tokens, event.output_tokens, event.estimated),
                    path,
                )
