"""Plans: bytes and pauses for a request."""

import gzip
import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.testing.provider_plan import Close, Hang, Plan, Reset, Send, Wait, error_plan, plan
from omnigate.testing.provider_request import SeenRequest
from omnigate.testing.provider_scenario import scenario_of
from tests.testing.provider_requests import chat, get, messages, post, responses


def made(request: SeenRequest) -> Plan:
    """The plan of a request's own scenario."""
    return plan(request, scenario_of(request.model), 1_700_000_000)


def sent(answer: Plan) -> tuple[bytes, bytes]:
    """Head and the rest of all bytes a plan sends."""
    data = b"".join(step.data for step in answer.steps if isinstance(step, Send))
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def unchunked(data: bytes) -> bytes:
    """The payload of a chunked body that must be whole."""
    payload = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            assert data == b"\r\n"
            return payload
        payload += data[:length]
        assert data[length : length + 2] == b"\r\n"
        data = data[length + 2 :]


class WholeTests(SynchronousTestCase):
    """Answers in one piece."""

    def test_plain_answers(self) -> None:
        """Each endpoint answers JSON with the length it declares, and keeps the connection."""
        requests = [
            chat("fake-small"),
            messages("fake-small"),
            responses("fake-small"),
            post("/v1/completions", model="fake-small", prompt="x"),
            post("/v1/embeddings", model="fake-small", input="x"),
            post("/v1/messages/count_tokens", model="fake-small", messages=[]),
            post("/v1/responses/input_tokens", model="fake-small", input="x"),
            get("/v1/models"),
            get("/v1/models/fake-small"),
            get("/v1/models", {"anthropic-version": "2026-10-21"}),
        ]
        for request in requests:
            answer = made(request)
            head, body = sent(answer)
            self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"), request.path)
            self.assertIn(b"content-length: %d" % len(body), head)
            self.assertTrue(json.loads(body))
            self.assertFalse(any(isinstance(step, Close) for step in answer.steps))

    def test_counts(self) -> None:
        """Tokens are counted in either protocol's shape, and are no bill."""
        fields: dict[str, Any] = {"model": "fake-input-7"}
        answer = made(post("/v1/messages/count_tokens", messages=[], **fields))
        self.assertEqual(json.loads(sent(answer)[1]), {"input_tokens": 7})
        answer = made(post("/v1/responses/input_tokens", input="x", **fields))
        told = {"object": "response.input_tokens", "input_tokens": 7}
        self.assertEqual(json.loads(sent(answer)[1]), told)
        self.assertIsNone(answer.usage)

    def test_the_bill(self) -> None:
        """A whole answer says what it used, a cut one or a failed one does not."""
        usage = made(chat("fake-words-3")).usage
        assert usage is not None
        self.assertEqual((usage.input, usage.output), (6, 3))
        embedded = made(post("/v1/embeddings", model="fake-small", input="abcd")).usage
        assert embedded is not None
        self.assertEqual((embedded.input, embedded.output), (1, 0))
        for model in ("fake-500", "fake-no-usage", "fake-cut-after-1", "fake-html"):
            self.assertIsNone(made(chat(model)).usage, model)

    def test_refusals_of_a_real_provider(self) -> None:
        """Unknown paths, wrong methods and bodies without their fields."""
        cases = [
            (get("/v2/models"), 404),
            (get("/v1/models/none"), 404),
            (get("/v1/chat/completions"), 405),
            (post("/v1/models"), 405),
            (post("/v1/chat/completions"), 400),
            (post("/v1/chat/completions", messages=[]), 400),
            (post("/v1/messages", model="fake-small"), 400),
        ]
        for request, status in cases:
            self.assertIn(b" %d " % status, sent(made(request))[0].split(b"\r\n")[0])

    def test_errors_in_each_protocol(self) -> None:
        """The envelope is the protocol's; hints are in the head."""
        head, body = sent(made(chat("fake-429-retry-after-7")))
        self.assertIn(b"retry-after: 7", head)
        self.assertEqual(json.loads(body)["error"]["type"], "rate_limit_error")
        head, body = sent(made(messages("fake-529")))
        self.assertTrue(head.startswith(b"HTTP/1.1 529 Overloaded"))
        self.assertEqual(json.loads(body)["error"]["type"], "overloaded_error")
        head, _ = sent(made(chat("fake-503-retry-date-60")))
        self.assertIn(b"retry-after: Tue, 14 Nov 2023 22:14:20 GMT", head)

    def test_odd_error_bodies(self) -> None:
        """The forms that servers in the field use instead of an envelope."""
        self.assertEqual(sent(made(chat("fake-500-plain-error")))[1][:8], b"the fake")
        self.assertIsInstance(json.loads(sent(made(chat("fake-500-array-error")))[1]), list)
        self.assertIsInstance(
            json.loads(sent(made(chat("fake-500-string-error")))[1])["error"], str
        )
        coded = json.loads(sent(made(chat("fake-500-integer-code-error")))[1])
        self.assertEqual(coded["error"]["code"], 500)

    def test_errors_that_no_retry_mends(self) -> None:
        """A prompt that is too long, and an account without credit, as each protocol says it."""
        head, body = sent(made(chat("fake-too-long")))
        self.assertIn(b" 400 ", head)
        self.assertEqual(json.loads(body)["error"]["code"], "context_length_exceeded")
        head, body = sent(made(messages("fake-too-long")))
        self.assertIn(b" 400 ", head)
        self.assertTrue(json.loads(body)["error"]["message"].startswith("prompt is too long: "))
        head, body = sent(made(responses("fake-no-credit")))
        self.assertIn(b" 429 ", head)
        self.assertEqual(json.loads(body)["error"]["code"], "insufficient_quota")
        head, body = sent(made(messages("fake-no-credit")))
        self.assertIn(b" 402 ", head)
        self.assertEqual(json.loads(body)["error"]["type"], "billing_error")

    def test_a_cut_answer_keeps_its_full_length_in_the_head(self) -> None:
        """Half the body, then the end that was asked for."""
        whole = sent(made(chat("fake-small")))[1]
        for model, last in (("cut-after-1", Close()), ("reset-after-1", Reset())):
            answer = made(chat(f"fake-{model}"))
            head, body = sent(answer)
            declared = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            self.assertGreater(declared, len(body))
            self.assertLess(len(body), len(whole))
            self.assertEqual(answer.steps[-1], last)
        self.assertEqual(made(chat("fake-silent-after-1")).steps[-1], Hang())

    def test_a_bad_chunk_size_needs_chunks(self) -> None:
        """A whole answer is sent in chunks where one of them is to be bad."""
        head, body = sent(made(chat("fake-bad-chunk")))
        self.assertIn(b"transfer-encoding: chunked", head)
        self.assertIn(b"\r\nzz;what\r\n", body)

    def test_silence_and_refused_reuse(self) -> None:
        """No byte at all, ever, or on a connection that was used before."""
        self.assertEqual(made(chat("fake-silent")).steps, (Hang(),))
        again = post("/v1/chat/completions", model="fake-drop-reused", ordinal=2)
        self.assertEqual(made(again).steps, (Close(),))

    def test_error_plan(self) -> None:
        """A refusal from outside any scenario."""
        head, body = sent(error_plan(chat("x"), 401, "no"))
        self.assertTrue(head.startswith(b"HTTP/1.1 401 "))
        self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")


class StreamTests(SynchronousTestCase):
    """Answers in events."""

    def test_every_endpoint_streams(self) -> None:
        """Events in chunks, whole to the last one, each in a write of its own."""
        requests = [
            chat("fake-small", stream=True),
            messages("fake-small", stream=True),
            responses("fake-small", stream=True),
            post("/v1/completions", model="fake-small", prompt="x", stream=True),
        ]
        for request in requests:
            head, rest = sent(made(request))
            self.assertIn(b"content-type: text/event-stream", head)
            self.assertIn(b"transfer-encoding: chunked", head)
            self.assertTrue(unchunked(rest).endswith(b"\n\n"))

    def test_pauses(self) -> None:
        """Pauses stand where the scenario puts them."""
        steps = made(
            chat("fake-words-2-slow-first-byte-500-slow-first-event-250-paced-20", stream=True)
        ).steps
        self.assertEqual(steps[0], Wait(0.5))
        self.assertEqual(steps[2], Wait(0.25))
        self.assertEqual(sum(step == Wait(0.02) for step in steps), 4)

    def test_endings(self) -> None:
        """After three events: close, reset, silence, a clean end, an error, a bad size."""
        for model, last in {
            "cut-after-3": Close(),
            "reset-after-3": Reset(),
            "silent-after-3": Hang(),
            "end-after-3": Send(b"0\r\n\r\n"),
            "error-event-after-3": Send(b"0\r\n\r\n"),
            "bad-chunk-after-3": Close(),
        }.items():
            answer = made(chat(f"fake-{model}", stream=True))
            self.assertEqual(answer.steps[-1], last, model)
            data = sent(answer)[1]
            self.assertEqual(data.count(b"chat.completion.chunk"), 3, model)
            self.assertNotIn(b"[DONE]", data)
            self.assertIsNone(answer.usage)

    def test_an_error_as_the_first_event(self) -> None:
        """Each protocol has its own."""
        chat_data = unchunked(sent(made(chat("fake-error-event", stream=True)))[1])
        self.assertTrue(chat_data.startswith(b'data: {"error":'))
        for request in (
            messages("fake-error-event", stream=True),
            responses("fake-error-event", stream=True),
        ):
            data = unchunked(sent(made(request))[1])
            self.assertTrue(data.startswith(b'event: error\ndata: {"type":"error"'))

    def test_wrong_framing(self) -> None:
        """Heads that contradict themselves."""
        both = sent(made(chat("fake-both-lengths", stream=True)))[0]
        self.assertTrue(b"content-length" in both and b"transfer-encoding" in both)
        two = sent(made(chat("fake-two-lengths")))[0]
        self.assertEqual(two.count(b"content-length"), 2)
        self.assertIn(b"squeeze", sent(made(chat("fake-unknown-coding", stream=True)))[0])

    def test_other_framing(self) -> None:
        """A stream with a length, or ended by the end of the connection."""
        head, body = sent(made(chat("fake-with-length", stream=True)))
        self.assertIn(b"content-length: %d" % len(body), head)
        answer = made(chat("fake-until-close", stream=True))
        self.assertEqual(answer.steps[-1], Close())
        self.assertIn(b"connection: close", sent(answer)[0])
        answer = made(chat("fake-drop-idle", stream=True))
        self.assertEqual(answer.steps[-1], Close())
        self.assertNotIn(b"connection: close", sent(answer)[0])

    def test_spelling_of_events(self) -> None:
        """CR LF, no space, comments and pings, no [DONE]."""
        model = "fake-words-1-crlf-no-space-comments-no-done"
        data = unchunked(sent(made(chat(model, stream=True)))[1])
        self.assertTrue(data.startswith(b": keep-alive\r\n\r\ndata:{"))
        self.assertNotIn(b"[DONE]", data)
        data = unchunked(sent(made(messages("fake-words-1-comments", stream=True)))[1])
        self.assertTrue(data.startswith(b"event: ping\ndata: "))

    def test_cuts_and_compression(self) -> None:
        """Split anywhere, in one write, or compressed, the payload stays the same."""
        plain = unchunked(sent(made(chat("fake-small", stream=True)))[1]).replace(b"-small", b"")
        for extra in ("split-1", "one-write", "gzip"):
            answer = made(chat(f"fake-{extra}", stream=True))
            data = unchunked(sent(answer)[1])
            if extra == "gzip":
                data = gzip.decompress(data)
            self.assertEqual(data.replace(f"-{extra}".encode(), b""), plain)
            if extra == "one-write":
                self.assertEqual(len(answer.steps), 1)

    def test_empty_stream_and_html(self) -> None:
        """A body of nothing, and a page that is no API."""
        self.assertEqual(sent(made(chat("fake-empty-stream", stream=True)))[1], b"0\r\n\r\n")
        head, body = sent(made(chat("fake-html", stream=True)))
        self.assertIn(b"text/html", head)
        self.assertTrue(body.startswith(b"<!doctype"))
        self.assertIn(b'"error"', sent(made(chat("fake-error-envelope", stream=True)))[1])

    def test_interim_head(self) -> None:
        """A 103 comes before the real head."""
        self.assertTrue(sent(made(chat("fake-interim")))[0].startswith(b"HTTP/1.1 103 "))
