"""Requests for upstreams of another protocol, and whole answers of theirs."""

import json
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from omnigate.capabilities import Capabilities
from omnigate.gateway.prepared_attempt import OWN_TURN_BYTES
from omnigate.protocols.translated_relay import WHOLE_BYTES
from tests.planes.memory import (
    SECRET,
    FakeClient,
    MemoryDataPlane,
    key,
    reply,
    request,
    route,
    upstream,
)
from tests.planes.scenes import (
    ANSWER,
    CHAT,
    CHAT_STREAM,
    ERROR,
    MESSAGE,
    MESSAGES,
    MESSAGES_STREAM,
    RESPONSE,
    RESPONSES,
    STREAM_HEAD,
)

ID = b"x-omnigate-request-id"
ATTEMPTS = b"x-omnigate-attempts"
CHAT_PATH = b"/v1/chat/completions"
MESSAGES_PATH = b"/v1/messages"
RESPONSES_PATH = b"/v1/responses"

#: What each client sends, where, and how the text of its answer is found.
CLIENTS = {
    "chat": (CHAT_PATH, CHAT, lambda told: told["choices"][0]["message"]["content"]),
    "messages": (MESSAGES_PATH, MESSAGES, lambda told: told["content"][0]["text"]),
    "responses": (RESPONSES_PATH, RESPONSES, lambda told: told["output"][0]["content"][0]["text"]),
}
#: The protocol of each upstream, the API it is to be asked over, where, and what it answers.
UPSTREAMS = {
    "chat": ("openai", "chat", b"POST /v1/chat/completions HTTP/1.1\r\n", ANSWER),
    "responses": ("openai", "responses", b"POST /v1/responses HTTP/1.1\r\n", RESPONSE),
    "messages": ("anthropic", "", b"POST /v1/messages HTTP/1.1\r\n", MESSAGE),
}
PAIRS = [(one, two) for one in CLIENTS for two in UPSTREAMS if one != two]

AUDIO = (
    b'{"model":"small","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":'
    b'{"data":"AAAA","format":"wav"}}]}]}'
)
ANTHROPIC_ERROR = (
    b'{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}'
)


def plane_for(kind: str, **changes: Any) -> MemoryDataPlane:
    """A plane whose only upstream is to be asked over one API."""
    protocol, api, _, _ = UPSTREAMS[kind]
    return MemoryDataPlane(
        upstreams=[upstream("u1", protocol)],
        capabilities=[Capabilities(upstream_api=api)],
        **changes,
    )


def sent_body(request_bytes: bytes) -> dict[str, Any]:
    """The body of the newest request that an upstream got."""
    return json.loads(request_bytes.rpartition(b"\r\n\r\n")[2])  # type: ignore[no-any-return]


class WholeTests(SynchronousTestCase):
    def test_all_directions(self) -> None:
        """Whatever the client speaks, an upstream of any protocol answers it, and one event."""
        for one, two in PAIRS:
            plane = plane_for(two)
            client = plane.client()
            path, body, text_of = CLIENTS[one]
            client.send(request(body, path + b"?beta=true", b"anthropic-beta: a-1\r\n"))
            sent = plane.last.requests()
            _, _, line, answer = UPSTREAMS[two]
            self.assertTrue(sent.startswith(line), (one, two, sent))
            self.assertEqual("vendor-1", sent_body(sent)["model"])
            self.assertNotIn(b"anthropic-beta", sent)
            self.assertEqual(two == "messages", b"anthropic-version: 2023-06-01\r\n" in sent)
            plane.last.answer(reply(answer))
            told = client.answer
            self.assertEqual((200, True), (told.status, told.whole), (one, two))
            self.assertEqual(b"application/json", told.headers[b"content-type"])
            self.assertEqual("Hello", text_of(told.json))
            self.assertEqual("vendor-1", told.json["model"])
            self.assertEqual(b"1", told.headers[b"x-omnigate-attempts"])
            [event] = plane.events
            self.assertEqual(
                (200, 9, 3, False, one, "u1", "vendor-1"),
                (
                    event.status,
                    event.input_tokens,
                    event.output_tokens,
                    event.estimated,
                    event.endpoint,
                    event.upstream,
                    event.target_model,
                ),
            )
            self.assertEqual([], plane.refused)
            self.assertEqual((0, 0), (plane.in_flight, plane.plane.parse_memory.bytes))
            self.assertTrue(client.open)

    def test_headers(self) -> None:
        """Ids are the gateway's, wishes to wait pass, another protocol's counters do not."""
        plane = plane_for("messages")
        client = plane.client()
        client.send(request(CHAT))
        lines = (
            b"request-id: req_1\r\nretry-after: 3\r\nx-should-retry: true\r\n"
            b"anthropic-ratelimit-requests-limit: 9\r\nx-ratelimit-limit-requests: 9\r\n"
        )
        plane.last.answer(reply(MESSAGE, headers=lines))
        headers = client.answer.headers
        own = plane.events[-1].id.encode()
        self.assertEqual([own] * 3, [headers[n] for n in (b"request-id", b"x-request-id", ID)])
        self.assertEqual(b"3", headers[b"retry-after"])
        self.assertEqual(b"true", headers[b"x-should-retry"])
        self.assertFalse([name for name in headers if b"ratelimit" in name])

    def test_tools_over_responses(self) -> None:
        """A model that takes tools over Responses only is asked there, and only with tools."""
        tool = b'"tools":[{"type":"function","function":{"name":"f"}}]'
        for body, line in (
            (CHAT, UPSTREAMS["chat"][2]),
            (CHAT[:-1] + b',"tools":[ ]}', UPSTREAMS["chat"][2]),
            (CHAT[:-1] + b',"tools":null}', UPSTREAMS["chat"][2]),
            (CHAT.replace(b"Hi", b'\\"tools\\"'), UPSTREAMS["chat"][2]),
            (CHAT[:-1] + b"," + tool + b"}", UPSTREAMS["responses"][2]),
            (CHAT[:-1] + b',"functions":[{"name":"f"}]}', UPSTREAMS["responses"][2]),
        ):
            plane = MemoryDataPlane(capabilities=[Capabilities(tools_over_responses=True)])
            plane.client().send(request(body))
            self.assertTrue(plane.last.requests().startswith(line), body)

    def test_json_for_a_stream(self) -> None:
        """A whole answer to a request for a stream is told as a stream."""
        for body, path, kind, last in (
            (CHAT_STREAM, CHAT_PATH, "messages", b"data: [DONE]\n\n"),
            (MESSAGES_STREAM, MESSAGES_PATH, "chat", b'data: {"type":"message_stop"}\n\n'),
        ):
            plane = plane_for(kind)
            client = plane.client()
            client.send(request(body, path))
            plane.last.answer(reply(UPSTREAMS[kind][3]))
            told = client.answer
            self.assertEqual(b"text/event-stream", told.headers[b"content-type"])
            self.assertIn(b"Hello", told.body)
            self.assertTrue(told.body.endswith(last), told.body)
            self.assertEqual((9, 3), (plane.events[0].input_tokens, plane.events[0].output_tokens))

    def test_secret(self) -> None:
        """The upstream's credential is struck out of answers and errors."""
        for status in (b"200 OK", b"400 Bad"):
            plane = plane_for("messages")
            client = plane.client()
            client.send(request(CHAT))
            body = (MESSAGE if status[:1] == b"2" else ANTHROPIC_ERROR).replace(
                b"Hello", b"Hello " + SECRET.encode()
            )
            plane.last.answer(reply(body.replace(b"such", SECRET.encode()), status))
            self.assertNotIn(SECRET.encode(), client.received())
            self.assertIn(b"redacted", client.received().lower())

    def test_cached(self) -> None:
        """A translated answer is kept as the client got it."""
        plane = plane_for("messages", routes=[route("small", ("u1", "vendor-1"), cache_ttl_s=60)])
        client = plane.client()
        client.send(request(CHAT))
        plane.last.answer(reply(MESSAGE))
        first = client.answer
        client.send(request(CHAT))
        again = client.answer
        self.assertEqual(b"hit", again.headers[b"x-omnigate-cache"])
        self.assertEqual(first.body, again.body)
        self.assertEqual([False, True], [event.cached for event in plane.events])


class PassOverTests(SynchronousTestCase):
    def plane(self, *protocols: str) -> MemoryDataPlane:
        names = [f"u{index}" for index in range(1, len(protocols) + 1)]
        return MemoryDataPlane(
            routes=[route("small", *((name, "m") for name in names))],
            upstreams=[upstream(n, p) for n, p in zip(names, protocols, strict=True)],
        )

    def test_passed_over(self) -> None:
        """A target that cannot be sent the request is passed over, and nothing is held to it."""
        plane = self.plane("anthropic", "openai")
        client = plane.client()
        client.send(request(AUDIO))
        self.assertEqual(["u2"], plane.at)
        plane.last.answer(reply(ANSWER))
        self.assertEqual((200, b"1"), (client.answer.status, client.answer.headers[ATTEMPTS]))
        self.assertEqual(["ok"], plane.outcomes)
        self.assertEqual([], plane.refused)

    def test_refused(self) -> None:
        """Where no target can be sent it, it is refused, naming the field; nobody is asked."""
        for protocols in (("anthropic",), ("anthropic", "anthropic")):
            plane = self.plane(*protocols)
            client = plane.client()
            client.send(request(AUDIO))
            answer = client.answer
            self.assertEqual((400, "untranslatable_request"), (answer.status, answer.code))
            self.assertEqual("messages[0].content[0]", answer.json["error"]["param"])
            self.assertEqual([("k1", "untranslatable_request")], plane.refused)
            self.assertEqual(([], []), (plane.events, plane.opened))
            self.assertEqual((0, 0), (plane.in_flight, plane.plane.parse_memory.bytes))
            self.assertTrue(client.open)

    def test_refused_in_anthropics_shape(self) -> None:
        """A client of Messages is told in its own shape."""
        plane = self.plane("openai")
        client = plane.client()
        body = MESSAGES.replace(b'"Hi"', b'[{"type":"container_upload","file_id":"f"}]')
        client.send(request(body, MESSAGES_PATH))
        error = client.answer.json["error"]
        self.assertEqual("invalid_request_error", error["type"])
        self.assertEqual("untranslatable_request", error["details"]["error_code"])
        self.assertIn("messages[0].content[0]", error["message"])

    def test_tried_and_passed_over(self) -> None:
        """Where one was asked and failed, that is what the client is told."""
        plane = self.plane("openai", "anthropic")
        client = plane.client()
        client.send(request(AUDIO))
        plane.last.answer(reply(ERROR, b"500 Oops"))
        self.assertEqual((502, "all_upstreams_failed"), (client.answer.status, client.answer.code))
        self.assertEqual(["status_500"], plane.outcomes)
        self.assertEqual([], plane.refused)

    def test_walk(self) -> None:
        """From a target that fails the walk goes on to one of the other protocol."""
        for answer, outcome in (
            (reply(ERROR, b"500 Oops"), "status_500"),
            (reply(ERROR, b"429 Slow"), "status_429"),
            (reply(ERROR, b"401 Who"), "upstream_auth"),
            (reply(b"<html>"), "not_json"),
            (reply(ANTHROPIC_ERROR), "error_envelope"),
            (reply(b"", b"302 Found", b"location: /\r\n"), "status_302"),
            (STREAM_HEAD, "unasked_stream"),
        ):
            plane = self.plane("anthropic", "openai")
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(answer)
            self.assertEqual(["u1", "u2"], plane.at, outcome)
            plane.last.answer(reply(ANSWER))
            self.assertEqual(200, client.answer.status)
            self.assertEqual([outcome, "ok"], plane.outcomes)

    def test_retried_on_a_fresh_connection(self) -> None:
        """A kept connection that was closing costs another one, and not another translation."""
        plane = self.plane("anthropic")
        client = plane.client()
        for _ in range(2):
            client.send(request(CHAT))
            plane.last.answer(reply(MESSAGE))
        client.send(request(CHAT))
        plane.opened[0].close()
        self.assertEqual(2, len(plane.opened))
        self.assertEqual("m", sent_body(plane.last.requests())["model"])
        plane.last.answer(reply(MESSAGE))
        self.assertEqual(200, client.answer.status)


class ErrorTests(SynchronousTestCase):
    def told(self, body: bytes, path: bytes, kind: str, answer: bytes) -> tuple[Any, Any]:
        plane = plane_for(kind)
        client = plane.client()
        client.send(request(body, path))
        plane.last.answer(answer)
        [event] = plane.events
        self.assertEqual((0, 0), (event.input_tokens, event.output_tokens))
        self.assertEqual(client.answer.status, event.status)
        self.assertEqual(["ok"], plane.outcomes)
        return client.answer, event

    def test_errors(self) -> None:
        """An error that is the answer is told in the client's protocol."""
        answer, _ = self.told(CHAT, CHAT_PATH, "messages", reply(ANTHROPIC_ERROR, b"400 Bad"))
        self.assertEqual((400, "no such thing"), (answer.status, answer.message))
        self.assertEqual("invalid_request_error", answer.json["error"]["type"])
        answer, _ = self.told(MESSAGES, MESSAGES_PATH, "chat", reply(ERROR, b"404 Gone"))
        self.assertEqual((404, "too busy"), (answer.status, answer.message))
        self.assertEqual("not_found_error", answer.json["error"]["type"])

    def test_no_credit(self) -> None:
        """A provider that is not paid is nothing to try again for."""
        error = b'{"type":"error","error":{"type":"billing_error","message":"pay"}}'
        lines = b"x-should-retry: true\r\n"
        answer, _ = self.told(CHAT, CHAT_PATH, "messages", reply(error, b"402 Pay", lines))
        self.assertEqual((429, "insufficient_quota"), (answer.status, answer.code))
        self.assertEqual(b"false", answer.headers[b"x-should-retry"])

    def test_long_error(self) -> None:
        """Of an error that does not end the beginning is told."""
        begun = reply(b"x" * 10_000_000, b"400 Bad")[:200_000]
        answer, _ = self.told(CHAT, CHAT_PATH, "messages", begun)
        self.assertEqual(502, answer.status)


class BoundTests(SynchronousTestCase):
    def long_answer(self, size: int) -> bytes:
        return MESSAGE.replace(b"Hello", b"x" * (size - len(MESSAGE) + 5))

    def ask(self, plane: MemoryDataPlane, body: bytes = CHAT) -> FakeClient:
        client = plane.client()
        client.send(request(body))
        return client

    def feed(self, plane: MemoryDataPlane, data: bytes) -> None:
        for start in range(0, len(data), 65536):
            if plane.busy:
                plane.last.answer(data[start : start + 65536])

    def test_long_answer(self) -> None:
        """An answer of up to 16 MiB is translated; one byte more is a failed attempt."""
        for size, status in ((70_000, 200), (WHOLE_BYTES, 200), (WHOLE_BYTES + 1, 502)):
            plane = plane_for("messages")
            client = self.ask(plane)
            self.feed(plane, reply(self.long_answer(size)))
            self.assertEqual(status, client.answer.status)
            self.assertEqual(0, plane.plane.held.bytes)
            if status == 200:
                self.assertEqual(3, plane.events[0].output_tokens)
                self.assertGreater(len(client.answer.body), size - 200)
            else:
                self.assertEqual(["answer_too_large"], plane.outcomes)
                self.assertFalse(plane.last.open)

    def test_deep_answer(self) -> None:
        """An answer of any length may nest 128 deep, and no deeper."""
        call = b'[{"type":"tool_use","id":"t","name":"f","input":%b},{"type":"text","text":"%b"}]'
        for levels, whole in ((128, True), (129, False)):
            # Answer, content and block are three of them.
            value = b'{"a":' * (levels - 3) + b"1" + b"}" * (levels - 3)
            for padding in (0, 10_000, 100_000):
                content = call % (value, b"x" * (padding + 1))
                body = MESSAGE.replace(b'[{"type":"text","text":"Hello"}]', content)
                plane = plane_for("messages")
                client = self.ask(plane)
                self.feed(plane, reply(body))
                told = client.answer
                self.assertEqual(200 if whole else 502, told.status, (levels, padding))
                if whole:
                    [made] = told.json["choices"][0]["message"]["tool_calls"]
                    self.assertEqual(value.decode(), made["function"]["arguments"])
                else:
                    outcome = "answer_too_complex" if padding > 65536 else "not_json"
                    self.assertEqual([outcome], plane.outcomes)

    def test_all_hold_too_much(self) -> None:
        """One that there is no room to hold is read for its figures, and paid."""
        for limit in (2_000, 100_000):
            plane = plane_for("messages")
            plane.plane.held.limit = limit
            client = self.ask(plane)
            answer = reply(self.long_answer(150_000))
            self.feed(plane, answer[:-50])
            self.assertEqual([], plane.events)
            self.assertEqual(0, plane.plane.held.bytes)
            self.feed(plane, answer[-50:])
            self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
            self.assertEqual(b"1", client.answer.headers[b"retry-after"])
            [event] = plane.events
            self.assertEqual(
                (503, 9, 3, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )
            self.assertEqual(["no_room"], plane.outcomes)
            # The connection is as good as before, and so is the target.
            plane.plane.held.limit = 1 << 26
            self.ask(plane)
            self.feed(plane, answer)
            self.assertEqual(["ok"], plane.outcomes)
            self.assertEqual(1, len(plane.opened))

    def test_leaves_a_short_one(self) -> None:
        """One that is short is collected on in the room that it has."""
        plane = plane_for("messages")
        plane.plane.held.limit = 20_000
        client = self.ask(plane)
        answer = reply(self.long_answer(20_000))
        self.feed(plane, answer[:-50])
        held = plane.plane.held.bytes
        self.assertGreater(held, 19_000)
        client.leave()
        self.assertEqual(held, plane.plane.held.bytes)
        self.feed(plane, answer[-50:])
        self.assertEqual((499, 3), (plane.events[0].status, plane.events[0].output_tokens))
        self.assertEqual(0, plane.plane.held.bytes)

    def test_no_room_for_one_that_does_not_end(self) -> None:
        """One that there is no room to hold may be no longer than others."""
        plane = plane_for("messages")
        plane.plane.held.limit = 100_000
        client = self.ask(plane)
        self.feed(plane, reply(self.long_answer(WHOLE_BYTES + 1)))
        self.assertEqual(502, client.answer.status)
        self.assertEqual(["answer_too_large"], plane.outcomes)

    def test_leaves_one_without_room(self) -> None:
        """One that nobody waits for is read on as it was."""
        plane = plane_for("messages")
        plane.plane.held.limit = 100_000
        client = self.ask(plane)
        answer = reply(self.long_answer(150_000))
        self.feed(plane, answer[:-50])
        client.leave()
        self.feed(plane, answer[-50:])
        [event] = plane.events
        self.assertEqual(
            (499, 9, 3, False),
            (event.status, event.input_tokens, event.output_tokens, event.estimated),
        )

    def test_turns_of_a_request(self) -> None:
        """A long request is read in one turn and written in the next; its client may leave."""
        body = CHAT.replace(b"Hi", b"x" * 100_000)
        self.assertLess(100_000, len(body))
        for turns in (0, 1, 2):
            plane = plane_for("messages")
            waiting: list[Callable[[], None]] = []
            for name in ("call_soon", "call_next"):
                self.patch(plane.watchdog, name, waiting.append)
            client = self.ask(plane, body)
            for _ in range(turns):
                waiting.pop(0)()
            self.assertEqual(turns == 1, plane.plane.parse_memory.bytes > 0)
            self.assertEqual(turns == 2, bool(plane.opened))
            client.leave()
            self.assertEqual(0, plane.plane.parse_memory.bytes)
            if turns == 2:
                self.assertEqual([], waiting)
                continue
            self.assertEqual((499, ["canceled"]), (plane.events[0].status, plane.outcomes))
            self.assertEqual((0, 0), (plane.events[0].input_tokens, plane.in_flight))
            [late] = waiting
            late()
            self.assertEqual(([], 1), (plane.opened, len(plane.events)))

    def test_intricate_answer(self) -> None:
        """So is one that would take too long to be read."""
        plane = plane_for("messages")
        client = self.ask(plane)
        nested = b'"x":[' + b"{}," * 700_000 + b"{}]}"
        self.feed(plane, reply(MESSAGE[:-1] + b"," + nested))
        self.assertEqual(["answer_too_complex"], plane.outcomes)
        self.assertEqual(502, client.answer.status)

    def test_no_room_for_the_answer(self) -> None:
        """An answer that there is no room to read is paid for all the same."""
        for answer in (MESSAGE, self.long_answer(100_000)):
            plane = plane_for("messages")
            client = self.ask(plane)
            plane.plane.parse_memory.bytes = plane.plane.parse_memory.budget_bytes
            self.feed(plane, reply(answer))
            self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
            [event] = plane.events
            self.assertEqual(
                (503, 9, 3, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )
            self.assertEqual(["no_room"], plane.outcomes)
            self.assertEqual([], plane.refused)

    def test_no_room_for_the_request(self) -> None:
        """A request that there is no room to read is refused, and one of the same protocol not."""
        plane = MemoryDataPlane(
            routes=[route("small", ("u1", "m")), route("mixed", ("u1", "m"), ("u2", "m"))],
            upstreams=[upstream("u1", "anthropic"), upstream("u2")],
        )
        plane.plane.parse_memory.bytes = plane.plane.parse_memory.budget_bytes
        client = self.ask(plane)
        self.assertEqual((503, "overloaded"), (client.answer.status, client.answer.code))
        self.assertEqual(b"1", client.answer.headers[b"retry-after"])
        self.assertEqual([("k1", "overloaded")], plane.refused)
        plane.client().send(request(CHAT.replace(b"small", b"mixed")))
        self.assertEqual(["u2"], plane.at)

    def test_intricate_request(self) -> None:
        """One whose tree would take too much is refused for good."""
        plane = plane_for("messages")
        body = CHAT[:-1] + b',"x":[' + b"[]," * 1_000_000 + b"[]]}"
        client = plane.client()
        whole = request(body)
        for start in range(0, len(whole), 65536):
            client.send(whole[start : start + 65536])
        self.assertEqual((400, "request_too_complex"), (client.answer.status, client.answer.code))
        self.assertEqual([("k1", "request_too_complex")], plane.refused)

    def test_large_request(self) -> None:
        """A large request is translated in a turn of its own; its client may leave before that."""
        body = CHAT.replace(b"Hi", b"x" * (OWN_TURN_BYTES + 1))
        plane = plane_for("messages")
        client = plane.client()
        client.transport.peer_sends(request(body))
        self.assertEqual([], plane.opened)
        plane.turn()
        plane.last.answer(reply(MESSAGE))
        self.assertEqual(200, client.answer.status)
        client = plane.client()
        client.transport.peer_sends(request(body))
        client.leave()
        plane.turn()
        self.assertEqual(1, len(plane.opened))
        self.assertEqual(499, plane.events[-1].status)
        self.assertEqual(0, plane.in_flight)

    def test_large_request_that_is_refused(self) -> None:
        """What is wrong with such a one is told in that turn."""
        plane = plane_for("messages")
        client = plane.client()
        client.send(request(AUDIO.replace(b"AAAA", b"A" * OWN_TURN_BYTES)))
        self.assertEqual("untranslatable_request", client.answer.code)
        self.assertEqual(1, len(plane.refused))


class QuirkTests(SynchronousTestCase):
    REFUSED = reply(
        b'{"error":{"message":"Unsupported parameter: \'temperature\' is not supported with this '
        b'model.","type":"invalid_request_error","param":"temperature",'
        b'"code":"unsupported_parameter"}}',
        b"400 Bad Request",
    )
    BODY = MESSAGES[:-1] + b',"temperature":0.5}'

    def test_learned(self) -> None:
        """What a model refuses is left out at once, and from the start the next time."""
        plane = MemoryDataPlane(keys=[key(), key("k2", "og-other-key-0123456789")])
        client = plane.client()
        client.send(request(self.BODY, MESSAGES_PATH))
        self.assertEqual(0.5, sent_body(plane.last.requests())["temperature"])
        plane.last.answer(self.REFUSED)
        self.assertEqual(b"", client.received())
        self.assertNotIn("temperature", sent_body(plane.last.requests()))
        plane.last.answer(reply(ANSWER))
        self.assertEqual(200, client.answer.status)
        self.assertEqual(["status_400", "ok"], plane.outcomes)
        self.assertEqual(b"2", client.answer.headers[ATTEMPTS])
        client.send(request(self.BODY, MESSAGES_PATH))
        self.assertNotIn("temperature", sent_body(plane.last.requests()))
        plane.last.answer(reply(ANSWER))
        self.assertEqual(["ok"], plane.outcomes)
        other = plane.client()
        other.send(request(self.BODY, MESSAGES_PATH, secret="og-other-key-0123456789"))
        self.assertEqual(0.5, sent_body(plane.last.requests())["temperature"])

    def test_thought_signature(self) -> None:
        """A model that demands a signature of earlier calls is asked with one from then on."""
        blocks = (
            b'"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":'
            b'{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]'
        )
        body = MESSAGES.replace(b'"Hi"', blocks)
        refusal = b'{"error":{"message":"Function call is missing a thought_signature","code":400}}'
        plane = MemoryDataPlane()
        client = plane.client()
        for tries in (2, 1):
            client.send(request(body, MESSAGES_PATH))
            if tries == 2:
                self.assertNotIn(b"thought_signature", plane.last.requests())
                plane.last.answer(reply(refusal, b"400 Bad"))
            [call] = sent_body(plane.last.requests())["messages"][1]["tool_calls"]
            self.assertIn("thought_signature", call["extra_content"]["google"])
            plane.last.answer(reply(ANSWER))
            self.assertEqual(200, client.answer.status)
            self.assertEqual(tries, len(plane.outcomes))

    def test_refused_again(self) -> None:
        """A model that goes on refusing is not asked for ever: its words are the answer."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(self.BODY, MESSAGES_PATH))
        plane.last.answer(self.REFUSED)
        plane.last.answer(self.REFUSED)
        self.assertEqual(400, client.answer.status)
        self.assertEqual(["status_400", "ok"], plane.outcomes)

    def test_nothing_to_leave_out(self) -> None:
        """Where the request has nothing of the kind, the refusal is the answer."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(MESSAGES, MESSAGES_PATH))
        plane.last.answer(self.REFUSED)
        self.assertEqual(400, client.answer.status)
        self.assertEqual(0, len(plane.plane.quirks))

    def test_never_passing_through(self) -> None:
        """A client that speaks the upstream's protocol is told, and helps itself."""
        plane = MemoryDataPlane()
        client = plane.client()
        client.send(request(CHAT[:-1] + b',"temperature":0.5}'))
        plane.last.answer(self.REFUSED)
        self.assertEqual(400, client.answer.status)
        self.assertEqual(0, len(plane.plane.quirks))


class LeavingTests(SynchronousTestCase):
    def test_read_on(self) -> None:
        """Where the client leaves, the answer is read on in the upstream's protocol."""
        for sent in (0, 20, len(reply(MESSAGE)) - 1):
            plane = plane_for("messages")
            client = plane.client()
            client.send(request(CHAT))
            if sent:
                plane.last.answer(reply(MESSAGE)[:sent])
            client.leave()
            plane.last.answer(reply(MESSAGE)[sent:])
            [event] = plane.events
            self.assertEqual(
                (499, 9, 3, False),
                (event.status, event.input_tokens, event.output_tokens, event.estimated),
            )

    def test_long_answer(self) -> None:
        """So it is with one that was too long for others to be held already."""
        answer = reply(MESSAGE.replace(b"Hello", b"x" * 300_000))
        for sent in (1000, 150_000):
            plane = plane_for("messages")
            client = plane.client()
            client.send(request(CHAT))
            plane.last.answer(answer[:sent])
            client.leave()
            self.assertLessEqual(plane.plane.held.bytes, 65536)
            for start in range(sent, len(answer), 50_000):
                plane.last.answer(answer[start : start + 50_000])
            [event] = plane.events
            self.assertEqual(
                (9, 3, False), (event.input_tokens, event.output_tokens, event.estimated)
            )
            self.assertEqual(0, plane.plane.held.bytes)
