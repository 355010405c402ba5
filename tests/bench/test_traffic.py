"""The prepared bytes are what they claim to be, to the product's own parsers and to JSON."""

import json

from twisted.trial.unittest import SynchronousTestCase

from bench import traffic
from omnigate.dialects.meter import Meter
from omnigate.dialects.passage import StreamPassage
from omnigate.wire.head import parse_request_head, parse_response_head
from omnigate.wire.json_scan import scan_body
from omnigate.wire.json_splice import splice_request


class RequestTests(SynchronousTestCase):
    def test_bodies_have_their_size_and_are_json(self) -> None:
        """A body is as long as asked for, and asks for a stream where it should."""
        for kind, model in traffic.CLIENT_MODELS.items():
            for size in (1024, 4321, 1024 * 1024):
                body = traffic.request_body(kind, size)
                self.assertEqual(len(body), size)
                decoded = json.loads(body)
                self.assertEqual(decoded["model"], model)
                self.assertEqual(decoded.get("stream", False), kind in traffic.STREAMS)

    def test_a_body_without_room_is_refused(self) -> None:
        """A size below that of the frame is a mistake."""
        self.assertRaises(ValueError, traffic.request_body, "whole", 200)

    def test_head(self) -> None:
        """The head is one that the product takes, and tells the body's length."""
        request = traffic.request_bytes("whole", 1024, 8080, "bench-key")
        head, _, body = request.partition(b"\r\n\r\n")
        parsed = parse_request_head(head + b"\r\n\r\n")
        self.assertEqual(parsed.content_length, len(body))
        self.assertEqual(parsed.headers[b"authorization"], b"Bearer bench-key")
        self.assertTrue(parsed.keep_alive)

    def test_model_of_a_client_and_of_a_gateway(self) -> None:
        """A spliced body is told from the client's own, and what stands behind is the same."""
        body = traffic.request_body("burst", 1024)
        kind, spliced, end = traffic.read_model(body)
        self.assertEqual((kind, spliced), ("burst", False))
        self.assertFalse(traffic.asks_for_usage(body))
        model = b'"%b"' % traffic.UPSTREAM_MODELS["burst"].encode()
        sent = b"".join(splice_request(body, scan_body(body), model, True))
        sent_kind, sent_spliced, sent_end = traffic.read_model(sent)
        self.assertEqual((sent_kind, sent_spliced), ("burst", True))
        self.assertEqual(sent[sent_end:], body[end:])
        self.assertTrue(traffic.asks_for_usage(sent))

    def test_other_models_are_refused(self) -> None:
        """Nothing is answered to a body that is not of the benchmark."""
        for body in (
            b"",
            b"{}",
            b'{"model":"gpt"}',
            b'{"x":"%b","model":"bench-whole"}' % (b"a" * 300),
        ):
            self.assertRaises(traffic.OddRequestError, traffic.read_model, body)


class AnswerTests(SynchronousTestCase):
    def test_whole_answer(self) -> None:
        """The plain answer is 1 KiB of JSON, and its head tells its length."""
        head, _, body = traffic.whole_answer().partition(b"\r\n\r\n")
        self.assertEqual(len(body), 1024)
        self.assertEqual(parse_response_head(head + b"\r\n\r\n").content_length, len(body))
        usage = json.loads(body)["usage"]
        tokens = traffic.tokens_of("whole", 0)
        self.assertEqual(usage["prompt_tokens"], tokens.prompt)
        self.assertEqual(usage["completion_tokens"], tokens.completion)

    def test_what_a_gateway_passes_on(self) -> None:
        """A stream with usage, passed to a client that did not ask for it, is the one without."""
        meter = Meter("chat", True)
        passage = StreamPassage("chat", meter, True, b"")
        out = passage.feed(traffic.burst_payload(with_usage=True)) + passage.end()
        self.assertEqual(out, traffic.burst_payload(with_usage=False))
        counts, estimated = meter.settle(b"")
        tokens = traffic.tokens_of("burst", 0)
        self.assertEqual(
            (counts.input_tokens, counts.output_tokens), (tokens.prompt, tokens.completion)
        )
        self.assertFalse(estimated)

    def test_paced_event(self) -> None:
        """An event gives back what was put in, and any change of it is seen."""
        event = traffic.paced_event(17, 123_456_789_012)
        self.assertEqual(len(event), traffic.PACED_EVENT_BYTES)
        self.assertEqual(traffic.read_paced_event(event), (17, 123_456_789_012))
        json.loads(event.removeprefix(b"data: "))
        for at in range(len(event)):
            changed = event[:at] + b"~" + event[at + 1 :]
            self.assertIsNone(traffic.read_paced_event(changed), at)
        self.assertIsNone(traffic.read_paced_event(event + b" "))
        self.assertIsNone(traffic.read_paced_event(event[:-1]))

    def test_chunks(self) -> None:
        """Every event is a chunk of its own."""
        chunks = traffic.chunks_of(b"data: 1\n\ndata: [DONE]\n\n")
        self.assertEqual(chunks, b"9\r\ndata: 1\n\n\r\ne\r\ndata: [DONE]\n\n\r\n")
